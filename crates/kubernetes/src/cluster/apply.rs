//! Puts the objects there and waits until all pods run. What is there already becomes what is asked for, as with kubectl's
//! server-side apply; what somebody else made of the same name is left alone, and said.
//!
//! Where something fails or is interrupted, what was made stays to be looked at, and the sentence says what takes it away.

use super::pods::{Seen, node_observed, seen};
use super::{Cluster, Conduct, Place, makers, run};
use crate::error::KubernetesError;
use crate::labels::MANAGED_BY;
use crate::limits::{ASK_EVERY, POD_WITHIN, STEADY_FOR};
use crate::objects::{self, Object};
use crate::wanted::{Nats, Wanted};
use k8s_openapi::api::core::v1::{Event, Pod};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams};
use std::collections::{BTreeMap, HashSet};
use std::time::Instant;

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
    for object in &objects::all(&wanted) {
        refuse_what_is_not_ours(&cluster, object).await?;
    }
    if wanted.observed_nodes.is_empty() {
        take_observers_away(&cluster, &wanted).await?;
    }
    for object in &objects::of_nats(&wanted) {
        put(&cluster, object).await?;
    }
    let is_waited_for = !conduct.wait.is_zero();
    let is_placed = matches!(wanted.nats, Nats::Placed { .. });
    // Who finds no NATS ends, and is started again later and later.
    if is_waited_for && is_placed {
        wait(&cluster, &wanted, conduct, until, Stage::Nats).await?;
    }
    for object in &objects::over_nats(&wanted) {
        put(&cluster, object).await?;
    }
    if is_waited_for {
        wait(&cluster, &wanted, conduct, until, Stage::All).await?;
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

/// Those of an `apply` before, which are asked for no longer: they have every right on their nodes.
async fn take_observers_away(cluster: &Cluster, wanted: &Wanted) -> Result<(), KubernetesError> {
    let (resource, name) = objects::observers(&wanted.name);
    let refused =
        |what: &str, error| KubernetesError::of(format!("{what} DaemonSet '{name}'"), &cluster.namespace, error);
    let there = match cluster.labelled(&resource, Some(&wanted.name)).await {
        // Who may not list them has placed none.
        Err(kube::Error::Api(status)) if status.code == 403 => Vec::new(),
        there => there.map_err(|error| refused("look for", error))?,
    };
    if there.iter().all(|one| one.metadata.name.as_ref() != Some(&name)) {
        return Ok(());
    }
    let gone = cluster.api(&resource).delete(&name, &DeleteParams::background()).await;
    gone.map(drop).map_err(|error| refused("take away", error))
}

async fn put(cluster: &Cluster, object: &Object) -> Result<(), KubernetesError> {
    let how = PatchParams::apply("plimsoll").force();
    let put = cluster.api(&object.resource).patch(&object.name, &how, &Patch::Apply(&object.value)).await;
    let what = || format!("make {} '{}'", object.resource.kind, object.name);
    put.map(drop).map_err(|error| KubernetesError::of(what(), &cluster.namespace, error))
}

/// What is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// That NATS runs.
    Nats,
    /// That agents and observers do too.
    All,
}

/// Waits until that runs, NATS only where it is placed.
async fn wait(
    cluster: &Cluster,
    wanted: &Wanted,
    conduct: &Conduct,
    until: Instant,
    stage: Stage,
) -> Result<(), KubernetesError> {
    let is_placed = matches!(wanted.nats, Nats::Placed { .. });
    let undo = cluster.undo(&wanted.name);
    let what = match (stage, wanted.observed_nodes.len()) {
        (Stage::Nats, _) => "NATS".to_owned(),
        (Stage::All, 0) => format!("{} agents", wanted.agents),
        (Stage::All, observers) => format!("{} agents and {observers} observers", wanted.agents),
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
        let is_there = |node: &String| now.observed.contains(node);
        let are_others_there = now.agents >= usize::from(wanted.agents) && wanted.observed_nodes.iter().all(is_there);
        let is_all_there = is_nats_there && (stage == Stage::Nats || are_others_there);
        steady = match steady {
            Some((since, restarts)) if is_all_there && restarts == now.restarts => Some((since, restarts)),
            _ => is_all_there.then(|| (Instant::now(), now.restarts)),
        };
        if steady.is_some_and(|(since, _)| stage == Stage::Nats || since.elapsed() >= STEADY_FOR) {
            return Ok(());
        }
        if now.hindered.is_empty() && !is_all_there && begun.elapsed() > POD_WITHIN {
            for (why, is_no_use) in warnings(cluster, wanted, &pods).await {
                now.broken = now.broken.or_else(|| is_no_use.then(|| why.clone()));
                now.hindered.push(why);
            }
            if now.hindered.is_empty() && stage == Stage::All {
                now.hindered.extend(without_pod(wanted, &pods));
            }
        }
        let hindered = now.hindered.join("; ");
        let state = progress(&now, wanted, is_placed, stage);
        if let Some(why) = now.broken {
            return Err(KubernetesError::NotRunning { wanted: what, why, undo });
        }
        let line = if hindered.is_empty() { state.clone() } else { format!("{state}: {hindered}") };
        if line != said {
            (conduct.tell)(&line);
            said = line;
        }
        if Instant::now() >= until {
            let waited_s = conduct.wait.as_secs();
            let why = match hindered.is_empty() {
                true => format!("after {waited_s} s only {state}"),
                false => format!("after {waited_s} s: {hindered}"),
            };
            return Err(KubernetesError::NotRunning { wanted: what, why, undo });
        }
        tokio::time::sleep(ASK_EVERY).await;
    }
}

fn progress(now: &Seen, wanted: &Wanted, is_placed: bool, stage: Stage) -> String {
    let mut parts = Vec::new();
    if is_placed {
        parts.push(if now.nats > 0 { "NATS runs".to_owned() } else { "NATS does not run yet".to_owned() });
    }
    if stage == Stage::All {
        parts.push(format!("{} of {} agents run", now.agents, wanted.agents));
        if !wanted.observed_nodes.is_empty() {
            parts.push(format!("{} of {} observers run", now.observed.len(), wanted.observed_nodes.len()));
        }
    }
    parts.join(", ")
}

/// Nodes that were named and have no pod: a DaemonSet has none where there is no such node, and says nothing of that.
fn without_pod(wanted: &Wanted, pods: &[Pod]) -> Vec<String> {
    let has_pod = |node: &String| pods.iter().any(|pod| node_observed(pod) == Some(node));
    let without = wanted.observed_nodes.iter().filter(|node| !has_pod(node));
    without.map(|node| format!("no pod is on node {node}: is there one of that name (`kubectl get nodes`)?")).collect()
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
