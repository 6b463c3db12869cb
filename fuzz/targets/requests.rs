//! Requests that others have written (HAR, OpenAPI, curl), and templates: whatever comes, nothing may panic, an error is one
//! line, and what is read can be looked at as a template.
//!
//! Input: a byte that says which kind, and the text.
#![no_main]

use libfuzzer_sys::fuzz_target;
use model::template;
use resolve::import::{TextKind, read};

fuzz_target!(|input: &[u8]| {
    let Some((which, text)) = input.split_first() else { return };
    if let Ok(pieces) = template::pieces(text) {
        assert!(template::is_template(text) || pieces.len() <= 1);
    }
    let Ok(text) = std::str::from_utf8(text) else { return };
    let kind = [TextKind::Har, TextKind::OpenApi, TextKind::Curl][usize::from(which % 3)];
    match read(kind, text) {
        Ok(imported) => {
            assert!(!imported.requests.is_empty() && !imported.url.is_empty());
            for request in imported.requests {
                assert!(request.path.expose().starts_with(b"/"));
                let _ = template::pieces(request.path.expose());
            }
        }
        Err(why) => assert_eq!(why.lines().count(), 1, "{why}"),
    }
});
