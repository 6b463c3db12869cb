//! Commands as they are written, replies whole and cut at every byte, and what each failure is called.

use super::*;
use model::Secret;
use model::limits::RESP_LINE_BYTES_MAX;
use model::plan::Content;
use model::resp::{KeyDistribution, RespCommand};

fn command(words: &str, expect: RespExpect) -> RespCommand {
    let words: Vec<String> = words.split(' ').map(str::to_owned).collect();
    RespCommand::new(words[0].clone(), 1.0, words, expect)
}

fn plan(commands: Vec<RespCommand>) -> Resp {
    Resp {
        commands,
        keys: 1000,
        key_prefix: "k:".to_owned(),
        key_distribution: KeyDistribution::Uniform,
        values: Sizes::Fixed(10),
        content: Content::Text,
        value_seed: 3,
        validate: true,
        verify_writes: false,
        logins: vec![],
    }
}

fn protocol(words: &str, expect: RespExpect) -> RespProtocol {
    RespProtocol::new(&plan(vec![command(words, expect)]), 0, 1).unwrap()
}

/// What one reply comes to, fed whole, then cut at every place, then byte by byte: always the same.
#[track_caller]
fn outcome(protocol: &RespProtocol, request: Drawn, reply: &[u8]) -> Option<Reply> {
    let feed = |pieces: &[&[u8]]| {
        let mut connection = protocol.connection();
        for (i, piece) in pieces.iter().enumerate() {
            if piece.is_empty() {
                continue;
            }
            let fed = protocol.feed(&mut connection, request, piece);
            match fed.progress {
                Progress::More => assert_eq!(fed.consumed, piece.len()),
                Progress::Reply(reply) => {
                    assert!(fed.consumed == piece.len() && pieces[i + 1..].iter().all(|p| p.is_empty()));
                    assert!(!connection.has_begun);
                    return Some(Ok(reply));
                }
                Progress::Broken(failure) => return Some(Err(failure)),
                framed => panic!("{framed:?}"),
            }
        }
        None
    };
    let whole = feed(&[reply]);
    for cut in 1..reply.len() {
        assert_eq!(feed(&[&reply[..cut], &reply[cut..]]), whole, "cut at {cut}");
    }
    assert_eq!(feed(&reply.chunks(1).collect::<Vec<_>>()), whole, "byte by byte");
    match whole {
        Some(Ok(reply)) => Some(reply),
        Some(Err(failure)) => {
            assert_eq!(failure.kind, ErrorKind::BadFraming);
            None
        }
        None => panic!("incomplete: {}", reply.escape_ascii()),
    }
}

fn bulk(value: &[u8]) -> Vec<u8> {
    [format!("${}\r\n", value.len()).as_bytes(), value, b"\r\n"].concat()
}

#[test]
fn commands_are_arrays_of_bulk_strings() {
    let written = |words: &str, sizes: Sizes, key: u32| {
        let mut plan = plan(vec![command(words, RespExpect::Any)]);
        plan.values = sizes;
        let protocol = RespProtocol::new(&plan, 0, 1).unwrap();
        let length = protocol.commands[0].length(protocol.value(key).len() as u32);
        let mut bytes = b"before".to_vec();
        protocol.write(&mut protocol.connection(), 0, Drawn { command: 0, key, ..Drawn::default() }, &mut bytes);
        assert_eq!(bytes.len() - 6, length);
        assert!(length <= protocol.written_bytes_max());
        let value = String::from_utf8(protocol.value(key).to_vec()).unwrap();
        String::from_utf8(bytes[6..].to_vec()).unwrap().replace(&value, "VALUE")
    };
    let fixed = || Sizes::Fixed(10);
    assert_eq!(written("PING", fixed(), 5), "*1\r\n$4\r\nPING\r\n");
    assert_eq!(written("GET {key}", fixed(), 42), "*2\r\n$3\r\nGET\r\n$14\r\nk:000000000042\r\n");
    assert_eq!(
        written("SET {key} {value}", fixed(), u32::MAX),
        "*3\r\n$3\r\nSET\r\n$14\r\nk:004294967295\r\n$10\r\nVALUE\r\n"
    );
    for sizes in [Sizes::Range(9, 11), Sizes::List(vec![9, 10, 11, 1000])] {
        let text = written("HSET h:{key} f x{value}y", sizes, 1);
        let value = text.strip_prefix("*4\r\n$4\r\nHSET\r\n$16\r\nh:k:000000000001\r\n$1\r\nf\r\n$").unwrap();
        let (length, rest) = value.split_once("\r\n").unwrap();
        assert!((11..=13).contains(&length.parse().unwrap()) && rest == "xVALUEy\r\n", "{text}");
    }
    assert_eq!(written("X {value}{value}", fixed(), 0), "*2\r\n$1\r\nX\r\n$20\r\nVALUEVALUE\r\n");
}

