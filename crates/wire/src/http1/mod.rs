//! HTTP/1.1 as a client speaks it: requests written once, replies read as they come, cut anywhere.
//!
//! The verdict on a reply is a function of its bytes, never of how they were cut. A head that came whole is parsed
//! where it lies; pieces are gathered in borrowed memory that goes back when the reply is complete, so an idle
//! connection keeps nothing. Bodies are counted, not copied. Each request's last head is remembered, and one like it
//! is known without parsing it again.
//! Not here: redirects, content codings, upgrades, CONNECT tunnels (the reply counts, the connection is not kept).
//! Cost of a small reply with 8 fields, x86-64 at 2 to 3 GHz: 30 ns when its head is the last one, 55 ns when a date or
//! length differs, 220 ns when it must be parsed.

mod body;
mod check;
mod detail;
#[cfg(test)]
mod fixtures;
mod head;
mod keyed;
mod memo;
mod replies;
mod request;
mod template;
#[cfg(test)]
mod tests;
mod user;

pub use detail::{Detail, describe, words, words_of};

use crate::random::mix;
use crate::{AsSent, Failure, Fed, Payload, Progress, Protocol, Reply, Source, Stream, WireError};
use body::{Body, Step};
use check::{Check, Seen};
use head::{Declared, Head};
use keyed::Keyed;
use memo::Memo;
use model::ErrorKind;
use model::limits::BODY_CHECK_BYTES_MAX;
use model::plan::Http1;
use replies::Looks;
pub(crate) use request::Draw;
use std::cell::RefCell;
use std::sync::Arc;
use template::Template;
use user::{Scope, User, Users};

/// Heads remembered, over all requests: with more requests than this some share a place. A power of two.
const MEMOS_MAX: usize = 16;
/// Memory for pieces that lies ready for the next connection that needs it.
const SPARES_MAX: usize = 64;
/// Capacity of such memory above which it is given back, bytes.
const SPARE_BYTES_MAX: usize = 16 * 1024;

/// HTTP/1.1 for one worker.
#[derive(Debug)]
pub struct Http1Protocol {
    /// By index in the plan, which is their blob's index too.
    requests: Vec<Request>,
    draws: Vec<Draw>,
    /// Where requests differ for each user; `None`: they are the same for all.
    users: Option<Users>,
    /// Where requests name keys.
    keyed: Option<Keyed>,
    written_bytes_max: usize,
    head_bytes_max: u32,
    keep_alive: bool,
    memos: RefCell<Vec<Memo>>,
    #[allow(clippy::vec_box, reason = "the boxes themselves go to connections and come back")]
    spares: RefCell<Vec<Box<Scratch>>>,
}

/// A request that is sent: which, and the key it names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Drawn {
    /// Its place in the plan.
    pub request: u32,
    /// The key's number, from 0 on; 0 where requests name none.
    pub key: u32,
    /// What was known of the key when this was drawn, where that is remembered.
    pub as_sent: AsSent,
}

/// What is known of a request of the plan when a reply to it comes.
#[derive(Debug)]
struct Request {
    bytes: Arc<[u8]>,
    method: Method,
    check: Check,
    /// It is written when it is sent.
    template: Option<Template>,
    /// What else is looked at in its replies.
    looks: Option<Looks>,
}

/// Methods whose replies are framed differently.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Method {
    Head,
    Connect,
    Other,
}

/// Memory of a connection inside a reply that came in pieces.
#[derive(Debug, Default)]
struct Scratch {
    head: Vec<u8>,
    seen: Seen,
}

/// The state of one connection.
#[derive(Debug)]
pub struct Connection {
    stage: Stage,
    /// Whether any byte of the outstanding reply has come.
    has_begun: bool,
    keep: bool,
    status: u16,
    /// The body's length by `Content-Length`, bytes.
    length: u64,
    /// Only inside a head in pieces, or a body in pieces that is checked.
    scratch: Option<Box<Scratch>>,
    /// Who asks, where that makes a difference.
    user: Option<Box<User>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Before the first byte of a head: the first one, or one after an interim reply.
    Start,
    /// Inside a head, what came of it is in the scratch.
    Head,
    Body(Body),
}

/// What became of bytes that begin with (the rest of) a head.
enum Headed {
    /// The head ends after so many of them.
    At(usize, Head),
    More,
    Bad(ErrorKind, Detail),
}

