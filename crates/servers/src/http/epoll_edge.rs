//! HTTP by edge-triggered epoll: a few threads, any number of connections.
//!
//! A usual request costs one receive and one send: requests are parsed where they were received, in the
//! worker's one buffer, and their replies leave together. Only a request that came in pieces, or a
//! reply the peer does not take, is kept with its connection; while output is pending nothing is
//! received, so TCP's window holds the peer back.

use super::files::{Files, Root};
use super::output::{self, Sent, Stream};
use super::reply::Stamp;
use super::session::{After, Close, Session, Site, Step};
use super::{Design, HttpOptions};
use crate::clock;
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
use crate::transfer::{Came, keep, receive};
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

fn serve(options: &ServeOptions, http: &HttpOptions, stop: &Stop, ready: Ready<'_>) -> Result<Counters, ServeError> {
    let root = http.root.as_deref().map(Root::open).transpose()?;
    let idle_ns = options.idle_ns();
    stack::run("http", &["http/1.1"], options, stop, ready, || Http {
        site: Site {
            files: root.clone().map(Files::new),
            stamp: Stamp::new(&http.server_header, clock::unix_seconds()),
            keep_alive: http.keep_alive,
            body_bytes_max: http.body_bytes_max,
            draining: false,
            now_ns: clock::monotonic_ns(),
        },
        input: vec![0; options.buffer_bytes],
        out: Vec::with_capacity(limits::OUT_BATCH_BYTES),
        piece: Vec::new(),
        idle_ns,
        head_ns: http.head_timeout.map(|timeout| u64::try_from(timeout.as_nanos()).unwrap_or(NEVER_NS)),
    })
}

struct Http {
    site: Site,
    input: Vec<u8>,
    out: Vec<u8>,
    piece: Vec<u8>,
    idle_ns: Option<u64>,
    /// How long a request's head may take from its first byte on.
    head_ns: Option<u64>,
}

struct Conn {
    session: Session,
    /// Input that was received and not consumed yet.
    input: Vec<u8>,
    /// What the peer has not taken yet.
    output: Option<Box<Output>>,
    stage: Stage,
    /// Until when the head that has begun must be complete; [`NEVER_NS`]: none has.
    head_until_ns: u64,
    readable: bool,
    thorough: bool,
}

struct Output {
    bytes: Vec<u8>,
    sent: usize,
    stream: Option<Stream>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// The session wants more input than there is.
    Receiving,
    /// The session goes on with the input there is.
    Stepping,
    /// The session waits for its time.
    Sleeping { until_ns: u64 },
    /// After the output, close.
    Closing(Close),
    /// Everything is said; the rest of the input is thrown away, until then at most.
    Lingering { until_ns: u64 },
}

impl Protocol for Http {
    type Conn = Conn;

    fn connection(&mut self) -> Conn {
        Conn {
            session: Session::new(),
            input: Vec::new(),
            output: None,
            stage: Stage::Receiving,
            head_until_ns: NEVER_NS,
            readable: false,
            thorough: false,
        }
    }

    fn relieve(&mut self) {
        if let Some(files) = &mut self.site.files {
            files.give_up_descriptors();
        }
    }

    fn tick(&mut self, now_ns: u64) {
        self.site.now_ns = now_ns;
        self.site.stamp.refresh(clock::unix_seconds());
    }

    fn keep_no_connection(&mut self) {
        self.site.keep_alive = false;
    }

