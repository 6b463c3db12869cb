//! Every variant of a scenario file (`[vary]`), one after the other, with one answer of all of them.
//!
//! All are resolved before the first is run, so that what is wrong in the last costs no time. A target that is started is
//! started anew for each. With `repeats` all variants are run once, then all of them again in the other direction, and so on: what drifts
//! meanwhile does so for each alike. Two sides are compared better, in random order and with a verdict, by `plimsoll ab`.

use super::repeats::{Series, numbered};
use super::together::{Asked, Loads, Repeat};
use super::{explain, loads_of, options, with_canary};
use crate::args::load::{LoadArgs, OutputArgs};
use crate::commands::agents::{self, PutOnBy};
use crate::commands::interrupt;
use crate::commands::output::progress::Shown;
use crate::commands::output::view::When;
use crate::commands::output::{intervals, results, terminal};
use crate::exit::{Exit, Failure};
use diagnose::variants::{Axis, SCHEMA, Value, Variant, Variants, named};
use model::recording::End;
use session::{Options, target};
use std::io::Write;
use std::sync::atomic::Ordering;

/// A variant as it was written.
pub struct Wanted<'a> {
    /// Each axis with its value's name.
    pub values: Vec<(String, String)>,
    /// The main load's arguments.
    pub args: LoadArgs,
    /// Its loads, the main one first.
    pub asked: Vec<Asked>,
    /// What is started for it.
    pub target: Option<target::Spec>,
    /// How often it is run.
    pub repeat: Repeat,
    /// Says of what was written wrongly in the load of a number where that stands.
    pub blamed: Box<dyn Fn(usize, Failure) -> Failure + 'a>,
}

/// A variant that can be run.
struct Ready {
    values: Vec<Value>,
    args: LoadArgs,
    loads: Loads,
    target: Option<target::Spec>,
    repeat: Repeat,
}

impl Ready {
    fn of(wanted: Wanted<'_>) -> Result<Self, Failure> {
        let Wanted { values, args, mut asked, target, repeat, blamed } = wanted;
        with_canary(&args, &mut asked)?;
        if args.tls.tls_matrix {
            return Err(Failure::usage("--tls-matrix cannot be used with [vary]: leave one of them out"));
        }
        if args.by_agents.count()?.is_some() {
            agents::refuse(&args)?;
        }
        intervals::refuse_with_json(args.output.csv.as_deref(), intervals::What::Intervals, args.output.json)?;
        if args.output.live.live.is_some() {
            return Err(Failure::usage("--live shows one run: leave it out, or [vary]"));
        }
        if args.output.csv.is_some() {
            return Err(Failure::usage("--csv is of one run: leave it out, or [vary]"));
        }
        let loads = loads_of(asked, args.remote.observe_at.is_some(), &*blamed)?;
        let values = values.into_iter().map(|(axis, value)| Value { axis, value }).collect();
        Ok(Ready { values, args, loads, target, repeat })
    }

    fn times(&self) -> u32 {
        match self.repeat {
            Repeat::Once => 1,
            Repeat::Times(times) => times,
        }
    }
}

