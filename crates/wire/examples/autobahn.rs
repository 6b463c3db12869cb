//! The client's WebSocket machine before the Autobahn test suite: `bench/autobahn.sh` starts it beside `wstest`.
//!
//! Asks the suite's server how many cases it has, echoes each message of each case, and asks for the report. Usage:
//! `cargo run --release -p plimsoll-wire --example autobahn -- 127.0.0.1:9001`

#![allow(clippy::print_stderr, reason = "it is a program")]

use std::error::Error;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;
use wire::SplitMix64;
use wire::websocket::{Answer, DeflateOffer, Event, Handshake, Key, Kind, Machine, Writer};

/// The suite's largest messages have 16 MiB.
const MESSAGE_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// The suite lets no case take longer.
const SILENCE_MAX: Duration = Duration::from_secs(120);

fn main() -> Result<(), Box<dyn Error>> {
    let address =
        std::env::args().nth(1).ok_or("expected the address of the suite's server, such as 127.0.0.1:9001")?;
    let mut random = SplitMix64::new(1);
    let count: u32 = String::from_utf8(connect(&address, "/getCaseCount", &mut random)?)?.trim().parse()?;
    for case in 1..=count {
        // What a case does to its connection is the suite's to judge.
        if let Err(error) = connect(&address, &format!("/runCase?case={case}&agent=plimsoll"), &mut random) {
            eprintln!("case {case} of {count}: {error}");
        }
    }
    connect(&address, "/updateReports?agent=plimsoll", &mut random)?;
    Ok(())
}

/// One connection, on which each message goes back; the last message that came.
fn connect(address: &str, target: &str, random: &mut SplitMix64) -> Result<Vec<u8>, Box<dyn Error>> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(SILENCE_MAX))?;
    let asked = Handshake {
        host: address.to_owned(),
        target: target.to_owned(),
        // As a load offers it: its messages are compressed beforehand, so no smaller window can be agreed on for them. The
        // suite calls what needs one unimplemented.
        deflate: Some(DeflateOffer { client_no_context_takeover: true, ..DeflateOffer::default() }),
        ..Handshake::default()
    };
    let key = Key::new([random.bits(), random.bits()]);
    let mut out = Vec::new();
    asked.write(&key, &mut out);
    stream.write_all(&out)?;
    let (mut answer, mut buffer) = (Answer::default(), vec![0; 65_536]);
    let (agreed, mut input) = loop {
        let n = read(&mut stream, &mut buffer)?;
        let (taken, agreed) = answer.take(&asked, &key, &buffer[..n]);
        if let Some(agreed) = agreed {
            let agreed = agreed.map_err(|refusal| format!("refused: {refusal:?}"))?;
            break (agreed, buffer[taken..n].to_vec());
        }
    };
    let mut machine = Machine::new(&agreed, MESSAGE_BYTES_MAX, random.bits());
    let mut writer = Writer::new(random.bits(), None, agreed.deflate.map(|deflate| deflate.client_window_bits));
    let (mut message, mut last) = (Vec::new(), Vec::new());
    loop {
        let (mut rest, mut is_over) = (&input[..], false);
        loop {
            out.clear();
            let (taken, event) = machine.take(rest);
            rest = &rest[taken..];
            let end: Option<Kind> = match event {
                Event::More => break,
                Event::Data(piece) => {
                    message.extend_from_slice(piece);
                    None
                }
                Event::End(kind) => Some(kind),
                Event::Closed(_) | Event::Bad(_) => {
                    is_over = true;
                    None
                }
                Event::Pinged | Event::Pong(_) => None,
            };
            if let Some(kind) = end {
                last = std::mem::take(&mut message);
                if target.starts_with("/runCase") && !machine.is_closing() {
                    writer.message(kind, &last, &mut out);
                }
            }
            machine.say(&mut out);
            stream.write_all(&out)?;
            if is_over {
                return Ok(last);
            }
        }
        let n = read(&mut stream, &mut buffer)?;
        input.clear();
        input.extend_from_slice(&buffer[..n]);
    }
}

fn read(stream: &mut TcpStream, buffer: &mut [u8]) -> Result<usize, Box<dyn Error>> {
    let n = stream.read(buffer)?;
    if n == 0 { Err("the server closed without a close frame".into()) } else { Ok(n) }
}
