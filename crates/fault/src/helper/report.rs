//! What a helper did: its counts, as it writes them down, and in words.

use model::units::{show_duration_ns, show_grouped};
use serde::{Deserialize, Serialize};

/// What a helper did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "of", rename_all = "kebab-case")]
pub(crate) enum Report {
    /// Connections.
    Clients(Connections),
    /// Packets sent.
    Sent {
        /// How many.
        packets: u64,
        /// How many the kernel did not take.
        refused: u64,
    },
    /// Packets of a queue.
    Packets(Packets),
    /// Requests answered.
    Answers {
        /// Connections taken.
        connections: u64,
        /// Requests answered.
        answered: u64,
    },
}

/// Counts of connections.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Connections {
    /// Made.
    pub(crate) opened: u64,
    /// Open now.
    pub(crate) open: u64,
    /// Not made: refused, timed out, no port or descriptor left.
    pub(crate) failed: u64,
    /// Why the first of these was not made.
    pub(crate) why: Option<String>,
    /// Not begun, as too many were on their way.
    pub(crate) skipped: u64,
    /// Ended by the server.
    pub(crate) closed: u64,
    /// How long the first that was ended by the server had been open, milliseconds.
    pub(crate) first_closed_after_ms: Option<u64>,
    /// Bytes sent.
    pub(crate) bytes_sent: u64,
    /// Bytes read.
    pub(crate) bytes_read: u64,
}

/// Counts of packets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Packets {
    /// Taken from the queue.
    pub(crate) taken: u64,
    /// Held for a time.
    pub(crate) held: u64,
    /// Held back so that others overtake them.
    pub(crate) reordered: u64,
    /// With a bit changed.
    pub(crate) corrupted: u64,
    /// Sent twice.
    pub(crate) doubled: u64,
    /// Drawn to be changed or doubled, and too long for it.
    pub(crate) too_long: u64,
    /// Dropped, as the narrow path was full.
    pub(crate) dropped: u64,
    /// Dropped by the kernel, as more were held than it keeps, or they came too fast.
    pub(crate) overrun: u64,
    /// The longest that one was held beyond its time, nanoseconds.
    pub(crate) late_ns_max: u64,
}

/// `1 packet`, `2 packets`.
fn many(n: u64, what: &str) -> String {
    format!("{} {what}{}", show_grouped(n), if n == 1 { "" } else { "s" })
}

impl Report {
    /// In words.
    pub(crate) fn words(&self) -> String {
        match self {
            Report::Clients(of) => of.words(),
            Report::Sent { packets, refused: 0 } => format!("{} sent", many(*packets, "packet")),
            Report::Sent { packets, refused } => {
                format!("{} sent, {} not taken by the kernel", many(*packets, "packet"), show_grouped(*refused))
            }
            Report::Packets(of) => of.words(),
            Report::Answers { connections, answered } => {
                format!("{} answered on {}", many(*answered, "request"), many(*connections, "connection"))
            }
        }
    }
}

impl Packets {
    fn words(&self) -> String {
        let parts = [
            (self.held, "held"),
            (self.reordered, "held for others to overtake"),
            (self.corrupted, "corrupted"),
            (self.doubled, "sent twice"),
            (self.too_long, "drawn and too long for it"),
            (self.dropped, "dropped as 500 ms of work waited"),
            (self.overrun, "dropped by the kernel as too many waited"),
        ];
        let parts = parts.iter().filter(|(n, _)| *n > 0).map(|(n, word)| format!(", {} {word}", show_grouped(*n)));
        let late = match self.late_ns_max {
            0 => String::new(),
            late => format!("; the latest let go {} after its time", show_duration_ns(late as f64)),
        };
        format!("{} seen{}{late}", many(self.taken, "packet"), parts.collect::<String>())
    }
}

impl Connections {
    fn words(&self) -> String {
        let mut text = many(self.opened, "connection") + " made";
        if self.open > 0 {
            text += &format!(", {} open", show_grouped(self.open));
        }
        if self.closed > 0 {
            text += &format!(", {} closed by the server", show_grouped(self.closed));
        }
        if let Some(ms) = self.first_closed_after_ms {
            text += &format!(" (the first after {})", show_duration_ns(ms as f64 * 1e6));
        }
        if self.failed > 0 {
            let why = self.why.as_deref().unwrap_or("unknown");
            text += &format!(", {} not made (the first: {why})", show_grouped(self.failed));
        }
        if self.skipped > 0 {
            text += &format!(", {} not begun as too many were on their way", show_grouped(self.skipped));
        }
        if self.bytes_sent + self.bytes_read > 0 {
            let (sent, read) = (show_grouped(self.bytes_sent), show_grouped(self.bytes_read));
            text += &format!(", {sent} bytes sent, {read} read");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_did_not_happen_is_not_said() {
        let mut of =
            Connections { opened: 5, open: 3, closed: 2, first_closed_after_ms: Some(1200), ..Default::default() };
        let said = "5 connections made, 3 open, 2 closed by the server (the first after 1.20 s)";
        assert_eq!(Report::Clients(of.clone()).words(), said);
        (of.failed, of.why) = (1, Some("connection refused".to_owned()));
        assert!(Report::Clients(of).words().ends_with(", 1 not made (the first: connection refused)"));
        let packets = Packets { taken: 1, held: 1, ..Default::default() };
        assert_eq!(Report::Packets(packets).words(), "1 packet seen, 1 held");
        let late = Packets { taken: 7, late_ns_max: 2_000_000, ..Default::default() };
        assert_eq!(Report::Packets(late).words(), "7 packets seen; the latest let go 2.00 ms after its time");
    }
}
