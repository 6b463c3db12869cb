//! Echo by edge-triggered epoll: a few threads, any number of connections.
//!
//! Bytes are received into the worker's one buffer and sent straight back. Only what the peer does not
//! take is kept, at most one buffer a connection, and nothing is received until it is gone: TCP's own
//! window then holds the peer back. An idle connection holds no buffer (under 100 bytes of ours).

use super::{Design, EchoOptions};
use crate::counters::Counters;
use crate::defects::Able;
use crate::error::ServeError;
use crate::limits;
use crate::link::Io;
use crate::options::{DesignInfo, ServeOptions};
use crate::reactor::{Next, Protocol, Wake};
use crate::stack;
use crate::stop::Stop;
use crate::timers::NEVER_NS;
use crate::transfer::{Came, Sent, receive, send};
use crate::workers::Ready;

pub(super) const DESIGN: Design = Design {
    info: DesignInfo {
        name: "epoll-edge",
        about: "each worker serves all its connections from one edge-triggered epoll loop",
        tls: true,
        able: Able::ALL,
    },
    serve,
};

fn serve(options: &ServeOptions, _: &EchoOptions, stop: &Stop, ready: Ready<'_>) -> Result<Counters, ServeError> {
    let idle_ns = options.idle_ns();
    stack::run("echo", &[], options, stop, ready, || Echo { buffer: vec![0; options.buffer_bytes], idle_ns })
}

struct Echo {
    buffer: Vec<u8>,
    idle_ns: Option<u64>,
}

#[derive(Default)]
struct Conn {
    /// What the peer has not taken yet, from `sent` on.
    pending: Option<Box<[u8]>>,
    sent: usize,
    readable: bool,
    thorough: bool,
    /// Was moving when the server was told to stop: it ends when it falls quiet.
    settling: bool,
}

impl Protocol for Echo {
    type Conn = Conn;

    fn connection(&mut self) -> Conn {
        Conn::default()
    }

    fn drive<I: Io>(&mut self, io: &mut I, conn: &mut Conn, wake: Wake, counters: &mut Counters) -> Next {
        if wake.expired && !(wake.draining && conn.pending.is_some()) {
            counters.idle_closed += u64::from(!wake.draining);
            return Next::Close;
        }
        conn.readable |= wake.readable;
        conn.thorough |= wake.thorough;
        let idle_ns = if wake.draining { Some(limits::DRAIN_QUIET.as_nanos() as u64) } else { self.idle_ns };
        let until_ns = idle_ns.map_or(NEVER_NS, |idle_ns| wake.now_ns.saturating_add(idle_ns));
        // Before anything: with bytes pending, more may stand behind them at the peer.
        conn.settling |= wake.draining && conn.pending.is_some();
        for _ in 0..limits::TURNS_MAX {
            if let Some(pending) = &conn.pending {
                match send(io, &pending[conn.sent..], b"", counters) {
                    Sent::Blocked => return Next::Wait { until_ns, write: true },
                    Sent::Failed => return Next::Close,
                    Sent::Bytes(n) => conn.sent += n,
                }
                if conn.sent == pending.len() {
                    conn.pending = None;
                    conn.sent = 0;
                }
                continue;
            }
            if !conn.readable {
                let is_over = wake.draining && !conn.settling;
                return if is_over { Next::Close } else { Next::Wait { until_ns, write: false } };
            }
            match receive(io, &mut self.buffer, &mut conn.readable, conn.thorough, counters) {
                Came::Bytes(n) => {
                    conn.settling |= wake.draining;
                    match send(io, &self.buffer[..n], b"", counters) {
                        Sent::Bytes(sent) if sent == n => {}
                        Sent::Bytes(sent) if !keep(conn, &self.buffer[sent..n]) => return out_of_memory(counters),
                        Sent::Blocked if !keep(conn, &self.buffer[..n]) => return out_of_memory(counters),
                        Sent::Bytes(_) | Sent::Blocked => {}
                        Sent::Failed => return Next::Close,
                    }
                }
                Came::Nothing => {}
                // Everything went back; closing sends our end.
                Came::End => return Next::Close,
            }
        }
        Next::Again
    }
}

fn keep(conn: &mut Conn, bytes: &[u8]) -> bool {
    let mut kept = Vec::new();
    if kept.try_reserve_exact(bytes.len()).is_err() {
        return false;
    }
    kept.extend_from_slice(bytes);
    conn.pending = Some(kept.into_boxed_slice());
    true
}

fn out_of_memory(counters: &mut Counters) -> Next {
    counters.memory_error += 1;
    Next::Close
}
