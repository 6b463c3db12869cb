//! What all limits share: an item in its three shapes, and when room is little.
//!
//! A limit with an amount is judged by the amount alone; a setting without one is what its function says.

use model::check::{Item, Setting, Standing, is_fixable};
use model::readings::Reading;
use model::units::{show_bytes, show_grouped};

/// Room of less than a quarter is little: a plan's figures are seldom that exact, and the host does other things, too.
const TIGHT: f64 = 1.25;

/// A limit's names.
#[derive(Debug, Clone, Copy)]
pub(super) struct Name {
    pub(super) id: &'static str,
    pub(super) setting: &'static str,
}

impl Name {
    /// One whose value was not read. What is absent binds nothing here, but is not shown as fine either.
    pub(super) fn not_read<T>(self, reading: &Reading<T>) -> Item {
        let text = match reading {
            Reading::Unreadable(reason) => reason.clone(),
            Reading::Absent | Reading::Known(_) => format!("this host does not show {}", self.setting),
        };
        Item { standing: Standing::NotKnown, value: None, text, ..self.empty() }
    }

    /// A setting that bounds no amount.
    pub(super) fn setting(self, value: impl ToString, standing: Standing, text: impl Into<String>) -> Item {
        Item { standing, value: Some(value.to_string()), text: text.into(), ..self.empty() }
    }

    /// A limit that allows an amount where another is needed.
    pub(super) fn amount(self, value: impl ToString, allows: f64, needs: f64, unit: &'static str) -> Item {
        let standing = match () {
            () if allows < needs => Standing::Binds,
            () if allows < needs * TIGHT => Standing::Tight,
            () => Standing::Ok,
        };
        Item {
            standing,
            value: Some(value.to_string()),
            allows: Some(allows),
            needs: Some(needs),
            unit,
            ..self.empty()
        }
    }

    fn empty(self) -> Item {
        Item {
            id: self.id,
            setting: self.setting,
            value: None,
            standing: Standing::Ok,
            allows: None,
            needs: None,
            unit: "",
            text: String::new(),
            commands: Vec::new(),
            fix: None,
        }
    }
}

/// What is said of an item, and what changes it where it should be changed.
pub(super) trait Said: Sized {
    fn saying(self, text: impl Into<String>) -> Self;
    /// Never worse than tight: the load may need it, or may not.
    fn at_most_tight(self) -> Self;
    /// Enough is fine: there is no more to need than this.
    fn ok_when_enough(self) -> Self;
    /// A command by hand only; nothing is said of an item that is fine.
    fn changed_by(self, command: impl FnOnce() -> String) -> Self;
    /// A command that must go before the next, where it is needed.
    fn changed_by_first(self, is_needed: bool, command: impl FnOnce() -> String) -> Self {
        if is_needed { self.changed_by(command) } else { self }
    }
    /// A setting that `--fix` may write; likewise.
    fn fixed_by(self, name: &str, value: impl FnOnce() -> String) -> Self;
}

impl Said for Item {
    fn saying(mut self, text: impl Into<String>) -> Self {
        self.text = text.into();
        self
    }

    fn at_most_tight(mut self) -> Self {
        self.standing = self.standing.max(Standing::Tight);
        self
    }

    fn ok_when_enough(mut self) -> Self {
        if self.allows >= self.needs {
            self.standing = Standing::Ok;
        }
        self
    }

    fn changed_by(mut self, command: impl FnOnce() -> String) -> Self {
        if is_to_change(&self) {
            self.commands.push(command());
        }
        self
    }

    fn fixed_by(mut self, name: &str, value: impl FnOnce() -> String) -> Self {
        let value = is_to_change(&self).then(value);
        // A command that sets what is set already is no advice.
        let is_so = |value: &String| self.value.as_ref().is_some_and(|now| now.replace(',', "") == *value);
        if let Some(value) = value.filter(|value| !is_so(value)) {
            self.commands.push(match value.contains(' ') {
                true => format!("sysctl -w {name}='{value}'"),
                false => format!("sysctl -w {name}={value}"),
            });
            // What is not in the list would not be changed, nor put back: that is for the reader's own hand.
            self.fix = is_fixable(name, &value).then(|| Setting { name: name.to_owned(), value });
        }
        self
    }
}

fn is_to_change(item: &Item) -> bool {
    matches!(item.standing, Standing::Binds | Standing::Tight)
}

/// A count whose digits can be read.
pub(super) fn n(value: f64) -> String {
    show_grouped(value.max(0.0) as u64)
}

/// The same of a whole number.
pub(super) fn grouped(value: u64) -> String {
    show_grouped(value)
}

/// Bytes.
pub(super) fn bytes(value: f64) -> String {
    show_bytes(value)
}

/// A count with its noun.
pub(super) fn counted(value: u64, noun: &str) -> String {
    format!("{} {noun}{}", show_grouped(value), if value == 1 { "" } else { "s" })
}

/// The next round number at or above: two figures, so that a setting is one a person would write.
pub(super) fn rounded_up(value: u64) -> u64 {
    let step = 10u64.saturating_pow(value.max(1).ilog10().saturating_sub(1));
    value.div_ceil(step).saturating_mul(step)
}
