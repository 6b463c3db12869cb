//! Requests that name a key, `{{key}}`: which key each has, and whether what was acknowledged of it is there when it is read.
//!
//! What a request does to a key follows from its method; what a reply says of it, from its status: a write counts as
//! acknowledged by a good reply that says it is done, and a read has found nothing where the status is 404 or 410. Where
//! requests delete, each worker draws keys of its own, as it must know of every removal (`remembered`).
//! Not here: what a value is. A reply that is good otherwise counts as the value being there, whatever its body.
//! Cost: a key is drawn for each request that is a template, if any names one; nothing for plans without keys.

use super::Drawn;
use super::detail::Detail;
use crate::remembered::{AsSent, Remembered};
use crate::resp::Keys;
use crate::{Failure, WireError};
use model::ErrorKind;
use model::plan::Http1;
use model::workload::http::Use;

/// The keys of one worker's requests.
#[derive(Debug)]
pub struct Keyed {
    keys: Keys,
    /// The key of number n is the first one and n steps.
    first: u32,
    step: u32,
    /// What each request does to its key; those that name none do nothing to any.
    uses: Vec<Use>,
    remembered: Option<Remembered>,
}

impl Keyed {
    /// Those of a worker, of so many; `names_key` says of each request whether its target names one. `None` where the plan
    /// has no keys.
    ///
    /// # Errors
    /// Fewer keys than workers, where each needs one of its own.
    pub fn new(
        plan: &Http1,
        names_key: impl Fn(usize) -> bool,
        worker: u16,
        workers: u16,
    ) -> Result<Option<Keyed>, WireError> {
        let Some(keys) = &plan.keys else { return Ok(None) };
        let use_of = |(index, request): (usize, &model::plan::HttpRequest)| match names_key(index) {
            true => Use::of(&request.method),
            false => Use::Nothing,
        };
        let uses: Vec<Use> = plan.requests.iter().enumerate().map(use_of).collect();
        let count = keys.count.max(1);
        let are_removed = keys.verify_writes && uses.contains(&Use::Deletes);
        let (worker_of_all, all) = (u32::from(worker), u32::from(workers.max(1)));
        if are_removed && count < all {
            return Err(WireError::TooFewKeys { keys: count, workers });
        }
        let remembered = keys.verify_writes.then(|| Remembered::new(count, are_removed));
        let (keys, first, step) = match are_removed {
            // Those of the same remainder.
            true => {
                (Keys::new(keys.distribution, (count - worker_of_all % all).div_ceil(all), 0, 1), worker_of_all, all)
            }
            false => (Keys::new(keys.distribution, count, worker, workers), 0, 1),
        };
        Ok(Some(Keyed { keys, first, step, uses, remembered }))
    }

    /// The next key, from 0 on.
    #[inline]
    pub fn next(&mut self, random: u64) -> u32 {
        self.first + self.keys.next(random) * self.step
    }

    /// A request is about to leave: what is known of its key.
    #[inline]
    pub fn sent(&self, request: u32, key: u32) -> AsSent {
        let Some(remembered) = &self.remembered else { return AsSent::default() };
        match self.uses.get(request as usize) {
            Some(Use::Deletes) => {
                remembered.removal_sent(key);
                AsSent::default()
            }
            _ => remembered.sent(key),
        }
    }