#[test]
fn requests_are_drawn_by_weight_and_none_is_longer_than_the_longest() {
    let mut commands = vec![command("GET {key}", RespExpect::Value), command("SET {key} {value}", RespExpect::Ok)];
    commands[0].weight = 3.0;
    let mut plan = plan(commands);
    plan.values = Sizes::Range(1, 2000);
    let mut protocol = RespProtocol::new(&plan, 0, 1).unwrap();
    let (mut random, mut gets, mut bytes) = (1, 0, Vec::new());
    for _ in 0..20_000 {
        random = mix(random);
        let request = protocol.next_request(0, random);
        gets += u32::from(request.command == 0);
        bytes.clear();
        protocol.write(&mut protocol.connection(), 0, request, &mut bytes);
        assert!(bytes.len() <= protocol.written_bytes_max());
    }
    assert!((14_500..15_500).contains(&gets), "{gets}");
}

#[test]
fn replies_due_are_good_wherever_they_are_cut() {
    let request = Drawn { command: 0, key: 7, ..Drawn::default() };
    let good = |words, expect, reply: &[u8]| {
        let protocol = protocol(words, expect);
        let reply = outcome(&protocol, request, reply).unwrap();
        assert_eq!(reply.failure, None);
        model::resp::of_reply_code(reply.status).unwrap().1
    };
    assert_eq!(good("SET {key} {value}", RespExpect::Ok, b"+OK\r\n"), Outcome::Good);
    assert_eq!(good("PING", RespExpect::Pong, b"+PONG\r\n"), Outcome::Good);
    assert_eq!(good("INCR {key}", RespExpect::Integer, b":-9223372036854775808\r\n"), Outcome::Good);
    let get = protocol("GET {key}", RespExpect::Value);
    assert_eq!(good("GET {key}", RespExpect::Value, &bulk(get.value(7))), Outcome::Good);
    assert_eq!(good("GET {key}", RespExpect::Value, b"$-1\r\n"), Outcome::Nil);
    assert_eq!(good("GET {key}", RespExpect::Value, b"*-1\r\n"), Outcome::Nil);
    for array in ["*0\r\n", "*2\r\n$0\r\n\r\n*1\r\n:1\r\n", "*3\r\n+a\r\n-ERR b\r\n*2\r\n*0\r\n$-1\r\n"] {
        assert_eq!(good("LOADALL", RespExpect::Array, array.as_bytes()), Outcome::Good, "{array}");
        assert_eq!(good("X", RespExpect::Any, array.as_bytes()), Outcome::Good, "{array}");
    }
}

