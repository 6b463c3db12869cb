//! Packets of a port refused, answered by a reset, lost, or given to another port: rules of nftables, in a table of their own.
//!
//! A fault is one table, made by one transaction and removed by one, whatever else stands in the firewall; its name is in
//! the journal before. Rules sit at the receiving side, before those of the host's own firewall: what is lost on a sender's
//! way out looks to its TCP like a full queue at home, and is sent again at once. Rules count what they hit. Needs nft(8)
//! and CAP_NET_ADMIN. Cost: one look at each packet of the namespace.

use super::Port;
use super::program::Program;
use crate::change::Reversible;
use crate::error::ApplyError;
use crate::place;
use serde::{Deserialize, Serialize};
use serde_json::Value;

const NFT: Program = Program { name: "nft", package: "nftables" };
/// What the name of every table of ours begins with; sixteen hexadecimal digits follow.
const PREFIX: &str = "plimsoll_";
/// The addresses that SYNs of ours come from: within the loopback network, so of nobody else's.
pub(crate) const SYN_NETWORK: &str = "127.77.0.0/16";
/// Most parts of a million that are lost: beyond, nothing is left to measure.
pub(crate) const LOSS_MAX_PPM: u32 = 900_000;

/// What becomes of the packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "packets", rename_all = "kebab-case")]
pub enum Packets {
    /// A connect is answered as if nobody listened; what is open goes on.
    Refused,
    /// A connect succeeds; whatever is sent then, by either end, is answered by a reset.
    Reset,
    /// All that comes to the port is dropped without a word.
    Dropped,
    /// Of those that come, so many of a million are lost, drawn for each; on the loopback interface also those that go back.
    Lost {
        /// Parts of a million.
        ppm: u32,
    },
    /// New connections go to another port of this host; what comes of older ones is answered by a reset.
    Redirected {
        /// The other port.
        to: u16,
    },
    /// Answers to the addresses that SYNs of ours come from are dropped: else this host itself would refuse them.
    Unanswered,
}

impl Packets {
    fn word(self) -> String {
        match self {
            Packets::Refused => "refused".to_owned(),
            Packets::Reset => "reset".to_owned(),
            Packets::Dropped => "dropped".to_owned(),
            Packets::Lost { ppm } => format!("{} % lost", f64::from(ppm) / 1e4),
            Packets::Redirected { to } => format!("new connections to port {to}, open ones reset"),
            Packets::Unanswered => format!("answers to {SYN_NETWORK} dropped"),
        }
    }
}

/// A table of the firewall that holds one fault.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Firewall {
    /// Its name.
    pub table: String,
    /// The port.
    pub port: Port,
    /// What becomes of its packets.
    pub packets: Packets,
}

impl Firewall {
    /// A table that is not there yet, with a name that no other has.
    pub fn new(port: Port, packets: Packets) -> Self {
        Firewall { table: format!("{PREFIX}{:016x}", place::token()), port, packets }
    }

    /// How many packets its rules have hit; `None` where the table is gone.
    ///
    /// # Errors
    /// nft(8) is not there.
    pub fn hits(&self) -> Result<Option<u64>, ApplyError> {
        let said = NFT.ran(&["-j", "list", "table", "inet", &self.table], "")?;
        Ok(said.ok().map(|text| counted(&text)))
    }

    fn is_there(&self) -> Result<bool, ApplyError> {
        match NFT.ran(&["list", "table", "inet", &self.table], "")? {
            Ok(_) => Ok(true),
            Err(reason) if reason.contains("No such file or directory") => Ok(false),
            Err(reason) => Err(NFT.failed(&["list", "table", "inet", &self.table], reason)),
        }
    }

    /// The table, as nft(8) takes it.
    fn script(&self) -> String {
        let Port { port, is_loopback, .. } = self.port;
        let from = if is_loopback { "iifname \"lo\" " } else { "" };
        // What goes back leaves by the interface that it came by.
        let back = if is_loopback { "oifname \"lo\" " } else { "" };
        let comes = format!("{from}tcp dport {port}");
        let goes_back = format!("{back}tcp sport {port}");
        let (input, output) = match self.packets {
            Packets::Refused => {
                let opens = "tcp flags & (fin | syn | rst | ack) == syn";
                (vec![format!("{comes} {opens} counter reject with tcp reset")], vec![])
            }
            // What opens a connection passes, and resets do, so that both ends learn of the end. The last segment of what
            // was written has PSH (RFC 9293, 3.9.1.2, and Linux does so).
            Packets::Reset => {
                let says = "tcp flags & (psh | fin) != 0x0 counter reject with tcp reset";
                (vec![format!("{comes} {says}")], vec![format!("{goes_back} {says}")])
            }
            Packets::Dropped => (vec![format!("{comes} counter drop")], vec![]),
            Packets::Lost { ppm } => {
                let drawn = format!("numgen random mod 1000000 < {ppm} counter drop");
                let mut input = vec![format!("{comes} {drawn}")];
                if is_loopback {
                    input.push(format!("{from}tcp sport {port} {drawn}"));
                }
                (input, vec![])
            }
            // What is redirected has another port when it comes, and those that answer it have it when they leave.
            Packets::Redirected { .. } => {
                let back = format!("{goes_back} tcp flags & (psh | fin) != 0x0 counter reject with tcp reset");
                // A reset passes, so that the server learns of the end, too.
                (vec![format!("{comes} tcp flags & rst == 0x0 counter reject with tcp reset")], vec![back])
            }
            Packets::Unanswered => {
                (vec![format!("{from}ip daddr {SYN_NETWORK} tcp sport {port} counter drop")], vec![])
            }
        };
        let mut script = format!("add table inet {}\n", self.table);
        if let Packets::Redirected { to } = self.packets {
            let table = &self.table;
            script += &format!("add chain inet {table} nat {{ type nat hook output priority -100; }}\n");
            script += &format!("add rule inet {table} nat {back}tcp dport {port} counter redirect to :{to}\n");
        }
        for (hook, rules) in [("input", input), ("output", output)] {
            if !rules.is_empty() {
                let table = &self.table;
                script += &format!("add chain inet {table} {hook} {{ type filter hook {hook} priority -290; }}\n");
                rules.iter().for_each(|rule| script += &format!("add rule inet {table} {hook} {rule}\n"));
            }
        }
        script
    }
}

