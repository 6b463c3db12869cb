//! `resp://`: what a RESP workload is made of, the mix of commands, its keys and values, who logs in.
//!
//! Passwords go into the plan's memory and nowhere else. That a key's value is the same in every run is on purpose:
//! without `--seed` a second run finds the first one's values right.

use crate::defaults::{KEYS, MIX, RESP_PORT, VALUE_BYTES};
use crate::origin::Asked;
use crate::say::error::ResolveError;
use crate::say::field::Field;
use crate::url::{Endpoint, Place, credentials, other, unix};
use crate::workload::echo::CONTENT;
use crate::workload::http::{USER, user};
use crate::workload::{Link, MadeOf, Protocol, Scheme, sizes};
use model::plan::{Content, Pace, Sizes, Workload};
use model::resp::{COMMANDS_MAX, KeyDistribution, Login, Resp, RespAsked, RespCommand, RespExpect};
use model::scenario::WeightedUrl;
use model::workload::Asked as _;
use model::{Scenario, Secret, hide};

/// Longest key prefix, bytes.
const PREFIX_BYTES_MAX: usize = 1024;
/// Largest database number: redis counts them in 32 bits with a sign.
const DATABASE_MAX: u32 = i32::MAX as u32;
/// What every key begins with where nothing else is asked for.
const PREFIX: &str = "plimsoll:";

/// Commands known by name: what is sent, and what a good reply is.
const COMMANDS: &[(&str, &str, RespExpect)] = &[
    ("GET", "{key}", RespExpect::Value),
    ("SET", "{key} {value}", RespExpect::Ok),
    ("DEL", "{key}", RespExpect::Integer),
    // Keys of its own: a counter is no value.
    ("INCR", "counter:{key}", RespExpect::Integer),
    ("PING", "", RespExpect::Pong),
    ("FLUSHALL", "", RespExpect::Ok),
    ("SAVE", "{key} {value}", RespExpect::Ok),
    ("LOAD", "{key}", RespExpect::Value),
    ("LOADALL", "", RespExpect::Array),
    ("REMOVE", "{key}", RespExpect::Integer),
    ("REMOVEALL", "", RespExpect::Ok),
    ("OOPS", "", RespExpect::Any),
];

/// Commands with their weights.
pub(crate) const MIXED: Field = Field::Own("mix");
/// Distinct keys.
pub(crate) const KEYS_FIELD: Field = Field::Own("keys");
/// What every key begins with.
const KEY_PREFIX: Field = Field::Own("key_prefix");
/// How keys are drawn.
pub(crate) const KEY_DISTRIBUTION: Field = Field::Own("key_distribution");
/// What was acknowledged must be there.
pub(crate) const VERIFY_WRITES: Field = Field::Own("verify_writes");
/// Sizes of values.
const VALUE_SIZE: Field = Field::Own("value_size");

/// See the file's head.
pub(crate) struct RespProtocol;

