//! From a target that waits for another server to what was found there, where that was observed too (`--behind`).
//!
//! What is behind the target is watched without a load of its own and judged so; its first finding is an event of the run. Which of
//! several is the one that the target waits for is told by the address that the target's connections go to: its port, and of several with
//! one port its host. Where that does not tell, nothing is said of whom.

use crate::facts::Facts;
use model::Event;
use model::event::BEHIND;
use model::finding::{Behind, WhatGives};
use std::net::SocketAddr;

/// Findings that name a server that the target asks.
const OF_BACKEND: [&str; 2] = ["backend-wait", "backend-limited"];
/// Readings of the target's connections that say to whom they go.
const READINGS_MIN: usize = 3;

/// The sentence, gone on with what was found behind the target.
pub(crate) fn with_behind(gives: WhatGives, facts: &Facts<'_>) -> WhatGives {
    if !gives.finding.as_deref().is_some_and(|id| OF_BACKEND.contains(&id)) {
        return gives;
    }
    let Some(asked) = facts.asked(READINGS_MIN) else { return gives };
    let remote = asked.first().and_then(|asked| asked.remote.parse::<SocketAddr>().ok());
    let Some(event) = remote.and_then(|remote| of(&facts.recording.events, remote)) else { return gives };
    let behind = Behind {
        observer: event.details.socket_local.clone().unwrap_or_default(),
        finding: event.details.of_kind.clone(),
        text: event.text.clone(),
    };
    WhatGives { text: format!("{}; {}", gives.text, event.text), behind: Some(behind), ..gives }
}

/// What was found at the server of that address.
fn of(events: &[Event], remote: SocketAddr) -> Option<&Event> {
    let all: Vec<&Event> = events.iter().filter(|event| event.kind == BEHIND).collect();
    let of_port = |port: Option<u16>| all.iter().copied().filter(move |event| event.details.port == port);
    let is_of_host = |event: &&Event| {
        let observer = event.details.socket_local.as_deref().and_then(|at| at.parse::<SocketAddr>().ok());
        observer.is_some_and(|at| at.ip().to_canonical() == remote.ip().to_canonical())
    };
    match only(of_port(Some(remote.port()))) {
        Some(one) => Some(one),
        None if of_port(Some(remote.port())).next().is_some() => only(of_port(Some(remote.port())).filter(is_of_host)),
        // One that was started for whatever it serves, where there is no other.
        None => only(all.iter().copied()).filter(|one| one.details.port.is_none()),
    }
}

/// The one that is alone.
fn only<'e>(mut found: impl Iterator<Item = &'e Event>) -> Option<&'e Event> {
    found.next().filter(|_| found.next().is_none())
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::event::Details;

    fn found(observer: &str, port: Option<u16>) -> Event {
        let socket_local = Some(observer.to_owned());
        Event::new(0, BEHIND, "found").with(Details { socket_local, port, ..Details::default() })
    }

    #[test]
    fn the_server_behind_is_known_by_its_port_and_of_several_by_its_host() {
        let remote: SocketAddr = "10.0.0.5:5432".parse().unwrap();
        let is = |events: &[Event]| of(events, remote).and_then(|event| event.details.socket_local.clone());
        let at = |text: &str| Some(text.to_owned());
        assert_eq!(is(&[]), None);
        assert_eq!(is(&[found("db1:4500", Some(5432)), found("cache:4500", Some(6379))]), at("db1:4500"));
        assert_eq!(is(&[found("cache:4500", Some(6379))]), None, "another port");
        assert_eq!(is(&[found("db1:4500", None)]), at("db1:4500"), "the only one there is");
        assert_eq!(is(&[found("db1:4500", None), found("cache:4500", Some(6379))]), None, "who it is is not known");
        let two = [found("10.0.0.4:4500", Some(5432)), found("10.0.0.5:4500", Some(5432))];
        assert_eq!(is(&two), at("10.0.0.5:4500"));
        assert_eq!(is(&[found("db1:4500", Some(5432)), found("db2:4500", Some(5432))]), None);
    }
}
