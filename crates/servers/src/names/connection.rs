//! One connection: reads, takes commands apart, has the store do them in order, writes the replies.
//!
//! What comes together is handed to the store together. While replies are not taken nothing more is read. A connection
//! with nothing pending holds next to no buffer: it reads into one its thread has.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::{oneshot, watch};
use tokio::time::{Instant, sleep, timeout};

use super::command::{self, Command, Op};
use super::counters::{Gauges, count};
use super::queue::{Answer, End, Job, Queue};
use super::resp::{self, Parsed};
use super::{NamesOptions, OnCrash, info, limits, reply};
use crate::counters::Counters;
use crate::defects::Defects;
use crate::limits::{DRAIN_QUIET, LINGER, TURNS_MAX};

/// What all connections share.
pub(super) struct Service {
    pub(super) queue: Arc<Queue>,
    pub(super) gauges: Arc<Gauges>,
    pub(super) names: NamesOptions,
    pub(super) idle_timeout: Option<Duration>,
    pub(super) buffer_bytes: usize,
    pub(super) started: Instant,
    pub(super) jobs: AtomicU64,
    pub(super) sums: Mutex<Counters>,
    pub(super) defects: Defects,
}

/// Buffers smaller than this are kept by a connection that waits.
const KEPT_BYTES: usize = 4096;

/// A store that went down in the middle of an operation.
const UNKNOWN: &str = "ERR the store crashed while it worked on this: whether it was done is not known";
const OOPS: &str = "ERR OOPS: the store has crashed, as it was asked to";
const DOWN: &str = "LOADING the store has crashed and is being started again";
const DOWN_LONG: &str = "LOADING the store is down, and too many or for too long wait for it";
const DOWN_RETRIED: &str = "LOADING the store is down, and was after every retry";

thread_local! {
    /// Where the connections of a thread read into, one after the other.
    static SCRATCH: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

impl Service {
    /// Hands a job to the store and waits for it to come back; `None`: it was lost with the store.
    async fn ask(&self, ops: Vec<Op>, next: usize) -> Option<Answer> {
        let (answer, mut coming) = oneshot::channel();
        let Self { queue, names, jobs, .. } = self;
        let id = jobs.fetch_add(1, Relaxed);
        if let Err(Job { ops, out, .. }) = queue.submit(Job { id, ops, next, out: Vec::new(), refused: 0, answer }) {
            return Some(Answer { ops, next, out, refused: 0, end: End::Down });
        }
        if names.on_crash != OnCrash::Wait {
            return coming.await.ok();
        }
        loop {
            if let Ok(answer) = timeout(names.wait_timeout, &mut coming).await {
                return answer.ok();
            }
            // A store that works may take its time; one that is down gives nothing back by itself.
            if !queue.is_up()
                && let Some(Job { ops, next, out, refused, .. }) = queue.withdraw(id)
            {
                return Some(Answer { ops, next, out, refused, end: End::Down });
            }
        }
    }
}

struct Connection<S> {
    service: Arc<Service>,
    socket: S,
    input: Vec<u8>,
    out: Vec<u8>,
    counted: Counted,
}

/// Adds a connection's figures to the sums when it ends, however it does.
struct Counted {
    service: Arc<Service>,
    counters: Counters,
    is_finished: bool,
}

impl Drop for Counted {
    fn drop(&mut self) {
        count(&self.service.gauges.closed, 1);
        self.counters.cut_at_stop += u64::from(!self.is_finished);
        self.service.sums.lock().unwrap_or_else(PoisonError::into_inner).add(&self.counters);
    }
}

/// What waiting for input ended with.
enum Came {
    Bytes,
    End,
    Failed,
    Idle,
    Stop,
}

/// What is left to do after all commands that were there.
#[derive(PartialEq, Eq)]
enum Then {
    Read,
    /// End it, once the replies are written.
    Close,
    /// Nothing: the socket has failed.
    Gone,
}

/// Serves one connection to its end.
pub(super) async fn run<S>(service: Arc<Service>, socket: S, stop: watch::Receiver<bool>)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let counted = Counted { service: Arc::clone(&service), counters: Counters::default(), is_finished: false };
    let mut connection = Connection { service, socket, input: Vec::new(), out: Vec::new(), counted };
    connection.serve(stop).await;
    connection.counted.is_finished = true;
}

