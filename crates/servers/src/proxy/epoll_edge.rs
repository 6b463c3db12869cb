//! The proxy by edge-triggered epoll: each worker serves its clients and its origins from one loop.
//!
//! This file is the clients' side: requests read one after the other (those behind wait in their socket or
//! with their connection), replies sent as far as the client takes them, deadlines, closing. A half-closed
//! client is answered all the same. The origins' side is `upstream`.

use std::sync::{Arc, Mutex, PoisonError};

use super::cache::Cache;
use super::counters::ProxyCounters;
use super::exchange::{Exchange, Flow, Key, Manner};
use super::forward::{self, Framing};
use super::freshness;
use super::origins::Origins;
use super::pool::Pool;
use super::worker::{Close, Conn, Proxy, Shared, Stage};
use super::{Counted, Design, ProxyOptions};
use crate::clock;
use crate::counters::Counters;
use crate::defects::Able;
use crate::error::ServeError;
use crate::http::output::Sent;
use crate::http::reply::{self, Stamp};
use crate::http::request::{self, BodyLength, Method, Refusal};
use crate::limits;
use crate::link::Io;
use crate::options::{DesignInfo, ServeOptions};
use crate::reactor::{Next, Outgoing, Protocol, Wake};
use crate::slab::Token;
use crate::stack;
use crate::stop::Stop;
use crate::timers::NEVER_NS;
use crate::transfer;
use crate::workers::Ready;

pub(super) const DESIGN: Design = Design {
    info: DesignInfo {
        name: "epoll-edge",
        about: "each worker serves its clients and its origins from one edge-triggered epoll loop",
        tls: true,
        able: Able::ALL,
    },
    serve,
};

fn serve(options: &ServeOptions, proxy: &ProxyOptions, stop: &Stop, ready: Ready<'_>) -> Result<Counted, ServeError> {
    let shared = Arc::new(Shared {
        origins: Origins::resolve(&proxy.origins, proxy.balance)?,
        cache: (proxy.cache_bytes > 0).then(|| Cache::new(proxy.cache_bytes)),
        bounds: proxy.bounds(),
        timeout_ns: u64::try_from(proxy.upstream_timeout.as_nanos()).unwrap_or(NEVER_NS),
        keep: proxy.upstream_keepalive > 0,
        sum: Mutex::default(),
    });
    let idle_ns = options.idle_ns();
    let counters = stack::run("proxy", &["http/1.1"], options, stop, ready, || Proxy {
        pool: Pool::new(shared.origins.len(), proxy.upstream_keepalive),
        shared: Arc::clone(&shared),
        stamp: Stamp::new("plimsoll", clock::unix_seconds()),
        scratch: vec![0; options.buffer_bytes],
        wire: Vec::new(),
        body: Vec::new(),
        piece: Vec::new(),
        tally: ProxyCounters::default(),
        idle_ns,
        head_ns: proxy.head_timeout.map_or(NEVER_NS, |time| u64::try_from(time.as_nanos()).unwrap_or(NEVER_NS)),
        draining: false,
        now_ns: clock::monotonic_ns(),
        token: Token::default(),
    })?;
    let sum = *shared.sum.lock().unwrap_or_else(PoisonError::into_inner);
    Ok((counters, sum))
}

/// What a turn came to.
enum Turn {
    Moved,
    Idle,
    Close,
    Reset,
}

impl Protocol for Proxy {
    type Conn = Conn;

    const WORKS_WHILE_BLOCKED: bool = true;

    fn connection(&mut self) -> Conn {
        Conn::new(self.now_ns)
    }

    fn relieve(&mut self) {
        self.pool.relieve();
    }

    fn tick(&mut self, now_ns: u64) {
        self.now_ns = now_ns;
        self.stamp.refresh(clock::unix_seconds());
        self.pool.sweep(now_ns);
    }

    fn attach(&mut self, outgoing: Outgoing) {
        self.pool.attach(outgoing);
    }