impl Protocol for RespProtocol {
    fn name(&self) -> &'static str {
        RespAsked::PROTOCOL
    }

    fn schemes(&self) -> &'static [Scheme] {
        &[
            Scheme { name: "resp", link: Link::Tcp, port: RESP_PORT, hides_port: false },
            Scheme { name: "resp+tls", link: Link::Tls, port: RESP_PORT, hides_port: false },
            Scheme { name: "resp+unix", link: Link::Unix, port: 0, hides_port: false },
            // As redis' own clients write them.
            Scheme { name: "redis", link: Link::Tcp, port: RESP_PORT, hides_port: false },
            Scheme { name: "rediss", link: Link::Tls, port: RESP_PORT, hides_port: false },
        ]
    }

    fn forms(&self) -> &'static [&'static str] {
        &["resp:// or resp+tls://HOST:PORT", "resp+unix:/PATH.sock"]
    }

    fn examples(&self) -> &'static [&'static str] {
        &["resp://HOST:PORT", "resp://USER:PASSWORD@HOST:PORT/DATABASE", "resp+tls://HOST:PORT", "resp+unix:/PATH.sock"]
    }

    fn fields(&self) -> &'static [Field] {
        &[MIXED, KEYS_FIELD, KEY_PREFIX, KEY_DISTRIBUTION, VALUE_SIZE, VERIFY_WRITES, USER, CONTENT]
    }

    fn parse(&self, scheme: &'static Scheme, text: &str) -> Result<Place, String> {
        if scheme.link == Link::Unix {
            let (endpoint, target) = unix(text)?;
            let target = target.unwrap_or_else(|| "/".to_owned());
            return Ok(Place { endpoint, target, has_path: true, credentials: None });
        }
        let (url, host, port) = other(scheme, text)?;
        if url.query().is_some() {
            let name = scheme.name;
            return Err(format!("a resp URL has no query: write {name}://USER:PASSWORD@HOST:PORT/DATABASE"));
        }
        Ok(Place {
            endpoint: Endpoint::Tcp { host, port, last_port: port },
            target: url.path().to_owned(),
            has_path: true,
            credentials: credentials(&url),
        })
    }

    /// `resp://HOST:PORT,HOST:PORT/3` is one URL for each host.
    fn spread(&self, entry: &WeightedUrl) -> Vec<WeightedUrl> {
        let url = entry.url.expose_text();
        let Some((scheme, rest)) = url.split_once("://") else { return vec![entry.clone()] };
        let (authority, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        let (user, hosts) = authority.split_at(authority.rfind('@').map_or(0, |at| at + 1));
        let one = |host| {
            let url = hide::secret_url(&format!("{scheme}://{user}{host}{path}"));
            WeightedUrl { url, weight: entry.weight }
        };
        hosts.split(',').map(one).collect()
    }

    fn of_requests(&self, scenario: &Scenario) -> Option<Field> {
        let asked: RespAsked = scenario.asked();
        asked.user.map(|_| USER).or(asked.content.map(|_| CONTENT))
    }

    fn build(&self, made_of: &MadeOf<'_>) -> Result<Workload, ResolveError> {
        let value_seed = made_of.scenario.seed.unwrap_or(0);
        let resp = build(&made_of.scenario.asked(), value_seed, made_of.asked, made_of.of_url)?;
        if matches!(made_of.pace, Pace::Burst { .. }) {
            refuse_burst(&resp)?;
        }
        Ok(Workload::Resp(resp))
    }
}

/// Builds the workload; `of_url` gives each URL's origin.
fn build(resp: &RespAsked, value_seed: u64, asked: &[Asked], of_url: &[u16]) -> Result<Resp, ResolveError> {
    let keys = resp.keys.unwrap_or(KEYS);
    if keys == 0 {
        return Err(ResolveError::bad_value(KEYS_FIELD, "at least 1 key", 0));
    }
    let key_prefix = resp.key_prefix.clone().unwrap_or_else(|| PREFIX.to_owned());
    if key_prefix.len() > PREFIX_BYTES_MAX {
        let got = format!("{} bytes", key_prefix.len());
        return Err(ResolveError::bad_value(KEY_PREFIX, format!("at most {PREFIX_BYTES_MAX} bytes"), got));
    }
    let commands = parse_mix(&resp.mix.as_ref().map_or(MIX.into(), Secret::expose_text))?;
    if resp.verify_writes {
        refuse_unverifiable(&commands)?;
        refuse_several_servers(of_url.iter().copied())?;
    }
    Ok(Resp {
        commands,
        keys,
        key_prefix,
        key_distribution: resp.key_distribution.unwrap_or(KeyDistribution::Uniform),
        values: sizes(VALUE_SIZE, resp.value_sizes.clone().unwrap_or(Sizes::Fixed(VALUE_BYTES)))?,
        content: resp.content.unwrap_or(Content::Text),
        value_seed,
        validate: !resp.no_validate,
        verify_writes: resp.verify_writes,
        logins: logins(resp, asked, of_url)?,
    })
}

