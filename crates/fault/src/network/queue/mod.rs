//! Packets of a port given to a process of the fault's own: delayed, narrowed, put in another order, doubled, corrupted.
//!
//! By the kernel's queue for packets (nfnetlink_queue): it works on the port itself, with connections that are open, and where
//! there is no netem. A rule sends packets there, by iptables(8), as nft(8) needs CONFIG_NFT_QUEUE, which small kernels leave
//! out. The rule lets packets pass while nobody takes them (`--queue-bypass`): a process that was killed does not cut the
//! port off. Rules are for packets that come; on the loopback interface those that go back come there, too. Each kind has a hook of
//! its own, as a packet that comes back from a queue goes on with the next hook and not with the next rule: so different
//! kinds hold together on one port, and the same kind not twice. Needs CAP_NET_ADMIN. Cost: see `path`.

mod message;
pub(crate) mod path;

use super::program::Program;
use crate::change::Reversible;
use crate::error::ApplyError;
use crate::limits::DELAY_NS_MAX;
use crate::network::Port;
use crate::network::firewall::LOSS_MAX_PPM;
use crate::process::{CAP_NET_ADMIN, has_capability};
use model::units::{show_bytes, show_duration_ns};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Both families' programs: a host without IPv6 has no packets of the second.
const IPTABLES: [Program; 2] =
    [Program { name: "iptables", package: "iptables" }, Program { name: "ip6tables", package: "iptables" }];
/// With what nft(8) calls the family.
const FAMILIES: [(Program, &str); 2] = [(IPTABLES[0], "ip"), (IPTABLES[1], "ip6")];
const NFT: Program = Program { name: "nft", package: "nftables" };
/// What the comment of every rule of ours begins with.
const COMMENT: &str = "plimsoll-queue-";
/// Numbers of queues that nobody else is likely to use; one that is taken is said.
pub(crate) const QUEUES: std::ops::RangeInclusive<u16> = 0x7000..=0x7fff;
/// What a packet that is sent again is marked with, so that it is not doubled again ("plim").
pub(crate) const MARK: u32 = 0x706c_696d;

/// What becomes of packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "packets", rename_all = "kebab-case")]
pub enum Treatment {
    /// Those that come to the port are held; those that go back are not, so that a round trip grows by it once.
    Delayed {
        /// Each so long, nanoseconds.
        by_ns: u64,
        /// And up to so much longer, drawn for each; they stay in order.
        jitter_ns: u64,
    },
    /// So many bytes a second each way, one packet after the other.
    Narrow {
        /// Bytes a second.
        bytes_per_s: u64,
    },
    /// Some are held for 5 ms, and those behind them overtake them.
    Reordered {
        /// Parts of a million.
        ppm: u32,
    },
    /// Some arrive twice.
    Doubled {
        /// Parts of a million.
        ppm: u32,
    },
    /// Of some that have data, a bit of it is changed.
    Corrupted {
        /// Parts of a million.
        ppm: u32,
        /// Whether the checksum is made right again: then TCP does not notice.
        is_undetected: bool,
    },
}

impl Treatment {
    /// Whether it is in bounds.
    pub(crate) fn is_fit(self) -> bool {
        match self {
            Treatment::Delayed { by_ns, jitter_ns } => by_ns > 0 && by_ns.max(jitter_ns) <= DELAY_NS_MAX,
            Treatment::Narrow { bytes_per_s } => bytes_per_s > 0,
            Treatment::Reordered { ppm } | Treatment::Doubled { ppm } | Treatment::Corrupted { ppm, .. } => {
                (1..=LOSS_MAX_PPM).contains(&ppm)
            }
        }
    }

    /// The table and chain of its rules.
    fn hook(self) -> (&'static str, &'static str) {
        match self {
            Treatment::Reordered { .. } => ("raw", "PREROUTING"),
            Treatment::Corrupted { .. } => ("mangle", "PREROUTING"),
            Treatment::Delayed { .. } => ("mangle", "INPUT"),
            Treatment::Narrow { .. } => ("security", "INPUT"),
            // One that is sent again begins here, so here its mark is on it.
            Treatment::Doubled { .. } => ("raw", "OUTPUT"),
        }
    }

