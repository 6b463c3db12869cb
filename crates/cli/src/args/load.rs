//! Arguments of `load`, in the groups its help shows: where, what, when, connections, TLS, how, results.
//!
//! Names follow wrk, ab, oha and curl where those agree. Nothing is filled in here: a flag that was not given
//! is absent from the scenario, and `resolve` knows the default that the help text names.

use super::agents::ByAgentsArgs;
use super::pages::live::LiveArgs;
use super::protocols::{self, ProtocolArgs};
use super::remote::{BehindArg, RemoteArgs};
use super::tls::TlsArgs;
use super::values::{self, Profile};
use super::{is_on_command_line, values::CpuList};
use crate::exit::Failure;
use agents::limits::BEHIND_MAX;
use clap::builder::BoolishValueParser;
use clap::{ArgMatches, Args, ValueEnum};
use model::bpf::Level;
use model::fault::LoadFault;
use model::plan::{Batch, BurstAt, DriverKind, OnError, OnFull, Think};
use remote::ObserveAt;
use session::BehindSpec;
use std::path::PathBuf;

/// Arguments of `load`.
#[derive(Debug, Args)]
pub struct LoadArgs {
    /// Where the load goes.
    #[command(flatten)]
    pub place: PlaceArgs,
    /// What is asked, by protocol.
    #[command(flatten)]
    pub protocols: ProtocolArgs,
    /// When requests are due.
    #[command(flatten)]
    pub pace: PaceArgs,
    /// What connections do.
    #[command(flatten)]
    pub connection: ConnectionArgs,
    /// TLS.
    #[command(flatten)]
    pub tls: TlsArgs,
    /// How the load is put on.
    #[command(flatten)]
    pub machine: MachineArgs,
    /// Where the target is observed.
    #[command(flatten)]
    pub remote: RemoteArgs,
    /// Who puts it on.
    #[command(flatten)]
    pub by_agents: ByAgentsArgs,
    /// What is expected of the figures.
    #[command(flatten)]
    pub expect: ExpectArgs,
    /// What is done to the target meanwhile.
    #[command(flatten)]
    pub faults: FaultArgs,
    /// Whether the target still answers.
    #[command(flatten)]
    pub canary: CanaryArgs,
    /// What becomes of the results.
    #[command(flatten)]
    pub output: OutputArgs,
    /// Ids of the flags that were given and that not every protocol has.
    #[arg(skip)]
    pub of_protocols: Vec<String>,
}

/// What is expected of the figures: what is not met is exit status 3.
#[derive(Debug, Args)]
#[command(next_help_heading = "Expected (exit status 3 where it is not met)")]
pub struct ExpectArgs {
    /// Bounds on figures, such as 'p99 < 50 ms, errors < 0.1 %, rate > 1k/s'; also mean, max, and of service, first-byte, connect or tls, such as 'connect p99 < 5 ms'; with hold:// connections; 'findings excludes swap-thrash'; may be repeated [default: half of the requests succeed]
    #[arg(long, value_name = "LIST", env = "PLIMSOLL_EXPECT")]
    pub expect: Vec<String>,
    /// How many requests may have no good reply, such as 'below 1 %', none or any [default: none with --expect-status, --expect-body and --expect-body-sha256]
    #[arg(long, value_name = "SHARE", env = "PLIMSOLL_EXPECT_ERRORS")]
    pub expect_errors: Option<String>,
    /// End the run early when a figure is so for so long, such as 'errors > 10 % for 5s' (all of the last 5 s together); also rate, mean, p99 and others; may be repeated [default: it runs to its end]
    #[arg(long, value_name = "WHEN", env = "PLIMSOLL_ABORT_WHEN")]
    pub abort_when: Vec<String>,
}

/// One request now and then beside the load, which asks only whether the target still answers.
#[derive(Debug, Args)]
#[command(next_help_heading = "Canary")]
pub struct CanaryArgs {
    /// Ask this URL once in a while beside the load, on a connection of its own, and report apart how many were answered, the slowest, and since when none was [default: none]
    #[arg(long, value_name = "URL", env = "PLIMSOLL_CANARY")]
    pub canary: Option<String>,
    /// Time from one of its requests to the next [default: 1s]
    #[arg(long, value_name = "TIME", env = "PLIMSOLL_CANARY_EVERY", value_parser = values::duration_ns)]
    pub canary_every: Option<u64>,
}

