//! HTTP dates: written as RFC 9110 §5.6.7 prefers, read in all three forms it asks to accept.
//!
//! Proleptic Gregorian arithmetic after Howard Hinnant's "chrono-Compatible Low-Level Date Algorithms";
//! no time zones, no leap seconds, years 1970 to 9999. No allocation.

const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const DAY_S: i64 = 86_400;
/// 9999-12-31 23:59:59 UTC: the last second four digits of year can name.
const LAST_S: i64 = 253_402_300_799;

/// `Sun, 06 Nov 1994 08:49:37 GMT`. Seconds outside 1970 to 9999 are written as the nearest within.
pub(crate) fn format(unix_s: i64) -> String {
    let unix_s = unix_s.clamp(0, LAST_S);
    let (days, of_day) = (unix_s / DAY_S, unix_s % DAY_S);
    let (year, month, day) = civil(days);
    let weekday = DAYS[(days % 7) as usize];
    let month = MONTHS[month as usize - 1];
    format!("{weekday}, {day:02} {month} {year:04} {:02}:{:02}:{:02} GMT", of_day / 3600, of_day / 60 % 60, of_day % 60)
}

/// Seconds since 1970 of an IMF-fixdate, RFC 850 or asctime date; `None` if it is none of them.
pub(crate) fn parse(text: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(text).ok()?;
    let mut words = text.split_ascii_whitespace();
    let first = words.next()?;
    if let Some(weekday) = first.strip_suffix(',') {
        let date = words.next()?;
        let (day, month, year) = if date.contains('-') {
            // RFC 850: `Sunday, 06-Nov-94 08:49:37 GMT`.
            let mut parts = date.split('-');
            let (day, month, year) = (parts.next()?, parts.next()?, number(parts.next()?, 2)?);
            // RFC 9110: what would be more than 50 years ahead is meant to be past; 2070 is that until 2120.
            (day, month, if year < 70 { 2000 + year } else { 1900 + year })
        } else {
            (date, words.next()?, number(words.next()?, 4)?)
        };
        let seconds = seconds(year, month, number(day, 2)?, words.next()?)?;
        let is_day = DAYS.iter().any(|day| weekday.starts_with(day));
        return (is_day && words.next() == Some("GMT") && words.next().is_none()).then_some(seconds);
    }
    // asctime: `Sun Nov  6 08:49:37 1994`.
    let (month, day, time) = (words.next()?, words.next()?, words.next()?);
    let year = number(words.next()?, 4)?;
    let seconds = seconds(year, month, number(day, day.len().min(2))?, time)?;
    (DAYS.contains(&first) && words.next().is_none()).then_some(seconds)
}

fn seconds(year: i64, month: &str, day: i64, time: &str) -> Option<i64> {
    let month = MONTHS.iter().position(|name| *name == month)? as i64 + 1;
    let mut parts = time.split(':');
    let (hour, minute, second) = (number(parts.next()?, 2)?, number(parts.next()?, 2)?, number(parts.next()?, 2)?);
    // Second 60 is allowed by the grammar, for leap seconds.
    let fits = year >= 1970 && day >= 1 && hour < 24 && minute < 60 && second <= 60 && parts.next().is_none();
    let days = days_since_epoch(year, month, day);
    // A day past its month's end would come back as another date.
    (fits && civil(days) == (year, month, day)).then(|| days * DAY_S + hour * 3600 + minute * 60 + second)
}

fn number(digits: &str, len: usize) -> Option<i64> {
    let fits = digits.len() == len && digits.bytes().all(|byte| byte.is_ascii_digit());
    if fits { digits.parse().ok() } else { None }
}

fn days_since_epoch(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

fn civil(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let of_era = days.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_three_forms_of_the_rfc_are_the_same_second() {
        for text in ["Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"] {
            assert_eq!(parse(text.as_bytes()), Some(784_111_777), "{text}");
        }
        assert_eq!(format(784_111_777), "Sun, 06 Nov 1994 08:49:37 GMT");
    }

    #[test]
    fn every_day_comes_back() {
        for day in 0..=(LAST_S / DAY_S) {
            let at = day * DAY_S + (day * 7919) % DAY_S;
            // Every 97th day and all of 1970 to 2060 are enough to cross every kind of year.
            if day < 33_000 || day % 97 == 0 {
                assert_eq!(parse(format(at).as_bytes()), Some(at), "{}", format(at));
            }
        }
        assert_eq!(format(0), "Thu, 01 Jan 1970 00:00:00 GMT");
        assert_eq!(format(1_709_208_000), "Thu, 29 Feb 2024 12:00:00 GMT");
        assert_eq!(format(i64::MAX), format(LAST_S));
        assert_eq!(format(-1), format(0));
    }

    #[test]
    fn what_is_no_date_is_none() {
        for text in [
            "",
            ",",
            "Sun,",
            "Sun, 06 Nov 1994",
            "Sun, 06 Nov 1994 08:49:37",
            "Sun, 06 Nov 1994 08:49:37 CET",
            "Sun, 06 Nov 1994 08:49:37 GMT x",
            "Sun, 31 Feb 1994 08:49:37 GMT",
            "Sun, 00 Nov 1994 08:49:37 GMT",
            "Sun, 06 Nov 1994 24:49:37 GMT",
            "Sun, 06 Nov 1994 08:49:61 GMT",
            "Sun, 06 nov 1994 08:49:37 GMT",
            "Sun, 06 Nov 1969 08:49:37 GMT",
            "Sun, +6 Nov 1994 08:49:37 GMT",
            "Xun, 06 Nov 1994 08:49:37 GMT",
            "06 Nov 1994 08:49:37 GMT",
            "Sunday, 06-Nov-1994 08:49:37 GMT",
            "Sun Nov 666 08:49:37 1994",
            "784111777",
        ] {
            assert_eq!(parse(text.as_bytes()), None, "{text:?}");
        }
        assert_eq!(parse(b"\xff\xfe"), None);
    }
}
