//! Lines to stdout and stderr that never hold up whoever has them to say.
//!
//! A pipe that nobody reads, or a terminal that is stopped, blocks a write for as long as it likes. So a queue of a stated
//! length leads to a thread that does nothing but write; what finds it full is dropped, and the number said when there is
//! room again. Nobody waits for that thread but for a moment, and the process ends without it. It writes to the descriptors
//! and not to the handles of `std`, whose locks would hold up the end. Not here: reports, which must not be dropped, and
//! come when all that may wait for them is done.

use std::io::{self, ErrorKind};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

/// Lines that wait to be written, at the most.
const LINES_MAX: usize = 256;
/// Longest line, bytes; what is longer is cut.
const LINE_BYTES_MAX: usize = 4096;

/// The queue's near end.
#[derive(Debug, Clone)]
pub struct Outlet {
    queue: SyncSender<Word>,
    dropped: Arc<AtomicU64>,
}

#[derive(Debug)]
enum Word {
    Result(String),
    /// As it is, without an end of line.
    Rows(String),
    Remark(String),
    /// As it is, without an end of line.
    Draw(String),
    /// All before this was written, or could not be.
    Settle(SyncSender<io::Result<()>>),
}

impl Outlet {
    /// One that leads to stdout (results) and stderr (remarks).
    ///
    /// # Errors
    /// Where there is no thread to be had.
    pub fn start() -> io::Result<Self> {
        Self::to(io::stdout(), io::stderr())
    }

    fn to(results: impl AsFd + Send + 'static, remarks: impl AsFd + Send + 'static) -> io::Result<Self> {
        let (queue, words) = sync_channel(LINES_MAX);
        let dropped = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&dropped);
        let work = move || write_all(&words, &counted, &results, &remarks);
        std::thread::Builder::new().name("outlet".to_owned()).spawn(work)?;
        Ok(Outlet { queue, dropped })
    }

    /// A line for stdout.
    pub fn result(&self, line: String) {
        self.say(Word::Result(line));
    }

    /// Rows for stdout, of any length, with their ends of line.
    pub fn rows(&self, rows: String) {
        self.say(Word::Rows(rows));
    }

    /// A line for stderr.
    pub fn remark(&self, line: String) {
        self.say(Word::Remark(line));
    }

    /// What is drawn over on stderr: of no use later, so that it is not counted where it is dropped.
    pub fn draw(&self, text: String) {
        drop(self.queue.try_send(Word::Draw(text)));
    }

    fn say(&self, word: Word) {
        if self.queue.try_send(word).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Waits until all that was said is written, but no longer than this; where it takes longer, nobody reads.
    ///
    /// # Errors
    /// The first failure of stdout since this was last asked.
    pub fn settle(&self, at_most: Duration) -> io::Result<()> {
        let (settled, answer) = sync_channel(1);
        match self.queue.try_send(Word::Settle(settled)) {
            Ok(()) => answer.recv_timeout(at_most).unwrap_or(Ok(())),
            Err(_) => Ok(()),
        }
    }
}

impl Outlet {
    /// Waits until all that was said is written, however long it takes.
    ///
    /// # Errors
    /// As [`Outlet::settle`].
    pub fn finish(&self) -> io::Result<()> {
        let (settled, answer) = sync_channel(1);
        match self.queue.send(Word::Settle(settled)) {
            Ok(()) => answer.recv().unwrap_or(Ok(())),
            Err(_) => Ok(()),
        }
    }
}

