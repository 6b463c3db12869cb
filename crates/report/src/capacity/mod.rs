//! A search for the load line, shown: as a document (`plimsoll.capacity/1`), which is also what a search goes on from, and as
//! text. The progress lines of its steps are here, too.

mod document;
mod surface;
mod text;

pub use document::{
    Block, Capacity, Document, End, Gives, Objective, OwnConnections, Point, SCHEMA, Scaling, Step, Verdict, Without,
};
pub use surface::{Cell, SURFACE_SCHEMA, Spanned, Surface, write_surface};
pub(crate) use text::{given, instead, knee, scaling, seen, sure, without, worst};
pub use text::{step, write};
