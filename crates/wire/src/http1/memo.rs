//! Remembers a head, to know the next one by: most of a run's heads differ in a date or a length, or not at all.
//!
//! A head is a list of lines. If a new one has the same lines but for values of fields that framing does not look at,
//! it says the same, and of `Content-Length` the new value is read. Everything else is left to the parser: a change in
//! the status line, in a name, in `Connection` or `Transfer-Encoding`, in folded lines, in the number of lines.
//! Never wrong, at most of no use; heads that keep changing otherwise are learned ever more rarely.
//! Cost: one comparison of the bytes, plus one `memchr` for each value that differs.

use super::head::{Declared, Head, add_length};

/// Longest head that is remembered, bytes.
pub const MEMO_BYTES_MAX: usize = 2048;
/// Most heads passed over before another is learned.
const PATIENCE_MAX: u32 = 63;

/// A remembered head.
#[derive(Debug)]
pub struct Memo {
    bytes: Vec<u8>,
    lines: Vec<Line>,
    head: Head,
    /// How many unknown heads in a row are passed over, and how many of them still are.
    patience: u32,
    passes: u32,
}

#[derive(Debug, Clone, Copy)]
struct Line {
    /// Offset of its first byte.
    start: u16,
    /// Offset behind the colon.
    value: u16,
    may: May,
}

/// What may differ in a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum May {
    /// Nothing.
    Same,
    /// The value, which means nothing to framing.
    Differ,
    /// The value, which is the body's length.
    BeLength,
}

impl Memo {
    /// Knows nothing.
    pub fn new() -> Memo {
        let head = Head { status: 0, persists: false, declared: Declared::Nothing };
        Memo { bytes: Vec::new(), lines: Vec::new(), head, patience: 0, passes: 0 }
    }

    /// The length of the head that `bytes` begin with and what it says, if it is like the remembered one.
    #[inline]
    pub fn recognise(&self, bytes: &[u8]) -> Option<(usize, Head)> {
        if self.bytes.is_empty() {
            return None;
        }
        let mut head = self.head;
        // Where both are alike from, always the beginning of a line; and the line the comparison has got to.
        let (mut known_at, mut at, mut index) = (0, 0, 0);
        loop {
            let same = common(&self.bytes[known_at..], &bytes[at..]);
            let differs = known_at + same;
            if differs == self.bytes.len() {
                return Some((at + same, head));
            }
            while self.lines.get(index + 1).is_some_and(|next| usize::from(next.start) <= differs) {
                index += 1;
            }
            let line = self.lines[index];
            let value = usize::from(line.value);
            if line.may == May::Same || differs < value {
                return None;
            }
            let value_at = at + (value - known_at);
            let end = memchr::memchr(b'\n', &bytes[value_at..])?;
            let value = &bytes[value_at..value_at + end];
            let value = value.strip_suffix(b"\r").unwrap_or(value);
            if !value.iter().all(|b| is_value_byte(*b)) {
                return None;
            }
            if line.may == May::BeLength {
                head.declared = Declared::Length(add_length(None, value).ok()?);
            }
            // There is one: only the empty line is the last, and that may not differ. What follows is compared with a
            // line that is not folded, so it cannot be a continuation of this value.
            index += 1;
            known_at = usize::from(self.lines.get(index)?.start);
            at = value_at + end + 1;
        }
    }

    /// A head was known: the next unknown one is worth learning.
    #[inline]
    pub fn was_of_use(&mut self) {
        self.patience = 0;
    }

    /// Learns a head that was parsed and found sound, unless too many before it were learned for nothing.
    pub fn learn(&mut self, bytes: &[u8], head: Head) {
        if bytes.len() > MEMO_BYTES_MAX || self.passes > 0 {
            self.passes = self.passes.saturating_sub(1);
            return;
        }
        self.passes = self.patience;
        self.patience = (2 * self.patience + 1).min(PATIENCE_MAX);
        self.bytes.clear();
        self.bytes.extend_from_slice(bytes);
        self.head = head;
        self.lines.clear();
        let mut start = 0;
        let mut lengths = 0;
        while start < bytes.len() {
            let end = memchr::memchr(b'\n', &bytes[start..]).map_or(bytes.len(), |end| start + end + 1);
            let line = &bytes[start..end];
            let (mut value, mut may) = (0, May::Same);
            if matches!(line, [b' ' | b'\t', ..]) {
                // A folded line: neither it nor the value it continues.
                if let Some(last) = self.lines.last_mut() {
                    last.may = May::Same;
                }
            } else if start > 0
                && let Some(colon) = memchr::memchr(b':', line)
            {
                (value, may) = (start + colon + 1, what_may_differ(&line[..colon]));
                lengths += u32::from(may == May::BeLength);
            }
            // Offsets fit: MEMO_BYTES_MAX is far below 2^16.
            self.lines.push(Line { start: start as u16, value: value as u16, may });
            start = end;
        }
        // Several fields, or one beside Transfer-Encoding, or a list: for the parser.
        if lengths != 1 || !matches!(head.declared, Declared::Length(_)) {
            for line in self.lines.iter_mut().filter(|line| line.may == May::BeLength) {
                line.may = May::Same;
            }
        }
    }
}

