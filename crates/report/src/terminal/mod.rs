//! The view of a run that goes on, for a whole terminal: rate and response time over time, connections, failures by kind, the
//! target's busiest thread, what gives first as it stands, events; a page of details, and one of keys.
//!
//! Pure: what was read goes into a [`View`], and [`draw()`] puts it on a frame. Putting a terminal into another mode, reading its
//! keys, and when to draw are the command's part. Nothing is told by colour alone, and nothing that came from outside reaches
//! the terminal with its control characters. Memory is bounded: see [`limits`].
//!
//! What a terminal has no room for is left out, the least important first (`fit`); below [`LEAST`] one line is left.

mod blocks;
mod draw;
mod fit;
mod pages;
mod spark;
mod threads;
mod view;

pub use draw::draw;
pub use view::{Standing, View};

/// The smallest terminal that has room for more than one line: columns and rows.
pub const LEAST: (u16, u16) = (40, 10);

/// What is bounded, and at what.
pub mod limits {
    /// Ticks whose figures are kept for drawing.
    pub const POINTS_MAX: usize = 512;
    /// Events that are kept; older ones are in the report.
    pub const EVENTS_MAX: usize = 200;
    /// Threads that are shown in the details.
    pub const THREADS_MAX: usize = 20;
}

/// What of a view is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Which {
    /// The run, at a glance.
    #[default]
    Run,
    /// All failures, findings with their evidence, threads, events.
    Details,
    /// The keys.
    Help,
}

/// How a view is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Looks {
    /// Which page.
    pub which: Which,
    /// Lines of the page above the first that is shown.
    pub scrolled: usize,
    /// With colour.
    pub color: bool,
    /// Whether more than ASCII can be shown.
    pub unicode: bool,
}
