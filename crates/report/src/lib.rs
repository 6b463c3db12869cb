//! Recordings and findings for people and machines: text, HTML, JSON, CSV, flame graphs, a progress line, a table of
//! runs.
//!
//! Pure: it is given a recording and a diagnosis and writes to what it is handed. It judges nothing (that is
//! `diagnose`), and reads no file. What
//! only one protocol reports is in `protocols`; what its error details mean is passed in as a function.
#![forbid(unsafe_code)]

pub mod agreement;
pub mod answer;
pub mod capacity;
pub mod check;
pub mod csv;
pub mod damage;
mod entries;
mod figures;
pub mod flame;
pub mod html;
pub mod json;
pub mod observed;
pub mod profile;
pub mod progress;
pub(crate) mod protocols;
pub mod runs;
pub mod samplers;
pub mod terminal;
pub mod text;
pub mod timeline;
pub mod tls_matrix;
pub mod watched;
mod words;

use model::error_kind::ErrorExample;
use std::borrow::Cow;

/// Puts the protocol's own detail of an error into words; `None` where it has none.
pub type Describe<'a> = &'a dyn Fn(&ErrorExample) -> Option<Cow<'static, str>>;
