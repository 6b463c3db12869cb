//! Of a recording that was merged of several generators': a line for each, with how its clock was laid beside the others'.

use super::Paint;
use super::page::Page;
use crate::words::{counted, duration, figure, grouped, percent};
use model::LatencyKind;
use model::finding::ValidityState;
use model::recording::{End, Generator, Generators, Recording};
use std::io::{self, Write};

const INDENT: usize = 13;
/// Lines that one still reads. With more generators these are of those that are not well, and the others are counted.
const LINES_MAX: usize = 64;
/// Where all measured at once for less of the whole time than this, that is said as a warning: the rate is over the whole.
const TOGETHER_MIN: f64 = 0.9;

/// Writes them; nothing of one generator's recording.
pub(crate) fn write<W: Write>(page: &mut Page<'_, W>, recording: &Recording) -> io::Result<()> {
    let Some(all) = &recording.capsule.generators else { return Ok(()) };
    page.gap()?;
    let head = format!("{}, merged: counts and histograms are sums", counted(all.generators.len() as u64, "generator"));
    page.wrapped(INDENT, (Paint::Heading, "Generators".to_owned()), Paint::Plain, &head)?;
    let (shown, left_out) = shown(&all.generators);
    for generator in shown {
        let paint = if generator.validity == ValidityState::Valid { Paint::Plain } else { Paint::Bad };
        page.wrapped(INDENT, (Paint::Plain, String::new()), paint, &line(generator))?;
    }
    if let Some(text) = left_out {
        page.wrapped(INDENT, (Paint::Plain, String::new()), Paint::Dim, &text)?;
    }
    for short in all.shortfalls.iter().take(LINES_MAX) {
        let text = format!("{}: {}", short.name, short.text);
        page.wrapped(INDENT, (Paint::Plain, String::new()), Paint::Bad, &text)?;
    }
    if let Some(more) = all.shortfalls.len().checked_sub(LINES_MAX).filter(|more| *more > 0) {
        let text = format!("{} more fell short: --json has each", grouped(more as u64));
        page.wrapped(INDENT, (Paint::Plain, String::new()), Paint::Bad, &text)?;
    }
    together(page, recording, all)
}

/// The generators that have a line each, and what is said of the others.
fn shown(all: &[Generator]) -> (Vec<&Generator>, Option<String>) {
    if all.len() <= LINES_MAX {
        return (all.iter().collect(), None);
    }
    let is_well = |generator: &Generator| {
        generator.validity == ValidityState::Valid && generator.end == End::Complete && !generator.is_damaged
    };
    let (mut shown, mut left_out, mut not_well) = (Vec::new(), 0, 0);
    for generator in all {
        let is_to_be_seen = generator.has_readings || !is_well(generator);
        if is_to_be_seen && shown.len() < LINES_MAX {
            shown.push(generator);
        } else {
            left_out += 1;
            not_well += u64::from(!is_well(generator));
        }
    }
    let how = match not_well {
        0 => "all of them whole and valid".to_owned(),
        _ => format!("{} of them not whole, or not known to be valid", grouped(not_well)),
    };
    (shown, Some(format!("{} more, {how}: --json has each", grouped(left_out))))
}

fn line(generator: &Generator) -> String {
    let Generator { name, connections, requests, requests_per_s, offset_ns, offset_bound_ns, .. } = generator;
    let mut text = format!(
        "{name}: {}, {}/s over {}",
        counted(*requests, "request"),
        figure(*requests_per_s),
        counted(u64::from(*connections), "connection")
    );
    if *offset_ns > 0 {
        text += &format!(", began {} later", duration(*offset_ns));
        if *offset_bound_ns > 0 {
            text += &format!(" (± {})", duration(*offset_bound_ns));
        }
    } else if *offset_bound_ns > 0 {
        text += &format!(", began first (± {})", duration(*offset_bound_ns));
    }
    if let Some(ns) = generator.lag_p99_ns {
        text += &format!(", lag p99 {}", duration(ns));
    }
    text += match generator.end {
        End::Complete => "",
        End::Interrupted => ", interrupted",
        End::Partial => ", partial",
    };
    if generator.is_damaged {
        text += ", damaged";
    }
    text += &format!(": {}", generator.validity.name().replace('-', " "));
    if generator.has_readings {
        text += "; the readings of host and target are its";
    }
    text
}