fn write_all(words: &Receiver<Word>, dropped: &AtomicU64, results: &impl AsFd, remarks: &impl AsFd) {
    let mut written = Ok(());
    for word in words {
        match word {
            Word::Result(line) => written = written.and_then(|()| write_line(results, line)),
            // Nothing is left to do where stderr is closed.
            Word::Remark(line) => drop(write_line(remarks, line)),
            Word::Rows(rows) => written = written.and_then(|()| write_bytes(results, rows.as_bytes())),
            // As above.
            Word::Draw(text) => drop(write_bytes(remarks, text.as_bytes())),
            // Whoever asked may have gone on: then it is for who asks next.
            Word::Settle(settled) => {
                if let Err(unheard) = settled.send(std::mem::replace(&mut written, Ok(()))) {
                    written = unheard.0;
                }
            }
        }
        let lost = dropped.swap(0, Ordering::Relaxed);
        if lost > 0 {
            let line = format!("plimsoll: {lost} lines were not written, as nobody read them");
            // As above.
            drop(write_line(remarks, line));
        }
    }
}

fn write_line(to: &impl AsFd, mut line: String) -> io::Result<()> {
    let mut end = LINE_BYTES_MAX.min(line.len());
    while !line.is_char_boundary(end) {
        end -= 1;
    }
    line.truncate(end);
    line.push('\n');
    write_bytes(to, line.as_bytes())
}

/// All of it, to the descriptor, however long that takes.
///
/// # Errors
/// Those of write(2).
pub fn write_bytes(to: &impl AsFd, mut left: &[u8]) -> io::Result<()> {
    while !left.is_empty() {
        match rustix::io::write(to, left) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(count) => left = left.get(count..).unwrap_or_default(),
            Err(Errno::INTR) => {}
            // Somebody else made it so: this thread is there to wait.
            Err(Errno::AGAIN) => match poll(&mut [PollFd::new(to, PollFlags::OUT)], None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            },
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader, PipeWriter, Write};

    /// Fills a pipe, as far as it goes.
    fn fill(pipe: &PipeWriter) {
        let flags = rustix::fs::fcntl_getfl(pipe).unwrap();
        rustix::fs::fcntl_setfl(pipe, flags | rustix::fs::OFlags::NONBLOCK).unwrap();
        let mut pipe_ = pipe;
        while pipe_.write(b"\n").is_ok() {}
        rustix::fs::fcntl_setfl(pipe, flags).unwrap();
    }

    #[test]
    fn what_nobody_reads_is_dropped_and_counted_once_somebody_does() {
        let (reader, writer) = io::pipe().unwrap();
        fill(&writer);
        let outlet = Outlet::to(writer.try_clone().unwrap(), writer).unwrap();
        let said = LINES_MAX as u64 + 100;
        for line in 0..said {
            outlet.remark(format!("line {line}"));
        }
        outlet.settle(Duration::from_millis(100)).unwrap();
        // One line may have left the queue before it was full.
        let dropped = outlet.dropped.load(Ordering::Relaxed);
        assert!((99..=100).contains(&dropped), "{dropped}");
        let mut came = Vec::new();
        for line in BufReader::new(reader).lines() {
            let line = line.unwrap();
            if line.contains("were not written") {
                came.push(line);
                break;
            }
        }
        assert_eq!(came, [format!("plimsoll: {dropped} lines were not written, as nobody read them")]);
    }

    #[test]
    fn lines_come_in_their_order_and_a_failure_is_said() {
        let (reader, writer) = io::pipe().unwrap();
        let outlet = Outlet::to(writer.try_clone().unwrap(), writer).unwrap();
        outlet.result("é".repeat(LINE_BYTES_MAX));
        for line in 0..100 {
            outlet.remark(format!("line {line}"));
        }
        let mut lines = BufReader::new(reader).lines().map(Result::unwrap);
        assert_eq!(lines.next().unwrap().len(), LINE_BYTES_MAX, "cut");
        for line in 0..100 {
            assert_eq!(lines.next().unwrap(), format!("line {line}"));
        }
        outlet.settle(Duration::from_secs(20)).unwrap();
        drop(lines);
        outlet.result("nobody is there".to_owned());
        assert_eq!(outlet.settle(Duration::from_secs(20)).unwrap_err().kind(), ErrorKind::BrokenPipe);
    }
}
