//! Puts the objects there and waits until all pods run. What is there already becomes what is asked for, as with kubectl's
//! server-side apply; what somebody else made of the same name is left alone, and said.
//!
//! Where something fails or is interrupted, what was made stays to be looked at, and the sentence says what takes it away.

use super::pods::{Seen, seen};
use super::{Cluster, Conduct, Place, makers, run};
use crate::error::KubernetesError;
use crate::labels::MANAGED_BY;
use crate::limits::{ASK_EVERY, POD_WITHIN, STEADY_FOR};
use crate::objects::{self, Object};
use crate::wanted::{Nats, Wanted};
use k8s_openapi::api::core::v1::{Event, Pod};
use kube::api::{Api, ListParams, Patch, PatchParams};
use std::collections::{BTreeMap, HashSet};
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
    let is_ours =
        |labels: &BTreeMap<String, String>| labels.get(MANAGED_BY.0).is_some_and(|whose| whose == MANAGED_BY.1);
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
        let pods = cluster.pods(&wanted.name).await?;
        let mut now = seen(&pods);
        let is_nats_there = !is_placed || now.nats > 0;
        let is_all_there = is_nats_there && now.agents >= usize::from(agents);
        steady = match steady {
            Some((since, restarts)) if is_all_there && restarts == now.restarts => Some((since, restarts)),
            _ => is_all_there.then(|| (Instant::now(), now.restarts)),
        };
        if steady.is_some_and(|(since, _)| agents == 0 || since.elapsed() >= STEADY_FOR) {
            return Ok(());
        }
        if now.hindered.is_empty() && !is_all_there && begun.elapsed() > POD_WITHIN {
            for (why, is_no_use) in warnings(cluster, wanted, &pods).await {
                now.broken = now.broken.or_else(|| is_no_use.then(|| why.clone()));
                now.hindered.push(why);
            }
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

/// Why a pod is not there or does not begin, as the cluster says of it: the last warning of each kind, and whether waiting is no use.
/// What was said of others of the same name, that were there before, is not meant.
async fn warnings(cluster: &Cluster, wanted: &Wanted, pods: &[Pod]) -> Vec<(String, bool)> {
    let mut own: HashSet<String> = pods.iter().filter_map(|pod| pod.metadata.uid.clone()).collect();
    for resource in makers() {
        let there = cluster.labelled(&resource, Some(&wanted.name)).await.unwrap_or_default();
        own.extend(there.into_iter().filter_map(|object| object.metadata.uid));
    }
    let events: Api<Event> = Api::namespaced(cluster.client.clone(), &cluster.namespace);
    // Who may not read events is not told, and waits.
    let Ok(list) = events.list(&ListParams::default().fields("type=Warning")).await else { return Vec::new() };
    let is_of_us = |event: &&Event| event.involved_object.uid.as_ref().is_some_and(|uid| own.contains(uid));
    let last = |reason: &str| {
        let of_reason = list.items.iter().filter(is_of_us).filter(|event| event.reason.as_deref() == Some(reason));
        of_reason.filter_map(|event| event.message.clone()).next_back()
    };
    let mut all = Vec::new();
    if let Some(message) = last("FailedCreate") {
        let is_refused = message.contains("forbidden");
        all.push((format!("pods cannot be made ({message})"), is_refused));
    }
    if let Some(message) = last("FailedMount") {
        all.push((format!("pods cannot be set up ({message})"), false));
    }
    all
}