    fn outgoing(&mut self, id: Token, wake: Wake) -> Option<Token> {
        self.pool.event(id, wake)
    }

    fn due(&mut self) -> Option<Token> {
        self.pool.due()
    }

    fn limit_outgoing(&mut self, connections: usize) {
        self.pool.limit(connections);
    }

    fn closed(&mut self, conn: Conn) {
        if let Some(id) = conn.exchange.and_then(|exchange| exchange.upstream) {
            self.pool.drop(id);
        }
    }

    fn drive<I: Io>(&mut self, io: &mut I, conn: &mut Conn, wake: Wake, counters: &mut Counters) -> Next {
        conn.readable |= wake.readable;
        conn.thorough |= wake.thorough;
        self.draining = wake.draining;
        self.now_ns = wake.now_ns;
        self.token = wake.token;
        if wake.dead && conn.exchange.is_some() {
            return Next::Close;
        }
        if wake.expired
            && let Some(next) = self.expire(io, conn, counters)
        {
            return next;
        }
        let mut blocked = false;
        for _ in 0..limits::TURNS_MAX {
            let mut moved = false;
            if conn.has_output() && !blocked {
                match self.send(io, conn, counters) {
                    Sent::Some { .. } => {
                        conn.moved_ns = self.now_ns;
                        moved = true;
                    }
                    Sent::Blocked => blocked = true,
                    Sent::Failed => return Next::Close,
                }
            }
            match self.turn(io, conn, counters) {
                Turn::Moved => {}
                Turn::Idle if moved => {}
                Turn::Idle => return self.wait(io, conn),
                Turn::Close => return Next::Close,
                Turn::Reset => return Next::Reset,
            }
        }
        Next::Again
    }
}

impl Proxy {
    fn turn<I: Io>(&mut self, io: &mut I, conn: &mut Conn, counters: &mut Counters) -> Turn {
        match conn.stage {
            Stage::Exchanging => self.exchange(io, conn, counters),
            Stage::Receiving | Stage::Closing(_) if conn.has_output() => Turn::Idle,
            Stage::Receiving => self.request(io, conn, counters),
            Stage::Closing(Close::Reset) => Turn::Reset,
            Stage::Closing(Close::AtOnce) if !conn.readable => Turn::Close,
            Stage::Closing(Close::AtOnce) => match self.discard(io, conn, counters) {
                None => Turn::Close,
                Some(0) => Turn::Moved,
                Some(_) => {
                    conn.stage = Stage::Closing(Close::Lingering);
                    Turn::Moved
                }
            },
            Stage::Closing(Close::Lingering) => {
                io.end();
                conn.input = Vec::new();
                let linger_ns = limits::LINGER.as_nanos() as u64;
                conn.stage = Stage::Lingering { until_ns: self.now_ns.saturating_add(linger_ns) };
                Turn::Moved
            }
            Stage::Lingering { until_ns } if self.now_ns >= until_ns => Turn::Close,
            Stage::Lingering { .. } if conn.readable => match self.discard(io, conn, counters) {
                None => Turn::Close,
                Some(_) => Turn::Moved,
            },
            Stage::Lingering { .. } => Turn::Idle,
        }
    }

    /// Reads towards the next request's head, and begins on it when it is whole.
    fn request<I: Io>(&mut self, io: &mut I, conn: &mut Conn, counters: &mut Counters) -> Turn {
        if !conn.input.is_empty() {
            match self.begin(io, conn, counters) {
                Ok(Some(turn)) => return turn,
                Ok(None) => {}
                Err(refusal) => {
                    counters.refused += 1;
                    conn.input = Vec::new();
                    return self.refuse(io, conn, refusal, Manner::UNKNOWN, Stage::Closing(Close::Lingering), counters);
                }
            }
        }
        if !conn.readable {
            return if self.draining && conn.input.is_empty() { Turn::Close } else { Turn::Idle };
        }
        let mut scratch = std::mem::take(&mut self.scratch);
        let received = self.receive(io, conn, &mut scratch, counters);
        let n = received.unwrap_or(0);
        let is_kept = conn.input.try_reserve(n).is_ok();
        if is_kept {
            conn.input.extend_from_slice(&scratch[..n]);
        }
        counters.memory_error += u64::from(!is_kept);
        self.scratch = scratch;
        if received.is_some() && is_kept { Turn::Moved } else { Turn::Close }
    }

