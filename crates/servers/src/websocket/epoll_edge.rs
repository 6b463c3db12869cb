//! WebSocket by edge-triggered epoll: a few threads, any number of connections.
//!
//! A usual message costs one receive and one send: frames are read where they were received, in the worker's one buffer,
//! and what they are answered with leaves together. Only what came in pieces, or what the peer does not take, is kept with
//! its connection; while output is pending nothing is received, so TCP's window holds the peer back.

use std::time::Duration;

use super::session::{Session, Site, Step};
use super::{Design, WebSocketOptions};
use crate::clock;
use crate::counters::Counters;
use crate::defects::Able;
use crate::error::ServeError;
use crate::http::reply::Stamp;
use crate::limits;
use crate::link::Io;
use crate::options::{DesignInfo, ServeOptions};
use crate::reactor::{Next, Protocol, Wake};
use crate::stack;
use crate::stop::Stop;
use crate::timers::NEVER_NS;
use crate::transfer::{Came, Sent, keep, receive, send};
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

fn serve(
    options: &ServeOptions,
    websocket: &WebSocketOptions,
    stop: &Stop,
    ready: Ready<'_>,
) -> Result<Counters, ServeError> {
    let idle_ns = options.idle_ns();
    stack::run("ws", &["http/1.1"], options, stop, ready, || WebSocket {
        site: Site {
            options: websocket.clone(),
            stamp: Stamp::new("plimsoll", clock::unix_seconds()),
            piece: Vec::new(),
        },
        input: vec![0; options.buffer_bytes],
        out: Vec::with_capacity(limits::OUT_BATCH_BYTES),
        idle_ns,
        head_ns: websocket.head_timeout.map(nanoseconds),
        ping_ns: websocket.ping_every.map(nanoseconds),
    })
}

struct WebSocket {
    site: Site,
    input: Vec<u8>,
    out: Vec<u8>,
    idle_ns: Option<u64>,
    /// How long the handshake's head may take from its first byte on.
    head_ns: Option<u64>,
    /// How often a ping is sent.
    ping_ns: Option<u64>,
}

struct Conn {
    session: Session,
    /// Input that was received and not consumed yet.
    input: Vec<u8>,
    /// What the peer has not taken yet, from `sent` on.
    output: Vec<u8>,
    sent: usize,
    stage: Stage,
    /// Until when the handshake that has begun must be complete; [`NEVER_NS`]: none has.
    head_until_ns: u64,
    /// Until when something must move, and when a ping is due.
    idle_until_ns: u64,
    ping_due_ns: u64,
    readable: bool,
    thorough: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// The session wants more input than there is.
    Receiving,
    /// The session goes on with the input there is.
    Stepping,
    /// After the output, close: our end first, and the rest when the peer has closed (RFC 6455 §7.1.1), for closing on what it
    /// may still be sending would reset the connection and take from it what was said.
    Closing,
    /// Everything is said; the rest of the input is thrown away, until then at most.
    Lingering { until_ns: u64 },
}

impl Protocol for WebSocket {
    type Conn = Conn;

    fn connection(&mut self) -> Conn {
        Conn {
            session: Session::new(),
            input: Vec::new(),
            output: Vec::new(),
            sent: 0,
            stage: Stage::Receiving,
            head_until_ns: NEVER_NS,
            idle_until_ns: NEVER_NS,
            ping_due_ns: NEVER_NS,
            readable: false,
            thorough: false,
        }
    }

    fn tick(&mut self, _now_ns: u64) {
        self.site.stamp.refresh(clock::unix_seconds());
    }

    fn drive<I: Io>(&mut self, io: &mut I, conn: &mut Conn, wake: Wake, counters: &mut Counters) -> Next {
        conn.readable |= wake.readable;
        conn.thorough |= wake.thorough;
        let is_pinged = wake.expired && wake.now_ns >= conn.ping_due_ns && wake.now_ns < conn.idle_until_ns;
        // A ping of ours is nothing that moves.
        if !is_pinged {
            conn.idle_until_ns = self.idle_ns.map_or(NEVER_NS, |idle_ns| wake.now_ns.saturating_add(idle_ns));
        }
        let idle_until_ns = conn.idle_until_ns;
        if wake.expired && !is_pinged {
            return self.expire(io, conn, counters);
        }
        for _ in 0..limits::TURNS_MAX {
            if conn.sent < conn.output.len() {
                match send(io, &conn.output[conn.sent..], b"", counters) {
                    Sent::Bytes(n) => conn.sent += n,
                    Sent::Blocked => return Next::Wait { until_ns: idle_until_ns, write: true },
                    Sent::Failed => return Next::Close,
                }
                if conn.sent == conn.output.len() {
                    (conn.output, conn.sent) = (Vec::new(), 0);
                }
                continue;
            }
            match conn.stage {
                Stage::Stepping => {
                    if !self.step_kept(io, conn, counters) {
                        return Next::Close;
                    }
                }
                Stage::Receiving if conn.readable => {
                    match receive(io, &mut self.input, &mut conn.readable, conn.thorough, counters) {
                        Came::Bytes(n) if conn.input.is_empty() => {
                            // Read where it lies; taken out for the time, to lend it beside the rest of self.
                            let input = std::mem::take(&mut self.input);
                            let (consumed, is_alive) = self.step(io, conn, &input[..n], counters);
                            let is_kept = keep(&mut conn.input, &input[consumed..n], counters);
                            self.input = input;
                            if !is_alive || !is_kept {
                                return Next::Close;
                            }
                        }
                        Came::Bytes(n) => {
                            let is_kept = keep(&mut conn.input, &self.input[..n], counters);
                            if !is_kept || !self.step_kept(io, conn, counters) {
                                return Next::Close;
                            }
                        }
                        Came::Nothing => {}
                        Came::End => return Next::Close,
                    }
                }
                Stage::Receiving => {
                    let is_idle = conn.input.is_empty() && conn.session.is_between_messages();
                    if wake.draining && is_idle {
                        return if conn.session.is_opening() {
                            Next::Close
                        } else {
                            self.give_up(io, conn, counters, "the server ends")
                        };
                    }
                    if wake.now_ns >= conn.ping_due_ns && !self.ping(io, conn, counters) {
                        return Next::Close;
                    }
                    if let Some(ping_ns) = self.ping_ns
                        && !conn.session.is_opening()
                        && (conn.ping_due_ns == NEVER_NS || wake.now_ns >= conn.ping_due_ns)
                    {
                        conn.ping_due_ns = wake.now_ns.saturating_add(ping_ns);
                        continue;
                    }
                    let until_ns = idle_until_ns.min(self.head_until_ns(io, conn, wake.now_ns)).min(conn.ping_due_ns);
                    return Next::Wait { until_ns, write: false };
                }
                Stage::Closing => {
                    io.end();
                    conn.input = Vec::new();
                    let linger_ns = limits::LINGER.as_nanos() as u64;
                    conn.stage = Stage::Lingering { until_ns: wake.now_ns.saturating_add(linger_ns) };
                }
                Stage::Lingering { until_ns } if wake.now_ns >= until_ns => return Next::Close,
                Stage::Lingering { .. } if conn.readable => {
                    match receive(io, &mut self.input, &mut conn.readable, conn.thorough, counters) {
                        Came::End => return Next::Close,
                        Came::Bytes(_) | Came::Nothing => {}
                    }
                }
                Stage::Lingering { until_ns } => return Next::Wait { until_ns, write: false },
            }
        }
        Next::Again
    }
}

