//! The file around a page: its policy, its style, its script, and the packed data between.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use sha2::{Digest, Sha256};

/// The page's script, made of `web/src` by `scripts/web.sh`.
pub const SCRIPT: &str = include_str!("../../assets/report.js");
/// Its style, made likewise.
const STYLE: &str = include_str!("../../assets/report.css");
/// The hash of what both were made of.
pub const BUNDLE_HASH: &str = include_str!("../../assets/report.sha256");

/// A page.
#[derive(Debug)]
pub struct Frame<'a> {
    /// Its title.
    pub title: &'a str,
    /// What stands in it.
    pub body: Markup,
    /// What is drawn, packed; empty: nothing.
    pub data: &'a str,
    /// The document, packed.
    pub document: &'a str,
    /// What the document is saved as.
    pub name: &'a str,
    /// As what it asks the server that it came from, `live` or `library`; `None`: it asks nobody.
    pub asks: Option<&'static str>,
}

impl Frame<'_> {
    /// The whole file.
    pub fn markup(&self) -> Markup {
        let connect = if self.asks.is_some() { "; connect-src 'self'" } else { "" };
        let policy = format!(
            "default-src 'none'; script-src '{}'; style-src '{}'; img-src data:; base-uri 'none'; form-action 'none'{connect}",
            hash(SCRIPT),
            hash(STYLE)
        );
        html! {
            (DOCTYPE)
            html lang="en" class=[self.asks] {
                head {
                    meta charset="utf-8";
                    meta http-equiv="Content-Security-Policy" content=(policy);
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta name="color-scheme" content="light dark";
                    meta name="referrer" content="no-referrer";
                    title { (self.title) }
                    link rel="icon" href="data:,";
                    style { (PreEscaped(STYLE)) }
                }
                body {
                    (self.body)
                    // Base64: nothing in it can end the element.
                    script type="text/plain" id="data" { (PreEscaped(self.data)) }
                    script type="text/plain" id="document" data-name=(self.name) { (PreEscaped(self.document)) }
                    script { (PreEscaped(SCRIPT)) }
                }
            }
        }
    }
}

/// As a Content-Security-Policy names a script or a style (W3C, CSP Level 3, `hash-source`).
fn hash(text: &str) -> String {
    format!("sha256-{}", STANDARD.encode(Sha256::digest(text.as_bytes())))
}