impl Http1Protocol {
    /// Writes all requests and makes their checks ready.
    ///
    /// # Errors
    /// Requests that cannot be written, drawn or checked: see [`WireError`].
    pub fn new(plan: &Http1) -> Result<Self, WireError> {
        Self::of_worker(plan, 0, 1)
    }

    /// The same for one of several workers, so that numbers and rows that are given once are given once by all of them.
    ///
    /// # Errors
    /// As [`Http1Protocol::new`].
    pub fn of_worker(plan: &Http1, worker: u16, workers: u16) -> Result<Self, WireError> {
        if plan.requests.is_empty() {
            return Err(WireError::NoRequests);
        }
        let scope = Scope::of(plan);
        let make = |(index, request): (usize, &model::plan::HttpRequest)| {
            let template = match request.is_template {
                true => Some(Template::new(index, request, plan.keep_alive, &scope)?),
                false => None,
            };
            let bytes = match template {
                Some(_) => Arc::default(),
                None => request::write(index, request, plan.keep_alive)?.into(),
            };
            let looks = Looks::new(index, request, &scope)?;
            let method = match request.method.as_str() {
                "HEAD" => Method::Head,
                "CONNECT" => Method::Connect,
                _ => Method::Other,
            };
            let check = Check::new(index, &request.expect, looks.as_ref().is_some_and(Looks::wants_body))?;
            Ok(Request { bytes, method, check, template, looks })
        };
        let requests = plan.requests.iter().enumerate().map(make).collect::<Result<Vec<_>, WireError>>()?;
        let memos = requests.len().next_power_of_two().min(MEMOS_MAX);
        let written_bytes_max =
            requests.iter().filter_map(|r| r.template.as_ref()).map(Template::longest).max().unwrap_or(0);
        let are_alike = requests.iter().all(|request| request.template.is_none() && request.looks.is_none());
        let users = match are_alike && !plan.sequence {
            true => None,
            false => Some(Users::new(plan, &scope, worker, workers, written_bytes_max)?),
        };
        let names_key = |index: usize| requests[index].template.as_ref().is_some_and(Template::names_key);
        Ok(Http1Protocol {
            keyed: Keyed::new(plan, names_key, worker, workers)?,
            users,
            written_bytes_max,
            draws: Draw::by_origin(&plan.requests)?,
            memos: RefCell::new((0..memos).map(|_| Memo::new()).collect()),
            spares: RefCell::new(Vec::with_capacity(SPARES_MAX)),
            head_bytes_max: plan.head_bytes_max,
            keep_alive: plan.keep_alive,
            requests,
        })
    }

    /// Takes bytes that came while a request was the oldest outstanding one.
    #[inline]
    fn take(&self, connection: &mut Connection, request: u32, bytes: &[u8]) -> Fed {
        let known = &self.requests[request as usize];
        connection.has_begun = true;
        let mut consumed = 0;
        if let Stage::Body(body) = connection.stage {
            let (consumed, progress) = self.take_body(connection, known, body, bytes);
            return Fed { consumed, progress };
        }
        while consumed < bytes.len() {
            let (before, rest) = (consumed, &bytes[consumed..]);
            let head = match self.take_head(connection, request, rest) {
                Headed::At(end, head) => {
                    consumed += end;
                    head
                }
                Headed::More => break,
                Headed::Bad(kind, detail) => {
                    return Fed { consumed, progress: self.broken(connection, kind, detail as u32) };
                }
            };
            if let Some(looks) = &known.looks
                && looks.wants_head()
                && head.status >= 200
            {
                self.look_at_head(connection, looks, &rest[..consumed - before]);
            }
            if connection.stage == Stage::Head {
                self.release(connection);
                connection.stage = Stage::Start;
            }
            if head.status >= 200 {
                let (taken, progress) = self.begin_body(connection, known, head, &bytes[consumed..]);
                return Fed { consumed: consumed + taken, progress };
            }
            if head.status == 101 {
                let progress = self.broken(connection, ErrorKind::BadFraming, Detail::Upgrade as u32);
                return Fed { consumed, progress };
            }
        }
        Fed { consumed: bytes.len(), progress: Progress::More }
    }

