//! A NATS server beside the agents: one pod with JetStream, whose room is bounded. It lets in whoever reaches it: for more, use one
//! of your own.
//!
//! Its Service has no address of its own, so the name leads to the pod itself. Room is a volume of the pod, which a pod that takes
//! its place does not have, or a claim.

use super::{bytes, exactly, metadata, nats_name, of_container, of_pod};
use crate::labels;
use crate::wanted::Wanted;
use k8s_openapi::api::apps::v1::{StatefulSet, StatefulSetPersistentVolumeClaimRetentionPolicy, StatefulSetSpec};
use k8s_openapi::api::core::v1::{
    ConfigMap, ConfigMapVolumeSource, Container, ContainerPort, EmptyDirVolumeSource, HTTPGetAction,
    PersistentVolumeClaim, PersistentVolumeClaimSpec, PodSpec, PodTemplateSpec, Probe, Service, ServicePort,
    ServiceSpec, Volume, VolumeMount, VolumeResourceRequirements,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use std::collections::BTreeMap;

/// Where it listens for agents and controllers.
pub(super) const PORT: i32 = 4222;
/// Where it says how it is.
const MONITOR: i32 = 8222;
/// Its memory: what waits to be sent, and the cache of streams.
const MEMORY_BYTES: u64 = 512 << 20;
const CONFIGURATION: &str = "nats.conf";
const DATA: &str = "data";

pub(super) fn configuration(wanted: &Wanted, storage_bytes: u64) -> ConfigMap {
    // A tenth is left for what the file system itself needs. Streams of runs are files; none is in memory.
    let files = storage_bytes / 10 * 9;
    let text = format!(
        "listen: \"0.0.0.0:{PORT}\"\nhttp: \"0.0.0.0:{MONITOR}\"\n\
         jetstream {{\n  store_dir: \"/{DATA}\"\n  max_file_store: {files}\n  max_memory_store: 0\n}}\n"
    );
    ConfigMap {
        metadata: metadata(wanted, nats_name(&wanted.name), labels::NATS),
        data: Some(BTreeMap::from([(CONFIGURATION.to_owned(), text)])),
        ..ConfigMap::default()
    }
}

pub(super) fn service(wanted: &Wanted) -> Service {
    Service {
        metadata: metadata(wanted, nats_name(&wanted.name), labels::NATS),
        spec: Some(ServiceSpec {
            cluster_ip: Some("None".to_owned()),
            selector: Some(labels::chosen(&wanted.name, labels::NATS)),
            ports: Some(vec![ServicePort {
                name: Some("nats".to_owned()),
                port: PORT,
                protocol: Some("TCP".to_owned()),
                ..ServicePort::default()
            }]),
            ..ServiceSpec::default()
        }),
        ..Service::default()
    }
}

pub(super) fn server(wanted: &Wanted, image: &str, storage_bytes: u64, claim: Option<&str>) -> StatefulSet {
    let policy = |word: &str| Some(word.to_owned());
    StatefulSet {
        metadata: metadata(wanted, nats_name(&wanted.name), labels::NATS),
        spec: Some(StatefulSetSpec {
            replicas: Some(1),
            service_name: Some(nats_name(&wanted.name)),
            selector: LabelSelector {
                match_labels: Some(labels::chosen(&wanted.name, labels::NATS)),
                ..LabelSelector::default()
            },
            persistent_volume_claim_retention_policy: claim.is_some().then(|| {
                StatefulSetPersistentVolumeClaimRetentionPolicy {
                    when_deleted: policy("Delete"),
                    when_scaled: policy("Retain"),
                }
            }),
            volume_claim_templates: claim.map(|class| vec![of_claim(wanted, storage_bytes, class)]),
            template: PodTemplateSpec {
                metadata: Some(ObjectMeta {
                    labels: Some(labels::of(&wanted.name, labels::NATS)),
                    ..ObjectMeta::default()
                }),
                spec: Some(pod(wanted, image, storage_bytes, claim.is_some())),
            },
            ..StatefulSetSpec::default()
        }),
        ..StatefulSet::default()
    }
}

fn pod(wanted: &Wanted, image: &str, storage_bytes: u64, is_claimed: bool) -> PodSpec {
    let port = |name: &str, container_port: i32| ContainerPort {
        name: Some(name.to_owned()),
        container_port,
        protocol: Some("TCP".to_owned()),
        ..ContainerPort::default()
    };
    let mount = |name: &str, path: &str, is_read_only: bool| VolumeMount {
        name: name.to_owned(),
        mount_path: path.to_owned(),
        read_only: is_read_only.then_some(true),
        ..VolumeMount::default()
    };
    let mut volumes = vec![Volume {
        name: "configuration".to_owned(),
        config_map: Some(ConfigMapVolumeSource { name: nats_name(&wanted.name), ..ConfigMapVolumeSource::default() }),
        ..Volume::default()
    }];
    if !is_claimed {
        volumes.push(Volume {
            name: DATA.to_owned(),
            empty_dir: Some(EmptyDirVolumeSource {
                size_limit: Some(bytes(storage_bytes)),
                ..EmptyDirVolumeSource::default()
            }),
            ..Volume::default()
        });
    }
    PodSpec {
        service_account_name: Some(wanted.name.clone()),
        automount_service_account_token: Some(false),
        enable_service_links: Some(false),
        security_context: Some(of_pod()),
        containers: vec![Container {
            name: "nats".to_owned(),
            image: Some(image.to_owned()),
            image_pull_policy: Some("IfNotPresent".to_owned()),
            args: Some(vec!["--config".to_owned(), format!("/etc/nats/{CONFIGURATION}")]),
            ports: Some(vec![port("nats", PORT), port("monitor", MONITOR)]),
            readiness_probe: Some(Probe {
                http_get: Some(HTTPGetAction {
                    path: Some("/healthz?js-enabled-only=true".to_owned()),
                    port: IntOrString::String("monitor".to_owned()),
                    ..HTTPGetAction::default()
                }),
                period_seconds: Some(2),
                timeout_seconds: Some(2),
                ..Probe::default()
            }),
            resources: Some(exactly("1".to_owned(), MEMORY_BYTES)),
            security_context: Some(of_container()),
            termination_message_policy: Some("FallbackToLogsOnError".to_owned()),
            volume_mounts: Some(vec![mount("configuration", "/etc/nats", true), mount(DATA, "/data", false)]),
            ..Container::default()
        }],
        volumes: Some(volumes),
        ..PodSpec::default()
    }
}

fn of_claim(wanted: &Wanted, storage_bytes: u64, class: &str) -> PersistentVolumeClaim {
    PersistentVolumeClaim {
        metadata: ObjectMeta {
            name: Some(DATA.to_owned()),
            labels: Some(labels::of(&wanted.name, labels::NATS)),
            ..ObjectMeta::default()
        },
        spec: Some(PersistentVolumeClaimSpec {
            access_modes: Some(vec!["ReadWriteOnce".to_owned()]),
            resources: Some(VolumeResourceRequirements {
                requests: Some(BTreeMap::from([("storage".to_owned(), bytes(storage_bytes))])),
                ..VolumeResourceRequirements::default()
            }),
            storage_class_name: (!class.is_empty()).then(|| class.to_owned()),
            ..PersistentVolumeClaimSpec::default()
        }),
        ..PersistentVolumeClaim::default()
    }
}
