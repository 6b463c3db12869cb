//! What is told of held connections: what they send, and how they are watched. What they cost is in `text::held`.

use super::{Told, made_of};
use crate::text::explain::Page;
use model::plan::Hold;
use model::units::show_duration_ns;

impl Told for Hold {
    fn what(&self, page: &mut Page) {
        let back = if self.is_echoed { "expected back" } else { "sent only" };
        let message = made_of(&self.message.sizes, self.message.content);
        page.row("what", &format!("held connections; messages of {message}, {back}"));
        let watched = match self.sweep_ns {
            Some(ns) => {
                format!("looked at every {}: a close is seen so late at the most", show_duration_ns(ns as f64))
            }
            None => "watched all the time".to_owned(),
        };
        page.row("", &watched);
    }
}
