//! RESP2, the protocol of redis: commands drawn from a mix, replies checked as they come.
//!
//! A request is written when it is sent: keys are many, and requests made beforehand would be as many again. A key's
//! value is a range of one pool, found from the key's number and a seed, so a value that comes back is compared piece
//! by piece without being kept. AUTH and SELECT are a greeting: no request leaves before they are answered. A reply that
//! is well framed but wrong leaves the connection in use; bytes that are not the protocol end it.
//! Cost: some 30 ns a request beside copying and comparing the value; a connection's state is below 128 bytes.

mod command;
mod detail;
mod keys;
mod reader;
#[cfg(test)]
mod tests;

pub use command::KEY_DIGITS;
pub use detail::{Detail, describe, words};
pub use keys::{Keys, Zipf};

use crate::echo::pool;
use crate::http1::Draw;
use crate::random::{below, mix, size};
use crate::remembered::{AsSent, Remembered};
use crate::{Failure, Fed, Progress, Protocol, Reply, Source, Stream, WireError};
use command::Command;
use model::ErrorKind;
use model::limits::ECHO_BYTES_MAX;
use model::plan::Sizes;
use model::resp::{COMMANDS_MAX, Login, Outcome, Resp, RespExpect, error_word, reply_code};
use reader::{Reader, Token};
use std::sync::Arc;

/// RESP2 for one worker.
#[derive(Debug)]
pub struct RespProtocol {
    commands: Vec<Command>,
    draw: Draw,
    keys: Keys,
    pool: Vec<u8>,
    sizes: Sizes,
    value_seed: u64,
    validate: bool,
    /// The longest request, bytes.
    longest: usize,
    /// Keys whose write was acknowledged, where they are remembered.
    remembered: Option<Remembered>,
    /// For each origin: what is said first, and how many replies are due.
    greetings: Vec<(Vec<u8>, u8)>,
}

/// A command with its key: a template, and what fills it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Drawn {
    /// Which command, by its place in the plan.
    pub command: u32,
    /// The key's number; 0 where the command has none.
    pub key: u32,
    /// What was known of the key when this was drawn, where that is remembered.
    pub as_sent: AsSent,
}

/// The state of one connection.
#[derive(Debug, Clone, Copy)]
pub struct Connection {
    reader: Reader,
    has_begun: bool,
    /// Whether the reply's first token was judged.
    is_judged: bool,
    /// Whether what comes is a value that is compared.
    compares: bool,
    /// Replies of the greeting that have come.
    greeted: u8,
    outcome: Outcome,
    fault: Option<Failure>,
    /// Bytes of the value that have come.
    came: u32,
}

impl RespProtocol {
    /// RESP2 as a worker speaks it. The same plan makes the same value of a key, whatever worker and run.
    ///
    /// # Errors
    /// No command, too many, one without a word, weights that are none, sizes that cannot be sent.
    pub fn new(plan: &Resp, worker: u16, workers: u16) -> Result<Self, WireError> {
        if plan.commands.is_empty() {
            return Err(WireError::NoRequests);
        }
        if plan.commands.len() > COMMANDS_MAX {
            return Err(WireError::TooManyCommands { got: plan.commands.len() });
        }
        crate::echo::check_sizes(&plan.values)?;
        let compile = |(index, command)| Command::new(index, command, &plan.key_prefix, &plan.values);
        let commands: Vec<Command> = plan.commands.iter().enumerate().map(compile).collect::<Result<_, _>>()?;
        let mut longest = 0;
        for (index, command) in commands.iter().enumerate() {
            let length = command.length(plan.values.largest());
            longest = longest.max(length);
            if length > ECHO_BYTES_MAX as usize * 2 {
                return Err(WireError::RequestTooLarge { request: index, length });
            }
        }
        let weights: Vec<f64> = plan.commands.iter().map(|command| command.weight).collect();
        if let Some(request) = weights.iter().position(|weight| !(*weight >= 0.0 && weight.is_finite())) {
            let (target, weight) = (plan.commands[request].name.clone(), weights[request]);
            return Err(WireError::Weight { request, target, weight });
        }
        Ok(RespProtocol {
            commands,
            draw: Draw::new(&(0..).zip(weights).collect::<Vec<_>>()).ok_or(WireError::NoWeight { origin: 0 })?,
            keys: Keys::new(plan.key_distribution, plan.keys.max(1), worker, workers),
            pool: pool::make(plan.content, plan.values.largest(), plan.value_seed),
            sizes: plan.values.clone(),
            value_seed: plan.value_seed,
            validate: plan.validate,
            longest,
            remembered: plan.verify_writes.then(|| Remembered::new(plan.keys.max(1), false)),
            greetings: plan.logins.iter().map(greeting).collect(),
        })
    }

