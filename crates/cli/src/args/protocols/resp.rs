//! Arguments of `load` for RESP: commands, keys, values. Mix and keys are HTTP's, too.
//!
//! Texts only; `resolve` reads the mix and knows the defaults that the help names.

use super::super::load::LoadArgs;
use super::super::values;
use super::{Flags, ProtocolArgs, SecretFlag};
use clap::Args;
use clap::builder::BoolishValueParser;
use model::plan::Sizes;
use model::resp::{KeyDistribution, RespAsked};
use model::workload::{Asked as _, What};
use model::{Secret, hide};
use resolve::parse_key_distribution;

/// What RESP commands are sent.
#[derive(Debug, Args)]
#[command(next_help_heading = "What (resp)")]
pub struct RespArgs {
    /// Commands with their weights: GET, SET, DEL, INCR, PING, FLUSHALL, SAVE, LOAD, LOADALL, REMOVE, REMOVEALL, OOPS, or any written out, such as 'HSET h:{key} f {value}=5', whose reply may be anything but an error; of http methods, such as GET=50,PUT=50, PUT, POST and PATCH with the body [default: GET=80,SET=20; of http --method]
    #[arg(long, value_name = "COMMAND=WEIGHT,...", env = "PLIMSOLL_MIX")]
    pub mix: Option<String>,
    /// Distinct keys: the prefix and a number of twelve digits; of http `{{key}}`, a number from 1 on [default: 10k]
    #[arg(long, value_name = "N", env = "PLIMSOLL_KEYS", value_parser = values::count::<u32>)]
    pub keys: Option<u32>,
    /// How keys are drawn: uniform, sequential, zipf or zipf:S [default: uniform; S 0.99]
    #[arg(long, value_name = "HOW", env = "PLIMSOLL_KEY_DISTRIBUTION", value_parser = parse_key_distribution)]
    pub key_distribution: Option<KeyDistribution>,
    /// What every key begins with [default: plimsoll:]
    #[arg(long, value_name = "TEXT", env = "PLIMSOLL_KEY_PREFIX")]
    pub key_prefix: Option<String>,
    /// Sizes of values, a key's always the same: 128, 16..1KiB or 1,2,4KiB [default: 128]
    #[arg(long, value_name = "SIZES", env = "PLIMSOLL_VALUE_SIZE", value_parser = values::sizes)]
    pub value_size: Option<Sizes>,
    /// Take any value: by default one that is not its key's (made from key, --seed and --content) is a failure
    #[arg(long, env = "PLIMSOLL_NO_VALIDATE", value_parser = BoolishValueParser::new())]
    pub no_validate: bool,
    /// Remember which keys' write was acknowledged: a read that leaves after it and finds nothing is a failure, lost-write. Takes a bit for each of --keys, each worker knows its own. Of resp the mix has GET and SET alone; of http PUT, POST and PATCH write `{{key}}`, GET and HEAD read it, 404 and 410 are nothing, and DELETE takes it away
    #[arg(long, env = "PLIMSOLL_VERIFY_WRITES", value_parser = BoolishValueParser::new())]
    pub verify_writes: bool,
}

/// See the file's head. Who logs in is said as for HTTP, of what values are made as for echo.
pub(super) const FLAGS: Flags =
    Flags { protocol: RespAsked::PROTOCOL, own: RespArgs::augment_args, also: &["user", "content"], asked, secrets };

fn asked(args: &LoadArgs) -> What {
    let resp = &args.protocols.resp;
    What::Resp(RespAsked {
        mix: resp.mix.as_deref().map(hide::secret_mix),
        keys: resp.keys,
        key_prefix: resp.key_prefix.clone(),
        key_distribution: resp.key_distribution,
        value_sizes: resp.value_size.clone(),
        content: args.protocols.echo.content.map(Into::into),
        no_validate: resp.no_validate,
        verify_writes: resp.verify_writes,
        user: args.protocols.http.user.as_deref().map(Secret::from),
    })
}

fn secrets(args: &ProtocolArgs) -> Vec<SecretFlag> {
    let mix = args.resp.mix.iter();
    mix.map(|mix| SecretFlag { short: None, long: "mix", written: mix.clone(), shown: hide::mix(mix) }).collect()
}