    /// What a whole reply says of the request's key; the verdict on it.
    #[inline]
    pub fn judge(&self, drawn: Drawn, status: u16, failure: Option<Failure>) -> Option<Failure> {
        let Some(remembered) = &self.remembered else { return failure };
        match self.uses.get(drawn.request as usize) {
            Some(Use::Reads) if Use::is_nothing(status) && remembered.is_lost(drawn.key, drawn.as_sent) => {
                return Some(Failure { kind: ErrorKind::LostWrite, detail: Detail::LostWrite as u32 });
            }
            Some(Use::Writes) if failure.is_none() && Use::is_done(status) => {
                remembered.acknowledged(drawn.key, drawn.as_sent);
            }
            // Of any other status it is not known whether it is still to be done, by a server behind this one.
            Some(Use::Deletes) if Use::is_done(status) || Use::is_nothing(status) => remembered.removal_done(drawn.key),
            _ => {}
        }
        failure
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::get;
    use super::super::{Connection, Http1Protocol};
    use super::*;
    use crate::random::mix;
    use crate::{Progress, Protocol};
    use model::plan::HttpRequest;
    use model::resp::KeyDistribution;
    use model::workload::http::HttpKeys;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    /// The places of the methods in [`plan`].
    const GET: u32 = 0;
    const PUT: u32 = 1;
    const DELETE: u32 = 2;

    fn plan(methods: &[&str], count: u32) -> Http1 {
        let request = |method: &&str| HttpRequest {
            method: (*method).to_owned(),
            target: "/items/{{key}}".into(),
            is_template: true,
            ..get()
        };
        let mut requests: Vec<HttpRequest> = methods.iter().map(request).collect();
        for request in requests.iter_mut().filter(|request| Use::of(&request.method) != Use::Writes) {
            request.expect.status = vec![(100, 399), (404, 404), (410, 410)];
        }
        let keys = HttpKeys { count, distribution: KeyDistribution::Uniform, verify_writes: true };
        Http1 { requests, keep_alive: true, head_bytes_max: 512, keys: Some(keys), ..Http1::default() }
    }

    /// A request of a user's, and what it is.
    struct Sent {
        connection: Connection,
        drawn: Drawn,
    }

    /// Draws until it is the wanted request.
    fn sent(protocol: &mut Http1Protocol, request: u32, random: &mut u64) -> Sent {
        loop {
            *random = mix(*random);
            let mut connection = protocol.connection();
            // The draw of the request is a function of these bits alone, and draws no key.
            if protocol.next_request(0, *random).request == request {
                let drawn = protocol.next_of_user(&mut connection, 0, *random);
                let mut bytes = Vec::new();
                protocol.write(&mut connection, 0, drawn, &mut bytes);
                let line = format!(" /items/{} HTTP/1.1\r\n", drawn.key + 1);
                assert!(String::from_utf8(bytes).unwrap().contains(&line), "what is written is what is remembered");
                return Sent { connection, drawn };
            }
        }
    }

    /// What a reply of a status comes to, whole or cut anywhere.
    fn ended(protocol: &Http1Protocol, mut sent: Sent, status: u16, cut: usize) -> Option<ErrorKind> {
        let length = if status == 204 { "" } else { "Content-Length: 2\r\n\r\nok" };
        let bytes = format!("HTTP/1.1 {status} X\r\n{length}{}", if status == 204 { "\r\n" } else { "" });
        let (first, second) = bytes.as_bytes().split_at(cut.min(bytes.len() - 1));
        for piece in [first, second].into_iter().filter(|piece| !piece.is_empty()) {
            match protocol.feed(&mut sent.connection, sent.drawn, piece).progress {
                Progress::More => {}
                Progress::Reply(reply) => return reply.failure.map(|failure| failure.kind),
                other => panic!("{other:?}"),
            }
        }
        panic!("incomplete: {bytes}");
    }

    #[test]
    fn what_was_acknowledged_and_is_not_found_is_lost_once() {
        for cut in 0..40 {
            for nothing in [404, 410] {
                let mut protocol = Http1Protocol::new(&plan(&["GET", "PUT"], 1)).unwrap();
                let random = &mut 7;
                let early = sent(&mut protocol, GET, random);
                let put = sent(&mut protocol, PUT, random);
                assert_eq!(ended(&protocol, put, 201, cut), None);
                assert_eq!(ended(&protocol, early, nothing, cut), None, "it left before that was acknowledged");
                for status in [200, 204, 301] {
                    let there = sent(&mut protocol, GET, random);
                    assert_eq!(ended(&protocol, there, status, cut), None);
                }
                let after = sent(&mut protocol, GET, random);
                assert_eq!(ended(&protocol, after, nothing, cut), Some(ErrorKind::LostWrite));
                let again = sent(&mut protocol, GET, random);
                assert_eq!(ended(&protocol, again, nothing, cut), None, "it is counted once");
                for (status, failure) in [
                    (202, None),
                    (301, None),
                    (404, Some(ErrorKind::UnexpectedStatus)),
                    (507, Some(ErrorKind::UnexpectedStatus)),
                ] {
                    let put = sent(&mut protocol, PUT, random);
                    assert_eq!(ended(&protocol, put, status, cut), failure);
                    let read = sent(&mut protocol, GET, random);
                    assert_eq!(ended(&protocol, read, nothing, cut), None, "{status} acknowledges nothing");
                }
            }
        }
    }

    #[test]
    fn a_request_that_is_tried_again_by_another_user_names_the_key_it_had() {
        let mut protocol = Http1Protocol::new(&plan(&["GET", "PUT"], 1000)).unwrap();
        let [mut one, mut other] = [protocol.connection(), protocol.connection()];
        let [first, second] = [11, 12].map(mix);
        let drawn = protocol.next_of_user(&mut one, 0, first);
        assert_ne!(protocol.next_of_user(&mut other, 0, second).key, drawn.key);
        let mut bytes = Vec::new();
        protocol.write(&mut other, 0, drawn, &mut bytes);
        assert!(String::from_utf8(bytes).unwrap().contains(&format!("/items/{} ", drawn.key + 1)));
    }

    #[test]
    fn a_reply_that_ends_with_the_connection_is_judged_as_any() {
        let mut protocol = Http1Protocol::new(&plan(&["HEAD", "PATCH"], 1)).unwrap();
        let random = &mut 3;
        let mut write = sent(&mut protocol, PUT, random);
        let bytes = b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhalf";
        assert_eq!(protocol.feed(&mut write.connection, write.drawn, bytes).progress, Progress::More);
        assert!(matches!(protocol.closed(&mut write.connection, write.drawn), Progress::Reply(_)));
        let mut read = sent(&mut protocol, GET, random);
        let bytes = b"HTTP/1.1 404 Not Found\r\nContent-Length: 9\r\n\r\n";
        let Progress::Reply(reply) = protocol.feed(&mut read.connection, read.drawn, bytes).progress else { panic!() };
        assert_eq!(reply.failure.map(|failure| failure.kind), Some(ErrorKind::LostWrite));
        assert!(!read.connection.user.unwrap().is_well, "a sequence begins anew after it");
    }

    #[test]
    fn workers_that_delete_have_keys_of_their_own() {
        for (count, workers) in [(7, 3), (3, 3), (8, 4), (1, 1)] {
            let mut seen = BTreeSet::new();
            for worker in 0..workers {
                let mut protocol =
                    Http1Protocol::of_worker(&plan(&["GET", "PUT", "DELETE"], count), worker, workers).unwrap();
                let mut own = BTreeSet::new();
                for random in 0..1000 {
                    let mut connection = protocol.connection();
                    own.insert(protocol.next_of_user(&mut connection, 0, mix(random)).key);
                }
                assert!(own.iter().all(|key| *key < count && seen.insert(*key)), "{worker} of {workers}: {own:?}");
            }
            assert_eq!(seen.len() as u32, count);
        }
        let too_few = Http1Protocol::of_worker(&plan(&["GET", "PUT", "DELETE"], 3), 0, 4);
        assert!(matches!(too_few, Err(WireError::TooFewKeys { keys: 3, workers: 4 })));
        assert!(
            Http1Protocol::of_worker(&plan(&["GET", "PUT"], 3), 0, 4).is_ok(),
            "keys that nobody deletes are shared"
        );
    }

    #[test]
    fn a_round_of_a_sequence_has_one_key_and_nothing_is_remembered_unasked() {
        let mut plan = plan(&["PUT", "GET"], 1000);
        plan.sequence = true;
        plan.keys.as_mut().unwrap().verify_writes = false;
        let mut protocol = Http1Protocol::new(&plan).unwrap();
        let mut connection = protocol.connection();
        let mut keys = BTreeSet::new();
        for random in 0..50 {
            let put = protocol.next_of_user(&mut connection, 0, mix(random));
            let key = put.key;
            let put = protocol.feed(&mut connection, put, b"HTTP/1.1 201 C\r\nContent-Length: 0\r\n\r\n").progress;
            assert!(matches!(put, Progress::Reply(_)));
            let drawn = protocol.next_of_user(&mut connection, 0, mix(random + 1000));
            assert_eq!((drawn.request, drawn.key), (1, key));
            keys.insert(drawn.key);
            let get = protocol.feed(&mut connection, drawn, b"HTTP/1.1 404 N\r\nContent-Length: 0\r\n\r\n").progress;
            assert!(matches!(get, Progress::Reply(reply) if reply.failure.is_none()));
        }
        assert!(keys.len() > 30, "each round has another: {keys:?}");
    }

    /// What happens next among requests under way: which of them, and what.
    #[derive(Debug, Clone, Copy)]
    enum Step {
        Send(u32),
        /// The server does it.
        Do(usize),
        /// Its reply comes, if it is done.
        Answer(usize),
        /// A gateway answers with this status, whatever is behind it; the server may do it later.
        Gateway(usize, u16),
        /// The client waits no longer; the server may do it later.
        GiveUp(usize),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let at = || 0usize..6;
        let step = prop_oneof![
            4 => prop::sample::select(vec![GET, GET, PUT, PUT, DELETE]).prop_map(Step::Send),
            4 => at().prop_map(Step::Do),
            4 => at().prop_map(Step::Answer),
            1 => (at(), prop::sample::select(vec![202u16, 502, 504])).prop_map(|(at, status)| Step::Gateway(at, status)),
            1 => at().prop_map(Step::GiveUp),
        ];
        prop::collection::vec(step, 0..120)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4000))]

        /// A server that loses nothing, and does what is under way in any order, also after the client has given it up.
        #[test]
        fn a_server_that_loses_nothing_is_not_said_to(steps in steps(), seed: u64, cut in 0usize..60) {
            let mut protocol = Http1Protocol::new(&plan(&["GET", "PUT", "DELETE"], 2)).unwrap();
            let mut random = seed;
            let mut there = BTreeSet::new();
            // What the client waits for, with the status once it is done; what it does not, with whether it is still to be done.
            let mut under_way: Vec<(Sent, Option<u16>)> = Vec::new();
            let mut left: Vec<Drawn> = Vec::new();
            let mut does = |drawn: Drawn| match drawn.request {
                GET => if there.contains(&drawn.key) { 200 } else { 404 },
                PUT => if there.insert(drawn.key) { 201 } else { 204 },
                _ => if there.remove(&drawn.key) { 204 } else { 404 },
            };
            for step in steps {
                match step {
                    Step::Send(request) => under_way.push((sent(&mut protocol, request, &mut random), None)),
                    // What was given up stands behind what is waited for.
                    Step::Do(at) => match under_way.get_mut(at) {
                        Some((sent, status @ None)) => *status = Some(does(sent.drawn)),
                        Some(_) => {}
                        None if !left.is_empty() => { does(left.swap_remove(at % left.len())); }
                        None => {}
                    },
                    Step::Answer(at) => if let Some((_, Some(status))) = under_way.get(at) {
                        let status = *status;
                        let (sent, _) = under_way.remove(at);
                        prop_assert_eq!(ended(&protocol, sent, status, cut), None);
                    },
                    Step::Gateway(at, answered) => if at < under_way.len() {
                        let (sent, status) = under_way.remove(at);
                        left.extend(status.is_none().then_some(sent.drawn));
                        prop_assert_ne!(ended(&protocol, sent, answered, cut), Some(ErrorKind::LostWrite));
                    },
                    Step::GiveUp(at) => if at < under_way.len() {
                        let (mut sent, status) = under_way.remove(at);
                        left.extend(status.is_none().then_some(sent.drawn));
                        protocol.timed_out(&mut sent.connection, 0, sent.drawn);
                    },
                }
            }
        }
    }
}
