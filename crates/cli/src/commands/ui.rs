//! `plimsoll ui`: the recordings of a folder in a browser, until SIGINT or SIGTERM.
//!
//! The folder is read anew for each page, so what other commands add and delete is seen. Each page is made by the code of the
//! command that makes it: `runs`, `report --html`, `compare --html`.

use super::output::outlet::Outlet;
use super::{compare, interrupt, report as reported, runs};
use crate::args::pages::ui::UiArgs;
use crate::exit::{Exit, Failure};
use session::pages::library::{Answer, Library, serve};
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How long lines that are being written are waited for.
const SETTLE: Duration = Duration::from_millis(500);
/// How long a signal may wait to be heeded.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Shows them until it is told to end; says where before the first page can be asked for.
pub fn run(args: &UiArgs) -> Result<Exit, Failure> {
    let folder = args.folder.clone().map_or_else(store::default_folder, Ok)?;
    let interrupted = interrupt::flag()?;
    let outlet = Outlet::start().map_err(|error| Failure::could_not_run(format!("expected a thread, but {error}")))?;
    let serving = serve(&args.spec(), Recordings { folder: folder.clone() })?;
    outlet.result(format!("recordings of {} at {}", folder.display(), serving.url()));
    if let Some(fingerprint) = serving.fingerprint().filter(|_| args.tls_cert.is_none()) {
        outlet.result(format!(
            "  a browser will warn of the certificate, which was made now; its SHA-256 is {fingerprint}"
        ));
    }
    outlet.settle(SETTLE)?;
    while !interrupted.load(Ordering::Relaxed) {
        std::thread::sleep(LOOK_EVERY);
    }
    Ok(Exit::Fine)
}

struct Recordings {
    folder: PathBuf,
}

fn said(failure: Failure) -> String {
    failure.message().to_owned()
}

impl Library for Recordings {
    fn list(&self) -> Answer {
        let runs = runs::listed(&self.folder).map_err(|error| error.to_string())?;
        Ok(report::html::library::page(&runs, &self.folder.display().to_string()).into_bytes())
    }

    fn report(&self, id: &str) -> Answer {
        let path = store::named(&self.folder, id).map_err(|error| error.to_string())?;
        reported::html::page_of(&path).map_err(said)
    }

    fn compare(&self, a: &str, b: &str) -> Answer {
        let path = |id: &str| store::named(&self.folder, id).map_err(|error| error.to_string());
        compare::recorded::page_of(&path(a)?, &path(b)?).map_err(said)
    }

    fn delete(&self, id: &str) -> Result<(), String> {
        store::delete(&self.folder, id).map_err(|error| error.to_string())
    }
}
