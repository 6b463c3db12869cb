//! Puts the objects there and waits until all pods run. What is there already becomes what is asked for, as with kubectl's
//! server-side apply; what somebody else made of the same name is left alone, and said.
//!
//! Where something fails or is interrupted, what was made stays to be looked at, and the sentence says what takes it away.

use super::pods::{Seen, seen};
use super::{Cluster, Conduct, Place, run};
use crate::error::KubernetesError;
use crate::labels::MANAGED_BY;
use crate::limits::{ASK_EVERY, POD_WITHIN, STEADY_FOR};
use crate::objects::{self, Object};
use crate::wanted::{Nats, Wanted};
use k8s_openapi::api::core::v1::Event;
use kube::api::{Api, ListParams, Patch, PatchParams};
use std::time::{Duration, Instant};

/// What was put there.
#[derive(Debug, Clone)]
pub struct Applied {
    /// Where.
    pub namespace: String,
    /// How many agents run; `None`: it was not waited for.
    pub agents: Option<u16>,
    /// The command that takes it away.
    pub undo: String,
}

/// Puts it there.
///
/// # Errors
/// [`KubernetesError`]: above all where the cluster cannot be reached, says no, or does not run the pods.
pub fn apply(place: &Place, wanted: &Wanted, conduct: &Conduct) -> Result<Applied, KubernetesError> {
    wanted.check()?;
    run(applying(place, wanted.clone(), conduct))
}

async fn applying(place: &Place, mut wanted: Wanted, conduct: &Conduct) -> Result<Applied, KubernetesError> {
    let cluster = Cluster::connect(place).await?;
    wanted.namespace = Some(cluster.namespace.clone());
    let until = Instant::now() + conduct.wait;
    let objects = objects::all(&wanted);
    for object in &objects {
        refuse_what_is_not_ours(&cluster, object).await?;
    }
    let (job, others) = objects.split_last().map_or((None, &objects[..]), |(job, others)| (Some(job), others));
    for object in others {
        put(&cluster, object).await?;
    }
    let is_waited_for = !conduct.wait.is_zero();
    let is_placed = matches!(wanted.nats, Nats::Placed { .. });
    // Agents that find no NATS end, and are started again later and later.
    if is_waited_for && is_placed {
        wait(&cluster, &wanted, conduct, until, 0).await?;
    }
    if let Some(job) = job {
        put(&cluster, job).await?;
    }
    if is_waited_for {
        wait(&cluster, &wanted, conduct, until, wanted.agents).await?;
    }
    let undo = cluster.undo(&wanted.name);
    Ok(Applied { namespace: cluster.namespace, agents: is_waited_for.then_some(wanted.agents), undo })
}

async fn refuse_what_is_not_ours(cluster: &Cluster, object: &Object) -> Result<(), KubernetesError> {
    let kind = object.resource.kind.clone();
    let there = cluster.api(&object.resource).get_opt(&object.name).await;
    let there = there.map_err(|error| {
        KubernetesError::of(format!("look for {kind} '{}'", object.name), &cluster.namespace, error)
    })?;
    let is_ours = |labels: &std::collections::BTreeMap<String, String>| {
        labels.get(MANAGED_BY.0).is_some_and(|whose| whose == MANAGED_BY.1)
    };
    match there {
        Some(other) if !other.metadata.labels.as_ref().is_some_and(is_ours) => {
            Err(KubernetesError::NotOurs { kind, name: object.name.clone() })
        }
        _ => Ok(()),
    }
}

async fn put(cluster: &Cluster, object: &Object) -> Result<(), KubernetesError> {
    let how = PatchParams::apply("plimsoll").force();
    let put = cluster.api(&object.resource).patch(&object.name, &how, &Patch::Apply(&object.value)).await;
    let what = || format!("make {} '{}'", object.resource.kind, object.name);
    put.map(drop).map_err(|error| KubernetesError::of(what(), &cluster.namespace, error))
}