impl<S: AsyncRead + AsyncWrite + Unpin> Connection<S> {
    async fn serve(&mut self, mut stop: watch::Receiver<bool>) {
        let is_stopped = stop.clone();
        let mut stopped = pin!(async move {
            // Its sender lives as long as connections do.
            let _ = stop.wait_for(|stop| *stop).await;
        });
        let idle = self.service.idle_timeout;
        let mut alarm = pin!(sleep(idle.unwrap_or(Duration::MAX)));
        let mut turns_left = TURNS_MAX;
        loop {
            let moved = Instant::now();
            let came = poll_fn(|cx| {
                if let Poll::Ready(came) = self.poll_receive(cx) {
                    return Poll::Ready(came);
                }
                if stopped.as_mut().poll(cx).is_ready() {
                    return Poll::Ready(Came::Stop);
                }
                while let Some(idle) = idle
                    && alarm.as_mut().poll(cx).is_ready()
                {
                    if moved.elapsed() >= idle {
                        return Poll::Ready(Came::Idle);
                    }
                    alarm.as_mut().reset(moved + idle);
                }
                Poll::Pending
            })
            .await;
            match came {
                Came::Bytes => {}
                Came::End => self.counted.counters.shutdown += 1,
                Came::Failed => self.counted.counters.recv_error += 1,
                Came::Idle => self.counted.counters.idle_closed += 1,
                Came::Stop => return self.close(DRAIN_QUIET).await,
            }
            if !matches!(came, Came::Bytes) {
                return;
            }
            self.service.defects.woken();
            match self.work().await {
                Then::Read => {}
                Then::Close => return self.close(LINGER).await,
                Then::Gone => return,
            }
            if *is_stopped.borrow() {
                // What had come before the stop is answered; who goes on sending is not waited for.
                turns_left -= 1;
                if turns_left == 0 {
                    return self.close(DRAIN_QUIET).await;
                }
            }
        }
    }

    fn poll_receive(&mut self, cx: &mut std::task::Context<'_>) -> Poll<Came> {
        SCRATCH.with_borrow_mut(|scratch| {
            scratch.resize(self.service.buffer_bytes, 0);
            let mut buffer = ReadBuf::new(scratch);
            match Pin::new(&mut self.socket).poll_read(cx, &mut buffer) {
                Poll::Pending => Poll::Pending,
                Poll::Ready(Err(_)) => Poll::Ready(Came::Failed),
                Poll::Ready(Ok(())) if buffer.filled().is_empty() => Poll::Ready(Came::End),
                Poll::Ready(Ok(())) => {
                    self.counted.counters.recv += 1;
                    self.counted.counters.bytes_in += buffer.filled().len() as u64;
                    self.input.extend_from_slice(buffer.filled());
                    Poll::Ready(Came::Bytes)
                }
            }
        })
    }

    /// Does all commands that are there, and writes their replies.
    async fn work(&mut self) -> Then {
        loop {
            let (ops, then) = self.next_commands();
            let is_more = !ops.is_empty() && then.is_none();
            if !ops.is_empty() && !self.store(ops).await {
                return Then::Gone;
            }
            if is_more && self.out.len() < limits::OUT_BYTES {
                continue;
            }
            if !self.send().await {
                return Then::Gone;
            }
            if let Some(then) = then {
                self.input.shrink_to(KEPT_BYTES);
                self.out.shrink_to(KEPT_BYTES);
                return then;
            }
        }
    }