fn together<W: Write>(page: &mut Page<'_, W>, recording: &Recording, all: &Generators) -> io::Result<()> {
    let whole_ns = recording.totals.measured_ns.max(1);
    let share = all.together_ns as f64 / whole_ns as f64;
    let text = format!(
        "all of them measured at once for {} of the {}, {} of it{}",
        duration(all.together_ns),
        duration(whole_ns),
        percent(100.0 * share),
        if share < TOGETHER_MIN { ": rates are over the whole" } else { "" }
    );
    let paint = if share < TOGETHER_MIN { Paint::Warn } else { Paint::Dim };
    page.wrapped(INDENT, (Paint::Plain, String::new()), paint, &text)?;
    if let Some(bound_ns) = all.release_bound_ns {
        let skew = recording.totals.sum.latency.quantile(LatencyKind::Lag, 0.99);
        let skew = skew
            .map_or_else(String::new, |p99| format!(", and 99 % of requests left within {} of it", duration(p99.ns)));
        let text = format!(
            "every burst had one moment for all of them, their clocks being at one within {}{skew}",
            duration(bound_ns)
        );
        page.wrapped(INDENT, (Paint::Plain, String::new()), Paint::Dim, &text)?;
    }
    let without: u64 = all.generators.iter().filter(|generator| generator.requests == 0).count() as u64;
    if without > 0 {
        let text = format!("{} ended no request", grouped(without));
        page.wrapped(INDENT, (Paint::Plain, String::new()), Paint::Warn, &text)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// So many, those at some places not valid.
    fn generators(count: usize, not_valid: &[usize], read_by: usize) -> Vec<Generator> {
        let one = |at: usize| Generator {
            name: format!("g{at}"),
            cpu: String::new(),
            kernel: String::new(),
            driver: String::new(),
            connections: 1,
            requests: 1,
            requests_per_s: 1.0,
            cpu_ns: 1,
            peak_rss_bytes: 1,
            lag_p99_ns: None,
            offset_ns: 0,
            offset_bound_ns: 0,
            end: End::Complete,
            is_damaged: false,
            has_readings: at == read_by,
            validity: if not_valid.contains(&at) { ValidityState::NotValid } else { ValidityState::Valid },
            figures: Vec::new(),
            reasons: Vec::new(),
        };
        (0..count).map(one).collect()
    }

    fn names(all: &[Generator]) -> (Vec<String>, Option<String>) {
        let (shown, left_out) = shown(all);
        (shown.into_iter().map(|one| one.name.clone()).collect(), left_out)
    }

    #[test]
    fn of_many_generators_those_are_shown_that_are_not_well_and_the_others_counted() {
        assert_eq!(names(&generators(64, &[], 0)).0.len(), 64);
        assert_eq!(names(&generators(64, &[], 0)).1, None);
        let (shown, left_out) = names(&generators(1000, &[7, 999], 500));
        assert_eq!(shown, ["g7", "g500", "g999"]);
        assert_eq!(left_out.as_deref(), Some("997 more, all of them whole and valid: --json has each"));
        let all: Vec<usize> = (0..1000).collect();
        let (shown, left_out) = names(&generators(1000, &all, 500));
        assert_eq!((shown.len(), &*shown[63]), (64, "g63"));
        let left_out = left_out.unwrap();
        assert_eq!(left_out, "936 more, 936 of them not whole, or not known to be valid: --json has each");
    }
}
