//! The bytes of frames (RFC 6455 §5.2): opcodes, and frames as a client writes them, masked with a fresh key each.

use crate::random::SplitMix64;

/// FIN: the message's last frame.
pub const FIN: u8 = 0x80;
/// RSV1: the message is compressed (RFC 7692 §6).
pub const COMPRESSED: u8 = 0x40;
/// The mask bit of the second byte.
pub const MASKED: u8 = 0x80;
/// Opcode of every frame of a message but its first.
pub const CONTINUATION: u8 = 0;
/// Opcode of a close frame.
pub const CLOSE: u8 = 8;
/// Opcode of a ping.
pub const PING: u8 = 9;
/// Opcode of a pong.
pub const PONG: u8 = 10;
/// The longest payload of a control frame, bytes (RFC 6455 §5.5).
pub const CONTROL_BYTES_MAX: usize = 125;
/// The longest head of a frame without a mask, bytes.
pub const HEAD_BYTES_MAX: usize = 10;

/// What a message holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// UTF-8.
    Text = 1,
    /// Bytes.
    Binary = 2,
}

/// A masking key. RFC 6455 §5.3 wants keys that a page in a browser cannot foresee; whoever chooses the load chooses all its
/// bytes anyway, and a run repeats.
pub fn key(random: &mut SplitMix64) -> [u8; 4] {
    (random.bits() as u32).to_be_bytes()
}

/// Appends a frame of a client: `first` is its first byte.
pub fn write(first: u8, payload: &[u8], key: [u8; 4], to: &mut Vec<u8>) {
    to.push(first);
    match payload.len() {
        length @ 0..=125 => to.push(MASKED | length as u8),
        length @ 126..=0xffff => {
            to.push(MASKED | 126);
            to.extend_from_slice(&(length as u16).to_be_bytes());
        }
        length => {
            to.push(MASKED | 127);
            to.extend_from_slice(&(length as u64).to_be_bytes());
        }
    }
    to.extend_from_slice(&key);
    let from = to.len();
    to.extend_from_slice(payload);
    mask(key, &mut to[from..]);
}

/// Masks, or unmasks.
pub fn mask(key: [u8; 4], bytes: &mut [u8]) {
    let twice = u64::from_ne_bytes([key[0], key[1], key[2], key[3], key[0], key[1], key[2], key[3]]);
    let (eights, rest) = bytes.as_chunks_mut::<8>();
    for eight in eights {
        *eight = (u64::from_ne_bytes(*eight) ^ twice).to_ne_bytes();
    }
    rest.iter_mut().zip(key.iter().cycle()).for_each(|(byte, key)| *byte ^= key);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_as_the_rfc_writes_them() {
        // RFC 6455 §5.7: "Hello", masked.
        let mut frame = Vec::new();
        write(FIN | Kind::Text as u8, b"Hello", [0x37, 0xfa, 0x21, 0x3d], &mut frame);
        assert_eq!(frame, [0x81, 0x85, 0x37, 0xfa, 0x21, 0x3d, 0x7f, 0x9f, 0x4d, 0x51, 0x58]);
        for (size, head) in [
            (0, &[0x82, 0x80][..]),
            (125, &[0x82, 0xfd]),
            (126, &[0x82, 0xfe, 0, 126]),
            (65_535, &[0x82, 0xfe, 0xff, 0xff]),
            (65_536, &[0x82, 0xff, 0, 0, 0, 0, 0, 1, 0, 0]),
        ] {
            let payload: Vec<u8> = (0..size).map(|at: u32| ((at * 31) >> 3) as u8).collect();
            let mut frame = Vec::new();
            write(0x82, &payload, [1, 2, 3, 4], &mut frame);
            let (got, masked) = frame.split_at(head.len());
            assert_eq!((got, &masked[..4]), (head, &[1, 2, 3, 4][..]));
            let plain: Vec<u8> = masked[4..].iter().zip([1, 2, 3, 4].iter().cycle()).map(|(a, b)| a ^ b).collect();
            assert!(plain == payload, "{size}");
        }
    }

    #[test]
    fn keys_differ_and_repeat_with_the_seed() {
        let keys = |seed| {
            let mut random = SplitMix64::new(seed);
            (0..1000).map(|_| key(&mut random)).collect::<Vec<_>>()
        };
        let distinct: std::collections::BTreeSet<_> = keys(1).into_iter().collect();
        assert_eq!(distinct.len(), 1000);
        assert_eq!(keys(1), keys(1));
        assert_ne!(keys(1), keys(2));
    }
}