#[test]
fn wrong_replies_fail_and_leave_the_connection_in_use() {
    let request = Drawn { command: 0, key: 7, ..Drawn::default() };
    let failure = |expect, reply: &[u8]| {
        let reply = outcome(&protocol("GET {key}", expect), request, reply).unwrap();
        assert!(reply.keep);
        let failure = reply.failure.unwrap();
        assert!(describe(failure.detail).is_some(), "{failure:?}");
        (failure.kind, failure.detail, model::resp::of_reply_code(reply.status).unwrap().1)
    };
    let wrong = |detail: Detail| (ErrorKind::WrongContent, detail as u32, Outcome::Wrong);
    assert_eq!(failure(RespExpect::Ok, b"+QUEUED\r\n"), wrong(Detail::SimpleInstead));
    assert_eq!(failure(RespExpect::Ok, b"+OKAY\r\n"), wrong(Detail::SimpleInstead));
    assert_eq!(failure(RespExpect::Ok, b"$-1\r\n"), wrong(Detail::NilInstead));
    assert_eq!(failure(RespExpect::Pong, b"$4\r\nPONG\r\n"), wrong(Detail::BulkInstead));
    assert_eq!(failure(RespExpect::Value, b":1\r\n"), wrong(Detail::IntegerInstead));
    assert_eq!(failure(RespExpect::Integer, b"*1\r\n:1\r\n"), wrong(Detail::ArrayInstead));
    let value = protocol("GET {key}", RespExpect::Value).value(7).to_vec();
    let corrupted = |detail: Detail| (ErrorKind::CorruptedReply, detail as u32, Outcome::Wrong);
    for at in 0..value.len() {
        let mut other = value.clone();
        other[at] ^= 1;
        assert_eq!(failure(RespExpect::Value, &bulk(&other)), corrupted(Detail::ValueBytes));
    }
    assert_eq!(failure(RespExpect::Value, &bulk(&value[1..])), corrupted(Detail::ValueLength));
    assert_eq!(failure(RespExpect::Value, b"$0\r\n\r\n"), corrupted(Detail::ValueLength));
    for (text, word) in [("WRONGTYPE Operation", "WRONGTYPE"), ("ERR", "ERR"), ("MOVED 1 h:1", "MOVED"), ("", "other")]
    {
        let index = model::resp::ERROR_WORDS.iter().position(|(known, _)| *known == word).unwrap() as u8;
        let got = failure(RespExpect::Any, format!("-{text}\r\n").as_bytes());
        assert_eq!(got, (ErrorKind::ErrorReply, detail::of_error(index), Outcome::Error(index)), "{text}");
    }
    assert_eq!(failure(RespExpect::Any, b"-NOSUCHWORDTHATLONG x\r\n").2, Outcome::Error(27));
}

#[test]
fn values_that_are_not_to_be_validated_may_be_any() {
    let mut plan = plan(vec![command("GET {key}", RespExpect::Value)]);
    plan.validate = false;
    let protocol = RespProtocol::new(&plan, 0, 1).unwrap();
    let request = Drawn { command: 0, key: 7, ..Drawn::default() };
    assert_eq!(outcome(&protocol, request, b"$3\r\nany\r\n").unwrap().failure, None);
    assert_eq!(outcome(&protocol, request, b"$0\r\n\r\n").unwrap().failure, None);
}

#[test]
fn what_is_not_the_protocol_breaks_the_connection() {
    let protocol = protocol("X", RespExpect::Any);
    let request = Drawn { command: 0, key: 0, ..Drawn::default() };
    let long = format!("+{}", "x".repeat(RESP_LINE_BYTES_MAX as usize + 1));
    let deep = "*1\r\n".repeat(9);
    for (reply, detail) in [
        ("HTTP/1.1 200 OK\r\n", Detail::UnknownType),
        ("_\r\n", Detail::UnknownType),
        ("+a\rb", Detail::LineEnding),
        ("+a\n", Detail::LineEnding),
        (":1\rx", Detail::LineEnding),
        (":\r\n", Detail::Number),
        (":1-\r\n", Detail::Number),
        (":--1\r\n", Detail::Number),
        (":9223372036854775808\r\n", Detail::Number),
        (":99999999999999999999\r\n", Detail::Number),
        ("$-2\r\n", Detail::Number),
        ("*-2\r\n", Detail::Number),
        ("$536870913\r\n", Detail::BulkTooLong),
        ("$1\r\nab\r\n", Detail::BulkEnding),
        ("$1\r\na\rx", Detail::BulkEnding),
        ("*16777217\r\n", Detail::TooManyElements),
        ("*16777215\r\n*2\r\n", Detail::TooManyElements),
        (&deep, Detail::TooDeep),
        (&long, Detail::LineTooLong),
    ] {
        let mut whole = protocol.connection();
        let fed = protocol.feed(&mut whole, request, reply.as_bytes());
        let broken = Progress::Broken(Failure { kind: ErrorKind::BadFraming, detail: detail as u32 });
        assert_eq!(fed.progress, broken, "{}", &reply[..reply.len().min(40)]);
        let mut bytewise = protocol.connection();
        let mut last = Progress::More;
        for byte in reply.as_bytes().chunks(1) {
            last = protocol.feed(&mut bytewise, request, byte).progress;
            if last != Progress::More {
                break;
            }
        }
        assert_eq!(last, broken, "byte by byte: {}", &reply[..reply.len().min(40)]);
    }
}

