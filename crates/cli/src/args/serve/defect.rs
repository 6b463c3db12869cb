//! `--defect NAME[=STRENGTH][:WAY][:PART=…][@START]`, as text and as value.

use model::units;
use servers::defects::{self, Defect, Setting, Strength};
use std::time::Duration;

/// A defect with its strength, its way, its parts and the second it begins at.
pub fn parse(text: &str) -> Result<Setting, String> {
    let (rest, from) = match text.split_once('@') {
        None => (text, Duration::ZERO),
        Some((rest, from)) => (rest, time(from).ok_or("expected a time behind @, such as global-lock@30s")?),
    };
    let (name, told) = match rest.split_once('=') {
        None => (rest, None),
        Some((name, told)) => (name, Some(told)),
    };
    let defect = defects::defect(name).ok_or_else(|| {
        let names: Vec<_> = defects::DEFECTS.iter().map(|defect| defect.name).collect();
        format!("expected one of {} (plimsoll serve --list says what they are)", names.join(", "))
    })?;
    let mut setting = Setting { from, ..Setting::new(defect) };
    let mut is_told = Told::default();
    for word in told.iter().flat_map(|told| told.split(':')) {
        let already = tell(&mut setting, &mut is_told, word)?;
        if already {
            return Err(format!("expected each thing about {name} once, got {word} besides another"));
        }
    }
    Ok(setting)
}

/// What was said already.
#[derive(Default)]
struct Told {
    strength: bool,
    way: bool,
}

/// Takes one word into the setting. True if what it says was said before.
fn tell(setting: &mut Setting, is_told: &mut Told, word: &str) -> Result<bool, String> {
    let defect = setting.defect;
    if let Some(way) = defect.ways.iter().find(|way| way.name() == word) {
        setting.way = Some(*way);
        return Ok(std::mem::replace(&mut is_told.way, true));
    }
    if let Some((name, value)) = word.split_once('=') {
        let at = defect.parts.iter().position(|part| part.name == name).ok_or_else(|| no_part(defect, name))?;
        let strength = strength(value, &format!("{}={name}", defect.name), defect.parts[at].default)?;
        return Ok(setting.parts[at].replace(strength).is_some());
    }
    setting.strength = strength(word, defect.name, defect.strength)?;
    Ok(std::mem::replace(&mut is_told.strength, true))
}

fn no_part(defect: &Defect, got: &str) -> String {
    let parts: Vec<_> = defect.parts.iter().map(|part| format!("{}=", part.name)).collect();
    let expected = if parts.is_empty() { "no part with a name".to_owned() } else { parts.join(" or ") };
    format!("expected {expected} of {}, got {got}=", defect.name)
}

/// A strength of the kind that `default` is; `name` is what it is the strength of.
fn strength(text: &str, name: &str, default: Strength) -> Result<Strength, String> {
    Ok(match default {
        Strength::None => return Err(format!("expected {name} without a strength: it takes none")),
        Strength::Time(default) => Strength::Time(time(text).ok_or_else(|| {
            format!(
                "expected a time, such as {name}={}",
                units::show_duration_ns(default.as_nanos() as f64).replace(' ', "")
            )
        })?),
        Strength::Bytes(_) => {
            Strength::Bytes(units::size_bytes(text).map_err(|_| format!("expected a size, such as {name}=64KiB"))?)
        }
        Strength::Count(default) => {
            Strength::Count(units::count(text).map_err(|_| format!("expected a count, such as {name}={default}"))?)
        }
        Strength::Status { code, of } => status(text, of).ok_or_else(|| {
            format!("expected a status and one of how many replies has it, such as {name}={code}/{of}")
        })?,
    })
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
    use servers::defects::Way;

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
    fn ways_and_parts_come_in_any_order() {
        let blocked = |text: &str| {
            let setting = parse(&format!("blocked-loop{text}")).unwrap();
            (setting.strength, setting.way.unwrap(), setting.parts[0], setting.from.as_secs())
        };
        let (usual, five) = (Strength::Time(Duration::from_millis(100)), Strength::Time(Duration::from_millis(5)));
        assert_eq!(blocked(""), (usual, Way::Compute, None, 0));
        assert_eq!(blocked("=sleep"), (usual, Way::Sleep, None, 0));
        assert_eq!(blocked("=5ms:sleep:of=20@3s"), (five, Way::Sleep, Some(Strength::Count(20)), 3));
        assert_eq!(blocked("=of=20:5ms"), (five, Way::Compute, Some(Strength::Count(20)), 0));
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (text, says) in [
            ("nagel", "expected one of"),
            ("nagle=3", "it takes none"),
            ("cpu-heavy=many", "expected a time, such as cpu-heavy=500µs"),
            ("cpu-heavy@soon", "behind @"),
            ("memory-per-connection=big", "expected a size"),
            ("blocked-loop=5ms:6ms", "each thing about blocked-loop once, got 6ms"),
            ("blocked-loop=sleep:compute", "each thing about blocked-loop once"),
            ("blocked-loop=of=2:of=3", "each thing about blocked-loop once"),
            ("blocked-loop=fast", "expected a time, such as blocked-loop=100ms"),
            ("blocked-loop=of=often", "expected a count, such as blocked-loop=of=10"),
            ("blocked-loop=every=1s", "expected of= of blocked-loop, got every="),
            ("cpu-heavy=sleep", "expected a time"),
            ("cpu-heavy=of=2", "expected no part with a name of cpu-heavy"),
            ("error-status=bad/2", "such as error-status=503/10"),
            ("error-status=503/x", "such as error-status=503/10"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(says), "{text}: {error}");
        }
    }
}
