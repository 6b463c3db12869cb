//! The way to NATS: addresses, TLS, who asks, and the runtime that drives it.
//!
//! One thread does all of it, and only where agents were asked for: a run on one machine starts no runtime. A link that breaks is
//! made again by async-nats for as long as it takes; what waits meanwhile has bounds of its own. Passwords, seeds and tokens are
//! read from files or the environment, and never said.

use crate::error::AgentsError;
use crate::limits::{
    AGAIN_AFTER, ANSWER_WITHIN, ANSWERED_WITHIN, DUPLICATES_WITHIN, STREAM_AGE_MAX, STREAM_BYTES_LEAST,
};
use crate::message::read;
use crate::subject;
use async_nats::jetstream::context::{
    CreateStreamError, CreateStreamErrorKind, DeleteStreamErrorKind, GetStreamErrorKind, PublishError, PublishErrorKind,
};
use async_nats::jetstream::stream::{Config, DiscardPolicy, StorageType, Stream};
use async_nats::jetstream::{self, Context, ErrorCode};
use async_nats::{Client, ConnectOptions, Event, HeaderMap, ServerError};
use futures_util::StreamExt;
use model::Secret;
use model::hide;
use serde::Deserialize;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Bytes of a file of credentials.
const CREDENTIALS_BYTES_MAX: u64 = 64 * 1024;
/// How often it is tried whether the other end is there: a cut link says nothing by itself.
const PING_EVERY: Duration = Duration::from_secs(5);
/// Servers of a cluster that may be named.
const SERVERS_MAX: usize = 16;

/// How to get there.
#[derive(Debug, Clone)]
pub struct Nats {
    /// `nats://HOST:PORT` or `tls://HOST:PORT`, several with commas between.
    pub url: Secret,
    /// Authorities that are trusted (PEM); `None`: the system's.
    pub ca: Option<PathBuf>,
    /// A file of credentials (JWT and seed), or of an nkey's seed alone.
    pub credentials: Option<PathBuf>,
}

/// A link to NATS.
#[derive(Debug, Clone)]
pub struct Link {
    /// Messages.
    pub client: Client,
    /// Streams.
    pub streams: Context,
    refused: Refused,
}

/// What NATS said last that this user may not do. It is no answer to what was asked, which then has none.
#[derive(Debug, Clone, Default)]
struct Refused(Arc<Mutex<Option<String>>>);

impl Refused {
    fn hear(&self, event: &Event) {
        if let Event::ServerError(ServerError::Other(said)) = event
            && said.to_lowercase().contains("permissions violation")
        {
            *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(crate::message::tamed(said));
        }
    }
}

impl Nats {
    /// The servers, as may be shown.
    pub fn shown(&self) -> String {
        let text = self.url.expose_text();
        text.split(',').map(|one| hide::url(one.trim())).collect::<Vec<_>>().join(",")
    }

    /// Connects.
    ///
    /// # Errors
    /// [`AgentsError::Usage`], [`AgentsError::Connect`].
    pub async fn connect(&self, name: &str) -> Result<Link, AgentsError> {
        let text = self.url.expose_text();
        let servers: Vec<String> =
            text.split(',').map(|one| one.trim().to_owned()).filter(|one| !one.is_empty()).collect();
        let refused = |why: &str| {
            let got = self.shown();
            AgentsError::Usage(format!(
                "--nats: expected nats://HOST:PORT or tls://HOST:PORT, several with commas between, got '{got}'{why}"
            ))
        };
        if servers.is_empty() || servers.len() > SERVERS_MAX {
            return Err(refused(""));
        }
        let is_known = |one: &String| one.starts_with("nats://") || one.starts_with("tls://") || !one.contains("://");
        if !servers.iter().all(is_known) {
            return Err(refused(""));
        }
        let addresses = servers.iter().map(|one| one.parse::<async_nats::ServerAddr>());
        let addresses = addresses.collect::<Result<Vec<_>, _>>().map_err(|_| refused(""))?;
        let mut options = ConnectOptions::new()
            .name(name)
            .connection_timeout(Duration::from_secs(5))
            .request_timeout(Some(Duration::from_secs(5)))
            .ping_interval(PING_EVERY)
            .require_tls(servers.iter().all(|one| one.starts_with("tls://")));
        if let Some(ca) = &self.ca {
            if let Err(error) = std::fs::File::open(ca) {
                let shown = ca.display();
                return Err(AgentsError::Usage(format!(
                    "--nats-ca: expected a file that can be read, got '{shown}' ({error})"
                )));
            }
            options = options.add_root_certificates(ca.clone());
        }
        if let Some(path) = &self.credentials {
            options = self.with_credentials(options, path)?;
        }
        let refused = Refused::default();
        let heard = refused.clone();
        options = options.event_callback(move |event| {
            heard.hear(&event);
            std::future::ready(())
        });
        let client = options.connect(addresses).await.map_err(|error| {
            let why = crate::message::tamed(&error.to_string());
            AgentsError::Connect { url: self.shown(), why }
        })?;
        let streams = jetstream::new(client.clone());
        Ok(Link { client, streams, refused })
    }

