//! What a RESP workload is made of: the mix of commands, its keys and values, who logs in.
//!
//! Passwords go into the plan's memory and nowhere else. That a key's value is the same in every run is on purpose:
//! without `--seed` a second run finds the first one's values right.

use super::defaults::{KEYS, MIX, VALUE_BYTES};
use super::error::ResolveError;
use super::origin::Asked;
use model::limits::ECHO_BYTES_MAX;
use model::plan::{Content, Sizes};
use model::resp::{COMMANDS_MAX, KeyDistribution, Login, Resp, RespCommand, RespExpect};
use model::scenario::WeightedUrl;
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

/// `resp://HOST:PORT,HOST:PORT/3` is one URL for each host.
pub(super) fn spread(entry: &WeightedUrl) -> Vec<WeightedUrl> {
    let alone = || vec![entry.clone()];
    let Some((scheme, rest)) = entry.url.split_once("://") else { return alone() };
    if !scheme.to_ascii_lowercase().starts_with("resp") {
        return alone();
    }
    let (authority, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
    let (user, hosts) = authority.split_at(authority.rfind('@').map_or(0, |at| at + 1));
    let one = |host| WeightedUrl { url: format!("{scheme}://{user}{host}{path}"), weight: entry.weight };
    hosts.split(',').map(one).collect()
}

/// Builds the workload; `of_url` gives each URL's origin.
pub(super) fn build(scenario: &Scenario, asked: &[Asked], of_url: &[u16]) -> Result<Resp, ResolveError> {
    let keys = scenario.keys.unwrap_or(KEYS);
    if keys == 0 {
        return Err(ResolveError::bad_value("--keys", "at least 1 key", 0));
    }
    let key_prefix = scenario.key_prefix.clone().unwrap_or_else(|| PREFIX.to_owned());
    if key_prefix.len() > PREFIX_BYTES_MAX {
        let got = format!("{} bytes", key_prefix.len());
        return Err(ResolveError::bad_value("--key-prefix", format!("at most {PREFIX_BYTES_MAX} bytes"), got));
    }
    Ok(Resp {
        commands: parse_mix(scenario.mix.as_deref().unwrap_or(MIX))?,
        keys,
        key_prefix,
        key_distribution: scenario.key_distribution.unwrap_or(KeyDistribution::Uniform),
        values: values(scenario)?,
        content: scenario.content.unwrap_or(Content::Text),
        value_seed: scenario.seed.unwrap_or(0),
        validate: !scenario.no_validate,
        logins: logins(scenario, asked, of_url)?,
    })
}

/// Bursts have their connections made for them, without a moment for AUTH or SELECT.
pub(super) fn refuse_burst(resp: &Resp) -> Result<(), ResolveError> {
    if resp.logins.iter().any(|login| login.auth || login.database.is_some()) {
        return Err(ResolveError::Conflict {
            flag: "--burst",
            with: "AUTH or a database of a resp URL".to_owned(),
            instead: "leave user, password and database out",
        });
    }
    Ok(())
}

fn values(scenario: &Scenario) -> Result<Sizes, ResolveError> {
    let sizes = scenario.value_sizes.clone().unwrap_or(Sizes::Fixed(VALUE_BYTES));
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
        Err(ResolveError::bad_value("--value-size", "sizes from 1B to 64MiB, a range upwards", got))
    }
}

