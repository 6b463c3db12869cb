//! Help that a newcomer can use: examples first, and with `-h` only the flags that most runs need.
//!
//! `-h` fits one screen; `--help` has everything. Both are clap's own, from the one definition: what is here is which
//! flags are among the few, and what is typed as an example. A test parses every example.

use clap::Command;

/// What one command's help has beside its flags.
pub(super) struct Help {
    /// The command's name, with those above it.
    pub(super) path: &'static [&'static str],
    /// Long names of the flags that `-h` shows; empty: all of them.
    pub(super) most_used: &'static [&'static str],
    /// What to type, and what it does.
    pub(super) examples: &'static [(&'static str, &'static str)],
}

/// Every command that is helped.
pub(super) const HELPS: &[Help] = &[
    Help {
        path: &[],
        most_used: &[],
        examples: &[
            ("plimsoll demo", "a server, its load line, what gives first"),
            ("plimsoll load http://HOST:8080/ -d 30s", "put load on a server, and measure it"),
            ("plimsoll diagnose", "what gave first in it, and why"),
        ],
    },
    Help {
        path: &["load"],
        most_used: &[
            "duration",
            "requests",
            "rate",
            "connections",
            "timeout",
            "expect",
            "header",
            "warmup",
            "explain",
            "json",
        ],
        examples: &[
            ("plimsoll load http://HOST:8080/ -c 100 -d 30s", "as fast as 100 connections go"),
            ("plimsoll load http://HOST:8080/ --rate 5k/s -d 1m", "5,000 due each second, by the clock"),
            ("plimsoll load http://HOST:8080/ --steps 1k/s,2k/s,4k/s:10s", "rates in turn, 10 s each"),
            ("plimsoll load https://HOST/api -H 'X-Key: 1' -b @body.json", "POST a file over TLS"),
            ("plimsoll load resp://HOST:6379 --mix GET=80,SET=20 -c 50", "redis' protocol"),
            ("plimsoll load hold://HOST:7777 -c 100k --every 60s -d 5m", "100,000 connections held open"),
        ],
    },
    Help {
        path: &["agent"],
        most_used: &[],
        examples: &[(
            "plimsoll agent --nats nats://HUB:4222 --allow-target 10.1.0.0/16:8080",
            "for loads with --agents N --nats nats://HUB:4222",
        )],
    },
    Help {
        path: &["kubernetes"],
        most_used: &[],
        examples: &[
            ("plimsoll kubernetes apply --image IMAGE --allow-target shop:80", "four agents, and NATS"),
            ("plimsoll kubernetes manifest --image IMAGE --allow-target shop:80", "the same, for kubectl"),
            ("plimsoll kubernetes delete", "nothing is left of it"),
        ],
    },
    Help {
        path: &["kubernetes", "apply"],
        most_used: &["image", "agents", "cores", "memory", "allow-target", "nats", "namespace", "name", "wait"],
        examples: &[
            ("plimsoll kubernetes apply --image IMAGE --allow-target shop:80", "four agents, and NATS"),
            ("plimsoll kubernetes apply --image IMAGE --allow-target shop:80 --nats tls://HUB", "your NATS"),
        ],
    },
    Help {
        path: &["kubernetes", "manifest"],
        most_used: &["image", "agents", "cores", "memory", "allow-target", "nats", "namespace", "name"],
        examples: &[
            ("plimsoll kubernetes manifest --image IMAGE --allow-target shop:80", "for kubectl apply -f -"),
            ("plimsoll kubernetes manifest --image IMAGE --allow-target shop:80 --agents 16", "sixteen"),
        ],
    },
    Help {
        path: &["capacity"],
        most_used: &["slo", "of", "precision", "time", "connections", "poisson", "continue", "json"],
        examples: &[
            ("plimsoll capacity http://HOST:8080/ --slo 'p99<50ms, errors<0.1%'", "requests a second"),
            ("plimsoll capacity http://HOST:8080/ --of connections --slo 'p99<200ms'", "clients at once"),
            ("plimsoll capacity resp://HOST:6379 --mix GET=80,SET=20 --slo 'p99<1ms'", "redis"),
        ],
    },
    Help {
        path: &["run"],
        most_used: &[],
        examples: &[
            ("plimsoll run FILE.toml", "what the file says"),
            ("plimsoll run FILE.toml --explain", "what it would do, its limits and why"),
            ("plimsoll run FILE.toml -d 5s -c 10", "shorter and smaller than the file says"),
            ("plimsoll run --schema", "the keys of files, as a JSON Schema"),
        ],
    },
    Help {
        path: &["serve"],
        most_used: &[],
        examples: &[
            ("plimsoll serve http --root ./public", "the files of a folder, on 127.0.0.1:8080"),
            ("plimsoll serve echo --listen 0.0.0.0:7777", "bytes come back as they went"),
            ("plimsoll serve names --workers 2", "a store that redis-cli speaks to"),
            ("plimsoll serve proxy --origin http://127.0.0.1:8080", "a reverse proxy before another server"),
        ],
    },
    Help {
        path: &["serve", "http"],
        most_used: &["root", "design", "listen", "workers", "idle-timeout", "defect", "tls"],
        examples: &[
            ("plimsoll serve http", "built-in paths, listed at http://127.0.0.1:8080/"),
            ("plimsoll serve http --root ./public --listen 0.0.0.0:80", "files, for other machines"),
            ("plimsoll serve http --workers 2 --tls", "two threads, TLS with a certificate it makes"),
            ("plimsoll serve http --defect cpu-heavy=2ms@30s", "after 30 s each request costs 2 ms"),
        ],
    },
    Help {
        path: &["serve", "echo"],
        most_used: &["design", "connections-max", "listen", "workers", "idle-timeout", "defect", "tls"],
        examples: &[
            ("plimsoll serve echo", "on 127.0.0.1:7777, for echo:// and hold://"),
            ("plimsoll serve echo --design uring -c 1m --idle-timeout never", "to hold a million connections"),
            ("plimsoll serve echo --listen 127.0.0.1:9000-9004", "on five ports"),
        ],
    },
    Help {
        path: &["serve", "names"],
        most_used: &["durable", "journal", "listen", "workers", "idle-timeout", "defect", "tls"],
        examples: &[
            ("plimsoll serve names", "on 127.0.0.1:6390, for redis-cli and resp://"),
            ("plimsoll serve names --listen 0.0.0.0:6379 --workers 2", "two threads, for other machines"),
        ],
    },
    Help {
        path: &["serve", "proxy"],
        most_used: &["origin", "cache", "listen", "workers", "idle-timeout", "defect", "tls"],
        examples: &[
            ("plimsoll serve proxy --origin http://127.0.0.1:8080", "on 127.0.0.1:8081, before a server here"),
            ("plimsoll serve proxy --origin http://127.0.0.1:8080 --cache 64MiB", "with a cache"),
        ],
    },
    Help {
        path: &["diagnose"],
        most_used: &["all", "json", "markdown", "experiment", "for", "path", "only", "rate"],
        examples: &[
            ("plimsoll diagnose", "what gave first in the last run, and why"),
            ("plimsoll diagnose FILE --all", "with all evidence"),
            ("plimsoll diagnose last --markdown", "to paste into an issue"),
            ("plimsoll diagnose http://HOST:8080/ --experiment", "try a server from outside"),
            ("plimsoll diagnose http://HOST/ --experiment --path /a --path /b", "and two paths of it"),
        ],
    },
    Help {
        path: &["audit"],
        most_used: &["throughput", "latency", "concurrency", "rate", "size", "link", "json"],
        examples: &[
            ("plimsoll audit --throughput 228.12/s --latency 43.72ms --concurrency 10", "Little's law"),
            ("plimsoll audit --rate 3000/s --size 26MB --link 10Gbit", "what the link carries"),
            ("plimsoll audit last --link 1Gbit", "a run's figures against each other and a link"),
        ],
    },
    Help {
        path: &["confirm"],
        most_used: &["against", "pid", "repeats", "duration", "stop", "nice", "sysctl", "with", "without", "json"],
        examples: &[
            ("plimsoll confirm last fd-exhaustion --against http://HOST/", "with more descriptors"),
            ("plimsoll confirm last cpu-contention --against http://HOST/ --stop 1234", "without 1234"),
            ("plimsoll confirm last accept-queue-overflow --against ./server.sh", "a longer queue"),
            ("plimsoll confirm RUN FINDING --against URL --with ./on --without ./off", "any remedy"),
        ],
    },
    Help {
        path: &["ab"],
        most_used: &["a", "b", "a-flags", "b-flags", "repeats", "tolerance", "declare", "connections", "json"],
        examples: &[
            ("plimsoll ab --a http://OLD:8080/ --b http://NEW:8080/ -c 32", "two servers in turn"),
            ("plimsoll ab --a ./old.sh --b ./new.sh http://127.0.0.1:8080/", "each started by its command"),
            ("plimsoll ab --a http://HOST/ --b http://HOST/ --b-flags=--disable-keepalive", "one, asked in two ways"),
            ("plimsoll ab --a http://OLD/ --b http://NEW/ --declare cpu --repeats 14", "about one quantity"),
        ],
    },
    Help {
        path: &["compare"],
        most_used: &["paired", "tolerance", "json"],
        examples: &[
            ("plimsoll compare RUN last", "what differs, and what cannot be told of one run each"),
            ("plimsoll compare A1 A2 A3 A4 -- B1 B2 B3 B4", "several runs a side, with verdicts"),
            ("plimsoll compare DIR/comparison.json --json", "what 'plimsoll ab' kept, once more"),
        ],
    },
    Help {
        path: &["trend"],
        most_used: &[],
        examples: &[
            ("plimsoll trend", "of all recordings, load by load"),
            ("plimsoll trend ./nightly --tolerance 5%", "of a folder, changes of 5 % and more"),
        ],
    },
    Help {
        path: &["watch"],
        most_used: &["pid", "port", "duration", "tick", "metrics", "list", "at", "serve", "json"],
        examples: &[
            ("plimsoll watch --port 8080", "whoever listens there, a row a second, until Ctrl-C"),
            ("plimsoll watch --pid 1234 -d 1m --json", "one process for a minute, as JSON"),
            ("plimsoll watch --list", "what can be read on this machine"),
            ("plimsoll watch --serve 0.0.0.0:7878", "observe for a run on another machine"),
        ],
    },
    Help {
        path: &["check"],
        most_used: &["connections", "rate", "disable-keepalive", "fix", "dry-run", "json"],
        examples: &[
            ("plimsoll check", "what this host allows, and what binds first"),
            ("plimsoll check http://HOST:8080/ -c 100k", "for 100,000 connections to that server"),
            ("plimsoll check --rate 20k/s --disable-keepalive", "a connection for each request"),
            ("sudo plimsoll check -c 100k --fix", "change what binds; 'plimsoll fault undo' puts it back"),
        ],
    },
    Help {
        path: &["fault"],
        most_used: &[],
        examples: &[
            ("plimsoll fault --list", "every fault, and how it is undone"),
            ("plimsoll fault stop port:8080 --for 5s", "who listens there stops for 5 s"),
            ("plimsoll fault nice 1234 19 --dry-run", "what would be done, what is missing"),
            ("plimsoll fault list", "what is not undone"),
            ("sudo plimsoll fault undo", "put all of it back"),
        ],
    },
    Help {
        path: &["import"],
        most_used: &[],
        examples: &[
            ("plimsoll import vmstat vmstat.txt --every 1s", "a text on a timeline"),
            ("sar -A | plimsoll import sar -", "as it comes"),
        ],
    },
];