    /// Whether those that go back are treated, too, where they come by, as on the loopback interface.
    fn is_both_ways(self) -> bool {
        !matches!(self, Treatment::Delayed { .. })
    }
}

impl fmt::Display for Treatment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = |ppm: u32| format!("{} %", f64::from(ppm) / 1e4);
        let ms = |ns: u64| show_duration_ns(ns as f64);
        match *self {
            Treatment::Delayed { by_ns, jitter_ns: 0 } => write!(f, "{} late", ms(by_ns)),
            Treatment::Delayed { by_ns, jitter_ns } => write!(f, "{} to {} late", ms(by_ns), ms(by_ns + jitter_ns)),
            Treatment::Narrow { bytes_per_s } => write!(f, "at most {}/s each way", show_bytes(bytes_per_s as f64)),
            Treatment::Reordered { ppm } => write!(f, "{} overtaken", percent(ppm)),
            Treatment::Doubled { ppm } => write!(f, "{} sent twice", percent(ppm)),
            Treatment::Corrupted { ppm, is_undetected: false } => write!(f, "{} with a bit changed", percent(ppm)),
            Treatment::Corrupted { ppm, is_undetected: true } => {
                write!(f, "{} with a bit changed, and the checksum made right", percent(ppm))
            }
        }
    }
}

/// Rules that give packets of a port to the process that has the queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueRules {
    port: Port,
    queue: u16,
    treatment: Treatment,
    /// Whether the table has others' rules: then it stays. iptables(8) makes it where it is not there, and leaves it.
    is_table_others: bool,
}

impl QueueRules {
    /// Rules that are not there yet.
    pub(crate) fn planned(port: Port, queue: u16, treatment: Treatment) -> Self {
        let table = treatment.hook().0;
        let is_table_others = FAMILIES.iter().any(|(program, family)| !is_ours_alone(*program, family, table));
        QueueRules { port, queue, treatment, is_table_others }
    }

    /// The rules, chain first, each without the word that adds or removes it.
    fn rules(&self) -> Vec<Vec<String>> {
        let chain = self.treatment.hook().1;
        let (interface, mark) = if chain == "OUTPUT" { ("-o", true) } else { ("-i", false) };
        let rule = |of_port: &str| {
            let mut words: Vec<String> = vec![chain.to_owned()];
            if self.port.is_loopback {
                words.extend([interface, "lo"].map(str::to_owned));
            }
            words.extend(["-p", "tcp", of_port, &self.port.port.to_string()].map(str::to_owned));
            if mark {
                words.extend(["-m", "mark", "!", "--mark", &format!("{MARK:#x}")].map(str::to_owned));
            }
            let comment = format!("{COMMENT}{}", self.queue);
            words.extend(["-m", "comment", "--comment", &comment].map(str::to_owned));
            words
                .extend(["-j", "NFQUEUE", "--queue-num", &self.queue.to_string(), "--queue-bypass"].map(str::to_owned));
            words
        };
        let mut rules = vec![rule("--dport")];
        if self.treatment.is_both_ways() && self.port.is_loopback {
            rules.push(rule("--sport"));
        }
        rules
    }

    fn ran(&self, program: Program, word: &str, rule: &[String]) -> Result<Result<String, String>, ApplyError> {
        let mut args = vec!["-w", "-t", self.treatment.hook().0, word];
        args.extend(rule.iter().map(String::as_str));
        program.ran(&args, "")
    }

    /// Those of both programs that are there: the first is needed.
    fn programs(&self) -> Result<Vec<Program>, ApplyError> {
        IPTABLES[0].path()?;
        Ok(IPTABLES.into_iter().filter(|program| program.path().is_ok()).collect())
    }

