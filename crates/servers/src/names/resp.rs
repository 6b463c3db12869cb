//! Commands out of bytes: RESP2 arrays of bulk strings, and redis' inline commands. Knows no sockets.
//!
//! Stateless: it is called again from the command's first byte when more has come. A bulk string is skipped by its
//! length and not looked through, so that costs a step an argument. Refusals are worded as redis words them.

use std::borrow::Cow;

use memchr::memchr;

use super::limits;

/// What the bytes begin with.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Parsed<'a> {
    /// A command: its arguments (none: an empty line, to be passed over) and the bytes it took.
    Command(Vec<Cow<'a, [u8]>>, usize),
    /// More bytes are needed.
    Incomplete,
}

/// What ends the connection, as said behind `-ERR Protocol error: `.
pub(super) type Refusal = Cow<'static, str>;

/// Reads the command that `input` begins with.
pub(super) fn parse(input: &[u8]) -> Result<Parsed<'_>, Refusal> {
    match input.first() {
        None => Ok(Parsed::Incomplete),
        Some(b'*') => array(input),
        Some(_) => inline(input),
    }
}

fn array(input: &[u8]) -> Result<Parsed<'_>, Refusal> {
    let Some((count, mut at)) = length(input, 1, "too big mbulk count string", "invalid multibulk length")? else {
        return Ok(Parsed::Incomplete);
    };
    // As redis: an array of none, or a null array, is nothing.
    let count = usize::try_from(count).unwrap_or(0);
    if count > limits::ARGUMENTS_MAX {
        return Err("invalid multibulk length".into());
    }
    let mut arguments = Vec::with_capacity(count);
    for _ in 0..count {
        match input.get(at) {
            None => return incomplete(input),
            Some(b'$') => {}
            Some(other) => return Err(format!("expected '$', got '{}'", other.escape_ascii()).into()),
        }
        let Some((size, from)) = length(input, at + 1, "too big bulk count string", "invalid bulk length")? else {
            return incomplete(input);
        };
        let size = usize::try_from(size).ok().filter(|size| *size <= limits::BULK_BYTES_MAX);
        let end = from + size.ok_or("invalid bulk length")?;
        if end + 2 > limits::INPUT_BYTES_MAX {
            return Err("too big command".into());
        }
        let ending = input.get(end..(end + 2).min(input.len())).unwrap_or(b"");
        if !b"\r\n".starts_with(ending) {
            return Err("expected CRLF after the bulk".into());
        }
        if ending.len() < 2 {
            return incomplete(input);
        }
        arguments.push(Cow::Borrowed(&input[from..end]));
        at = end + 2;
    }
    Ok(Parsed::Command(arguments, at))
}

fn incomplete(input: &[u8]) -> Result<Parsed<'_>, Refusal> {
    if input.len() > limits::INPUT_BYTES_MAX { Err("too big command".into()) } else { Ok(Parsed::Incomplete) }
}

/// A decimal number up to CRLF, from `at` on, and where what follows it begins.
fn length(
    input: &[u8],
    at: usize,
    too_long: &'static str,
    invalid: &'static str,
) -> Result<Option<(i64, usize)>, Refusal> {
    // 20 digits and a sign: what is longer is no number of 64 bits, however it goes on.
    let line = &input[at.min(input.len())..];
    let Some(end) = memchr(b'\r', &line[..line.len().min(limits::LINE_BYTES_MAX)]) else {
        return if line.len() > limits::LINE_BYTES_MAX { Err(too_long.into()) } else { Ok(None) };
    };
    let number = std::str::from_utf8(&line[..end]).ok().filter(|text| !text.starts_with('+'));
    let number = number.and_then(|text| text.parse().ok()).ok_or(invalid)?;
    match line.get(end + 1) {
        None => Ok(None),
        Some(b'\n') => Ok(Some((number, at + end + 2))),
        Some(_) => Err(invalid.into()),
    }
}

fn inline(input: &[u8]) -> Result<Parsed<'_>, Refusal> {
    let Some(end) = memchr(b'\n', &input[..input.len().min(limits::LINE_BYTES_MAX)]) else {
        let too_long = input.len() >= limits::LINE_BYTES_MAX;
        return if too_long { Err("too big inline request".into()) } else { Ok(Parsed::Incomplete) };
    };
    let line = input[..end].strip_suffix(b"\r").unwrap_or(&input[..end]);
    let arguments = words(line).ok_or("unbalanced quotes in request")?;
    if arguments.len() > limits::ARGUMENTS_MAX {
        return Err("invalid multibulk length".into());
    }
    Ok(Parsed::Command(arguments, end + 1))
}

