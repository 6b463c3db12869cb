//! What is sent, but never stored or shown: passwords, tokens, bodies.
//!
//! A type rather than care: whoever writes it out, by serde, `{:?}` or `{}`, writes `***`, which tells nothing, its length
//! neither. [`crate::hide`] does the same to texts that have a secret in them.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// What stands in the place of a secret.
pub const HIDDEN: &str = "***";

/// Bytes that are neither stored nor shown.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Secret(Vec<u8>);

impl Secret {
    /// Of these bytes.
    pub fn new(bytes: impl Into<Vec<u8>>) -> Self {
        Secret(bytes.into())
    }

    /// The bytes, for sending and for proofs.
    pub fn expose(&self) -> &[u8] {
        &self.0
    }
}

impl<T: Into<Vec<u8>>> From<T> for Secret {
    fn from(bytes: T) -> Self {
        Secret(bytes.into())
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(HIDDEN)
    }
}

impl std::fmt::Display for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(HIDDEN)
    }
}

impl Serialize for Secret {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(HIDDEN)
    }
}

impl<'de> Deserialize<'de> for Secret {
    /// Of a text. What was written by [`Secret::serialize`] comes back as `***`, for it was not kept.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(|text| Secret(text.into_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_neither_shown_nor_stored() {
        for text in ["", "x", "open sesame"] {
            let secret = Secret::from(text);
            let shown = [format!("{secret:?}"), format!("{secret}"), format!("{secret:#?}")];
            assert_eq!(shown, [HIDDEN; 3]);
            assert_eq!(serde_json::to_string(&secret).unwrap(), "\"***\"");
            assert_eq!(secret.expose(), text.as_bytes());
        }
        let read: Secret = serde_json::from_str("\"open sesame\"").unwrap();
        assert_eq!(read.expose(), b"open sesame");
        let login = crate::resp::Login { auth: true, password: read, ..crate::resp::Login::default() };
        let stored = serde_json::to_string(&login).unwrap();
        assert!(!format!("{login:?}{stored}").contains("sesame"));
    }
}
