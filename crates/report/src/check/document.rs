//! The check as a document, `plimsoll.check/1`: fixed names that scripts lean on; more may be added, none change.

use super::Checked;
use crate::json::Tool;
use model::check::{Demand, Fix, Item};
use schemars::JsonSchema;
use serde::Serialize;
use std::io::{self, Write};

/// The document's name and version.
pub const SCHEMA: &str = "plimsoll.check/1";

/// Whether a host is ready for a load.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Document {
    /// Always `plimsoll.check/1`.
    pub schema: &'static str,
    /// What wrote it.
    pub tool: Tool,
    /// Where the load would go, as written; null: nowhere in particular.
    pub target: Option<String>,
    /// Whether nothing binds. What was not read may bind all the same: see `not_known`.
    pub ready: bool,
    /// Id of the limit that binds first; null when none does.
    pub first_to_bind: Option<&'static str>,
    /// How many limits could not be read.
    pub not_known: usize,
    /// What is asked of the host.
    pub demand: Demand,
    /// Every limit: those that bind first, the tightest at the top.
    pub items: Vec<Item>,
    /// What was changed, or would be; empty where that was not asked for.
    pub fixes: Vec<Fix>,
}

impl Document {
    /// The document of a check, written by this version of the tool.
    pub fn of(checked: &Checked, version: &str) -> Self {
        let check = &checked.check;
        let first = check.first_to_bind();
        Document {
            schema: SCHEMA,
            tool: Tool { name: "plimsoll", version: version.to_owned() },
            target: Some(checked.target.clone()).filter(|target| !target.is_empty()),
            ready: first.is_none(),
            first_to_bind: first.map(|item| item.id),
            not_known: check.items.iter().filter(|i| i.standing == model::check::Standing::NotKnown).count(),
            demand: check.demand.clone(),
            items: check.items.clone(),
            fixes: checked.fixes.clone(),
        }
    }

    /// Writes it, indented, with an end of line.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn write(&self, to: &mut impl Write) -> io::Result<()> {
        serde_json::to_writer_pretty(&mut *to, self)?;
        writeln!(to)
    }
}

/// The JSON Schema of [`Document`].
pub fn schema() -> serde_json::Value {
    let mut schema = schemars::schema_for!(Document);
    schema.insert("title".to_owned(), SCHEMA.into());
    schema.to_value()
}
