//! Where the time of slow requests went: a bar under the sentence on what gives, and the slowest requests cut into their waits.
//!
//! A bar's length is shared out to whole cells by largest remainder, so it is always full. Waits below [`SHOWN_MIN`] and beyond
//! the glyphs there are go into the last part. The same figures are in the document (`losses[].time`).

pub(crate) mod split;

use super::Paint;
use super::page::{Page, Span};
use crate::words::length;
use model::finding::{Diagnosis, Loss};
use model::slow::{SlowRequest, SlowTime, WaitShare};
use std::io::{self, Write};

/// Where the bar and the words beside it begin, as of what proves a finding.
const INDENT: usize = 15;
/// The longest bar, cells.
const CELLS_MAX: usize = 60;
/// A smaller part has no glyph of its own.
const SHOWN_MIN: f64 = 0.02;
/// The parts' glyphs and paints, the largest part first; the last one is that of the rest.
const GLYPHS: [(char, char, Paint); 5] = [
    ('█', '#', Paint::Bar),
    ('▓', '=', Paint::Warn),
    ('▒', '+', Paint::Good),
    ('░', ':', Paint::Plain),
    ('·', '.', Paint::Dim),
];

/// The bar with its legend, and where slow or failed requests concentrate.
pub fn bar<W: Write>(page: &mut Page<'_, W>, diagnosis: &Diagnosis) -> io::Result<()> {
    if let Some(time) = diagnosis.losses.iter().find_map(|loss| loss.time.as_ref()) {
        let parts = parts(&time.waits);
        let unicode = page.style().unicode;
        let room = page.style().width.saturating_sub(INDENT).clamp(10, CELLS_MAX);
        let cells = cells(&parts, room);
        let glyph = |i: usize| if unicode { GLYPHS[i].0 } else { GLYPHS[i].1 };
        let bar = cells.iter().enumerate().map(|(i, n)| (GLYPHS[i].2, glyph(i).to_string().repeat(*n)));
        let label: Span = (Paint::Dim, format!("{:INDENT$}", "  slow time"));
        page.row(&std::iter::once(label).chain(bar).collect::<Vec<Span>>())?;
        let mut legend: Vec<Span> = vec![(Paint::Plain, " ".repeat(INDENT))];
        for (i, (words, share)) in parts.iter().enumerate() {
            // A part is not broken within.
            let text = format!(" {words} {}", whole_percent(*share)).replace(' ', "\u{a0}");
            let end = if i + 1 < parts.len() { "  " } else { "" };
            legend.extend([(GLYPHS[i].2, glyph(i).to_string()), (Paint::Plain, format!("{text}{end}"))]);
        }
        page.line(&legend)?;
    }
    let concentrated = diagnosis.losses.iter().filter_map(|loss: &Loss| loss.concentrated.first());
    let mut label = "  where";
    for place in concentrated {
        page.wrapped(INDENT, (Paint::Dim, std::mem::take(&mut label).to_owned()), Paint::Plain, &place.text)?;
    }
    Ok(())
}

/// A share to a whole per cent: a bar has no more.
pub(crate) fn whole_percent(share: f64) -> String {
    if share < 0.01 { "< 1 %".to_owned() } else { format!("{:.0} %", 100.0 * share) }
}

/// The parts with their words, the largest first, what is small together at the end.
pub(crate) fn parts(waits: &[WaitShare]) -> Vec<(&'static str, f64)> {
    let mut sorted: Vec<&WaitShare> = waits.iter().collect();
    sorted.sort_by(|a, b| b.share.total_cmp(&a.share));
    let is_shown = |(i, part): &(usize, &&WaitShare)| *i < GLYPHS.len() - 1 && part.share >= SHOWN_MIN;
    let shown = sorted.iter().enumerate().take_while(is_shown).count();
    let mut parts: Vec<(&str, f64)> = sorted[..shown].iter().map(|part| (part.wait.words(), part.share)).collect();
    let rest: f64 = sorted[shown..].iter().map(|part| part.share).sum();
    if rest >= 0.005 {
        parts.push(("else", rest));
    }
    parts
}

/// So many cells for each part: all of them, by largest remainder.
fn cells(parts: &[(&str, f64)], room: usize) -> Vec<usize> {
    let all: f64 = parts.iter().map(|(_, share)| share).sum();
    let exact: Vec<f64> = parts.iter().map(|(_, share)| share / all.max(f64::EPSILON) * room as f64).collect();
    let mut cells: Vec<usize> = exact.iter().map(|cell| *cell as usize).collect();
    let mut order: Vec<usize> = (0..parts.len()).collect();
    order.sort_by(|a, b| exact[*b].fract().total_cmp(&exact[*a].fract()));
    let missing = room.saturating_sub(cells.iter().sum());
    order.into_iter().take(missing).for_each(|i| cells[i] += 1);
    cells
}

