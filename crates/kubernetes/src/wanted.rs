//! What a cluster is to have, and whether that can be: every value is looked at here, before anything is written or sent.
//!
//! What only the cluster knows (whether a Secret, a namespace or a storage class is there) is not looked at.

use crate::error::KubernetesError;
use crate::limits::{AGENTS_MAX, CORES_MAX, MEMORY_BYTES_MIN, NAME_MAX, OBSERVED_NODES_MAX, STORAGE_BYTES_MIN};
use std::collections::BTreeSet;

/// What is placed.
#[derive(Debug, Clone)]
pub struct Wanted {
    /// What the objects are called; several may stand in one namespace.
    pub name: String,
    /// Where; `None`: where the kubeconfig's context is.
    pub namespace: Option<String>,
    /// The image with the program.
    pub image: String,
    /// The Secret by which the image may be pulled.
    pub pull_secret: Option<String>,
    /// How many agents.
    pub agents: u16,
    /// Workers of each, and so many CPUs.
    pub cores: u16,
    /// Memory of each.
    pub memory_bytes: u64,
    /// Targets that agents may load, as `plimsoll agent --allow-target` takes them.
    pub allow_target: Vec<String>,
    /// Labels of the agents.
    pub labels: Vec<String>,
    /// The most requests a second of an agent's share.
    pub rate_max: Option<f64>,
    /// The most connections of an agent's share.
    pub connections_max: Option<u32>,
    /// The token with which plans are sealed.
    pub token: Option<SecretKey>,
    /// Nodes on which an observer is placed, by their names; each has every right there.
    pub observed_nodes: Vec<String>,
    /// How they reach each other.
    pub nats: Nats,
}

/// The NATS that agents use.
#[derive(Debug, Clone)]
pub enum Nats {
    /// One that is there.
    There {
        /// `nats://HOST:PORT` or `tls://HOST:PORT`, several with commas between, without a password.
        url: String,
        /// The file of credentials.
        credentials: Option<SecretKey>,
        /// The authorities that are trusted.
        ca: Option<SecretKey>,
    },
    /// One that is placed beside the agents.
    Placed {
        /// Its image.
        image: String,
        /// Room of JetStream.
        storage_bytes: u64,
        /// That room outlives the pod: a claim of this storage class, of the cluster's default class where it is empty.
        claim: Option<String>,
    },
}

/// A key of a Secret that is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretKey {
    /// The Secret.
    pub secret: String,
    /// Its key.
    pub key: String,
}

impl SecretKey {
    /// `SECRET` or `SECRET/KEY`.
    ///
    /// # Errors
    /// [`KubernetesError::Usage`], with the flag that was given.
    pub fn parse(flag: &str, text: &str, key_by_default: &str) -> Result<Self, KubernetesError> {
        let (secret, key) = text.split_once('/').unwrap_or((text, key_by_default));
        let is_key = !key.is_empty() && key.len() <= 253 && key.bytes().all(|b| is_plain(b) || b == b'_');
        if !is_subdomain(secret) || !is_key {
            return Err(KubernetesError::Usage(format!(
                "{flag}: expected the name of a Secret, or SECRET/KEY, got '{text}'"
            )));
        }
        Ok(SecretKey { secret: secret.to_owned(), key: key.to_owned() })
    }
}

