//! What is placed, as Kubernetes' own objects: made of [`Wanted`] without I/O, in the order in which they are to be there.
//!
//! Neither agents nor observers ask anything of Kubernetes. So their ServiceAccount has no token in its pods, and there is no Role: none
//! is needed.

mod agents;
mod nats;
mod observers;
mod secrets;

use crate::labels;
use crate::limits::USER;
use crate::wanted::{Nats, Wanted};
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{
    Capabilities, EnvVar, EnvVarSource, LocalObjectReference, ObjectFieldSelector, PodSecurityContext,
    ResourceRequirements, SeccompProfile, SecurityContext, ServiceAccount,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use kube::discovery::ApiResource;
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// An object, whatever its kind.
#[derive(Debug, Clone)]
pub struct Object {
    /// Its kind, and where the API has it.
    pub resource: ApiResource,
    /// What it is called.
    pub name: String,
    /// All of it.
    pub value: Value,
}

/// Everything that is placed, those last that need others.
pub fn all(wanted: &Wanted) -> Vec<Object> {
    let mut all = of_nats(wanted);
    all.extend(over_nats(wanted));
    all
}

/// What is to be there first: NATS where it is placed, and who all of them are to Kubernetes.
pub fn of_nats(wanted: &Wanted) -> Vec<Object> {
    let mut all = vec![object(&account(wanted))];
    if let Nats::Placed { image, storage_bytes, claim } = &wanted.nats {
        all.push(object(&nats::configuration(wanted, *storage_bytes)));
        all.push(object(&nats::service(wanted)));
        all.push(object(&nats::server(wanted, image, *storage_bytes, claim.as_deref())));
    }
    all
}

/// Those that end where they find no NATS.
pub fn over_nats(wanted: &Wanted) -> Vec<Object> {
    let observers = (!wanted.observed_nodes.is_empty()).then(|| object(&observers::daemon_set(wanted)));
    observers.into_iter().chain([object(&agents::job(wanted))]).collect()
}

/// The kind of the observers' object, and what it is called.
pub fn observers(name: &str) -> (ApiResource, String) {
    (ApiResource::erase::<DaemonSet>(&()), observers::name(name))
}

/// What NATS' objects are called.
pub fn nats_name(name: &str) -> String {
    format!("{name}-nats")
}

/// Where agents reach NATS.
pub fn nats_url(wanted: &Wanted) -> String {
    match &wanted.nats {
        Nats::There { url, .. } => url.clone(),
        Nats::Placed { .. } => format!("nats://{}:{}", nats_name(&wanted.name), nats::PORT),
    }
}

fn object<K>(of: &K) -> Object
where
    K: Resource<DynamicType = ()> + Serialize,
{
    // Of these types none has what JSON cannot say.
    let value = serde_json::to_value(of).unwrap_or_default();
    let name = of.meta().name.clone().unwrap_or_default();
    Object { resource: ApiResource::erase::<K>(&()), name, value }
}

/// Who agents and NATS are to Kubernetes: somebody who may do nothing.
fn account(wanted: &Wanted) -> ServiceAccount {
    ServiceAccount {
        metadata: metadata(wanted, wanted.name.clone(), labels::AGENTS),
        automount_service_account_token: Some(false),
        image_pull_secrets: wanted
            .pull_secret
            .as_ref()
            .map(|secret| vec![LocalObjectReference { name: secret.clone() }]),
        ..ServiceAccount::default()
    }
}

fn metadata(wanted: &Wanted, name: String, component: &str) -> ObjectMeta {
    ObjectMeta {
        name: Some(name),
        namespace: wanted.namespace.clone(),
        labels: Some(labels::of(&wanted.name, component)),
        ..ObjectMeta::default()
    }
}

/// The name by which others know it: a field of its pod.
fn called_as(field_path: &str) -> EnvVar {
    let field = ObjectFieldSelector { api_version: Some("v1".to_owned()), field_path: field_path.to_owned() };
    EnvVar {
        name: "PLIMSOLL_NAME".to_owned(),
        value_from: Some(EnvVarSource { field_ref: Some(field), ..EnvVarSource::default() }),
        ..EnvVar::default()
    }
}

/// As an argument: a `$` would begin a variable there.
fn escaped(text: &str) -> String {
    text.replace('$', "$$")
}

/// What holds for all containers of a pod, but of observers.
fn of_pod() -> PodSecurityContext {
    PodSecurityContext {
        run_as_non_root: Some(true),
        run_as_user: Some(USER),
        run_as_group: Some(USER),
        fs_group: Some(USER),
        seccomp_profile: Some(SeccompProfile { type_: "RuntimeDefault".to_owned(), ..SeccompProfile::default() }),
        ..PodSecurityContext::default()
    }
}

/// No right at all: an agent loads no probes, and what it reads of its host everybody may read.
fn of_container() -> SecurityContext {
    SecurityContext {
        allow_privilege_escalation: Some(false),
        capabilities: Some(Capabilities { drop: Some(vec!["ALL".to_owned()]), add: None }),
        privileged: Some(false),
        read_only_root_filesystem: Some(true),
        ..SecurityContext::default()
    }
}

/// As much as is asked for is the most, so that nobody takes it away and nothing more is taken.
fn exactly(cpu: String, memory_bytes: u64) -> ResourceRequirements {
    let all: BTreeMap<String, Quantity> =
        [("cpu".to_owned(), Quantity(cpu)), ("memory".to_owned(), bytes(memory_bytes))].into();
    ResourceRequirements { limits: Some(all.clone()), requests: Some(all), ..ResourceRequirements::default() }
}

/// Bytes, in the largest binary unit without a rest.
fn bytes(bytes: u64) -> Quantity {
    let units = [("Gi", 30), ("Mi", 20), ("Ki", 10)];
    let unit = units.iter().find(|(_, bits)| bytes > 0 && bytes.is_multiple_of(1 << bits));
    Quantity(unit.map_or_else(|| bytes.to_string(), |(unit, bits)| format!("{}{unit}", bytes >> bits)))
}
