//! Units as people write them: `500ms`, `30s`, `2m`; `10k`, `1m` decimal counts; `64KiB` sizes; `5k/s` rates.
//!
//! One parser for flags, environment and files, so the same text means the same everywhere.

use std::fmt;

/// Text that is not of the unit's form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnitError {
    /// What was written.
    pub got: String,
    /// What was expected, with an example.
    pub expected: &'static str,
}

impl fmt::Display for UnitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "expected {}, got '{}'", self.expected, self.got)
    }
}

impl std::error::Error for UnitError {}

const DURATION: &str = "a duration such as 500ms, 30s, 2m or 1h";
const COUNT: &str = "a count such as 50, 10k or 1m";
const SIZE: &str = "a size such as 512B, 64KiB, 10MB or 1GiB";
const RATE: &str = "a rate such as 500/s, 5k/s or 600/m";

/// Nanoseconds of a duration. A bare number is seconds.
///
/// ```
/// assert_eq!(model::units::duration_ns("500ms"), Ok(500_000_000));
/// assert_eq!(model::units::duration_ns("2m"), Ok(120_000_000_000));
/// assert!(model::units::duration_ns("-1s").is_err());
/// ```
///
/// # Errors
/// [`UnitError`] where the text is no duration, is negative, or is longer than about 584 years.
pub fn duration_ns(text: &str) -> Result<u64, UnitError> {
    let (number, unit) = split(text);
    let scale = match unit {
        "ns" => 1.0,
        "us" | "µs" => 1e3,
        "ms" => 1e6,
        "s" | "" => 1e9,
        "m" | "min" => 60e9,
        "h" => 3600e9,
        _ => {
            return Err(UnitError { got: text.to_owned(), expected: DURATION });
        }
    };
    scaled(number, scale, text, DURATION)
}

/// A count: `50`, `10k`, `1m`, `2g`, decimal.
///
/// ```
/// assert_eq!(model::units::count("10k"), Ok(10_000));
/// assert_eq!(model::units::count("1.5m"), Ok(1_500_000));
/// ```
///
/// # Errors
/// [`UnitError`] where the text is no count or not a whole one.
pub fn count(text: &str) -> Result<u64, UnitError> {
    let (number, unit) = split(text);
    let scale = match unit {
        "" => 1.0,
        "k" | "K" => 1e3,
        "m" | "M" => 1e6,
        "g" | "G" => 1e9,
        _ => {
            return Err(UnitError { got: text.to_owned(), expected: COUNT });
        }
    };
    let value = number.parse::<f64>().map_err(|_| UnitError { got: text.to_owned(), expected: COUNT })? * scale;
    if value.fract().abs() > 1e-6 {
        return Err(UnitError { got: text.to_owned(), expected: COUNT });
    }
    scaled(number, scale, text, COUNT)
}

/// Bytes: `512`, `512B`, `64KiB` (binary), `10MB` (decimal).
///
/// ```
/// assert_eq!(model::units::size_bytes("64KiB"), Ok(65_536));
/// assert_eq!(model::units::size_bytes("1MB"), Ok(1_000_000));
/// ```
///
/// # Errors
/// [`UnitError`] where the text is no size.
pub fn size_bytes(text: &str) -> Result<u64, UnitError> {
    let (number, unit) = split(text);
    let scale = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 1.0,
        "kib" => 1024.0,
        "mib" => 1_048_576.0,
        "gib" => 1_073_741_824.0,
        "kb" | "k" => 1e3,
        "mb" | "m" => 1e6,
        "gb" | "g" => 1e9,
        _ => {
            return Err(UnitError { got: text.to_owned(), expected: SIZE });
        }
    };
    scaled(number, scale, text, SIZE)
}

/// Events per second: `500`, `500/s`, `5k/s`, `600/m`.
///
/// ```
/// assert_eq!(model::units::rate_per_s("5k/s"), Ok(5000.0));
/// assert_eq!(model::units::rate_per_s("600/m"), Ok(10.0));
/// ```
///
/// # Errors
/// [`UnitError`] where the text is no rate, or is zero or negative.
pub fn rate_per_s(text: &str) -> Result<f64, UnitError> {
    let error = || UnitError { got: text.to_owned(), expected: RATE };
    let (amount, per_s) = match text.trim().split_once('/') {
        None => (text.trim(), 1.0),
        Some((amount, "s")) => (amount, 1.0),
        Some((amount, "m" | "min")) => (amount, 1.0 / 60.0),
        Some((amount, "h")) => (amount, 1.0 / 3600.0),
        Some(_) => return Err(error()),
    };
    let (number, unit) = split(amount);
    let scale = match unit {
        "" => 1.0,
        "k" | "K" => 1e3,
        "m" | "M" => 1e6,
        _ => return Err(error()),
    };
    let value = number.parse::<f64>().map_err(|_| error())? * scale * per_s;
    if value.is_finite() && value > 0.0 && value <= 1e9 { Ok(value) } else { Err(error()) }
}

