//! The offset of an agent's clock from the controller's, by exchanges of stamps over NATS.
//!
//! As with an observer ([`remote::offset`]): whatever the delays of both ways were, the true offset is no further from the estimate
//! than half the round trip, and of several exchanges the shortest counts. A message goes through a NATS server, so the bound is that
//! of two hops; wall clocks are not looked at, and one that is wrong by any time changes nothing.

use crate::limits::{ANSWER_WITHIN, EXCHANGES};
use crate::link::Link;
use crate::message::{read, write};
use crate::subject;
use remote::monotonic_ns;
use remote::offset::{Clock, Estimate, Exchange};
use serde::{Deserialize, Serialize};

/// What an agent's clock said.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Stamps {
    /// When the question came, nanoseconds of CLOCK_MONOTONIC.
    pub received_ns: i64,
    /// When the answer left.
    pub sent_ns: i64,
}

/// The agent's answer, to a question that came at that moment.
pub fn answer(received_ns: i64) -> Vec<u8> {
    write(&Stamps { received_ns, sent_ns: monotonic_ns() })
}

/// The clocks of several agents, all at once. `Err`: the name of one that did not answer.
pub async fn measure_all(link: &Link, agents: Vec<String>) -> Result<Vec<(String, Estimate)>, String> {
    let asked = agents.into_iter().map(|name| async move {
        let found = measure(link, &name).await;
        found.map(|clock| (name.clone(), clock)).ok_or(name)
    });
    futures_util::future::try_join_all(asked).await
}

/// The agent's clock less ours; `None`: it did not answer.
pub async fn measure(link: &Link, agent: &str) -> Option<Estimate> {
    let (subject, mut clock) = (subject::clock(agent), Clock::default());
    for _ in 0..EXCHANGES {
        let sent_ns = monotonic_ns();
        let answer = link.ask(&subject, Vec::new(), ANSWER_WITHIN).await?;
        let received_ns = monotonic_ns();
        let stamps: Stamps = read(&answer)?;
        let Stamps { received_ns: there_received_ns, sent_ns: there_sent_ns } = stamps;
        clock.push(Exchange { sent_ns, there_received_ns, there_sent_ns, received_ns });
    }
    clock.at(monotonic_ns())
}