    fn with_credentials(&self, options: ConnectOptions, path: &std::path::Path) -> Result<ConnectOptions, AgentsError> {
        let shown = path.display();
        let bytes = resolve::files::read(path, CREDENTIALS_BYTES_MAX, |_| ()).map_err(|error| {
            AgentsError::Usage(format!("--nats-credentials: expected a file that can be read, got '{shown}' ({error})"))
        })?;
        let text = String::from_utf8_lossy(&bytes);
        let refused = || {
            AgentsError::Usage(format!(
                "--nats-credentials: expected a file of credentials as nsc writes them, or an nkey's seed (SU…), got neither in '{shown}'"
            ))
        };
        match text.trim() {
            seed if seed.starts_with("SU") && !seed.contains(char::is_whitespace) => Ok(options.nkey(seed.to_owned())),
            _ => options.credentials(&text).map_err(|_| refused()),
        }
    }
}

impl Link {
    /// Whether NATS has said nothing yet of what this user may not do. To be asked where an answer did not come.
    ///
    /// # Errors
    /// [`AgentsError::NotPermitted`], with what it said last.
    pub fn permitted(&self) -> Result<(), AgentsError> {
        let said = self.refused.0.lock().unwrap_or_else(PoisonError::into_inner);
        said.as_ref().map_or(Ok(()), |why| Err(AgentsError::NotPermitted { why: why.clone() }))
    }

    /// Makes the stream of a run: on three nodes where there are as many, on one otherwise. Nothing that was acknowledged makes way
    /// for what comes later. NATS sets aside what a stream may take, however little it will be: where there is no room for
    /// `bytes_max`, the stream takes half, a quarter and so on, down to [`STREAM_BYTES_LEAST`]. Says how much it may take.
    ///
    /// # Errors
    /// [`AgentsError::Stream`], [`AgentsError::NotPermitted`].
    pub async fn make_stream(&self, run: &str, bytes_max: u64) -> Result<u64, AgentsError> {
        let config = |replicas, bytes| Config {
            name: subject::stream(run),
            subjects: vec![subject::all(run)],
            max_bytes: i64::try_from(bytes).unwrap_or(i64::MAX),
            max_age: STREAM_AGE_MAX,
            discard: DiscardPolicy::New,
            storage: StorageType::File,
            num_replicas: replicas,
            duplicate_window: DUPLICATES_WITHIN,
            ..Config::default()
        };
        let until = Instant::now() + ANSWERED_WITHIN;
        let mut bytes = bytes_max;
        loop {
            let made = match self.streams.create_stream(config(3, bytes)).await {
                // One node alone has no replicas; of a smaller cluster there are not enough peers.
                Err(error) if matches!(error.kind(), CreateStreamErrorKind::JetStream(_)) => {
                    self.streams.create_stream(config(1, bytes)).await
                }
                made => made,
            };
            match made {
                Ok(_) => return Ok(bytes),
                // A node that died a moment ago has to be replaced first. Made twice, the same stream is one.
                Err(error) if error.kind() == CreateStreamErrorKind::TimedOut && Instant::now() < until => {
                    self.permitted()?;
                }
                Err(error) if is_without_room(&error) && bytes / 2 >= STREAM_BYTES_LEAST => bytes /= 2,
                Err(error) => return Err(AgentsError::stream("a stream for the run", error)),
            }
        }
    }

