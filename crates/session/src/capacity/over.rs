//! What a surface is spanned over: a parameter of the load that is varied, and the values it takes.
//!
//! A surface is the load line at each value of one parameter, or at each pair of values of two: how much the server carries at this
//! payload size, over so many connections. A parameter is a line in [`Parameter::ALL`] and an arm each of what it is written in and
//! how it changes a scenario. The load itself is none: that is what the line is a number of ([`super::axis`]).

use super::axis::Of;
use model::plan::{Sizes, Think};
use model::units::{count, duration_ns, show_bytes, show_duration_ns, show_grouped, size_bytes};
use model::workload::echo::EchoAsked;
use model::workload::resp::RespAsked;
use model::workload::websocket::WebSocketAsked;
use model::{Scenario, Secret};

/// Stands in a URL for the size, where that is what the server is asked for: `http://host/?bytes={size}`.
pub const SIZE_IN_URL: &str = "{size}";
/// Values of a range that does not say how many.
const VALUES: usize = 5;
/// Most values of a parameter: as many columns as a terminal has room for.
pub const VALUES_MAX: usize = 6;

/// A parameter of the load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parameter {
    /// Bytes of a message's payload, or what stands for `{size}` in the URL.
    Size,
    /// Connections that the load goes over.
    Connections,
    /// How long users think between a reply and their next request, nanoseconds: the message rate of each of them.
    Think,
}

impl Parameter {
    /// Every one.
    pub const ALL: [Parameter; 3] = [Parameter::Size, Parameter::Connections, Parameter::Think];

    /// Its name, as it is written.
    pub const fn name(self) -> &'static str {
        match self {
            Parameter::Size => "size",
            Parameter::Connections => "connections",
            Parameter::Think => "think",
        }
    }

    /// The unit of its values in documents.
    pub const fn unit(self) -> &'static str {
        match self {
            Parameter::Size => "bytes",
            Parameter::Connections => "connections",
            Parameter::Think => "ns",
        }
    }

    /// A value for people.
    pub fn show(self, value: u64) -> String {
        match self {
            Parameter::Size => show_bytes(value as f64),
            Parameter::Connections => show_grouped(value),
            Parameter::Think => show_duration_ns(value as f64),
        }
    }

    fn read(self, text: &str) -> Result<u64, String> {
        let text = text.trim();
        let read = match self {
            Parameter::Size => size_bytes(text),
            Parameter::Connections => count(text),
            Parameter::Think => duration_ns(text),
        };
        let most = match self {
            Parameter::Think => u64::MAX,
            // Of messages no size beyond, of connections no number.
            Parameter::Size | Parameter::Connections => u64::from(u32::MAX),
        };
        let value = read.map_err(|error| error.to_string())?;
        if (1..=most).contains(&value) { Ok(value) } else { Err(format!("expected a value above none, got '{text}'")) }
    }

    /// The scenario at one of its values.
    ///
    /// # Errors
    /// The scenario, or the load that is searched for, has no such parameter.
    pub fn put(self, value: u64, of: Of, scenario: Scenario) -> Result<Scenario, OverError> {
        match self {
            Parameter::Connections if of.is_closed() => Err(OverError::IsTheLoad),
            Parameter::Connections => {
                Ok(Scenario { connections: Some(u32::try_from(value).unwrap_or(u32::MAX)), ..scenario })
            }
            Parameter::Think if of != Of::Users => Err(OverError::NoUsers),
            Parameter::Think => {
                let think = match scenario.think {
                    Some(Think::FixedNs(_)) => Think::FixedNs(value),
                    // Drawn, so that users do not ask all at once; about a mean that varies a uniform one has no width.
                    _ => Think::ExponentialNs(value),
                };
                Ok(Scenario { think: Some(think), ..scenario })
            }
            Parameter::Size => sized(u32::try_from(value).unwrap_or(u32::MAX), scenario),
        }
    }
}

/// The scenario with payloads of a size, or with the size in its URLs.
fn sized(bytes: u32, mut scenario: Scenario) -> Result<Scenario, OverError> {
    let sizes = Some(Sizes::Fixed(bytes));
    let urls: Vec<String> = scenario.urls.iter().map(|url| url.url.expose_text().into_owned()).collect();
    if urls.iter().any(|url| url.contains(SIZE_IN_URL)) {
        for (url, text) in scenario.urls.iter_mut().zip(urls) {
            url.url = Secret::new(text.replace(SIZE_IN_URL, &bytes.to_string()));
        }
        return Ok(scenario);
    }
    let protocol = urls.first().and_then(|url| resolve::protocol_of(url));
    match protocol {
        Some("echo") => scenario.ask::<EchoAsked>(|asked| asked.sizes = sizes),
        Some("ws") => scenario.ask::<WebSocketAsked>(|asked| asked.sizes = sizes),
        Some("resp") => scenario.ask::<RespAsked>(|asked| asked.value_sizes = sizes),
        _ => return Err(OverError::NoSize),
    }
    Ok(scenario)
}