/// What is done to the target or its host meanwhile.
#[derive(Debug, Args)]
#[command(next_help_heading = "Faults (undone when their time or the load is over)")]
pub struct FaultArgs {
    /// Do something to the target or its host at a moment of the run, and for how long, such as 'stop target@10s:5s'; `plimsoll fault --list` has them all; may be repeated [default: nothing]
    #[arg(long, value_name = "NAME[ ARGS]@TIME[:TIME]", env = "PLIMSOLL_FAULT", value_parser = values::fault)]
    pub fault: Vec<LoadFault>,
}

/// Where the load goes.
#[derive(Debug, Args)]
#[command(next_help_heading = "Where")]
pub struct PlaceArgs {
    // Its help is in `help`: every protocol's URLs.
    /// URL
    #[arg(value_name = "URL")]
    pub url: Vec<String>,
    /// File with a URL in each line, a weight before it if wanted: `[WEIGHT] URL` [default: none]
    #[arg(long, value_name = "FILE", env = "PLIMSOLL_URLS")]
    pub urls: Option<PathBuf>,
    /// Connect to HOST:PORT or unix:PATH whatever the URL says; FROMHOST:FROMPORT:HOST:PORT for that host only [default: the URL's]
    #[arg(long, value_name = "HOST:PORT", env = "PLIMSOLL_CONNECT_TO")]
    pub connect_to: Option<String>,
    /// Use this address for a host and port; may be repeated [default: ask the resolver, use every address]
    #[arg(long, value_name = "HOST:PORT:ADDRESS", env = "PLIMSOLL_RESOLVE")]
    pub resolve: Vec<String>,
    /// Connect to this unix socket [default: the URL's host]
    #[arg(long, value_name = "PATH", env = "PLIMSOLL_UNIX_SOCKET")]
    pub unix_socket: Option<PathBuf>,
    /// Connect from this address, or from all of a network such as 127.1.0.0/24; may be repeated [default: the kernel's choice, on loopback as many as hold:// needs]
    #[arg(long, value_name = "ADDRESS", env = "PLIMSOLL_SOURCE", value_parser = values::source)]
    pub source: Vec<values::SourceList>,
    /// Use IPv4 addresses only
    #[arg(short = '4', long, env = "PLIMSOLL_IPV4", value_parser = BoolishValueParser::new())]
    pub ipv4: bool,
    /// Use IPv6 addresses only
    #[arg(short = '6', long, env = "PLIMSOLL_IPV6", value_parser = BoolishValueParser::new())]
    pub ipv6: bool,
}