/// What was written can be looked for only where nothing else takes it away, and something reads it.
fn refuse_unverifiable(commands: &[RespCommand]) -> Result<(), ResolveError> {
    let conflict = |with: String, instead: &str| {
        Err(ResolveError::Conflict { what: VERIFY_WRITES.into(), with: with.into(), instead: instead.into() })
    };
    let shape = |command: &RespCommand| command.shown().to_ascii_uppercase();
    let is = |shapes: &[&str]| commands.iter().any(|command| shapes.contains(&&*shape(command)));
    let allowed = ["GET {KEY}", "SET {KEY} {VALUE}", "PING"];
    if let Some(other) = commands.iter().find(|command| !allowed.contains(&&*shape(command))) {
        let name = other.shown();
        return conflict(format!("'{name}'"), "what it does to values is not known, use a mix of GET and SET alone");
    }
    if !is(&allowed[..1]) || !is(&allowed[1..2]) {
        return conflict("a mix without both GET and SET".to_owned(), "what is to be looked for is written and read");
    }
    Ok(())
}

/// What one server acknowledged is not looked for at another.
pub(crate) fn refuse_several_servers(origins: impl IntoIterator<Item = u16>) -> Result<(), ResolveError> {
    let mut origins = origins.into_iter();
    let first = origins.next();
    match origins.find(|other| Some(*other) != first) {
        None => Ok(()),
        Some(_) => Err(ResolveError::Conflict {
            what: VERIFY_WRITES.into(),
            with: "several servers".into(),
            instead: "what one has acknowledged need not be at another, put load on them in separate runs".into(),
        }),
    }
}

/// Bursts have their connections made for them, without a moment for AUTH or SELECT.
fn refuse_burst(resp: &Resp) -> Result<(), ResolveError> {
    if resp.logins.iter().any(|login| login.auth || login.database.is_some()) {
        return Err(ResolveError::Conflict {
            what: Field::Burst.into(),
            with: "AUTH or a database of a resp URL".into(),
            instead: "leave user, password and database out".into(),
        });
    }
    Ok(())
}

/// `GET=80,SET=20`; a weight that is not written is 1, and a command that is no known name is sent as written.
fn parse_mix(text: &str) -> Result<Vec<RespCommand>, ResolveError> {
    let bad = |expected: &str| ResolveError::bad_value(MIXED, expected, hide::mix(text));
    let mut commands: Vec<RespCommand> = Vec::new();
    for piece in text.split(',') {
        let (command, weight) = match piece.rsplit_once('=') {
            None => (piece.trim(), 1.0),
            Some((command, weight)) => match weight.trim().parse::<f64>() {
                Ok(weight) if (0.0..=crate::defaults::WEIGHT_MAX).contains(&weight) => (command.trim(), weight),
                _ => return Err(bad("COMMAND=WEIGHT,…, each weight from 0 to 1e9")),
            },
        };
        let mut words: Vec<String> = command.split_whitespace().map(str::to_owned).collect();
        let mut expect = RespExpect::Any;
        let known = COMMANDS.iter().find(|(name, ..)| name.eq_ignore_ascii_case(command));
        if let Some((name, arguments, reply)) = known {
            words = std::iter::once(*name).chain(arguments.split_whitespace()).map(str::to_owned).collect();
            expect = *reply;
        }
        let name = known.map_or(command, |(name, ..)| name).to_owned();
        match words.first() {
            None => return Err(bad("COMMAND=WEIGHT,…, such as GET=80,SET=20 or 'HSET h:{key} f {value}=5'")),
            Some(word) if word.contains(['{', '}']) => {
                return Err(bad("a command's name before its {key} and {value}"));
            }
            Some(_) => {}
        }
        let command = RespCommand::new(name, weight, words, expect);
        if commands.iter().any(|other| (&other.name, &other.words) == (&command.name, &command.words)) {
            return Err(bad("each command once, with its whole weight"));
        }
        commands.push(command);
    }
    if commands.len() > COMMANDS_MAX {
        return Err(bad(&format!("at most {COMMANDS_MAX} commands")));
    }
    if commands.iter().all(|command| command.weight == 0.0) {
        return Err(bad("a weight above 0"));
    }
    Ok(commands)
}