    /// The value of a key.
    #[inline]
    pub fn value(&self, key: u32) -> &[u8] {
        let random = mix(self.value_seed ^ (u64::from(key) << 20));
        let size = size(&self.sizes, key as usize, (random >> 32) as u32) as usize;
        let start = below(random as u32, (self.pool.len() - size + 1) as u64);
        &self.pool[start as usize..][..size]
    }

    /// Judges the first token of a reply.
    #[inline]
    fn judge(&self, connection: &mut Connection, request: Drawn, token: Token<'_>) {
        connection.is_judged = true;
        connection.compares = false;
        connection.came = 0;
        connection.outcome = Outcome::Good;
        let expect = self.commands[request.command as usize].expect;
        let wrong = match (token, expect) {
            (Token::Error, _) => {
                let word = error_word(connection.reader.word());
                connection.outcome = Outcome::Error(word);
                connection.fault = Some(Failure { kind: ErrorKind::ErrorReply, detail: detail::of_error(word) });
                return;
            }
            (_, RespExpect::Any) => return,
            (Token::Simple, RespExpect::Ok) if connection.reader.word() == b"OK" => {
                if let Some(remembered) = &self.remembered
                    && self.commands[request.command as usize].has_value()
                {
                    remembered.acknowledged(request.key, request.as_sent);
                }
                return;
            }
            (Token::Simple, RespExpect::Pong) if connection.reader.word() == b"PONG" => return,
            (Token::Integer, RespExpect::Integer) | (Token::Array, RespExpect::Array) => return,
            (Token::Nil, RespExpect::Value) if self.is_lost(request) => {
                return connection.fail(ErrorKind::LostWrite, Detail::LostWrite);
            }
            (Token::Nil, RespExpect::Value) => return connection.outcome = Outcome::Nil,
            (Token::Bulk(length), RespExpect::Value) => {
                if self.validate {
                    let is_as_long = length as usize == self.value(request.key).len();
                    connection.compares = is_as_long;
                    if !is_as_long {
                        connection.fail(ErrorKind::CorruptedReply, Detail::ValueLength);
                    }
                }
                return;
            }
            (Token::Simple, _) => Detail::SimpleInstead,
            (Token::Integer, _) => Detail::IntegerInstead,
            (Token::Bulk(_), _) => Detail::BulkInstead,
            (Token::Nil, _) => Detail::NilInstead,
            _ => Detail::ArrayInstead,
        };
        connection.fail(ErrorKind::WrongContent, wrong);
    }

    /// Whether nil is the loss of what had been acknowledged.
    #[inline]
    fn is_lost(&self, request: Drawn) -> bool {
        self.remembered.as_ref().is_some_and(|remembered| remembered.is_lost(request.key, request.as_sent))
    }

    #[inline]
    fn compare(&self, connection: &mut Connection, request: Drawn, piece: &[u8]) {
        let expected = &self.value(request.key)[connection.came as usize..];
        connection.came += piece.len() as u32;
        if expected.get(..piece.len()) != Some(piece) {
            connection.compares = false;
            connection.fail(ErrorKind::CorruptedReply, Detail::ValueBytes);
        }
    }
}

impl Connection {
    /// The reply is well framed, but not the one that was due.
    #[cold]
    fn fail(&mut self, kind: ErrorKind, detail: Detail) {
        self.outcome = Outcome::Wrong;
        self.fault = Some(Failure { kind, detail: detail as u32 });
    }

    #[inline]
    fn restart(&mut self) {
        self.reader.restart();
        self.has_begun = false;
        self.is_judged = false;
        self.fault = None;
    }

    fn ended(&mut self, kind: ErrorKind, detail: Detail) -> Failure {
        *self = Connection::new();
        Failure { kind, detail: detail as u32 }
    }

    const fn new() -> Self {
        Connection {
            reader: Reader::new(),
            has_begun: false,
            is_judged: false,
            compares: false,
            greeted: 0,
            outcome: Outcome::Good,
            fault: None,
            came: 0,
        }
    }
}

impl Protocol for RespProtocol {
    type Connection = Connection;
    type Request = Drawn;
    type Transport = Stream;

    fn blobs(&self) -> Vec<Arc<[u8]>> {
        Vec::new()
    }

    fn connection(&self) -> Connection {
        Connection::new()
    }

    #[inline]
    fn next_request(&mut self, _origin: u16, random: u64) -> Drawn {
        let command = self.draw.next(random);
        let key = if self.commands[command as usize].has_key { self.keys.next(mix(random)) } else { 0 };
        let as_sent = self.remembered.as_ref().map(|remembered| remembered.sent(key)).unwrap_or_default();
        Drawn { command, key, as_sent }
    }