/// When requests are due, and when the load ends.
#[derive(Debug, Args)]
#[command(next_help_heading = "When")]
pub struct PaceArgs {
    /// Length of the run, a bare number is seconds; with -n whichever comes first [default: 10s, none with -n, the profile's with --ramp or --steps]
    #[arg(short, long, short_alias = 'z', value_name = "TIME", env = "PLIMSOLL_DURATION", value_parser = values::duration_ns)]
    pub duration: Option<u64>,
    /// Requests in all; with -d whichever comes first. Without -d a target that is gone for 10 s is said, and the run goes on until all are done, as it may come back: Ctrl-C ends it with its report [default: no limit]
    #[arg(short = 'n', long, value_name = "N", env = "PLIMSOLL_REQUESTS", value_parser = values::count::<u64>)]
    pub requests: Option<u64>,
    /// Open pace: requests are due by the clock at this rate, such as 5k/s [default: closed, the next after the reply]
    #[arg(long, short_alias = 'R', value_name = "RATE", env = "PLIMSOLL_RATE", value_parser = values::rate)]
    pub rate: Option<Profile>,
    /// Open pace: from one rate to another, such as 100/s..5k/s:30s [default: closed]
    #[arg(long, value_name = "FROM..TO:TIME", env = "PLIMSOLL_RAMP", value_parser = values::ramp)]
    pub ramp: Option<Profile>,
    /// Open pace: one rate after another, such as 1k/s,2k/s,4k/s:10s (10 s each) [default: closed]
    #[arg(long, value_name = "RATES:TIME", env = "PLIMSOLL_STEPS", value_parser = values::steps)]
    pub steps: Option<Profile>,
    /// Open pace: arrivals fall as a Poisson process, not evenly
    #[arg(long, env = "PLIMSOLL_POISSON", value_parser = BoolishValueParser::new())]
    pub poisson: bool,
    /// Bursts: so many requests, each on a connection of its own, all at one moment; how much later than that each left is the lag [default: no bursts]
    #[arg(long, value_name = "N", env = "PLIMSOLL_BURST", value_parser = values::count::<u32>)]
    pub burst: Option<u32>,
    /// How many bursts [default: 10]
    #[arg(long, value_name = "N", env = "PLIMSOLL_ROUNDS", value_parser = values::count::<u32>)]
    pub rounds: Option<u32>,
    /// What a burst releases [default: send]
    #[arg(long, value_name = "WHAT", env = "PLIMSOLL_BURST_AT")]
    pub burst_at: Option<BurstAtArg>,
    /// From the end of a burst to the preparation of the next [default: 100ms]
    #[arg(long, value_name = "TIME", env = "PLIMSOLL_BURST_PAUSE", value_parser = values::duration_ns)]
    pub burst_pause: Option<u64>,
    /// Closed pace: wait between reply and next request, 10ms, 5ms..20ms or exp:10ms [default: none]
    #[arg(long, value_name = "TIME", env = "PLIMSOLL_THINK", value_parser = values::think)]
    pub think: Option<Think>,
    /// Load before the figures count [default: 0]
    #[arg(long, value_name = "TIME", env = "PLIMSOLL_WARMUP", value_parser = values::duration_ns)]
    pub warmup: Option<u64>,
    /// Longest wait for requests in flight at the end [default: 5s, no longer than --timeout]
    #[arg(long, value_name = "TIME", env = "PLIMSOLL_DRAIN", value_parser = values::duration_ns)]
    pub drain: Option<u64>,
    /// After the load and its drain, go on reading the machine for this time, to see what memory the target gives back [default: 0]
    #[arg(long, value_name = "TIME", env = "PLIMSOLL_AFTER", value_parser = values::duration_ns)]
    pub after: Option<u64>,
    /// Open pace: what a due request does when no connection is free [default: wait]
    #[arg(long, value_name = "WHAT", env = "PLIMSOLL_ON_FULL")]
    pub on_full: Option<OnFullArg>,
    /// What a client does when a request fails: fail-fast; wait until its connection is there again; or `retry:N:BACKOFF[:JITTER]`, up to N more attempts, the first after BACKOFF, each further one after twice as long, up to JITTER (such as 50%) sooner [default: fail-fast]
    #[arg(long, value_name = "POLICY", env = "PLIMSOLL_ON_ERROR", value_parser = values::on_error)]
    pub on_error: Option<OnError>,
    /// With --on-error retry: the share of the requests that may be retries, such as 10%; beyond it a request that fails has failed [default: any]
    #[arg(long, value_name = "SHARE", env = "PLIMSOLL_RETRY_BUDGET", value_parser = values::share)]
    pub retry_budget: Option<f64>,
    /// Open pace: requests that may wait for a connection, per worker [default: 10 s of the highest rate, 1024 to 262144]
    #[arg(long, value_name = "N", env = "PLIMSOLL_QUEUE", value_parser = values::count::<u32>)]
    pub queue: Option<u32>,
}