    /// Takes commands: those for the store as far as one job goes, and others where none of the store's are in front of
    /// them, which are answered. What is then to be done; `None`: there may be more.
    fn next_commands(&mut self) -> (Vec<Op>, Option<Then>) {
        let Self { service, input, out, counted, .. } = self;
        let (mut ops, mut at, mut then) = (Vec::new(), 0, None);
        while ops.len() < limits::PIPELINE_MAX && out.len() < limits::OUT_BYTES {
            let (arguments, taken) = match resp::parse(&input[at..]) {
                Ok(Parsed::Command(arguments, taken)) => (arguments, taken),
                Ok(Parsed::Incomplete) => {
                    then = Some(Then::Read);
                    break;
                }
                Err(_) if !ops.is_empty() => break,
                Err(refusal) => {
                    reply::error(out, &format!("ERR Protocol error: {refusal}"));
                    counted.counters.refused += 1;
                    then = Some(Then::Close);
                    break;
                }
            };
            if arguments.is_empty() {
                at += taken;
                continue;
            }
            let replied = out.len();
            let command = command::take(arguments, out);
            if !matches!(command, Command::Store(_)) && !ops.is_empty() {
                // Its turn comes when those in front of it are done.
                out.truncate(replied);
                break;
            }
            at += taken;
            count(&service.gauges.requests, 1);
            match command {
                Command::Store(op) => ops.push(op),
                Command::Answered => {}
                Command::Refused => counted.counters.refused += 1,
                Command::Info(section) => {
                    let (up, durable) = (service.queue.is_up(), service.names.journal.is_some());
                    let uptime = service.started.elapsed();
                    reply::bulk(out, info::text(section.as_deref(), &service.gauges, uptime, up, durable).as_bytes());
                }
                Command::Quit => {
                    then = Some(Then::Close);
                    break;
                }
            }
        }
        input.drain(..at);
        (ops, then)
    }

    /// Has the store do these, whatever becomes of it, and gathers their replies. Whether the socket still serves.
    async fn store(&mut self, ops: Vec<Op>) -> bool {
        let (mut ops, mut next, mut tries) = (ops, 0, 0);
        while next < ops.len() {
            let total = ops.len();
            let Some(answer) = self.service.ask(ops, next).await else {
                self.refuse(total - next, UNKNOWN);
                return true;
            };
            self.out.extend_from_slice(&answer.out);
            self.counted.counters.refused += answer.refused;
            (ops, next) = (answer.ops, answer.next);
            match (answer.end, self.service.names.on_crash) {
                (End::Worked, _) => tries = 0,
                (End::Crashed, _) => {
                    self.refuse(1, OOPS);
                    (next, tries) = (next + 1, 0);
                }
                (End::Down, OnCrash::Retry { times, backoff }) if tries < times => {
                    sleep(backoff.saturating_mul(1 << tries.min(16))).await;
                    tries += 1;
                }
                (End::Down, on_crash) => {
                    let why = match on_crash {
                        OnCrash::FailFast => DOWN,
                        OnCrash::Wait => DOWN_LONG,
                        OnCrash::Retry { .. } => DOWN_RETRIED,
                    };
                    count(&self.service.gauges.unavailable, (total - next) as u64);
                    self.refuse(total - next, why);
                    return true;
                }
            }
            if self.out.len() >= limits::OUT_BYTES && !self.send().await {
                return false;
            }
        }
        true
    }

    fn refuse(&mut self, times: usize, why: &str) {
        for _ in 0..times {
            reply::error(&mut self.out, why);
        }
        self.counted.counters.refused += times as u64;
    }

    /// Writes all replies; whether they could be.
    async fn send(&mut self) -> bool {
        let mut at = 0;
        while at < self.out.len() {
            let write = poll_fn(|cx| Pin::new(&mut self.socket).poll_write(cx, &self.out[at..]));
            let written = match self.service.idle_timeout {
                None => write.await,
                Some(idle) => match timeout(idle, write).await {
                    Ok(written) => written,
                    Err(_) => {
                        self.counted.counters.idle_closed += 1;
                        return false;
                    }
                },
            };
            match written.and_then(|n| if n == 0 { Err(io::ErrorKind::WriteZero.into()) } else { Ok(n) }) {
                Ok(n) => {
                    self.counted.counters.send += 1;
                    self.counted.counters.bytes_out += n as u64;
                    at += n;
                }
                Err(_) => {
                    self.counted.counters.send_error += 1;
                    return false;
                }
            }
        }
        self.out.clear();
        true
    }

    /// Ends the connection so that no reset destroys the last reply: says that nothing more comes, and reads on for a
    /// while what was still on its way.
    async fn close(&mut self, at_most: Duration) {
        if poll_fn(|cx| Pin::new(&mut self.socket).poll_shutdown(cx)).await.is_err() {
            return;
        }
        self.input = Vec::new();
        let rest = async {
            while let Came::Bytes = poll_fn(|cx| self.poll_receive(cx)).await {
                self.input.clear();
            }
        };
        // A client that does not close in that time is cut off.
        let _ = timeout(at_most, rest).await;
    }
}
