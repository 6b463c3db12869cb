//! Arguments of `plimsoll kubernetes`: what is placed, where, and how long is waited for it.
//!
//! What Kubernetes itself would refuse is looked at by `crates/kubernetes`, so that it is refused alike wherever it comes from.

use crate::args::values;
use crate::exit::Failure;
use agents::allow::Allowed;
use clap::builder::BoolishValueParser;
use clap::{Args, Subcommand};
use kubernetes::{Nats, Place, SecretKey, Wanted};

/// How long is waited where nothing is said.
const WAIT: &str = "5m";

/// What is done with a cluster.
#[derive(Debug, Args)]
pub struct KubernetesArgs {
    /// What is done.
    #[command(subcommand)]
    pub command: KubernetesCommand,
}

/// What is done.
#[derive(Debug, Subcommand)]
pub enum KubernetesCommand {
    /// Print the objects as YAML, for `kubectl apply -f -`; no cluster is asked
    #[command(after_help = crate::args::VARIABLES)]
    Manifest(Box<ManifestArgs>),
    /// Put agents into a cluster, and wait until they run
    #[command(after_help = crate::args::VARIABLES)]
    Apply(Box<ApplyArgs>),
    /// Take all of it away, also what an apply that was killed has left
    #[command(after_help = crate::args::VARIABLES)]
    Delete(DeleteArgs),
}

/// Which cluster, and how long is waited for it.
#[derive(Debug, Args)]
#[command(next_help_heading = "Cluster")]
pub struct PlaceArgs {
    /// A context of the kubeconfig [default: its current one]
    #[arg(long, value_name = "NAME", env = "PLIMSOLL_CONTEXT")]
    pub context: Option<String>,
    /// How long is waited until all agents run, or nothing is left of them (they end the run that is under way); 0s: not at all
    #[arg(long, value_name = "TIME", env = "PLIMSOLL_WAIT", default_value = WAIT, value_parser = values::duration_ns)]
    pub wait: u64,
    /// No progress
    #[arg(short, long, env = "PLIMSOLL_QUIET", value_parser = BoolishValueParser::new())]
    pub quiet: bool,
}

/// What is placed.
#[derive(Debug, Args)]
pub struct WantedArgs {
    /// What the objects are called; several may stand in one namespace
    #[arg(long, value_name = "NAME", env = "PLIMSOLL_NAME", default_value = "plimsoll")]
    pub name: String,
    /// The namespace, which must be there [default: that of the kubeconfig's context]
    #[arg(long, value_name = "NAME", env = "PLIMSOLL_NAMESPACE")]
    pub namespace: Option<String>,
    /// The image with plimsoll, of this version (scripts/image.sh makes one) [default: none, it must be given]
    #[arg(long, value_name = "IMAGE", env = "PLIMSOLL_IMAGE", required = true)]
    pub image: String,
    /// A Secret that is there, by which images may be pulled [default: none]
    #[arg(long, value_name = "SECRET", env = "PLIMSOLL_PULL_SECRET")]
    pub pull_secret: Option<String>,
    /// How many agents, on as many hosts where there are enough
    #[arg(long, value_name = "N", env = "PLIMSOLL_AGENTS", default_value = "4", value_parser = clap::value_parser!(u16).range(1..))]
    pub agents: u16,
    /// CPUs of each, and so many workers
    #[arg(long, value_name = "N", env = "PLIMSOLL_CORES", default_value = "1", value_parser = clap::value_parser!(u16).range(1..))]
    pub cores: u16,
    /// Memory of each
    #[arg(long, value_name = "SIZE", env = "PLIMSOLL_MEMORY", default_value = "512MiB", value_parser = values::size::<u64>)]
    pub memory: u64,
    /// Place an observer on this node, as `kubectl get nodes` calls it: loads see the target that runs there (--observe-at nats:NODE). It has every right on its node, and needs --token-secret; may be repeated [default: none]
    #[arg(long, value_name = "NODE", env = "PLIMSOLL_OBSERVE_NODE", value_delimiter = ',')]
    pub observe_node: Vec<String>,
    /// What agents allow.
    #[command(flatten)]
    pub allow: AllowArgs,
    /// How agents are reached.
    #[command(flatten)]
    pub nats: PlacedNatsArgs,
}

/// What agents allow, as for `plimsoll agent`.
#[derive(Debug, Args)]
#[command(next_help_heading = "What agents allow")]
pub struct AllowArgs {
    /// Agents put load on these targets and no others: HOST, HOST:PORT, an address, a network such as 10.1.0.0/16; may be repeated [default: none, it must be given]
    #[arg(long, value_name = "TARGET", env = "PLIMSOLL_ALLOW_TARGET", required = true, value_delimiter = ',')]
    pub allow_target: Vec<Allowed>,
    /// An agent takes no share of more requests a second, and no load without a rate [default: any]
    #[arg(long, value_name = "RATE", env = "PLIMSOLL_RATE_MAX", value_parser = values::per_s)]
    pub rate_max: Option<f64>,
    /// An agent takes no share of more connections [default: any]
    #[arg(long, value_name = "N", env = "PLIMSOLL_CONNECTIONS_MAX", value_parser = values::count::<u32>)]
    pub connections_max: Option<u32>,
    /// A label by which loads can choose these agents, such as zone=a; may be repeated [default: none]
    #[arg(long, value_name = "LABEL", env = "PLIMSOLL_LABEL", value_delimiter = ',')]
    pub label: Vec<String>,
    /// Agents take only plans that were sealed with the token of this Secret, which is there: SECRET or SECRET/KEY [default: none; the key is 'token']
    #[arg(long, value_name = "SECRET", env = "PLIMSOLL_TOKEN_SECRET")]
    pub token_secret: Option<String>,
}

