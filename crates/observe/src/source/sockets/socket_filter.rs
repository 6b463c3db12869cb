//! A filter of sockets by their own port, as the kernel runs it over each socket that a request of sock_diag(7) walks
//! through (`INET_DIAG_REQ_BYTECODE`; `inet_diag_bc_run` of net/ipv4/inet_diag.c): so connections that clients made to a
//! server are not handed over one by one where only those are wanted that it made itself.
//!
//! Each step is four bytes: what it does, how far to go on if it holds, how far if not. Behind a comparison stands a step
//! whose last field is the port. Who comes to the end is let through, who goes beyond is not.

/// `INET_DIAG_BC_NOP`, `_JMP`, `_S_GE` and `_S_LE`.
const NOP: u8 = 0;
const JUMP: u8 = 1;
const AT_LEAST: u8 = 2;
const AT_MOST: u8 = 3;
/// Bytes of a step, and of the five that a port takes.
const STEP: u16 = 4;
const PORT: u16 = 5 * STEP;

/// Lets through all but those that have one of the ports at this end; empty where there is none.
pub(crate) fn but_from_ports(ports: &[u16]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(ports.len() * usize::from(PORT));
    let mut step = |what: u8, yes: u8, no: u16| {
        bytes.extend([what, yes]);
        bytes.extend(no.to_ne_bytes());
    };
    // So many that the way out can be told in 16 bits.
    let ports = ports.get(..ports.len().min(1000)).unwrap_or_default();
    for (left, port) in (1..=ports.len() as u16).rev().zip(ports) {
        // Not at least this port, or not at most: to the next port.
        step(AT_LEAST, 2 * STEP as u8, PORT);
        step(NOP, STEP as u8, *port);
        step(AT_MOST, 2 * STEP as u8, PORT - 2 * STEP);
        step(NOP, STEP as u8, *port);
        // A jump goes the way of what does not hold: beyond the end.
        step(JUMP, STEP as u8, left * PORT - 4 * STEP + STEP);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As the kernel runs it.
    fn lets_through(filter: &[u8], port: u16) -> bool {
        let (mut at, end) = (0, filter.len());
        while at < end {
            let no = |at: usize| u16::from_ne_bytes([filter[at + 2], filter[at + 3]]);
            let holds = match filter[at] {
                AT_LEAST => port >= no(at + 4),
                AT_MOST => port <= no(at + 4),
                JUMP => false,
                other => panic!("{other} at {at}"),
            };
            at += if holds { usize::from(filter[at + 1]) } else { usize::from(no(at)) };
        }
        at == end
    }

    #[test]
    fn only_the_ports_that_are_named_are_left_out() {
        for ports in [&[80][..], &[80, 443], &[443, 80, 81], &[0, u16::MAX]] {
            let filter = but_from_ports(ports);
            for port in [0, 1, 79, 80, 81, 82, 442, 443, 444, u16::MAX - 1, u16::MAX] {
                assert_eq!(lets_through(&filter, port), !ports.contains(&port), "{port} of {ports:?}");
            }
        }
        assert!(but_from_ports(&[]).is_empty());
        let many: Vec<u16> = (1..=2000).collect();
        assert_eq!(but_from_ports(&many).len(), 20_000);
        assert!(!lets_through(&but_from_ports(&many), 1));
    }
}
