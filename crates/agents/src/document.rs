//! A plan on its way to agents: what it says, what it does not store (bodies, certificates, files of data), and sealed what is secret.
//!
//! A plan without secrets goes as a recording would have it. One with secrets goes sealed to those who share a token ([`crate::sealed`])
//! or not at all. Rows of data may be anything, so they are sealed always. What an agent makes of it is checked as any plan from outside:
//! nothing in it can be more than the types allow.

use crate::limits::{BEHIND_MAX, CHUNK_BYTES, FILES_BYTES_MAX, PLAN_BYTES_MAX, PROTOCOL};
use crate::message::{self, is_name};
use crate::sealed::Seal;
use model::bpf::Level;
use model::fault::LoadFault;
use model::plan::{Plan, Workload};
use model::tls::{Trusted, Verify};
use model::{data::DataFile, hide};
use remote::Token;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// What is done when an agent is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnLost {
    /// The others go on with their own shares.
    #[default]
    Continue,
    /// The others put on its share as well, from a moment on that is said.
    Redistribute,
    /// The run ends.
    Stop,
}

/// The plan of a run, as it lies in its stream.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Document {
    /// [`PROTOCOL`] of who wrote it.
    pub protocol: u32,
    /// The version of the tool that wrote it.
    pub version: String,
    /// Where the load goes, in words.
    pub target: String,
    /// When it was written, nanoseconds since 1970.
    pub written_at_unix_ns: u64,
    /// How many agents it wants.
    pub agents: u16,
    /// What labels they must have.
    pub labels: Vec<String>,
    /// What is done when one is lost.
    pub on_lost: OnLost,
    /// An agent that nothing is heard of for so long is lost, nanoseconds.
    pub lost_after_ns: u64,
    /// The command line, without secrets.
    pub command: Vec<String>,
    /// Whether agents read their own hosts meanwhile.
    pub observe: bool,
    /// Where the target's machine is read, by the first of the agents.
    #[serde(default)]
    pub observe_at: Option<ObserveAt>,
    /// Machines behind it, by the same.
    #[serde(default)]
    pub behind: Vec<BehindOf>,
    /// The workers that were asked for; `None`: as many as agents give.
    pub workers: Option<u16>,
    /// Why this driver.
    pub driver_reason: String,
    /// Its length, drain and what is read after it included, nanoseconds; `None`: a count ends it.
    pub planned_ns: Option<u64>,
    /// Its faults, which the controller does, and no agent.
    #[serde(default)]
    pub faults: Vec<LoadFault>,
    /// The plan without its secrets and its faults.
    pub shown: Plan,
    /// What is not in `shown`.
    body: Body,
    /// Its files of data, in the order in which the plan has them.
    pub files: Vec<FileOf>,
}

/// An observer on the target's machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObserveAt {
    /// `HOST:PORT`, or `nats:NAME` where it is reached over NATS.
    pub address: String,
    /// SHA-256 of the certificate that is taken, in hex; `None`: any, as the token proves who it is.
    pub fingerprint: Option<String>,
    /// How long it is tried again, nanoseconds.
    pub wait_ns: u64,
    /// Which probes it is asked for.
    pub probes: Level,
}

/// An observer on a machine behind the target.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BehindOf {
    /// The observer.
    pub at: ObserveAt,
    /// The port that is looked at there; `None`: whatever the observer was started for.
    pub port: Option<u16>,
}

/// A file of data, whose parts are messages of their own.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FileOf {
    /// Parts.
    pub chunks: u64,
    /// Its name, without a folder.
    pub name: String,
    /// SHA-256 of all of it, in hex.
    pub sha256: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Body {
    /// Nothing of it is secret: certificates that are trusted.
    Plain(Rest),
    /// Sealed, in hex.
    Sealed(String),
}

/// What a stored plan does not have.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
struct Rest {
    /// Secrets in their order, in hex; empty: there are none.
    secrets: Vec<String>,
    /// Certificates that are trusted (DER), in hex.
    trusted: Vec<String>,
}

/// A file of data, sealed part by part.
#[derive(Debug)]
pub struct Parts(pub Vec<Vec<u8>>);

/// What a run asks for beside its plan.
#[derive(Debug, Clone)]
pub struct Asked {
    /// How many agents.
    pub agents: u16,
    /// With these labels.
    pub labels: Vec<String>,
    /// What is done when one is lost.
    pub on_lost: OnLost,
    /// An agent that nothing is heard of for so long is lost, nanoseconds.
    pub lost_after_ns: u64,
    /// The workers that were asked for; `None`: as many as agents give.
    pub workers: Option<u16>,
    /// Why this driver.
    pub driver_reason: String,
    /// Whether agents read their own hosts meanwhile.
    pub observe: bool,
    /// Where the target's machine is read; the observer has the token that seals the plan.
    pub observe_at: Option<ObserveAt>,
    /// Machines behind it, which are read too.
    pub behind: Vec<BehindOf>,
    /// The command line, without secrets.
    pub command: Vec<String>,
    /// The tool's version.
    pub version: String,
    /// Bytes that the stream of the run may hold: what is beyond is refused by NATS, and nothing that was acknowledged makes way
    /// for it.
    pub stream_bytes_max: u64,
}

