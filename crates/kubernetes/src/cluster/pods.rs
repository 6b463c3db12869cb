//! What pods say of themselves: how many run, what hinders the others, and what will not mend itself. Pure.

use crate::labels::{COMPONENT, NATS, OBSERVERS};
use crate::limits::ENDED_MAX;
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use std::collections::BTreeSet;

/// The state of all pods of a name.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Seen {
    /// Pods that are there, those that are going left out.
    pub(super) pods: usize,
    /// Agents that run.
    pub(super) agents: usize,
    /// NATS servers that are ready.
    pub(super) nats: usize,
    /// Nodes on which an observer runs.
    pub(super) observed: BTreeSet<String>,
    /// How often containers have ended, all together.
    pub(super) restarts: i32,
    /// What hinders those that do not run: it may pass.
    pub(super) hindered: Vec<String>,
    /// What will not pass by waiting.
    pub(super) broken: Option<String>,
}

pub(super) fn seen(pods: &[Pod]) -> Seen {
    let mut seen = Seen::default();
    for pod in pods.iter().filter(|pod| pod.metadata.deletion_timestamp.is_none()) {
        seen.pods += 1;
        let containers = || pod.status.iter().flat_map(|status| status.container_statuses.iter().flatten());
        seen.restarts += containers().map(|one| one.restart_count).sum::<i32>();
        let name = pod.metadata.name.as_deref().unwrap_or_default();
        if is_ready(pod) {
            match component(pod) {
                Some(NATS) => seen.nats += 1,
                Some(OBSERVERS) => seen.observed.extend(node_observed(pod).map(str::to_owned)),
                _ => seen.agents += 1,
            }
            continue;
        }
        if let Some(message) = unschedulable(pod) {
            seen.hindered.push(format!("{name} has no node ({message})"));
        }
        for status in containers() {
            match trouble(status) {
                Some((why, true)) if seen.broken.is_none() => seen.broken = Some(format!("{name}: {why}")),
                Some((why, _)) => seen.hindered.push(format!("{name}: {why}")),
                None => {}
            }
        }
    }
    // Of pods of one kind the same is said: once is enough.
    seen.hindered.sort();
    seen.hindered.truncate(3);
    seen
}

fn component(pod: &Pod) -> Option<&str> {
    pod.metadata.labels.as_ref()?.get(COMPONENT).map(String::as_str)
}

/// The node of an observer's pod.
pub(super) fn node_observed(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref().filter(|_| component(pod) == Some(OBSERVERS))
}

fn is_ready(pod: &Pod) -> bool {
    let status = pod.status.as_ref();
    let conditions = status.and_then(|status| status.conditions.as_ref());
    let is_ready = conditions.is_some_and(|all| all.iter().any(|one| one.type_ == "Ready" && one.status == "True"));
    is_ready && status.and_then(|status| status.phase.as_deref()) == Some("Running")
}

fn unschedulable(pod: &Pod) -> Option<&str> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    let no = conditions.iter().find(|one| one.type_ == "PodScheduled" && one.status == "False")?;
    no.message.as_deref()
}

/// Why a container does not run, and whether it is no use to wait.
fn trouble(status: &ContainerStatus) -> Option<(String, bool)> {
    let waiting = status.state.as_ref()?.waiting.as_ref()?;
    let reason = waiting.reason.as_deref()?;
    let message = waiting.message.as_deref().unwrap_or_default();
    let image = &status.image;
    match reason {
        "ImagePullBackOff" | "ErrImageNeverPull" | "InvalidImageName" => {
            Some((format!("the image '{image}' cannot be pulled ({message}): check --image and --pull-secret"), true))
        }
        "ErrImagePull" => Some((format!("the image '{image}' cannot be pulled ({message})"), false)),
        "CreateContainerConfigError" => {
            Some((format!("it cannot be set up ({message}): is the Secret there, with that key?"), true))
        }
        "CreateContainerError" | "RunContainerError" => Some((format!("it cannot be started ({message})"), true)),
        "CrashLoopBackOff" => {
            let last = status.last_state.as_ref().and_then(|last| last.terminated.as_ref());
            let said = last.and_then(|last| last.message.as_deref()).unwrap_or("it said nothing").trim();
            let code = last.map_or(0, |last| last.exit_code);
            Some((format!("it ends by itself with status {code} ({said})"), status.restart_count > ENDED_MAX))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn pod(name: &str, component: &str, status: Value) -> Pod {
        let labels = json!({ "app.kubernetes.io/component": component });
        serde_json::from_value(json!({ "metadata": { "name": name, "labels": labels }, "status": status })).unwrap()
    }

    fn waits(reason: &str, message: &str, restarts: i32) -> Value {
        json!({ "phase": "Pending", "containerStatuses": [{
            "name": "agent", "image": "plimsoll:1", "imageID": "", "ready": false, "restartCount": restarts,
            "state": { "waiting": { "reason": reason, "message": message } },
            "lastState": { "terminated": { "exitCode": 1, "message": "no NATS at hub\n" } },
        }] })
    }

    fn runs() -> Value {
        json!({ "phase": "Running", "conditions": [{ "type": "Ready", "status": "True" }] })
    }

    #[test]
    fn those_that_run_are_counted_and_those_that_go_are_not() {
        let mut going = pod("a-2", "agents", runs());
        going.metadata.deletion_timestamp = serde_json::from_value(json!("2026-11-25T10:00:00Z")).unwrap();
        let all = [pod("a-0", "agents", runs()), pod("a-nats-0", "nats", runs()), going];
        assert_eq!(seen(&all), Seen { pods: 2, agents: 1, nats: 1, ..Seen::default() });
        let mut observer = pod("a-observers-x", "observers", runs());
        observer.spec = serde_json::from_value(json!({ "nodeName": "node-1", "containers": [] })).unwrap();
        let observed = BTreeSet::from(["node-1".to_owned()]);
        assert_eq!(seen(&[observer]), Seen { pods: 1, observed, ..Seen::default() });
        let ended = json!({ "phase": "Succeeded", "conditions": [{ "type": "Ready", "status": "False" }] });
        assert_eq!(seen(&[pod("a-0", "agents", ended)]), Seen { pods: 1, ..Seen::default() });
    }

    #[test]
    fn what_has_no_node_may_have_one_later() {
        let status = json!({ "phase": "Pending", "conditions": [
            { "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes are available: 1 Insufficient cpu." },
        ] });
        let seen = seen(&[pod("a-0", "agents", status)]);
        assert_eq!(seen.hindered, ["a-0 has no node (0/1 nodes are available: 1 Insufficient cpu.)"]);
        assert_eq!(seen.broken, None);
    }

    #[test]
    fn what_does_not_mend_itself_is_said_at_once() {
        let broken = |reason: &str, restarts| seen(&[pod("a-0", "agents", waits(reason, "why", restarts))]).broken;
        assert!(broken("ImagePullBackOff", 0).unwrap().contains("'plimsoll:1' cannot be pulled (why): check --image"));
        assert!(broken("CreateContainerConfigError", 0).unwrap().contains("is the Secret there"));
        assert_eq!(broken("ErrImagePull", 0), None);
        assert_eq!(broken("ContainerCreating", 0), None);
        // Once it may have been too early.
        assert_eq!(broken("CrashLoopBackOff", 1), None);
        let why = broken("CrashLoopBackOff", 2).unwrap();
        assert_eq!(why, "a-0: it ends by itself with status 1 (no NATS at hub)");
    }
}
