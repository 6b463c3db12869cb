//! The messages of a run's stream, each once and in their order, whichever nodes of NATS die meanwhile.
//!
//! Read from the place that was come to, by a consumer that NATS keeps in memory: with its node it dies, and says nothing. So silence is
//! not believed: NATS is asked how far the stream goes, and where that is further a new consumer goes on.

use crate::error::AgentsError;
use crate::link::Link;
use async_nats::jetstream::consumer::DeliverPolicy;
use async_nats::jetstream::consumer::pull::{Ordered, OrderedConfig};
use futures_util::StreamExt;
use std::time::{Duration, Instant};

/// Pause before a way that broke is looked for again.
const AGAIN_AFTER: Duration = Duration::from_millis(50);
/// How long NATS keeps a request for more messages.
const CONSUMER_EXPIRES: Duration = Duration::from_secs(4);
/// After so long a silence NATS is asked whether there is more.
const SILENT_FOR: Duration = Duration::from_secs(2);

/// Reads a stream.
pub(super) struct Reading {
    link: Link,
    run: String,
    /// The number of the message to come.
    next: u64,
    messages: Option<Ordered>,
    /// When a message came, or NATS said that there is none.
    heard: Instant,
    /// When NATS was last asked how far the stream goes, for [`Reading::read_to`], and the number of its last message then.
    asked: Option<(Instant, u64)>,
}

/// How far a stream is read.
pub(super) enum ReadTo {
    /// All that was in it at that moment.
    End(Instant),
    /// Not that.
    Behind,
    /// NATS does not say how far it goes.
    Unanswered,
}

impl Reading {
    /// From the stream's beginning.
    pub(super) fn new(link: &Link, run: &str) -> Self {
        Reading { link: link.clone(), run: run.to_owned(), next: 1, messages: None, heard: Instant::now(), asked: None }
    }

    /// The next message, its subject and body; `None`: none came in time.
    ///
    /// # Errors
    /// [`AgentsError::NoRun`]: there is no stream any more.
    pub(super) async fn message(&mut self, within: Duration) -> Result<Option<(String, Vec<u8>)>, AgentsError> {
        if self.messages.is_some() && self.heard.elapsed() > SILENT_FOR {
            // Unanswered, the consumer stays: then it is not the consumer that is silent.
            self.is_read_to_end().await;
        }
        if self.messages.is_none() {
            self.messages = self.opened().await?;
            self.heard = Instant::now();
        }
        // From here on: on a busy machine it may take longer than that to have a consumer.
        let until = Instant::now() + within;
        let Some(messages) = &mut self.messages else {
            tokio::time::sleep_until(until.into()).await;
            return Ok(None);
        };
        match tokio::time::timeout_at(until.into(), messages.next()).await {
            Err(_) => Ok(None),
            Ok(Some(Ok(message))) => {
                self.heard = Instant::now();
                let sequence = message.info().map_or(self.next, |info| info.stream_sequence);
                if sequence < self.next {
                    return Ok(None);
                }
                self.next = sequence + 1;
                Ok(Some((message.subject.to_string(), message.payload.to_vec())))
            }
            Ok(Some(Err(_)) | None) => {
                // A node is gone, or the link was cut: from the next message on, when there is a way again.
                self.messages = None;
                tokio::time::sleep(AGAIN_AFTER).await;
                Ok(None)
            }
        }
    }

    /// Whether all is read that is in the stream, as NATS says just now; `None`: it does not answer. Where there is more, another
    /// consumer goes on.
    async fn is_read_to_end(&mut self) -> Option<bool> {
        let last = self.last().await?;
        self.heard = Instant::now();
        let is_read = self.has_read(last);
        if !is_read {
            self.messages = None;
        }
        Some(is_read)
    }

    /// Since when it is known that all is read that was in the stream then. NATS is asked once for that: whoever reads more slowly
    /// than others write never comes to the end, and does come to what was the end.
    pub(super) async fn read_to(&mut self) -> ReadTo {
        let asked = match self.asked {
            Some(asked) => asked,
            None => match self.last().await {
                Some(last) => *self.asked.insert((Instant::now(), last)),
                None => return ReadTo::Unanswered,
            },
        };
        if !self.has_read(asked.1) {
            return ReadTo::Behind;
        }
        self.asked = None;
        ReadTo::End(asked.0)
    }

    /// The number of the stream's last message, as NATS says just now; `None`: it does not answer.
    pub(super) async fn last(&self) -> Option<u64> {
        let stream = self.link.stream_of(&self.run).await.ok()??;
        Some(stream.cached_info().state.last_sequence)
    }

    /// Whether all is read up to that number.
    pub(super) fn has_read(&self, last: u64) -> bool {
        last < self.next
    }

    /// `None`: not at the moment.
    async fn opened(&self) -> Result<Option<Ordered>, AgentsError> {
        let Some(stream) = self.link.stream_of(&self.run).await? else { return Ok(None) };
        let deliver_policy = DeliverPolicy::ByStartSequence { start_sequence: self.next };
        let config = OrderedConfig { deliver_policy, max_expires: CONSUMER_EXPIRES, ..OrderedConfig::default() };
        let Ok(consumer) = stream.create_consumer(config).await else { return Ok(None) };
        Ok(consumer.messages().await.ok())
    }
}
