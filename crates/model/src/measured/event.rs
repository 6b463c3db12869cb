//! Something with a moment: a signal, a restart, a driver that fell back, a fault; and how many are kept.
//!
//! What is known of an event stands in its [`Details`], and the sentence is made of them: nothing reads the sentence. Of
//! each kind so many are kept as [`EVENTS_OF_KIND_MAX`] says, so that a kind that comes often does not push out one that
//! came once.

use crate::limits::{EVENT_KINDS_MAX, EVENTS_OF_KIND_MAX};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ops::Deref;

/// Kind of the event that says what TLS agreed on with the first connection.
pub const TLS_AGREED: &str = "tls-agreed";
/// Kind of the event that says all there is to say about the first failure of TLS.
pub const TLS_FAILED: &str = "tls-failed";
/// Kind of the event that says since when the target on another machine is not seen, and why.
pub const OBSERVER_LOST: &str = "observer-lost";
/// Kind of the event that says that it is seen again.
pub const OBSERVER_BACK: &str = "observer-back";

/// Kind of the event that says what was found at a machine behind the target, which the target asks: its observer
/// ([`Details::socket_local`]), the port that it serves ([`Details::port`]; none: whatever its observer was started for), the first
/// finding's id ([`Details::of_kind`]; none: nothing was found).
pub const BEHIND: &str = "behind";

/// Kind of the event that says that nothing is heard of an agent any more.
pub const AGENT_LOST: &str = "agent-lost";
/// Kind of the event that says that it is heard again.
pub const AGENT_BACK: &str = "agent-back";
/// Kind of the event that says that the other agents put on the share of a lost one, and from when on.
pub const AGENT_REDEALT: &str = "agent-redealt";
/// Kind of the event that says that an agent began after the moment at which all were to begin.
pub const AGENT_LATE: &str = "agent-late";

/// Kind of the event that says that an observer on another machine runs cheaper probes than it was asked for.
pub const PROBES_LIMITED: &str = "probes-limited";

/// Kind of the event that says that a run was ended early, as nothing had connected.
pub const GAVE_UP: &str = "gave-up";

/// Kind of the event that says that a run was ended early, as something was so that it was not to go on with
/// ([`crate::abort`]; which, as it is written: [`Details::of_kind`]).
pub const ABORTED: &str = "aborted";
/// Kind of the event that says that a load was ended early, as another load of the same run had ended the run.
pub const ENDED_TOGETHER: &str = "ended-together";

/// Kind of the event that says that the load has ended and the machine is read on.
pub const LOAD_ENDED: &str = "load-ended";

/// Kind of the event that says that whoever watches the run has changed its rate.
pub const RATE_CHANGED: &str = "rate-changed";

/// Kind of the event that says that a language runtime held its program for its collector ([`Details::took_ns`]).
pub const COLLECTOR_PAUSE: &str = "collector-pause";

/// Kind of the event that says that nobody has taken connections for [`crate::limits::GONE_NS`], and that the run goes on.
pub const TARGET_AWAY: &str = "target-away";
/// Kind of the event that says that somebody takes them again.
pub const TARGET_BACK: &str = "target-back";

/// Kind of the event that says that a target which the run had started ended by itself.
pub const TARGET_ENDED: &str = "target-ended";

/// Kind of the event that says that a phase begins.
pub const PHASE: &str = "phase";

/// Kind of the event that says that a fault acts from now on: its number ([`Details::fault`]) and its name
/// ([`Details::of_kind`]).
pub const FAULT_BEGAN: &str = "fault-began";
/// Kind of the event that says that all that a fault did is undone.
pub const FAULT_UNDONE: &str = "fault-undone";
/// Kind of the event that says that a fault was not done, or could not be undone, and why.
pub const FAULT_REFUSED: &str = "fault-refused";

/// Kind of the event that says that something was set to hold the machine still for the run ([`Details::of_kind`] has what).
pub const ISOLATED: &str = "isolated";
/// Kind of the event that says that it was so before.
pub const ISOLATED_ALREADY: &str = "isolated-already";
/// Kind of the event that says that it could not be set, and why.
pub const NOT_ISOLATED: &str = "not-isolated";
/// Kind of the event that says that it is as it was before.
pub const ISOLATION_UNDONE: &str = "isolation-undone";
/// Kind of the event that says that it could not be put back, and why.
pub const ISOLATION_NOT_UNDONE: &str = "isolation-not-undone";