/// What connections do.
#[derive(Debug, Args)]
#[command(next_help_heading = "Connections")]
pub struct ConnectionArgs {
    /// Connections held open at once [default: 50]
    #[arg(short, long, value_name = "N", env = "PLIMSOLL_CONNECTIONS", value_parser = values::count::<u32>)]
    pub connections: Option<u32>,
    /// Close each connection after its reply
    #[arg(long, env = "PLIMSOLL_DISABLE_KEEPALIVE", value_parser = BoolishValueParser::new())]
    pub disable_keepalive: bool,
    /// Replace a connection after so many requests [default: never]
    #[arg(long, value_name = "N", env = "PLIMSOLL_REQUESTS_PER_CONNECTION", value_parser = values::count::<u32>)]
    pub requests_per_connection: Option<u32>,
    /// Requests outstanding on a connection at once [default: 1]
    #[arg(long, value_name = "N", env = "PLIMSOLL_PIPELINE", value_parser = values::count::<u16>)]
    pub pipeline: Option<u16>,
    /// Longest wait for a complete reply [default: 30s]
    #[arg(long, value_name = "TIME", env = "PLIMSOLL_TIMEOUT", value_parser = values::duration_ns)]
    pub timeout: Option<u64>,
    /// Longest wait for a connection [default: 10s]
    #[arg(long, value_name = "TIME", env = "PLIMSOLL_CONNECT_TIMEOUT", value_parser = values::duration_ns)]
    pub connect_timeout: Option<u64>,
    /// End a run in which nothing has ever connected after this time, or `never` [default: 2s, or --connect-timeout if that is longer]
    #[arg(long, value_name = "TIME", env = "PLIMSOLL_GIVE_UP", value_parser = values::every)]
    pub give_up: Option<u64>,
}

/// How the load is put on.
#[derive(Debug, Args)]
#[command(next_help_heading = "How")]
pub struct MachineArgs {
    /// Worker threads [default: one per CPU, half of that for a target on this machine]
    #[arg(short, long, value_name = "N", env = "PLIMSOLL_THREADS", value_parser = values::count::<u16>)]
    pub threads: Option<u16>,
    /// CPUs to pin workers to, such as 0,1 or 0-3 [default: not pinned]
    #[arg(long, value_name = "CPUS", env = "PLIMSOLL_PIN", value_parser = values::cpus)]
    pub pin: Option<CpuList>,
    /// Hold this machine still meanwhile, as far as it can be, and undo it after: generator and target on CPUs of their own, interrupts on others, governor performance, no turbo, no randomised addresses of a target that the run starts; the report says what could be set and what could not
    #[arg(long, env = "PLIMSOLL_ISOLATE", value_parser = BoolishValueParser::new())]
    pub isolate: bool,
    /// How sockets are driven [default: by pace and kernel, --explain says which and why]
    #[arg(long, value_name = "DRIVER", env = "PLIMSOLL_DRIVER")]
    pub driver: Option<DriverArg>,
    /// Reap completions together: wait for N, at most DELAY; changes the load it puts on [default: off; 128,1ms without a value, and never more than half of what a worker has outstanding]
    #[arg(long, value_name = "N[,DELAY]", env = "PLIMSOLL_BATCH", value_parser = values::batch, num_args = 0..=1, require_equals = true, default_missing_value = "128,1ms")]
    pub batch: Option<Batch>,
    /// Take the kernel's stamp of the last packet as the end of a reply [default: on in an open pace over TCP without pipelining]
    #[arg(long, value_name = "on|off", env = "PLIMSOLL_RECEIVE_STAMPS", value_parser = values::on_off)]
    pub receive_stamps: Option<bool>,
    /// Length of an interval of the recording [default: 1s, 100ms for runs below 5 s]
    #[arg(long, value_name = "TIME", env = "PLIMSOLL_TICK", value_parser = values::duration_ns)]
    pub tick: Option<u64>,
    /// Seed of all randomness [default: random, stored in the recording]
    #[arg(long, value_name = "N", env = "PLIMSOLL_SEED")]
    pub seed: Option<u64>,
}