    /// Begins the exchange of a complete head, or answers it from the cache. `None` if the head is not whole.
    fn begin<I: Io>(&mut self, io: &mut I, conn: &mut Conn, counters: &mut Counters) -> Result<Option<Turn>, Refusal> {
        while conn.input.first() == Some(&b'\r') {
            if conn.input.len() < 2 {
                return Ok(None);
            }
            conn.empty_lines += 1;
            if conn.input[1] != b'\n' || usize::from(conn.empty_lines) > limits::LEADING_EMPTY_LINES_MAX {
                return Err(Refusal { status: 400, why: "expected a request line" });
            }
            conn.input.drain(..2);
        }
        let Some(len) = request::find_end(&conn.input, &mut conn.scanned)? else { return Ok(None) };
        (conn.scanned, conn.empty_lines, conn.head_until_ns) = (0, 0, NEVER_NS);
        let rest = conn.input.split_off(len);
        let head = std::mem::replace(&mut conn.input, rest);
        let parsed = request::parse(&head)?;
        let manner = Manner {
            keep_alive: parsed.keep_alive && !self.draining,
            to_head: parsed.method == Method::Head,
            http10: parsed.http10,
            idempotent: !matches!(parsed.method, Method::Post | Method::Patch | Method::Connect),
        };
        let peer = *conn.peer.get_or_insert_with(|| io.peer());
        let shared = Arc::clone(&self.shared);
        let mut forwarded = Vec::with_capacity(head.len() + 128);
        forward::push_request(&mut forwarded, &head, &parsed, shared.origins.authority(0), peer, shared.keep)?;
        let (target, host) = forward::target_and_host(&head);
        let mut key = None;
        if let Some(cache) = &shared.cache {
            let allowed = freshness::allowed(&head, &parsed);
            let mut name = host.unwrap_or_default().to_ascii_lowercase();
            name.push(b' ');
            name.extend_from_slice(target);
            if allowed.find {
                let found = cache.find(&name, self.now_ns, |stored| freshness::matches(&head, stored));
                if let Some(stored) = found {
                    self.tally.cache_hits += 1;
                    counters.requests += 1;
                    self.wire.clear();
                    let keep_alive = manner.keep_alive;
                    if freshness::push_hit(&mut self.wire, &head, &parsed, &stored, self.now_ns, keep_alive) {
                        conn.cached = Some((stored, 0));
                    }
                    conn.stage = if keep_alive { Stage::Receiving } else { closing(conn) };
                    return Ok(Some(if self.deliver_hit(io, conn, counters) { Turn::Moved } else { Turn::Close }));
                }
                self.tally.cache_misses += 1;
            }
            let forget = !matches!(parsed.method, Method::Get | Method::Head | Method::Options | Method::Trace);
            key = Some(Key { name, request: allowed.keep.then(|| head.clone()), forget });
        }
        let order = shared.origins.order(target, self.now_ns);
        let body = parsed.body;
        let exchange = Exchange::new(forwarded, body, manner, order, key)?;
        conn.exchange = Some(Box::new(exchange));
        conn.stage = Stage::Exchanging;
        debug_assert!(body != BodyLength::None || conn.exchange.as_ref().is_some_and(|e| e.has_whole_request()));
        Ok(Some(Turn::Moved))
    }