/// Kind of the event that says that no request of any worker succeeded from its moment on, the last success, for so long
/// ([`Details::took_ns`]; none: until the run's end), though some failed ([`Details::times`] attempts, the first and the last at
/// [`Details::first_failed_ns`] and [`Details::last_failed_ns`]).
pub const OUTAGE: &str = "outage";

/// Kind of the event that says how many of another kind ([`Details::of_kind`], [`Details::times`]) were not kept on their
/// way to the recording. [`Events`] counts it instead of keeping it.
pub const EVENTS_LOST: &str = "events-lost";
/// What all kinds are counted as together of which none is kept, as there are too many.
pub const OTHER_KINDS: &str = "other-kinds";

/// Whether an event of this kind is a fault's: something was done to the target or its host, or undone. What came before it
/// and what came after are never one.
pub fn is_fault(kind: &str) -> bool {
    kind == "fault" || kind.starts_with("fault-")
}

/// Whether an event of this kind is about the load alone that tells it, and not about the target, the machine or the run.
pub fn is_of_one_load(kind: &str) -> bool {
    const KINDS: [&str; 7] =
        [TLS_FAILED, GAVE_UP, ABORTED, TARGET_AWAY, TARGET_BACK, "worker-failed", "recording-stopped"];
    KINDS.contains(&kind)
}

/// One event of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Event {
    /// Nanoseconds since the run's start (negative: before it).
    pub at_ns: i64,
    /// A fixed kebab-case word, such as `interrupted`, `driver-fallback`, `target-gone`, `tls-agreed`, `tls-failed`, `recording-stopped`.
    pub kind: String,
    /// One sentence for people.
    pub text: String,
    /// What is known of it, field by field.
    #[serde(default, skip_serializing_if = "Details::is_empty")]
    pub details: Details,
}

impl Event {
    /// An event of which there is nothing to know but its sentence; `at_ns` since the run's start.
    pub fn new(at_ns: i64, kind: impl Into<String>, text: impl Into<String>) -> Self {
        Event { at_ns, kind: kind.into(), text: text.into(), details: Details::default() }
    }

    /// The same with what is known of it.
    #[must_use]
    pub fn with(self, details: Details) -> Self {
        Event { details, ..self }
    }

    /// Says that so many events of a kind were not kept.
    fn lost(at_ns: i64, kind: &str, times: u64) -> Self {
        Event::new(at_ns, EVENTS_LOST, format!("{times} more of the kind {kind} than are kept")).with(Details {
            of_kind: Some(kind.to_owned()),
            times: Some(times),
            ..Details::default()
        })
    }
}

/// What is known of an event; what is not, or does not apply, is left out. Ids are those of the PID namespace that `/proc`
/// shows to the observer; in what the kernel writes to its log, those of the initial one.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Details {
    /// The process's id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// The thread's id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tid: Option<u32>,
    /// The process's name (that of its first thread, at most 15 bytes).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub process: Option<String>,
    /// The thread's name (at most 15 bytes).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thread: Option<String>,
    /// The signal's number, signal(7): of one that was taken, or that ended the process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    /// The code that the process exited with, 0 to 255.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// Whether it left a core.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub left_core: Option<bool>,
    /// The process that sent the signal; none where the kernel did, or one that has no id in the observer's namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sender_pid: Option<u32>,
    /// The system call that the process was in, or had been in last, when it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub call: Option<String>,
    /// Its first argument, such as a descriptor, as a number of 64 bits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub call_argument: Option<u64>,
    /// Where that descriptor was a socket of IPv4 or IPv6: its own address and port.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub socket_local: Option<String>,
    /// And its peer's, where it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub socket_remote: Option<String>,
    /// The port.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// How long it took, nanoseconds, where it began at its moment and had an end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub took_ns: Option<u64>,
    /// The first failure in it, nanoseconds since the run's start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_failed_ns: Option<u64>,
    /// The last failure in it, nanoseconds since the run's start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_failed_ns: Option<u64>,
    /// How many like events it stands for, where more than one or where their number is what it says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub times: Option<u64>,
    /// The kind of event that it is about; of a fault its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub of_kind: Option<String>,
    /// The number of the run's fault that it is about, counted from 1 in the order in which they were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fault: Option<u32>,
    /// The server's certificate: kind and size of its key, such as `rsa-2048`, `ecdsa-p256`, `ed25519`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub certificate: Option<String>,
    /// Bits of that key: of RSA its modulus, else its field.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub certificate_bits: Option<u32>,
}

