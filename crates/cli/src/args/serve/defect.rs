//! `--defect NAME[=STRENGTH][@START]`, as text and as value.

use model::units;
use servers::defects::{self, Setting, Strength};
use std::time::Duration;

/// A defect with its strength and the second it begins at.
pub fn parse(text: &str) -> Result<Setting, String> {
    let (rest, from) = match text.split_once('@') {
        None => (text, Duration::ZERO),
        Some((rest, from)) => (rest, time(from).ok_or("expected a time behind @, such as global-lock@30s")?),
    };
    let (name, strength) = match rest.split_once('=') {
        None => (rest, None),
        Some((name, strength)) => (name, Some(strength)),
    };
    let defect = defects::defect(name).ok_or_else(|| {
        let names: Vec<_> = defects::DEFECTS.iter().map(|defect| defect.name).collect();
        format!("expected one of {} (plimsoll serve --list says what they are)", names.join(", "))
    })?;
    let strength = match (strength, defect.strength) {
        (None, default) => default,
        (Some(_), Strength::None) => return Err(format!("expected {name} without a strength: it takes none")),
        (Some(text), Strength::Time(default)) => Strength::Time(time(text).ok_or_else(|| {
            format!(
                "expected a time, such as {name}={}",
                units::show_duration_ns(default.as_nanos() as f64).replace(' ', "")
            )
        })?),
        (Some(text), Strength::Bytes(_)) => {
            Strength::Bytes(units::size_bytes(text).map_err(|_| format!("expected a size, such as {name}=64KiB"))?)
        }
        (Some(text), Strength::Count(default)) => {
            Strength::Count(units::count(text).map_err(|_| format!("expected a count, such as {name}={default}"))?)
        }
        (Some(text), Strength::Status { code, of }) => status(text, of).ok_or_else(|| {
            format!("expected a status and one of how many replies has it, such as {name}={code}/{of}")
        })?,
    };
    Ok(Setting { defect, strength, from })
}

/// `STATUS` or `STATUS/N`.
fn status(text: &str, default_of: u64) -> Option<Strength> {
    let (code, of) = match text.split_once('/') {
        None => (text, default_of),
        Some((code, of)) => (code, units::count(of).ok()?),
    };
    Some(Strength::Status { code: code.parse().ok()?, of })
}

fn time(text: &str) -> Option<Duration> {
    units::duration_ns(text).ok().map(Duration::from_nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strength_and_start_are_both_optional() {
        let cases = [
            ("cpu-heavy", Strength::Time(Duration::from_micros(500)), 0),
            ("cpu-heavy=2ms", Strength::Time(Duration::from_millis(2)), 0),
            ("cpu-heavy@30s", Strength::Time(Duration::from_micros(500)), 30),
            ("memory-per-connection=64KiB@2m", Strength::Bytes(65_536), 120),
            ("nagle@1s", Strength::None, 1),
            ("error-status", Strength::Status { code: 503, of: 10 }, 0),
            ("error-status=500@2s", Strength::Status { code: 500, of: 10 }, 2),
            ("error-status=429/1k", Strength::Status { code: 429, of: 1000 }, 0),
            ("missing-reply=3", Strength::Count(3), 0),
        ];
        for (text, strength, from_s) in cases {
            let setting = parse(text).unwrap();
            assert_eq!((setting.strength, setting.from.as_secs()), (strength, from_s), "{text}");
        }
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (text, says) in [
            ("nagel", "expected one of"),
            ("nagle=3", "it takes none"),
            ("cpu-heavy=many", "expected a time, such as cpu-heavy=500µs"),
            ("cpu-heavy@soon", "behind @"),
            ("memory-per-connection=big", "expected a size"),
            ("error-status=bad/2", "such as error-status=503/10"),
            ("error-status=503/x", "such as error-status=503/10"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(says), "{text}: {error}");
        }
    }
}