impl WebSocket {
    /// Lets the session go on with the input kept, of which only what it did not consume stays.
    /// False if the connection is gone.
    fn step_kept(&mut self, io: &mut impl Io, conn: &mut Conn, counters: &mut Counters) -> bool {
        let mut input = std::mem::take(&mut conn.input);
        let (consumed, is_alive) = self.step(io, conn, &input, counters);
        if consumed < input.len() {
            input.drain(..consumed);
            conn.input = input;
        }
        is_alive
    }

    /// Lets the session go on with `input` and sends what it says. Returns how much it consumed, and
    /// whether the connection is still there.
    fn step(&mut self, io: &mut impl Io, conn: &mut Conn, input: &[u8], counters: &mut Counters) -> (usize, bool) {
        self.out.clear();
        let (consumed, step) = conn.session.step(input, &mut self.site, &mut self.out, counters);
        if consumed > 0 {
            // That head was complete.
            conn.head_until_ns = NEVER_NS;
        }
        conn.stage = match step {
            Step::Receive => Stage::Receiving,
            Step::Continue => Stage::Stepping,
            Step::Close => Stage::Closing,
        };
        let is_alive = self.transmit(io, conn, counters);
        // A long message's echo is not to stay with the worker.
        if self.out.capacity() > 2 * limits::OUT_BATCH_BYTES {
            self.out = Vec::with_capacity(limits::OUT_BATCH_BYTES);
        }
        (consumed, is_alive)
    }

    /// Sends `self.out` once; what is left stays with the connection. False if it is gone.
    fn transmit(&mut self, io: &mut impl Io, conn: &mut Conn, counters: &mut Counters) -> bool {
        if self.out.is_empty() {
            return true;
        }
        let sent = match send(io, &self.out, b"", counters) {
            Sent::Bytes(n) => n,
            Sent::Blocked => 0,
            Sent::Failed => return false,
        };
        (conn.output, conn.sent) = (Vec::new(), 0);
        sent == self.out.len() || keep(&mut conn.output, &self.out[sent..], counters)
    }

    /// When a handshake that has begun, but is not complete, takes too long: a byte now and then does not prolong that.
    fn head_until_ns(&self, io: &impl Io, conn: &mut Conn, now_ns: u64) -> u64 {
        if !conn.session.is_opening() || (conn.input.is_empty() && !io.is_midway()) {
            conn.head_until_ns = NEVER_NS;
            return NEVER_NS;
        }
        if conn.head_until_ns == NEVER_NS {
            conn.head_until_ns = self.head_ns.map_or(NEVER_NS, |head_ns| now_ns.saturating_add(head_ns));
        }
        conn.head_until_ns
    }

    /// Sends the ping that is due. False if the connection is gone.
    fn ping(&mut self, io: &mut impl Io, conn: &mut Conn, counters: &mut Counters) -> bool {
        self.out.clear();
        conn.session.ping(&mut self.out);
        self.transmit(io, conn, counters)
    }

    /// Nothing moved for too long, or a handshake is not complete after its time: said, if there is room to send it.
    fn expire(&mut self, io: &mut impl Io, conn: &mut Conn, counters: &mut Counters) -> Next {
        if matches!(conn.stage, Stage::Lingering { .. }) {
            return Next::Close;
        }
        counters.idle_closed += 1;
        let has_begun = !conn.session.is_opening() || !conn.input.is_empty() || io.is_midway();
        if conn.output.is_empty() && has_begun {
            return self.give_up(io, conn, counters, "expected something to come sooner");
        }
        Next::Close
    }

    /// Says why, and closes.
    fn give_up(&mut self, io: &mut impl Io, conn: &mut Conn, counters: &mut Counters, why: &'static str) -> Next {
        self.out.clear();
        conn.session.give_up(&self.site, &mut self.out, counters, why);
        self.transmit(io, conn, counters);
        Next::Close
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(NEVER_NS)
}
