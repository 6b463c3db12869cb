//! Flame graphs as the page has them: a tree of calls and a table of names, which its script draws, zooms and searches.
//!
//! At most 20,000 nodes of each are drawn, those of the stacks counted most; the table beside it is made of all.

use super::pack::{Column, Columns};
use super::periods::{self, Periods};
use crate::words::{counted, duration};
use model::plain::plain;
use model::profile::{Kind, Stacks};
use serde::Serialize;

/// Stacks to draw.
#[derive(Debug, Clone)]
pub struct Flame {
    /// Which.
    pub kind: Kind,
    /// The stacks.
    pub stacks: Stacks,
    /// Where they are of slow windows only: their number and length together, nanoseconds.
    pub slow: Option<(usize, u64)>,
    /// The same period by period, where they are of the whole run and known so.
    pub periods: Option<Periods>,
}

/// Where the page finds one.
#[derive(Debug, Clone, Serialize)]
pub struct Places {
    id: String,
    unit: &'static str,
    names: Vec<String>,
    /// Columns: of each node its caller's number from 1 on (0: none), its name's, and what was counted with it innermost.
    parents: Column,
    of_names: Column,
    counts: Column,
    /// What of it was counted when.
    periods: Option<periods::Places>,
}

impl Flame {
    /// Its id in the page.
    pub fn id(&self) -> String {
        format!("{}{}", self.kind.name(), if self.slow.is_some() { "-slow" } else { "" })
    }

    /// Its title.
    pub fn title(&self) -> &'static str {
        match (self.kind, self.slow.is_some()) {
            (Kind::OnCpu, false) => "Where it ran",
            (Kind::OnCpu, true) => "Where it ran, in slow windows",
            (Kind::OffCpu, false) => "Where it waited",
            (Kind::OffCpu, true) => "Where it waited, in slow windows",
        }
    }

    /// What was counted, and of when.
    pub fn about(&self) -> String {
        let total = self.stacks.total();
        let what = match self.kind {
            Kind::OnCpu => counted(total, "sample"),
            Kind::OffCpu => format!("{} of threads' time", duration(total.saturating_mul(1000))),
        };
        let when = match self.slow {
            Some((windows, ns)) => format!("{}, {} together", counted(windows as u64, "slow window"), duration(ns)),
            None if self.kind == Kind::OffCpu => "all windows of the probe".to_owned(),
            None => "the whole run".to_owned(),
        };
        let lost = match self.stacks.lost {
            0 => String::new(),
            lost => format!("; {lost} {} lost", self.kind.unit()),
        };
        format!("{what}; {when}{lost}")
    }

    /// Packs it.
    pub fn packed(&self, to: &mut Columns) -> Places {
        // Numbers of nodes are those of one tree in all of it.
        let drawable = periods::drawable(&self.stacks);
        let stacks = self.periods.as_ref().map_or(&*drawable, Periods::tree);
        Places {
            id: self.id(),
            unit: self.kind.unit(),
            names: stacks.names.iter().map(|name| plain(name).into_owned()).collect(),
            parents: to.push_whole(stacks.nodes.iter().map(|(parent, ..)| u64::from(*parent))),
            of_names: to.push_whole(stacks.nodes.iter().map(|(_, name, _)| u64::from(*name))),
            counts: to.push_whole(stacks.nodes.iter().map(|(.., count)| *count)),
            periods: self.periods.as_ref().and_then(|periods| periods.packed(to)),
        }
    }
}
