//! The control socket: who connects gets one line of JSON with what the server has counted, and the end.
//!
//! A unix socket with a thread of its own, for any server: what it answers is a closure that gives names and values.
//! Read it with `plimsoll serve --counters PATH`, `socat - UNIX-CONNECT:PATH` or `nc -U PATH`.
//! Nothing is read from a client but to throw it away, and nothing waits for one: a line fits a fresh socket's buffer.
//! Not here: commands. Cost: nothing while nobody asks.

use std::fmt::{self, Write as _};
use std::io::{self, Read};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::thread::{Builder, JoinHandle};
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, Shutdown, SocketFlags, accept_with, recv, send, shutdown};

use crate::counters::Counters;
use crate::counters::Live;
use crate::error::ServeError;
use crate::limits;
use crate::listen::{UnixFile, open_unix};
use crate::options::DesignInfo;
use crate::stop::Stop;

/// A value in the control socket's answer.
#[derive(Debug, Clone, PartialEq)]
pub enum Figure {
    /// A count.
    Count(u64),
    /// A time.
    Seconds(f64),
    /// Yes or no.
    Is(bool),
    /// A text.
    Text(String),
    /// A group of figures under one name.
    Group(Figures),
}

/// Names and their values, in the order they are shown in.
pub type Figures = Vec<(&'static str, Figure)>;

/// An open control socket. Dropping it ends its thread and removes its file.
#[derive(Debug)]
pub struct Control {
    stop: Stop,
    thread: Option<JoinHandle<()>>,
}

impl Control {
    /// Listens at `path`; `figures` is called for each client, on the control thread.
    ///
    /// # Errors
    /// The path is taken or cannot be listened on, or there is no descriptor or thread.
    pub fn open(path: &Path, figures: impl Fn() -> Figures + Send + 'static) -> Result<Self, ServeError> {
        let cannot = |source| ServeError::Worker { doing: "set up its control socket", source };
        let stop = Stop::new().map_err(cannot)?;
        let (socket, file) = open_unix(path, limits::CONTROL_BACKLOG)?;
        let stopped = stop.clone();
        let answer = move || answer_all(&socket, file, &stopped, &figures);
        let thread = Builder::new().name("control".to_owned()).spawn(answer).map_err(cannot)?;
        Ok(Self { stop, thread: Some(thread) })
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        self.stop.stop();
        if let Some(thread) = self.thread.take() {
            // If it panicked, that was printed then; the server itself goes on.
            let _ = thread.join();
        }
    }
}

/// What a reference server of this crate answers: who it is, how long it runs, its counters.
pub fn figures(server: &'static str, design: &DesignInfo, live: &Live) -> impl Fn() -> Figures + Send + 'static {
    let (design, live, start) = (design.name, live.clone(), Instant::now());
    move || {
        let reading = live.read(limits::CONTROL_SETTLE);
        let mut figures = about(server, design, start);
        figures.push(("settled", Figure::Is(reading.settled)));
        figures.push(("connections", Figure::Count(reading.counters.open())));
        figures.push(("counters", Figure::Group(counted(&reading.counters))));
        figures
    }
}

/// What every server's answer begins with.
#[must_use]
pub fn about(server: &'static str, design: &'static str, start: Instant) -> Figures {
    vec![
        ("server", Figure::Text(server.to_owned())),
        ("design", Figure::Text(design.to_owned())),
        ("pid", Figure::Count(u64::from(std::process::id()))),
        ("uptime_s", Figure::Seconds(start.elapsed().as_secs_f64())),
    ]
}

/// The line a server answers with at `path`, without its end.
///
/// # Errors
/// Nobody listens there, or what answers is not a control socket.
pub fn read(path: &Path) -> Result<String, ServeError> {
    let failed = |source| ServeError::NoControl { path: path.to_owned(), source };
    let stream = UnixStream::connect(path).map_err(failed)?;
    stream.set_read_timeout(Some(limits::CONTROL_READ)).map_err(failed)?;
    let mut line = String::new();
    stream.take(limits::CONTROL_LINE_BYTES_MAX).read_to_string(&mut line).map_err(failed)?;
    match line.strip_suffix('\n') {
        Some(line) if line.starts_with('{') && line.ends_with('}') => Ok(line.to_owned()),
        _ => Err(failed(io::Error::new(io::ErrorKind::InvalidData, "the answer is not a line of JSON"))),
    }
}

fn counted(counters: &Counters) -> Figures {
    counters.rows().into_iter().map(|(name, value)| (name, Figure::Count(value))).collect()
}

fn answer_all(socket: &OwnedFd, _file: UnixFile, stop: &Stop, figures: &impl Fn() -> Figures) {
    loop {
        let mut fds = [PollFd::new(stop, PollFlags::IN), PollFd::new(socket, PollFlags::IN)];
        match poll(&mut fds, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(_) => return,
        }
        if !fds[0].revents().is_empty() {
            return;
        }
        match accept_with(socket, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC) {
            Ok(client) => answer(&client, &line(&figures())),
            Err(Errno::AGAIN | Errno::INTR | Errno::CONNABORTED) => {}
            // Out of descriptors or memory: the client stays in the queue, so going on at once would spin.
            Err(_) => pause(stop),
        }
    }
}

fn answer(client: &OwnedFd, line: &str) {
    // A client that has gone, or a buffer made too small for a line, is the client's loss.
    let _ = send(client, line.as_bytes(), SendFlags::NOSIGNAL);
    let _ = shutdown(client, Shutdown::Write);
    // What it may have said: left unread, it would end the connection with a reset.
    let mut said = [MaybeUninit::uninit(); 4096];
    for _ in 0..limits::TURNS_MAX {
        if !matches!(recv(client, &mut said, RecvFlags::empty()), Ok((_, n)) if n > 0) {
            break;
        }
    }
}

fn pause(stop: &Stop) {
    let timeout = Timespec { tv_sec: 0, tv_nsec: limits::ACCEPT_PAUSE.subsec_nanos().into() };
    // Ended by the stop or by the timeout: either way the caller looks at both again.
    let _ = poll(&mut [PollFd::new(stop, PollFlags::IN)], Some(&timeout));
}

fn line(figures: &Figures) -> String {
    format!("{}\n", Json(figures))
}

struct Json<'a>(&'a Figures);

impl fmt::Display for Json<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (name, figure)) in self.0.iter().enumerate() {
            f.write_str(if at == 0 { "{" } else { "," })?;
            write_text(f, name)?;
            f.write_char(':')?;
            match figure {
                Figure::Count(n) => write!(f, "{n}")?,
                Figure::Seconds(s) if s.is_finite() => write!(f, "{s:.6}")?,
                Figure::Seconds(_) => f.write_str("null")?,
                Figure::Is(is) => write!(f, "{is}")?,
                Figure::Text(text) => write_text(f, text)?,
                Figure::Group(figures) => write!(f, "{}", Json(figures))?,
            }
        }
        f.write_str(if self.0.is_empty() { "{}" } else { "}" })
    }
}