    /// What became of a request, with what that says of the key it names.
    #[inline]
    fn of_key(&self, connection: &mut Connection, drawn: Drawn, progress: Progress) -> Progress {
        let (Some(keyed), Progress::Reply(mut reply)) = (&self.keyed, progress) else { return progress };
        reply.failure = keyed.judge(drawn, reply.status, reply.failure);
        if let Some(user) = &mut connection.user {
            user.is_well = reply.failure.is_none();
        }
        Progress::Reply(reply)
    }

    /// Takes (more of) a head.
    #[inline]
    fn take_head(&self, connection: &mut Connection, request: u32, bytes: &[u8]) -> Headed {
        if connection.stage == Stage::Head {
            return self.gather_head(connection, bytes);
        }
        let mut memos = self.memos.borrow_mut();
        let place = request as usize & (memos.len() - 1);
        let memo = &mut memos[place];
        if let Some((end, head)) = memo.recognise(bytes)
            && end <= self.head_bytes_max as usize
        {
            memo.was_of_use();
            return Headed::At(end, head);
        }
        if !head::may_begin(bytes) {
            return Headed::Bad(ErrorKind::BadFraming, head::what_else(bytes));
        }
        match head::parse_whole(bytes) {
            Some((end, Ok(head))) if end <= self.head_bytes_max as usize => {
                if head.status >= 200 {
                    memo.learn(&bytes[..end], head);
                }
                Headed::At(end, head)
            }
            _ => self.judge_head(connection, bytes),
        }
    }

    /// Takes the beginning of a head that is incomplete, or not sound, or too long.
    #[cold]
    fn judge_head(&self, connection: &mut Connection, bytes: &[u8]) -> Headed {
        let limited = &bytes[..bytes.len().min(self.head_bytes_max as usize)];
        match head::find_end(limited, 0) {
            Some(end) => match head::parse(&bytes[..end]) {
                Ok(head) => Headed::At(end, head),
                Err(detail) => Headed::Bad(ErrorKind::BadFraming, detail),
            },
            None if limited.len() == self.head_bytes_max as usize => {
                Headed::Bad(ErrorKind::HeadTooLarge, Detail::HeadTooLong)
            }
            None => {
                self.scratch(connection).head.extend_from_slice(bytes);
                connection.stage = Stage::Head;
                Headed::More
            }
        }
    }

    /// Takes another piece of a head. Every byte is searched once and parsed once.
    fn gather_head(&self, connection: &mut Connection, bytes: &[u8]) -> Headed {
        let gathered = &mut self.scratch(connection).head;
        let before = gathered.len();
        let room = (self.head_bytes_max as usize).saturating_sub(before);
        gathered.extend_from_slice(&bytes[..bytes.len().min(room)]);
        if !head::may_begin(gathered) {
            return Headed::Bad(ErrorKind::BadFraming, head::what_else(gathered));
        }
        let Some(end) = head::find_end(gathered, before) else {
            if gathered.len() >= self.head_bytes_max as usize {
                return Headed::Bad(ErrorKind::HeadTooLarge, Detail::HeadTooLong);
            }
            return Headed::More;
        };
        match head::parse(&gathered[..end]) {
            Ok(head) => Headed::At(end - before, head),
            Err(detail) => Headed::Bad(ErrorKind::BadFraming, detail),
        }
    }

    /// The final head is there, `rest` is what came behind it.
    #[inline]
    fn begin_body(&self, connection: &mut Connection, request: &Request, head: Head, rest: &[u8]) -> (usize, Progress) {
        let status = head.status;
        let is_tunnel = request.method == Method::Connect && (200..300).contains(&status);
        // RFC 9112 section 6.3, rules 1 and 2: whatever the fields say.
        let has_body = request.method != Method::Head && !matches!(status, 204 | 304) && !is_tunnel;
        connection.status = status;
        connection.keep = self.keep_alive && head.persists && !is_tunnel;
        connection.length = 0;
        let body = match head.declared {
            _ if !has_body => return (0, self.whole(connection, request, &[])),
            Declared::Length(length) if length <= rest.len() as u64 => {
                let length = length as usize;
                return (length, self.whole(connection, request, &rest[..length]));
            }
            Declared::Length(length) => {
                connection.length = length;
                Body::of_length(length)
            }
            Declared::Chunked => Body::chunked(),
            Declared::Nothing | Declared::UntilClose => {
                connection.keep = false;
                Body::until_close()
            }
            Declared::Faulty(detail) => return (0, self.broken(connection, ErrorKind::BadFraming, detail as u32)),
        };
        connection.stage = Stage::Body(body);
        if rest.is_empty() { (0, Progress::More) } else { self.take_body(connection, request, body, rest) }
    }