/// What is said first to each origin.
fn logins(resp: &RespAsked, asked: &[Asked], of_url: &[u16]) -> Result<Vec<Login>, ResolveError> {
    let user = resp.user.as_ref().map(user).transpose()?;
    let mut logins: Vec<Option<Login>> = vec![None; of_url.iter().map(|at| usize::from(*at) + 1).max().unwrap_or(0)];
    for (url, origin) in asked.iter().zip(of_url) {
        let mut login = Login { database: database(url)?, ..Login::default() };
        if let Some(both) = user.or(url.parsed.place.credentials.as_ref().map(Secret::expose)) {
            let colon = both.iter().position(|byte| *byte == b':').unwrap_or(both.len());
            login.auth = true;
            login.user = (colon > 0).then(|| String::from_utf8_lossy(&both[..colon]).into_owned());
            login.password = Secret::from(both.get(colon + 1..).unwrap_or_default());
        }
        let slot = &mut logins[usize::from(*origin)];
        if slot.as_ref().is_some_and(|other| *other != login) {
            return Err(ResolveError::Conflict {
                what: "one server's URL".into(),
                with: "another user, password or database of it".into(),
                instead: "put load on them in separate runs".into(),
            });
        }
        *slot = Some(login);
    }
    Ok(logins.into_iter().map(Option::unwrap_or_default).collect())
}

/// The database of a URL's path.
fn database(url: &Asked) -> Result<Option<u32>, ResolveError> {
    let text = url.parsed.place.target.trim_start_matches('/');
    if text.is_empty() {
        return Ok(None);
    }
    match text.parse() {
        Ok(number) if number <= DATABASE_MAX => Ok(Some(number)),
        _ => Err(ResolveError::BadUrl {
            url: url.parsed.origin_name(),
            why: format!("expected the number of a database as its path, got '{}': write /3", text.escape_debug()),
        }),
    }
}