/// `GET=80,SET=20`; a weight that is not written is 1, and a command that is no known name is sent as written.
fn parse_mix(text: &str) -> Result<Vec<RespCommand>, ResolveError> {
    let bad = |expected: &str| ResolveError::bad_value("--mix", expected, hide::mix(text));
    let mut commands: Vec<RespCommand> = Vec::new();
    for piece in text.split(',') {
        let (command, weight) = match piece.rsplit_once('=') {
            None => (piece.trim(), 1.0),
            Some((command, weight)) => match weight.trim().parse::<f64>() {
                Ok(weight) if (0.0..=super::defaults::WEIGHT_MAX).contains(&weight) => (command.trim(), weight),
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
        if commands.iter().any(|other| other.name == name) {
            return Err(bad("each command once, with its whole weight"));
        }
        commands.push(RespCommand { name, weight, words, expect });
    }
    if commands.len() > COMMANDS_MAX {
        return Err(bad("at most 16 commands"));
    }
    if commands.iter().all(|command| command.weight == 0.0) {
        return Err(bad("a weight above 0"));
    }
    Ok(commands)
}

/// What is said first to each origin.
fn logins(scenario: &Scenario, asked: &[Asked], of_url: &[u16]) -> Result<Vec<Login>, ResolveError> {
    let user = scenario.user.as_ref().map(super::http::user).transpose()?;
    let mut logins: Vec<Option<Login>> = vec![None; of_url.iter().map(|at| usize::from(*at) + 1).max().unwrap_or(0)];
    for (url, origin) in asked.iter().zip(of_url) {
        let mut login = Login { database: database(url)?, ..Login::default() };
        if let Some(both) = user.or(url.parsed.credentials.as_deref()) {
            let colon = both.iter().position(|byte| *byte == b':').unwrap_or(both.len());
            login.auth = true;
            login.user = (colon > 0).then(|| String::from_utf8_lossy(&both[..colon]).into_owned());
            login.password = Secret::from(both.get(colon + 1..).unwrap_or_default());
        }
        let slot = &mut logins[usize::from(*origin)];
        if slot.as_ref().is_some_and(|other| *other != login) {
            return Err(ResolveError::Conflict {
                flag: "one server's URL",
                with: "another user, password or database of it".to_owned(),
                instead: "put load on them in separate runs",
            });
        }
        *slot = Some(login);
    }
    Ok(logins.into_iter().map(Option::unwrap_or_default).collect())
}

/// The database of a URL's path.
fn database(url: &Asked) -> Result<Option<u32>, ResolveError> {
    let text = url.parsed.target.trim_start_matches('/');
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
            "zipf" => Ok(KeyDistribution::Zipf(super::defaults::ZIPF_EXPONENT)),
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
    use super::super::url;
    use super::*;

    fn mix(text: &str) -> String {
        match parse_mix(text) {
            Ok(commands) => {
                let shown =
                    commands.iter().map(|c| format!("{}:{}={}:{:?}", c.name, c.words.join(" "), c.weight, c.expect));
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
            ("a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p,q", "at most 16"),
        ] {
            assert!(mix(bad).starts_with("--mix: expected ") && mix(bad).contains(why), "{bad}: {}", mix(bad));
        }
    }

    fn asked(text: &str) -> Asked {
        Asked { text: text.to_owned(), parsed: url::parse(text).unwrap(), weight: 1.0 }
    }

    #[test]
    fn hosts_with_commas_are_urls_of_their_own() {
        let of = |text: &str| {
            let entry = WeightedUrl { url: text.to_owned(), weight: 2.0 };
            spread(&entry).into_iter().map(|one| one.url).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(of("resp://a:1,b,[::1]:2/3"), "resp://a:1/3 resp://b/3 resp://[::1]:2/3");
        assert_eq!(of("resp+tls://u:p,@w@a,b"), "resp+tls://u:p,@w@a resp+tls://u:p,@w@b");
        assert_eq!(of("http://a,b/"), "http://a,b/");
        assert_eq!(of("resp+unix:/a,b"), "resp+unix:/a,b");
    }

    #[test]
    fn logins_come_from_the_url_or_the_flag() {
        let of = |urls: &[&str], user: Option<&str>, origins: &[u16]| {
            let scenario = Scenario { user: user.map(Secret::from), ..Scenario::default() };
            let asked: Vec<Asked> = urls.iter().map(|text| asked(text)).collect();
            build(&scenario, &asked, origins).map(|resp| resp.logins).map_err(|error| error.to_string())
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