/// Words between blanks, as `sdssplitargs` of redis takes them apart: "…" with escapes, '…' with \' only.
fn words(line: &[u8]) -> Option<Vec<Cow<'_, [u8]>>> {
    let mut words = Vec::new();
    let mut rest = line.trim_ascii_start();
    while let Some(first) = rest.first() {
        if matches!(first, b'"' | b'\'') {
            let (word, after) = quoted(rest)?;
            // A closing quote must be followed by a blank or nothing.
            if after.first().is_some_and(|next| !next.is_ascii_whitespace()) {
                return None;
            }
            words.push(Cow::Owned(word));
            rest = after.trim_ascii_start();
        } else {
            let end = rest.iter().position(u8::is_ascii_whitespace).unwrap_or(rest.len());
            if memchr::memchr2(b'"', b'\'', &rest[..end]).is_some() {
                return None;
            }
            words.push(Cow::Borrowed(&rest[..end]));
            rest = rest[end..].trim_ascii_start();
        }
    }
    Some(words)
}

fn quoted(text: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let quote = *text.first()?;
    let mut word = Vec::new();
    let mut at = 1;
    loop {
        match *text.get(at)? {
            byte if byte == quote => return Some((word, &text[at + 1..])),
            b'\\' if quote == b'\'' && text.get(at + 1) == Some(&b'\'') => {
                word.push(b'\'');
                at += 2;
            }
            b'\\' if quote == b'"' => {
                let escaped = *text.get(at + 1)?;
                let hex = (escaped == b'x').then(|| text.get(at + 2..at + 4)).flatten();
                let hex = hex.and_then(|digits| std::str::from_utf8(digits).ok());
                if let Some(byte) = hex.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
                    word.push(byte);
                    at += 4;
                    continue;
                }
                word.push(match escaped {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'b' => 8,
                    b'a' => 7,
                    other => other,
                });
                at += 2;
            }
            byte => {
                word.push(byte);
                at += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The arguments of a command.
    type Arguments = Vec<Vec<u8>>;

    /// All commands, and how many bytes are left.
    fn all(mut input: &[u8]) -> Result<(Vec<Arguments>, usize), String> {
        let mut commands = Vec::new();
        loop {
            match parse(input).map_err(|refusal| refusal.into_owned())? {
                Parsed::Incomplete => return Ok((commands, input.len())),
                Parsed::Command(arguments, taken) => {
                    commands.push(arguments.iter().map(|a| a.to_vec()).collect());
                    input = &input[taken..];
                }
            }
        }
    }

    #[test]
    fn a_stream_cut_at_every_byte_gives_the_same_commands() {
        let stream = b"*3\r\n$3\r\nSET\r\n$4\r\n\r\n\0*\r\n$0\r\n\r\nPING\r\n*1\r\n$4\r\nPING\r\nset \"a\\x00\\\"\" 'b c'\n*0\r\n\r\n";
        let (whole, left) = all(stream).unwrap();
        assert_eq!((whole.len(), left), (6, 0));
        assert_eq!(whole[0], [&b"SET"[..], b"\r\n\0*", b""]);
        assert_eq!(whole[3], [&b"set"[..], b"a\0\"", b"b c"]);
        assert!(whole[4].is_empty() && whole[5].is_empty());
        for cut in 0..=stream.len() {
            let (mut commands, left) = all(&stream[..cut]).unwrap();
            let (rest, end) = all(&stream[cut - left..]).unwrap();
            commands.extend(rest);
            assert_eq!((&commands, end), (&whole, 0), "cut at {cut}");
        }
    }

    #[test]
    fn what_is_no_command_is_refused_in_redis_words() {
        for (input, said) in [
            (&b"*x\r\n"[..], "invalid multibulk length"),
            (b"*1025\r\n", "invalid multibulk length"),
            (b"*99999999999999999999\r\n", "invalid multibulk length"),
            (b"*+1\r\n", "invalid multibulk length"),
            (b"*1\rX", "invalid multibulk length"),
            (b"*1\r\nPING\r\n", "expected '$', got 'P'"),
            (b"*1\r\n\0", "expected '$', got '\\x00'"),
            (b"*1\r\n$-1\r\n", "invalid bulk length"),
            (b"*1\r\n$8388609\r\n", "invalid bulk length"),
            (b"*1\r\n$1\r\naXY", "expected CRLF after the bulk"),
            (b"set \"a\r\n", "unbalanced quotes in request"),
            (b"set 'a'b\r\n", "unbalanced quotes in request"),
        ] {
            assert_eq!(all(input), Err(said.to_owned()), "{}", input.escape_ascii());
        }
        let endless = vec![b'1'; limits::LINE_BYTES_MAX + 2];
        assert_eq!(all(&endless), Err("too big inline request".to_owned()));
        assert_eq!(all(&[b"*", &endless[..]].concat()), Err("too big mbulk count string".to_owned()));
        assert_eq!(all(&[b"*1\r\n$", &endless[..]].concat()), Err("too big bulk count string".to_owned()));
        // Three of the largest are more than a command may have, said before the third has come.
        let mut large = b"*4\r\n$3\r\nDEL\r\n".to_vec();
        for _ in 0..2 {
            large.extend_from_slice(b"$8388608\r\n");
            large.resize(large.len() + limits::BULK_BYTES_MAX, b'a');
            large.extend_from_slice(b"\r\n");
        }
        assert_eq!(all(&large), Err("too big command".to_owned()));
    }
}