/// The slowest requests, each cut into its waits.
pub fn slowest<W: Write>(page: &mut Page<'_, W>, diagnosis: &Diagnosis) -> io::Result<()> {
    let Some(time) = diagnosis.losses.iter().find_map(|loss| loss.time.as_ref()) else { return Ok(()) };
    page.gap()?;
    let mut label = (Paint::Heading, "Slowest".to_owned());
    for one in &time.slowest {
        page.wrapped(13, label, Paint::Plain, &of_one(one))?;
        label = (Paint::Plain, String::new());
    }
    page.wrapped(13, label, Paint::Dim, &said_of(time))
}

fn of_one(one: &SlowRequest) -> String {
    let shown = |us: f64| length((us * 1e3) as u64);
    let mut waits = one.waits.clone();
    waits.sort_by(|a, b| b.us.total_cmp(&a.us));
    let waits: Vec<String> = waits
        .iter()
        .filter(|part| part.us >= 0.01 * one.taken_us)
        .map(|part| format!("{} {}", part.wait.words(), shown(part.us)))
        .collect();
    format!("{} at {:.2} s: {}", shown(one.taken_us), one.due_s, waits.join(", "))
}

fn said_of(time: &SlowTime) -> String {
    let joined = match time.joined {
        0 => "none of them joined with the target's sockets".to_owned(),
        joined => format!("{joined} of them joined with the target's sockets"),
    };
    format!(
        "what {} slow requests that were kept took beyond quick ones of their kind: {} on average; {joined}",
        time.requests,
        length((time.excess_us * 1e3) as u64)
    )
}

#[cfg(test)]
mod tests {
    use super::super::Style;
    use super::*;
    use model::finding::LossKind;
    use model::slow::{Concentration, Dimension, OneWait, Wait};

    fn share(wait: Wait, share: f64) -> WaitShare {
        WaitShare { wait, share, low: share, high: share, mean_us: 1e3 * share }
    }

    fn diagnosis() -> Diagnosis {
        let shares = [(Wait::Queue, 0.01), (Wait::ConnectAgain, 0.12), (Wait::Pause, 0.82), (Wait::Server, 0.05)];
        let waits = [(Wait::Queue, 200.0), (Wait::Pause, 78_900.0)].map(|(wait, us)| OneWait { wait, us });
        let slowest = SlowRequest {
            due_s: 3.25,
            taken_us: 79_400.0,
            fast_us: 300.0,
            worker: 0,
            connection: 3,
            ordinal: 7,
            entry: 0,
            waits: waits.to_vec(),
        };
        let time = SlowTime {
            requests: 412,
            joined: 40,
            excess_us: 41_250.0,
            waits: shares.map(|(wait, of)| share(wait, of)).to_vec(),
            slowest: vec![slowest],
        };
        let place = Concentration {
            dimension: Dimension::Ordinal,
            place: "the first on their connection".to_owned(),
            of_them: 0.93,
            of_others: 0.04,
            count: 412,
            by_chance: 1e-9,
            text: "slow ones are the first on their connection: 93 % of them, 4.0 % of the others".to_owned(),
        };
        let loss = Loss {
            kind: LossKind::Slow,
            share: 0.5,
            text: String::new(),
            unexplained: 0.1,
            time: Some(time),
            concentrated: vec![place],
        };
        Diagnosis { losses: vec![loss], ..Diagnosis::default() }
    }

    fn drawn(style: Style) -> String {
        let mut out = Vec::new();
        let page = &mut Page::new(&mut out, style);
        bar(page, &diagnosis()).unwrap();
        slowest(page, &diagnosis()).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_bar_is_full_and_fits_with_its_legend_into_eighty_columns() {
        for (width, unicode) in [(80, true), (80, false), (60, true), (200, true)] {
            let text = drawn(Style { color: false, width, unicode });
            assert!(text.lines().all(|line| line.chars().count() <= width), "{text}");
            assert_eq!(text.is_ascii(), !unicode, "{text}");
            let bar = text.lines().next().unwrap().trim_start_matches("  slow time").trim_start();
            assert_eq!(bar.chars().count(), (width - INDENT).min(CELLS_MAX), "{text}");
        }
        let text = drawn(Style { color: false, width: 80, unicode: true });
        insta::assert_snapshot!(text);
        assert!(!text.contains('\x1b') && drawn(Style { color: true, width: 80, unicode: true }).contains('\x1b'));
    }

    #[test]
    fn cells_are_shared_out_whole() {
        for room in [10, 33, 60] {
            let parts = [("a", 1.0 / 3.0), ("b", 1.0 / 3.0), ("c", 1.0 / 3.0)];
            assert_eq!(cells(&parts, room).iter().sum::<usize>(), room);
        }
        assert_eq!(cells(&[("a", 0.5), ("b", 0.25), ("c", 0.25)], 8), [4, 2, 2]);
    }
}
