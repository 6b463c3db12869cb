//! Named faults that a reference server carries on purpose, so that a diagnosis is proved on known causes.
//!
//! A file a defect, in the folder of what it touches, and a line in that folder's `DEFECTS`. Each says what it makes
//! and how to see it without plimsoll. `hook` has the moments at which a defect can act; `layer` calls it there, standing
//! between protocol and link. A server without defects does not contain them: the layer is put around its protocol only
//! when one is asked for. Not here: parsing of `--defect`, and faults done to the host from outside.

mod able;
mod active;
pub(crate) mod beside;
mod connections;
mod defect;
mod deferred;
mod descriptors;
mod helper;
mod hook;
mod layer;
mod memory;
mod nth;
mod reply;
mod server;
mod shared;
mod socket;
mod stay;
mod tls;
mod work;

pub use able::Able;
pub(crate) use active::Defects;
pub use defect::{Defect, Part, Setting, Strength, Way};
pub(crate) use layer::Defective;
pub use server::Server;
pub(crate) use shared::Among;

/// The folders' lists, in the order they are shown.
const GROUPS: &[&[&Defect]] = &[
    socket::DEFECTS,
    work::DEFECTS,
    descriptors::DEFECTS,
    connections::DEFECTS,
    memory::DEFECTS,
    tls::DEFECTS,
    reply::DEFECTS,
];

/// Every defect, in the order they are shown.
pub const DEFECTS: &[&Defect] = &joined::<{ number() }>();

const fn number() -> usize {
    let (mut number, mut group) = (0, 0);
    while group < GROUPS.len() {
        number += GROUPS[group].len();
        group += 1;
    }
    number
}

/// The groups as one list.
const fn joined<const N: usize>() -> [&'static Defect; N] {
    let mut all = [GROUPS[0][0]; N];
    let (mut at, mut group) = (0, 0);
    while group < GROUPS.len() {
        let mut one = 0;
        while one < GROUPS[group].len() {
            all[at] = GROUPS[group][one];
            (at, one) = (at + 1, one + 1);
        }
        group += 1;
    }
    all
}

/// The defect of that name.
#[must_use]
pub fn defect(name: &str) -> Option<&'static Defect> {
    DEFECTS.iter().find(|defect| defect.name == name).copied()
}