    fn take_body(
        &self,
        connection: &mut Connection,
        request: &Request,
        mut body: Body,
        bytes: &[u8],
    ) -> (usize, Progress) {
        let step = if request.check.wants_body() {
            let seen = &mut self.scratch(connection).seen;
            body.feed(bytes, self.head_bytes_max, |piece| request.check.see(seen, piece))
        } else {
            body.feed(bytes, self.head_bytes_max, |_| ())
        };
        connection.stage = Stage::Body(body);
        match step {
            Step::More => (bytes.len(), Progress::More),
            Step::Done(taken) => (taken, self.end_body(connection, request)),
            Step::Bad(kind, detail) => (0, self.broken(connection, kind, detail as u32)),
        }
    }

    /// The body is complete.
    fn end_body(&self, connection: &mut Connection, request: &Request) -> Progress {
        let status = connection.status;
        let Some(scratch) = &mut connection.scratch else { return self.whole(connection, request, &[]) };
        let mut failure = request.check.pieces(status, &mut scratch.seen);
        if let (None, Some(looks), Some(user)) = (failure, &request.looks, &mut connection.user) {
            failure = looks.whole(user, status, scratch.seen.kept());
        }
        self.reply(connection, failure)
    }

    /// The reply is there, and its body in one slice.
    #[inline]
    fn whole(&self, connection: &mut Connection, request: &Request, body: &[u8]) -> Progress {
        let mut failure = request.check.whole(connection.status, body);
        if let (None, Some(looks), Some(user)) = (failure, &request.looks, &mut connection.user) {
            let body = &body[..body.len().min(BODY_CHECK_BYTES_MAX as usize)];
            failure = looks.whole(user, connection.status, body);
        }
        self.reply(connection, failure)
    }

    /// A final head is there: in one piece, or gathered.
    #[cold]
    fn look_at_head(&self, connection: &mut Connection, looks: &Looks, piece: &[u8]) {
        let Some(user) = &mut connection.user else { return };
        match (&connection.scratch, connection.stage) {
            (Some(scratch), Stage::Head) => {
                let end = head::find_end(&scratch.head, 0).unwrap_or(scratch.head.len());
                looks.head(user, &scratch.head[..end]);
            }
            _ => looks.head(user, piece),
        }
    }

    #[inline]
    fn reply(&self, connection: &mut Connection, failure: Option<Failure>) -> Progress {
        self.reset(connection);
        if let Some(user) = &mut connection.user {
            user.is_well = failure.is_none();
        }
        Progress::Reply(Reply { status: connection.status, keep: connection.keep, failure })
    }

    #[cold]
    fn broken(&self, connection: &mut Connection, kind: ErrorKind, detail: u32) -> Progress {
        self.reset(connection);
        Progress::Broken(Failure { kind, detail })
    }

    #[inline]
    fn reset(&self, connection: &mut Connection) {
        connection.stage = Stage::Start;
        connection.has_begun = false;
        if connection.scratch.is_some() {
            self.release(connection);
        }
    }

    /// The connection's memory for pieces, borrowed when it has none.
    fn scratch<'a>(&self, connection: &'a mut Connection) -> &'a mut Scratch {
        connection.scratch.get_or_insert_with(|| self.spares.borrow_mut().pop().unwrap_or_default())
    }

    /// Gives the memory for pieces back, emptied.
    #[cold]
    fn release(&self, connection: &mut Connection) {
        let Some(mut scratch) = connection.scratch.take() else { return };
        let mut spares = self.spares.borrow_mut();
        if spares.len() < SPARES_MAX {
            scratch.head.clear();
            scratch.head.shrink_to(SPARE_BYTES_MAX);
            scratch.seen.clear();
            spares.push(scratch);
        }
    }

    /// Where the reply stands, as a detail.
    fn place(connection: &Connection) -> u32 {
        let detail = match connection.stage {
            Stage::Start if !connection.has_begun => Detail::BeforeFirstByte,
            Stage::Start => Detail::AfterInterim,
            Stage::Head => Detail::InHead,
            Stage::Body(body) => match body.left_of_length() {
                Some(left) => return detail::in_body(connection.length - left, connection.length),
                None => body.place(),
            },
        };
        detail as u32
    }
}