    fn drive<I: Io>(&mut self, io: &mut I, conn: &mut Conn, wake: Wake, counters: &mut Counters) -> Next {
        conn.readable |= wake.readable;
        conn.thorough |= wake.thorough;
        self.site.draining = wake.draining;
        let idle_until_ns = self.idle_ns.map_or(NEVER_NS, |idle_ns| wake.now_ns.saturating_add(idle_ns));
        if wake.expired && !matches!(conn.stage, Stage::Sleeping { .. }) {
            return self.expire(io, conn, counters);
        }
        for _ in 0..limits::TURNS_MAX {
            if let Some(output) = &mut conn.output {
                match output::send_once(io, &output.bytes[output.sent..], &mut output.stream, &mut self.piece, counters)
                {
                    Sent::Some { of_head } => output.sent += of_head,
                    Sent::Blocked => return Next::Wait { until_ns: idle_until_ns, write: true },
                    Sent::Failed => return Next::Close,
                }
                if output.sent == output.bytes.len() && output.stream.is_none() {
                    conn.output = None;
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
                            // Parsed where it lies; taken out for the time, to lend it beside the rest of self.
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
                    let is_idle = conn.input.is_empty() && conn.session.is_between_requests();
                    if wake.draining && is_idle {
                        return Next::Close;
                    }
                    let until_ns = idle_until_ns.min(self.head_until_ns(io, conn, wake.now_ns));
                    return Next::Wait { until_ns, write: false };
                }
                Stage::Sleeping { .. } if wake.dead => return Next::Close,
                Stage::Sleeping { until_ns } if until_ns > wake.now_ns => return Next::Wait { until_ns, write: false },
                Stage::Sleeping { .. } => conn.stage = Stage::Stepping,
                Stage::Closing(Close::AtOnce) if !conn.readable => return Next::Close,
                Stage::Closing(Close::AtOnce) => {
                    match receive(io, &mut self.input, &mut conn.readable, conn.thorough, counters) {
                        Came::Nothing => {}
                        Came::End => return Next::Close,
                        Came::Bytes(_) => conn.stage = Stage::Closing(Close::Lingering),
                    }
                }
                Stage::Closing(Close::Lingering) => {
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

impl Http {
    /// Lets the session go on with the input kept, of which only what it did not consume stays.
    /// False if the connection is gone.
    fn step_kept(&mut self, io: &mut impl Io, conn: &mut Conn, counters: &mut Counters) -> bool {
        let mut input = std::mem::take(&mut conn.input);
        let (consumed, is_alive) = self.step(io, conn, &input, counters);
        if consumed < input.len() {
            input.drain(..consumed);
            conn.input = input;
        }
        // Otherwise its memory goes: a connection between requests has no buffer.
        is_alive
    }

    /// Lets the session go on with `input` and sends what it says. Returns how much it consumed, and
    /// whether the connection is still there.
    fn step(&mut self, io: &mut impl Io, conn: &mut Conn, input: &[u8], counters: &mut Counters) -> (usize, bool) {
        self.out.clear();
        let (consumed, step) = conn.session.step(input, &mut self.site, &mut self.out, counters);
        if consumed > 0 {
            // That head was complete; what is left is of another.
            conn.head_until_ns = NEVER_NS;
        }
        let mut stream = None;
        conn.stage = match step {
            Step::Receive => Stage::Receiving,
            Step::Continue => Stage::Stepping,
            Step::Sleep(until_ns) => Stage::Sleeping { until_ns },
            Step::Close(close) => Stage::Closing(close),
            Step::Stream(body, after) => {
                stream = Some(body);
                match after {
                    After::Continue => Stage::Stepping,
                    After::Close(close) => Stage::Closing(close),
                }
            }
        };
        (consumed, self.transmit(io, conn, stream, counters))
    }

    /// Sends `self.out` and the stream once; what is left stays with the connection. False if it is gone.
    fn transmit(
        &mut self,
        io: &mut impl Io,
        conn: &mut Conn,
        mut stream: Option<Stream>,
        counters: &mut Counters,
    ) -> bool {
        if self.out.is_empty() && stream.is_none() {
            return true;
        }
        let of_head = match output::send_once(io, &self.out, &mut stream, &mut self.piece, counters) {
            Sent::Some { of_head } => of_head,
            Sent::Blocked => 0,
            Sent::Failed => return false,
        };
        let left = &self.out[of_head..];
        if left.is_empty() && stream.is_none() {
            return true;
        }
        let mut bytes = Vec::new();
        if !keep(&mut bytes, left, counters) {
            return false;
        }
        conn.output = Some(Box::new(Output { bytes, sent: 0, stream }));
        true
    }

    /// When a head that has begun, but is not complete, takes too long: a byte now and then does not prolong that. With a
    /// record of TLS that is not whole one has begun, too.
    fn head_until_ns(&self, io: &impl Io, conn: &mut Conn, now_ns: u64) -> u64 {
        if !conn.session.is_between_requests() {
            return NEVER_NS;
        }
        if conn.input.is_empty() && !io.is_midway() {
            // A record had begun, and had nothing of a head in it.
            conn.head_until_ns = NEVER_NS;
            return NEVER_NS;
        }
        if conn.head_until_ns == NEVER_NS {
            conn.head_until_ns = self.head_ns.map_or(NEVER_NS, |head_ns| now_ns.saturating_add(head_ns));
        }
        conn.head_until_ns
    }

    /// Nothing moved for too long, or a head is not complete after its time. Half a request gets its reply, if there is room to send it.
    fn expire(&mut self, io: &mut impl Io, conn: &mut Conn, counters: &mut Counters) -> Next {
        if matches!(conn.stage, Stage::Lingering { .. }) {
            return Next::Close;
        }
        counters.idle_closed += 1;
        if conn.output.is_none() && (!conn.input.is_empty() || io.is_midway() || conn.session.is_in_body()) {
            self.out.clear();
            Session::give_up(&self.site, &mut self.out, counters);
            self.transmit(io, conn, None, counters);
        }
        Next::Close
    }
}
