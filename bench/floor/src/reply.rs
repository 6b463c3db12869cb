//! Knows when a reply is whole without parsing it: the first reply on a connection is read to
//! learn how long it is, every later one is assumed to be as long and only its bytes are counted.
//! That is all a bare loop may do; it does not notice a changed status or body.
//! A reply whose length is not given by Content-Length is refused, never guessed.

/// Largest head taken from a server before it is given up, in bytes.
pub const HEAD_BYTES_MAX: usize = 64 * 1024;

/// Where the reply being received stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// More bytes are due.
    Partial,
    /// Exactly one reply is complete.
    Whole,
    /// More bytes than one reply, or a reply whose length cannot be told.
    Broken,
}

/// Counts the bytes of one connection's replies.
#[derive(Debug, Default)]
pub struct ReplyMeter {
    /// Bytes of a reply; 0 until the first one has been seen.
    reply_bytes: usize,
    /// Bytes of the current reply so far.
    got_bytes: usize,
    /// The head of the first reply; emptied once it is understood.
    head: Vec<u8>,
}

impl ReplyMeter {
    /// Takes bytes from the wire.
    #[inline]
    pub fn take(&mut self, bytes: &[u8]) -> Step {
        if self.reply_bytes == 0 {
            return self.learn(bytes);
        }
        self.got_bytes += bytes.len();
        self.judge()
    }

    #[inline]
    fn judge(&mut self) -> Step {
        if self.got_bytes == self.reply_bytes {
            self.got_bytes = 0;
            Step::Whole
        } else if self.got_bytes < self.reply_bytes {
            Step::Partial
        } else {
            Step::Broken
        }
    }

    #[cold]
    fn learn(&mut self, bytes: &[u8]) -> Step {
        self.head.extend_from_slice(bytes);
        match reply_length(&self.head) {
            Length::Known(length) => {
                self.reply_bytes = length;
                self.got_bytes = self.head.len();
                self.head = Vec::new();
                self.judge()
            }
            Length::HeadIncomplete if self.head.len() <= HEAD_BYTES_MAX => Step::Partial,
            Length::HeadIncomplete | Length::Unknown => Step::Broken,
        }
    }
}

enum Length {
    HeadIncomplete,
    Unknown,
    Known(usize),
}

fn reply_length(bytes: &[u8]) -> Length {
    let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else {
        return Length::HeadIncomplete;
    };
    let head_bytes = end + 4;
    let body = bytes[..end]
        .split(|&byte| byte == b'\n')
        .filter_map(|line| std::str::from_utf8(line).ok())
        .filter_map(|line| line.split_once(':'))
        .find(|(name, _)| name.eq_ignore_ascii_case("content-length"))
        .and_then(|(_, value)| value.trim().parse::<usize>().ok())
        .and_then(|body_bytes| body_bytes.checked_add(head_bytes));
    body.map_or(Length::Unknown, Length::Known)
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPLY: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-LENGTH:  5\r\nX: y\r\n\r\nhello";

    #[test]
    fn cut_anywhere_a_reply_is_whole_once() {
        for cut in 1..REPLY.len() {
            let mut meter = ReplyMeter::default();
            for round in 0..3 {
                assert_eq!(meter.take(&REPLY[..cut]), Step::Partial, "{cut} {round}");
                assert_eq!(meter.take(&REPLY[cut..]), Step::Whole, "{cut} {round}");
            }
        }
    }

    #[test]
    fn one_byte_too_many_is_broken() {
        let mut meter = ReplyMeter::default();
        assert_eq!(meter.take(REPLY), Step::Whole);
        assert_eq!(meter.take(&[REPLY, b"x"].concat()), Step::Broken);
    }

    #[test]
    fn a_length_that_cannot_be_told_is_broken() {
        for head in [
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 18446744073709551615\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        ] {
            let mut meter = ReplyMeter::default();
            assert_eq!(meter.take(head.as_bytes()), Step::Broken, "{head:?}");
        }
    }

    #[test]
    fn an_endless_head_is_given_up() {
        let mut meter = ReplyMeter::default();
        let last = (0..=HEAD_BYTES_MAX / 1000 + 1).map(|_| meter.take(&[b'a'; 1000])).last();
        assert_eq!(last, Some(Step::Broken));
    }
}
