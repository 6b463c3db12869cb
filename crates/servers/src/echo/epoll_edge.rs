//! Echo by edge-triggered epoll: a few threads, any number of connections.
//!
//! Bytes are received into the worker's one buffer and sent straight back. Only what the peer does not
//! take is kept, at most one buffer a connection, and nothing is received until it is gone: TCP's own
//! window then holds the peer back. An idle connection holds no buffer (under 100 bytes of ours).

use rustix::io::Errno;

use super::{Design, EchoOptions};
use crate::counters::Counters;
use crate::error::ServeError;
use crate::limits;
use crate::link::{Io, Received};
use crate::options::{DesignInfo, ServeOptions};
use crate::reactor::{Next, Protocol, Wake};
use crate::stack;
use crate::stop::Stop;
use crate::timers::NEVER_NS;
use crate::workers::Ready;

pub(super) const DESIGN: Design = Design {
    info: DesignInfo {
        name: "epoll-edge",
        about: "each worker serves all its connections from one edge-triggered epoll loop",
        tls: true,
        defects: true,
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
    ended: bool,
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
                match send_counted(io, &pending[conn.sent..], counters) {
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
            if conn.ended {
                // Everything went back; closing sends our end.
                return Next::Close;
            }
            if !conn.readable {
                let is_over = wake.draining && !conn.settling;
                return if is_over { Next::Close } else { Next::Wait { until_ns, write: false } };
            }
            match io.recv(&mut self.buffer, conn.thorough) {
                Ok(Received { n: 0, .. }) => {
                    conn.ended = true;
                    counters.shutdown += 1;
                }
                Ok(Received { n, more }) => {
                    conn.settling |= wake.draining;
                    counters.recv += 1;
                    counters.bytes_in += n as u64;
                    conn.readable = more;
                    match send_counted(io, &self.buffer[..n], counters) {
                        Sent::Bytes(sent) if sent == n => {}
                        Sent::Bytes(sent) if !keep(conn, &self.buffer[sent..n]) => return out_of_memory(counters),
                        Sent::Blocked if !keep(conn, &self.buffer[..n]) => return out_of_memory(counters),
                        Sent::Bytes(_) | Sent::Blocked => {}
                        Sent::Failed => return Next::Close,
                    }
                }
                Err(Errno::AGAIN) => conn.readable = false,
                Err(Errno::INTR) => {}
                Err(_) => {
                    counters.recv_error += 1;
                    return Next::Close;
                }
            }
        }
        Next::Again
    }
}

enum Sent {
    Bytes(usize),
    Blocked,
    Failed,
}

fn send_counted(io: &mut impl Io, bytes: &[u8], counters: &mut Counters) -> Sent {
    loop {
        match io.send(bytes, b"") {
            Ok(n) => {
                counters.send += 1;
                counters.bytes_out += n as u64;
                return Sent::Bytes(n);
            }
            Err(Errno::AGAIN) => return Sent::Blocked,
            Err(Errno::INTR) => {}
            Err(_) => {
                counters.send_error += 1;
                return Sent::Failed;
            }
        }
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
