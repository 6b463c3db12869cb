//! Columns of numbers as the page has them: scaled to whole numbers, each the difference to the one before it, in varints
//! behind a head in JSON; deflated (RFC 1950, which browsers unpack by themselves), then in base64.
//!
//! In base64 nothing can end the element that it stands in, whatever a server sent. Cost: a column of a day's seconds takes
//! one to three bytes a value before it is deflated. What is not finite, or beyond 2⁵³ once scaled, is absent.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::ZlibEncoder;
use serde::Serialize;
use std::io::{self, Write};

/// What a browser's numbers are exact to.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// Columns, one after another.
#[derive(Debug, Default)]
pub struct Columns {
    bytes: Vec<u8>,
    heads: Vec<Head>,
}

/// Of one column.
#[derive(Debug, Clone, Copy, Serialize)]
struct Head {
    /// What its whole numbers are divided by.
    scale: f64,
    /// How many values it has.
    values: usize,
    /// How many bytes it takes.
    bytes: usize,
}

/// The number of a column.
pub type Column = usize;

impl Columns {
    /// Adds a column of values, each times `scale` and rounded; `None` is absent.
    pub fn push(&mut self, scale: f64, values: impl IntoIterator<Item = Option<f64>>) -> Column {
        let (from, mut count, mut before) = (self.bytes.len(), 0, 0i64);
        for value in values {
            count += 1;
            let whole = value.map(|value| (value * scale).round()).filter(|whole| whole.abs() < EXACT);
            match whole {
                None => self.bytes.push(0),
                Some(whole) => {
                    let whole = whole as i64;
                    // 0 is kept for what is absent.
                    varint(&mut self.bytes, zigzag(whole - before) + 1);
                    before = whole;
                }
            }
        }
        self.heads.push(Head { scale, values: count, bytes: self.bytes.len() - from });
        self.heads.len() - 1
    }

    /// The same of whole numbers that are all there.
    pub fn push_whole(&mut self, values: impl IntoIterator<Item = u64>) -> Column {
        self.push(1.0, values.into_iter().map(|value| Some(value as f64)))
    }

    /// All of it as text: the head's length (four bytes, little-endian), the head with the columns' own, the columns.
    ///
    /// # Errors
    /// None that can come: the writing is to memory.
    pub fn packed(&self, head: &impl Serialize) -> io::Result<String> {
        #[derive(Serialize)]
        struct Whole<'a, H> {
            columns: &'a [Head],
            #[serde(flatten)]
            head: &'a H,
        }
        let head = serde_json::to_vec(&Whole { columns: &self.heads, head })?;
        let length = u32::try_from(head.len()).map_err(io::Error::other)?;
        encoded(&[&length.to_le_bytes(), &head, &self.bytes])
    }
}

/// Bytes, deflated, in base64.
///
/// # Errors
/// None that can come: the writing is to memory.
pub fn encoded(parts: &[&[u8]]) -> io::Result<String> {
    let mut to = ZlibEncoder::new(Vec::new(), Compression::best());
    parts.iter().try_for_each(|part| to.write_all(part))?;
    Ok(STANDARD.encode(to.finish()?))
}

fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

/// LEB128.
fn varint(to: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        to.push(value as u8 | 0x80);
        value >>= 7;
    }
    to.push(value as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_is_differences_and_what_is_absent_is_a_zero() {
        let mut columns = Columns::default();
        columns.push(100.0, [Some(1.0), None, Some(0.5), Some(f64::NAN), Some(1e300), Some(2.0)]);
        // 100 → zigzag 200 + 1; absent; −50 → 99 + 1; absent twice; +150 → 300 + 1.
        assert_eq!(columns.bytes, [0xc9, 0x01, 0, 100, 0, 0, 0xad, 0x02]);
        assert_eq!((columns.heads[0].values, columns.heads[0].bytes), (6, 8));
        assert_eq!(columns.push_whole([3, 3]), 1);
        assert_eq!(columns.bytes[8..], [7, 1]);
    }

    #[test]
    fn nothing_in_it_can_end_an_element() {
        let text = encoded(&["</script><script>alert(1)</script>".repeat(50).as_bytes()]).unwrap();
        assert!(text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+/=".contains(&byte)));
    }
}
