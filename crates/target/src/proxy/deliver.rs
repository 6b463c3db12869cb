//! Bytes to a client: at once as far as it takes them, the rest into its chain; and bodies in chunks.

use rustix::io::Errno;

use super::epoll_edge::{Conn, Proxy};
use crate::counters::Counters;
use crate::http::reply::push_format;
use crate::link::Io;

impl Proxy {
    /// Sends `self.wire` and `plain`; what the client does not take is kept. False if it has gone.
    pub(super) fn deliver<I: Io>(
        &mut self,
        io: &mut I,
        conn: &mut Conn,
        plain: &[u8],
        counters: &mut Counters,
    ) -> bool {
        let (mut head, mut plain) = (&self.wire[..], plain);
        if !(conn.has_output() || head.is_empty() && plain.is_empty()) {
            match io.send(head, plain) {
                Ok(n) => {
                    counters.send += 1;
                    counters.bytes_out += n as u64;
                    conn.moved_ns = self.now_ns;
                    plain = &plain[n.saturating_sub(head.len())..];
                    head = &head[n.min(head.len())..];
                }
                Err(Errno::AGAIN | Errno::INTR) => {}
                Err(_) => {
                    counters.send_error += 1;
                    return false;
                }
            }
        }
        let bounds = &self.shared.bounds;
        let is_kept = conn.out.push(head, bounds, &mut self.tally) && conn.out.push(plain, bounds, &mut self.tally);
        counters.memory_error += u64::from(!is_kept);
        is_kept
    }
}

/// Writes content as one chunk, and the last chunk behind it.
pub(super) fn push_chunk(out: &mut Vec<u8>, content: &[u8], is_last: bool) {
    if !content.is_empty() {
        push_format(out, format_args!("{:x}\r\n", content.len()));
        out.extend_from_slice(content);
        out.extend_from_slice(b"\r\n");
    }
    if is_last {
        out.extend_from_slice(b"0\r\n\r\n");
    }
}