/// What becomes of the results.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Results")]
pub struct OutputArgs {
    /// Print what would run, its limits and why, and put no load on
    #[arg(long, env = "PLIMSOLL_EXPLAIN", value_parser = BoolishValueParser::new())]
    pub explain: bool,
    /// Print the report as JSON
    #[arg(long, env = "PLIMSOLL_JSON", value_parser = BoolishValueParser::new())]
    pub json: bool,
    /// Write the intervals as CSV to a file, or to stdout with '-', and the report to stderr [default: not written]
    #[arg(long, value_name = "FILE", env = "PLIMSOLL_CSV")]
    pub csv: Option<PathBuf>,
    /// Write the recording here [default: a file of its own in $XDG_STATE_HOME/plimsoll/runs]
    #[arg(long, value_name = "FILE", env = "PLIMSOLL_RECORD")]
    pub record: Option<PathBuf>,
    /// Keep secrets in the recording's plan, too: header values, credentials of URLs and queries, passwords of commands; by default each is ***
    #[arg(long, env = "PLIMSOLL_RECORD_SECRETS", value_parser = BoolishValueParser::new())]
    pub record_secrets: bool,
    /// Keep no recording
    #[arg(long, env = "PLIMSOLL_NO_RECORD", value_parser = BoolishValueParser::new())]
    pub no_record: bool,
    /// Which probes watch the target from the kernel, as root: the cheap ones, and the others for a tenth of the time or all of it [default: light]
    #[arg(long, value_name = "LEVEL", env = "PLIMSOLL_OBSERVE")]
    pub observe: Option<ObserveArg>,
    /// Read nothing of host, target and generator: what observing costs is saved, and what it would tell is not known
    #[arg(long, env = "PLIMSOLL_NO_OBSERVE", value_parser = BoolishValueParser::new())]
    pub no_observe: bool,
    /// Print no progress and no warnings
    #[arg(short, long, env = "PLIMSOLL_QUIET", value_parser = BoolishValueParser::new())]
    pub quiet: bool,
    /// Draw no view of the run on the terminal while it goes, but one line
    #[arg(long, env = "PLIMSOLL_NO_TUI", value_parser = BoolishValueParser::new())]
    pub no_tui: bool,
    /// Print without colours, as with NO_COLOR
    #[arg(long, env = "PLIMSOLL_NO_COLOR", value_parser = BoolishValueParser::new())]
    pub no_color: bool,
    /// The page of the run while it goes on.
    #[command(flatten)]
    pub live: LiveArgs,
}

/// Which probes run.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum ObserveArg {
    /// None; only /proc is read
    None,
    /// Signals, exits, losses, handshakes, collectors; for a tenth of the time receives, sends, run queue
    Light,
    /// And waits, locks, block I/O for a tenth of the time, system calls in it until there are enough
    Windows,
    /// All of them all the time
    Full,
}

impl From<ObserveArg> for Level {
    fn from(arg: ObserveArg) -> Self {
        match arg {
            ObserveArg::None => Self::None,
            ObserveArg::Light => Self::Light,
            ObserveArg::Windows => Self::Windows,
            ObserveArg::Full => Self::Full,
        }
    }
}

impl OutputArgs {
    /// Which probes observe the target.
    pub fn probes(&self) -> Level {
        self.observe.unwrap_or(ObserveArg::Light).into()
    }
}

/// What a burst releases.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum BurstAtArg {
    /// The connects, each with its request behind it; new connections each round
    Connect,
    /// The requests, on connections that are established
    Send,
}

impl From<BurstAtArg> for BurstAt {
    fn from(arg: BurstAtArg) -> BurstAt {
        match arg {
            BurstAtArg::Connect => BurstAt::Connect,
            BurstAtArg::Send => BurstAt::Send,
        }
    }
}

/// What a due request does when no connection is free.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum OnFullArg {
    /// It waits, and the wait is measured
    Wait,
    /// It is dropped and counted
    Drop,
}

impl From<OnFullArg> for OnFull {
    fn from(arg: OnFullArg) -> OnFull {
        match arg {
            OnFullArg::Wait => OnFull::Wait,
            OnFullArg::Drop => OnFull::Drop,
        }
    }
}

/// How sockets are driven.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum DriverArg {
    /// io_uring
    Uring,
    /// io_uring with sockets in the rings' own tables: more connections than descriptors
    Rings,
    /// epoll
    Epoll,
}

impl From<DriverArg> for DriverKind {
    fn from(arg: DriverArg) -> DriverKind {
        match arg {
            DriverArg::Uring => DriverKind::Uring,
            DriverArg::Rings => DriverKind::Rings,
            DriverArg::Epoll => DriverKind::Epoll,
        }
    }
}

/// Flags of which one at most can apply.
const EXCLUSIVE: &[&[&str]] = &[
    &["rate", "ramp", "steps"],
    &["ipv4", "ipv6"],
    &["record", "no_record"],
    &["observe", "no_observe"],
    &["observe_at", "no_observe"],
    &["behind", "no_observe"],
];

