//! Commands out of arguments: what the store is asked, what a connection answers by itself, what is refused.
//!
//! The service's own words and redis' names for them are the same command. What redis-cli, redis-benchmark and
//! memtier_benchmark send at their start is answered; all else is unknown, in redis' words.

use std::borrow::Cow;

use super::reply;

/// One request of the store.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Op {
    /// SAVE, SET.
    Save(Vec<u8>, Vec<u8>),
    /// LOAD, GET.
    Load(Vec<u8>),
    /// REMOVE, DEL.
    Remove(Vec<Vec<u8>>),
    /// REMOVEALL, FLUSHALL.
    RemoveAll,
    /// LOADALL.
    LoadAll,
    /// OOPS: crash.
    Oops,
}

impl Op {
    /// What it is about: its first name, or its word where it has none.
    pub(super) fn subject(&self) -> &[u8] {
        match self {
            Self::Save(name, _) | Self::Load(name) => name,
            Self::Remove(names) => names.first().map_or(b"REMOVE", |name| name),
            Self::RemoveAll => b"REMOVEALL",
            Self::LoadAll => b"LOADALL",
            Self::Oops => b"OOPS",
        }
    }
}

/// What becomes of a command.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Command {
    /// For the store.
    Store(Op),
    /// Answered; the reply was written.
    Answered,
    /// Refused; the error was written.
    Refused,
    /// INFO, with the section asked for.
    Info(Option<String>),
    /// QUIT: answered, and the connection ends.
    Quit,
}

/// Takes a command's arguments, of which there is at least one; writes the reply if it needs no store.
pub(super) fn take(mut arguments: Vec<Cow<'_, [u8]>>, out: &mut Vec<u8>) -> Command {
    let mut buffer = [0; 16];
    let word = uppercase(&arguments[0], &mut buffer);
    let given = arguments.len() - 1;
    match (word, given) {
        (b"SAVE" | b"SET", 2) => {
            let value = arguments.swap_remove(2).into_owned();
            Command::Store(Op::Save(arguments.swap_remove(1).into_owned(), value))
        }
        (b"LOAD" | b"GET", 1) => Command::Store(Op::Load(arguments.swap_remove(1).into_owned())),
        (b"REMOVE" | b"DEL", 1..) => Command::Store(Op::Remove(arguments.drain(1..).map(Cow::into_owned).collect())),
        (b"LOADALL", 0) => Command::Store(Op::LoadAll),
        // ASYNC or SYNC is all that redis takes here.
        (b"REMOVEALL" | b"FLUSHALL", 0 | 1) => Command::Store(Op::RemoveAll),
        (b"OOPS", 0) => Command::Store(Op::Oops),
        (b"INFO", _) => Command::Info(arguments.get(1).map(|s| String::from_utf8_lossy(s).to_ascii_lowercase())),
        (b"PING", 0) => answered(out, b"+PONG\r\n"),
        (b"PING" | b"ECHO", 1) => {
            reply::bulk(out, &arguments[1]);
            Command::Answered
        }
        (b"QUIT", _) => {
            out.extend_from_slice(reply::OK);
            Command::Quit
        }
        (b"COMMAND", _) => command(&arguments, out),
        (b"CONFIG", 2..) => config(&arguments, out),
        (b"CLIENT", 1..) => client(&arguments, out),
        (b"HELLO", _) => hello(&arguments, out),
        (b"SELECT", 1) if *arguments[1] == *b"0" => answered(out, reply::OK),
        (b"SELECT", 1) => refused(out, "ERR DB index is out of range"),
        (b"SET", 3..) => refused(out, "ERR syntax error"),
        (
            b"SAVE" | b"SET" | b"LOAD" | b"GET" | b"REMOVE" | b"DEL" | b"LOADALL" | b"REMOVEALL" | b"FLUSHALL"
            | b"OOPS" | b"PING" | b"ECHO" | b"CONFIG" | b"CLIENT" | b"SELECT",
            _,
        ) => refused(
            out,
            &format!("ERR wrong number of arguments for '{}' command", shown(&arguments[0]).to_ascii_lowercase()),
        ),
        _ => unknown(&arguments, out),
    }
}

fn answered(out: &mut Vec<u8>, bytes: &[u8]) -> Command {
    out.extend_from_slice(bytes);
    Command::Answered
}

fn refused(out: &mut Vec<u8>, text: &str) -> Command {
    reply::error(out, text);
    Command::Refused
}

