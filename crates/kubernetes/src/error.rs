//! Why something with a cluster could not be done: what was expected, what came, what to do next.

use kube::config::KubeconfigError;

/// Why.
#[derive(Debug, thiserror::Error)]
pub enum KubernetesError {
    /// What was given cannot be meant.
    #[error("{0}")]
    Usage(String),
    /// No cluster is named.
    #[error(
        "expected a cluster that a kubeconfig names, but {0}: set KUBECONFIG to its file, or write it to ~/.kube/config, or give another --context"
    )]
    NoCluster(String),
    /// The cluster does not answer.
    #[error(
        "expected the cluster to {what}, but it cannot be reached ({why}): check the kubeconfig's server, and that you can reach it"
    )]
    NotReached {
        /// What was to be done.
        what: String,
        /// In its words.
        why: String,
    },
    /// The cluster says no.
    #[error("expected the cluster to {what}, but {why}: {next}")]
    Refused {
        /// What was to be done.
        what: String,
        /// In its words.
        why: String,
        /// What helps.
        next: String,
    },
    /// Something of that name is there, and is not ours.
    #[error("expected {kind} '{name}' to be one that plimsoll made, but it has no label {}={}: choose another --name", crate::labels::MANAGED_BY.0, crate::labels::MANAGED_BY.1)]
    NotOurs {
        /// What it is.
        kind: String,
        /// What it is called.
        name: String,
    },
    /// The pods do not run.
    #[error("expected {wanted} to run, but {why}: mend that, or take all of it away with `{undo}`")]
    NotRunning {
        /// What was to run.
        wanted: String,
        /// What hinders, of each pod that does not run.
        why: String,
        /// The command that takes it away.
        undo: String,
    },
    /// Something is still there.
    #[error(
        "expected nothing to be left after {after_s} s, but {left} is there: it may still go; run the same again, or look with `kubectl describe`"
    )]
    Left {
        /// How long was waited.
        after_s: u64,
        /// What is there.
        left: String,
    },
    /// Ctrl-C.
    #[error("interrupted; what was made is there: `{undo}` takes it away")]
    Interrupted {
        /// The command that takes it away.
        undo: String,
    },
    /// The manifest could not be written.
    #[error("expected to write the objects as YAML, but {0}")]
    Yaml(String),
    /// The runtime could not be started.
    #[error("expected to start a runtime, but {0}")]
    Io(#[from] std::io::Error),
}

impl KubernetesError {
    /// Whether what was written is at fault.
    pub fn is_usage(&self) -> bool {
        matches!(self, KubernetesError::Usage(_))
    }

    /// What came of a request.
    pub(crate) fn of(what: impl Into<String>, namespace: &str, error: kube::Error) -> Self {
        let what = what.into();
        let kube::Error::Api(status) = error else {
            return KubernetesError::NotReached { what, why: causes(&error) };
        };
        let next = match status.code {
            401 => "log in to the cluster again, or give another --context".to_owned(),
            403 if status.message.contains("quota") => {
                "ask for fewer --agents, --cores or --memory, or for a larger quota".to_owned()
            }
            403 => {
                format!("ask who runs the cluster for that right in namespace {namespace}, or give another --context")
            }
            404 if status.message.contains("namespaces") => {
                format!("make it with `kubectl create namespace {namespace}`, or give another --namespace")
            }
            422 if status.message.contains("immutable") => {
                "it is there with other settings: take it away first with `plimsoll kubernetes delete`".to_owned()
            }
            422 if status.message.contains("privileged") => {
                "this cluster has no privileged pods at all: leave out --observe-node, and run `plimsoll watch --serve` on the node itself"
                    .to_owned()
            }
            409 => "something else changes it at this moment: try again".to_owned(),
            429 | 500..=599 => "the cluster is busy or not well: try again later".to_owned(),
            _ => "look at what was asked for with `plimsoll kubernetes manifest`".to_owned(),
        };
        let said = match status.message.is_empty() {
            true => format!("it answers {} {}", status.code, status.reason),
            false => format!("it says: {}", status.message),
        };
        KubernetesError::Refused { what, why: said, next }
    }
}

impl From<KubeconfigError> for KubernetesError {
    fn from(error: KubeconfigError) -> Self {
        KubernetesError::NoCluster(causes(&error))
    }
}

/// An error with what caused it, each said once.
fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut at = error.source();
    while let Some(cause) = at {
        let more = cause.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        at = cause.source();
    }
    text
}