/// Why a plan cannot be given to agents, in a sentence.
fn unfit(plan: &Plan) -> Option<&'static str> {
    match () {
        () if plan.isolation.is_some() => Some("--isolate is of one machine, and agents have their own: leave it out"),
        () if !plan.pin.is_empty() => Some("--pin is of one machine's CPUs, and agents have their own: leave it out"),
        () => None,
    }
}

fn data_of(plan: &Plan) -> &[DataFile] {
    match &plan.workload {
        Workload::Http1(http) => &http.data,
        _ => &[],
    }
}

impl Document {
    /// Of a plan, with its files of data sealed.
    ///
    /// # Errors
    /// In a sentence: what cannot be given to agents, and what to do.
    pub fn new(plan: &Plan, run: &str, asked: Asked, token: Option<&Token>) -> Result<(Self, Vec<Parts>), String> {
        if let Some(why) = unfit(plan) {
            return Err(why.to_owned());
        }
        if (asked.observe_at.is_some() || !asked.behind.is_empty()) && token.is_none() {
            return Err("--observe-at, --behind: an observer wants a token: give it, and the same to the agents (--token-file or PLIMSOLL_TOKEN)".to_owned());
        }
        let data = data_of(plan);
        let is_plain = hide::is_without_secrets(plan) && data.is_empty();
        let seal = token.and_then(|token| Seal::new(token, run));
        if !is_plain && seal.is_none() {
            let what = if data.is_empty() {
                "what is asked has secrets in it (header fields, a body, a password, a certificate's key)"
            } else {
                "rows of data may be secrets"
            };
            return Err(format!(
                "{what}, which are given to agents only sealed: give both sides the same token (--token-file or PLIMSOLL_TOKEN)"
            ));
        }
        let trusted = trusted(plan).map_or_else(Vec::new, |trusted| trusted.der.iter().map(|der| hex(der)).collect());
        let secrets = if is_plain { Vec::new() } else { hide::secrets(plan).iter().map(|bytes| hex(bytes)).collect() };
        let rest = Rest { secrets, trusted };
        let body = match &seal {
            None => Body::Plain(rest),
            Some(seal) => {
                Body::Sealed(hex(&seal.seal("plan", &message::write(&rest)).ok_or("sealing the plan failed")?))
            }
        };
        let (mut files, mut parts) = (Vec::new(), Vec::new());
        let mut left = FILES_BYTES_MAX;
        for (index, file) in data.iter().enumerate() {
            let shown = file.path.display();
            let too_large =
                || format!("expected at most {FILES_BYTES_MAX} bytes of data for agents, got more with '{shown}'");
            let size = std::fs::metadata(&file.path).map(|meta| meta.len()).unwrap_or(0);
            left = left.checked_sub(size).ok_or_else(too_large)?;
            let bytes = std::fs::read(&file.path).map_err(|error| format!("'{shown}' cannot be read: {error}"))?;
            let Some(seal) = &seal else { continue };
            let sealed =
                bytes.chunks(CHUNK_BYTES).enumerate().map(|(at, part)| seal.seal(&format!("file {index} {at}"), part));
            let sealed = sealed.collect::<Option<Vec<_>>>().ok_or("sealing a file of data failed")?;
            let name = file.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            files.push(FileOf { chunks: sealed.len() as u64, name, sha256: digest(&bytes) });
            parts.push(Parts(sealed));
        }
        let Asked {
            agents,
            labels,
            on_lost,
            lost_after_ns,
            workers,
            driver_reason,
            observe,
            observe_at,
            behind,
            command,
            version,
            stream_bytes_max: _,
        } = asked;
        let target = plan.origins.first().map_or_else(String::new, |origin| hide::url(&origin.name));
        let written_at_unix_ns = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .map_or(0, |age| u64::try_from(age.as_nanos()).unwrap_or(u64::MAX));
        let document = Document {
            protocol: PROTOCOL,
            version,
            target,
            written_at_unix_ns,
            agents,
            labels,
            on_lost,
            lost_after_ns,
            command,
            observe,
            observe_at,
            behind,
            workers,
            driver_reason,
            planned_ns: plan.planned_ns().map(|ns| ns.saturating_add(plan.drain_ns).saturating_add(plan.after_ns)),
            faults: plan.faults.clone(),
            shown: Plan { faults: Vec::new(), ..hide::plan(plan) },
            body,
            files,
        };
        let bytes = message::write(&document).len();
        if bytes > PLAN_BYTES_MAX {
            return Err(format!(
                "expected a plan of at most {PLAN_BYTES_MAX} bytes for agents, got {bytes}: use smaller bodies, or fewer trusted certificates (--ca)"
            ));
        }
        Ok((document, parts))
    }