impl Wanted {
    /// Whether it can be.
    ///
    /// # Errors
    /// [`KubernetesError::Usage`], of the first value that cannot.
    pub fn check(&self) -> Result<(), KubernetesError> {
        check_name(&self.name)?;
        if let Some(namespace) = &self.namespace {
            check_namespace(namespace)?;
        }
        wants(is_image(&self.image), "--image", "an image such as registry.example/plimsoll:1", &self.image)?;
        if let Some(secret) = &self.pull_secret {
            wants(is_subdomain(secret), "--pull-secret", "the name of a Secret", secret)?;
        }
        let number = |flag: &str, is_right: bool, expected: String, got: u64| {
            if is_right {
                return Ok(());
            }
            Err(KubernetesError::Usage(format!("{flag}: expected {expected}, got {got}")))
        };
        let (agents, cores) = (u64::from(self.agents), u64::from(self.cores));
        number("--agents", (1..=AGENTS_MAX).contains(&self.agents), format!("1 to {AGENTS_MAX}"), agents)?;
        number("--cores", (1..=CORES_MAX).contains(&self.cores), format!("1 to {CORES_MAX}"), cores)?;
        let least = |bytes: u64| format!("{} MiB at the least", bytes >> 20);
        number("--memory", self.memory_bytes >= MEMORY_BYTES_MIN, least(MEMORY_BYTES_MIN), self.memory_bytes)?;
        if self.allow_target.is_empty() {
            return Err(KubernetesError::Usage(
                "--allow-target: expected what agents may put load on, got nothing: name it".to_owned(),
            ));
        }
        self.check_observed()?;
        match &self.nats {
            Nats::There { url, .. } => check_url(url),
            Nats::Placed { image, storage_bytes, claim } => {
                wants(is_image(image), "--nats-image", "an image such as docker.io/library/nats:2", image)?;
                let is_enough = *storage_bytes >= STORAGE_BYTES_MIN;
                number("--nats-storage", is_enough, least(STORAGE_BYTES_MIN), *storage_bytes)?;
                let class = claim.as_deref().filter(|class| !class.is_empty());
                class.map_or(Ok(()), |class| {
                    wants(is_subdomain(class), "--nats-claim", "the name of a storage class", class)
                })
            }
        }
    }
}

impl Wanted {
    fn check_observed(&self) -> Result<(), KubernetesError> {
        let usage = |text: String| Err(KubernetesError::Usage(text));
        let mut seen = BTreeSet::new();
        for node in &self.observed_nodes {
            wants(is_subdomain(node), "--observe-node", "the name of a node, as `kubectl get nodes` shows it", node)?;
            if !seen.insert(node) {
                return usage(format!("--observe-node: expected each node once, got '{node}' twice"));
            }
        }
        if seen.len() > OBSERVED_NODES_MAX {
            return usage(format!(
                "--observe-node: expected {OBSERVED_NODES_MAX} nodes at the most, got {}",
                seen.len()
            ));
        }
        if self.token.is_none() && !seen.is_empty() {
            return usage(
                "--observe-node: expected --token-secret with it, the Secret with the token by which an observer knows who may \
                 ask: make one with `kubectl create secret generic NAME --from-file=token=FILE`"
                    .to_owned(),
            );
        }
        Ok(())
    }
}

/// Whether objects can have that name.
///
/// # Errors
/// [`KubernetesError::Usage`].
pub fn check_name(name: &str) -> Result<(), KubernetesError> {
    // A Service's name begins with a letter (RFC 1035).
    let is_right = is_label(name) && name.len() <= NAME_MAX && name.starts_with(|c: char| c.is_ascii_lowercase());
    let expected = format!("1 to {NAME_MAX} lower-case letters, digits and '-', a letter first");
    wants(is_right, "--name", &expected, name)
}

/// Whether a namespace can have that name.
///
/// # Errors
/// [`KubernetesError::Usage`].
pub fn check_namespace(name: &str) -> Result<(), KubernetesError> {
    wants(is_label(name), "--namespace", "1 to 63 lower-case letters, digits and '-'", name)
}

fn wants(is_right: bool, flag: &str, expected: &str, got: &str) -> Result<(), KubernetesError> {
    if is_right {
        return Ok(());
    }
    Err(KubernetesError::Usage(format!("{flag}: expected {expected}, got '{got}'")))
}

