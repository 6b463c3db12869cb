//! The check as one reads it: the answer, then every limit with its value, what it means and what changes it.

use super::Checked;
use crate::text::page::Page;
use crate::text::{Paint, Style};
use crate::words::{counted, grouped, rate};
use model::check::{Check, Demand, Fix, FixOutcome, Item, Standing};
use std::io::{self, Write};

/// Where a limit's name begins.
const INDENT: usize = 11;

/// Writes it.
///
/// # Errors
/// Those of the writer.
pub fn write(to: &mut impl Write, checked: &Checked, style: Style) -> io::Result<()> {
    let page = &mut Page::new(to, style);
    let check = &checked.check;
    answer(page, checked)?;
    page.gap()?;
    for item in &check.items {
        limit(page, item)?;
    }
    fixes(page, checked)
}

fn answer<W: Write>(page: &mut Page<'_, W>, checked: &Checked) -> io::Result<()> {
    let check = &checked.check;
    page.wrapped(
        INDENT,
        (Paint::Heading, "Load".to_owned()),
        Paint::Plain,
        &of_demand(&checked.target, &check.demand),
    )?;
    let of = |standing| check.items.iter().filter(|item| item.standing == standing).count() as u64;
    let unknown = match of(Standing::NotKnown) {
        0 => String::new(),
        n => format!("; {} could not be read, and may stand in the way", counted(n, "limit")),
    };
    let (paint, text) = match check.first_to_bind() {
        None => (Paint::Good, format!("no limit that was read stands in the way{unknown}")),
        Some(first) => {
            let n = of(Standing::Binds);
            let verb = if n == 1 { "binds" } else { "bind" };
            (Paint::Bad, format!("{} {verb}, {} first{}{unknown}", counted(n, "limit"), first.setting, share(first)))
        }
    };
    page.wrapped(INDENT, (Paint::Heading, "Ready".to_owned()), paint, &text)
}

/// What the limit lets through, beside what is wanted.
fn share(item: &Item) -> String {
    match (item.allows, item.needs) {
        (Some(allows), Some(needs)) if item.unit == "bytes" => {
            use model::units::show_bytes;
            format!(" ({} of {})", show_bytes(allows), show_bytes(needs))
        }
        (Some(allows), Some(needs)) => {
            format!(" ({} of {} {})", grouped(allows.max(0.0) as u64), grouped(needs as u64), item.unit)
        }
        _ => String::new(),
    }
}

fn of_demand(target: &str, demand: &Demand) -> String {
    let mut parts = vec![counted(demand.connections, "connection")];
    parts.push(match demand.rate_per_s {
        Some(per_s) => rate(per_s),
        None => "closed loop".to_owned(),
    });
    match demand.connects_per_s {
        Some(0.0) => {}
        Some(per_s) => parts.push(format!("{} new connections", rate(per_s))),
        None => parts.push("connections replaced as fast as the target answers".to_owned()),
    }
    parts.push(if target.is_empty() { "no target named".to_owned() } else { format!("to {target}") });
    if demand.destinations != 1 {
        parts.push(counted(demand.destinations, "destination"));
    }
    if demand.sources != 1 {
        parts.push(format!("from {} source addresses", grouped(demand.sources)));
    }
    parts.push(if demand.ends_here > 1 { "both ends on this host" } else { "the target elsewhere" }.to_owned());
    parts.join(", ")
}

fn limit<W: Write>(page: &mut Page<'_, W>, item: &Item) -> io::Result<()> {
    let (paint, word) = match item.standing {
        Standing::Binds => (Paint::Bad, "binds"),
        Standing::Tight => (Paint::Warn, "tight"),
        Standing::NotKnown => (Paint::Warn, "not known"),
        Standing::Ok => (Paint::Good, "ok"),
    };
    let value = item.value.as_ref().map(|value| format!("  {value}")).unwrap_or_default();
    page.line(&[(paint, format!("{word:INDENT$}")), (Paint::Strong, item.setting.to_owned()), (Paint::Plain, value)])?;
    page.wrapped(INDENT, (Paint::Plain, String::new()), Paint::Dim, &item.text)?;
    for command in &item.commands {
        page.row(&[(Paint::Plain, format!("{:INDENT$}$ {command}", ""))])?;
    }
    Ok(())
}

fn fixes<W: Write>(page: &mut Page<'_, W>, checked: &Checked) -> io::Result<()> {
    if checked.fixes.is_empty() {
        return Ok(());
    }
    page.gap()?;
    for fix in &checked.fixes {
        fixed(page, fix)?;
    }
    let has = |outcome| checked.fixes.iter().any(|fix| fix.outcome == outcome);
    if has(FixOutcome::Applied) {
        let text =
            "changes are journalled: `plimsoll fault undo` puts them back; a restart of the machine does so, too";
        page.wrapped(INDENT, (Paint::Plain, String::new()), Paint::Dim, text)?;
    }
    let by_hand = by_hand(&checked.check);
    if !by_hand.is_empty() {
        let text = format!(
            "not for --fix: {}. What binds a process ends with it, so it is for the shell that starts plimsoll; the \
             commands are above",
            by_hand.join(", ")
        );
        page.wrapped(INDENT, (Paint::Heading, "By hand".to_owned()), Paint::Plain, &text)?;
    }
    Ok(())
}

fn fixed<W: Write>(page: &mut Page<'_, W>, fix: &Fix) -> io::Result<()> {
    let (paint, word) = match fix.outcome {
        FixOutcome::Applied => (Paint::Good, "changed"),
        FixOutcome::WouldApply => (Paint::Plain, "would set"),
        FixOutcome::Refused => (Paint::Bad, "refused"),
    };
    let text = match (&fix.before, fix.outcome) {
        (_, FixOutcome::Refused) => fix.reason.clone(),
        (Some(before), _) => format!("{}: {before} → {}", fix.name, fix.after),
        (None, _) => format!("{}: {}", fix.name, fix.after),
    };
    page.wrapped(INDENT, (paint, word.to_owned()), Paint::Plain, &text)
}

/// What should be changed and is no setting of the kernel's.
fn by_hand(check: &Check) -> Vec<String> {
    let is_wanted = |item: &&Item| {
        matches!(item.standing, Standing::Binds | Standing::Tight) && item.fix.is_none() && !item.commands.is_empty()
    };
    check.items.iter().filter(is_wanted).map(|item| item.setting.to_owned()).collect()
}