/// What `-h` of a command says of arguments whose help is too long for a screen.
const IN_SHORT: [(&str, &str, &str); 15] = [
    ("load", "url", "URL such as http://HOST:PORT/PATH, https://, unix:, echo://, resp://, ws:// or hold://"),
    ("load", "duration", "Length of the run, with -n whichever comes first [default: 10s]"),
    ("load", "requests", "Requests in all; with -d whichever comes first [default: no limit]"),
    ("load", "rate", "Open pace: due by the clock, such as 5k/s [default: closed pace]"),
    ("load", "expect", "Bounds, such as 'p99 < 50 ms, errors < 0.1 %' [default: half of them succeed]"),
    ("load", "header", "Field `Name: value`; may be repeated [default: Host, User-Agent, Accept]"),
    ("capacity", "slo", "What must hold: quantiles below a time and errors below a share"),
    ("capacity", "time", "How long it may take"),
    ("ab", "a", "A: a server's URL, or the command that starts it [default: none]"),
    ("ab", "b", "B, likewise [default: none]"),
    ("ab", "a_flags", "Flags of 'plimsoll load' for A only, as one word [default: none]"),
    ("ab", "b_flags", "The same for B [default: none]"),
    ("ab", "repeats", "Repeats, each of a slice of A, of B, and of A again"),
    ("ab", "tolerance", "Changes of less do not matter"),
    ("ab", "declare", "What verdicts are about [default: by the pace]"),
];

