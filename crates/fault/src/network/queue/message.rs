//! Messages of a queue of packets (nfnetlink_queue): what is said to the kernel, and what it says of a packet.
//!
//! Layout: linux/netlink.h, linux/netfilter/nfnetlink.h, linux/netfilter/nfnetlink_queue.h. Numbers of the header are in the
//! machine's order, those of attributes in the network's. Bytes only: nothing here is sent or received.

/// `NFNL_SUBSYS_QUEUE` in the upper byte of a message's type.
const QUEUE: u16 = 3 << 8;
/// `NFQNL_MSG_PACKET`, `_VERDICT`, `_CONFIG`.
const PACKET: u16 = QUEUE;
const VERDICT: u16 = QUEUE | 1;
const CONFIG: u16 = QUEUE | 2;
/// `NLMSG_ERROR`, also the answer to what is well.
const ERROR: u16 = 2;
/// `NLM_F_REQUEST`, `NLM_F_ACK`.
const REQUEST: u16 = 1;
const ACKNOWLEDGE: u16 = 4;
/// The header of netlink, and with it that of netfilter's part.
const HEADER_BYTES: usize = 16;
const HEADERS_BYTES: usize = 20;
/// Attributes of a packet: `NFQA_PACKET_HDR`, `NFQA_PAYLOAD`.
const ATTRIBUTE_PACKET: u16 = 1;
const ATTRIBUTE_PAYLOAD: u16 = 10;
/// Of a verdict: `NFQA_VERDICT_HDR`. Of a queue: `NFQA_CFG_CMD`, `_PARAMS`, `_QUEUE_MAXLEN`, `_MASK`, `_FLAGS`.
const ATTRIBUTE_VERDICT: u16 = 2;
const ATTRIBUTE_COMMAND: u16 = 1;
const ATTRIBUTE_COPY: u16 = 2;
const ATTRIBUTE_LENGTH_MAX: u16 = 3;
const ATTRIBUTE_MASK: u16 = 4;
const ATTRIBUTE_FLAGS: u16 = 5;
/// `NFQNL_CFG_CMD_BIND`, `NFQNL_COPY_PACKET`, `NF_ACCEPT`.
const BIND: u8 = 1;
const COPY_PACKET: u8 = 2;
const ACCEPT: u32 = 1;
/// `NF_DROP`.
const DROP: u32 = 0;
/// `NFQA_CFG_F_GSO`: packets larger than the wire's are given whole.
const WHOLE: u32 = 4;

/// What the kernel said.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Said<'a> {
    /// A packet waits, from its IP header on.
    Packet { id: u32, bytes: &'a [u8] },
    /// The answer to the last request: 0, or an error's number.
    Answer(i32),
}

/// Takes a queue of this number for this socket.
pub(super) fn bind(queue: u16) -> Vec<u8> {
    message(CONFIG, ACKNOWLEDGE, queue, &[(ATTRIBUTE_COMMAND, &[BIND, 0, 0, 0])])
}

/// How much of each packet is wanted, how many may wait, and whether large ones come whole.
pub(super) fn configure(queue: u16, copy_bytes: u32, length_max: u32, is_whole: bool) -> Vec<u8> {
    let mut copy = copy_bytes.to_be_bytes().to_vec();
    copy.push(COPY_PACKET);
    let flags = if is_whole { WHOLE } else { 0 };
    let attributes: [(u16, &[u8]); 4] = [
        (ATTRIBUTE_COPY, &copy),
        (ATTRIBUTE_LENGTH_MAX, &length_max.to_be_bytes()),
        (ATTRIBUTE_MASK, &WHOLE.to_be_bytes()),
        (ATTRIBUTE_FLAGS, &flags.to_be_bytes()),
    ];
    message(CONFIG, ACKNOWLEDGE, queue, &attributes)
}

/// Lets a packet go on, with other bytes where these are given. Not answered. Several may be sent as one datagram.
pub(super) fn accept(queue: u16, id: u32, changed: Option<&[u8]>) -> Vec<u8> {
    let mut verdict = ACCEPT.to_be_bytes().to_vec();
    verdict.extend(id.to_be_bytes());
    let mut attributes: Vec<(u16, &[u8])> = vec![(ATTRIBUTE_VERDICT, &verdict)];
    attributes.extend(changed.map(|bytes| (ATTRIBUTE_PAYLOAD, bytes)));
    message(VERDICT, 0, queue, &attributes)
}

/// Drops a packet. Not answered.
pub(super) fn drop_packet(queue: u16, id: u32) -> Vec<u8> {
    let verdict = [DROP.to_be_bytes(), id.to_be_bytes()].concat();
    message(VERDICT, 0, queue, &[(ATTRIBUTE_VERDICT, &verdict)])
}

