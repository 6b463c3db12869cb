//! Whether a recording is as it was written: a checksum a row, a seal over each table, SQLite's own log; and what is damaged.

pub(crate) mod checksum;
pub(crate) mod damage;
pub(crate) mod log;
pub(crate) mod seal;
