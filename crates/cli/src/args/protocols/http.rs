//! Flags of HTTP: what is asked, and what a good reply looks like.
//!
//! Names follow curl where it has them.

use super::super::load::LoadArgs;
use super::super::values;
use super::{Flags, ProtocolArgs, SecretFlag};
use clap::builder::BoolishValueParser;
use clap::{Args, ValueEnum};
use model::data::Order;
use model::secret::HIDDEN;
use model::workload::http::HttpAsked;
use model::workload::{Asked as _, What};
use model::{Secret, hide};
use std::path::PathBuf;

/// What is asked, and what a good reply looks like.
#[derive(Debug, Args)]
#[command(next_help_heading = "What (http)")]
pub struct HttpArgs {
    /// Method [default: GET, POST with a body]
    #[arg(short = 'X', long, value_name = "METHOD", env = "PLIMSOLL_METHOD")]
    pub method: Option<String>,
    /// Header field `Name: value`; `Name:` removes a default one, `Name;` sends it empty; may be repeated [default: Host, User-Agent, Accept]
    #[arg(short = 'H', long, value_name = "FIELD", env = "PLIMSOLL_HEADER")]
    pub header: Vec<String>,
    /// Body, or @FILE [default: none]
    #[arg(short, long, value_name = "TEXT|@FILE", env = "PLIMSOLL_BODY")]
    pub body: Option<String>,
    /// Basic authentication, or AUTH of resp [default: the URL's]
    #[arg(short, long, value_name = "USER:PASSWORD", env = "PLIMSOLL_USER", hide_env_values = true)]
    pub user: Option<String>,
    /// Statuses of a good reply, such as 200, 200-299 or 2xx; may be repeated [default: below 400]
    #[arg(long, value_name = "STATUS", env = "PLIMSOLL_EXPECT_STATUS")]
    pub expect_status: Vec<String>,
    /// Regular expression that must match in the first MiB of a reply's body [default: none]
    #[arg(long, value_name = "REGEX", env = "PLIMSOLL_EXPECT_BODY")]
    pub expect_body: Option<String>,
    /// SHA-256 that a reply's body must have [default: none]
    #[arg(long, value_name = "HEX", env = "PLIMSOLL_EXPECT_BODY_SHA256")]
    pub expect_body_sha256: Option<String>,
    /// Check on every reply, such as 'header Content-Type contains json', 'json /status = ok', 'body contains TEXT', 'body matches REGEX', 'cookie NAME'; may be repeated [default: none]
    #[arg(long, value_name = "CHECK", env = "PLIMSOLL_CHECK")]
    pub check: Vec<String>,
    /// Rows for `{{column}}` in path, header fields and body: CSV, or JSON Lines by the name .jsonl; of several files NAME=FILE for `{{NAME.column}}`; may be repeated [default: none]
    #[arg(long, value_name = "[NAME=]FILE", env = "PLIMSOLL_DATA")]
    pub data: Vec<String>,
    /// In which order rows are taken [default: sequential]
    #[arg(long, value_name = "ORDER", env = "PLIMSOLL_DATA_ORDER")]
    pub data_order: Option<DataOrderArg>,
    /// Named requests to the URL's server, in place of the URL: a TOML file of `[[request]]` tables with name, method, path, headers, body, weight, take, check, expect_status [default: the URL]
    #[arg(long, value_name = "FILE", env = "PLIMSOLL_REQUESTS_FROM")]
    pub requests_from: Option<PathBuf>,
    /// Each connection is a user that sends the named requests one after another, with what it took from earlier replies
    #[arg(long, env = "PLIMSOLL_SEQUENCE", value_parser = BoolishValueParser::new())]
    pub sequence: bool,
    /// Send `{{` and `}}` as they are [default: `{{seq}}`, `{{uuid}}`, `{{random:1..9}}`, `{{user}}`, `{{key}}` and columns are put in]
    #[arg(long, env = "PLIMSOLL_NO_TEMPLATES", value_parser = BoolishValueParser::new())]
    pub no_templates: bool,
    /// Longest head of a reply [default: 64KiB]
    #[arg(long, value_name = "SIZE", env = "PLIMSOLL_MAX_HEAD", value_parser = values::size::<u32>)]
    pub max_head: Option<u32>,
}

/// In which order rows are taken.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum DataOrderArg {
    /// One after another, and from the first again
    Sequential,
    /// Each time any
    Random,
    /// One after another, each once; the load ends when all are used up
    Unique,
}

impl From<DataOrderArg> for Order {
    fn from(order: DataOrderArg) -> Self {
        match order {
            DataOrderArg::Sequential => Order::Sequential,
            DataOrderArg::Random => Order::Random,
            DataOrderArg::Unique => Order::Unique,
        }
    }
}

/// That connections are closed stands with what else connections do, and keys and mixes with those of RESP.
const ALSO: &[&str] = &["disable_keepalive", "mix", "keys", "key_distribution", "verify_writes"];

/// See the file's head.
pub(super) const FLAGS: Flags =
    Flags { protocol: HttpAsked::PROTOCOL, own: HttpArgs::augment_args, also: ALSO, asked, secrets };

fn asked(args: &LoadArgs) -> What {
    let http = &args.protocols.http;
    let (body, body_file) = match &http.body {
        None => (None, None),
        Some(text) => match text.strip_prefix('@') {
            Some(path) => (None, Some(PathBuf::from(path))),
            None => (Some(Secret::from(&**text)), None),
        },
    };
    What::Http(HttpAsked {
        method: http.method.clone(),
        headers: http.header.iter().map(|line| hide::secret_line(line)).collect(),
        body,
        body_file,
        user: http.user.as_deref().map(Secret::from),
        expect_status: http.expect_status.clone(),
        expect_body_sha256: http.expect_body_sha256.clone(),
        expect_body: http.expect_body.clone(),
        disable_keepalive: args.connection.disable_keepalive,
        head_bytes_max: http.max_head,
        // Those of a file are read where the scenario is made.
        requests: Vec::new(),
        sequence: http.sequence,
        data: http.data.clone(),
        data_order: http.data_order.map(Into::into),
        check: http.check.clone(),
        no_templates: http.no_templates,
        mix: args.protocols.resp.mix.clone(),
        keys: args.protocols.resp.keys,
        key_distribution: args.protocols.resp.key_distribution,
        verify_writes: args.protocols.resp.verify_writes,
    })
}

fn secrets(args: &ProtocolArgs) -> Vec<SecretFlag> {
    let http = &args.http;
    let flag =
        |short, long, written: &String, shown| SecretFlag { short: Some(short), long, written: written.clone(), shown };
    let headers = http.header.iter().map(|header| flag('H', "header", header, hide::field(header)));
    let user = http.user.iter().map(|user| flag('u', "user", user, HIDDEN.to_owned()));
    let body = http.body.iter().filter(|body| !body.starts_with('@'));
    headers.chain(user).chain(body.map(|body| flag('b', "body", body, HIDDEN.to_owned()))).collect()
}