fn message(kind: u16, flags: u16, queue: u16, attributes: &[(u16, &[u8])]) -> Vec<u8> {
    let mut bytes = vec![0; HEADERS_BYTES];
    bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
    bytes[6..8].copy_from_slice(&(REQUEST | flags).to_ne_bytes());
    bytes[18..20].copy_from_slice(&queue.to_be_bytes());
    for (kind, value) in attributes {
        // An attribute's length is of 16 bits; packets are no longer.
        bytes.extend(u16::try_from(4 + value.len()).unwrap_or(u16::MAX).to_ne_bytes());
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(*value);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
    }
    let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    bytes[..4].copy_from_slice(&length.to_ne_bytes());
    bytes
}

/// All that one datagram says. What is cut off or of another kind is passed over.
pub(super) fn said(mut datagram: &[u8]) -> Vec<Said<'_>> {
    let mut all = Vec::new();
    while datagram.len() >= HEADER_BYTES {
        let length = u32_at(datagram, 0, u32::from_ne_bytes) as usize;
        if length < HEADER_BYTES || length > datagram.len() {
            break;
        }
        let (message, rest) = datagram.split_at(length.next_multiple_of(4).min(datagram.len()));
        let message = &message[..length];
        match u16::from_ne_bytes([message[4], message[5]]) {
            ERROR if length >= HEADERS_BYTES => {
                all.push(Said::Answer(u32_at(message, HEADER_BYTES, u32::from_ne_bytes).cast_signed().abs()));
            }
            PACKET if length >= HEADERS_BYTES => all.extend(packet(&message[HEADERS_BYTES..])),
            _ => {}
        }
        datagram = rest;
    }
    all
}

fn packet(mut attributes: &[u8]) -> Option<Said<'_>> {
    let (mut id, mut bytes) = (None, &[][..]);
    while attributes.len() >= 4 {
        let length = usize::from(u16::from_ne_bytes([attributes[0], attributes[1]]));
        if length < 4 || length > attributes.len() {
            break;
        }
        let value = &attributes[4..length];
        // The two upper bits say how an attribute is to be read, not which it is.
        match u16::from_ne_bytes([attributes[2], attributes[3]]) & 0x3fff {
            ATTRIBUTE_PACKET if value.len() >= 4 => id = Some(u32_at(value, 0, u32::from_be_bytes)),
            ATTRIBUTE_PAYLOAD => bytes = value,
            _ => {}
        }
        attributes = &attributes[length.next_multiple_of(4).min(attributes.len())..];
    }
    Some(Said::Packet { id: id?, bytes })
}

fn u32_at(bytes: &[u8], at: usize, order: fn([u8; 4]) -> u32) -> u32 {
    order([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A packet as the kernel tells of it, with an attribute that nobody asked for.
    fn told() -> Vec<u8> {
        let header = [7_u32.to_be_bytes().as_slice(), &[8, 0, 1]].concat();
        message(PACKET, 0, 3, &[(ATTRIBUTE_PACKET, &header), (9, &[1; 5]), (ATTRIBUTE_PAYLOAD, b"abcde")])
    }

    #[test]
    fn packets_and_answers_are_told_apart() {
        let mut datagram = told();
        let mut error = message(ERROR, 0, 0, &[]);
        error[16..20].copy_from_slice(&(-1_i32).to_ne_bytes());
        datagram.extend(error);
        assert_eq!(said(&datagram), [Said::Packet { id: 7, bytes: b"abcde" }, Said::Answer(1)]);
    }

    #[test]
    fn cut_anywhere_it_says_less_and_nothing_else() {
        let whole = told();
        for cut in 0..whole.len() {
            assert!(said(&whole[..cut]).is_empty(), "{cut}");
        }
        for at in 0..whole.len() {
            for value in [0, 1, 3, 0x7f, 0xff] {
                let mut damaged = whole.clone();
                damaged[at] = value;
                drop(said(&damaged));
            }
        }
    }

    #[test]
    fn a_verdict_has_its_packet_and_what_became_of_it() {
        let bytes = accept(5, 9, Some(b"xyz"));
        assert_eq!(bytes.len() % 4, 0);
        assert_eq!(u32_at(&bytes, 0, u32::from_ne_bytes) as usize, bytes.len());
        assert_eq!(bytes[18..20], [0, 5]);
        assert_eq!(bytes[24..32], [0, 0, 0, 1, 0, 0, 0, 9]);
        assert_eq!(bytes[32..39], [7, 0, 10, 0, b'x', b'y', b'z']);
    }
}
