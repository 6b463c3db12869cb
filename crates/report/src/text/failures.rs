//! What failed and why: kinds of error with their first example, status codes, connections.

use super::Paint;
use super::page::Page;
use crate::words::{bounded, counted, grouped, listed, of_example, of_kind};
use crate::{Describe, protocols};
use model::ErrorKind;
use model::event::{TLS_AGREED, TLS_FAILED};
use model::interval::ErrorCounts;
use model::recording::Recording;
use model::users::{Users, time_quantile};
use std::io::{self, Write};

/// Where text begins beside a count.
const INDENT: usize = 14;

/// Errors by kind, the most frequent first.
pub fn errors<W: Write>(page: &mut Page<'_, W>, recording: &Recording, describe: Describe<'_>) -> io::Result<()> {
    let sum = &recording.totals.sum;
    list(page, recording, &format!("Failed {}s", recording.plan.unit()), &sum.errors, describe)?;
    list(page, recording, "Connections that failed while no request was on them", &sum.connection_errors, describe)
}

fn list<W: Write>(
    page: &mut Page<'_, W>,
    recording: &Recording,
    heading: &str,
    counts: &ErrorCounts,
    describe: Describe<'_>,
) -> io::Result<()> {
    let mut seen: Vec<(ErrorKind, u64)> = counts.seen().collect();
    if seen.is_empty() {
        return Ok(());
    }
    seen.sort_by_key(|(_, n)| std::cmp::Reverse(*n));
    page.gap()?;
    page.line(&[(Paint::Heading, heading.to_owned())])?;
    for (kind, n) in seen {
        let count = (Paint::Bad, format!("{:>12}  ", grouped(n)));
        page.wrapped(INDENT, count, Paint::Plain, &format!("{}: {}", kind.name(), of_kind(kind)))?;
        if let Some(example) = recording.totals.examples().find(|example| example.kind == kind) {
            let mut text = match told_of(recording, kind) {
                // More is known of the first failure of TLS than its number says.
                Some(told) => format!("{}: {told}", of_example(&example, &|_| None)),
                None => of_example(&example, describe),
            };
            if recording.plan.origins.len() > 1
                && let Some(origin) = recording.plan.origins.get(usize::from(example.origin))
            {
                text.push_str(&format!(" ({})", origin.name));
            }
            page.wrapped(INDENT, (Paint::Plain, String::new()), Paint::Dim, &text)?;
        }
    }
    Ok(())
}

/// What an event says of the first failure of a kind.
fn told_of(recording: &Recording, kind: ErrorKind) -> Option<&str> {
    let sum = &recording.totals.sum;
    let is_other = |other: ErrorKind| sum.errors.of(other) + sum.connection_errors.of(other) > 0;
    // It is told once, of the first of all: of several kinds nobody knows which it was.
    const TLS: [ErrorKind; 3] = [ErrorKind::TlsHandshake, ErrorKind::TlsBroken, ErrorKind::TlsRefused];
    let is_it = TLS.contains(&kind) && !TLS.iter().any(|other| *other != kind && is_other(*other));
    recording.events.iter().find(|event| is_it && event.kind == TLS_FAILED).map(|event| event.text.as_str())
}

/// Replies by their outcomes, connections and TLS, a line each.
pub fn status<W: Write>(page: &mut Page<'_, W>, recording: &Recording) -> io::Result<()> {
    page.gap()?;
    let counts = &recording.totals.sum.counts;
    if let Some(text) = protocols::of(&recording.plan.workload).used_up(counts.started + counts.warmup) {
        page.wrapped(13, (Paint::Heading, "Data".to_owned()), Paint::Warn, &text)?;
    }
    for (heading, text) in protocols::of(&recording.plan.workload).paragraphs(&recording.totals.sum.outcomes) {
        page.wrapped(13, (Paint::Heading, heading.to_owned()), Paint::Plain, &text)?;
    }
    connections(page, recording)
}

