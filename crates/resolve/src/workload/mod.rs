//! What is sent: the registry of protocols, and what resolving must know of each.
//!
//! A protocol is a file beside this one, and a line in [`PROTOCOLS`]. Which of them a scenario is for is decided by the
//! scheme of its URLs alone.

pub(crate) mod echo;
pub(crate) mod hold;
pub(crate) mod hold_websocket;
pub(crate) mod http;
pub(crate) mod resp;
pub(crate) mod websocket;

use crate::Choice;
use crate::defaults::REPLY_TIMEOUT_NS;
use crate::host::{Host, Machine};
use crate::origin::Asked;
use crate::say::error::ResolveError;
use crate::say::field::Field;
use crate::say::words::Words;
use crate::url::Place;
use model::limits::ECHO_BYTES_MAX;
use model::plan::{DriverKind, Origin, Pace, Plan, Sizes, Workload};
use model::scenario::WeightedUrl;
use model::{Scenario, hide};
use std::fmt;
use std::net::IpAddr;

/// Every protocol, in the order in which texts list them.
pub(crate) const PROTOCOLS: &[&dyn Protocol] = &[
    &http::HttpProtocol,
    &echo::EchoProtocol,
    &hold::HoldProtocol,
    &resp::RespProtocol,
    &websocket::WebSocketProtocol,
    &hold_websocket::HoldWebSocketProtocol,
];

/// A scheme of URLs.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Scheme {
    /// As it is written, in small letters and without its colon.
    pub(crate) name: &'static str,
    /// What it leads through.
    pub(crate) link: Link,
    /// The port of a URL without one; 0 of unix sockets.
    pub(crate) port: u16,
    /// Whether a URL is written without that port where it has it (RFC 9110 §4.2.3).
    pub(crate) hides_port: bool,
}

/// What a scheme leads through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Link {
    Tcp,
    Tls,
    Unix,
}

/// What resolving must know of a protocol.
pub(crate) trait Protocol: Sync {
    /// Its name in sentences, as in "http URLs"; that of [`model::workload::Asked`].
    fn name(&self) -> &'static str;

    /// Its schemes.
    fn schemes(&self) -> &'static [Scheme];

    /// How its URLs are written, where an error lists what could be.
    fn forms(&self) -> &'static [&'static str];

    /// Its URLs as help shows them.
    fn examples(&self) -> &'static [&'static str];

    /// What a scenario can say of it alone.
    fn fields(&self) -> &'static [Field];

    /// Takes a URL of one of its schemes apart.
    ///
    /// # Errors
    /// What is wrong, and what to write instead.
    fn parse(&self, scheme: &'static Scheme, text: &str) -> Result<Place, String>;

    /// The URLs that one URL stands for.
    fn spread(&self, entry: &WeightedUrl) -> Vec<WeightedUrl> {
        vec![entry.clone()]
    }

    /// What is offered by ALPN where nothing else is asked for.
    fn alpn(&self) -> &'static [&'static str] {
        &[]
    }

    /// Whether connections are what is asked for, held, and not requests.
    fn is_held(&self) -> bool {
        false
    }

    /// The field by which each connection is closed after its reply.
    fn closes_after_each(&self, _scenario: &Scenario) -> Option<Field> {
        None
    }

    /// Whether it was said what a good reply is: then no error is expected.
    fn says_what_is_good(&self, _scenario: &Scenario) -> bool {
        false
    }

    /// A field that was given and says something of requests, or of the connections between them.
    fn of_requests(&self, _scenario: &Scenario) -> Option<Field> {
        None
    }

    /// Longest wait for a complete reply, nanoseconds, where nothing else is asked for.
    fn reply_timeout_ns(&self, _scenario: &Scenario) -> u64 {
        REPLY_TIMEOUT_NS
    }

    /// When requests are due, where that is another question than for the others; refuses what says otherwise.
    ///
    /// # Errors
    /// [`ResolveError`], where the scenario contradicts it.
    fn pace(
        &self,
        _scenario: &Scenario,
        _connections: u32,
        _url: &str,
        _choices: &mut Vec<Choice>,
    ) -> Result<Option<Pace>, ResolveError> {
        Ok(None)
    }

    /// What bounds the number of connections, the lowest first; `None`: what is warned of for any load.
    fn bounds(&self, _spread: &Spread<'_>, _machine: &Machine) -> Option<Vec<Bound>> {
        None
    }

    /// Builds the workload.
    ///
    /// # Errors
    /// [`ResolveError`], where what was asked contradicts itself or a limit, or a file is missing.
    fn build(&self, made_of: &MadeOf<'_>) -> Result<Workload, ResolveError>;

    /// What looks like a mistake though it can be done.
    fn warnings(&self, _plan: &Plan, _scenario: &Scenario, _asked: &[Asked], _found: &mut Vec<Words>) {}
}

