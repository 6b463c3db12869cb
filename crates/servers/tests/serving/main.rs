//! The servers of this crate against bare clients, and against real ones, in one process: HTTP, files, TLS, WebSocket, DNS and the proxy.
//!
//! Not here: what forks, or is alone in its process, as its limits and its memory are the process's own.

#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "a test that cannot go on fails, and says what it skips")]

mod beside_nginx;
#[path = "../common/mod.rs"]
mod common;
mod files;
mod http;
mod load_generators;
mod names;
mod proxy;
mod proxy_cache;
mod tls;
mod tls_clients;
mod tls_hostile;
mod websocket;