impl Details {
    /// Whether nothing is known.
    pub fn is_empty(&self) -> bool {
        *self == Details::default()
    }

    /// Every text in it, to be changed where it is.
    pub fn texts_mut(&mut self) -> impl Iterator<Item = &mut String> {
        let Details { process, thread, call, socket_local, socket_remote, of_kind, certificate, .. } = self;
        [process, thread, call, socket_local, socket_remote, of_kind, certificate].into_iter().flatten()
    }
}

/// Events within bounds: of each kind the first [`EVENTS_OF_KIND_MAX`], of the first [`EVENT_KINDS_MAX`] kinds; the others
/// are counted by kind. To look at, it is a slice.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Events {
    kept: Vec<Event>,
    /// How many of each kind are kept.
    counts: BTreeMap<String, usize>,
    lost: BTreeMap<String, u64>,
}

impl Events {
    /// Keeps an event, or counts it as lost. One that tells of lost ones ([`EVENTS_LOST`]) is added to that count.
    pub fn push(&mut self, event: Event) {
        if event.kind == EVENTS_LOST {
            let Details { of_kind, times, .. } = event.details;
            return self.lose(of_kind.as_deref().unwrap_or(OTHER_KINDS), times.unwrap_or(1));
        }
        let is_known = self.counts.contains_key(&event.kind) || self.counts.len() < EVENT_KINDS_MAX;
        let count = if is_known { self.counts.entry(event.kind.clone()).or_default() } else { &mut 0 };
        let is_room = is_known && *count < EVENTS_OF_KIND_MAX;
        *count += usize::from(is_room);
        if is_room { self.kept.push(event) } else { self.lose(&event.kind, 1) }
    }

    fn lose(&mut self, kind: &str, times: u64) {
        let is_known = self.lost.contains_key(kind) || self.lost.len() < EVENT_KINDS_MAX;
        let kind = if is_known { kind } else { OTHER_KINDS };
        let lost = self.lost.entry(kind.to_owned()).or_default();
        *lost = lost.saturating_add(times);
    }

    /// How many were not kept, by kind.
    pub fn lost(&self) -> &BTreeMap<String, u64> {
        &self.lost
    }

    /// Those that are kept, and for each kind that lost some an event that says how many; then there are none. `at_ns`: the
    /// moment of the latter.
    pub fn take(&mut self, at_ns: i64) -> Vec<Event> {
        let Events { kept, lost, .. } = std::mem::take(self);
        kept.into_iter().chain(lost.iter().map(|(kind, times)| Event::lost(at_ns, kind, *times))).collect()
    }

    /// Puts them in the order of their moments.
    pub fn sort(&mut self) {
        self.kept.sort_by_key(|event| event.at_ns);
    }
}

impl Deref for Events {
    type Target = [Event];

    fn deref(&self) -> &[Event] {
        &self.kept
    }
}

impl<'e> IntoIterator for &'e Events {
    type Item = &'e Event;
    type IntoIter = std::slice::Iter<'e, Event>;

    fn into_iter(self) -> Self::IntoIter {
        self.kept.iter()
    }
}

impl Extend<Event> for Events {
    fn extend<T: IntoIterator<Item = Event>>(&mut self, events: T) {
        events.into_iter().for_each(|event| self.push(event));
    }
}