/// A string of JSON (RFC 8259 §7).
fn write_text(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    f.write_char('"')?;
    for c in text.chars() {
        match c {
            '"' | '\\' => write!(f, "\\{c}")?,
            c if u32::from(c) < 0x20 => write!(f, "\\u{:04x}", u32::from(c))?,
            c => f.write_char(c)?,
        }
    }
    f.write_char('"')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_become_a_line_of_json() {
        let figures = vec![
            ("server", Figure::Text("a \"b\"\\\n\u{1}ü".to_owned())),
            ("up_s", Figure::Seconds(1.5)),
            ("nan", Figure::Seconds(f64::NAN)),
            ("settled", Figure::Is(true)),
            ("counters", Figure::Group(vec![("recv", Figure::Count(u64::MAX))])),
            ("none", Figure::Group(Vec::new())),
        ];
        let expected = "{\"server\":\"a \\\"b\\\"\\\\\\u000a\\u0001ü\",\"up_s\":1.500000,\"nan\":null,\"settled\":true,\
                        \"counters\":{\"recv\":18446744073709551615},\"none\":{}}\n";
        assert_eq!(line(&figures), expected);
    }

    #[test]
    fn what_is_no_control_socket_is_said() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        assert!(matches!(read(&path), Err(ServeError::NoControl { .. })));
        let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| io::Write::write_all(&mut listener.accept().unwrap().0, b"220 hello\r\n").unwrap());
            let error = read(&path).unwrap_err().to_string();
            assert!(error.contains("not a line of JSON") && !error.contains('\n'), "{error}");
        });
    }
}