impl fmt::Debug for dyn Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What a workload is built from.
pub(crate) struct MadeOf<'a> {
    pub(crate) scenario: &'a Scenario,
    /// The URLs, taken apart.
    pub(crate) asked: &'a [Asked],
    /// Each URL's origin.
    pub(crate) of_url: &'a [u16],
    pub(crate) pace: &'a Pace,
    pub(crate) host: &'a dyn Host,
}

/// How connections are spread.
pub(crate) struct Spread<'a> {
    pub(crate) origins: &'a [Origin],
    pub(crate) sources: &'a [IpAddr],
    pub(crate) driver: DriverKind,
    pub(crate) threads: u16,
}

/// What bounds the number of connections.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Bound {
    pub(crate) what: &'static str,
    pub(crate) most: u64,
    pub(crate) remedy: Words,
}

/// The protocol of a scheme, however that is written, and the scheme.
pub(crate) fn of_scheme(written: &str) -> Option<(&'static dyn Protocol, &'static Scheme)> {
    let of = |protocol: &&'static dyn Protocol| {
        let protocol = *protocol;
        let scheme = protocol.schemes().iter().find(|scheme| scheme.name.eq_ignore_ascii_case(written))?;
        Some((protocol, scheme))
    };
    PROTOCOLS.iter().find_map(of)
}

/// The name of the protocol that a URL's scheme speaks, as in "http URLs"; `None` where none does.
pub fn protocol_of(url: &str) -> Option<&'static str> {
    url.split_once(':').and_then(|(scheme, _)| of_scheme(scheme)).map(|(protocol, _)| protocol.name())
}

/// Every protocol's URLs, as help shows them.
pub fn url_examples() -> impl Iterator<Item = &'static str> {
    PROTOCOLS.iter().flat_map(|protocol| protocol.examples()).copied()
}

/// What a scenario can say of single protocols.
pub fn fields_of_protocols() -> impl Iterator<Item = Field> {
    PROTOCOLS.iter().flat_map(|protocol| protocol.fields()).copied()
}

/// Every scheme with TLS: `https, echo+tls and hold+tls`.
pub(crate) fn tls_schemes() -> String {
    let of_tls = PROTOCOLS.iter().flat_map(|protocol| protocol.schemes()).filter(|scheme| scheme.link == Link::Tls);
    let names: Vec<&str> = of_tls.map(|scheme| scheme.name).collect();
    match names.split_last() {
        Some((last, others @ [_, ..])) => format!("{} and {last}", others.join(", ")),
        _ => names.concat(),
    }
}

/// Sizes of payloads within what can be sent.
pub(crate) fn sizes(field: Field, sizes: Sizes) -> Result<Sizes, ResolveError> {
    let good = |size: &u32| (1..=ECHO_BYTES_MAX).contains(size);
    let (is_good, got) = match &sizes {
        Sizes::Fixed(size) => (good(size), size.to_string()),
        Sizes::Range(low, high) => (good(low) && good(high) && low <= high, format!("{low}..{high}")),
        Sizes::List(sizes) => {
            let shown: Vec<String> = sizes.iter().map(u32::to_string).collect();
            (!sizes.is_empty() && sizes.iter().all(good), shown.join(","))
        }
    };
    if is_good {
        Ok(sizes)
    } else {
        Err(ResolveError::bad_value(field, "sizes from 1B to 64MiB, a range upwards", got))
    }
}

/// The URLs of a scenario, each that stands for several as those.
pub(crate) fn spread(entry: &WeightedUrl) -> Vec<WeightedUrl> {
    let url = entry.url.expose_text();
    match url.split_once(':').and_then(|(scheme, _)| of_scheme(scheme)) {
        Some((protocol, _)) => protocol.spread(entry),
        None => vec![entry.clone()],
    }
}

/// A URL as it is shown, without secrets.
pub(crate) fn shown(entry: &WeightedUrl) -> String {
    hide::url(&entry.url.expose_text())
}
