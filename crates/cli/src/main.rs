//! The command `plimsoll`.
fn main() {}