    /// A document, with a plan that cannot have come of this version refused.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let document: Document = message::read(bytes)?;
        let plan = &document.shown;
        let is_sound = !plan.origins.is_empty()
            && plan.origins.iter().all(|origin| !origin.addresses.is_empty())
            && plan.connections >= 1
            && plan.threads >= 1
            && plan.tick_ns >= 1_000_000
            && plan.pipeline >= 1
            && document.agents >= 1
            && document.behind.len() <= BEHIND_MAX
            && document.labels.iter().all(|label| message::is_label(label))
            && plan.faults.is_empty()
            && unfit(plan).is_none();
        is_sound.then_some(document)
    }

    /// The plan with all that is sent; its rows of data are still to come.
    ///
    /// # Errors
    /// In a sentence: it is sealed to others.
    pub fn open(&self, run: &str, token: Option<&Token>) -> Result<Plan, String> {
        let rest: Rest = match (&self.body, token) {
            (Body::Plain(rest), None) => rest.clone(),
            (Body::Plain(_), Some(_)) => {
                return Err("it has a token and takes only plans that were sealed with it (--token-file)".to_owned());
            }
            (Body::Sealed(_), None) => {
                return Err("the plan is sealed, and it has no token to open it with (--token-file)".to_owned());
            }
            (Body::Sealed(sealed), Some(token)) => {
                let opened =
                    Seal::new(token, run).zip(unhex(sealed)).and_then(|(seal, sealed)| seal.open("plan", &sealed));
                opened.and_then(|opened| message::read(&opened)).ok_or("the plan was sealed with another token")?
            }
        };
        let broken = || "the plan does not hold together".to_owned();
        let mut plan = self.shown.clone();
        if !rest.secrets.is_empty() {
            let bytes: Option<Vec<Vec<u8>>> = rest.secrets.iter().map(|text| unhex(text)).collect();
            plan = bytes.and_then(|bytes| hide::with_secrets(&plan, bytes)).ok_or_else(broken)?;
        }
        if let Some(trusted) = trusted_mut(&mut plan) {
            let der: Option<Vec<Vec<u8>>> = rest.trusted.iter().map(|text| unhex(text)).collect();
            trusted.der = der.ok_or_else(broken)?;
        }
        Ok(plan)
    }

    /// Puts a file of data, whose sealed parts these are, behind the plan's rows; it is kept in a folder for as long.
    ///
    /// # Errors
    /// In a sentence.
    pub fn put_file(
        &self,
        plan: &mut Plan,
        run: &str,
        index: usize,
        parts: &[Vec<u8>],
        token: Option<&Token>,
        folder: &Path,
    ) -> Result<(), String> {
        let broken = || format!("file {} of data of the plan did not come as it was sent", index + 1);
        let (file, seal) = (self.files.get(index).ok_or_else(broken)?, token.and_then(|token| Seal::new(token, run)));
        let seal = seal.ok_or_else(broken)?;
        let opened = parts.iter().enumerate().map(|(at, part)| seal.open(&format!("file {index} {at}"), part));
        let bytes = opened.collect::<Option<Vec<_>>>().ok_or_else(broken)?.concat();
        if digest(&bytes) != file.sha256 {
            return Err(broken());
        }
        let Workload::Http1(http) = &mut plan.workload else { return Err(broken()) };
        let data = http.data.get_mut(index).ok_or_else(broken)?;
        // Only how it ends is of use, as that says what it is.
        let ending =
            Path::new(&file.name).extension().and_then(|ending| ending.to_str()).filter(|ending| is_name(ending));
        let path = folder.join(format!("data-{index}.{}", ending.unwrap_or("csv")));
        let mut made = OpenOptions::new();
        let kept =
            made.write(true).create_new(true).mode(0o600).open(&path).and_then(|mut file| file.write_all(&bytes));
        kept.map_err(|error| format!("its data cannot be kept: {error}"))?;
        let read = resolve::data_rows(&path, data.order);
        // Rows are in memory, or read through what is open: a name in a folder would only outlive them.
        let _ = std::fs::remove_file(&path);
        let read = read.map_err(|error| error.to_string())?;
        if (read.rows, &read.columns) != (data.rows, &data.columns) {
            return Err(broken());
        }
        data.source = read.source;
        Ok(())
    }
}

fn trusted(plan: &Plan) -> Option<&Trusted> {
    match &plan.tls.as_ref()?.verify {
        Verify::System(trusted) | Verify::File(trusted) => Some(trusted),
        Verify::Off => None,
    }
}

fn trusted_mut(plan: &mut Plan) -> Option<&mut Trusted> {
    match &mut plan.tls.as_mut()?.verify {
        Verify::System(trusted) | Verify::File(trusted) => Some(trusted),
        Verify::Off => None,
    }
}

/// SHA-256 in hex.
pub fn digest(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// Bytes in hex.
pub fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digit = |b: u8| char::from(b).to_digit(16).map(|digit| digit as u8);
    let pairs = text.as_bytes().as_chunks::<2>();
    let bytes = pairs.0.iter().map(|[high, low]| Some(digit(*high)? << 4 | digit(*low)?));
    if pairs.1.is_empty() { bytes.collect() } else { None }
}
