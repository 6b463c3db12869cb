//! Replies into bytes: the five kinds of RESP2.

use std::io::Write;

/// `+OK`.
pub(super) const OK: &[u8] = b"+OK\r\n";
/// No value of that name.
pub(super) const NULL: &[u8] = b"$-1\r\n";

/// `-TEXT`; line ends in the text become blanks, for the protocol has none there.
pub(super) fn error(out: &mut Vec<u8>, text: &str) {
    out.push(b'-');
    out.extend(text.bytes().map(|byte| if byte == b'\r' || byte == b'\n' { b' ' } else { byte }));
    out.extend_from_slice(b"\r\n");
}

/// `:N`.
pub(super) fn integer(out: &mut Vec<u8>, value: u64) {
    number(out, b':', value);
}

/// `$LENGTH`, then the bytes.
pub(super) fn bulk(out: &mut Vec<u8>, bytes: &[u8]) {
    number(out, b'$', bytes.len() as u64);
    out.extend_from_slice(bytes);
    out.extend_from_slice(b"\r\n");
}

/// `*COUNT`; that many replies follow.
pub(super) fn array(out: &mut Vec<u8>, count: u64) {
    number(out, b'*', count);
}

fn number(out: &mut Vec<u8>, kind: u8, value: u64) {
    // Writing into a Vec cannot fail.
    let _ = write!(out, "{}{value}\r\n", char::from(kind));
}