/// Whether something of an id has no effect, as others were given by whom it does not overrule: itself, or one that it
/// cannot be used with.
pub fn is_overruled(id: &str, by: &[String]) -> bool {
    let is_by = |id: &str| by.iter().any(|given| given == id);
    is_by(id) || EXCLUSIVE.iter().any(|group| group.contains(&id) && group.iter().any(|other| is_by(other)))
}

impl LoadArgs {
    /// Where this process reads the target's machine, if not here; a way there over NATS is opened. Of a load that agents put on it is
    /// one of these that does.
    pub fn observe_at(&self) -> Result<Option<ObserveAt>, Failure> {
        let address = self.remote.observe_at.as_ref().filter(|_| self.by_agents.agents.is_none());
        let Some(address) = address else { return Ok(None) };
        let mut at = self.remote.link.at(address, || self.by_agents.nats("--observe-at nats:NAME"))?;
        at.tell = (!self.output.quiet).then_some(crate::commands::tell);
        Ok(Some(at))
    }

    /// The machines behind the target that this process has observed; as [`LoadArgs::observe_at`].
    pub fn behind(&self) -> Result<Vec<BehindSpec>, Failure> {
        let own = self.remote.behind.iter().filter(|_| self.by_agents.agents.is_none());
        let spec = |behind: &BehindArg| {
            let nats = || self.by_agents.nats("--behind nats:NAME");
            let mut at = self.remote.link.at(&behind.observer, nats)?;
            at.tell = (!self.output.quiet).then_some(crate::commands::tell);
            Ok(BehindSpec { at, port: behind.port, probes: self.output.probes() })
        };
        if self.remote.behind.len() > BEHIND_MAX {
            let got = self.remote.behind.len();
            return Err(Failure::usage(format!("--behind: expected at most {BEHIND_MAX} machines, got {got}")));
        }
        own.map(spec).collect()
    }

    /// Of flags that exclude each other, keeps the one on the command line and forgets those of the environment.
    /// clap's own conflicts would refuse a flag because of a variable, and flags win over variables. And keeps in mind
    /// which flags of single protocols were given.
    pub fn settle(&mut self, matches: &ArgMatches) -> Result<(), Failure> {
        self.of_protocols = protocols::given(matches);
        for group in EXCLUSIVE {
            let set: Vec<&str> = group.iter().copied().filter(|id| self.is_set(id)).collect();
            let written: Vec<&str> = set.iter().copied().filter(|id| is_on_command_line(matches, id)).collect();
            let kept = if written.is_empty() { &set } else { &written };
            if let [first, second, ..] = kept[..] {
                let flag = |id: &str| format!("--{}", id.replace('_', "-"));
                let message = format!("{} cannot be used with {}: leave one of them out", flag(first), flag(second));
                return Err(Failure::usage(message));
            }
            for id in set.iter().filter(|id| !kept.contains(id)) {
                self.forget(id);
            }
        }
        Ok(())
    }

    fn is_set(&self, id: &str) -> bool {
        match id {
            "rate" => self.pace.rate.is_some(),
            "ramp" => self.pace.ramp.is_some(),
            "steps" => self.pace.steps.is_some(),
            "ipv4" => self.place.ipv4,
            "ipv6" => self.place.ipv6,
            "record" => self.output.record.is_some(),
            "no_record" => self.output.no_record,
            "observe" => self.output.observe.is_some(),
            "no_observe" => self.output.no_observe,
            "observe_at" => self.remote.observe_at.is_some(),
            "behind" => !self.remote.behind.is_empty(),
            _ => false,
        }
    }

    fn forget(&mut self, id: &str) {
        match id {
            "rate" => self.pace.rate = None,
            "ramp" => self.pace.ramp = None,
            "steps" => self.pace.steps = None,
            "ipv4" => self.place.ipv4 = false,
            "ipv6" => self.place.ipv6 = false,
            "record" => self.output.record = None,
            "no_record" => self.output.no_record = false,
            "observe" => self.output.observe = None,
            "no_observe" => self.output.no_observe = false,
            "observe_at" => self.remote.observe_at = None,
            "behind" => self.remote.behind.clear(),
            _ => {}
        }
    }
}
