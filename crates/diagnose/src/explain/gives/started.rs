//! Processes that the target started, beside requests that took long for no cause that is known.
//!
//! Who starts one for each request (a shell, a converter, a CGI program) waits until it runs, as the kernel copies what both share, and for
//! its end. No thread shows that but for moments, and the processes are gone before they are read. It is counted by the kernel, and not how
//! long a request waited for it: so it is no finding.

use crate::facts::Facts;
use model::units::show_figure;

/// Fewer for each request are something else: a log that is turned over, a health check.
const EACH_MIN: f64 = 0.5;
/// Of fewer requests nothing is said.
const REQUESTS_MIN: f64 = 20.0;

/// How many it started for each request, in words to put behind a sentence; `None`: few, or nobody counted.
pub(super) fn for_each(facts: &Facts<'_>) -> Option<String> {
    let started = facts.counted("lifecycle.forks")? as f64;
    let each = started / facts.ended;
    let text = || {
        let number = if each < 1.5 { "a process".to_owned() } else { format!("{} processes", show_figure(each)) };
        format!("; meanwhile it started {number} for each request, and waited for it to begin")
    };
    (facts.ended >= REQUESTS_MIN && each >= EACH_MIN).then(text)
}