    fn is_there(&self) -> Result<bool, ApplyError> {
        for program in self.programs()? {
            for rule in self.rules() {
                if self.ran(program, "-C", &rule)?.is_ok() {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    fn add(&self) -> Result<(), ApplyError> {
        for program in self.programs()? {
            for rule in self.rules() {
                match self.ran(program, "-I", &rule)? {
                    Err(reason) if program.name == IPTABLES[0].name => {
                        return Err(program.failed(&["-I", &rule[0]], reason));
                    }
                    // A host without IPv6 has no packets of it.
                    _ => {}
                }
            }
        }
        Ok(())
    }

    fn remove(&self) -> Result<(), ApplyError> {
        for program in self.programs()? {
            for rule in self.rules() {
                let removed = self.ran(program, "-D", &rule)?;
                if self.ran(program, "-C", &rule)?.is_ok() {
                    let reason = removed.err().unwrap_or_else(|| "it stands there twice: run it again".to_owned());
                    return Err(program.failed(&["-D", &rule[0]], reason));
                }
            }
        }
        Ok(())
    }

    /// Removes the tables that iptables(8) has made for rules of ours, once nothing is in them.
    fn remove_tables(&self) {
        let (table, chain) = self.treatment.hook();
        for (_, family) in FAMILIES {
            let listed = NFT.ran(&["list", "table", family, table], "");
            let is_empty = listed.is_ok_and(|said| said.is_ok_and(|text| rules_of(&text).next().is_none()));
            if is_empty {
                // In one step, and the chain first, which fails where somebody has put a rule there meanwhile. To leave an
                // empty table is no harm.
                let script = format!("delete chain {family} {table} {chain}\ndelete table {family} {table}\n");
                let _ = NFT.ran(&["-f", "-"], &script);
            }
        }
    }

    /// Another fault of the same kind on the same port: it would take all packets, and this one none.
    fn other(&self) -> Option<String> {
        let (table, chain) = self.treatment.hook();
        let said = IPTABLES[0].ran(&["-w", "-t", table, "-S", chain], "").ok()?.ok()?;
        let port = format!("port {} ", self.port.port);
        said.lines().find(|line| line.contains(COMMENT) && line.contains(&port)).map(str::to_owned)
    }
}

/// Lines of a listed table that are rules: not those that open, describe or close one of its chains.
fn rules_of(text: &str) -> impl Iterator<Item = &str> {
    let lines = text.lines().map(str::trim);
    lines.filter(|line| {
        !(line.is_empty() || *line == "}" || line.ends_with('{') || line.starts_with("type ") || line.starts_with('#'))
    })
}

/// Whether a table is not there, or has rules of ours and no others, as far as can be seen. nft(8) lists no comments of
/// iptables(8).
fn is_ours_alone(program: Program, family: &str, table: &str) -> bool {
    match NFT.ran(&["list", "table", family, table], "") {
        Ok(Ok(_)) => program.ran(&["-w", "-t", table, "-S"], "").is_ok_and(|said| {
            let text = said.unwrap_or_default();
            let mut rules = text.lines().filter(|line| line.starts_with("-A")).peekable();
            rules.peek().is_some() && rules.all(|rule| rule.contains(COMMENT))
        }),
        Ok(Err(_)) => true,
        Err(_) => false,
    }
}

impl Reversible for QueueRules {
    fn name(&self) -> String {
        let both = self.treatment.is_both_ways() && self.port.is_loopback;
        format!("packets to {}{}", if both { "and from " } else { "" }, self.port)
    }

    fn before(&self) -> String {
        "as they are".to_owned()
    }

    fn after(&self) -> String {
        format!("{}, by queue {}", self.treatment, self.queue)
    }

    fn found(&self) -> Result<Option<String>, ApplyError> {
        Ok(Some(if self.is_there()? { self.after() } else { self.before() }))
    }

    fn may(&self) -> Result<(), ApplyError> {
        self.programs()?;
        if !has_capability(CAP_NET_ADMIN) {
            return Err(ApplyError::missing_right(&self.name(), "CAP_NET_ADMIN is missing"));
        }
        match self.other() {
            None => Ok(()),
            Some(rule) => Err(ApplyError::Missing {
                name: self.name(),
                expected: "no other fault of the same kind on this port".to_owned(),
                reason: format!("there is one, which would take all packets ({rule}): see `plimsoll fault list`"),
            }),
        }
    }

    fn set(&self, value: &str) -> Result<(), ApplyError> {
        if value == self.after() { self.add() } else { self.remove() }
    }

    fn check(&self) -> Result<(), ApplyError> {
        match QUEUES.contains(&self.queue) && self.port.is_allowed() && self.treatment.is_fit() {
            true => Ok(()),
            false => Err(ApplyError::not_ours(&self.name(), &self.after())),
        }
    }

    fn identity(&self) -> String {
        format!("queue {}", self.queue)
    }

    fn network(&self) -> Option<u64> {
        Some(self.port.network)
    }

    fn tidy(&self) {
        if !self.is_table_others {
            self.remove_tables();
        }
    }

    fn is_in_parts(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PORT: Port = Port { port: 80, is_loopback: true, network: 1 };

    fn rules(treatment: Treatment, port: Port) -> QueueRules {
        QueueRules { port, queue: *QUEUES.start(), treatment, is_table_others: false }
    }

    #[test]
    fn rules_are_of_the_port_and_the_interface_that_were_named() {
        let delayed = Treatment::Delayed { by_ns: 1, jitter_ns: 0 };
        let words = |rules: QueueRules| rules.rules().iter().map(|rule| rule.join(" ")).collect::<Vec<_>>();
        let rest = "-m comment --comment plimsoll-queue-28672 -j NFQUEUE --queue-num 28672 --queue-bypass";
        assert_eq!(words(rules(delayed, PORT)), [format!("INPUT -i lo -p tcp --dport 80 {rest}")]);
        let any = Port { is_loopback: false, ..PORT };
        assert_eq!(
            words(rules(Treatment::Narrow { bytes_per_s: 1 }, any)),
            [format!("INPUT -p tcp --dport 80 {rest}")]
        );
        let both = words(rules(Treatment::Doubled { ppm: 1 }, PORT));
        assert!(both.len() == 2 && both[1].contains("-o lo -p tcp --sport 80 -m mark ! --mark 0x706c696d"), "{both:?}");
    }

    #[test]
    fn no_two_kinds_have_one_hook() {
        let all = [
            Treatment::Delayed { by_ns: 1, jitter_ns: 0 },
            Treatment::Narrow { bytes_per_s: 1 },
            Treatment::Reordered { ppm: 1 },
            Treatment::Doubled { ppm: 1 },
            Treatment::Corrupted { ppm: 1, is_undetected: true },
        ];
        for (at, one) in all.iter().enumerate() {
            assert!(all[..at].iter().all(|other| other.hook() != one.hook()), "{one}");
        }
    }

    #[test]
    fn a_journal_that_names_others_queues_or_no_bounds_is_not_obeyed() {
        let fit = rules(Treatment::Reordered { ppm: 10 }, PORT);
        assert!(fit.check().is_ok());
        assert!(QueueRules { queue: 0, ..fit.clone() }.check().is_err());
        assert!(QueueRules { port: Port { port: 0, ..PORT }, ..fit.clone() }.check().is_err());
        for treatment in [Treatment::Reordered { ppm: 0 }, Treatment::Delayed { by_ns: u64::MAX, jitter_ns: 0 }] {
            assert!(QueueRules { treatment, ..fit.clone() }.check().is_err(), "{treatment}");
        }
    }

    #[test]
    fn a_tables_rules_are_told_from_its_frame() {
        let frame = "# Warning: table ip raw is managed by iptables-nft\ntable ip raw {\n\tchain PREROUTING {\n\t\ttype filter \
                     hook prerouting priority raw; policy accept;\n\t}\n}\n";
        assert_eq!(rules_of(frame).count(), 0);
        let with = frame.replace("\t}\n}", "\t\ttcp dport 9 drop\n\t}\n}");
        assert_eq!(rules_of(&with).collect::<Vec<_>>(), ["tcp dport 9 drop"]);
    }
}