fn connections<W: Write>(page: &mut Page<'_, W>, recording: &Recording) -> io::Result<()> {
    let sum = &recording.totals.sum;
    let c = &sum.counts;
    let mut parts = vec![opened(c.connected, recording.totals.connections_max)];
    for (n, what) in [
        (c.connect_failed, "failed to open"),
        (c.closed_by_peer, "closed by the peer"),
        (c.closed_by_us, "closed by us"),
    ] {
        if n > 0 {
            parts.push(format!("{} {what}", grouped(n)));
        }
    }
    if c.dropped > 0 {
        parts.push(format!("{} dropped before they had one", counted(c.dropped, "request")));
    }
    page.wrapped(13, (Paint::Heading, "Connections".to_owned()), Paint::Plain, &listed(&parts))?;
    users(page, recording)?;
    tls(page, recording)
}

/// How many were opened while the figures count, and the most that were open where an interval ended.
fn opened(opened: u64, most: u64) -> String {
    match (opened, most) {
        (0, 0) => "none opened".to_owned(),
        (0, most) => format!("{} at most at once, all opened during the warm-up", grouped(most)),
        (opened, 0) => format!("{} opened, none open where an interval ended", grouped(opened)),
        (opened, most) if opened < most => {
            format!("{} at most at once, {} of them opened after the warm-up", grouped(most), grouped(opened))
        }
        (opened, most) => format!("{} opened, {} at most at once", grouped(opened), grouped(most)),
    }
}

/// Replies spread less evenly than this are worth a line (Jain's index).
const EVEN_MIN: f64 = 0.9;

/// How the replies were spread over the connections, where that was uneven, and what their users waited for.
fn users<W: Write>(page: &mut Page<'_, W>, recording: &Recording) -> io::Result<()> {
    let is_uneven = |users: &Users| users.starved > 0 || (users.served > 0 && users.jain_index < EVEN_MIN);
    let Some(users) = recording.totals.users.filter(is_uneven) else { return Ok(()) };
    let mut parts = vec![
        format!("{} to {} replies each", grouped(users.served_min), grouped(users.served_max)),
        format!("{} never served", grouped(users.never_served)),
        format!("Jain's index {:.2}", users.jain_index),
    ];
    let time = |quantile| time_quantile(&recording.totals.sum.latency, quantile);
    if let Some((p50, p90)) = time(0.5).zip(time(0.9)) {
        parts.push(format!("over their time p50 {} and p90 {}", bounded(p50), bounded(p90)));
    }
    page.wrapped(13, (Paint::Heading, "Users".to_owned()), Paint::Plain, &listed(&parts))
}

fn tls<W: Write>(page: &mut Page<'_, W>, recording: &Recording) -> io::Result<()> {
    let c = &recording.totals.sum.counts;
    let agreed = recording.events.iter().find(|event| event.kind == TLS_AGREED).map(|event| event.text.clone());
    if recording.plan.tls.is_none() || (agreed.is_none() && c.handshakes_full + c.handshakes_resumed == 0) {
        return Ok(());
    }
    let done = match (c.handshakes_full, c.handshakes_resumed) {
        (full, 0) => counted(full, "full handshake"),
        (0, resumed) => format!("{} resumed", counted(resumed, "handshake")),
        (full, resumed) => format!("{}, {} resumed", counted(full, "full handshake"), grouped(resumed)),
    };
    // The name of the protocol is the heading already.
    let agreed = agreed.map(|text| text.strip_prefix("TLS ").unwrap_or(&text).to_owned());
    let parts: Vec<String> = std::iter::once(done).chain(agreed).collect();
    page.wrapped(13, (Paint::Heading, "TLS".to_owned()), Paint::Plain, &parts.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_opened_and_what_was_open_do_not_contradict_each_other() {
        assert_eq!(opened(0, 0), "none opened");
        assert_eq!(opened(0, 20), "20 at most at once, all opened during the warm-up");
        assert_eq!(opened(4, 0), "4 opened, none open where an interval ended");
        assert_eq!(opened(4, 20), "20 at most at once, 4 of them opened after the warm-up");
        assert_eq!(opened(5000, 50), "5,000 opened, 50 at most at once");
    }
}
