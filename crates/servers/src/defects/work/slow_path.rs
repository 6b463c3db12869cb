//! Some of what can be asked costs far more than the rest: a path that is looked for in a list from its start, a message
//! whose handling grows with its square, a configuration read for one folder only.
//!
//! Which requests these are is a function of their text alone, so the same ones are slow each time: of HTTP and of names
//! by the target or key (its FNV-1a hash), of messages by their length.

use crate::defects::able::Able;
use crate::defects::defect::{Defect, Part, Setting, Strength, Way};
use crate::defects::hook::{Hook, Manner, Request};
use crate::defects::server::Server;
use crate::defects::shared::Among;
use crate::defects::work::held::Held;
use crate::error::ServeError;
use std::time::Duration;

pub(super) const DEFECT: Defect = Defect {
    name: "slow-path",
    servers: &[Server::Echo, Server::Http, Server::WebSocket, Server::Proxy, Server::Names],
    strength: Strength::Time(Duration::from_millis(5)),
    parts: &[Part { name: "of", default: Strength::Count(8) }, Part { name: "above", default: Strength::Bytes(1024) }],
    ways: &[Way::Compute, Way::Sleep],
    needs: &[Able::Requests],
    about: "one URL or name of so many (of=8), always the same, or a message longer than above=1KiB, takes this long in its worker, computing or asleep",
    makes: "slow-path: the cost of a request depends on what is asked, by a factor of five and more, and the mix explains the slow quantiles",
    see: "curl -s -o /dev/null -w '%{time_total} %{url}\\n' 'http://127.0.0.1:PORT/bytes?n=[1-40]': a few of the URLs take this long, the same ones each time",
    make: |setting| Ok(Box::new(SlowPath { setting, server: Server::Http })),
};

#[derive(Debug)]
struct SlowPath {
    setting: Setting,
    server: Server,
}

impl Hook for SlowPath {
    fn carried_by(&mut self, server: Server, _: Among) -> Result<(), ServeError> {
        self.server = server;
        Ok(())
    }

    fn manner(&self, manner: &mut Manner) {
        manner.hears = true;
    }

    fn request(&self, request: &Request<'_>) {
        if self.is_slow(request.text, request.length) {
            Held::of(&self.setting).hold();
        }
    }
}

impl SlowPath {
    fn is_slow(&self, text: &[u8], length: usize) -> bool {
        let is_one = |name: &[u8]| fnv1a(name).is_multiple_of(self.setting.part("of").max(1));
        match self.server {
            // The target is the second word of the request line.
            Server::Http | Server::Proxy => text.split(|byte| *byte == b' ').nth(1).is_some_and(is_one),
            Server::Names => is_one(text),
            Server::Echo | Server::WebSocket => length as u64 > self.setting.part("above"),
        }
    }
}

/// FNV-1a of 64 bits (Fowler, Noll, Vo), its halves folded: the low bits alone follow the last byte.
fn fnv1a(bytes: &[u8]) -> u64 {
    let hash = bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3));
    hash ^ hash >> 32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_slow(server: Server, text: &str, length: usize) -> bool {
        SlowPath { setting: Setting::new(&DEFECT), server }.is_slow(text.as_bytes(), length)
    }

    #[test]
    fn about_one_target_or_name_of_eight_is_slow_and_the_same_each_time() {
        let slow = |server, text: fn(usize) -> String| {
            (0..800).map(text).filter(|text| is_slow(server, text, 1)).collect::<Vec<_>>()
        };
        let targets = slow(Server::Http, |n| format!("GET /bytes?n={n} HTTP/1.1\r\n"));
        assert!((60..140).contains(&targets.len()), "{}", targets.len());
        assert_eq!(targets, slow(Server::Proxy, |n| format!("GET /bytes?n={n} HTTP/1.1\r\n")));
        let names = slow(Server::Names, |n| format!("key:{n:012}"));
        assert!((60..140).contains(&names.len()), "{}", names.len());
    }

    #[test]
    fn long_messages_are_slow() {
        assert!(is_slow(Server::Echo, "", 1025) && !is_slow(Server::Echo, "", 1024));
    }
}
