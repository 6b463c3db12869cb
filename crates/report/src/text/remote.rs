//! The target's machine where it is another than the generator's: what it is, how busy, and how well its clock is known.

use super::Paint;
use super::page::Page;
use crate::figures::host_use;
use crate::words::{counted, listed, percent};
use model::Snapshot;
use model::remote::TargetHost;
use model::units::{show_bytes, show_duration_ns};
use std::io::{self, Write};

const INDENT: usize = 15;

/// Writes the lines.
pub fn write<W: Write>(page: &mut Page<'_, W>, host: &TargetHost, snapshots: &[Snapshot]) -> io::Result<()> {
    let mut parts = vec![format!("{} ({})", host.name, host.address)];
    if let Some(used) = host_use(snapshots) {
        parts.push(format!("CPU {} busy", percent(100.0 * used.busy)));
        if used.steal >= 0.001 {
            parts.push(format!("{} stolen by the hypervisor", percent(100.0 * used.steal)));
        }
    }
    parts.extend([host.cpu.clone(), format!("Linux {}", host.kernel), show_bytes(host.memory_bytes as f64)]);
    page.wrapped(INDENT, (Paint::Heading, "Target's host".to_owned()), Paint::Plain, &listed(&parts))?;
    let Some(link) = snapshots.iter().rev().find_map(|snapshot| snapshot.link) else { return Ok(()) };
    let sign = if link.offset_ns < 0 { "−" } else { "" };
    let mut parts = Vec::new();
    if link.exchanges > 0 {
        parts.push(format!(
            "clock offset {sign}{} ± {} of {}",
            show_duration_ns(link.offset_ns.unsigned_abs() as f64),
            show_duration_ns(link.bound_ns as f64),
            host.name
        ));
        parts.push(counted(link.exchanges, "exchange"));
    }
    if link.lost > 0 {
        parts.push(format!("{} lost on the way", counted(link.lost, "reading")));
    }
    page.wrapped(INDENT, (Paint::Plain, String::new()), Paint::Dim, &listed(&parts))?;
    if link.breaks > 0 {
        let broken = show_duration_ns(link.broken_ns as f64);
        let text = format!("the link to it broke {}; {broken} of the run are not seen", counted(link.breaks, "time"));
        page.wrapped(INDENT, (Paint::Plain, String::new()), Paint::Warn, &text)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::Style;
    use model::remote::Link;

    #[test]
    fn the_clock_is_shown_with_its_bound_and_a_gap_is_said() {
        let host = TargetHost { name: "web1".to_owned(), address: "web1:4500".to_owned(), ..TargetHost::default() };
        let link = Link { offset_ns: -12_300, bound_ns: 41_000, exchanges: 9, ..Link::default() };
        let text = |link| {
            let mut out = Vec::new();
            let style = Style { color: false, width: 80, unicode: false };
            let snapshot = Snapshot { link: Some(link), ..Snapshot::default() };
            write(&mut Page::new(&mut out, style), &host, &[snapshot]).unwrap();
            String::from_utf8(out).unwrap()
        };
        let whole = text(link);
        assert!(whole.contains("Target's host  web1 (web1:4500)"), "{whole}");
        assert!(whole.contains("clock offset -12.3 us +- 41.0 us of web1, 9 exchanges"), "{whole}");
        assert!(!whole.contains("broke"), "{whole}");
        let broken = text(Link { breaks: 2, broken_ns: 3_100_000_000, lost: 4, ..link });
        assert!(broken.contains("broke 2 times; 3.10 s") && broken.contains("4 readings lost"), "{broken}");
    }
}
