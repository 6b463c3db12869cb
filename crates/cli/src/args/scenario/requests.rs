//! The file of `--requests-from`: named requests as TOML, a `[[request]]` table each.
//!
//! Its keys are the fields of [`RequestAsked`]. Like `--urls` it is a way of writing arguments, so it is read here and not
//! where a scenario is resolved.

use crate::exit::Failure;
use model::workload::http::RequestAsked;
use serde::Deserialize;
use std::path::Path;

/// Largest file of requests, bytes.
const REQUESTS_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// The file as a whole.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RequestsFile {
    request: Vec<RequestAsked>,
}

/// Reads the file.
///
/// # Errors
/// In a sentence, with the line.
pub fn read(path: &Path) -> Result<Vec<RequestAsked>, Failure> {
    let bytes = resolve::files::read(path, REQUESTS_BYTES_MAX, crate::commands::tell).map_err(|error| {
        let shown = path.display();
        match error.kind() {
            std::io::ErrorKind::FileTooLarge => Failure::usage(format!(
                "--requests-from: expected at most {REQUESTS_BYTES_MAX} bytes, but '{shown}' {error}: name a smaller file"
            )),
            _ => Failure::of_file(
                &error,
                format!("--requests-from: expected a file that can be read, got '{shown}' ({error}): check its path"),
            ),
        }
    })?;
    let refused = |why: String| Failure::usage(format!("--requests-from: {}{why}", path.display()));
    let text = std::str::from_utf8(&bytes).map_err(|_| refused(": expected UTF-8".to_owned()))?;
    requests_of(text).map_err(refused)
}

/// The requests of a text; what is wrong with it, behind its name.
fn requests_of(text: &str) -> Result<Vec<RequestAsked>, String> {
    let file: RequestsFile = toml::from_str(text).map_err(|error| {
        let line = error.span().and_then(|span| text.get(..span.start)).map(|before| before.matches('\n').count() + 1);
        let line = line.map_or(String::new(), |line| format!(", line {line}"));
        format!("{line}: {}", error.message().replace('\n', " "))
    })?;
    if file.request.is_empty() {
        return Err(": expected at least one [[request]], got none".to_owned());
    }
    Ok(file.request)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_named_requests() {
        let text = "[[request]]\nname = 'login'\npath = '/login'\nbody = '{}'\ntake = ['token = json /token']\n\n[[request]]\npath = '/'\n";
        let requests = requests_of(text).unwrap();
        assert_eq!(requests.len(), 2);
        assert_eq!((requests[0].name.as_deref(), requests[0].take.len()), (Some("login"), 1));
        assert_eq!(requests[1].path.expose(), b"/");
    }

    #[test]
    fn what_is_wrong_is_said_in_one_sentence_with_its_line() {
        for (text, expected) in [
            ("", "missing field `request`"),
            ("request = []", "at least one [[request]]"),
            ("[[request]]\npath = '/'\nnme = 'x'\n", ", line 3: unknown field `nme`"),
            ("[[request]]\npath = 7\n", ", line 2: invalid type"),
            ("[[request]\n", ", line 1"),
        ] {
            let error = requests_of(text).unwrap_err();
            assert!(error.contains(expected) && error.lines().count() == 1, "{text}: {error}");
        }
    }
}