/// The NATS that agents use: one that is there, or one that is placed with them.
#[derive(Debug, Args)]
#[command(next_help_heading = "NATS")]
pub struct PlacedNatsArgs {
    /// Use these NATS servers, as pods reach them: nats://HOST:PORT or tls://HOST:PORT, several with commas between [default: one is placed with the agents]
    #[arg(long, value_name = "URL", env = "PLIMSOLL_NATS")]
    pub nats: Option<String>,
    /// With --nats: a Secret that is there, with a file of credentials: SECRET or SECRET/KEY [default: none; the key is 'nats.creds']
    #[arg(long, value_name = "SECRET", env = "PLIMSOLL_CREDENTIALS_SECRET", requires = "nats")]
    pub credentials_secret: Option<String>,
    /// With --nats: a Secret that is there, with the authorities to trust: SECRET or SECRET/KEY [default: those of the image, which has none of its own; the key is 'ca.crt']
    #[arg(long, value_name = "SECRET", env = "PLIMSOLL_CA_SECRET", requires = "nats")]
    pub ca_secret: Option<String>,
    /// The image of the NATS server that is placed
    #[arg(long, value_name = "IMAGE", env = "PLIMSOLL_NATS_IMAGE", default_value = "docker.io/library/nats:2.12")]
    pub nats_image: String,
    /// Its room for runs
    #[arg(long, value_name = "SIZE", env = "PLIMSOLL_NATS_STORAGE", default_value = "4GiB", value_parser = values::size::<u64>)]
    pub nats_storage: u64,
    /// Its room outlives its pod: a claim of this storage class; '' is the cluster's default class [default: it goes with the pod]
    #[arg(long, value_name = "CLASS", env = "PLIMSOLL_NATS_CLAIM", conflicts_with = "nats")]
    pub nats_claim: Option<String>,
}

/// Arguments of `plimsoll kubernetes manifest`.
#[derive(Debug, Args)]
pub struct ManifestArgs {
    /// What is placed.
    #[command(flatten)]
    pub wanted: WantedArgs,
}

/// Arguments of `plimsoll kubernetes apply`.
#[derive(Debug, Args)]
pub struct ApplyArgs {
    /// What is placed.
    #[command(flatten)]
    pub wanted: WantedArgs,
    /// Where.
    #[command(flatten)]
    pub place: PlaceArgs,
}

/// Arguments of `plimsoll kubernetes delete`.
#[derive(Debug, Args)]
pub struct DeleteArgs {
    /// What the objects are called
    #[arg(long, value_name = "NAME", env = "PLIMSOLL_NAME", default_value = "plimsoll")]
    pub name: String,
    /// All that plimsoll has placed in the namespace, whatever it is called
    #[arg(long, env = "PLIMSOLL_ALL", value_parser = BoolishValueParser::new())]
    pub all: bool,
    /// The namespace [default: that of the kubeconfig's context]
    #[arg(long, value_name = "NAME", env = "PLIMSOLL_NAMESPACE")]
    pub namespace: Option<String>,
    /// Where.
    #[command(flatten)]
    pub place: PlaceArgs,
}

impl PlaceArgs {
    /// Which cluster, and where in it.
    pub fn place(&self, namespace: Option<&String>) -> Place {
        Place { context: self.context.clone(), namespace: namespace.cloned() }
    }
}

impl WantedArgs {
    /// What is placed; all of it was looked at.
    pub fn wanted(&self) -> Result<Wanted, Failure> {
        let secret = |flag: &str, text: &Option<String>, key: &str| match text {
            Some(text) => Ok::<_, Failure>(Some(SecretKey::parse(flag, text, key)?)),
            None => Ok(None),
        };
        let PlacedNatsArgs { nats, credentials_secret, ca_secret, nats_image, nats_storage, nats_claim } = &self.nats;
        let nats = match nats {
            Some(url) => Nats::There {
                url: url.clone(),
                credentials: secret("--credentials-secret", credentials_secret, "nats.creds")?,
                ca: secret("--ca-secret", ca_secret, "ca.crt")?,
            },
            None => Nats::Placed { image: nats_image.clone(), storage_bytes: *nats_storage, claim: nats_claim.clone() },
        };
        if let Some(label) = self.allow.label.iter().find(|label| !agents::message::is_label(label)) {
            return Err(Failure::usage(format!(
                "--label: expected a word such as big, or one with a value such as zone=a, got '{}'",
                model::plain::plain(label)
            )));
        }
        let wanted = Wanted {
            name: self.name.clone(),
            namespace: self.namespace.clone(),
            image: self.image.clone(),
            pull_secret: self.pull_secret.clone(),
            agents: self.agents,
            cores: self.cores,
            memory_bytes: self.memory,
            allow_target: self.allow.allow_target.iter().map(|one| one.written().to_owned()).collect(),
            labels: self.allow.label.clone(),
            rate_max: self.allow.rate_max,
            connections_max: self.allow.connections_max,
            observed_nodes: self.observe_node.clone(),
            token: secret("--token-secret", &self.allow.token_secret, "token")?,
            nats,
        };
        wanted.check()?;
        Ok(wanted)
    }
}
