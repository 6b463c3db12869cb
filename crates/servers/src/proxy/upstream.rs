//! The origins' side of an exchange: the request sent on, the reply read and passed back.
//!
//! A request goes to the first origin of its order that accepts; it is sent again only while the client has
//! seen nothing: to the next origin when none was reached, or on a fresh connection when a kept one had closed
//! before its reply and the method is idempotent. Both bodies stream, also at the same time. Bytes received
//! leave at once where the client takes them; only the rest is kept.

use rustix::io::{Errno, IoSlice};
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, recv, send, sendmsg, sockopt};

use super::exchange::{Exchange, Flow, Left, Replying};
use super::forward::{self, Framing, push_chunk};
use super::freshness;
use super::pool::Failed;
use super::reply::{self, Body};
use super::worker::{Conn, Proxy};
use crate::counters::Counters;
use crate::http::body::BodyReader;
use crate::http::request::{self, BodyLength};
use crate::limits;
use crate::link::Io;
use crate::slab::Token;
use crate::timers::NEVER_NS;

impl Proxy {
    /// Moves an exchange as far as one turn goes.
    pub(super) fn advance<I: Io>(
        &mut self,
        io: &mut I,
        conn: &mut Conn,
        exchange: &mut Exchange,
        counters: &mut Counters,
    ) -> Flow {
        let Some(id) = exchange.upstream else { return self.reach(exchange) };
        let until_ns = self.now_ns.saturating_add(self.shared.timeout_ns);
        let Some(upstream) = self.pool.get_mut(id) else { return self.unreachable(exchange) };
        if !exchange.connected {
            if !upstream.writable {
                return Flow::Idle;
            }
            if !matches!(sockopt::socket_error(&upstream.fd), Ok(Ok(()))) {
                return self.unreachable(exchange);
            }
            exchange.connected = true;
            exchange.until_ns = until_ns;
        }
        let mut flow = Flow::Idle;
        if exchange.has_to_send() && upstream.writable && !exchange.deaf {
            let (head, pending) = (&exchange.head[exchange.head_sent..], &exchange.pending[exchange.pending_sent..]);
            let sent = if pending.is_empty() {
                send(&upstream.fd, head, SendFlags::NOSIGNAL)
            } else {
                let parts = [IoSlice::new(head), IoSlice::new(pending)];
                sendmsg(&upstream.fd, &parts, &mut SendAncillaryBuffer::default(), SendFlags::NOSIGNAL)
            };
            match sent {
                Ok(n) => {
                    exchange.sent(n);
                    exchange.until_ns = until_ns;
                    flow = Flow::Moved;
                }
                Err(Errno::AGAIN) => upstream.writable = false,
                Err(Errno::INTR) => flow = Flow::Moved,
                Err(_) => {
                    exchange.deaf = true;
                    upstream.readable = true;
                }
            }
        }
        if exchange.wants_body() {
            match self.take_body(io, conn, exchange, counters) {
                Flow::Idle => {}
                Flow::Moved => {
                    exchange.until_ns = until_ns;
                    flow = Flow::Moved;
                }
                end => return end,
            }
        }
        match self.take_reply(io, conn, exchange, id, counters) {
            Flow::Idle => flow,
            moved => moved,
        }
    }

    /// The deadline of the origin has passed.
    pub(super) fn time_out(&mut self, exchange: &mut Exchange) -> Flow {
        if !exchange.connected {
            exchange.timed_out = true;
            return self.unreachable(exchange);
        }
        self.tally.upstream_errors += 1;
        match exchange.reply {
            Some(_) => Flow::Truncated,
            None => Flow::Fail(504, "expected the origin to go on within --upstream-timeout"),
        }
    }

