//! `plimsoll man`: the man page, or with `--dir` one for every command, from the command line's definition.

use crate::args::{self, shell::ManArgs};
use crate::exit::{Exit, Failure};
use std::io::Write;

/// Prints the page, or writes all of them.
pub fn run(args: &ManArgs) -> Result<Exit, Failure> {
    match &args.dir {
        None => {
            let mut page = Vec::new();
            clap_mangen::Man::new(args::definition()).render(&mut page)?;
            std::io::stdout().write_all(&page)?;
        }
        Some(dir) => {
            let written = std::fs::create_dir_all(dir).and_then(|()| clap_mangen::generate_to(args::definition(), dir));
            written.map_err(|error| {
                let dir = dir.display();
                Failure::could_not_run(format!("--dir: expected a folder that can be written, got '{dir}' ({error})"))
            })?;
        }
    }
    Ok(Exit::Fine)
}
