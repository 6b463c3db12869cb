//! WebSocket as an opponent speaks it: a table of cases for both sides, and frames written and read by a third hand.
//!
//! The table goes through what the Autobahn test suite looks at, in words of its own: framing, pings and pongs, reserved
//! bits, opcodes, fragmentation, UTF-8, closing, sizes. A case is what one side sends behind the handshake, and what the
//! other must say to it: a server by echoing, a client by what it reports and answers.

/// What one side says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Said {
    /// A text message: echoed, or received.
    Text(Vec<u8>),
    /// A binary message.
    Binary(Vec<u8>),
    /// A pong with this payload.
    Pong(Vec<u8>),
    /// A close with this code; nothing comes behind it.
    Close(Option<u16>),
}

/// What stands in a frame, as it is; nothing keeps it within the protocol.
#[derive(Debug, Clone)]
pub struct Frame {
    /// FIN, reserved bits, opcode.
    pub first: u8,
    /// What it holds.
    pub payload: Vec<u8>,
    /// The length that is written, if it is not the payload's.
    pub length: Option<u64>,
    /// Bytes of the extended length, if they are not the fewest: 2 or 8.
    pub extended: Option<usize>,
    /// Whether its mask is there exactly where it must not be.
    pub mask_is_wrong: bool,
}

/// A case: what comes, and what must be said to it.
#[derive(Debug, Clone)]
pub struct Case {
    /// What it is about.
    pub name: String,
    /// What comes.
    pub frames: Vec<Frame>,
    /// What must be said, in order.
    pub said: Vec<Said>,
}

impl Case {
    /// Its bytes, as a client sends them (`masked`) or as a server.
    pub fn bytes(&self, masked: bool) -> Vec<u8> {
        self.frames.iter().enumerate().flat_map(|(at, frame)| frame.bytes(masked, at as u32)).collect()
    }
}

/// A frame that is well formed.
pub fn frame(first: u8, payload: &[u8]) -> Frame {
    Frame { first, payload: payload.to_vec(), length: None, extended: None, mask_is_wrong: false }
}

impl Frame {
    /// Its bytes; `salt` makes its mask.
    pub fn bytes(&self, masked: bool, salt: u32) -> Vec<u8> {
        let length = self.length.unwrap_or(self.payload.len() as u64);
        let mask = if masked != self.mask_is_wrong { 0x80 } else { 0 };
        let fewest = if length < 126 { 0 } else { 2 << (2 * usize::from(length > 0xffff)) };
        let mut bytes = vec![self.first];
        match self.extended.unwrap_or(fewest) {
            0 => bytes.push(mask | length as u8),
            2 => {
                bytes.push(mask | 126);
                bytes.extend_from_slice(&(length as u16).to_be_bytes());
            }
            _ => {
                bytes.push(mask | 127);
                bytes.extend_from_slice(&length.to_be_bytes());
            }
        }
        let key =
            if mask == 0 { [0; 4] } else { salt.wrapping_mul(0x9e37_79b9).wrapping_add(0x1234_5678).to_be_bytes() };
        if mask != 0 {
            bytes.extend_from_slice(&key);
        }
        bytes.extend(self.payload.iter().zip(key.iter().cycle()).map(|(byte, key)| byte ^ key));
        bytes
    }
}

/// A frame as it was read: its first byte, whether it was masked, its payload without the mask.
pub type Seen = (u8, bool, Vec<u8>);

/// The frame at the start of `bytes`, and what is behind it; `None`: it is not whole.
pub fn read(bytes: &[u8]) -> Option<(Seen, &[u8])> {
    let (first, second) = (*bytes.first()?, *bytes.get(1)?);
    let extended = match second & 0x7f {
        126 => 2,
        127 => 8,
        _ => 0,
    };
    let length = bytes.get(2..2 + extended)?.iter().fold(0_u64, |length, byte| length << 8 | u64::from(*byte));
    let length = if extended == 0 { u64::from(second & 0x7f) } else { length } as usize;
    let is_masked = second & 0x80 != 0;
    let rest = bytes.get(2 + extended..)?;
    let (key, rest) = if is_masked { (rest.get(..4)?, rest.get(4..)?) } else { (&[0; 4][..], rest) };
    let payload = rest.get(..length)?.iter().zip(key.iter().cycle()).map(|(byte, key)| byte ^ key).collect();
    Some(((first, is_masked, payload), &rest[length..]))
}