fn unknown(arguments: &[Cow<'_, [u8]>], out: &mut Vec<u8>) -> Command {
    // As redis: the arguments as far as 128 bytes of them go.
    let mut beginning = String::new();
    for argument in &arguments[1..] {
        if beginning.len() >= 128 {
            break;
        }
        beginning.push_str(&format!("'{}' ", shown(argument)));
    }
    refused(out, &format!("ERR unknown command '{}', with args beginning with: {beginning}", shown(&arguments[0])))
}

fn command(arguments: &[Cow<'_, [u8]>], out: &mut Vec<u8>) -> Command {
    match arguments.get(1).is_some_and(|word| word.eq_ignore_ascii_case(b"COUNT")) {
        true => reply::integer(out, 0),
        // redis-cli asks for COMMAND DOCS and lives without.
        false => reply::array(out, 0),
    }
    Command::Answered
}

/// redis-benchmark asks for `save` and `appendonly` and prints them: the journal is neither.
fn config(arguments: &[Cow<'_, [u8]>], out: &mut Vec<u8>) -> Command {
    if !arguments[1].eq_ignore_ascii_case(b"GET") {
        return refused(
            out,
            "ERR CONFIG can only GET here: options are given at the start, see 'plimsoll serve names --help'",
        );
    }
    let known: Vec<_> = arguments[2..]
        .iter()
        .filter_map(|name| {
            let value: &[u8] = match name.to_ascii_lowercase().as_slice() {
                b"save" => b"",
                b"appendonly" => b"no",
                b"databases" => b"1",
                _ => return None,
            };
            Some((name, value))
        })
        .collect();
    reply::array(out, known.len() as u64 * 2);
    for (name, value) in known {
        reply::bulk(out, name);
        reply::bulk(out, value);
    }
    Command::Answered
}

fn client(arguments: &[Cow<'_, [u8]>], out: &mut Vec<u8>) -> Command {
    let mut buffer = [0; 16];
    match uppercase(&arguments[1], &mut buffer) {
        b"SETNAME" | b"SETINFO" | b"NO-EVICT" | b"NO-TOUCH" => answered(out, reply::OK),
        b"GETNAME" => answered(out, reply::NULL),
        _ => refused(out, &format!("ERR unknown subcommand '{}'. Try CLIENT HELP.", shown(&arguments[1]))),
    }
}

/// Protocol 2 is spoken; 3 is refused as a redis that has none of it refuses a version it does not know.
fn hello(arguments: &[Cow<'_, [u8]>], out: &mut Vec<u8>) -> Command {
    let version = arguments.get(1).map(|text| std::str::from_utf8(text).ok().and_then(|text| text.parse::<i64>().ok()));
    match version {
        Some(None) => return refused(out, "ERR Protocol version is not an integer or out of range"),
        Some(Some(2)) | None => {}
        Some(Some(_)) => return refused(out, "NOPROTO unsupported protocol version"),
    }
    reply::array(out, 10);
    for (name, value) in [("server", "plimsoll"), ("version", env!("CARGO_PKG_VERSION"))] {
        reply::bulk(out, name.as_bytes());
        reply::bulk(out, value.as_bytes());
    }
    reply::bulk(out, b"proto");
    reply::integer(out, 2);
    for (name, value) in [("mode", "standalone"), ("role", "master")] {
        reply::bulk(out, name.as_bytes());
        reply::bulk(out, value.as_bytes());
    }
    Command::Answered
}

fn uppercase<'b>(word: &[u8], buffer: &'b mut [u8; 16]) -> &'b [u8] {
    // No command is as long as the buffer.
    let Some(space) = buffer.get_mut(..word.len()) else { return b"" };
    space.copy_from_slice(word);
    space.make_ascii_uppercase();
    space
}

fn shown(bytes: &[u8]) -> String {
    bytes[..bytes.len().min(128)].escape_ascii().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(words: &[&str]) -> (Command, String) {
        let mut out = Vec::new();
        let command = take(words.iter().map(|word| Cow::Borrowed(word.as_bytes())).collect(), &mut out);
        (command, String::from_utf8(out).unwrap())
    }

    #[test]
    fn own_words_and_redis_names_are_the_same() {
        for words in [["save", "a", "b"], ["SET", "a", "b"]] {
            assert_eq!(check(&words).0, Command::Store(Op::Save(b"a".to_vec(), b"b".to_vec())));
        }
        for (own, redis) in [("LOAD", "get"), ("remove", "DEL")] {
            assert_eq!(check(&[own, "a"]), check(&[redis, "a"]));
        }
        assert_eq!(check(&["REMOVEALL"]), check(&["flushall"]));
    }

    #[test]
    fn refusals_are_in_redis_words() {
        for (words, said) in [
            (&["get"][..], "-ERR wrong number of arguments for 'get' command\r\n"),
            (&["set", "a", "b", "EX", "1"], "-ERR syntax error\r\n"),
            (&["fly", "a", "b"], "-ERR unknown command 'fly', with args beginning with: 'a' 'b' \r\n"),
            (&["HELLO", "3"], "-NOPROTO unsupported protocol version\r\n"),
            (&["HELLO", "x"], "-ERR Protocol version is not an integer or out of range\r\n"),
            (&["select", "1"], "-ERR DB index is out of range\r\n"),
        ] {
            assert_eq!(check(words), (Command::Refused, said.to_owned()));
        }
        assert!(check(&["a\r\nb"]).1.starts_with("-ERR unknown command 'a\\r\\nb'"));
        assert!(check(&[&"x".repeat(5000)]).1.len() < 300);
    }
}
