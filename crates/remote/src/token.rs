//! The token both sides share, and how each proves to have it without showing it.
//!
//! A proof is HMAC-SHA256 under the token over the connection's exported keying material (RFC 9266, `tls-exporter`; TLS
//! 1.3 alone) and the side's own label. Whoever stands between two TLS connections has two different exporters: a proof
//! passed on is none on the other, so neither the token nor the proof is of use to him, whatever certificate he shows.
//! The run proves first: an observer tells strangers nothing to guess a token by. Comparison takes constant time.

use super::limits::{TOKEN_BYTES_MAX, TOKEN_BYTES_MIN};
use aws_lc_rs::{hmac, rand};
use model::Secret;
use std::fmt::Write as _;

/// What RFC 9266 calls this exporter; its context is empty.
pub const EXPORTER_LABEL: &[u8] = b"EXPORTER-Channel-Binding";

/// The exported keying material of a connection.
pub type Binding = [u8; 32];

/// Whose proof it is: none is good for the other side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The one that connects.
    Run,
    /// The one that is connected to.
    Observer,
}

/// A shared secret. Its text does not show in debug output.
#[derive(Clone, Debug)]
pub struct Token(Secret);

/// Why a text is no token.
#[derive(Debug, thiserror::Error)]
#[error(
    "expected a token of {TOKEN_BYTES_MIN} to {TOKEN_BYTES_MAX} printable characters, got {got}: `openssl rand -hex 16` \
     makes one"
)]
pub struct NoToken {
    got: String,
}

impl Token {
    /// The token in a text; blanks and ends of line around it are not part of it.
    ///
    /// # Errors
    /// [`NoToken`], which does not repeat it.
    pub fn parse(text: &str) -> Result<Self, NoToken> {
        let text = text.trim();
        if text.chars().any(|c| c.is_control() || c.is_whitespace()) {
            return Err(NoToken { got: "one with blanks or control characters in it".to_owned() });
        }
        if !(TOKEN_BYTES_MIN..=TOKEN_BYTES_MAX).contains(&text.len()) {
            return Err(NoToken { got: format!("{} bytes", text.len()) });
        }
        Ok(Token(text.into()))
    }

    /// A new one: 128 random bits in hex. `None` where the kernel has no randomness.
    pub fn generate() -> Option<Self> {
        let mut bytes = [0; 16];
        rand::fill(&mut bytes).ok()?;
        Some(Token(hex(&bytes).into()))
    }

    /// Its text, to be shown once to whoever made it.
    pub fn text(&self) -> &str {
        // It was made of a text.
        std::str::from_utf8(self.0.expose()).unwrap_or_default()
    }

    /// Whether a text is this token; takes as long wherever they differ.
    pub fn is(&self, text: &str) -> bool {
        aws_lc_rs::constant_time::verify_slices_are_equal(self.0.expose(), text.as_bytes()).is_ok()
    }

    /// The proof of a side on a connection, in hex.
    pub fn proof(&self, side: Side, binding: &Binding) -> String {
        hex(hmac::sign(&self.key(), &said(side, binding)).as_ref())
    }

    /// Whether it is the proof of that side on this connection.
    pub fn is_proved(&self, side: Side, binding: &Binding, proof: &str) -> bool {
        unhex(proof).is_some_and(|proof| hmac::verify(&self.key(), &said(side, binding), &proof).is_ok())
    }

    fn key(&self) -> hmac::Key {
        hmac::Key::new(hmac::HMAC_SHA256, self.0.expose())
    }
}

fn said(side: Side, binding: &Binding) -> Vec<u8> {
    let label: &[u8] = match side {
        Side::Run => b"plimsoll observe 1 run\0",
        Side::Observer => b"plimsoll observe 1 observer\0",
    };
    [label, binding].concat()
}

/// Bytes in hex.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Thirty-two bytes from hex.
pub(super) fn unhex(text: &str) -> Option<[u8; 32]> {
    let mut bytes = [0; 32];
    if text.len() != 2 * bytes.len() || !text.is_ascii() {
        return None;
    }
    for (byte, at) in bytes.iter_mut().zip((0..text.len()).step_by(2)) {
        let digits = &text[at..at + 2];
        if !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return None;
        }
        *byte = u8::from_str_radix(digits, 16).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proof_is_good_for_one_token_one_side_and_one_connection() {
        let (token, other) = (Token::generate().unwrap(), Token::generate().unwrap());
        assert_ne!(token.text(), other.text());
        let proof = token.proof(Side::Run, &[7; 32]);
        assert!(token.is_proved(Side::Run, &[7; 32], &proof));
        assert!(!other.is_proved(Side::Run, &[7; 32], &proof));
        assert!(!token.is_proved(Side::Observer, &[7; 32], &proof), "sent back, it is nothing");
        assert!(!token.is_proved(Side::Run, &[8; 32], &proof), "on another connection, neither");
        for nonsense in ["", "00", &proof[1..], &format!("{proof}00"), &"zz".repeat(32), &"é".repeat(32), "+1"] {
            assert!(!token.is_proved(Side::Run, &[7; 32], nonsense), "{nonsense}");
        }
        assert!(!format!("{token:?}").contains(token.text()));
    }

    #[test]
    fn a_token_is_long_enough_not_to_be_guessed() {
        assert_eq!(Token::parse(" 0123456789abcdef\n").unwrap().text(), "0123456789abcdef");
        for wrong in ["", "secret", "0123456789abcde", "0123456789 abcdef", "0123456789\u{1}abcdef", &"a".repeat(1025)]
        {
            let error = Token::parse(wrong).unwrap_err().to_string();
            assert!(error.contains("16 to 1024") && (wrong.is_empty() || !error.contains(wrong)), "{error}");
        }
    }
}
