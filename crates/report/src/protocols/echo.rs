//! What is told of echo: its payloads.

use super::{Limit, Told, made_of};
use crate::text::explain::Page;
use model::limits;
use model::plan::Echo;
use model::units::show_bytes;

impl Told for Echo {
    fn what(&self, page: &mut Page) {
        page.row("what", &format!("echo of {}", made_of(&self.sizes, self.content)));
    }
}

/// The largest payload.
pub(super) fn limit_of_version() -> Limit {
    ("echo payload", show_bytes(f64::from(limits::ECHO_BYTES_MAX)))
}
