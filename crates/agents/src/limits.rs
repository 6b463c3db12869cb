//! Every bound of what travels between agents and a controller, and of how long one waits for the other.

use std::time::Duration;

/// Number of the words that both sides speak; raised with any change of a message.
pub const PROTOCOL: u32 = 4;
/// Bytes of a message's body: below the megabyte that a NATS server allows by default, with room for headers and sealing.
pub const CHUNK_BYTES: usize = 512 * 1024;
/// Bytes of a plan as a message: one that is longer has bodies or certificates for which a stream is the wrong place.
pub const PLAN_BYTES_MAX: usize = 900 * 1024;
/// Bytes of all files of data of a plan.
pub const FILES_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// Bytes that the stream of a run must be able to take: some ten agents for some seconds. With less no run is begun.
pub const STREAM_BYTES_LEAST: u64 = 16 * 1024 * 1024;
/// How long the stream of a run that nobody came back to is kept.
pub const STREAM_AGE_MAX: Duration = Duration::from_secs(24 * 3600);
/// For how long NATS passes over a message that it has had already.
pub const DUPLICATES_WITHIN: Duration = Duration::from_secs(120);
/// Agents of a run: as many as recordings can be merged.
pub const AGENTS_MAX: usize = session::generators::GENERATORS_MAX;
/// Workers that an agent may say it has.
pub const WORKERS_MAX: u16 = 1024;
/// Machines behind the target of a run.
pub const BEHIND_MAX: usize = 8;
/// Observers that are listed.
pub const OBSERVERS_MAX: usize = 1024;
/// Streams to an observer at once: it has places for few clients, and strangers take those of who is no client yet.
pub const RELAYS_MAX: usize = 64;
/// Bytes of one message of such a stream.
pub const RELAY_CHUNK_BYTES: usize = 64 * 1024;
/// Characters of an agent's name, and of a label.
pub const NAME_MAX: usize = 48;
/// Characters of an observer's name: as many as a host's name may have (RFC 1035).
pub const OBSERVER_NAME_MAX: usize = 253;
/// Labels of an agent.
pub const LABELS_MAX: usize = 32;

/// For how long NATS is asked again to make a run's stream, or to take it away: a cluster needs some seconds to put another node in a
/// dead one's place.
pub const ANSWERED_WITHIN: Duration = Duration::from_secs(15);
/// Pause between two tries of what NATS did not do.
pub const AGAIN_AFTER: Duration = Duration::from_millis(200);
/// How long the answers to a question to all agents are collected.
pub const WHO_FOR: Duration = Duration::from_millis(250);
/// How long one agent's answer is waited for.
pub const ANSWER_WITHIN: Duration = Duration::from_secs(3);
/// Before a burst, the clock of an agent that did not answer is asked again after so long: time to read what a thousand agents said
/// within [`ANSWER_WITHIN`].
pub const ASK_AGAIN_AFTER: Duration = Duration::from_secs(1);
/// How long an agent waits for the next word of a run that it has agreed to, until it is free again.
pub const AGREED_FOR: Duration = Duration::from_secs(60);
/// How long agents may take to be ready, until the run is given up.
pub const READY_WITHIN: Duration = Duration::from_secs(20);
/// From the word to begin to the moment itself: time for it to reach every agent.
pub const BEGIN_AFTER: Duration = Duration::from_millis(150);
/// How late an agent may hear the word and still begin at the common moment: its requests are then due at the same moments as if
/// it had heard in time, and what is overdue is its lag. Later, it begins when it hears.
pub const LATE_MAX: Duration = Duration::from_millis(20);
/// From the word to release a burst to the moment itself, beside [`RELEASE_ROUND_TRIPS`]: time for a thread to be woken at both ends.
pub const RELEASE_AFTER: Duration = Duration::from_millis(20);
/// And so many times the longest way there and back to an agent, as its clock was just laid beside the controller's.
pub const RELEASE_ROUND_TRIPS: u32 = 4;
/// Exchanges of stamps by which a clock is laid beside the controller's.
pub const EXCHANGES: usize = 24;
/// Time between two signs of life of an agent in a run.
pub const ALIVE_EVERY: Duration = Duration::from_millis(500);
/// How often an agent looks into the stream for a word that it may have missed.
pub const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How long an agent tries to hand over its recording after its run, before it keeps it for itself.
pub const DELIVER_FOR: Duration = Duration::from_secs(60);
/// The same where the run's own stream is full, which does not become emptier, or gone: the run was given up, or somebody has its result.
pub const DELIVER_HOPELESS_FOR: Duration = Duration::from_secs(3);
/// Ticks that wait to be handed over; of more the oldest are left to the recording.
pub const TICKS_WAITING_MAX: usize = 4096;
/// How long after the planned end of a run agents that are alive are waited for.
pub const END_GRACE: Duration = Duration::from_secs(90);
/// Ticks that are shown only once all agents have come so far wait for no more than so many later ones.
pub const TICKS_SHOWN_WAITING_MAX: usize = 4;
/// The same where it is decided by ticks when a load has lasted long enough, or is not to be gone on with: an agent that is slow is waited for until
/// it is lost, at the longest.
pub const DECISIVE_TICKS_WAITING_MAX: usize = 256;
/// How long the same agents as before are waited for, until others take their place in a series of loads.
pub const SAME_AGENTS_FOR: Duration = Duration::from_secs(3);
/// From the word that a lost agent's share is dealt anew to the moment itself, beside two ticks: time for it to reach every agent.
pub const REDEAL_AFTER: Duration = Duration::from_millis(500);
/// An agent whose share may be dealt anew ends its load by itself when NATS has not answered it for this share of the time after which
/// it counts as lost: before the others begin with it.
pub const CUT_OFF_SHARE: f64 = 0.8;
/// Within that time it asks so often.
pub const LOOKS_WITHIN_LOST: u32 = 10;
/// The least time after which an agent may count as lost where its share is dealt anew: of a shorter one signs of life are too seldom.
pub const LOST_AFTER_MIN: Duration = Duration::from_secs(1);