    fn entry(&self, request: Drawn) -> u16 {
        u16::try_from(request.command).unwrap_or(u16::MAX)
    }

    #[inline]
    fn source(&self, _request: Drawn) -> Source {
        Source::Template
    }

    #[inline]
    fn write(&self, _connection: &mut Connection, _number: u32, request: Drawn, to: &mut Vec<u8>) {
        let command = &self.commands[request.command as usize];
        let value = if command.has_value() { self.value(request.key) } else { &[] };
        command.write(request.key, value, to);
    }

    fn written_bytes_max(&self) -> usize {
        self.longest
    }

    fn greeting(&self, _connection: &mut Connection, origin: u16, _random: u64, to: &mut Vec<u8>) {
        if let Some((bytes, _)) = self.greetings.get(usize::from(origin)) {
            to.extend_from_slice(bytes);
        }
    }

    fn greeted(&self, connection: &mut Connection, origin: u16, bytes: &[u8]) -> Fed {
        let due = self.greetings.get(usize::from(origin)).map_or(0, |(_, replies)| *replies);
        let mut consumed = 0;
        while connection.greeted < due {
            if consumed == bytes.len() {
                return Fed { consumed, progress: Progress::More };
            }
            let (taken, token) = connection.reader.next(&bytes[consumed..]);
            consumed += taken;
            let refused = match token {
                Token::More => continue,
                Token::Simple if connection.reader.word() == b"OK" => None,
                Token::Error => Some(detail::of_error(error_word(connection.reader.word()))),
                Token::Bad(detail) => Some(detail as u32),
                _ => Some(Detail::SimpleInstead as u32),
            };
            if let Some(detail) = refused {
                let failure = Failure { kind: ErrorKind::LoginRefused, detail };
                *connection = Connection::new();
                return Fed { consumed, progress: Progress::Broken(failure) };
            }
            connection.restart();
            connection.greeted += 1;
        }
        Fed { consumed, progress: Progress::Reply(Reply { status: 0, keep: true, failure: None }) }
    }

    #[inline]
    fn feed(&self, connection: &mut Connection, request: Drawn, bytes: &[u8]) -> Fed {
        connection.has_begun = true;
        let mut consumed = 0;
        while consumed < bytes.len() {
            let (taken, token) = connection.reader.next(&bytes[consumed..]);
            consumed += taken;
            match token {
                Token::More => break,
                Token::Bad(detail) => {
                    let failure = connection.ended(ErrorKind::BadFraming, detail);
                    return Fed { consumed, progress: Progress::Broken(failure) };
                }
                Token::Data(piece) if connection.compares => self.compare(connection, request, piece),
                token if !connection.is_judged => self.judge(connection, request, token),
                _ => {}
            }
            if connection.reader.is_done() {
                let status = reply_code(request.command, connection.outcome);
                let failure = connection.fault;
                connection.restart();
                return Fed { consumed, progress: Progress::Reply(Reply { status, keep: true, failure }) };
            }
        }
        Fed { consumed, progress: Progress::More }
    }

    fn closed(&self, connection: &mut Connection, _request: Drawn) -> Progress {
        let place = connection.reader.place(connection.has_begun);
        Progress::Broken(connection.ended(ErrorKind::ClosedEarly, place))
    }

    fn timed_out(&self, connection: &mut Connection, _number: u32, _request: Drawn) -> Failure {
        let place = connection.reader.place(connection.has_begun);
        connection.ended(ErrorKind::ReplyTimeout, place)
    }

    fn describe(detail: u32) -> Option<&'static str> {
        describe(detail)
    }
}

/// AUTH and SELECT, and how many replies they have.
fn greeting(login: &Login) -> (Vec<u8>, u8) {
    let (mut bytes, mut replies) = (Vec::new(), 0);
    let mut say = |words: &[&[u8]]| {
        bytes.extend_from_slice(format!("*{}\r\n", words.len()).as_bytes());
        for word in words {
            bytes.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
            bytes.extend_from_slice(word);
            bytes.extend_from_slice(b"\r\n");
        }
        replies += 1;
    };
    match &login.user {
        Some(user) if login.auth => say(&[b"AUTH", user.as_bytes(), login.password.expose()]),
        None if login.auth => say(&[b"AUTH", login.password.expose()]),
        _ => {}
    }
    if let Some(database) = login.database {
        say(&[b"SELECT", database.to_string().as_bytes()]);
    }
    (bytes, replies)
}