    /// Puts a message into a stream, once; `id` tells it from all others.
    ///
    /// # Errors
    /// In NATS' words: it was not acknowledged, and may or may not be there.
    pub async fn put(&self, subject: &str, id: &str, body: Vec<u8>) -> Result<(), String> {
        let mut headers = HeaderMap::new();
        headers.insert(async_nats::header::NATS_MESSAGE_ID, id);
        self.put_with(subject, headers, body).await.map_err(|error| error.to_string())
    }

    /// The same; where NATS does not answer, tried until it does, for as long as a cluster needs to put another node in a dead one's
    /// place.
    ///
    /// # Errors
    /// As [`Link::put`].
    pub async fn put_patiently(&self, subject: &str, id: &str, body: Vec<u8>) -> Result<(), String> {
        let until = Instant::now() + ANSWERED_WITHIN;
        loop {
            let mut headers = HeaderMap::new();
            headers.insert(async_nats::header::NATS_MESSAGE_ID, id);
            match self.put_with(subject, headers, body.clone()).await {
                Err(error) if is_unanswered(&error) && Instant::now() < until => tokio::time::sleep(AGAIN_AFTER).await,
                put => return put.map_err(|error| error.to_string()),
            }
        }
    }

    /// Puts the first message of a subject into a stream, as patiently; `false`: somebody else's is there.
    ///
    /// # Errors
    /// As [`Link::put`].
    pub async fn put_first(&self, subject: &str, body: Vec<u8>) -> Result<bool, String> {
        let until = Instant::now() + ANSWERED_WITHIN;
        let mut is_again = false;
        loop {
            let mut headers = HeaderMap::new();
            headers.insert(async_nats::header::NATS_EXPECTED_LAST_SUBJECT_SEQUENCE, "0");
            match self.put_with(subject, headers, body.clone()).await {
                Ok(()) => return Ok(true),
                // After a try that was not answered it may be our own.
                Err(error) if error.kind() == PublishErrorKind::WrongLastSequence => return Ok(is_again),
                Err(error) if is_unanswered(&error) && Instant::now() < until => {
                    is_again = true;
                    tokio::time::sleep(AGAIN_AFTER).await;
                }
                Err(error) => return Err(error.to_string()),
            }
        }
    }

    async fn put_with(&self, subject: &str, headers: HeaderMap, body: Vec<u8>) -> Result<(), PublishError> {
        self.streams.publish_with_headers(subject.to_owned(), headers, body.into()).await?.await.map(drop)
    }

