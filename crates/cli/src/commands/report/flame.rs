//! `plimsoll report --flame`: where the target of a recording ran or waited, as SVG or as folded stacks.

use crate::args::runs::ReportArgs;
use crate::exit::{Exit, Failure};
use diagnose::slow::{Window, is_in, slow_windows};
use model::Recording;
use model::profile::{Folding, Kind, Stacks};
use report::flame::{Flame as Drawing, why_none};
use report::html::flames::Flame;
use report::html::periods::Periods;
use std::fs::File;
use std::io::{BufWriter, Write};
use store::{Reader, StoreError};

/// Writes it.
pub fn run(args: &ReportArgs, kind: Kind, reader: &Reader, recording: &Recording) -> Result<Exit, Failure> {
    let mut windows = slow_windows(recording.timeline.rows());
    let of_slow;
    let stacks: &Stacks = if args.slow {
        leave_out_merged(&mut windows, reader)?;
        of_slow = sum(reader, kind, |period| is_in(&windows, period))?;
        of_slow.stacks()
    } else {
        recording.profile.of(kind)
    };
    if stacks.total() == 0 {
        return Err(Failure::could_not_run(why_none(recording, kind, args.slow.then_some(windows.len()))));
    }
    let length_ns = windows.iter().map(|window| window.to_ns - window.from_ns).sum();
    let drawing = Drawing { kind, stacks, slow: args.slow.then_some((windows.len(), length_ns)) };
    match &args.output {
        None => {
            let mut out = BufWriter::new(std::io::stdout().lock());
            draw(args, &drawing, recording, &mut out)?;
        }
        Some(path) => {
            let refused = |error: std::io::Error| {
                Failure::could_not_run(format!("expected to write the flame graph to {}, but {error}", path.display()))
            };
            let mut out = BufWriter::new(File::create(path).map_err(refused)?);
            draw(args, &drawing, recording, &mut out).map_err(refused)?;
        }
    }
    Ok(Exit::Fine)
}

/// Of ticks that were merged, there are stacks of all of them together only: slow ones among them cannot be told apart.
fn leave_out_merged(windows: &mut Vec<Window>, reader: &Reader) -> Result<(), Failure> {
    let Some(from_ns) = reader.snapshots_from_ns()? else { return Ok(()) };
    let all = windows.len();
    windows.retain(|window| i64::try_from(window.to_ns).is_ok_and(|to_ns| to_ns > from_ns));
    let from_s = from_ns / 1_000_000_000;
    let gone = all - windows.len();
    // Nothing is left to do where stderr is closed.
    let _ = writeln!(
        std::io::stderr(),
        "plimsoll: warning: stacks tick by tick are kept of the newest ticks only, here from second {from_s} on: {gone} of {all} \
         slow windows lie before and are left out; without --slow the graph is of the whole run"
    );
    Ok(())
}

fn draw(args: &ReportArgs, drawing: &Drawing<'_>, recording: &Recording, out: &mut impl Write) -> std::io::Result<()> {
    match args.folded {
        true => drawing.write_folded(out)?,
        false => drawing.write_svg(out, recording)?,
    }
    out.flush()
}

/// The graphs of a page: of the whole run, with its stacks period by period, and where it had slow windows, of these apart.
///
/// # Errors
/// Those of the recording.
pub fn all(reader: &Reader, recording: &Recording) -> Result<Vec<Flame>, Failure> {
    let mut windows = slow_windows(recording.timeline.rows());
    let since_ns = reader.snapshots_from_ns()?;
    if let Some(from_ns) = since_ns {
        windows.retain(|window| i64::try_from(window.to_ns).is_ok_and(|to_ns| to_ns > from_ns));
    }
    let length_ns = windows.iter().map(|window| window.to_ns - window.from_ns).sum();
    let mut flames = Vec::new();
    for kind in [Kind::OnCpu, Kind::OffCpu] {
        let stacks = recording.profile.of(kind);
        if stacks.total() == 0 {
            continue;
        }
        let mut periods = Periods::of(stacks);
        if let Some(from_ns) = since_ns {
            periods.known_since(from_ns);
        }
        let mut of_slow = Folding::default();
        for profile in reader.profiles() {
            let profile = profile?;
            let Some(period) = profile.of(kind) else { continue };
            periods.push(period);
            if is_in(&windows, period) {
                of_slow.merge(&period.stacks);
            }
        }
        flames.push(Flame { kind, stacks: stacks.clone(), slow: None, periods: Some(periods) });
        if of_slow.stacks().total() > 0 {
            let slow = Some((windows.len(), length_ns));
            flames.push(Flame { kind, stacks: of_slow.into_stacks(), slow, periods: None });
        }
    }
    Ok(flames)
}

/// The stacks of some periods together.
fn sum(
    reader: &Reader,
    kind: Kind,
    is_wanted: impl Fn(&model::profile::Period) -> bool,
) -> Result<Folding, StoreError> {
    let mut sum = Folding::default();
    for profile in reader.profiles() {
        let profile = profile?;
        if let Some(period) = profile.of(kind).filter(|period| is_wanted(period)) {
            sum.merge(&period.stacks);
        }
    }
    Ok(sum)
}