    /// Sends the head in `self.wire` and the cached body with one call, as far as they go.
    fn deliver_hit<I: Io>(&mut self, io: &mut I, conn: &mut Conn, counters: &mut Counters) -> bool {
        let Some((stored, _)) = conn.cached.take() else { return self.deliver(io, conn, b"", counters) };
        let n = match transfer::send(io, &self.wire, &stored.body, counters) {
            transfer::Sent::Bytes(n) => n,
            transfer::Sent::Blocked => 0,
            transfer::Sent::Failed => return false,
        };
        conn.moved_ns = self.now_ns;
        let of_head = n.min(self.wire.len());
        let sent = n - of_head;
        if sent < stored.body.len() {
            conn.cached = Some((stored, sent));
        }
        conn.out.push(&self.wire[of_head..], &self.shared.bounds, &mut self.tally)
    }

    fn exchange<I: Io>(&mut self, io: &mut I, conn: &mut Conn, counters: &mut Counters) -> Turn {
        let Some(mut exchange) = conn.exchange.take() else { return Turn::Close };
        let flow = self.advance(io, conn, &mut exchange, counters);
        self.conclude(io, conn, exchange, flow, counters)
    }

    /// Acts on what a turn of the exchange came to: keeps the exchange, or ends it and decides what the client gets.
    fn conclude<I: Io>(
        &mut self,
        io: &mut I,
        conn: &mut Conn,
        exchange: Box<Exchange>,
        flow: Flow,
        counters: &mut Counters,
    ) -> Turn {
        if matches!(flow, Flow::Moved | Flow::Idle) {
            conn.exchange = Some(exchange);
            return if flow == Flow::Moved { Turn::Moved } else { Turn::Idle };
        }
        if let Some(id) = exchange.upstream {
            self.pool.drop(id);
        }
        let manner = exchange.manner;
        let stage = match (exchange.has_whole_request(), manner.keep_alive) {
            (true, true) => Stage::Receiving,
            (true, false) => closing(conn),
            // Where the next request begins would have to be read for.
            (false, _) => Stage::Closing(Close::Lingering),
        };
        match flow {
            Flow::Fail(status, why) => {
                let manner = Manner { keep_alive: stage == Stage::Receiving, ..manner };
                self.refuse(io, conn, Refusal { status, why }, manner, stage, counters)
            }
            Flow::Truncated => {
                counters.requests += 1;
                let is_open = exchange.reply.as_ref().is_some_and(|reply| reply.framing == Framing::UntilClose);
                conn.stage = Stage::Closing(if is_open { Close::Reset } else { Close::AtOnce });
                Turn::Moved
            }
            Flow::Done => {
                counters.requests += 1;
                conn.stage = stage;
                Turn::Moved
            }
            Flow::Gone | Flow::Moved | Flow::Idle => Turn::Close,
        }
    }

    /// Answers with a status and a sentence of the proxy's own.
    fn refuse<I: Io>(
        &mut self,
        io: &mut I,
        conn: &mut Conn,
        refusal: Refusal,
        manner: Manner,
        stage: Stage,
        counters: &mut Counters,
    ) -> Turn {
        counters.requests += 1;
        let text = format!("{} {}: {}\n", refusal.status, reply::reason(refusal.status), refusal.why);
        let manner = reply::Manner { keep_alive: manner.keep_alive, head_only: manner.to_head, http10: manner.http10 };
        self.wire.clear();
        reply::push_text(&mut self.wire, &self.stamp, refusal.status, b"", &text, manner);
        (conn.stage, conn.head_until_ns) = (stage, NEVER_NS);
        if self.deliver(io, conn, b"", counters) { Turn::Moved } else { Turn::Close }
    }

    fn send<I: Io>(&mut self, io: &mut I, conn: &mut Conn, counters: &mut Counters) -> Sent {
        if !conn.out.is_empty() {
            return conn.out.send_once(io, &mut self.piece, counters);
        }
        let Some((stored, at)) = &mut conn.cached else { return Sent::Blocked };
        match transfer::send(io, b"", &stored.body[*at..], counters) {
            transfer::Sent::Bytes(n) => {
                *at += n;
                if *at == stored.body.len() {
                    conn.cached = None;
                }
                Sent::Some { of_head: 0 }
            }
            transfer::Sent::Blocked => Sent::Blocked,
            transfer::Sent::Failed => Sent::Failed,
        }
    }