/// Packets that the rules of a listed table have hit.
fn counted(json: &str) -> u64 {
    let list: Value = serde_json::from_str(json).unwrap_or_default();
    let rules = list["nftables"].as_array().into_iter().flatten().filter_map(|item| item["rule"]["expr"].as_array());
    rules.flatten().filter_map(|part| part["counter"]["packets"].as_u64()).sum()
}

/// Whether a name is one that a table of ours can have.
fn is_ours(table: &str) -> bool {
    let digits = table.strip_prefix(PREFIX);
    digits.is_some_and(|d| d.len() == 16 && d.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b)))
}

impl Reversible for Firewall {
    fn name(&self) -> String {
        format!("packets of {}", self.port)
    }

    fn before(&self) -> String {
        "as they are".to_owned()
    }

    fn after(&self) -> String {
        self.packets.word()
    }

    fn found(&self) -> Result<Option<String>, ApplyError> {
        Ok(Some(if self.is_there()? { self.after() } else { self.before() }))
    }

    fn may(&self) -> Result<(), ApplyError> {
        // `--check` does all but the change: rights, and whether this kernel has what the rules need.
        NFT.run(&["--check", "-f", "-"], &self.script()).map(drop)
    }

    fn set(&self, value: &str) -> Result<(), ApplyError> {
        match value == self.after() {
            true => NFT.run(&["-f", "-"], &self.script()).map(drop),
            false => NFT.run(&["delete", "table", "inet", &self.table], "").map(drop),
        }
    }

    fn check(&self) -> Result<(), ApplyError> {
        let is_fit = match self.packets {
            Packets::Lost { ppm } => (1..=LOSS_MAX_PPM).contains(&ppm),
            // Only what this host itself connects to is seen before it leaves.
            Packets::Redirected { to } => to > 0 && self.port.is_loopback,
            Packets::Unanswered => self.port.is_loopback,
            Packets::Refused | Packets::Reset | Packets::Dropped => true,
        };
        if is_ours(&self.table) && self.port.is_allowed() && is_fit {
            return Ok(());
        }
        Err(ApplyError::NotOurs { name: self.name(), value: format!("{} by table {}", self.after(), self.table) })
    }

    fn identity(&self) -> String {
        self.table.clone()
    }

    fn network(&self) -> Option<u64> {
        Some(self.port.network)
    }

    fn told(&self) -> Option<String> {
        let hits = self.hits().ok().flatten()?;
        Some(format!(
            "{hits} packet{} {}",
            if hits == 1 { "" } else { "s" },
            match self.packets {
                Packets::Refused => "refused",
                Packets::Reset => "answered by a reset",
                Packets::Dropped => "dropped",
                Packets::Lost { .. } => "lost",
                Packets::Redirected { .. } => "redirected or answered by a reset",
                Packets::Unanswered => "of answers dropped",
            }
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_tables_of_ours_are_removed() {
        let ours = Firewall::new(Port { port: 80, is_loopback: true, network: 1 }, Packets::Dropped);
        assert!(ours.check().is_ok() && ours.table.len() == 25, "{}", ours.table);
        for table in
            ["filter", "plimsoll_", "plimsoll_0123456789abcde", "plimsoll_0123456789abcdeF", "plimsoll_0; flush "]
        {
            let other = Firewall { table: table.to_owned(), ..ours.clone() };
            assert!(matches!(other.check(), Err(ApplyError::NotOurs { .. })), "{table}");
        }
        let all = Firewall { packets: Packets::Lost { ppm: 1_000_000 }, ..ours };
        assert!(all.check().is_err());
    }

    #[test]
    fn hits_are_those_of_all_rules() {
        let json = r#"{"nftables":[{"metainfo":{}},{"rule":{"expr":[{"match":{}},{"counter":{"packets":3,"bytes":1}},
            {"drop":null}]}},{"rule":{"expr":[{"counter":{"packets":4,"bytes":1}}]}}]}"#;
        assert_eq!(counted(json), 7);
        assert_eq!(counted("not JSON"), 0);
    }
}
