//! `echo://`: what its URLs are, and what a request is made of.
//!
//! Sizes only: the bytes are drawn by the run from the plan's seed.

use crate::defaults::{ECHO_BYTES, ECHO_PORT, PORTS_MAX};
use crate::say::error::ResolveError;
use crate::say::field::Field;
use crate::url::{Endpoint, Place, other, unix};
use crate::workload::{Link, MadeOf, Protocol, Scheme, sizes};
use model::Scenario;
use model::plan::{Content, Echo, Sizes, Workload};
use model::workload::Asked as _;
use model::workload::echo::EchoAsked;

/// Payload sizes.
const SIZE: Field = Field::Own("size");
/// Payload content; that of held connections and RESP's values, too.
pub(crate) const CONTENT: Field = Field::Own("content");

/// See the file's head.
pub(crate) struct EchoProtocol;

impl Protocol for EchoProtocol {
    fn name(&self) -> &'static str {
        EchoAsked::PROTOCOL
    }

    fn schemes(&self) -> &'static [Scheme] {
        &[
            Scheme { name: "echo", link: Link::Tcp, port: ECHO_PORT, hides_port: false },
            Scheme { name: "echo+tls", link: Link::Tls, port: ECHO_PORT, hides_port: false },
            Scheme { name: "echo+unix", link: Link::Unix, port: 0, hides_port: false },
        ]
    }

    fn forms(&self) -> &'static [&'static str] {
        &["echo:// or echo+tls://HOST:PORT", "echo+unix:/PATH.sock"]
    }

    fn examples(&self) -> &'static [&'static str] {
        &["echo://HOST:PORT[-LAST]", "echo+tls://HOST:PORT[-LAST]", "echo+unix:/PATH.sock"]
    }

    fn fields(&self) -> &'static [Field] {
        &[SIZE, CONTENT]
    }

    fn parse(&self, scheme: &'static Scheme, text: &str) -> Result<Place, String> {
        if scheme.link != Link::Unix {
            return with_ports(self.name(), scheme, text);
        }
        match unix(text)? {
            (_, Some(_)) => Err("an echo URL has no request path: write echo+unix:/run/server.sock".to_owned()),
            (endpoint, None) => Ok(bare(endpoint)),
        }
    }

    fn of_requests(&self, scenario: &Scenario) -> Option<Field> {
        let asked: EchoAsked = scenario.asked();
        asked.sizes.map(|_| SIZE).or(asked.content.map(|_| CONTENT))
    }

    fn build(&self, made_of: &MadeOf<'_>) -> Result<Workload, ResolveError> {
        let asked: EchoAsked = made_of.scenario.asked();
        echo(SIZE, asked.sizes, asked.content).map(Workload::Echo)
    }
}

/// Payloads of the sizes that a field asks for.
pub(crate) fn echo(field: Field, asked: Option<Sizes>, content: Option<Content>) -> Result<Echo, ResolveError> {
    let sizes = sizes(field, asked.unwrap_or(Sizes::Fixed(ECHO_BYTES)))?;
    Ok(Echo { sizes, content: content.unwrap_or(Content::Text) })
}

/// A URL without path, query and user, whose port may be a range: `echo://h:9000-9004` is `echo://h:9000` to 9004.
pub(crate) fn with_ports(protocol: &str, scheme: &Scheme, text: &str) -> Result<Place, String> {
    let (one_port, last_port) = take_range(text)?;
    let (url, host, port) = other(scheme, &one_port)?;
    let name = scheme.name;
    if !matches!(url.path(), "" | "/") || url.query().is_some() || !url.username().is_empty() {
        return Err(format!("an {protocol} URL has no path, query or user: write {name}://HOST:PORT"));
    }
    let last_port = last_port.unwrap_or(port);
    if last_port < port || last_port - port >= PORTS_MAX {
        return Err(format!(
            "expected at most {PORTS_MAX} ports, the first not above the last, got {port}-{last_port}: write {name}://HOST:9000-9004"
        ));
    }
    Ok(bare(Endpoint::Tcp { host, port, last_port }))
}

fn bare(endpoint: Endpoint) -> Place {
    Place { endpoint, target: "/".to_owned(), has_path: true, credentials: None }
}

/// Takes a range of ports out of a URL.
fn take_range(text: &str) -> Result<(String, Option<u16>), String> {
    let trimmed = text.strip_suffix('/').unwrap_or(text);
    let Some((before, ports)) = trimmed.rsplit_once(':') else { return Ok((text.to_owned(), None)) };
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    match ports.split_once('-') {
        Some((first, last)) if is_number(first) && is_number(last) => {
            let last = last.parse().map_err(|_| format!("port {last} does not exist: ports end at 65535"))?;
            Ok((format!("{before}:{first}"), Some(last)))
        }
        _ => Ok((text.to_owned(), None)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::limits::ECHO_BYTES_MAX;

    #[test]
    fn sizes_are_bounded() {
        let of = |sizes| echo(SIZE, sizes, None);
        assert_eq!(of(None).unwrap(), Echo { sizes: Sizes::Fixed(128), content: Content::Text });
        assert!(of(Some(Sizes::Range(1, ECHO_BYTES_MAX))).is_ok());
        for (bad, got) in [
            (Sizes::Fixed(0), "0"),
            (Sizes::Fixed(ECHO_BYTES_MAX + 1), "67108865"),
            (Sizes::Range(3, 2), "3..2"),
            (Sizes::Range(0, 2), "0..2"),
            (Sizes::List(vec![]), ""),
            (Sizes::List(vec![1, 0]), "1,0"),
        ] {
            let error = of(Some(bad)).unwrap_err();
            assert_eq!(
                error.to_string(),
                format!("size: expected sizes from 1B to 64MiB, a range upwards, got '{got}'")
            );
        }
    }
}
