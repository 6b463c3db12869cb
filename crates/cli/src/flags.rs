//! How a field of a scenario is written on the command line: the one place where plan errors and warnings get their flags.

use resolve::{Field, Words};
use std::borrow::Cow;

/// A sentence as the command line shows it.
pub fn shown(words: &Words) -> String {
    words.show(&|field, value| match (field, value) {
        (Field::IpVersion, Some(version)) => format!("-{version}"),
        (_, Some(value)) => format!("{} {value}", flag(field)),
        (_, None) => flag(field).into_owned(),
    })
}

/// The flag of a field, or what stands for it.
pub fn flag(field: Field) -> Cow<'static, str> {
    let flag = match field {
        Field::Own(key) => return of_key(key),
        Field::Url => "URL",
        Field::UrlWeight => "weight of a URL",
        Field::Expect => "--expect",
        Field::ExpectErrors => "--expect-errors",
        Field::AbortWhen => "--abort-when",
        Field::ConnectTo => "--connect-to",
        Field::Resolve => "--resolve",
        Field::UnixSocket => "--unix-socket",
        Field::IpVersion => "ip_version",
        Field::Source => "--source",
        Field::Sources => "--sources",
        Field::Connections => "-c",
        Field::Requests => "-n",
        Field::Duration => "-d",
        Field::Warmup => "--warmup",
        Field::Drain => "--drain",
        Field::Rate => "--rate",
        Field::Ramp => "--ramp",
        Field::Steps => "--steps",
        Field::Poisson => "--poisson",
        Field::Burst => "--burst",
        Field::Rounds => "--rounds",
        Field::BurstAt => "--burst-at",
        Field::BurstPause => "--burst-pause",
        Field::Think => "--think",
        Field::OnFull => "--on-full",
        Field::OnError => "--on-error",
        Field::RetryBudget => "--retry-budget",
        Field::Queue => "--queue",
        Field::Threads => "-t",
        Field::Pin => "--pin",
        Field::ConnectTimeout => "--connect-timeout",
        Field::GiveUp => "--give-up",
        Field::After => "--after",
        Field::Timeout => "--timeout",
        Field::RequestsPerConnection => "--requests-per-connection",
        Field::Pipeline => "--pipeline",
        Field::Driver => "--driver",
        Field::Batch => "--batch",
        Field::ReceiveStamps => "--receive-stamps",
        Field::Tick => "--tick",
        Field::Phase => "phase",
        Field::Fault => "--fault",
        Field::Seed => "--seed",
        Field::Insecure => "--insecure",
        Field::Ca => "--ca",
        Field::Cert => "--cert",
        Field::Key => "--key",
        Field::TlsVersion => "--tls-version",
        Field::Ciphers => "--ciphers",
        Field::Groups => "--groups",
        Field::Alpn => "--alpn",
        Field::Sni => "--sni",
        Field::Resume => "--resume",
        Field::HandshakeOnly => "--handshake-only",
    };
    Cow::Borrowed(flag)
}

/// The flag of a key that a single protocol has: its word, but where everybody knows it by its letter.
pub fn of_key(key: &str) -> Cow<'static, str> {
    match key {
        "method" => "-X".into(),
        "header" | "headers" => "-H".into(),
        "user" => "-u".into(),
        key => format!("--{}", key.replace('_', "-")).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flag_of_a_field_is_one_of_the_commands() {
        let command = crate::args::definition();
        let known: Vec<String> = command
            .get_subcommands()
            .flat_map(|command| command.get_arguments().cloned().collect::<Vec<_>>())
            .flat_map(|argument| {
                let long = argument.get_long_and_visible_aliases().unwrap_or_default();
                let long: Vec<String> = long.into_iter().map(|name| format!("--{name}")).collect();
                long.into_iter().chain(argument.get_short().map(|name| format!("-{name}")))
            })
            .collect();
        for field in Field::ALL.iter().copied().chain(resolve::fields_of_protocols()) {
            let flag = flag(field);
            assert!(!flag.starts_with('-') || known.iter().any(|name| *name == flag), "{field:?}: {flag}");
        }
        let sentence = Words::from("choose ").and((Field::IpVersion, 4)).and(" or ").and((Field::Connections, 7));
        assert_eq!(shown(&sentence), "choose -4 or -c 7");
    }
}