/// A URL stands in the Job for everybody to read who may read Jobs, so it has no password.
fn check_url(url: &str) -> Result<(), KubernetesError> {
    for one in url.split(',').map(str::trim) {
        let (scheme, rest) = one.split_once("://").unwrap_or(("nats", one));
        let is_known = matches!(scheme, "nats" | "tls") && !rest.is_empty();
        if rest.contains('@') {
            return Err(KubernetesError::Usage(
                "--nats: expected a URL without a user or password, as everybody who may read Jobs reads it: \
                 put credentials into a Secret and give --credentials-secret"
                    .to_owned(),
            ));
        }
        if !is_known || rest.contains(['/', ' ', '$']) {
            return Err(KubernetesError::Usage(format!(
                "--nats: expected nats://HOST:PORT or tls://HOST:PORT, several with commas between, got '{url}'"
            )));
        }
    }
    Ok(())
}

fn is_plain(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b"-.".contains(&b)
}

/// RFC 1123: a label of a name.
fn is_label(text: &str) -> bool {
    let inside = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    (1..=63).contains(&text.len()) && text.bytes().all(inside) && !text.starts_with('-') && !text.ends_with('-')
}

/// RFC 1123: labels with dots between.
fn is_subdomain(text: &str) -> bool {
    text.len() <= 253 && text.split('.').all(is_label)
}

/// What can be the name of an image; the registry decides whether it is one.
fn is_image(text: &str) -> bool {
    let inside = |b: u8| b.is_ascii_alphanumeric() || b"-._/:@+".contains(&b);
    (1..=1024).contains(&text.len())
        && text.bytes().all(inside)
        && text.starts_with(|c: char| c.is_ascii_alphanumeric())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_what_kubernetes_takes() {
        for good in ["plimsoll", "a", "load-2"] {
            assert!(check_name(good).is_ok(), "{good}");
        }
        for bad in ["", "Plimsoll", "2load", "-a", "a-", "a_b", "a.b", &"a".repeat(NAME_MAX + 1)] {
            let error = check_name(bad).unwrap_err().to_string();
            assert!(error.starts_with("--name: expected 1 to 32 lower-case"), "{error}");
        }
        assert!(check_namespace("2load").is_ok() && check_namespace("a.b").is_err());
    }

    #[test]
    fn a_secret_has_a_key_of_its_own_or_the_usual_one() {
        let parse = |text: &str| SecretKey::parse("--token-secret", text, "token");
        let of = |secret: &str, key: &str| SecretKey { secret: secret.to_owned(), key: key.to_owned() };
        assert_eq!(parse("load").unwrap(), of("load", "token"));
        assert_eq!(parse("load.eu/My_key.txt").unwrap(), of("load.eu", "My_key.txt"));
        for bad in ["", "/", "load/", "Load", "load/a/b", "load/a b"] {
            assert!(parse(bad).unwrap_err().to_string().contains("--token-secret: expected"), "{bad}");
        }
    }

    #[test]
    fn a_url_is_natss_and_has_no_password() {
        for good in ["nats://hub:4222", "tls://a:4222,tls://b:4222", "hub", "nats://[::1]:4222"] {
            assert!(check_url(good).is_ok(), "{good}");
        }
        for bad in ["", "http://hub:4222", "nats://", "nats://hub:4222/x", "nats://$(HOST)"] {
            assert!(check_url(bad).unwrap_err().to_string().contains("--nats: expected nats://"), "{bad}");
        }
        let error = check_url("nats://me:secret@hub:4222").unwrap_err().to_string();
        assert!(error.contains("--credentials-secret") && !error.contains("secret@"), "{error}");
    }

    #[test]
    fn an_image_is_no_option_and_no_sentence() {
        for good in ["plimsoll", "localhost:5000/plimsoll:1.0", "r.example/a/b@sha256:00ff"] {
            assert!(is_image(good), "{good}");
        }
        for bad in ["", "-plimsoll", "plim soll", "a\nb"] {
            assert!(!is_image(bad), "{bad}");
        }
    }
}