/// A duration as people read it: three figures and the unit that fits, such as `43.7 ms`.
pub fn show_duration_ns(ns: f64) -> String {
    let (value, unit) = match ns.abs() {
        v if v < 1e3 => (ns, "ns"),
        v if v < 1e6 => (ns / 1e3, "µs"),
        v if v < 1e9 => (ns / 1e6, "ms"),
        v if v < 120e9 => (ns / 1e9, "s"),
        v if v < 7200e9 => (ns / 60e9, "min"),
        _ => (ns / 3600e9, "h"),
    };
    format!("{} {unit}", three_figures(value))
}

/// A count or rate as people read it: exact below 10,000 (`5,000`), then `12.3k`, `4.56M`.
pub fn show_count(value: f64) -> String {
    match value.abs() {
        v if v < 999.5 && v.fract() == 0.0 => format!("{value:.0}"),
        v if v < 999.5 => three_figures(value),
        v if v < 9999.5 => show_figure(value),
        v if v < 1e6 => format!("{}k", three_figures(value / 1e3)),
        v if v < 1e9 => format!("{}M", three_figures(value / 1e6)),
        _ => format!("{}G", three_figures(value / 1e9)),
    }
}

/// A figure all of whose digits can be read: whole and in groups from a thousand on, else three figures.
pub fn show_figure(value: f64) -> String {
    if value.abs() < 999.5 {
        return show_count(value);
    }
    format!("{}{}", if value < 0.0 { "-" } else { "" }, show_grouped(value.abs().round() as u64))
}

/// A count with its digits in groups: `2,281,234`.
pub fn show_grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Bytes as people read them, binary units: `1.21 MiB`.
pub fn show_bytes(bytes: f64) -> String {
    let (value, unit) = match bytes.abs() {
        v if v < 1024.0 => return format!("{bytes:.0} B"),
        v if v < 1_048_576.0 => (bytes / 1024.0, "KiB"),
        v if v < 1_073_741_824.0 => (bytes / 1_048_576.0, "MiB"),
        _ => (bytes / 1_073_741_824.0, "GiB"),
    };
    format!("{} {unit}", three_figures(value))
}

fn three_figures(value: f64) -> String {
    match value.abs() {
        v if v >= 99.95 => format!("{value:.0}"),
        v if v >= 9.995 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

fn split(text: &str) -> (&str, &str) {
    let text = text.trim();
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    (&text[..end], text[end..].trim_start())
}

fn scaled(number: &str, scale: f64, text: &str, expected: &'static str) -> Result<u64, UnitError> {
    let error = || UnitError { got: text.to_owned(), expected };
    // Whole numbers stay exact: a float would lose the last digits of large counts.
    if let Ok(whole) = number.parse::<u64>() {
        return whole.checked_mul(scale as u64).ok_or_else(error);
    }
    let value = number.parse::<f64>().map_err(|_| error())? * scale;
    if value.is_finite() && value < u64::MAX as f64 { Ok(value.round() as u64) } else { Err(error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nonsense_is_refused_with_what_was_expected() {
        for text in ["", "x", "1x", "-1", "1e5", "..", "1.2.3", "99999999999999999999999h", "ms", "1 0"] {
            assert!(duration_ns(text).is_err(), "{text}");
            assert!(count(text).is_err(), "{text}");
            assert!(rate_per_s(text).is_err(), "{text}");
        }
        assert_eq!(duration_ns("1x").unwrap_err().to_string(), format!("expected {DURATION}, got '1x'"));
        assert!(count("1.5").is_err() && count("0.5k") == Ok(500));
        assert!(rate_per_s("0").is_err() && rate_per_s("5/d").is_err());
    }

    #[test]
    fn shown_units_read_well() {
        let shown: Vec<String> =
            [0.0, 999.0, 1234.0, 43_720_000.0, 1e9, 119e9, 600e9].iter().map(|ns| show_duration_ns(*ns)).collect();
        assert_eq!(shown, ["0.00 ns", "999 ns", "1.23 µs", "43.7 ms", "1.00 s", "119 s", "10.0 min"]);
        assert_eq!([999.4, 999.6, 9999.0, -1234.5].map(show_count), ["999", "1,000", "9,999", "-1,235"]);
        assert_eq!(show_count(12_345.0), "12.3k");
        assert_eq!(show_count(228.12), "228");
        assert_eq!(show_bytes(1_268_777.0), "1.21 MiB");
    }
}
