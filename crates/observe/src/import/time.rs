//! Dates and times of day as these programs print them, to nanoseconds since 1970.
//!
//! They print the machine's own time without saying its zone: it is taken as it stands, as if it were UTC.

/// A second, in nanoseconds.
pub(super) const SECOND: i64 = 1_000_000_000;
/// A day, in seconds.
pub(super) const DAY_S: i64 = 86_400;

const MONTHS: [&str; 12] = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];

/// A date, and whether day and month could be the other way round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Date {
    /// Days since 1970.
    pub(super) days: i64,
    /// Whether it could be meant otherwise.
    pub(super) is_ambiguous: bool,
}

/// `2026-11-21`, `11/21/26`, `11/21/2026`, `21.11.2026`, `21-NOV-2026`.
pub(super) fn date(word: &str) -> Option<Date> {
    let separator = word.chars().find(|c| ['-', '/', '.'].contains(c))?;
    let parts: Vec<&str> = word.trim_end_matches('.').split(separator).collect();
    let [a, b, c] = parts.as_slice() else { return None };
    let number = |text: &str| text.parse::<i64>().ok().filter(|_| text.len() <= 4 && !text.starts_with(['+', '-']));
    if let Some(month) = MONTHS.iter().position(|month| b.to_ascii_lowercase().starts_with(month)) {
        let days = days(year(number(c)?), month as i64 + 1, number(a)?)?;
        return Some(Date { days, is_ambiguous: false });
    }
    let (x, y, z) = (number(a)?, number(b)?, number(c)?);
    if a.len() == 4 {
        return Some(Date { days: days(x, y, z)?, is_ambiguous: false });
    }
    // With slashes the month comes first (C and en_US), unless it cannot be one; with points or dashes the day does.
    let is_month_first = separator == '/' && x <= 12;
    let (month, day) = if is_month_first { (x, y) } else { (y, x) };
    let is_ambiguous = separator == '/' && x <= 12 && y <= 12 && x != y;
    Some(Date { days: days(year(z), month, day)?, is_ambiguous })
}

fn year(number: i64) -> i64 {
    if number < 100 { number + 2000 } else { number }
}

/// Days since 1970 of a date of the Gregorian calendar (H. Hinnant, chrono-compatible low-level date algorithms).
fn days(year: i64, month: i64, day: i64) -> Option<i64> {
    if !(1970..=2200).contains(&year) || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year - era * 400;
    let of_year = (153 * (month + if month > 2 { -3 } else { 9 }) + 2) / 5 + day - 1;
    Some(era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468)
}

/// `19:46:05`, or `19:46.05` as nmon writes it, in seconds of the day.
pub(super) fn of_day(word: &str) -> Option<i64> {
    let mut parts = word.split([':', '.']);
    let mut part = |most: i64| {
        let text = parts.next()?;
        let is_number = (1..=2).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
        text.parse::<i64>().ok().filter(|n| is_number && *n < most)
    };
    let (hour, minute, second) = (part(24)?, part(60)?, part(61)?);
    (parts.next().is_none() && word.contains(':')).then_some(hour * 3600 + minute * 60 + second)
}

/// A time of day on a clock of twelve hours.
pub(super) fn of_half_day(seconds: i64, half: &str) -> Option<i64> {
    let half = half.replace('.', "").to_ascii_lowercase();
    let from_noon = match half.as_str() {
        "am" => 0,
        "pm" => DAY_S / 2,
        _ => return None,
    };
    (3600..13 * 3600).contains(&seconds).then_some(seconds % (DAY_S / 2) + from_noon)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_of_many_places_are_the_same_day() {
        for word in ["2026-11-21", "11/21/26", "11/21/2026", "21/11/2026", "21.11.2026", "21-NOV-2026", "21-11-26"] {
            assert_eq!(date(word), Some(Date { days: 20_778, is_ambiguous: false }), "{word}");
        }
        assert_eq!(date("1970-01-01").unwrap().days, 0);
        assert!(date("03/04/26").unwrap().is_ambiguous);
        for word in ["", "x", "1-2", "2026-13-01", "2026-00-01", "1.2.3.4", "99999-1-1", "----", "1-x-2026", "0/0/0"] {
            assert_eq!(date(word), None, "{word}");
        }
    }

    #[test]
    fn times_of_day_have_24_hours_or_twice_12() {
        assert_eq!((of_day("00:00:01"), of_day("23:59:59"), of_day("19:50.22")), (Some(1), Some(86_399), Some(71_422)));
        for word in ["24:00:00", "1:2", "a:b:c", "00:60:00", "", "1:2:3:4", "+1:00:00", "10.20.30"] {
            assert_eq!(of_day(word), None, "{word}");
        }
        let at = |hour: i64, half| of_half_day(hour * 3600 + 1, half);
        assert_eq!(
            (at(12, "AM"), at(12, "PM"), at(1, "p.m."), at(11, "am")),
            (Some(1), Some(43_201), Some(46_801), Some(39_601))
        );
        assert_eq!((at(13, "PM"), at(0, "AM"), at(1, "CPU")), (None, None, None));
    }
}
