//! A RESP command that makes a server crash, sent once to an address that the user named.
//!
//! Without a command it is OOPS, which `plimsoll serve names` has for this: its store panics, and is started anew. Sent as an
//! array of strings on a connection of its own, which ends with the answer or the server. Any server that speaks RESP takes
//! it: `oops 127.0.0.1:6379 DEBUG SEGFAULT`. What it does there is the user's to know. Nothing of it can be undone.

use super::{Act, Around, Deed, Fault, Kind, Undoing};
use crate::error::{ApplyError, plain};
use crate::limits::OOPS_WAIT;
use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::Arc;

/// What `plimsoll serve names` crashes at.
const COMMAND: &str = "OOPS";

/// What is said of it.
pub(crate) const KIND: Kind = Kind {
    name: "oops",
    takes: "HOST:PORT [WORD…]",
    example: "127.0.0.1:6379",
    does: "sends a RESP command that makes a server crash, OOPS where none is given",
    needs: "a connection to the server",
    undone: Undoing::Never("what crashed has crashed"),
    parse: |words| {
        let address = words.address()?;
        let mut command = Vec::new();
        while words.has_more() {
            command.push(words.next("a word of the command")?);
        }
        if command.is_empty() {
            command.push(COMMAND.to_owned());
        }
        Ok(Arc::new(Oops { address, command }))
    },
};

#[derive(Debug, Clone)]
struct Oops {
    address: String,
    command: Vec<String>,
}

impl Fault for Oops {
    fn plan(&self, _: &dyn Around) -> Result<Vec<Deed>, ApplyError> {
        Ok(vec![Deed::Act(Box::new(self.clone()))])
    }
}

impl Act for Oops {
    fn words(&self) -> String {
        format!("{} to {}", self.command.join(" "), self.address)
    }

    /// Looked up, and not connected to: a connection is seen by the server.
    fn may(&self) -> Result<(), ApplyError> {
        let found = self.address.to_socket_addrs().map_err(|error| self.failed(&error))?.next();
        found.map(drop).ok_or_else(|| self.failed(&std::io::Error::other("it has no address")))
    }

    fn begin(&mut self) -> Result<(), ApplyError> {
        let address = self.address.to_socket_addrs().map_err(|error| self.failed(&error))?.next();
        let address = address.ok_or_else(|| self.failed(&std::io::Error::other("it has no address")))?;
        let mut stream = TcpStream::connect_timeout(&address, OOPS_WAIT).map_err(|error| self.failed(&error))?;
        let sent = stream.set_read_timeout(Some(OOPS_WAIT)).and_then(|()| stream.write_all(&encoded(&self.command)));
        sent.map_err(|error| self.failed(&error))?;
        // An answer, an end or a reset: whichever comes, the server has had it. So it has when nothing comes.
        let _ = stream.read(&mut [0; 512]);
        Ok(())
    }
}

impl Oops {
    fn failed(&self, error: &std::io::Error) -> ApplyError {
        ApplyError::Missing {
            name: format!("oops {}", self.address),
            expected: "a server there".to_owned(),
            reason: plain(error),
        }
    }
}

/// An array of bulk strings (the RESP specification, "Sending commands to a Redis server").
fn encoded(words: &[String]) -> Vec<u8> {
    let words_of = |word: &String| format!("${}\r\n{word}\r\n", word.len());
    format!("*{}\r\n{}", words.len(), words.iter().map(words_of).collect::<String>()).into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::faults::Asked;

    #[test]
    fn it_sends_the_words_as_an_array() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let text = format!("oops {} DEBUG SEGFAULT", listener.local_addr().unwrap());
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut got = [0; 29];
            stream.read_exact(&mut got).unwrap();
            got
        });
        let deeds = Asked::parse(&text).unwrap().plan(&super::super::Nobody).unwrap();
        let [Deed::Act(mut act)] = <[Deed; 1]>::try_from(deeds).unwrap() else { panic!("it is an act") };
        assert!(act.words().starts_with("DEBUG SEGFAULT to 127.0.0.1:"));
        act.begin().unwrap();
        assert_eq!(&server.join().unwrap(), b"*2\r\n$5\r\nDEBUG\r\n$8\r\nSEGFAULT\r\n");
        for bad in ["oops", "oops localhost", "oops :1", "oops localhost:0", "oops localhost:99999"] {
            assert!(Asked::parse(bad).is_err(), "{bad}");
        }
    }
}