    /// Gets a connection to the origin it is at, or to the next.
    fn reach(&mut self, exchange: &mut Exchange) -> Flow {
        while let Some(&origin) = exchange.order.get(exchange.at) {
            exchange.until_ns = self.now_ns.saturating_add(self.shared.timeout_ns);
            if !exchange.fresh
                && let Some(id) = self.pool.take(origin, self.token)
            {
                self.tally.upstream_reused += 1;
                exchange.upstream = Some(id);
                exchange.connected = true;
                return Flow::Moved;
            }
            match self.pool.connect(origin, self.shared.origins.addr(origin), self.token) {
                Ok(id) => {
                    self.tally.upstream_connects += 1;
                    exchange.upstream = Some(id);
                    return Flow::Moved;
                }
                Err(Failed::Exhausted) => {
                    self.tally.upstream_errors += 1;
                    return Flow::Fail(
                        503,
                        "expected a descriptor, a port and memory for a connection to the origin, but this proxy has none left now",
                    );
                }
                Err(Failed::Full) => {
                    exchange.until_ns = NEVER_NS;
                    return Flow::Idle;
                }
                Err(Failed::Origin) => self.pass_over(exchange, origin),
            }
        }
        match exchange.timed_out {
            true => Flow::Fail(504, "expected an origin to accept a connection within --upstream-timeout"),
            false => Flow::Fail(502, "expected an origin to accept a connection, but none did"),
        }
    }

    fn unreachable(&mut self, exchange: &mut Exchange) -> Flow {
        if let Some(id) = exchange.upstream {
            self.pool.drop(id);
        }
        exchange.rewind();
        if let Some(&origin) = exchange.order.get(exchange.at) {
            self.pass_over(exchange, origin);
        }
        Flow::Moved
    }

    fn pass_over(&mut self, exchange: &mut Exchange, origin: usize) {
        self.shared.origins.set_down(origin, self.now_ns);
        self.tally.upstream_errors += 1;
        exchange.at += 1;
        self.tally.upstream_retries += u64::from(exchange.at < exchange.order.len());
    }

