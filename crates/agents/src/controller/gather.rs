//! As many agents as a run wants, each of which has agreed, and who of them has which workers.
//!
//! Those that can do most are asked first, so that few are enough; of a series of loads those of the load before, so that figures of
//! one load and the next differ by the load alone. Another takes the place of one of these only when it does not come back for a while.

use super::{Conduct, leave, who};
use crate::document::Document;
use crate::error::AgentsError;
use crate::limits::{ANSWER_WITHIN, PROTOCOL, SAME_AGENTS_FOR, WHO_FOR};
use crate::link::Link;
use crate::message::{Card, Deal, Doing, ShareOf, Take, Taken, read, tamed, write};
use crate::subject;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Pause between two looks for agents.
const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// As many agents as are wanted, each of which has agreed, with the workers that it gives.
pub(super) async fn gathered(
    link: &Link,
    run: &str,
    document: &Document,
    conduct: &Conduct<'_>,
) -> Result<Vec<(String, u16)>, AgentsError> {
    let (wanted, since) = (usize::from(document.agents), Instant::now());
    let before: &[String] = conduct.series.as_deref().unwrap_or_default();
    let is_before = |name: &str| before.iter().any(|one| one == name);
    let mut agreed: Vec<(String, u16)> = Vec::new();
    let mut refused: BTreeMap<String, String> = BTreeMap::new();
    let (mut is_told, mut has_looked) = (false, false);
    loop {
        let stopped = conduct.check().err();
        if stopped.is_some() || (has_looked && since.elapsed() > conduct.wait) {
            for (name, _) in &agreed {
                leave(link, run, name, &conduct.version).await;
            }
            let refused = refused.into_iter().map(|(name, why)| format!("'{name}': {why}")).collect();
            let too_few = || AgentsError::TooFew { wanted, got: agreed.len(), refused };
            return Err(stopped.or_else(|| link.permitted().err()).unwrap_or_else(too_few));
        }
        has_looked = true;
        let of_before = if before.len() >= wanted { before } else { &[] };
        let mut cards = who(link, WHO_FOR, of_before).await;
        cards.sort_by(|a, b| {
            let by_work = b.workers.cmp(&a.workers).then_with(|| a.name.cmp(&b.name));
            is_before(&b.name).cmp(&is_before(&a.name)).then(by_work)
        });
        for card in cards {
            if agreed.len() == wanted || agreed.iter().any(|(name, _)| *name == card.name) {
                continue;
            }
            let others = agreed.iter().filter(|(name, _)| !is_before(name)).count();
            let is_kept_free = others >= wanted.saturating_sub(before.len()) && since.elapsed() < SAME_AGENTS_FOR;
            if !is_before(&card.name) && is_kept_free {
                continue;
            }
            match asked(link, run, document, conduct, &card).await {
                Ok(workers) => {
                    refused.remove(&card.name);
                    agreed.push((card.name, workers));
                }
                Err(why) => drop(refused.insert(card.name, why)),
            }
        }
        if agreed.len() == wanted {
            // Whoever answered first: a worker's number is the same from load to load.
            agreed.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
            return Ok(agreed);
        }
        // Between two loads of a series the same agents are on their way.
        let is_told_at_once = conduct.series.is_none() || since.elapsed() > SAME_AGENTS_FOR;
        if !is_told && !conduct.wait.is_zero() && is_told_at_once {
            let so_far =
                format!("waits for {} more agents, for {} s at most", wanted - agreed.len(), conduct.wait.as_secs());
            let why: Vec<String> = refused.iter().map(|(name, why)| format!("'{name}': {why}")).collect();
            (conduct.tell)(&if why.is_empty() { so_far } else { format!("{so_far} ({})", why.join("; ")) });
            is_told = true;
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}

/// Why an agent cannot be had, by what it says of itself.
pub(super) fn of_no_use(card: &Card, version: &str, labels: &[String]) -> Option<String> {
    if card.version != version || card.protocol != PROTOCOL {
        let theirs = tamed(&card.version);
        return Some(format!("it is version {theirs}, and this is {version}: install the same on both"));
    }
    if let Some(label) = labels.iter().find(|label| !card.labels.contains(label)) {
        return Some(format!("it does not have the label {label}"));
    }
    (card.doing != Doing::Idle).then(|| format!("it is busy ({})", card.doing.name()))
}

/// Asks an agent, unless its card says why it would be of no use.
async fn asked(link: &Link, run: &str, document: &Document, conduct: &Conduct<'_>, card: &Card) -> Result<u16, String> {
    // One that has agreed to this very run, and whose answer was lost, is asked again.
    let is_ours = card.doing == Doing::Agreed && card.run.as_deref() == Some(run);
    if let Some(why) = of_no_use(card, &conduct.version, &document.labels).filter(|_| !is_ours) {
        return Err(why);
    }
    let take = Take { run: run.to_owned(), version: conduct.version.clone(), protocol: PROTOCOL };
    let answer = link.ask(&subject::take(&card.name), write(&take), ANSWER_WITHIN).await;
    match answer.as_deref().map(read::<Taken>) {
        Some(Some(Taken::Agreed { workers })) => Ok(workers.clamp(1, crate::limits::WORKERS_MAX)),
        Some(Some(Taken::Refused { why })) => Err(tamed(&why)),
        Some(None) => Err("it answered in words that are not known here".to_owned()),
        None => Err("it did not answer".to_owned()),
    }
}

/// Who has which workers: as many as were asked for, or as agents give, in proportion to what each gives; at least one each, and no
/// more in all than there are connections.
pub(super) fn dealt(agreed: &[(String, u16)], document: &Document) -> Deal {
    let given: u64 = agreed.iter().map(|(_, workers)| u64::from(*workers)).sum();
    let most = u64::from(document.shown.connections).min(u64::from(u16::MAX));
    let all = document.workers.map_or(given, u64::from).clamp(agreed.len() as u64, most.max(agreed.len() as u64));
    // One each, and the rest by what each gives (largest remainders).
    let rest = all - agreed.len() as u64;
    let exact = |workers: u16| rest as f64 * f64::from(workers) / given.max(1) as f64;
    let mut parts: Vec<u64> = agreed.iter().map(|(_, workers)| 1 + exact(*workers) as u64).collect();
    let mut order: Vec<usize> = (0..parts.len()).collect();
    order.sort_by(|a, b| exact(agreed[*b].1).fract().total_cmp(&exact(agreed[*a].1).fract()).then(a.cmp(b)));
    let left = all.saturating_sub(parts.iter().sum());
    for at in order.into_iter().cycle().take(left as usize) {
        parts[at] += 1;
    }
    let mut first = 0u16;
    let share = |((agent, _), workers): (&(String, u16), u64)| {
        let workers = u16::try_from(workers).unwrap_or(u16::MAX);
        let share = ShareOf { agent: agent.clone(), first, workers };
        first = first.saturating_add(workers);
        share
    };
    Deal { shares: agreed.iter().zip(parts).map(share).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::{Asked, OnLost};

    fn document(connections: u32, workers: Option<u16>) -> Document {
        let mut plan = testkit::recordings::any_plan();
        plan.connections = connections;
        let asked = Asked {
            agents: 3,
            labels: Vec::new(),
            on_lost: OnLost::Continue,
            lost_after_ns: 1,
            workers,
            driver_reason: String::new(),
            observe: false,
            observe_at: None,
            behind: Vec::new(),
            command: Vec::new(),
            version: "1".to_owned(),
            stream_bytes_max: 1,
        };
        Document::new(&plan, "r", asked, None).unwrap().0
    }

    #[test]
    fn shares_are_by_what_each_gives_and_none_is_without() {
        let workers = |given: &[u16], connections, wanted| -> Vec<u16> {
            let agreed: Vec<(String, u16)> = given.iter().enumerate().map(|(i, n)| (format!("a{i}"), *n)).collect();
            let deal = dealt(&agreed, &document(connections, wanted));
            assert!(deal.workers().is_some(), "{deal:?}");
            deal.shares.iter().map(|share| share.workers).collect()
        };
        assert_eq!(workers(&[4, 2, 2], 100, None), [4, 2, 2]);
        assert_eq!(workers(&[4, 2, 2], 100, Some(16)), [8, 4, 4]);
        assert_eq!(workers(&[4, 2, 2], 3, None), [1, 1, 1]);
        assert_eq!(workers(&[30, 1, 1], 5, None), [3, 1, 1]);
        assert_eq!(workers(&[1, 1, 1], 100, Some(4)).iter().sum::<u16>(), 4);
    }
}