/// All frames of `bytes`, as what they say. Of a close only the code.
///
/// # Panics
/// When a frame is fragmented, compressed, not whole, or masked unlike `masked`.
pub fn read_all(mut bytes: &[u8], masked: bool) -> Vec<Said> {
    let mut said = Vec::new();
    while !bytes.is_empty() {
        let Some(((first, is_masked, payload), rest)) = read(bytes) else {
            panic!("half a frame: {}", bytes.escape_ascii())
        };
        assert_eq!(is_masked, masked, "{first:x}");
        bytes = rest;
        said.push(match first {
            0x81 => Said::Text(payload),
            0x82 => Said::Binary(payload),
            0x8a => Said::Pong(payload),
            0x88 => Said::Close(payload.first_chunk::<2>().map(|code| u16::from_be_bytes(*code))),
            _ => panic!("a frame that begins with {first:#x}"),
        });
    }
    said
}

const FIN: u8 = 0x80;
const TEXT: u8 = 1;
const BINARY: u8 = 2;
const CLOSE: u8 = FIN | 8;
const PING: u8 = FIN | 9;
const PONG: u8 = FIN | 10;

fn text(message: &str) -> Said {
    Said::Text(message.as_bytes().to_vec())
}

fn close(code: u16) -> Frame {
    frame(CLOSE, &code.to_be_bytes())
}

/// A message behind which everything is in order.
fn after() -> Frame {
    frame(FIN | TEXT, b"after")
}

fn payload(size: usize) -> Vec<u8> {
    (0..size).map(|at| (at * 31 + at / 97) as u8).collect()
}

/// All cases, with messages of at most 70,000 bytes. Whoever is tested must take those, and none of 100,000 bytes.
pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    let mut case = |name: &str, frames: Vec<Frame>, said: Vec<Said>| {
        cases.push(Case { name: name.to_owned(), frames, said });
    };
    framing(&mut case);
    pings(&mut case);
    heads(&mut case);
    fragments(&mut case);
    utf8(&mut case);
    closing(&mut case);
    cases
}

type Add<'a> = dyn FnMut(&str, Vec<Frame>, Vec<Said>) + 'a;

/// Messages of every way a length is written, and lengths written otherwise.
fn framing(case: &mut Add<'_>) {
    for size in [0, 1, 125, 126, 127, 128, 4096, 65_535, 65_536, 65_537, 70_000] {
        let bytes = payload(size);
        let characters = "*".repeat(size);
        case(&format!("text of {size}"), vec![frame(FIN | TEXT, characters.as_bytes())], vec![text(&characters)]);
        case(&format!("binary of {size}"), vec![frame(FIN | BINARY, &bytes)], vec![Said::Binary(bytes.clone())]);
    }
    for (length, extended) in [(5, 2), (125, 2), (5, 8), (126, 8), (65_535, 8)] {
        let long = Frame { extended: Some(extended), ..frame(FIN | BINARY, &payload(length)) };
        case(&format!("{length} in {extended} bytes"), vec![long, after()], vec![Said::Close(Some(1002))]);
    }
    let negative = Frame { length: Some(1 << 63 | 5), ..frame(FIN | BINARY, &payload(5)) };
    case("a length beyond 2^63", vec![negative], vec![Said::Close(Some(1002))]);
    for length in [100_000, 1 << 40, (1 << 63) - 1] {
        let long = Frame { length: Some(length), ..frame(FIN | BINARY, &payload(5)) };
        case(&format!("a message of {length}"), vec![long], vec![Said::Close(Some(1009))]);
    }
    let part = |first| frame(first, &payload(60_000));
    case("too long in fragments", vec![part(BINARY), part(0), part(0)], vec![Said::Close(Some(1009))]);
    for first in [FIN | TEXT, PING, CLOSE] {
        let wrong = Frame { mask_is_wrong: true, ..frame(first, b"") };
        case(&format!("a wrong mask on {first:#x}"), vec![wrong, after()], vec![Said::Close(Some(1002))]);
    }
}