    /// The last message of a subject in the stream of a run; `None`: there is none.
    ///
    /// # Errors
    /// In NATS' words.
    pub async fn last(&self, run: &str, subject: &str) -> Result<Option<Vec<u8>>, String> {
        use async_nats::jetstream::stream::LastRawMessageErrorKind;
        let stream = self.streams.get_stream_no_info(subject::stream(run)).await.map_err(|error| error.to_string())?;
        match stream.get_last_raw_message_by_subject(subject).await {
            Ok(message) => Ok(Some(message.payload.to_vec())),
            Err(error) if matches!(error.kind(), LastRawMessageErrorKind::NoMessageFound) => Ok(None),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Takes the stream of a run away, with all that is in it. Tried until NATS has answered, as a node that died a moment ago has to
    /// be replaced first; not for ever: what is left is gone after [`STREAM_AGE_MAX`], or by `nats stream rm`.
    pub async fn remove_stream(&self, run: &str) -> bool {
        let until = Instant::now() + ANSWERED_WITHIN;
        loop {
            let is_gone = match self.streams.delete_stream(subject::stream(run)).await.map_err(|error| error.kind()) {
                Ok(_) => true,
                // Somebody else took it away, or an earlier try of ours whose answer was lost.
                Err(DeleteStreamErrorKind::JetStream(error)) => error.error_code() == ErrorCode::STREAM_NOT_FOUND,
                Err(_) => false,
            };
            if is_gone || Instant::now() >= until {
                return is_gone;
            }
            tokio::time::sleep(AGAIN_AFTER).await;
        }
    }

    /// The stream of a run: its state as NATS says just now, or `None`: it does not answer.
    ///
    /// # Errors
    /// [`AgentsError::NoRun`]: NATS says that there is none.
    pub async fn stream_of(&self, run: &str) -> Result<Option<Stream>, AgentsError> {
        match self.streams.get_stream(subject::stream(run)).await {
            Ok(stream) => Ok(Some(stream)),
            Err(error) => match error.kind() {
                GetStreamErrorKind::JetStream(error) if error.error_code() == ErrorCode::STREAM_NOT_FOUND => {
                    Err(AgentsError::NoRun(run.to_owned()))
                }
                _ => Ok(None),
            },
        }
    }

    /// Waits until what was said has left, for as long as one waits for an answer: NATS may be gone.
    pub async fn flush(&self) {
        let _ = tokio::time::timeout(ANSWER_WITHIN, self.client.flush()).await;
    }

    /// Asks everybody on a subject, and hands over what each says that is read as a `T`, until the time is up or `take` says that it is enough.
    pub async fn ask_all<T: for<'de> Deserialize<'de>>(
        &self,
        subject: &'static str,
        within: Duration,
        mut take: impl FnMut(T) -> bool,
    ) {
        let inbox = self.client.new_inbox();
        let Ok(mut answers) = self.client.subscribe(inbox.clone()).await else { return };
        if self.client.publish_with_reply(subject, inbox, Vec::new().into()).await.is_err() {
            return;
        }
        let until = tokio::time::Instant::now() + within;
        while let Ok(Some(answer)) = tokio::time::timeout_at(until, answers.next()).await {
            if read::<T>(&answer.payload).is_some_and(&mut take) {
                return;
            }
        }
    }

    /// Asks one agent; `None`: it did not answer in time.
    pub async fn ask(&self, subject: &str, body: Vec<u8>, within: Duration) -> Option<Vec<u8>> {
        let asked = self.client.request(subject.to_owned(), body.into());
        tokio::time::timeout(within, asked).await.ok()?.ok().map(|answer| answer.payload.to_vec())
    }
}

/// Whether nobody answered: the link is cut, or the stream has no leader just now.
fn is_unanswered(error: &PublishError) -> bool {
    matches!(error.kind(), PublishErrorKind::TimedOut | PublishErrorKind::BrokenPipe | PublishErrorKind::StreamNotFound)
}

/// NATS, or each node of a cluster, or the account that asks, has not the room that a stream asks to have set aside.
fn is_without_room(error: &CreateStreamError) -> bool {
    let CreateStreamErrorKind::JetStream(why) = error.kind() else { return false };
    let codes = [
        ErrorCode::STORAGE_RESOURCES_EXCEEDED,
        ErrorCode::INSUFFICIENT_RESOURCES,
        ErrorCode::ACCOUNT_RESOURCES_EXCEEDED,
        ErrorCode::CLUSTER_NO_PEERS,
    ];
    codes.contains(&why.error_code())
}

/// A runtime of the caller's thread alone.
///
/// # Errors
/// The machine would not.
pub fn runtime() -> Result<tokio::runtime::Runtime, AgentsError> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(AgentsError::io("a runtime for NATS cannot be made"))
}

/// Some letters that no other has: of runs, of an agent's start.
pub fn fresh() -> String {
    let mut bytes = [0; 4];
    // Without the kernel's randomness the moment and the process have to do.
    if aws_lc_rs::rand::fill(&mut bytes).is_err() {
        let mixed =
            remote::monotonic_ns().unsigned_abs().wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ u64::from(std::process::id());
        bytes = (mixed as u32).to_be_bytes();
    }
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
