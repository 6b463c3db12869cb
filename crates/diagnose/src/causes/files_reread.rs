//! `files-reread`: the target opens files again for every request.
//!
//! Evidence: (kernel) two opens and more for each reply in the probes' windows; (process) reads by the target, one and more
//! for each request. For information: a server of files opens the one it was asked for. Refuted below two. Which files they
//! are is told by the names that the target gave them.

use crate::evidence::{Kernel, Process};
use crate::facts::{Facts, duration};
use crate::rule::{CauseRule, Needs, OfTarget, Verdict};
use crate::thresholds::OPENS;
use model::finding::{Evidence, Severity};

/// So many files are named.
const NAMED_MAX: usize = 3;

/// See the file's head.
pub const RULE: CauseRule =
    CauseRule { id: "files-reread", needs: Needs::Connections, reads: &[&["bpf/syscalls"], &["process/io"]], judge };

fn judge(facts: &Facts<'_>) -> Verdict<OfTarget> {
    let Some(replies) = facts.window_replies() else {
        return Verdict::not_observable(
            "opens of files",
            "fewer than twenty replies fell into the probes' windows; --observe windows opens them",
        );
    };
    let (opens, ns) = facts.calls(&["open", "openat", "openat2"]);
    let each = opens as f64 / replies;
    let text = format!("{each:.1} opens of files for each reply, {} in all", duration(ns / replies));
    let kernel = facts.piece::<Kernel>(text, "syscalls.opens_per_reply", each, "ratio").from(OPENS.value);
    if each < OPENS.value {
        return Verdict::refuted("hardly a file is opened for a reply").because(kernel.into());
    }
    let Some(reads) = facts.target_grown("io_calls_read") else {
        return Verdict::not_observable("reads of the target", "what the target reads was not counted")
            .because(kernel.into());
    };
    let a_request = reads / facts.ended.max(1.0);
    let process = facts
        .piece::<Process>(format!("{a_request:.1} reads for each request"), "io_calls_read", a_request, "ratio")
        .from(1.0);
    if a_request < 1.0 {
        return Verdict::refuted("what is opened is not read again").because(kernel.into()).because(process.into());
    }
    Verdict::proved(Severity::Info, format!("the target opens {each:.1} files for each request"), kernel, process)
        .because_all(most_opened(facts, replies))
        .remedy(
            "Keep open, or in memory, what every request needs (open_file_cache; no .htaccess; templates read once)",
        )
        .check("timeout 5 strace -f -e trace=openat -p PID | sort | uniq -c | sort -n | tail")
        .confidence(0.85)
}

/// The files that were opened most, for so many replies.
fn most_opened(facts: &Facts<'_>, replies: f64) -> Option<Evidence> {
    let files = &facts.probes()?.files;
    let named: Vec<String> = files
        .iter()
        .take(NAMED_MAX)
        .map(|file| format!("{} ({:.1} a reply)", file.path, file.opens as f64 / replies.max(1.0)))
        .collect();
    let most = files.first()?.opens as f64 / replies.max(1.0);
    Some(facts.evidence(format!("opened most: {}", named.join(", ")), "syscalls.opens_of_one", most, "ratio"))
}