fn pings(case: &mut Add<'_>) {
    for bytes in [&b""[..], b"Hello", b"\x00\xff\xfe\xfd\xfc\xfb\x00\xff", &[0xfe; 125]] {
        case("a ping", vec![frame(PING, bytes), after()], vec![Said::Pong(bytes.to_vec()), text("after")]);
    }
    let long = frame(PING, &[0xfe; 126]);
    case("a ping of 126 bytes", vec![long, after()], vec![Said::Close(Some(1002))]);
    let pongs = vec![frame(PONG, b""), frame(PONG, b"unasked"), frame(PING, b"asked"), after()];
    case("pongs nobody asked for", pongs, vec![Said::Pong(b"asked".to_vec()), text("after")]);
    let ten: Vec<Vec<u8>> = (0..10).map(|n| format!("ping {n}").into_bytes()).collect();
    let pongs = ten.iter().cloned().map(Said::Pong).collect();
    case("ten pings at once", ten.iter().map(|bytes| frame(PING, bytes)).collect(), pongs);
}

/// Reserved bits and opcodes.
fn heads(case: &mut Add<'_>) {
    let broken = || vec![text("before"), Said::Close(Some(1002))];
    let before = || frame(FIN | TEXT, b"before");
    for bits in 1..=7 {
        for opcode in [TEXT, BINARY, 8, 9, 10] {
            let first = FIN | bits << 4 | opcode;
            case(&format!("reserved bits {first:#x}"), vec![before(), frame(first, b""), after()], broken());
        }
    }
    let inside = |first| vec![frame(TEXT, b"half"), frame(first, b"whole"), after()];
    case("a reserved bit on a continuation", inside(FIN | 0x40), vec![Said::Close(Some(1002))]);
    for opcode in [3, 4, 5, 6, 7, 11, 12, 13, 14, 15] {
        for bytes in [&b""[..], b"payload"] {
            case(&format!("opcode {opcode}"), vec![before(), frame(FIN | opcode, bytes), after()], broken());
        }
    }
}

fn fragments(case: &mut Add<'_>) {
    let broken = || vec![Said::Close(Some(1002))];
    for opcode in [8, 9, 10] {
        let frames = vec![frame(opcode, b""), frame(FIN, b""), after()];
        case(&format!("control frame {opcode} in fragments"), frames, broken());
    }
    case("two fragments", vec![frame(TEXT, b"one, "), frame(FIN, b"two")], vec![text("one, two")]);
    case("three empty fragments", vec![frame(TEXT, b""), frame(0, b""), frame(FIN, b"")], vec![text("")]);
    case(
        "something between nothing",
        vec![frame(BINARY, b""), frame(0, b"middle"), frame(FIN, b"")],
        vec![Said::Binary(b"middle".to_vec())],
    );
    let between = vec![frame(TEXT, b"one, "), frame(PING, b"in"), frame(PONG, b""), frame(FIN, b"two"), after()];
    case("a ping between fragments", between, vec![Said::Pong(b"in".to_vec()), text("one, two"), text("after")]);
    let bytes = payload(5000);
    let mut many: Vec<Frame> = bytes.chunks(7).map(|piece| frame(0, piece)).collect();
    many[0].first = BINARY;
    many.push(frame(FIN, b""));
    case("715 fragments", many, vec![Said::Binary(bytes)]);
    for first in [0, FIN] {
        case("nothing to continue", vec![frame(first, b"none"), after()], broken());
        let late = vec![frame(FIN | TEXT, b"whole"), frame(first, b"none"), after()];
        case("nothing to continue any more", late, vec![text("whole"), Said::Close(Some(1002))]);
    }
    for first in [TEXT, FIN | TEXT, BINARY, FIN | BINARY] {
        case("a message in a message", vec![frame(TEXT, b"half"), frame(first, b"whole"), after()], broken());
    }
    let closed = vec![frame(TEXT, b"half"), close(1000), frame(FIN, b"")];
    case("a close inside a message", closed, vec![Said::Close(Some(1000))]);
}

