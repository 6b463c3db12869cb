//! Merged ticks as bytes: row and figures as the JSON that a tick has of them, then its histograms, all deflated.
//!
//! Nothing in the bytes is trusted; what they may become is bounded. Who wants only the row inflates only that.

use crate::figures::Figures;
use crate::limits::{DEFLATE_LEVEL, MERGED_BYTES_MAX};
use flate2::Compression;
use flate2::read::DeflateDecoder;
use flate2::write::DeflateEncoder;
use model::recording::Row;
use std::io::{Read, Write};

/// A tick that stands for several.
pub(crate) struct MergedTick {
    /// Its row and figures.
    pub head: (Row, Figures),
    /// Each kind of latency by its name, as in the table `histogram`.
    pub histograms: Vec<(String, Vec<u8>)>,
}

impl MergedTick {
    /// All of it as bytes.
    ///
    /// # Errors
    /// In words; none that can come.
    pub fn pack(&self) -> Result<Vec<u8>, String> {
        let text = |error: serde_json::Error| error.to_string();
        let head =
            (serde_json::to_string(&self.head.0).map_err(text)?, serde_json::to_string(&self.head.1).map_err(text)?);
        let head = postcard::to_stdvec(&head).map_err(|error| error.to_string())?;
        let histograms = postcard::to_stdvec(&self.histograms).map_err(|error| error.to_string())?;
        let length = u32::try_from(head.len()).map_err(|error| error.to_string())?;
        deflated(&[&length.to_le_bytes(), &head, &histograms])
    }

    /// The opposite of [`MergedTick::pack`].
    ///
    /// # Errors
    /// In words, where the bytes are none that it made.
    pub fn unpack(bytes: &[u8]) -> Result<Self, String> {
        let mut from = inflating(bytes, MERGED_BYTES_MAX);
        let head = read_head(&mut from)?;
        let mut rest = Vec::new();
        from.read_to_end(&mut rest).map_err(|error| error.to_string())?;
        let histograms = postcard::from_bytes(&rest).map_err(|error| error.to_string())?;
        Ok(MergedTick { head, histograms })
    }

    /// Row and figures alone.
    ///
    /// # Errors
    /// As [`MergedTick::unpack`].
    pub fn unpack_head(bytes: &[u8]) -> Result<(Row, Figures), String> {
        read_head(&mut inflating(bytes, MERGED_BYTES_MAX))
    }
}

/// Row and figures of a tick's texts.
///
/// # Errors
/// In words, where they are none.
pub(crate) fn head(row: &str, figures: &str) -> Result<(Row, Figures), String> {
    let text = |error: serde_json::Error| error.to_string();
    Ok((serde_json::from_str(row).map_err(text)?, serde_json::from_str(figures).map_err(text)?))
}

fn read_head(from: &mut impl Read) -> Result<(Row, Figures), String> {
    let text = |error: std::io::Error| error.to_string();
    let mut length = [0; 4];
    from.read_exact(&mut length).map_err(text)?;
    let mut bytes = Vec::new();
    let length = u64::from(u32::from_le_bytes(length));
    if from.take(length).read_to_end(&mut bytes).map_err(text)? as u64 != length {
        return Err("it ends in the middle of its row".to_owned());
    }
    let (row, figures): (&str, &str) = postcard::from_bytes(&bytes).map_err(|error| error.to_string())?;
    head(row, figures)
}

/// Some bytes after another, deflated (RFC 1951).
///
/// # Errors
/// In words; none that can come.
pub(crate) fn deflated(parts: &[&[u8]]) -> Result<Vec<u8>, String> {
    let mut to = DeflateEncoder::new(Vec::new(), Compression::new(DEFLATE_LEVEL));
    let written = parts.iter().try_for_each(|part| to.write_all(part));
    written.and_then(|()| to.finish()).map_err(|error| error.to_string())
}

/// The opposite of [`deflated`], of which no more than so many bytes are read.
pub(crate) fn inflating(bytes: &[u8], most: u64) -> impl Read {
    DeflateDecoder::new(bytes).take(most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_merged_tick_is_read_as_it_was_written_and_no_bytes_make_it_stop() {
        let row = Row { start_ns: 5, end_ns: 9, response_p99_ns: Some(7), ..Row::default() };
        let histograms = vec![("response".to_owned(), vec![1, 2, 3]), ("lag".to_owned(), vec![0; 300])];
        let tick = MergedTick { head: (row, Figures::default()), histograms };
        let bytes = tick.pack().unwrap();
        let back = MergedTick::unpack(&bytes).unwrap();
        assert_eq!((back.head.0, &back.histograms), (row, &tick.histograms));
        assert_eq!(MergedTick::unpack_head(&bytes).unwrap().0, row);
        for at in 0..bytes.len() {
            assert!(MergedTick::unpack(&bytes[..at]).is_err(), "cut at {at}");
            let mut other = bytes.clone();
            other[at] ^= 0x55;
            // Sense or none: it must not panic.
            let _ = MergedTick::unpack(&other);
        }
    }

    #[test]
    fn what_would_grow_without_bound_is_cut() {
        let bomb = deflated(&[&vec![0; 3 * MERGED_BYTES_MAX as usize]]).unwrap();
        let mut inflated = Vec::new();
        inflating(&bomb, MERGED_BYTES_MAX).read_to_end(&mut inflated).unwrap();
        assert_eq!(inflated.len() as u64, MERGED_BYTES_MAX);
    }
}
