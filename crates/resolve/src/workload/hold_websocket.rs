//! `hold+ws://`: WebSocket connections that are held, each pinged every so often.
//!
//! What opens one is resolved as for `ws://`, when connections are made and pings due as for `hold://`. A server may speak
//! on such a connection at any time, and its pings want an answer, so all of them are watched all the time.

use crate::Choice;
use crate::defaults::{HTTP_PORT, HTTPS_PORT, PROBE_TIMEOUT_NS, REPLY_TIMEOUT_NS};
use crate::host::Machine;
use crate::say::error::ResolveError;
use crate::say::field::Field;
use crate::url::Place;
use crate::workload::http::USER;
use crate::workload::{Bound, Link, MadeOf, Protocol, Scheme, Spread, hold, websocket};
use model::Scenario;
use model::plan::{Pace, Workload};
use model::workload::Asked as _;
use model::workload::hold_websocket::{HoldWebSocket, HoldWebSocketAsked};

/// See the file's head.
pub(crate) struct HoldWebSocketProtocol;

impl Protocol for HoldWebSocketProtocol {
    fn name(&self) -> &'static str {
        HoldWebSocketAsked::PROTOCOL
    }

    fn schemes(&self) -> &'static [Scheme] {
        &[
            Scheme { name: "hold+ws", link: Link::Tcp, port: HTTP_PORT, hides_port: true },
            Scheme { name: "hold+wss", link: Link::Tls, port: HTTPS_PORT, hides_port: true },
            Scheme { name: "hold+ws+unix", link: Link::Unix, port: 0, hides_port: false },
        ]
    }

    fn forms(&self) -> &'static [&'static str] {
        &["hold+ws:// or hold+wss://HOST:PORT/PATH", "hold+ws+unix:/PATH.sock[:/PATH]"]
    }

    fn examples(&self) -> &'static [&'static str] {
        &["hold+ws://HOST:PORT/PATH", "hold+wss://HOST/PATH", "hold+ws+unix:/PATH.sock[:/PATH]"]
    }

    fn fields(&self) -> &'static [Field] {
        &[hold::EVERY, hold::CONNECT_RATE, websocket::COMPRESS, websocket::SUBPROTOCOL, websocket::HEADERS, USER]
    }

    fn parse(&self, scheme: &'static Scheme, text: &str) -> Result<Place, String> {
        websocket::place(scheme, text)
    }

    fn alpn(&self) -> &'static [&'static str] {
        &["http/1.1"]
    }

    fn is_held(&self) -> bool {
        true
    }

    fn of_requests(&self, scenario: &Scenario) -> Option<Field> {
        websocket::given(&scenario.asked::<HoldWebSocketAsked>().opened())
    }

    fn reply_timeout_ns(&self, scenario: &Scenario) -> u64 {
        if scenario.asked::<HoldWebSocketAsked>().until_failure { PROBE_TIMEOUT_NS } else { REPLY_TIMEOUT_NS }
    }

    fn pace(
        &self,
        scenario: &Scenario,
        connections: u32,
        url: &str,
        choices: &mut Vec<Choice>,
    ) -> Result<Option<Pace>, ResolveError> {
        hold::refuse_other_paces(scenario, url)?;
        hold::pace(&scenario.asked::<HoldWebSocketAsked>().held(), connections, choices).map(Some)
    }

    fn bounds(&self, spread: &Spread<'_>, machine: &Machine) -> Option<Vec<Bound>> {
        Some(hold::bounds(spread, machine))
    }

    fn build(&self, made_of: &MadeOf<'_>) -> Result<Workload, ResolveError> {
        let asked: HoldWebSocketAsked = made_of.scenario.asked();
        let opened = asked.opened();
        websocket::check_subprotocols(&opened)?;
        Ok(Workload::HoldWebSocket(HoldWebSocket {
            handshakes: websocket::handshakes(made_of, &opened)?,
            subprotocols: asked.subprotocols,
            compress: asked.compress,
            until_failure: asked.until_failure,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::FakeHost;
    use crate::resolve;
    use model::plan::DriverKind;
    use model::scenario::WeightedUrl;

    fn scenario(url: &str) -> Scenario {
        let urls = vec![WeightedUrl { url: url.into(), weight: 1.0 }];
        Scenario { urls, connections: Some(100), ..Scenario::default() }
    }

    #[test]
    fn it_is_held_as_hold_and_opened_as_ws() {
        let mut asked = scenario("hold+ws://user:x@127.0.0.1:9000/chat?a=b");
        asked.ask(|h: &mut HoldWebSocketAsked| {
            (h.every_ns, h.headers) = (Some(30_000_000_000), vec!["X-Token: t".into()]);
        });
        let plan = resolve(&asked, &FakeHost::default()).unwrap().plan;
        assert_eq!(plan.driver, DriverKind::Rings);
        let Pace::Held { every_ns, connects_per_s } = plan.pace else { panic!("{:?}", plan.pace) };
        assert_eq!((every_ns, connects_per_s), (Some(30_000_000_000), 10_000.0));
        let Workload::HoldWebSocket(held) = plan.workload else { panic!("{:?}", plan.workload) };
        let opening = &held.handshakes[0];
        assert_eq!(opening.target.expose(), b"/chat?a=b");
        let names: Vec<&str> = opening.headers.iter().map(|(name, _)| name.as_str()).collect();
        assert!(["Host", "Authorization", "X-Token"].iter().all(|name| names.contains(name)), "{names:?}");
    }

    #[test]
    fn the_wait_for_a_pong_is_short_where_something_is_to_give() {
        let mut asked = scenario("hold+ws://127.0.0.1/");
        assert_eq!(resolve(&asked, &FakeHost::default()).unwrap().plan.timeouts.reply_ns, REPLY_TIMEOUT_NS);
        asked.ask(|h: &mut HoldWebSocketAsked| h.until_failure = true);
        assert_eq!(resolve(&asked, &FakeHost::default()).unwrap().plan.timeouts.reply_ns, PROBE_TIMEOUT_NS);
    }

    #[test]
    fn flags_of_other_paces_and_of_the_switch_are_refused() {
        fn refused(change: impl FnOnce(&mut Scenario)) -> String {
            let mut asked = scenario("hold+ws://127.0.0.1:1/");
            change(&mut asked);
            let error = resolve(&asked, &FakeHost::default()).unwrap_err();
            assert!(error.is_usage());
            error.to_string()
        }
        assert!(refused(|s| s.warmup_ns = Some(1)).starts_with("warmup"));
        assert!(refused(|s| s.requests = Some(1)).starts_with("requests"));
        let asked = |change: fn(&mut HoldWebSocketAsked)| refused(move |s| s.ask(change));
        assert!(asked(|h| h.headers = vec!["Upgrade: x".into()]).starts_with("headers"));
        assert!(asked(|h| h.subprotocols = vec!["a b".into()]).starts_with("subprotocol"));
        assert!(asked(|h| h.every_ns = Some(u64::MAX)).starts_with("every"));
    }
}