/// A parameter that a load does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum OverError {
    /// Connections are what is searched for.
    #[error(
        "expected a parameter beside the load, got connections, which are what is searched for: leave --of out, or --over connections"
    )]
    IsTheLoad,
    /// Nobody thinks.
    #[error("expected --of users for --over think, which says how long each of them thinks: give it")]
    NoUsers,
    /// Nothing has a size.
    #[error(
        "expected messages with a size for --over size, got none: name a URL of echo, ws or resp, or write {SIZE_IN_URL} into an http URL where the size belongs, such as http://host/?bytes={SIZE_IN_URL}"
    )]
    NoSize,
}

/// A parameter with the values it takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Over {
    /// Which.
    pub of: Parameter,
    /// Its values, ascending, each once.
    pub values: Vec<u64>,
}

/// How it is written.
pub const FORM: &str =
    "NAME=FROM..TO[:COUNT] or NAME=VALUE,VALUE…, such as size=16B..64KiB:4, connections=10,100,1k or think=100ms..10s";

impl Over {
    /// `size=16B..64KiB`: five sizes in equal ratios; `:4` says how many; `size=64,1KiB` names them.
    ///
    /// # Errors
    /// What was expected, as half a sentence.
    pub fn parse(text: &str) -> Result<Self, String> {
        let form = || format!("expected {FORM}");
        let (name, values) = text.split_once('=').ok_or_else(form)?;
        let of = Parameter::ALL.into_iter().find(|one| one.name() == name.trim()).ok_or_else(form)?;
        let mut values = match values.split_once("..") {
            None => values.split(',').map(|value| of.read(value)).collect::<Result<Vec<_>, _>>()?,
            Some((from, rest)) => {
                let (to, count) = rest.split_once(':').map_or((rest, None), |(to, count)| (to, Some(count)));
                let count = count.map(|count| count.trim().parse().map_err(|_| form())).transpose()?.unwrap_or(VALUES);
                ladder(of.read(from)?, of.read(to)?, count)?
            }
        };
        values.sort_unstable();
        values.dedup();
        if !(2..=VALUES_MAX).contains(&values.len()) {
            return Err(format!("expected from 2 to {VALUES_MAX} values of {}, got {}", of.name(), values.len()));
        }
        Ok(Over { of, values })
    }
}

/// So many values in equal ratios, both ends among them.
fn ladder(from: u64, to: u64, count: usize) -> Result<Vec<u64>, String> {
    if from >= to || count < 2 {
        return Err("expected a range from a smaller value to a larger one, of two values and more".to_owned());
    }
    let ratio = to as f64 / from as f64;
    let at = |step: usize| from as f64 * ratio.powf(step as f64 / (count - 1) as f64);
    // As many as can differ, and one more to be refused.
    Ok((0..count.min(VALUES_MAX + 1)).map(|step| (at(step).round() as u64).clamp(from, to)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::scenario::WeightedUrl;

    fn values(text: &str) -> Result<Vec<u64>, String> {
        Over::parse(text).map(|over| over.values)
    }

    #[test]
    fn a_range_is_a_ladder_and_a_list_is_itself() {
        assert_eq!(values("size=16B..64KiB"), Ok(vec![16, 128, 1024, 8192, 65536]));
        assert_eq!(values("connections=10..1k:3"), Ok(vec![10, 100, 1000]));
        assert_eq!(values("think=1s,100ms,1s"), Ok(vec![100_000_000, 1_000_000_000]));
        // Whole numbers near each other are one.
        assert_eq!(values("connections=1..3:6"), Ok(vec![1, 2, 3]));
        for bad in [
            "size",
            "size=",
            "speed=1..2",
            "size=2..1",
            "size=1..2:1",
            "size=0..9",
            "size=1..9k:7",
            "size=7",
            "size=1..x",
        ] {
            assert!(values(bad).unwrap_err().starts_with("expected"), "{bad}: {:?}", values(bad));
        }
    }

    #[test]
    fn each_parameter_changes_a_scenario_that_has_it() {
        let of_url = |url: &str| {
            let url = WeightedUrl { url: Secret::new(url), weight: 1.0 };
            Scenario { urls: vec![url], ..Scenario::default() }
        };
        let put = Parameter::Size.put(99, Of::Rate, of_url("http://h/?bytes={size}")).unwrap();
        assert_eq!(put.urls[0].url.expose_text(), "http://h/?bytes=99");
        let put = Parameter::Size.put(99, Of::Rate, of_url("echo://h:1")).unwrap();
        assert_eq!(put.asked::<EchoAsked>().sizes, Some(Sizes::Fixed(99)));
        assert_eq!(Parameter::Size.put(99, Of::Rate, of_url("http://h/")), Err(OverError::NoSize));
        assert_eq!(Parameter::Connections.put(9, Of::Rate, Scenario::default()).unwrap().connections, Some(9));
        assert_eq!(Parameter::Connections.put(9, Of::Users, Scenario::default()), Err(OverError::IsTheLoad));
        let put = Parameter::Think.put(9, Of::Users, Scenario::default()).unwrap();
        assert_eq!(put.think, Some(Think::ExponentialNs(9)));
        assert_eq!(Parameter::Think.put(9, Of::Rate, Scenario::default()), Err(OverError::NoUsers));
    }
}