fn what_may_differ(name: &[u8]) -> May {
    match name.len() {
        10 if name.eq_ignore_ascii_case(b"connection") => May::Same,
        14 if name.eq_ignore_ascii_case(b"content-length") => May::BeLength,
        17 if name.eq_ignore_ascii_case(b"transfer-encoding") => May::Same,
        _ => May::Differ,
    }
}

/// What httparse lets pass in a field's value.
fn is_value_byte(byte: u8) -> bool {
    byte == b'\t' || (byte >= b' ' && byte != 0x7f)
}

/// How many bytes `a` and `b` begin alike with.
#[inline]
fn common(a: &[u8], b: &[u8]) -> usize {
    const WIDE: usize = 32;
    let wide = a.as_chunks::<WIDE>().0.iter().zip(b.as_chunks::<WIDE>().0).take_while(|(a, b)| a == b).count() * WIDE;
    let (a, b) = (&a[wide..], &b[wide..]);
    wide + a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

#[cfg(test)]
mod tests {
    use super::super::head;
    use super::*;
    use proptest::prelude::*;

    fn learned(bytes: &[u8]) -> Memo {
        let (end, head) = head::parse_whole(bytes).expect("a head");
        let mut memo = Memo::new();
        memo.learn(&bytes[..end], head.expect("a sound one"));
        memo
    }

    const KNOWN: &str = "HTTP/1.1 200 OK\r\nServer: x\r\nDate: Sat, 21 Nov 2026 10:52:43 GMT\r\nContent-Length: 5\r\nConnection: keep-alive\r\nX:\r\nFolded: a\r\n b\r\nLast: some longer value that fills more than one comparison\r\n\r\n";

    #[test]
    fn heads_like_the_known_one_are_known() {
        let check = |from: &str, to: &str, length: u64| {
            let new = KNOWN.replace(from, to);
            let followed = format!("{new}HTTP/1.1");
            let (end, head) =
                learned(KNOWN.as_bytes()).recognise(followed.as_bytes()).unwrap_or_else(|| panic!("{new}"));
            assert_eq!((end, head.declared), (new.len(), Declared::Length(length)), "{new}");
            assert_eq!(head::parse_whole(new.as_bytes()), Some((end, Ok(head))), "{new}");
        };
        check("x", "x", 5);
        check("10:52:43", "10:52:44", 5);
        check("Server: x", "Server: another, longer: one", 5);
        check("Server: x", "Server:", 5);
        check("Server: x\r\n", "Server: x\n", 5);
        check("X:", "X: now with a value \t", 5);
        check("Length: 5", "Length:  12345", 12345);
        check("Length: 5\r\n", "Length:7\n", 7);
        check("comparison", "", 5);
        check("some", "\u{fc}", 5);
    }

    #[test]
    fn other_heads_are_left_to_the_parser() {
        let check = |from: &str, to: &str| {
            let new = KNOWN.replacen(from, to, 1);
            assert_ne!(new, KNOWN);
            assert_eq!(learned(KNOWN.as_bytes()).recognise(new.as_bytes()), None, "{new}");
        };
        check("200", "404");
        check("1.1", "1.0");
        check("OK", "Yes");
        check("keep-alive", "close");
        check("Connection: keep-alive", "Connection: keep-alive\r\n close");
        check("Connection: keep-alive", "Connection: keep-alive\r\nConnection: close");
        check("Server: x", "Server: x\r\n y");
        check("Server: x", "Server: x\r\nContent-Length: 6");
        check("Server: x", "Server : x");
        check("Server: x", "Servers: x");
        check("Server: x", "Server: x\r");
        check("Server: x", "Server: \0");
        check("Server: x", "Server: \u{7f}");
        check("Server: x\r\n", "");
        check("Server: x", "Server: x\r\n");
        check("Folded: a", "Folded: c");
        check("\r\n b", "\r\n c");
        check("Length: 5", "Length: five");
        check("Length: 5", "Length:");
        check("Length: 5", "Length: 5\u{c}");
        check("Length: 5", "Length: 99999999999999999999");
        for cut in 0..KNOWN.len() {
            assert_eq!(learned(KNOWN.as_bytes()).recognise(&KNOWN.as_bytes()[..cut]), None, "{cut}");
        }
        assert_eq!(Memo::new().recognise(KNOWN.as_bytes()), None);
    }

    #[test]
    fn lengths_that_are_not_alone_are_left_to_the_parser() {
        for fields in
            ["Content-Length: 5\r\nContent-Length: 5\r\n", "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n"]
        {
            let known = format!("HTTP/1.1 200 OK\r\n{fields}\r\n");
            let memo = learned(known.as_bytes());
            assert!(memo.recognise(known.as_bytes()).is_some());
            assert_eq!(memo.recognise(known.replacen('5', "6", 1).as_bytes()), None, "{known}");
        }
    }

    #[test]
    fn a_folded_length_is_left_to_the_parser() {
        let known = "HTTP/1.1 200 OK\r\nContent-Length:\r\n 5\r\n\r\n";
        let memo = learned(known.as_bytes());
        assert!(memo.recognise(known.as_bytes()).is_some());
        assert_eq!(memo.recognise(known.replace(":\r\n", ": 1\r\n").as_bytes()), None);
    }

    #[test]
    fn heads_that_never_come_again_are_learned_rarely() {
        let mut memo = Memo::new();
        let nothing = Head { status: 200, persists: true, declared: Declared::Nothing };
        let mut learned = 0;
        for n in 0..10_000 {
            let bytes = format!("HTTP/1.1 200 OK\r\nX-{n}: y\r\n\r\n");
            assert_eq!(memo.recognise(bytes.as_bytes()), None);
            memo.learn(bytes.as_bytes(), nothing);
            learned += u32::from(memo.recognise(bytes.as_bytes()).is_some());
        }
        assert!((10_000 / 64..10_000 / 64 + 10).contains(&learned), "{learned}");
        // It is steady again: soon known, and then a change is learned at once.
        let tries = (0..).find(|_| {
            memo.learn(KNOWN.as_bytes(), nothing);
            memo.recognise(KNOWN.as_bytes()).is_some()
        });
        assert!(tries.is_some_and(|tries| tries <= PATIENCE_MAX));
        let long = format!("HTTP/1.1 200 OK\r\nX: {}\r\n\r\n", "y".repeat(MEMO_BYTES_MAX));
        let mut memo = Memo::new();
        memo.learn(long.as_bytes(), nothing);
        assert_eq!(memo.recognise(long.as_bytes()), None);
    }

    fn head_like_strategy() -> impl Strategy<Value = Vec<u8>> {
        let line = prop::sample::select(vec![
            "Date: 1\r\n",
            "Date: 22\r\n",
            "Date:\r\n",
            "Date: 1\n",
            " folded\r\n",
            "Content-Length: 5\r\n",
            "Content-Length: 77\r\n",
            "Content-Length: 5, 5\r\n",
            "Content-Length: x\r\n",
            "Connection: close\r\n",
            "Connection: keep-alive\r\n",
            "Transfer-Encoding: chunked\r\n",
            "X: \t\r\n",
            "X: a\0\r\n",
            "X\r\n",
            "\r\n",
        ]);
        (prop::sample::select(vec!["HTTP/1.1 200 OK\r\n", "HTTP/1.0 200 OK\n"]), prop::collection::vec(line, 0..6))
            .prop_map(|(status, lines)| format!("{status}{}\r\n", lines.concat()).into_bytes())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(5000))]

        #[test]
        fn what_is_known_is_what_the_parser_says(known in head_like_strategy(), new in head_like_strategy(), edits in prop::collection::vec((0usize..100, any::<u8>()), 0..3)) {
            let Some((end, Ok(head))) = head::parse_whole(&known) else { return Ok(()) };
            let mut memo = Memo::new();
            memo.learn(&known[..end], head);
            let mut edited = known.clone();
            for (at, byte) in edits {
                let at = at % edited.len();
                if byte % 2 == 0 { edited[at] = byte / 2 } else { edited.insert(at, byte / 2) }
            }
            for new in [known, new, edited] {
                if let Some((end, head)) = memo.recognise(&new) {
                    prop_assert_eq!(head::parse_whole(&new), Some((end, Ok(head))));
                    prop_assert_eq!(head::find_end(&new, 0), Some(end));
                }
            }
        }

        #[test]
        fn common_is_how_many_begin_alike(mut a in prop::collection::vec(any::<u8>(), 0..200), at: prop::sample::Index, cut: prop::sample::Index) {
            let mut b = a.clone();
            let mut expected = a.len();
            if !a.is_empty() {
                expected = at.index(a.len());
                b[expected] ^= 1;
                let cut = cut.index(a.len() + 1);
                a.truncate(cut);
                expected = expected.min(cut);
            }
            prop_assert_eq!(common(&a, &b), expected);
            prop_assert_eq!(common(&b, &a), expected);
            prop_assert_eq!(common(&b, &b), b.len());
        }
    }
}