/// Waits until so many agents run, and NATS where it is placed.
async fn wait(
    cluster: &Cluster,
    wanted: &Wanted,
    conduct: &Conduct,
    until: Instant,
    agents: u16,
) -> Result<(), KubernetesError> {
    let is_placed = matches!(wanted.nats, Nats::Placed { .. });
    let undo = cluster.undo(&wanted.name);
    let what = match (agents, is_placed) {
        (0, _) => "NATS".to_owned(),
        (agents, _) => format!("{agents} agents"),
    };
    let begun = Instant::now();
    let mut said = String::new();
    // Since when all run, and how often one had ended until then: an agent runs at once, and ends if it finds no NATS.
    let mut steady: Option<(Instant, i32)> = None;
    loop {
        if conduct.is_interrupted() {
            return Err(KubernetesError::Interrupted { undo });
        }
        let mut now = seen(&cluster.pods(&wanted.name).await?);
        let is_nats_there = !is_placed || now.nats > 0;
        let is_all_there = is_nats_there && now.agents >= usize::from(agents);
        steady = match steady {
            Some((since, restarts)) if is_all_there && restarts == now.restarts => Some((since, restarts)),
            _ => is_all_there.then(|| (Instant::now(), now.restarts)),
        };
        if steady.is_some_and(|(since, _)| agents == 0 || since.elapsed() >= STEADY_FOR) {
            return Ok(());
        }
        let is_pod_missing = now.pods < usize::from(agents) + usize::from(is_placed);
        if is_pod_missing && begun.elapsed() > POD_WITHIN {
            now.hindered.extend(why_no_pod(cluster, wanted, now.pods).await);
        }
        let hindered = now.hindered.join("; ");
        if let Some(why) = now.broken {
            return Err(KubernetesError::NotRunning { wanted: what, why, undo });
        }
        let line = progress(&now, is_placed, agents, &hindered);
        if line != said {
            (conduct.tell)(&line);
            said = line;
        }
        if Instant::now() >= until {
            let why = match hindered.is_empty() {
                true => {
                    format!("after {} only {}", shown(conduct.wait), progress(&now_of(&now), is_placed, agents, ""))
                }
                false => format!("after {}: {hindered}", shown(conduct.wait)),
            };
            return Err(KubernetesError::NotRunning { wanted: what, why, undo });
        }
        tokio::time::sleep(ASK_EVERY).await;
    }
}

fn now_of(seen: &Seen) -> Seen {
    Seen { hindered: Vec::new(), broken: None, ..*seen }
}

fn shown(time: Duration) -> String {
    format!("{} s", time.as_secs())
}

fn progress(now: &Seen, is_placed: bool, agents: u16, hindered: &str) -> String {
    let mut parts = Vec::new();
    if is_placed {
        parts.push(if now.nats > 0 { "NATS runs".to_owned() } else { "NATS does not run yet".to_owned() });
    }
    if agents > 0 {
        parts.push(format!("{} of {agents} agents run", now.agents));
    }
    let state = parts.join(", ");
    if hindered.is_empty() { state } else { format!("{state}: {hindered}") }
}

/// Why there is no pod, as the cluster says of what was to make it: the last warning of each.
async fn why_no_pod(cluster: &Cluster, wanted: &Wanted, there: usize) -> Vec<String> {
    let events: Api<Event> = Api::namespaced(cluster.client.clone(), &cluster.namespace);
    let mut all = Vec::new();
    for name in [wanted.name.clone(), objects::nats_name(&wanted.name)] {
        let asked = ListParams::default().fields(&format!("involvedObject.name={name},type=Warning"));
        // Who may not read events is not told, and waits.
        let Ok(list) = events.list(&asked).await else { continue };
        let last = list.items.into_iter().filter(|event| event.reason.as_deref() == Some("FailedCreate"));
        if let Some(message) = last.filter_map(|event| event.message).next_back() {
            all.push(format!("{there} pods are there, and no more can be made: {message}"));
        }
    }
    all
}
