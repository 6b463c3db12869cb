//! Secrets that are there, as files in a pod, and the flags that name these.

use super::escaped;
use crate::wanted::{Nats, SecretKey, Wanted};
use k8s_openapi::api::core::v1::{KeyToPath, SecretVolumeSource, Volume, VolumeMount};

/// Where they are seen in the pod.
const FOLDER: &str = "/etc/plimsoll";

/// The volumes, and where they are mounted.
pub(super) fn mounted(wanted: &Wanted) -> (Vec<Volume>, Vec<VolumeMount>) {
    secrets(wanted).into_iter().map(|(name, of)| (volume(name, of), mount(name))).unzip()
}

/// `--FLAG=FILE` of each.
pub(super) fn flags(wanted: &Wanted) -> impl Iterator<Item = String> {
    let flag = |(name, of): (&str, &SecretKey)| {
        let flag = match name {
            "credentials" => "--nats-credentials",
            "ca" => "--nats-ca",
            _ => "--token-file",
        };
        format!("{flag}={}", escaped(&format!("{FOLDER}/{name}/{}", of.key)))
    };
    secrets(wanted).into_iter().map(flag)
}

fn secrets(wanted: &Wanted) -> Vec<(&'static str, &SecretKey)> {
    let (credentials, ca) = match &wanted.nats {
        Nats::There { credentials, ca, .. } => (credentials.as_ref(), ca.as_ref()),
        Nats::Placed { .. } => (None, None),
    };
    let all = [("credentials", credentials), ("ca", ca), ("token", wanted.token.as_ref())];
    all.into_iter().filter_map(|(name, of)| Some((name, of?))).collect()
}

fn volume(name: &str, of: &SecretKey) -> Volume {
    Volume {
        name: name.to_owned(),
        secret: Some(SecretVolumeSource {
            secret_name: Some(of.secret.clone()),
            items: Some(vec![KeyToPath { key: of.key.clone(), path: of.key.clone(), mode: None }]),
            // For the group that the pod's volumes belong to, and nobody else.
            default_mode: Some(0o440),
            ..SecretVolumeSource::default()
        }),
        ..Volume::default()
    }
}

fn mount(name: &str) -> VolumeMount {
    VolumeMount {
        name: name.to_owned(),
        mount_path: format!("{FOLDER}/{name}"),
        read_only: Some(true),
        ..VolumeMount::default()
    }
}