#[test]
fn pipelined_replies_are_told_apart() {
    let protocol = protocol("X", RespExpect::Any);
    let request = Drawn { command: 0, key: 0, ..Drawn::default() };
    let bytes = b"+OK\r\n$3\r\nabc\r\n:1\r\n";
    let (mut connection, mut at, mut replies) = (protocol.connection(), 0, 0);
    while at < bytes.len() {
        let fed = protocol.feed(&mut connection, request, &bytes[at..]);
        assert!(matches!(fed.progress, Progress::Reply(_)));
        at += fed.consumed;
        replies += 1;
    }
    assert_eq!(replies, 3);
}

#[test]
fn an_end_or_silence_says_where_the_reply_stood() {
    let protocol = protocol("GET {key}", RespExpect::Value);
    let request = Drawn { command: 0, key: 0, ..Drawn::default() };
    for (bytes, detail) in [
        ("", Detail::BeforeFirstByte),
        ("$", Detail::InLine),
        ("$10\r\nab", Detail::InBulk),
        ("*2\r\n:1\r\n", Detail::InArray),
    ] {
        let mut connection = protocol.connection();
        if !bytes.is_empty() {
            assert_eq!(protocol.feed(&mut connection, request, bytes.as_bytes()).progress, Progress::More);
        }
        let mut other = connection;
        let early = Failure { kind: ErrorKind::ClosedEarly, detail: detail as u32 };
        assert_eq!(protocol.closed(&mut connection, request), Progress::Broken(early), "{bytes}");
        let late = Failure { kind: ErrorKind::ReplyTimeout, detail: detail as u32 };
        assert_eq!(protocol.timed_out(&mut other, 0, request), late);
    }
}

#[test]
fn a_greeting_is_answered_before_requests_are_sent() {
    let mut plan = plan(vec![command("PING", RespExpect::Pong)]);
    let login = Login { auth: true, user: Some("u".into()), password: Secret::from("p w"), database: Some(3) };
    plan.logins = vec![login, Login { database: Some(1), ..Login::default() }, Login::default()];
    let protocol = RespProtocol::new(&plan, 0, 1).unwrap();
    let auth = &b"*3\r\n$4\r\nAUTH\r\n$1\r\nu\r\n$3\r\np w\r\n*2\r\n$6\r\nSELECT\r\n$1\r\n3\r\n"[..];
    let greeting = |origin| {
        let mut bytes = Vec::new();
        protocol.greeting(&mut protocol.connection(), origin, 7, &mut bytes);
        bytes
    };
    assert_eq!(greeting(0), auth);
    assert_eq!(greeting(1), b"*2\r\n$6\r\nSELECT\r\n$1\r\n1\r\n");
    assert_eq!((greeting(2), greeting(9)), (vec![], vec![]));

    let end = |bytes: &[u8], size: usize| {
        let mut connection = protocol.connection();
        let (mut consumed, mut last) = (0, Progress::More);
        for piece in bytes.chunks(size) {
            let fed = protocol.greeted(&mut connection, 0, piece);
            consumed += fed.consumed;
            last = fed.progress;
            if last != Progress::More {
                break;
            }
        }
        (consumed, last)
    };
    let refused = |detail| Progress::Broken(Failure { kind: ErrorKind::LoginRefused, detail });
    for size in [1, 2, 100] {
        assert!(matches!(end(b"+OK\r\n+OK\r\n", size), (10, Progress::Reply(_))));
        assert_eq!(end(b"+OK\r\n+O", size).1, Progress::More);
        let wrongpass = detail::of_error(error_word(b"WRONGPASS"));
        assert_eq!(end(b"-WRONGPASS no\r\n", size).1, refused(wrongpass));
        assert_eq!(end(b"+OK\r\n-ERR index\r\n", size).1, refused(detail::of_error(0)));
        assert_eq!(end(b"HTTP", size).1, refused(Detail::UnknownType as u32));
    }
}

