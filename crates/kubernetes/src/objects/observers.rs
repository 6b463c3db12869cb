//! The DaemonSet of observers: one on each node that was named, which sees all that runs there.
//!
//! A machine is observed from its own namespaces, and probes are the kernel's: so these pods have every right on their nodes, and are
//! placed only where that was asked for. What they give they give to who has the token. An observer is called as its node is, and
//! reached over NATS; it listens on the node's loopback alone.

use super::secrets;
use super::{bytes, called_as, escaped, metadata, nats_url};
use crate::labels;
use crate::limits::{OBSERVER_CPU_MILLIS, OBSERVER_MEMORY_BYTES};
use crate::wanted::Wanted;
use k8s_openapi::api::apps::v1::{DaemonSet, DaemonSetSpec};
use k8s_openapi::api::core::v1::{
    Affinity, Container, HostPathVolumeSource, NodeAffinity, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm,
    PodSecurityContext, PodSpec, PodTemplateSpec, ResourceRequirements, SecurityContext, Toleration, Volume,
    VolumeMount,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};

/// Where the node has its control groups, and where the pod sees them: its own mount of them shows its own alone.
const GROUPS: (&str, &str) = ("/sys/fs/cgroup", "/host/cgroup");

/// What they are called.
pub(super) fn name(name: &str) -> String {
    format!("{name}-observers")
}

pub(super) fn daemon_set(wanted: &Wanted) -> DaemonSet {
    DaemonSet {
        metadata: metadata(wanted, name(&wanted.name), labels::OBSERVERS),
        spec: Some(DaemonSetSpec {
            selector: LabelSelector {
                match_labels: Some(labels::chosen(&wanted.name, labels::OBSERVERS)),
                ..LabelSelector::default()
            },
            template: PodTemplateSpec {
                metadata: Some(ObjectMeta {
                    labels: Some(labels::of(&wanted.name, labels::OBSERVERS)),
                    ..ObjectMeta::default()
                }),
                spec: Some(pod(wanted)),
            },
            ..DaemonSetSpec::default()
        }),
        ..DaemonSet::default()
    }
}

fn pod(wanted: &Wanted) -> PodSpec {
    let (mut volumes, mut mounts) = secrets::mounted(wanted);
    volumes.push(Volume {
        name: "groups".to_owned(),
        host_path: Some(HostPathVolumeSource { path: GROUPS.0.to_owned(), type_: Some("Directory".to_owned()) }),
        ..Volume::default()
    });
    mounts.push(VolumeMount {
        name: "groups".to_owned(),
        mount_path: GROUPS.1.to_owned(),
        read_only: Some(true),
        ..VolumeMount::default()
    });
    PodSpec {
        service_account_name: Some(wanted.name.clone()),
        automount_service_account_token: Some(false),
        enable_service_links: Some(false),
        // The node's processes and interfaces. Names are looked up as in any other pod.
        host_pid: Some(true),
        host_network: Some(true),
        dns_policy: Some("ClusterFirstWithHostNet".to_owned()),
        affinity: Some(on_nodes(&wanted.observed_nodes)),
        // Whoever names a node means it, whatever is kept off it otherwise.
        tolerations: Some(vec![Toleration { operator: Some("Exists".to_owned()), ..Toleration::default() }]),
        security_context: Some(PodSecurityContext {
            run_as_user: Some(0),
            run_as_group: Some(0),
            ..PodSecurityContext::default()
        }),
        containers: vec![Container {
            name: "observer".to_owned(),
            image: Some(wanted.image.clone()),
            image_pull_policy: Some("IfNotPresent".to_owned()),
            args: Some(arguments(wanted)),
            env: Some(vec![called_as("spec.nodeName")]),
            resources: Some(ResourceRequirements {
                requests: Some(
                    [
                        ("cpu".to_owned(), Quantity(format!("{OBSERVER_CPU_MILLIS}m"))),
                        ("memory".to_owned(), bytes(OBSERVER_MEMORY_BYTES)),
                    ]
                    .into(),
                ),
                // No limit of CPU: what comes late has a wrong time.
                limits: Some([("memory".to_owned(), bytes(OBSERVER_MEMORY_BYTES))].into()),
                ..ResourceRequirements::default()
            }),
            security_context: Some(SecurityContext {
                privileged: Some(true),
                read_only_root_filesystem: Some(true),
                ..SecurityContext::default()
            }),
            termination_message_policy: Some("FallbackToLogsOnError".to_owned()),
            volume_mounts: Some(mounts),
            ..Container::default()
        }],
        volumes: Some(volumes),
        ..PodSpec::default()
    }
}

/// What is typed in the pod.
fn arguments(wanted: &Wanted) -> Vec<String> {
    let mut all = vec!["watch".to_owned(), "--serve=127.0.0.1:0".to_owned()];
    all.push(format!("--nats={}", escaped(&nats_url(wanted))));
    all.extend(secrets::flags(wanted));
    all
}

/// A field is compared with one value alone, so there is a term for each node.
fn on_nodes(nodes: &[String]) -> Affinity {
    let is_called = |node: &String| NodeSelectorTerm {
        match_fields: Some(vec![NodeSelectorRequirement {
            key: "metadata.name".to_owned(),
            operator: "In".to_owned(),
            values: Some(vec![node.clone()]),
        }]),
        ..NodeSelectorTerm::default()
    };
    Affinity {
        node_affinity: Some(NodeAffinity {
            required_during_scheduling_ignored_during_execution: Some(NodeSelector {
                node_selector_terms: nodes.iter().map(is_called).collect(),
            }),
            ..NodeAffinity::default()
        }),
        ..Affinity::default()
    }
}
