//! The Job of agents: Indexed, as many pods at once as it has completions, each on another host where there are enough.
//!
//! An agent is called as its pod is (`NAME-INDEX-LETTERS`), so one that takes another's place has a name of its own. What it keeps of
//! a run lies in /dev/shm, which every pod has, up to 64 MiB: `plimsoll` keeps nothing in a folder that others could change, and a
//! volume of the kind emptyDir is open to everybody (0777, without the sticky bit that /dev/shm has).

use super::secrets;
use super::{called_as, escaped, exactly, metadata, nats_url, of_container, of_pod};
use crate::labels;
use crate::limits::{END_WITHIN_S, RESTARTS_MAX};
use crate::wanted::Wanted;
use k8s_openapi::api::batch::v1::{Job, JobSpec};
use k8s_openapi::api::core::v1::{
    Affinity, Container, EnvVar, PodAffinityTerm, PodAntiAffinity, PodSpec, PodTemplateSpec, WeightedPodAffinityTerm,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use std::collections::BTreeMap;

/// Where an agent keeps what it has of a run.
const STATE: &str = "/dev/shm";

pub(super) fn job(wanted: &Wanted) -> Job {
    let agents = i32::from(wanted.agents);
    Job {
        metadata: metadata(wanted, wanted.name.clone(), labels::AGENTS),
        spec: Some(JobSpec {
            completion_mode: Some("Indexed".to_owned()),
            completions: Some(agents),
            parallelism: Some(agents),
            backoff_limit: Some(RESTARTS_MAX),
            template: PodTemplateSpec {
                metadata: Some(ObjectMeta {
                    labels: Some(labels::of(&wanted.name, labels::AGENTS)),
                    annotations: Some(BTreeMap::from([(
                        // A pod that is moved in the middle of a run is an agent that is lost.
                        "cluster-autoscaler.kubernetes.io/safe-to-evict".to_owned(),
                        "false".to_owned(),
                    )])),
                    ..ObjectMeta::default()
                }),
                spec: Some(pod(wanted)),
            },
            ..JobSpec::default()
        }),
        ..Job::default()
    }
}

fn pod(wanted: &Wanted) -> PodSpec {
    let (volumes, mounts) = secrets::mounted(wanted);
    PodSpec {
        service_account_name: Some(wanted.name.clone()),
        automount_service_account_token: Some(false),
        // Otherwise there would be variables PLIMSOLL_… of Services, which are none of plimsoll's.
        enable_service_links: Some(false),
        restart_policy: Some("OnFailure".to_owned()),
        termination_grace_period_seconds: Some(END_WITHIN_S),
        affinity: Some(apart(wanted)),
        security_context: Some(of_pod()),
        containers: vec![Container {
            name: "agent".to_owned(),
            image: Some(wanted.image.clone()),
            image_pull_policy: Some("IfNotPresent".to_owned()),
            args: Some(arguments(wanted)),
            env: Some(vec![
                called_as("metadata.name"),
                EnvVar { name: "XDG_STATE_HOME".to_owned(), value: Some(STATE.to_owned()), ..EnvVar::default() },
            ]),
            resources: Some(exactly(wanted.cores.to_string(), wanted.memory_bytes)),
            security_context: Some(of_container()),
            // What it said last is then the reason why it ended.
            termination_message_policy: Some("FallbackToLogsOnError".to_owned()),
            volume_mounts: (!mounts.is_empty()).then_some(mounts),
            ..Container::default()
        }],
        volumes: (!volumes.is_empty()).then_some(volumes),
        ..PodSpec::default()
    }
}

/// What is typed in the pod.
fn arguments(wanted: &Wanted) -> Vec<String> {
    let mut all = vec!["agent".to_owned()];
    let mut flag = |name: &str, value: String| all.push(format!("{name}={}", escaped(&value)));
    flag("--nats", nats_url(wanted));
    for target in &wanted.allow_target {
        flag("--allow-target", target.clone());
    }
    flag("--cores", wanted.cores.to_string());
    for label in &wanted.labels {
        flag("--label", label.clone());
    }
    if let Some(rate) = wanted.rate_max {
        flag("--rate-max", format!("{rate}/s"));
    }
    if let Some(connections) = wanted.connections_max {
        flag("--connections-max", connections.to_string());
    }
    all.extend(secrets::flags(wanted));
    all
}

/// Each agent on a host of its own where that can be: two on one host share its network card.
fn apart(wanted: &Wanted) -> Affinity {
    Affinity {
        pod_anti_affinity: Some(PodAntiAffinity {
            preferred_during_scheduling_ignored_during_execution: Some(vec![WeightedPodAffinityTerm {
                weight: 100,
                pod_affinity_term: PodAffinityTerm {
                    label_selector: Some(LabelSelector {
                        match_labels: Some(labels::chosen(&wanted.name, labels::AGENTS)),
                        ..LabelSelector::default()
                    }),
                    topology_key: "kubernetes.io/hostname".to_owned(),
                    ..PodAffinityTerm::default()
                },
            }]),
            ..PodAntiAffinity::default()
        }),
        ..Affinity::default()
    }
}
