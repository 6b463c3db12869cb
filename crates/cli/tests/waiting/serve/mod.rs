//! Servers that plimsoll brings.

mod plain;
mod proxy;
mod tls;
