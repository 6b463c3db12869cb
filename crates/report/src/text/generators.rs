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
    for short in &all.shortfalls {
        let text = format!("{}: {}", short.name, short.text);
        page.wrapped(INDENT, (Paint::Plain, String::new()), Paint::Bad, &text)?;
    }
    together(page, recording, all)
}

/// The generators that have a line each, and what is said of the others.
fn shown(all: &[Generator]) -> (Vec<&Generator>, Option<String>) {
    if all.len() <= LINES_MAX {
        return (all.iter().collect(), None);
    }
    let is_well = |generator: &&Generator| {
        generator.validity == ValidityState::Valid && generator.end == End::Complete && !generator.is_damaged
    };
    let is_to_be_seen = |generator: &&Generator| generator.has_readings || !is_well(generator);
    let shown: Vec<&Generator> = all.iter().filter(is_to_be_seen).take(LINES_MAX).collect();
    let left_out = all.len() - shown.len();
    let not_well = all.iter().filter(|one| !is_well(one)).count() - shown.iter().filter(|one| !is_well(one)).count();
    let text = match not_well {
        0 => format!("{} more, all of them valid: --json has each", grouped(left_out as u64)),
        _ => {
            format!(
                "{} more, {} of them not valid or not whole: --json has each",
                grouped(left_out as u64),
                grouped(not_well as u64)
            )
        }
    };
    (shown, Some(text))
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