fn utf8(case: &mut Add<'_>) {
    let invalid = || vec![Said::Close(Some(1007))];
    for good in [
        "Hello-µ@ßöäüàá-UTF-8!!",
        "κόσμε",
        "\u{0}",
        "\u{7f}\u{80}\u{7ff}\u{800}",
        "\u{d7ff}\u{e000}\u{fffd}\u{fffe}\u{ffff}\u{10000}\u{10ffff}",
    ] {
        case("valid text", vec![frame(FIN | TEXT, good.as_bytes())], vec![text(good)]);
        for cut in 0..=good.len() {
            let (one, two) = good.as_bytes().split_at(cut);
            let frames = vec![frame(TEXT, one), frame(PING, b""), frame(FIN, two)];
            case("valid text in fragments", frames, vec![Said::Pong(Vec::new()), text(good)]);
        }
    }
    for bad in [
        &b"\x80"[..],
        b"\xbf after",
        b"\xc0\x80",
        b"\xc1\xbf",
        b"\xe0\x80\xaf",
        b"\xe0\x9f\xbf",
        b"\xf0\x80\x80\xaf",
        b"\xf0\x8f\xbf\xbf",
        b"\xed\xa0\x80",
        b"\xed\xaf\xbf\xed\xbf\xbf",
        b"\xf4\x90\x80\x80",
        b"\xf5\x80\x80\x80",
        b"\xf8\x88\x80\x80\x80",
        b"\xfc\x84\x80\x80\x80\x80",
        b"\xfe\xff",
        b"\xce\xba\xe1\xbd",
        b"\xf0\x9f\x98",
        b"\xe1x\xbd\xb9",
        b"\xce\xce\xba",
    ] {
        case("text that is none", vec![frame(FIN | TEXT, bad), after()], invalid());
        case("text that is none, in fragments", vec![frame(TEXT, b"good, "), frame(FIN, bad), after()], invalid());
        case("bytes that are no text", vec![frame(FIN | BINARY, bad)], vec![Said::Binary(bad.to_vec())]);
    }
    // What cannot become text is told before the message is whole.
    let never = vec![frame(TEXT, b"\xce\xba\xf4\x90")];
    case("text that cannot become any", never, invalid());
    let half = Frame { length: Some(50), ..frame(FIN | TEXT, b"\xce\xba\xed\xa0") };
    case("text that cannot become any, in half a frame", vec![half], invalid());
    case("half a character at the end", vec![frame(TEXT, b"\xce"), frame(FIN, b"")], invalid());
}

fn closing(case: &mut Add<'_>) {
    for code in [1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 1012, 1013, 1014, 3000, 3999, 4000, 4999] {
        case(&format!("close {code}"), vec![close(code)], vec![Said::Close(Some(code))]);
    }
    for code in [0, 999, 1004, 1005, 1006, 1015, 1016, 1100, 2000, 2999, 5000, 65535] {
        case(&format!("close {code}"), vec![close(code)], vec![Said::Close(Some(1002))]);
    }
    case("a close without a code", vec![frame(CLOSE, b"")], vec![Said::Close(None)]);
    case("half a code", vec![frame(CLOSE, b"\x03")], vec![Said::Close(Some(1002))]);
    let long = [b"\x03\xe8", &[b'*'; 123][..]].concat();
    case("the longest reason", vec![frame(CLOSE, &long)], vec![Said::Close(Some(1000))]);
    let longer = [b"\x03\xe8", &[b'*'; 124][..]].concat();
    case("a longer reason", vec![frame(CLOSE, &longer)], vec![Said::Close(Some(1002))]);
    case("a reason that is no text", vec![frame(CLOSE, b"\x03\xe8\xce\xba\xff")], vec![Said::Close(Some(1007))]);
    for behind in [after(), frame(PING, b"late"), close(1001), frame(0xff, b"")] {
        case("behind a close", vec![after(), close(1000), behind], vec![text("after"), Said::Close(Some(1000))]);
    }
}