/// Runs all of them, and prints what they come to.
pub fn run(wanted: Vec<Wanted<'_>>) -> Result<Exit, Failure> {
    crate::commands::raise_descriptor_limit();
    let ready = wanted.into_iter().map(Ready::of).collect::<Result<Vec<Ready>, Failure>>()?;
    let Some(first) = ready.first() else { return Err(Failure::usage("expected a variant, got none")) };
    let mut output = first.args.output.clone();
    output.no_color |= std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    if output.explain {
        return explained(ready, &output);
    }
    let mut shown = Shown::new(output.quiet);
    let interrupted = interrupt::flag()?;
    shown.draw(When::of(&output, true), &interrupted);
    let mut variants = Variants {
        schema: SCHEMA.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        end: End::Complete,
        asked: ready.len() as u32,
        axes: axes(&ready),
        variants: Vec::new(),
    };
    let mut started = Vec::new();
    for (number, one) in (1..).zip(&ready) {
        let options = options(&one.args, &one.loads, one.args.observe_at()?, interrupted.clone())?;
        let options = Options { record: numbered(&options.record, number), ..options };
        let series = Series::new(one.times(), &one.loads, &options.version);
        started.push((options, series, PutOnBy::of(&one.args, &one.loads)?));
    }
    let mut failed = None;
    for at in in_turn(ready.iter().map(Ready::times).collect()) {
        let (one, (options, series, by)) = (&ready[at], &mut started[at]);
        if series.repeats.made == 0 {
            for (load, warning) in one.loads.warnings() {
                shown.say(&format!("plimsoll: warning: {load}{}", crate::flags::shown(warning)));
            }
        }
        let of = format!("variant {} of {}, {}: ", at + 1, ready.len(), named(&one.values));
        if let Err(failure) = series.one(&one.loads, one.target.as_ref(), options, by, &mut shown, &of) {
            failed = Some(failure.worded(|text| format!("{}: {text}", named(&one.values))));
        }
        variants.end = series.repeats.end;
        if failed.is_some() || variants.end == End::Interrupted || interrupted.load(Ordering::Relaxed) {
            break;
        }
    }
    if failed.is_some() && !started.iter().all(|(_, series, _)| series.is_whole()) {
        variants.end = End::Partial;
    }
    // What is known is said, also where a later run failed.
    let mut exit = Exit::Fine;
    for (one, (_, mut series, _)) in ready.iter().zip(started).filter(|(_, (_, series, _))| series.repeats.made > 0) {
        exit = exit.worst(series.exit);
        if !series.is_whole() {
            series.repeats.end = variants.end;
        }
        variants.variants.push(Variant { values: one.values.clone(), repeats: series.repeats });
    }
    if variants.end == End::Interrupted {
        exit = exit.worst(Exit::Interrupted);
    }
    shown.clear();
    interrupt::end_at_once(&interrupted);
    if let (Some(_), true) = (&failed, variants.variants.is_empty()) {
        return failed.map_or(Ok(exit), Err);
    }
    results::to_stdout(|out| match output.json {
        true => {
            serde_json::to_writer_pretty(&mut *out, &variants)?;
            out.write_all(b"\n")
        }
        false => report::answer::variants::write(out, &variants, terminal::style(output.no_color)),
    })?;
    failed.map_or(Ok(exit), Err)
}

/// Which variant comes when, each as often as it is asked for: all of them in order, then in the other direction, and so on.
fn in_turn(times: Vec<u32>) -> Vec<usize> {
    let round = |round: u32| {
        let asked = times.iter().enumerate().filter(move |(_, times)| round < **times).map(|(at, _)| at);
        let mut all: Vec<usize> = asked.collect();
        if round % 2 == 1 {
            all.reverse();
        }
        all
    };
    (0..times.iter().copied().max().unwrap_or(0)).flat_map(round).collect()
}

fn axes(ready: &[Ready]) -> Vec<Axis> {
    let mut axes: Vec<Axis> = Vec::new();
    for Value { axis, value } in ready.iter().flat_map(|one| &one.values) {
        match axes.iter_mut().find(|known| known.name == *axis) {
            Some(known) if known.values.contains(value) => {}
            Some(known) => known.values.push(value.clone()),
            None => axes.push(Axis { name: axis.clone(), values: vec![value.clone()] }),
        }
    }
    axes
}

/// `--explain` of every variant.
fn explained(ready: Vec<Ready>, output: &OutputArgs) -> Result<Exit, Failure> {
    let mut stdout = std::io::stdout();
    let mut documents = Vec::new();
    for one in ready {
        let values = one.values.clone();
        let target = one.target.as_ref();
        if output.json {
            let plan = explain::document(one.loads, target, one.repeat);
            documents.push(serde_json::json!({"values": values, "explained": plan}));
        } else {
            writeln!(stdout, "Variant {}\n", named(&values))?;
            explain::run(one.loads, target, one.repeat, output)?;
            writeln!(stdout)?;
        }
    }
    if output.json {
        let document = serde_json::json!({"variants": documents});
        writeln!(stdout, "{document:#}")?;
    }
    Ok(Exit::Fine)
}

#[cfg(test)]
mod tests {
    use super::in_turn;

    #[test]
    fn variants_are_run_in_turn_there_and_back() {
        assert_eq!(in_turn(vec![3, 1, 3]), [0, 1, 2, 2, 0, 0, 2]);
        assert_eq!(in_turn(vec![1, 1]), [0, 1]);
        assert!(in_turn(Vec::new()).is_empty());
    }
}
