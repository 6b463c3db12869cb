//! permessage-deflate (RFC 7692) on the server's side: offers read and accepted, messages decompressed and compressed.
//!
//! Of several offers the first that can be kept is accepted. The DEFLATE is zlib-rs', of which the clients of this project
//! know nothing. Cost: some 300 KiB a connection that compresses, 40 KiB one that decompresses, made with its first message.

use flate2::{Compress, Compression as Level, Decompress, FlushCompress, FlushDecompress, Status};

use super::frame::{Fault, TOO_LONG};

/// A compressed message is decompressed in pieces of this size.
const INFLATE_PIECE_BYTES: usize = 16 * 1024;
/// What a flush ends in, and messages are sent without (RFC 7692 §7.2.1).
const LEFT_OUT: [u8; 4] = [0x00, 0x00, 0xff, 0xff];
const NOT_DEFLATE: Fault = Fault { code: 1007, why: "expected a compressed message to be DEFLATE" };

/// What was agreed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Agreed {
    server_no_context_takeover: bool,
    client_no_context_takeover: bool,
    /// Windows as powers of two; `None`: the largest, and nothing is said of it.
    server_bits: Option<u8>,
    client_bits: Option<u8>,
}

/// The first offer of permessage-deflate in the values of `Sec-WebSocket-Extensions` that can be kept.
pub(super) fn accept(values: &[&[u8]]) -> Option<Agreed> {
    let offers = values.iter().flat_map(|value| value.split(|byte| *byte == b','));
    offers.into_iter().find_map(accept_one)
}

fn accept_one(offer: &[u8]) -> Option<Agreed> {
    let mut parts = offer.split(|byte| *byte == b';').map(<[u8]>::trim_ascii);
    if parts.next() != Some(b"permessage-deflate") {
        return None;
    }
    let mut agreed = Agreed {
        server_no_context_takeover: false,
        client_no_context_takeover: false,
        server_bits: None,
        client_bits: None,
    };
    let mut names = Vec::new();
    for part in parts {
        let mut halves = part.splitn(2, |byte| *byte == b'=').map(<[u8]>::trim_ascii);
        let (name, value) = (halves.next()?, halves.next());
        // A parameter twice, unknown, or with a value it cannot have: the offer is declined (§5.2).
        if names.contains(&name) {
            return None;
        }
        names.push(name);
        match (name, value) {
            (b"server_no_context_takeover", None) => agreed.server_no_context_takeover = true,
            (b"client_no_context_takeover", None) => agreed.client_no_context_takeover = true,
            // zlib compresses with no smaller window than 2^9.
            (b"server_max_window_bits", Some(value)) => {
                agreed.server_bits = Some(bits(value).filter(|bits| *bits > 8)?)
            }
            (b"client_max_window_bits", None) => {}
            (b"client_max_window_bits", Some(value)) => agreed.client_bits = Some(bits(value)?),
            _ => return None,
        }
    }
    Some(agreed)
}

/// 8 to 15, in quotes or not.
fn bits(value: &[u8]) -> Option<u8> {
    let value = value.strip_prefix(b"\"").and_then(|value| value.strip_suffix(b"\"")).unwrap_or(value);
    match value {
        [digit @ b'8'..=b'9'] => Some(digit - b'0'),
        [b'1', digit @ b'0'..=b'5'] => Some(10 + digit - b'0'),
        _ => None,
    }
}

impl Agreed {
    /// As it stands in the answer.
    pub(super) fn push(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"permessage-deflate");
        if self.server_no_context_takeover {
            out.extend_from_slice(b"; server_no_context_takeover");
        }
        if self.client_no_context_takeover {
            out.extend_from_slice(b"; client_no_context_takeover");
        }
        for (name, bits) in [("server", self.server_bits), ("client", self.client_bits)] {
            if let Some(bits) = bits {
                out.extend_from_slice(format!("; {name}_max_window_bits={bits}").as_bytes());
            }
        }
    }
}

/// One connection's compression.
pub(super) struct Compression {
    agreed: Agreed,
    inflate: Option<Decompress>,
    deflate: Option<Compress>,
}

impl Compression {
    pub(super) fn new(agreed: Agreed) -> Self {
        Self { agreed, inflate: None, deflate: None }
    }

    /// Decompresses a piece of a message behind what `message` holds already. `piece`: scratch. What came before a fault is
    /// there, too, as far as a message may go: so what is found first does not depend on how the bytes were cut.
    pub(super) fn inflate(
        &mut self,
        mut input: &[u8],
        message: &mut Vec<u8>,
        bytes_max: usize,
        piece: &mut Vec<u8>,
    ) -> Result<(), Fault> {
        let bits = self.agreed.client_bits.unwrap_or(15).max(9);
        let inflate = self.inflate.get_or_insert_with(|| Decompress::new_with_window_bits(false, bits));
        piece.resize(INFLATE_PIECE_BYTES, 0);
        loop {
            let (before_in, before_out) = (inflate.total_in(), inflate.total_out());
            let status = inflate.decompress(input, piece, FlushDecompress::None);
            let made = (inflate.total_out() - before_out) as usize;
            input = &input[(inflate.total_in() - before_in) as usize..];
            let room = bytes_max.saturating_sub(message.len());
            message.extend_from_slice(&piece[..made.min(room)]);
            if made > room {
                return Err(TOO_LONG);
            }
            match status.map_err(|_| NOT_DEFLATE)? {
                // A last block may stand inside a message (§7.2.3.4).
                Status::StreamEnd => inflate.reset(false),
                Status::Ok | Status::BufError if made < piece.len() && input.is_empty() => return Ok(()),
                Status::BufError if made == 0 => return Err(NOT_DEFLATE),
                Status::Ok | Status::BufError => {}
            }
            if input.is_empty() && made < piece.len() {
                return Ok(());
            }
        }
    }

