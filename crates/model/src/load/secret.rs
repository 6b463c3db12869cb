//! What is sent, but never stored or shown: passwords, tokens, bodies, header values, paths with their queries.
//!
//! A type rather than care: whoever writes it out, by serde, `{:?}` or `{}`, writes `***`, which tells nothing, its length
//! neither. Of a text only a part of which is secret, what stands in its place has been decided by [`crate::hide`] when it
//! was made. The one way to the bytes is [`Secret::expose`], and to a stored secret [`Secret::kept`].

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Cow;

/// What stands in the place of a secret.
pub const HIDDEN: &str = "***";

/// Bytes that are neither stored nor shown.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Secret {
    bytes: Vec<u8>,
    /// What stands in their place; `None`: `***`.
    shown: Option<String>,
    /// Whether serde writes the bytes.
    is_kept: bool,
}

impl Secret {
    /// Of these bytes, all of them secret.
    pub fn new(bytes: impl Into<Vec<u8>>) -> Self {
        Secret { bytes: bytes.into(), ..Secret::default() }
    }

    /// Of a text in whose place another may be shown.
    pub(crate) fn shown_as(text: &str, shown: String) -> Self {
        Secret { bytes: text.into(), shown: Some(shown), is_kept: false }
    }

    /// The bytes, for sending and for proofs.
    pub fn expose(&self) -> &[u8] {
        &self.bytes
    }

    /// The bytes as text, to take it apart and send it.
    pub fn expose_text(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.bytes)
    }

    /// What may be shown.
    pub fn shown(&self) -> &str {
        self.shown.as_deref().unwrap_or(HIDDEN)
    }

    /// With nothing left but what may be shown.
    #[must_use]
    pub fn forgotten(&self) -> Self {
        let bytes = self.shown.clone().unwrap_or_default().into_bytes();
        Secret { bytes, shown: self.shown.clone(), is_kept: false }
    }

    /// The same place with other bytes: what is shown there stays.
    #[must_use]
    pub fn with_bytes(&self, bytes: Vec<u8>) -> Self {
        Secret { bytes, ..self.clone() }
    }

    /// One that serde writes out in clear, for who asked for just that. Shown it is as little as any other.
    #[must_use]
    pub fn kept(&self) -> Self {
        Secret { is_kept: true, ..self.clone() }
    }
}

impl<T: Into<Vec<u8>>> From<T> for Secret {
    fn from(bytes: T) -> Self {
        Secret::new(bytes)
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.shown())
    }
}

impl std::fmt::Display for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.shown())
    }
}

impl Serialize for Secret {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.is_kept {
            serializer.serialize_str(&self.expose_text())
        } else {
            serializer.serialize_str(self.shown())
        }
    }
}

impl JsonSchema for Secret {
    fn schema_name() -> Cow<'static, str> {
        String::schema_name()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        String::json_schema(generator)
    }
}

impl<'de> Deserialize<'de> for Secret {
    /// Of a text, all of it secret. What was written by [`Secret::serialize`] comes back as `***`, for it was not kept;
    /// where a part may be shown, the field names its reader in [`crate::hide`].
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(Secret::new)
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