/// The order of a help text: what it is, how it is called, examples, flags.
const TEMPLATE: &str = "{about-with-newline}\n{usage-heading} {usage}\n\n{before-help}{all-args}{after-help}";

/// Puts examples into the help of each command, and hides what `-h` has no room for.
pub(super) fn with_examples(root: Command) -> Command {
    let urls = resolve::url_examples().collect::<Vec<_>>().join(", ");
    let mut root =
        root.mut_subcommand("load", |load| load.mut_arg("url", |url| url.help(format!("URL such as {urls}"))));
    root = root.mut_subcommand("ab", |ab| {
        ab.mut_arg("url", |url| url.help("Where the load goes, of sides that are commands"))
    });
    root = root.mut_subcommand("capacity", |capacity| {
        capacity.mut_arg("connections", |arg| {
            arg.help("Connections held open at once [default: 50; twice as many, up to 1,600, while by the clock they carry much more]")
        })
    });
    for help in HELPS {
        root = at(root, help.path, help);
    }
    root
}

fn at(command: Command, path: &[&'static str], help: &Help) -> Command {
    match path {
        [first, rest @ ..] => command.mut_subcommand(first, |inner| at(inner, rest, help)),
        [] => helped(command, help),
    }
}

fn helped(command: Command, help: &Help) -> Command {
    let examples = shown(help.examples);
    let command = command.help_template(TEMPLATE).before_help(examples);
    if help.path.is_empty() {
        // The list of commands has no room beside it for what the exit statuses are.
        let all = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        return command.after_help(None::<&str>).after_long_help(all);
    }
    if help.most_used.is_empty() {
        return command;
    }
    let all = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let name = help.path.join(" ");
    let is_rare = |arg: &clap::Arg| {
        arg.get_long().is_some_and(|long| !help.most_used.contains(&long) && long != "help" && long != "version")
    };
    let command = command.mut_args(|arg| {
        let short = IN_SHORT.iter().find(|(path, id, _)| help.path == [*path] && arg.get_id() == id);
        match (is_rare(&arg), short) {
            (true, _) => arg.hide_short_help(true),
            (false, Some((_, _, short))) => in_short(arg, short),
            (false, None) => arg,
        }
    });
    command.after_help(format!("'plimsoll {name} --help' has all flags.")).after_long_help(all)
}

/// An argument whose help is too long for a screen.
fn in_short(arg: clap::Arg, help: &'static str) -> clap::Arg {
    let whole = arg.get_help().map(ToString::to_string).unwrap_or_default();
    arg.help(help).long_help(whole)
}

/// A line each; what it does stands behind a `#`, so that the whole line can be pasted.
fn shown(examples: &[(&str, &str)]) -> String {
    let widest = examples.iter().map(|(typed, _)| typed.len()).max().unwrap_or(0);
    let lines: Vec<String> = examples.iter().map(|(typed, does)| format!("  {typed:widest$}  # {does}")).collect();
    format!("Examples:\n{}", lines.join("\n"))
}
