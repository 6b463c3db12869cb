//! The kernel's log as text: `dmesg`, or what came over a serial console, also of a machine that died of it.
//!
//! A line is `[   12.345678] text`, with seconds since boot; what a console has before the bracket is passed over, and lines
//! without a time are other programs' and are passed over, too. `dmesg -T` has days instead of seconds and is told so. Trouble
//! becomes events, as the sampler `host/kernel_log` has them (`kernel_text`).

use super::lines::Lines;
use super::series::Place;
use super::{Format, ImportError, Options, Taken};
use crate::kernel_text::KernelText;

pub(super) const FORMAT: Format = Format {
    name: "dmesg",
    about: "the kernel's log: dmesg, or a serial console's",
    made_by: "dmesg",
    parse,
    is_mine: |line| stamped(line).is_some(),
};

const NS_PER_S: f64 = 1e9;

fn parse(lines: &mut Lines<'_>, _: &Options, taken: &mut Taken) -> Result<(), ImportError> {
    let (mut text, mut count, mut last_ns) = (KernelText::default(), 0, None);
    taken.about.what = "the kernel's log".to_owned();
    while let Some(line) = lines.next() {
        if line.is_garbage {
            taken.misread(line.number, "it is no text");
            continue;
        }
        let Some((at_ns, said)) = stamped(&line.text) else {
            if line.text.starts_with('[') && line.text.contains(" 20") {
                taken.misread(line.number, "it has a date where seconds since boot are expected: dmesg without -T");
            }
            continue;
        };
        if last_ns.is_none() {
            taken.note(format!(
                "seconds count from the log's first line, which is of {:.6} s after boot",
                at_ns as f64 / NS_PER_S
            ));
        }
        // What is said on another CPU may be written a little late.
        let at_ns = at_ns.max(last_ns.unwrap_or(at_ns));
        last_ns = Some(at_ns);
        let events = text.line(at_ns, said);
        count += events.len();
        taken.series.is(at_ns, Place::Host, "kernel_log_events", count as f64);
        events.into_iter().for_each(|event| taken.events.push(event));
    }
    if let (Some(event), Some(last_ns)) = (text.end(), last_ns) {
        taken.series.is(last_ns, Place::Host, "kernel_log_events", (count + 1) as f64);
        taken.events.push(event);
    }
    Ok(())
}

/// `[   12.345678] text`: nanoseconds and text. Before the bracket a level (`<4>`) or what a terminal was told may stand; behind the
/// seconds, the CPU or thread that said it.
fn stamped(line: &str) -> Option<(i64, &str)> {
    let (head, rest) = line.split_once('[')?;
    if head.chars().any(char::is_alphanumeric) && !head.starts_with('<') {
        return None;
    }
    let (stamp, text) = rest.split_once(']')?;
    let stamp = stamp.trim();
    let (seconds, fraction) = stamp.split_once('.')?;
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number(seconds) || !is_number(fraction) || fraction.len() < 3 {
        return None;
    }
    let ns = stamp.parse::<f64>().ok()? * NS_PER_S;
    // A text's number may be anything; no machine has been up for as long as that.
    let at_ns = if ns < i64::MAX as f64 / 2.0 { ns.round() as i64 } else { return None };
    let text = text.strip_prefix(' ').unwrap_or(text);
    // With CONFIG_PRINTK_CALLER a second bracket follows.
    let text = match text.strip_prefix('[').and_then(|rest| rest.split_once("] ")) {
        Some((caller, text)) if caller.trim().starts_with(['T', 'C']) => text,
        _ => text,
    };
    Some((at_ns, text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import::read;
    use std::io::Cursor;

    #[test]
    fn stamps_are_found_and_nothing_else() {
        for (line, found) in [
            ("[   12.345678] BUG: x", Some((12_345_678_000, "BUG: x"))),
            ("<4>[    0.000000] Linux", Some((0, "Linux"))),
            ("[   12.345678][   T25] BUG: x", Some((12_345_678_000, "BUG: x"))),
            ("[   12.345678][    C0]  echo+0x1/0x2", Some((12_345_678_000, " echo+0x1/0x2"))),
            ("\u{1b}c[?7l[2J[    1.000000] x", None),
            ("name[1.000]: x", None),
            ("[x.y] z", None),
            ("[1.2] z", None),
            ("[99999999999999999999.000000] z", None),
            ("", None),
        ] {
            assert_eq!(stamped(line), found, "{line}");
        }
    }

    #[test]
    fn a_console_is_read_to_its_last_line() {
        let text = "SeaBIOS\n[    1.000000] Linux version\n[    9.500000] BUG: unable to handle page fault\n\
                    [    9.500001] RIP: 0010:f+0x1/0x2 [m]\nsome program's\n[   10.000000] Kernel panic - not syncing: x\n";
        let imported = read(&FORMAT, &mut Cursor::new(text), &Options::default()).unwrap();
        let events: Vec<(i64, &str)> = imported.events.iter().map(|e| (e.at_ns, e.kind.as_str())).collect();
        assert_eq!(events, [(8_500_000_000, "kernel-bug"), (9_000_000_000, "kernel-panic")]);
        assert!(imported.events[0].text.contains("at f [m], fingerprint "), "{}", imported.events[0].text);
        assert_eq!(imported.about.span_ns, 9_000_000_000);
        assert_eq!(
            imported.about.notes,
            ["seconds count from the log's first line, which is of 1.000000 s after boot"]
        );
        let of_days = "[Wed Nov 25 10:00:00 2026] BUG: x\n";
        let refused = read(&FORMAT, &mut Cursor::new(of_days), &Options::default()).unwrap_err();
        assert!(refused.to_string().contains("dmesg without -T"), "{refused}");
    }
}
