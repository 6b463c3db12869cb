//! `plimsoll load`: a scenario from the arguments, a plan from the scenario, the run, its report.
//!
//! Warnings go to stderr before any load is put on. With `--explain` the plan is printed and nothing runs.

use super::explain;
use crate::args::load::LoadArgs;
use crate::args::scenario::scenario_of;
use crate::exit::{Exit, Failure};
use session::resolve::{SystemHost, resolve};
use std::io::Write;

/// Puts load on, or says what would be put on.
pub fn run(mut args: LoadArgs) -> Result<Exit, Failure> {
    args.output.no_color |= std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let scenario = scenario_of(&args)?;
    let output = &args.output;
    let resolved = resolve(&scenario, &SystemHost::new(engine::driver::uring::available))?;
    if output.explain {
        return explain::run(&resolved, output);
    }
    if !output.quiet {
        let mut stderr = std::io::stderr().lock();
        for warning in &resolved.warnings {
            // Nothing is left to do where stderr is closed.
            let _ = writeln!(stderr, "plimsoll: warning: {warning}");
        }
    }
    // ---- The run: the one call to session::run belongs here. ----
    Err(Failure::could_not_run("this build only explains a run: add --explain"))
}
