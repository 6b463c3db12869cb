//! The client's WebSocket machine against a server that nobody here wrote, over real sockets.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![allow(clippy::result_large_err, reason = "what a callback of tungstenite returns is its choice")]

use model::plan::{Content, Sizes};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;
use tungstenite::handshake::server::{ErrorResponse, Request, Response};
use tungstenite::protocol::WebSocketConfig;
use tungstenite::{Message, WebSocket};
use wire::websocket::{Agreed, Answer, Detail, Event, Handshake, Key, Kind, Machine, Messages, Refusal, Shape};

/// No test that passes comes near.
const HANG_GUARD: Duration = Duration::from_secs(20);
const LIMIT: u64 = 1 << 20;

/// A server of tungstenite's that serves one connection, and the socket to it.
fn serve<T: Send + 'static>(
    serve: impl FnOnce(TcpStream) -> T + Send + 'static,
) -> (TcpStream, std::thread::JoinHandle<T>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    stream.set_read_timeout(Some(HANG_GUARD)).unwrap();
    stream.set_nodelay(true).unwrap();
    (stream, std::thread::spawn(move || serve(listener.accept().unwrap().0)))
}

fn asked() -> Handshake {
    Handshake { host: "127.0.0.1".to_owned(), target: "/echo".to_owned(), ..Handshake::default() }
}

/// Says the handshake; what is answered, and bytes behind it.
fn shake(stream: &mut TcpStream, asked: &Handshake, piece: usize) -> (Result<Agreed, Refusal>, Vec<u8>) {
    let key = Key::new([0x0123_4567_89ab_cdef, 42]);
    let mut request = Vec::new();
    asked.write(&key, &mut request);
    stream.write_all(&request).unwrap();
    let (mut answer, mut buffer) = (Answer::default(), vec![0; piece]);
    loop {
        let n = stream.read(&mut buffer).unwrap();
        assert!(n > 0, "the server closed in the handshake");
        let (taken, agreed) = answer.take(asked, &key, &buffer[..n]);
        if let Some(agreed) = agreed {
            return (agreed, buffer[taken..n].to_vec());
        }
    }
}

fn say(stream: &mut TcpStream, machine: &mut Machine) {
    let mut bytes = Vec::new();
    machine.say(&mut bytes);
    stream.write_all(&bytes).unwrap();
}