    /// Takes of the client's body what is there.
    fn take_body<I: Io>(
        &mut self,
        io: &mut I,
        conn: &mut Conn,
        exchange: &mut Exchange,
        counters: &mut Counters,
    ) -> Flow {
        let input = std::mem::take(&mut conn.input);
        let mut scratch = std::mem::take(&mut self.scratch);
        let flow = 'taken: {
            let data = if input.is_empty() {
                match self.receive(io, conn, &mut scratch, counters) {
                    Some(0) => break 'taken Flow::Idle,
                    Some(n) => &scratch[..n],
                    None => break 'taken Flow::Gone,
                }
            } else {
                &input[..]
            };
            exchange.body_begun = true;
            self.body.clear();
            let used = match exchange.body.read(data, Some(&mut self.body)) {
                Ok(used) => used,
                Err(_) if exchange.reply.is_some() => break 'taken Flow::Truncated,
                Err(refusal) => break 'taken Flow::Fail(refusal.status, refusal.why),
            };
            match exchange.chunked {
                true => push_chunk(&mut exchange.pending, &self.body, exchange.body.is_done()),
                false => exchange.pending.extend_from_slice(&self.body),
            }
            conn.input = data[used..].to_vec();
            Flow::Moved
        };
        self.scratch = scratch;
        flow
    }

    /// Receives once from the origin, if the client's side has room.
    fn take_reply<I: Io>(
        &mut self,
        io: &mut I,
        conn: &mut Conn,
        exchange: &mut Exchange,
        id: Token,
        counters: &mut Counters,
    ) -> Flow {
        let bounds = &self.shared.bounds;
        let Some(upstream) = self.pool.get_mut(id) else { return Flow::Idle };
        if !upstream.readable {
            return Flow::Idle;
        }
        let room = match exchange.reply {
            Some(_) => conn.out.room(bounds).saturating_sub(limits::CHUNK_FRAME_BYTES),
            None => self.scratch.len(),
        };
        let least = (bounds.buffer_bytes / 2).min(self.scratch.len());
        if room < least && conn.has_output() {
            exchange.held = true;
            return Flow::Idle;
        }
        if std::mem::take(&mut exchange.held) {
            exchange.until_ns = self.now_ns.saturating_add(self.shared.timeout_ns);
        }
        let at_most = room.clamp(1, self.scratch.len());
        match recv(&upstream.fd, &mut self.scratch[..at_most], RecvFlags::empty()) {
            Ok((0, _)) => self.upstream_end(io, conn, exchange, false, counters),
            Ok((n, _)) => {
                upstream.readable = n == at_most || upstream.thorough;
                exchange.until_ns = self.now_ns.saturating_add(self.shared.timeout_ns);
                let scratch = std::mem::take(&mut self.scratch);
                self.wire.clear();
                let flow = match exchange.reply {
                    None => {
                        exchange.reply_in.extend_from_slice(&scratch[..n]);
                        self.reply_head(io, conn, exchange, counters)
                    }
                    Some(_) => self.reply_body(io, conn, exchange, &scratch[..n], counters),
                };
                self.scratch = scratch;
                flow
            }
            Err(Errno::AGAIN) => {
                upstream.readable = false;
                Flow::Idle
            }
            Err(Errno::INTR) => Flow::Moved,
            Err(_) => self.upstream_end(io, conn, exchange, true, counters),
        }
    }

    /// The origin has ended the connection, in order or not.
    fn upstream_end<I: Io>(
        &mut self,
        io: &mut I,
        conn: &mut Conn,
        exchange: &mut Exchange,
        is_error: bool,
        counters: &mut Counters,
    ) -> Flow {
        if let Some(Replying { left: Left::UntilClose, framing, .. }) = &exchange.reply
            && !is_error
        {
            self.wire.clear();
            if *framing == Framing::Chunked {
                push_chunk(&mut self.wire, b"", true);
            }
            if !self.deliver(io, conn, b"", counters) {
                return Flow::Gone;
            }
            return self.finish(exchange, false);
        }
        let was_kept = exchange.upstream.and_then(|id| self.pool.get_mut(id)).is_some_and(|upstream| upstream.reused);
        let is_silent = exchange.reply.is_none() && exchange.reply_in.is_empty() && exchange.interim == 0;
        if was_kept && is_silent && exchange.manner.idempotent && !exchange.body_begun {
            if let Some(id) = exchange.upstream {
                self.pool.drop(id);
            }
            exchange.rewind();
            exchange.fresh = true;
            self.tally.upstream_retries += 1;
            return Flow::Moved;
        }
        self.tally.upstream_errors += 1;
        match exchange.reply {
            Some(_) => Flow::Truncated,
            None => Flow::Fail(502, "expected a whole reply head from the origin, but it closed the connection before"),
        }
    }

    /// Reads heads from what has come: interim ones, and then the reply's.
    fn reply_head<I: Io>(
        &mut self,
        io: &mut I,
        conn: &mut Conn,
        exchange: &mut Exchange,
        counters: &mut Counters,
    ) -> Flow {
        let bad = |proxy: &mut Self, why| {
            proxy.tally.upstream_errors += 1;
            Flow::Fail(502, why)
        };
        loop {
            let len = match request::find_end(&exchange.reply_in, &mut exchange.scanned) {
                Ok(Some(len)) => len,
                Ok(None) => break,
                Err(_) => {
                    return bad(self, "expected a reply of HTTP/1.1 with a head of at most 64 KiB from the origin");
                }
            };
            let input = std::mem::take(&mut exchange.reply_in);
            exchange.scanned = 0;
            let (head, rest) = input.split_at(len);
            let parsed = match reply::parse(head, exchange.manner.to_head) {
                Ok(parsed) => parsed,
                Err(why) => return bad(self, why),
            };
            if parsed.status >= 200 {
                self.begin_reply(head, &parsed, exchange);
                return self.reply_body(io, conn, exchange, rest, counters);
            }
            exchange.interim += 1;
            if parsed.status == 101 {
                return bad(self, "expected no change of protocol from the origin, as none was asked for");
            }
            if exchange.interim > limits::INTERIM_REPLIES_MAX {
                return bad(self, "expected at most 16 interim replies from the origin");
            }
            if !exchange.manner.http10 {
                forward::push_reply_fields(&mut self.wire, head, &parsed);
                self.wire.extend_from_slice(b"\r\n");
            }
            exchange.reply_in = rest.to_vec();
        }
        if !self.wire.is_empty() && !self.deliver(io, conn, b"", counters) {
            return Flow::Gone;
        }
        Flow::Moved
    }

    /// Writes the reply's head and settles how its body goes on.
    fn begin_reply(&mut self, head: &[u8], parsed: &reply::ReplyHead, exchange: &mut Exchange) {
        let manner = &mut exchange.manner;
        let framing = match parsed.body {
            Body::None { .. } | Body::Known(_) => Framing::Plain,
            Body::Chunked | Body::UntilClose if manner.http10 => Framing::UntilClose,
            Body::Chunked | Body::UntilClose => Framing::Chunked,
        };
        manner.keep_alive &= !self.draining && framing != Framing::UntilClose;
        forward::push_reply(&mut self.wire, head, parsed, framing, manner.keep_alive, manner.http10);
        let left = match parsed.body {
            Body::None { .. } | Body::Known(0) => Left::Nothing,
            Body::Known(length) => Left::Bytes(length),
            // Without a bound on its size it cannot be refused.
            Body::Chunked => BodyReader::new(BodyLength::Chunked, u64::MAX).map_or(Left::Nothing, Left::Chunks),
            Body::UntilClose => Left::UntilClose,
        };
        let keep_upstream = parsed.keep_alive && parsed.body != Body::UntilClose;
        exchange.reply = Some(Replying { left, framing, keep_upstream });
        let (Some(key), Some(cache)) = (&exchange.key, &self.shared.cache) else { return };
        if key.forget && parsed.status < 400 {
            cache.forget(&key.name);
        }
        let fits = !matches!(parsed.body, Body::Known(length) if length > cache.object_bytes_max() as u64);
        if let (Some(request), true) = (&key.request, fits) {
            exchange.kept = freshness::stored(request, head, parsed, self.now_ns);
        }
    }

    /// Passes on body bytes, behind what is in `self.wire`.
    fn reply_body<I: Io>(
        &mut self,
        io: &mut I,
        conn: &mut Conn,
        exchange: &mut Exchange,
        data: &[u8],
        counters: &mut Counters,
    ) -> Flow {
        let Some(reply) = &mut exchange.reply else { return Flow::Idle };
        let mut body = std::mem::take(&mut self.body);
        body.clear();
        let mut broken = false;
        let (plain, is_done, used) = match &mut reply.left {
            Left::Nothing => (&b""[..], true, 0),
            Left::Bytes(left) => {
                let n = data.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
                *left -= n as u64;
                (&data[..n], *left == 0, n)
            }
            Left::UntilClose => (data, false, data.len()),
            Left::Chunks(reader) => {
                let read = reader.read(data, Some(&mut body));
                broken = read.is_err();
                (&body[..], reader.is_done(), read.unwrap_or(data.len()))
            }
        };
        if let (Some(kept), Some(cache)) = (&mut exchange.kept, &self.shared.cache) {
            kept.body.extend_from_slice(plain);
            if kept.body.len() > cache.object_bytes_max() {
                exchange.kept = None;
            }
        }
        let is_delivered = if reply.framing == Framing::Chunked {
            push_chunk(&mut self.wire, plain, is_done);
            self.deliver(io, conn, b"", counters)
        } else {
            self.deliver(io, conn, plain, counters)
        };
        self.body = body;
        match (is_delivered, broken, is_done) {
            (false, _, _) => Flow::Gone,
            (true, true, _) => {
                self.tally.upstream_errors += 1;
                Flow::Truncated
            }
            (true, false, true) => self.finish(exchange, used < data.len()),
            (true, false, false) => Flow::Moved,
        }
    }

    /// The reply has come whole. `is_dirty`: more came than it said.
    fn finish(&mut self, exchange: &mut Exchange, is_dirty: bool) -> Flow {
        if let (Some(kept), Some(key), Some(cache)) = (exchange.kept.take(), &exchange.key, &self.shared.cache) {
            cache.insert(&key.name, kept);
        }
        let may_keep = exchange.reply.as_ref().is_some_and(|reply| reply.keep_upstream);
        if let Some(id) = exchange.upstream.take() {
            let is_whole = exchange.body.is_done() && !exchange.has_to_send() && !exchange.deaf;
            if may_keep && is_whole && !is_dirty && !self.draining {
                self.pool.park(id, self.now_ns);
            } else {
                self.pool.drop(id);
            }
        }
        Flow::Done
    }
}
