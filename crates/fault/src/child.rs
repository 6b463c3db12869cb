//! A program that runs as long as its fault lasts, such as stress-ng: started with a mark, and ended with all it started.
//!
//! The mark stands in its environment (`PLIMSOLL_FAULT_MARK`), which its children have from it, and is in the journal before it is
//! started: so all of it is found and killed after a `kill -9` of plimsoll, and nothing else is. What descends from who has the
//! mark is ended, too. It has a process group and, where it wants one, a folder of its own, which is removed. A program that
//! clears its environment, or writes over it (setproctitle), and whose parent has ended, would not be found.

use crate::change::Reversible;
use crate::error::ApplyError;
use crate::limits::{CHILD_LOOKS, LOOK};
use crate::place;
use crate::process::{Process, all, id_of};
use rustix::process::{Signal, WaitOptions, waitpid};
use serde::{Deserialize, Serialize};
use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Where the mark stands.
const VARIABLE: &str = "PLIMSOLL_FAULT_MARK";
/// How the names of folders begin that are made here: no other is ever removed.
const NAME: &str = "plimsoll-fault-";
/// More than any environment that one of these programs has, bytes.
const ENVIRONMENT_BYTES_MAX: u64 = 1 << 20;
const BEFORE: &str = "not running";
const AFTER: &str = "running";

/// A program, and its mark.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Child {
    mark: String,
    program: String,
    arguments: Vec<String>,
    /// The folder it works in, made for it and removed with all that is in it.
    folder: Option<PathBuf>,
}

impl Child {
    /// A program, and whether it has a folder of its own.
    pub(crate) fn planned(program: &str, arguments: Vec<String>, has_folder: bool) -> Self {
        let mark = place::mark();
        let folder = has_folder.then(|| std::env::temp_dir().join(format!("{NAME}{mark}")));
        Child { mark, program: program.to_owned(), arguments, folder }
    }

    /// Its folder, where it has one.
    pub(crate) fn folder(&self) -> Option<&Path> {
        self.folder.as_deref()
    }

    /// The processes that have the mark, and all that descends from them.
    pub(crate) fn processes(&self) -> Vec<Process> {
        let wanted = format!("{VARIABLE}={}", self.mark);
        let is_it = move |pid: &u32| {
            let mut text = Vec::new();
            let read = std::fs::File::open(format!("/proc/{pid}/environ"));
            let read = read.and_then(|file| file.take(ENVIRONMENT_BYTES_MAX).read_to_end(&mut text));
            read.is_ok() && text.split(|b| *b == 0).any(|entry| entry == wanted.as_bytes())
        };
        let with_tree = crate::process::with_descendants(all().filter(is_it).collect());
        let is_other = |pid: &u32| *pid > 1 && *pid != std::process::id();
        with_tree.into_iter().filter(is_other).filter_map(|pid| Process::of(pid).ok()).collect()
    }

    /// Starts it; `with` has the last word on its command.
    pub(crate) fn start(&self, with: impl FnOnce(&mut Command)) -> Result<(), ApplyError> {
        let failed = |error: io::Error| ApplyError::Missing {
            name: self.program.clone(),
            expected: "it to start".to_owned(),
            reason: format!("{}: install it", crate::error::plain(&error)),
        };
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).env(VARIABLE, &self.mark).process_group(0);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        if let Some(folder) = &self.folder {
            use std::os::unix::fs::DirBuilderExt;
            std::fs::DirBuilder::new().mode(0o700).create(folder).map_err(failed)?;
            command.current_dir(folder);
        }
        with(&mut command);
        command.spawn().map(drop).map_err(failed)
    }

    /// Kills it with all that it started, and removes its folder.
    pub(crate) fn end(&self) -> Result<(), ApplyError> {
        for _ in 0..CHILD_LOOKS {
            let all = self.processes();
            if all.is_empty() {
                return self.remove_folder();
            }
            for process in all {
                // One that has ended meanwhile needs none.
                let _ = crate::faults::signal::send(process.pid, process.started, Signal::KILL);
                // A child of this very process would stay as a zombie; of nobody else's is this one told.
                let _ = id_of(process.pid).map(|id| waitpid(Some(id), WaitOptions::NOHANG));
            }
            std::thread::sleep(LOOK);
        }
        Err(ApplyError::of_write(&self.name(), BEFORE, &io::Error::other("it does not end")))
    }

    fn remove_folder(&self) -> Result<(), ApplyError> {
        let Some(folder) = &self.folder else { return Ok(()) };
        match std::fs::remove_dir_all(folder) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(ApplyError::of_write(&folder.display().to_string(), BEFORE, &error))
            }
            _ => Ok(()),
        }
    }
}

impl Reversible for Child {
    fn name(&self) -> String {
        format!("{} {}", self.program, self.arguments.join(" "))
    }

    fn identity(&self) -> String {
        self.mark.clone()
    }

    fn before(&self) -> String {
        BEFORE.to_owned()
    }

    fn after(&self) -> String {
        AFTER.to_owned()
    }

    fn found(&self) -> Result<Option<String>, ApplyError> {
        // It may have ended by itself, and left its folder.
        let is_there = self.folder.as_ref().is_some_and(|folder| std::fs::symlink_metadata(folder).is_ok());
        Ok(Some(if is_there || !self.processes().is_empty() { AFTER } else { BEFORE }.to_owned()))
    }

    fn may(&self) -> Result<(), ApplyError> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let is_there = std::env::split_paths(&path).any(|folder| folder.join(&self.program).is_file())
            || (self.program.contains('/') && Path::new(&self.program).is_file());
        match is_there {
            true => Ok(()),
            false => Err(ApplyError::Missing {
                name: self.program.clone(),
                expected: "the program to be installed".to_owned(),
                reason: format!("it is not found: install the package {}", self.program),
            }),
        }
    }

    fn set(&self, value: &str) -> Result<(), ApplyError> {
        if value == BEFORE { self.end() } else { self.start(|_| {}) }
    }

    /// Only what has a mark of ours is killed, and only a folder that has one is removed.
    fn check(&self) -> Result<(), ApplyError> {
        let is_ours = |folder: &PathBuf| {
            folder.is_absolute() && folder.file_name().is_some_and(|name| *name == *format!("{NAME}{}", self.mark))
        };
        match place::is_mark(&self.mark) && self.folder.as_ref().is_none_or(is_ours) {
            true => Ok(()),
            false => Err(ApplyError::not_ours(&self.name(), "a program of ours")),
        }
    }

    fn is_in_parts(&self) -> bool {
        true
    }
}
