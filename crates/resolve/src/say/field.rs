//! What a scenario can say, by name: errors and warnings carry these, and whoever shows them says how each is written
//! where it came from: as a flag, or as a key of a file.

/// One line a field: its name here, and its plain name.
macro_rules! fields {
    ($($(#[$about:meta])* $field:ident = $key:literal,)+) => {
        /// Something a scenario can say.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Field {
            $($(#[$about])* $field,)+
            /// One that a single protocol has, by its plain name.
            Own(&'static str),
        }

        impl Field {
            /// Every field that is no protocol's own; for those see [`crate::fields_of_protocols`].
            pub const ALL: &'static [Field] = &[$(Field::$field,)+];

            /// Its plain name, where nobody says how it is written.
            pub const fn key(self) -> &'static str {
                match self {
                    $(Field::$field => $key,)+
                    Field::Own(key) => key,
                }
            }
        }
    };
}

fields! {
    /// Where the load goes.
    Url = "URL",
    /// The share of a URL.
    UrlWeight = "weight of a URL",
    /// Bounds on the figures.
    Expect = "expect",
    /// The bound on errors.
    ExpectErrors = "expect_errors",
    /// When the run ends early.
    AbortWhen = "abort_when",
    /// Where connections go, whatever the URL says.
    ConnectTo = "connect_to",
    /// Addresses that override name resolution.
    Resolve = "resolve",
    /// The socket to connect to.
    UnixSocket = "unix_socket",
    /// The family of addresses.
    IpVersion = "ip_version",
    /// Addresses connections come from.
    Source = "source",
    /// How many of them a check is to count with.
    Sources = "sources",
    /// Connections.
    Connections = "connections",
    /// Requests in all.
    Requests = "requests",
    /// Length.
    Duration = "duration",
    /// Warm-up.
    Warmup = "warmup",
    /// Longest wait at the end.
    Drain = "drain",
    /// One rate to the end.
    Rate = "rate",
    /// A rate that changes steadily.
    Ramp = "ramp",
    /// Rates one after the other.
    Steps = "steps",
    /// How arrivals fall.
    Poisson = "poisson",
    /// So many at one moment.
    Burst = "burst",
    /// How many bursts.
    Rounds = "rounds",
    /// What a burst releases.
    BurstAt = "burst_at",
    /// Time between bursts.
    BurstPause = "burst_pause",
    /// Think time of a closed pace.
    Think = "think",
    /// What happens when no connection is free.
    OnFull = "on_full",
    /// What becomes of a request after an attempt at it failed.
    OnError = "on_error",
    /// Which share of the requests may be retries.
    RetryBudget = "retry_budget",
    /// How many may wait for one.
    Queue = "queue",
    /// Workers.
    Threads = "threads",
    /// CPUs they are pinned to.
    Pin = "pin",
    /// Connect timeout.
    ConnectTimeout = "connect_timeout",
    /// When a run is given up in which nothing has connected.
    GiveUp = "give_up",
    /// How long the machine is read on after the load.
    After = "after",
    /// Reply timeout.
    Timeout = "timeout",
    /// Requests on a connection before it is replaced.
    RequestsPerConnection = "requests_per_connection",
    /// Requests outstanding on a connection.
    Pipeline = "pipeline",
    /// What drives the sockets.
    Driver = "driver",
    /// Completions reaped together.
    Batch = "batch",
    /// Kernel receive stamps.
    ReceiveStamps = "receive_stamps",
    /// Length of an interval.
    Tick = "tick",
    /// A named part of the load.
    Phase = "phase",
    /// Something done to the target or its host.
    Fault = "fault",
    /// Seed.
    Seed = "seed",
    /// No certificate is verified.
    Insecure = "insecure",
    /// Certificates to trust.
    Ca = "ca",
    /// The certificate shown.
    Cert = "cert",
    /// Its key.
    Key = "key",
    /// TLS versions offered.
    TlsVersion = "tls_version",
    /// Cipher suites offered.
    Ciphers = "ciphers",
    /// Key exchange groups offered.
    Groups = "groups",
    /// Application protocols offered.
    Alpn = "alpn",
    /// The name the certificate must have.
    Sni = "sni",
    /// Whether sessions are resumed.
    Resume = "resume",
    /// The handshake is all that is asked.
    HandshakeOnly = "handshake_only",
}