impl Protocol for Http1Protocol {
    type Connection = Connection;
    type Request = Drawn;
    type Transport = Stream;

    fn blobs(&self) -> Vec<Arc<[u8]>> {
        self.requests.iter().map(|request| Arc::clone(&request.bytes)).collect()
    }

    fn connection(&self) -> Connection {
        let user = self.users.as_ref().map(Users::user);
        Connection { stage: Stage::Start, has_begun: false, keep: false, status: 0, length: 0, scratch: None, user }
    }

    fn renewed(&self, before: &mut Connection) -> Connection {
        let user = before.user.take();
        Connection { stage: Stage::Start, has_begun: false, keep: false, status: 0, length: 0, scratch: None, user }
    }

    #[inline]
    fn next_request(&mut self, origin: u16, random: u64) -> Drawn {
        let request = self.draws.get(usize::from(origin)).map_or(0, |draw| draw.next(random));
        Drawn { request, ..Drawn::default() }
    }

    #[inline]
    fn next_of_user(&mut self, connection: &mut Connection, origin: u16, random: u64) -> Drawn {
        let (Some(users), Some(user)) = (&mut self.users, &mut connection.user) else {
            return self.next_request(origin, random);
        };
        let step = users.begin(user, random);
        let mut drawn = match step {
            Some(request) => Drawn { request, ..Drawn::default() },
            None => self.next_request(origin, random),
        };
        if let Some(keyed) = &mut self.keyed {
            // A round of a sequence has one key, as it has one row of data.
            if step.is_none_or(|step| step == 0) {
                user.key = keyed.next(mix(!random));
            }
            drawn.key = user.key;
            drawn.as_sent = keyed.sent(drawn.request, user.key);
        }
        drawn
    }

    #[inline]
    fn is_used_up(&self) -> bool {
        self.users.as_ref().is_some_and(Users::is_used_up)
    }

    fn entry(&self, drawn: Drawn) -> u16 {
        u16::try_from(drawn.request).unwrap_or(u16::MAX)
    }

    #[inline]
    fn source(&self, drawn: Drawn) -> Source {
        let request = &self.requests[drawn.request as usize];
        match request.template {
            None => Source::Blob(Payload { blob: drawn.request, start: 0, length: request.bytes.len() as u32 }),
            Some(_) => Source::Template,
        }
    }

    #[inline]
    fn written_bytes_max(&self) -> usize {
        self.written_bytes_max
    }

    fn write(&self, connection: &mut Connection, _number: u32, drawn: Drawn, to: &mut Vec<u8>) {
        let template = self.requests.get(drawn.request as usize).and_then(|request| request.template.as_ref());
        if let (Some(template), Some(users), Some(user)) = (template, &self.users, &mut connection.user) {
            // A request that is tried again may be another user's now.
            user.key = drawn.key;
            users.write(template, user, to);
        }
    }

    #[inline]
    fn feed(&self, connection: &mut Connection, drawn: Drawn, bytes: &[u8]) -> Fed {
        let Fed { consumed, progress } = self.take(connection, drawn.request, bytes);
        Fed { consumed, progress: self.of_key(connection, drawn, progress) }
    }

    fn closed(&self, connection: &mut Connection, drawn: Drawn) -> Progress {
        let progress = match connection.stage {
            Stage::Body(body) if body.ends_with_close() => {
                self.end_body(connection, &self.requests[drawn.request as usize])
            }
            _ => {
                let place = Self::place(connection);
                self.broken(connection, ErrorKind::ClosedEarly, place)
            }
        };
        self.of_key(connection, drawn, progress)
    }

    fn timed_out(&self, connection: &mut Connection, _number: u32, _drawn: Drawn) -> Failure {
        let detail = Self::place(connection);
        self.reset(connection);
        Failure { kind: ErrorKind::ReplyTimeout, detail }
    }

    fn describe(detail: u32) -> Option<&'static str> {
        describe(detail)
    }
}
