//! Observers and targets of other machines, strangers among them; what the host is; what is kept secret; without rights.
#![allow(clippy::unwrap_used, reason = "a test that cannot set up is a test that fails")]

#[path = "../common/mod.rs"]
mod common;

mod behind;
mod host;
mod observed;
mod secrets;
mod split;
mod strangers;
mod without_rights;
