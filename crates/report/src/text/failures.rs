//! What failed and why: kinds of error with their first example, status codes, connections.

use super::Paint;
use super::page::Page;
use crate::Describe;
use crate::words::{counted, grouped, listed, of_example, of_kind};
use model::ErrorKind;
use model::interval::ErrorCounts;
use model::recording::Recording;
use std::io::{self, Write};

/// Where text begins beside a count.
const INDENT: usize = 14;

/// Errors by kind, the most frequent first.
pub fn errors<W: Write>(page: &mut Page<'_, W>, recording: &Recording, describe: Describe<'_>) -> io::Result<()> {
    let sum = &recording.totals.sum;
    list(page, recording, "Failed requests", &sum.errors, describe)?;
    list(page, recording, "Connections lost or not made, no request with them", &sum.connection_errors, describe)
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
            let mut text = of_example(&example, describe);
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

/// Status codes and connections, a line each.
pub fn status<W: Write>(page: &mut Page<'_, W>, recording: &Recording) -> io::Result<()> {
    let sum = &recording.totals.sum;
    let seen: Vec<String> = sum
        .status
        .seen()
        .map(|(code, n)| if code == 0 { format!("other ×{}", grouped(n)) } else { format!("{code} ×{}", grouped(n)) })
        .collect();
    page.gap()?;
    if !seen.is_empty() {
        page.wrapped(13, (Paint::Heading, "Status".to_owned()), Paint::Plain, &listed(&seen))?;
    }
    let c = &sum.counts;
    let mut parts =
        vec![format!("{} opened, {} at most at once", grouped(c.connected), grouped(recording.totals.connections_max))];
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
    page.wrapped(13, (Paint::Heading, "Connections".to_owned()), Paint::Plain, &listed(&parts))
}