    fn discard<I: Io>(&mut self, io: &mut I, conn: &mut Conn, counters: &mut Counters) -> Option<usize> {
        let mut scratch = std::mem::take(&mut self.scratch);
        let received = self.receive(io, conn, &mut scratch, counters);
        self.scratch = scratch;
        received
    }

    fn wait(&self, io: &impl Io, conn: &mut Conn) -> Next {
        let has_begun = !conn.input.is_empty() || io.is_midway();
        if conn.stage == Stage::Receiving && !conn.has_output() {
            // A record of TLS that is not whole may be a head's; where it was none, none has begun.
            let until_ns = conn.head_until_ns.min(self.now_ns.saturating_add(self.head_ns));
            conn.head_until_ns = if has_begun { until_ns } else { NEVER_NS };
        }
        let client_ns = self.client_until_ns(conn);
        let until_ns = match (&conn.exchange, conn.stage) {
            (Some(exchange), _) => {
                let origin_ns = if exchange.waits_for_origin() { exchange.until_ns } else { NEVER_NS };
                let waits_for_client = conn.has_output() || exchange.waits_for_client();
                if waits_for_client { origin_ns.min(client_ns) } else { origin_ns }
            }
            (None, Stage::Lingering { until_ns }) => until_ns,
            (None, _) => client_ns,
        };
        Next::Wait { until_ns, write: conn.has_output() }
    }

    fn client_until_ns(&self, conn: &Conn) -> u64 {
        let idle_until_ns = self.idle_ns.map_or(NEVER_NS, |idle_ns| conn.moved_ns.saturating_add(idle_ns));
        idle_until_ns.min(conn.head_until_ns)
    }

    /// Handles a deadline that has come. `None`: the connection is driven on as usual.
    fn expire<I: Io>(&mut self, io: &mut I, conn: &mut Conn, counters: &mut Counters) -> Option<Next> {
        if let Some(exchange) = &conn.exchange
            && exchange.waits_for_origin()
            && exchange.until_ns <= self.now_ns
        {
            let mut exchange = conn.exchange.take()?;
            let flow = self.time_out(&mut exchange);
            return match self.conclude(io, conn, exchange, flow, counters) {
                Turn::Moved | Turn::Idle => None,
                Turn::Close => Some(Next::Close),
                Turn::Reset => Some(Next::Reset),
            };
        }
        if let Stage::Lingering { until_ns } = conn.stage {
            return (until_ns <= self.now_ns).then_some(Next::Close);
        }
        let wants_more = match &conn.exchange {
            Some(exchange) => exchange.waits_for_client(),
            None => conn.stage == Stage::Receiving,
        };
        if self.client_until_ns(conn) > self.now_ns || !(conn.has_output() || wants_more || conn.exchange.is_none()) {
            return None;
        }
        counters.idle_closed += 1;
        let has_half = conn.exchange.is_some() || !conn.input.is_empty();
        if conn.has_output() || !wants_more || !has_half {
            return Some(Next::Close);
        }
        counters.refused += 1;
        if let Some(id) = conn.exchange.take().and_then(|exchange| exchange.upstream) {
            self.pool.drop(id);
        }
        let refusal = Refusal { status: 408, why: "expected the rest of the request sooner" };
        match self.refuse(io, conn, refusal, Manner::UNKNOWN, Stage::Closing(Close::Lingering), counters) {
            Turn::Moved | Turn::Idle => None,
            Turn::Close | Turn::Reset => Some(Next::Close),
        }
    }
}

fn closing(conn: &Conn) -> Stage {
    Stage::Closing(if conn.input.is_empty() { Close::AtOnce } else { Close::Lingering })
}