    /// The message is over: what was left out at its end is put there.
    pub(super) fn end(&mut self, message: &mut Vec<u8>, bytes_max: usize, piece: &mut Vec<u8>) -> Result<(), Fault> {
        self.inflate(&LEFT_OUT, message, bytes_max, piece)?;
        if self.agreed.client_no_context_takeover
            && let Some(inflate) = &mut self.inflate
        {
            inflate.reset(false);
        }
        Ok(())
    }

    /// Appends a message, compressed.
    pub(super) fn deflate(&mut self, message: &[u8], out: &mut Vec<u8>) {
        if message.is_empty() {
            // §7.2.3.6: a flush of nothing, of which zlib makes only one.
            return out.push(0);
        }
        let bits = self.agreed.server_bits.unwrap_or(15);
        let deflate = self.deflate.get_or_insert_with(|| Compress::new_with_window_bits(Level::fast(), false, bits));
        let mut rest = message;
        loop {
            out.reserve(rest.len() / 2 + 64);
            let before = deflate.total_in();
            // It fails only where a parameter of it is wrong.
            let _ = deflate.compress_vec(rest, out, FlushCompress::Sync);
            rest = &rest[(deflate.total_in() - before) as usize..];
            if rest.is_empty() && out.len() < out.capacity() {
                break;
            }
        }
        out.truncate(out.len() - LEFT_OUT.len());
        if self.agreed.server_no_context_takeover {
            deflate.reset();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(offer: &str) -> Option<String> {
        let mut out = Vec::new();
        accept(&[offer.as_bytes()])?.push(&mut out);
        Some(String::from_utf8(out).unwrap())
    }

    #[test]
    fn the_first_offer_that_can_be_kept_is_accepted() {
        for (offer, expected) in [
            ("permessage-deflate", Some("permessage-deflate")),
            ("permessage-deflate; client_max_window_bits", Some("permessage-deflate")),
            (
                "x-other; a=1, permessage-deflate;server_no_context_takeover; client_max_window_bits=\"10\"",
                Some("permessage-deflate; server_no_context_takeover; client_max_window_bits=10"),
            ),
            (
                "permessage-deflate; server_max_window_bits=8, permessage-deflate; server_max_window_bits=9",
                Some("permessage-deflate; server_max_window_bits=9"),
            ),
            ("permessage-deflate; unknown", None),
            ("permessage-deflate; client_no_context_takeover=1", None),
            ("permessage-deflate; client_no_context_takeover; client_no_context_takeover", None),
            ("permessage-deflate; server_max_window_bits", None),
            ("permessage-deflate; client_max_window_bits=16", None),
            ("permessage-deflate; client_max_window_bits=08", None),
            ("permessage-deflate2", None),
            ("", None),
        ] {
            assert_eq!(answer(offer).as_deref(), expected, "{offer}");
        }
    }

    #[test]
    fn messages_come_out_as_they_went_in() {
        for offer in [
            "permessage-deflate",
            "permessage-deflate; server_no_context_takeover; client_no_context_takeover; server_max_window_bits=9; client_max_window_bits=9",
        ] {
            let agreed = accept(&[offer.as_bytes()]).unwrap();
            let (mut sender, mut receiver, mut piece) =
                (Compression::new(agreed), Compression::new(agreed), Vec::new());
            for length in [0, 1, 0, 500, 100_000, 100_000, 3] {
                let message: Vec<u8> = (0..length).map(|at: usize| b"load"[at * at % 4]).collect();
                let (mut compressed, mut back) = (Vec::new(), Vec::new());
                sender.deflate(&message, &mut compressed);
                for byte in &compressed {
                    receiver.inflate(&[*byte], &mut back, length, &mut piece).unwrap();
                }
                receiver.end(&mut back, length, &mut piece).unwrap();
                assert!(back == message, "{offer} {length}");
            }
        }
    }

    #[test]
    fn what_is_no_deflate_or_too_long_is_refused() {
        let fresh = || Compression::new(accept(&[b"permessage-deflate"]).unwrap());
        let (mut message, mut piece) = (Vec::new(), Vec::new());
        assert_eq!(fresh().inflate(b"\x06", &mut message, 10, &mut piece), Err(NOT_DEFLATE));
        let mut bomb = Vec::new();
        fresh().deflate(&vec![0; 1 << 20], &mut bomb);
        assert_eq!(fresh().inflate(&bomb, &mut message, 100_000, &mut piece), Err(TOO_LONG));
        assert!(message.len() <= 100_000);
    }
}
