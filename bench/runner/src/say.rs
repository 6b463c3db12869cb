//! Progress, on stderr: the document goes to a file.

use std::io::Write as _;

/// One line of progress on stderr; a closed stderr is no reason to stop measuring.
pub fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}