#[test]
fn what_cannot_be_asked_is_refused() {
    let of = |change: fn(&mut Resp)| {
        let mut plan = plan(vec![command("GET {key}", RespExpect::Value)]);
        change(&mut plan);
        RespProtocol::new(&plan, 0, 1).map(|_| ()).unwrap_err().to_string()
    };
    assert!(of(|p| p.commands.clear()).contains("no request"));
    assert!(of(|p| p.commands = vec![p.commands[0].clone(); COMMANDS_MAX + 1]).contains("at most 64"));
    assert!(of(|p| p.commands[0].words.clear()).contains("command is empty"));
    assert!(of(|p| p.commands[0].weight = f64::NAN).contains("weight NaN"));
    assert!(of(|p| p.commands[0].weight = 0.0).contains("weight 0"));
    assert!(of(|p| p.values = Sizes::Fixed(0)).contains("0 bytes"));
    let several = of(|p| {
        p.commands[0].words = vec!["X".into(), "{value}{value}".into()];
        p.values = Sizes::Range(1, 2);
    });
    assert!(several.contains("several {value} in one word"), "{several}");
}

#[test]
fn an_acknowledged_value_that_is_gone_is_a_lost_write_once() {
    let (set, get) = (command("SET {key} {value}", RespExpect::Ok), command("GET {key}", RespExpect::Value));
    let mut plan = plan(vec![set, get]);
    (plan.keys, plan.verify_writes) = (1, true);
    let mut protocol = RespProtocol::new(&plan, 0, 1).unwrap();
    let drawn = |protocol: &mut RespProtocol, command: u32| {
        (0..).map(|random| protocol.next_request(0, mix(random))).find(|drawn| drawn.command == command).unwrap()
    };
    let reply = |protocol: &RespProtocol, request: Drawn, bytes: &[u8]| match protocol
        .feed(&mut protocol.connection(), request, bytes)
        .progress
    {
        Progress::Reply(reply) => reply.failure.map(|failure| failure.kind),
        other => panic!("{other:?}"),
    };
    let before = drawn(&mut protocol, 1);
    let written = drawn(&mut protocol, 0);
    assert_eq!(reply(&protocol, written, b"+OK\r\n"), None);
    assert_eq!(reply(&protocol, before, b"$-1\r\n"), None, "it left before the write was acknowledged");
    let after = drawn(&mut protocol, 1);
    assert_eq!(reply(&protocol, after, b"$-1\r\n"), Some(ErrorKind::LostWrite));
    let again = drawn(&mut protocol, 1);
    assert_eq!(reply(&protocol, again, b"$-1\r\n"), None, "it is counted once");
    let refused = drawn(&mut protocol, 0);
    assert_eq!(reply(&protocol, refused, b"-ERR no\r\n"), Some(ErrorKind::ErrorReply));
    let nothing = drawn(&mut protocol, 1);
    assert_eq!(reply(&protocol, nothing, b"$-1\r\n"), None, "nor is what was refused");
}