/// `uniform`, `zipf`, `zipf:S`, `sequential`.
///
/// # Errors
/// In words, what was expected.
pub fn parse_key_distribution(text: &str) -> Result<KeyDistribution, String> {
    let expected = || "expected uniform, sequential, zipf or zipf:S with S from 0.01 to 20".to_owned();
    match text.split_once(':') {
        None => match text {
            "uniform" => Ok(KeyDistribution::Uniform),
            "sequential" => Ok(KeyDistribution::Sequential),
            "zipf" => Ok(KeyDistribution::Zipf(crate::defaults::ZIPF_EXPONENT)),
            _ => Err(expected()),
        },
        Some(("zipf", exponent)) => match exponent.parse::<f64>() {
            Ok(exponent) if (0.01..=20.0).contains(&exponent) => Ok(KeyDistribution::Zipf(exponent)),
            _ => Err(expected()),
        },
        Some(_) => Err(expected()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::url;
    use crate::workload::spread;

    fn mix(text: &str) -> String {
        match parse_mix(text) {
            Ok(commands) => {
                let shown = commands.iter().map(|c| format!("{}:{}={}:{:?}", c.name, c.shown(), c.weight, c.expect));
                shown.collect::<Vec<_>>().join(", ")
            }
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn a_mix_is_commands_with_weights() {
        assert_eq!(mix("get=80,SET=20"), "GET:GET {key}=80:Value, SET:SET {key} {value}=20:Ok");
        assert_eq!(mix("PING"), "PING:PING=1:Pong");
        assert_eq!(mix("HSET h:{key} f {value}=5"), "HSET h:{key} f {value}:HSET h:{key} f {value}=5:Any");
        assert_eq!(mix("get x"), "get x:get x=1:Any");
        for (bad, why) in [
            ("", "such as GET=80"),
            ("GET,", "such as GET=80"),
            ("GET=x", "each weight"),
            ("GET=-1", "each weight"),
            ("GET=inf", "each weight"),
            ("GET=0", "a weight above 0"),
            ("GET,get", "each command once"),
            ("{key} x", "a command's name before"),
            (&(0..=COMMANDS_MAX).map(|n| format!("c{n}")).collect::<Vec<_>>().join(","), "at most 64"),
        ] {
            assert!(mix(bad).starts_with("mix: expected ") && mix(bad).contains(why), "{bad}: {}", mix(bad));
        }
    }

    fn asked(text: &str) -> Asked {
        Asked { text: text.to_owned(), parsed: url::parse(text).unwrap(), weight: 1.0 }
    }

    #[test]
    fn hosts_with_commas_are_urls_of_their_own() {
        let of = |text: &str| {
            let entry = WeightedUrl { url: text.into(), weight: 2.0 };
            spread(&entry).into_iter().map(|one| one.url.expose_text().into_owned()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(of("resp://a:1,b,[::1]:2/3"), "resp://a:1/3 resp://b/3 resp://[::1]:2/3");
        assert_eq!(of("resp+tls://u:p,@w@a,b"), "resp+tls://u:p,@w@a resp+tls://u:p,@w@b");
        assert_eq!(of("http://a,b/"), "http://a,b/");
        assert_eq!(of("resp+unix:/a,b"), "resp+unix:/a,b");
    }

    #[test]
    fn logins_come_from_the_url_or_the_flag() {
        let of = |urls: &[&str], user: Option<&str>, origins: &[u16]| {
            let resp = RespAsked { user: user.map(Secret::from), ..RespAsked::default() };
            let asked: Vec<Asked> = urls.iter().map(|text| asked(text)).collect();
            build(&resp, 0, &asked, origins).map(|resp| resp.logins).map_err(|error| error.to_string())
        };
        let login = |user: Option<&str>, password: &str, database| Login {
            auth: true,
            user: user.map(str::to_owned),
            password: Secret::from(password),
            database,
        };
        assert_eq!(of(&["resp://h"], None, &[0]), Ok(vec![Login::default()]));
        assert_eq!(of(&["resp://u:p%40%3A@h/3"], None, &[0]), Ok(vec![login(Some("u"), "p@:", Some(3))]));
        assert_eq!(of(&["resp://:p@h/"], None, &[0]), Ok(vec![login(None, "p", None)]));
        assert_eq!(of(&["resp://u:p@h"], Some(":other"), &[0]), Ok(vec![login(None, "other", None)]));
        assert_eq!(of(&["resp://a/1", "resp://b"], None, &[0, 1]).unwrap()[0].database, Some(1));
        assert!(of(&["resp://a/1", "resp://a/2"], None, &[0, 0]).unwrap_err().contains("separate runs"));
        let error = of(&["resp://u:secret@a/x"], None, &[0]).unwrap_err();
        assert!(error.contains("number of a database") && !error.contains("secret"), "{error}");
    }

    #[test]
    fn distributions_are_read() {
        assert_eq!(parse_key_distribution("uniform"), Ok(KeyDistribution::Uniform));
        assert_eq!(parse_key_distribution("zipf"), Ok(KeyDistribution::Zipf(0.99)));
        assert_eq!(parse_key_distribution("zipf:1.5"), Ok(KeyDistribution::Zipf(1.5)));
        for bad in ["", "zipf:", "zipf:0", "zipf:nan", "zipf:21", "gauss", "uniform:1"] {
            assert!(parse_key_distribution(bad).is_err(), "{bad}");
        }
    }
}