/// Reads until `until` says that it has come; sends what the machine must.
fn hear(stream: &mut TcpStream, machine: &mut Machine, piece: usize, mut until: impl FnMut(&Event<'_>) -> bool) {
    let mut buffer = vec![0; piece];
    loop {
        let n = stream.read(&mut buffer).unwrap();
        assert!(n > 0, "the server closed");
        let (mut rest, mut is_over) = (&buffer[..n], false);
        loop {
            let (taken, event) = machine.take(rest);
            rest = &rest[taken..];
            is_over |= until(&event);
            if event == Event::More {
                break;
            }
            say(stream, machine);
        }
        say(stream, machine);
        if is_over {
            return;
        }
    }
}

fn echo(mut server: WebSocket<TcpStream>) -> (u32, Option<tungstenite::Error>) {
    let mut messages = 0;
    loop {
        match server.read() {
            Ok(message @ (Message::Text(_) | Message::Binary(_))) => {
                messages += 1;
                server.send(message).unwrap();
            }
            Ok(_) => {}
            Err(tungstenite::Error::ConnectionClosed) => return (messages, None),
            Err(error) => return (messages, Some(error)),
        }
    }
}

#[test]
fn messages_come_back_as_they_went() {
    for (kind, fragment_bytes, piece) in [
        (Kind::Text, None, 65_536),
        (Kind::Binary, None, 1000),
        (Kind::Text, Some(50), 7),
        (Kind::Binary, Some(4096), 1),
    ] {
        let (mut stream, server) = serve(|stream| echo(tungstenite::accept(stream).unwrap()));
        let (agreed, behind) = shake(&mut stream, &asked(), piece);
        assert!(behind.is_empty());
        let mut machine = Machine::new(&agreed.unwrap(), LIMIT, 3);
        let sizes = Sizes::List(vec![1, 125, 126, 300, 70_000]);
        let shape = Shape { kind, sizes, content: Content::Binary, fragment_bytes, window_bits: None };
        let mut messages = Messages::new(&shape, 11).unwrap();
        let blob = messages.blob();
        for _ in 0..10 {
            let request = messages.draw(0);
            stream.write_all(&blob[request.start as usize..][..request.length as usize]).unwrap();
            let mut came = Vec::new();
            hear(&mut stream, &mut machine, piece, |event| {
                if let Event::Data(data) = event {
                    came.extend_from_slice(data);
                }
                *event == Event::End(kind)
            });
            assert!(came == messages.message(request), "{kind:?} {fragment_bytes:?}");
        }
        machine.close(wire::websocket::NORMAL);
        say(&mut stream, &mut machine);
        hear(&mut stream, &mut machine, piece, |event| *event == Event::Closed(Some(1000)));
        let (messages, error) = server.join().unwrap();
        assert!(messages == 10 && error.is_none(), "{messages} {error:?}");
    }
}

#[test]
fn pings_are_answered_and_closes_too() {
    let (mut stream, server) = serve(|stream| {
        let mut server = tungstenite::accept(stream).unwrap();
        server.send(Message::Ping(b"there?".as_slice().into())).unwrap();
        let pong = server.read().unwrap();
        server.close(None).unwrap();
        (
            pong,
            matches!(server.read(), Ok(Message::Close(_))),
            matches!(server.read(), Err(tungstenite::Error::ConnectionClosed)),
        )
    });
    // Byte by byte: the ping may stand right behind the answer.
    let (agreed, behind) = shake(&mut stream, &asked(), 1);
    assert!(behind.is_empty());
    let mut machine = Machine::new(&agreed.unwrap(), LIMIT, 3);
    hear(&mut stream, &mut machine, 100, |event| *event == Event::Pinged);
    hear(&mut stream, &mut machine, 100, |event| matches!(event, Event::Closed(_)));
    assert_eq!(server.join().unwrap(), (Message::Pong(b"there?".as_slice().into()), true, true));
}

#[test]
fn fragments_of_the_server_are_put_together() {
    let (mut stream, server) = serve(|stream| {
        let config = WebSocketConfig::default().max_frame_size(None);
        let mut server = tungstenite::accept_with_config(stream, Some(config)).unwrap();
        for message in [Message::text("κόσμε".repeat(30_000)), Message::text("")] {
            server.send(message).unwrap();
        }
        server.close(None).unwrap();
        while server.read().is_ok() {}
    });
    let (agreed, behind) = shake(&mut stream, &asked(), 1);
    assert!(behind.is_empty());
    let mut machine = Machine::new(&agreed.unwrap(), LIMIT, 3);
    let (mut came, mut ends) = (Vec::new(), 0);
    hear(&mut stream, &mut machine, 333, |event| {
        match event {
            Event::Data(data) => came.extend_from_slice(data),
            Event::End(kind) => ends += usize::from(*kind == Kind::Text),
            _ => {}
        }
        matches!(event, Event::Closed(_))
    });
    assert!(came == "κόσμε".repeat(30_000).as_bytes() && ends == 2);
    server.join().unwrap();
}

#[test]
fn subprotocols_and_refusals_are_understood() {
    let asked = Handshake { subprotocols: vec!["a".to_owned(), "b".to_owned()], ..asked() };
    for (chosen, expected) in [("b", Ok(Some(1))), ("c", Err(Refusal::Bad(Detail::Subprotocol)))] {
        let (mut stream, server) = serve(move |stream| {
            let choose = |_: &Request, mut answer: Response| {
                answer.headers_mut().insert("Sec-WebSocket-Protocol", chosen.parse().unwrap());
                Ok(answer)
            };
            let _ = tungstenite::accept_hdr(stream, choose).map(echo);
        });
        let (agreed, _) = shake(&mut stream, &asked, 50);
        assert_eq!(agreed.map(|agreed| agreed.subprotocol), expected);
        drop(stream);
        server.join().unwrap();
    }
    let (mut stream, server) = serve(|stream| {
        let refuse = |_: &Request, _: Response| -> Result<Response, ErrorResponse> {
            Err(tungstenite::http::Response::builder().status(403).body(Some("no".to_owned())).unwrap())
        };
        tungstenite::accept_hdr(stream, refuse).is_err()
    });
    let (agreed, _) = shake(&mut stream, &asked, 50);
    assert_eq!(agreed, Err(Refusal::Status(403)));
    assert!(server.join().unwrap());
}

#[test]
fn keys_are_of_random_bits() {
    let mut masks = wire::SplitMix64::new(1);
    let keys: std::collections::BTreeSet<_> =
        (0..1000).map(|_| Key::new([masks.bits(), masks.bits()]).text().to_vec()).collect();
    assert_eq!(keys.len(), 1000);
}
