//! Whether a remedy does what it says: the answer, the finding it is of, and each pair of runs.

use crate::text::page::Page;
use crate::text::{Paint, Style};
use crate::words::capitalized;
use diagnose::experiment::{Arm, Claim, Confirmation, Confirmed, Pair};
use model::finding::Finding;
use model::units::{show_duration_ns, show_figure};
use std::io::{self, Write};

const INDENT: usize = 13;

/// Writes it as text.
///
/// # Errors
/// Those of the writer.
pub fn write(to: &mut impl Write, answer: &Confirmation, finding: &Finding, style: Style) -> io::Result<()> {
    let mut page = Page::new(to, style);
    let paint = match answer.state {
        Confirmed::Confirmed => Paint::Good,
        Confirmed::NotConfirmed => Paint::Bad,
        Confirmed::Undetermined => Paint::Warn,
    };
    page.wrapped(0, (Paint::Plain, String::new()), paint, &capitalized(&answer.text))?;
    let of = format!("{} [{}]", finding.title, finding.id);
    page.wrapped(INDENT, (Paint::Dim, "  finding".to_owned()), Paint::Plain, &of)?;
    for (number, one) in (1..).zip(&answer.pairs) {
        page.wrapped(INDENT, (Paint::Dim, "  ".to_owned()), Paint::Plain, &pair(number, answer.claim, one))?;
    }
    Ok(())
}

/// A pair in a line.
pub fn pair(number: u32, claim: Claim, pair: &Pair) -> String {
    let one = |arm: &Arm| {
        let disturbed = if arm.is_disturbed { ", the generator disturbed" } else { "" };
        let figure = match (claim, arm.value) {
            (_, None) => "nothing".to_owned(),
            (Claim::LostShare, Some(share)) => format!("{:.1} % lost", 100.0 * share),
            (Claim::ResponseMeanUs, Some(us)) => show_duration_ns(us * 1e3),
            (Claim::ThroughputPerS, Some(per_s)) => format!("{}/s", show_figure(per_s)),
        };
        let lost = match claim {
            Claim::LostShare => String::new(),
            _ if arm.lost_share > 0.0 => format!(", {:.1} % lost", 100.0 * arm.lost_share),
            _ => String::new(),
        };
        format!("{figure}{lost}{disturbed}")
    };
    let first = if pair.with_first { "with" } else { "without" };
    format!("pair {number} ({first} first): {} without, {} with", one(&pair.without), one(&pair.with))
}
