//! Frames: four bytes of length, most significant first, then a message as JSON.
//!
//! JSON because snapshots have it already, for recordings: a field that is added is no new format. The decoder takes
//! bytes as they come, cut anywhere, and keeps no more than a frame of the stated bound.

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Bytes of the length.
const HEAD: usize = 4;

/// Why bytes are no frame.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// Longer than it may be.
    #[error("expected a message of at most {most} bytes, got one of {bytes}")]
    TooLong {
        /// What it may have.
        most: usize,
        /// What it says it has.
        bytes: usize,
    },
    /// Not a message that is known.
    #[error("expected a message of this protocol, got something else ({why})")]
    NotAMessage {
        /// In the parser's words.
        why: String,
    },
}

/// A message as a frame.
///
/// # Errors
/// [`FrameError::TooLong`] where it does not fit, [`FrameError::NotAMessage`] where it has no JSON.
pub fn encode<T: Serialize>(message: &T, most: usize) -> Result<Vec<u8>, FrameError> {
    let mut frame = vec![0; HEAD];
    serde_json::to_writer(&mut frame, message).map_err(|error| FrameError::NotAMessage { why: error.to_string() })?;
    let bytes = frame.len() - HEAD;
    match u32::try_from(bytes) {
        Ok(length) if bytes <= most => frame[..HEAD].copy_from_slice(&length.to_be_bytes()),
        _ => return Err(FrameError::TooLong { most, bytes }),
    }
    Ok(frame)
}

/// Bytes into messages.
#[derive(Debug)]
pub struct Decoder {
    kept: Vec<u8>,
    most: usize,
}

impl Decoder {
    /// One that takes frames of at most so many bytes.
    pub fn new(most: usize) -> Self {
        Decoder { kept: Vec::new(), most }
    }

    /// Takes longer frames, or only shorter ones, from now on.
    pub fn allow(&mut self, most: usize) {
        self.most = most;
    }

    /// Takes bytes in. Whoever calls takes messages out until there is none before giving more.
    pub fn push(&mut self, bytes: &[u8]) {
        self.kept.extend_from_slice(bytes);
    }

    /// Whether a message can be taken, or an error that stands for it.
    pub fn is_ready(&self) -> bool {
        match self.length() {
            Some(length) => length > self.most || self.kept.len() - HEAD >= length,
            None => false,
        }
    }

    /// The next message; `None`: not all of it is here.
    ///
    /// # Errors
    /// [`FrameError`]; nothing that follows can be read then.
    pub fn take<T: DeserializeOwned>(&mut self) -> Result<Option<T>, FrameError> {
        let Some(length) = self.length() else { return Ok(None) };
        if length > self.most {
            return Err(FrameError::TooLong { most: self.most, bytes: length });
        }
        let Some(body) = self.kept.get(HEAD..HEAD + length) else { return Ok(None) };
        let message =
            serde_json::from_slice(body).map_err(|error| FrameError::NotAMessage { why: error.to_string() })?;
        self.kept.drain(..HEAD + length);
        // A large snapshot must not leave its size behind for ever.
        self.kept.shrink_to(64 << 10);
        Ok(Some(message))
    }

    fn length(&self) -> Option<usize> {
        let head: [u8; HEAD] = self.kept.get(..HEAD)?.try_into().ok()?;
        usize::try_from(u32::from_be_bytes(head)).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::super::limits::ASKED_BYTES_MAX;
    use super::super::message::{FromRun, Start, Whom};
    use super::*;
    use model::bpf::Level;

    fn messages() -> Vec<FromRun> {
        let whom = Whom::Addresses(vec!["192.0.2.7:80".parse().unwrap(), "[2001:db8::1]:443".parse().unwrap()]);
        vec![
            FromRun::Ping { sent_ns: -1 },
            FromRun::Start(Start { whom, tick_ns: 100_000_000, probes: Level::Light }),
            FromRun::Slow,
            FromRun::Finish,
        ]
    }

    fn all(decoder: &mut Decoder) -> Vec<FromRun> {
        let mut found = Vec::new();
        while let Some(message) = decoder.take().unwrap() {
            found.push(message);
        }
        found
    }

    #[test]
    fn frames_cut_at_every_boundary_are_the_same_messages() {
        let bytes: Vec<u8> = messages().iter().flat_map(|m| encode(m, ASKED_BYTES_MAX).unwrap()).collect();
        for first in 0..=bytes.len() {
            for second in first..=bytes.len() {
                let mut decoder = Decoder::new(ASKED_BYTES_MAX);
                let mut found = Vec::new();
                for part in [&bytes[..first], &bytes[first..second], &bytes[second..]] {
                    decoder.push(part);
                    found.extend(all(&mut decoder));
                    assert!(!decoder.is_ready());
                }
                assert_eq!(found, messages());
            }
        }
    }

    #[test]
    fn a_frame_that_is_too_long_is_refused_by_its_head_alone() {
        let mut decoder = Decoder::new(10);
        decoder.push(&[0, 0, 0, 11]);
        assert!(decoder.is_ready());
        assert!(matches!(decoder.take::<FromRun>(), Err(FrameError::TooLong { most: 10, bytes: 11 })));
        assert!(matches!(encode(&"0123456789", 10), Err(FrameError::TooLong { most: 10, bytes: 12 })));
        let mut decoder = Decoder::new(1024);
        decoder.push(&[255; 4]);
        assert!(matches!(decoder.take::<FromRun>(), Err(FrameError::TooLong { .. })));
    }

    #[test]
    fn bytes_of_any_kind_are_a_message_or_an_error() {
        let frame = encode(&messages()[1], ASKED_BYTES_MAX).unwrap();
        // Every byte of a good frame in turn, changed to several others.
        for at in 0..frame.len() {
            for value in [0, 1, b'"', b'{', 0x7f, 0xff] {
                let mut bytes = frame.clone();
                bytes[at] = value;
                let mut decoder = Decoder::new(ASKED_BYTES_MAX);
                decoder.push(&bytes);
                // Whatever it is, it ends.
                let _ = decoder.take::<FromRun>();
            }
        }
        let mut decoder = Decoder::new(ASKED_BYTES_MAX);
        decoder.push(b"\0\0\0\x02{}");
        assert!(matches!(decoder.take::<FromRun>(), Err(FrameError::NotAMessage { .. })));
        decoder.push(&[]);
        let mut empty = Decoder::new(ASKED_BYTES_MAX);
        empty.push(&[0; 4]);
        assert!(matches!(empty.take::<FromRun>(), Err(FrameError::NotAMessage { .. })));
    }
}
