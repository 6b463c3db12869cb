//! The way to a cluster: which one, as whom, and in which namespace; and the kinds of objects that may be there.
//!
//! As for kubectl, a kubeconfig says so (KUBECONFIG, ~/.kube/config), or the pod that this process runs in. One thread does all of
//! it, and only where a cluster was asked for.

mod apply;
mod delete;
mod pods;

pub use apply::{Applied, apply};
pub use delete::{Deleted, delete};

use crate::error::KubernetesError;
use crate::labels;
use k8s_openapi::api::apps::v1::{ControllerRevision, DaemonSet, StatefulSet};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim, Pod, Service, ServiceAccount};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{Api, DynamicObject, ListParams};
use kube::config::KubeConfigOptions;
use kube::discovery::ApiResource;
use kube::{Client, Config};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Which cluster, and where in it.
#[derive(Debug, Clone, Default)]
pub struct Place {
    /// A context of the kubeconfig; `None`: its current one.
    pub context: Option<String>,
    /// A namespace; `None`: the context's.
    pub namespace: Option<String>,
}

/// How something is done: how long is waited for it, and who is told.
pub struct Conduct {
    /// How long is waited until it is done; zero: not at all.
    pub wait: Duration,
    /// Set by Ctrl-C.
    pub interrupted: Arc<AtomicBool>,
    /// Is told how far it is.
    pub tell: fn(&str),
}

impl Conduct {
    fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }
}

/// A cluster, and the namespace in it.
struct Cluster {
    client: Client,
    namespace: String,
    /// The flags that lead here again.
    flags: String,
}

impl Cluster {
    async fn connect(place: &Place) -> Result<Self, KubernetesError> {
        let options = KubeConfigOptions { context: place.context.clone(), ..KubeConfigOptions::default() };
        let config = match Config::from_kubeconfig(&options).await {
            Ok(config) => config,
            // In a pod there is none, and the pod's own way.
            Err(error) => match place.context {
                None => Config::incluster().map_err(|_| error)?,
                Some(_) => return Err(error.into()),
            },
        };
        let namespace = place.namespace.clone().unwrap_or_else(|| config.default_namespace.clone());
        crate::wanted::check_namespace(&namespace)?;
        let client = Client::try_from(config).map_err(|error| KubernetesError::NoCluster(error.to_string()))?;
        let context = place.context.as_ref().map(|context| format!(" --context {context}")).unwrap_or_default();
        Ok(Cluster { client, flags: format!("{context} --namespace {namespace}"), namespace })
    }

    fn api(&self, resource: &ApiResource) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), &self.namespace, resource)
    }

    async fn labelled(&self, resource: &ApiResource, name: Option<&str>) -> Result<Vec<DynamicObject>, kube::Error> {
        let list = self.api(resource).list(&ListParams::default().labels(&labels::selector(name))).await?;
        Ok(list.items)
    }

    async fn pods(&self, name: &str) -> Result<Vec<Pod>, KubernetesError> {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &self.namespace);
        let list = pods.list(&ListParams::default().labels(&labels::selector(Some(name)))).await;
        Ok(list.map_err(|error| KubernetesError::of("list pods", &self.namespace, error))?.items)
    }

    /// The command that takes all of a name away.
    fn undo(&self, name: &str) -> String {
        format!("plimsoll kubernetes delete{} --name {name}", self.flags)
    }
}

/// The kinds of what makes pods.
fn makers() -> Vec<ApiResource> {
    vec![ApiResource::erase::<Job>(&()), ApiResource::erase::<DaemonSet>(&()), ApiResource::erase::<StatefulSet>(&())]
}

/// The kinds of what is made, those first that make others.
fn made() -> Vec<ApiResource> {
    let mut all = makers();
    all.extend([
        ApiResource::erase::<Service>(&()),
        ApiResource::erase::<ConfigMap>(&()),
        ApiResource::erase::<ServiceAccount>(&()),
        ApiResource::erase::<Pod>(&()),
        ApiResource::erase::<PersistentVolumeClaim>(&()),
    ]);
    all
}

/// The kinds of what the cluster makes of these, with their labels, and takes away itself.
fn derived() -> Vec<ApiResource> {
    vec![ApiResource::erase::<EndpointSlice>(&()), ApiResource::erase::<ControllerRevision>(&())]
}

/// Runs to its end what has to do with a cluster.
fn run<T>(future: impl Future<Output = Result<T, KubernetesError>>) -> Result<T, KubernetesError> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(future)
}