impl FromIterator<Event> for Events {
    fn from_iter<T: IntoIterator<Item = Event>>(events: T) -> Self {
        let mut all = Events::default();
        all.extend(events);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(kind: &str, count: usize) -> Vec<Event> {
        (0..count).map(|at| Event::new(at as i64, kind, "x")).collect()
    }

    #[test]
    fn a_kind_that_comes_often_does_not_push_out_one_that_came_once() {
        let mut events: Events = [of("target-exit", 5000), of("target-oom-kill", 1)].concat().into_iter().collect();
        let kept = |events: &Events, kind: &str| events.iter().filter(|event| event.kind == kind).count();
        assert_eq!((kept(&events, "target-exit"), kept(&events, "target-oom-kill")), (EVENTS_OF_KIND_MAX, 1));
        let lost = 5000 - EVENTS_OF_KIND_MAX as u64;
        assert_eq!(events.lost(), &BTreeMap::from([("target-exit".to_owned(), lost)]));
        // On its way the number is an event, and where that is kept a number again.
        let sent = events.take(7);
        assert!(events.is_empty() && events.lost().is_empty());
        assert_eq!(sent.last().map(|event| (event.at_ns, &*event.kind)), Some((7, EVENTS_LOST)));
        let mut there: Events = sent.into_iter().collect();
        assert_eq!((there.len(), there.lost()["target-exit"]), (EVENTS_OF_KIND_MAX + 1, lost));
        there.extend(of("target-exit", 2));
        assert_eq!(there.lost()["target-exit"], lost + 2);
    }

    #[test]
    fn kinds_without_end_take_no_room_without_end() {
        let kinds = EVENT_KINDS_MAX * 3;
        let mut events: Events = (0..kinds).flat_map(|kind| of(&format!("kind-{kind}"), 2)).collect();
        assert_eq!((events.len(), events.lost().len()), (2 * EVENT_KINDS_MAX, EVENT_KINDS_MAX + 1));
        assert_eq!(events.lost().values().sum::<u64>() as usize + events.len(), 2 * kinds);
        events.push(Event::lost(0, "kind-0", u64::MAX));
        events.push(Event::lost(0, "kind-0", u64::MAX));
        assert_eq!(events.lost().values().copied().max(), Some(u64::MAX), "and no sum overflows");
    }

    #[test]
    fn an_event_without_details_is_written_as_before_there_were_any() {
        let old = r#"{"at_ns":5,"kind":"interrupted","text":"it was"}"#;
        let event: Event = serde_json::from_str(old).unwrap();
        assert_eq!(event, Event::new(5, "interrupted", "it was"));
        assert_eq!(serde_json::to_string(&event).unwrap(), old);
    }

    prop_compose! {
        fn any_details()(
            numbers in any::<(Option<u32>, Option<u32>, Option<u32>, Option<i32>, Option<i32>)>(),
            large in any::<(Option<u64>, Option<u64>, Option<u16>, Option<bool>, Option<u64>)>(),
            texts in prop::collection::vec(any::<Option<String>>(), 7),
            certificate_bits: Option<u32>,
        ) -> Details {
            let text = |at: usize| texts.get(at).cloned().flatten();
            Details {
                pid: numbers.0,
                tid: numbers.1,
                sender_pid: numbers.2,
                signal: numbers.3,
                exit_code: numbers.4,
                call_argument: large.0,
                times: large.1,
                first_failed_ns: large.1,
                last_failed_ns: large.0,
                port: large.2,
                left_core: large.3,
                took_ns: large.4,
                process: text(0),
                thread: text(1),
                call: text(2),
                socket_local: text(3),
                socket_remote: text(4),
                of_kind: text(5),
                fault: numbers.1,
                certificate: text(6),
                certificate_bits,
            }
        }
    }

    proptest! {
        #[test]
        fn details_come_back_as_they_were(at_ns: i64, kind: String, text: String, details in any_details()) {
            let event = Event::new(at_ns, kind, text).with(details);
            let written = serde_json::to_string(&event).unwrap();
            prop_assert_eq!(&serde_json::from_str::<Event>(&written).unwrap(), &event);
            let of_details = serde_json::to_string(&event.details).unwrap();
            prop_assert_eq!(of_details == "{}", event.details.is_empty());
            prop_assert_eq!(serde_json::from_str::<Details>(&of_details).unwrap(), event.details);
        }
    }
}
