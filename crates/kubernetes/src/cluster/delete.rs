//! Takes everything of a name away, and waits until it is gone. It is found by its labels alone: so an `apply` that was killed, or a
//! manifest that kubectl applied, is taken away the same, and to do it twice does no harm. Only what has the label is touched.

use super::{Cluster, Conduct, Place, derived, made, run};
use crate::error::KubernetesError;
use crate::limits::ASK_EVERY;
use crate::wanted::check_name;
use kube::ResourceExt;
use kube::api::DeleteParams;
use std::time::Instant;

/// What was taken away.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deleted {
    /// Where.
    pub namespace: String,
    /// `Kind name` of each object, those left out that the cluster took away with another.
    pub objects: Vec<String>,
}

/// Takes it away: all of a name, or of all names.
///
/// # Errors
/// [`KubernetesError`]: where the cluster cannot be reached, says no, or something is still there after the time.
pub fn delete(place: &Place, name: Option<&str>, conduct: &Conduct) -> Result<Deleted, KubernetesError> {
    name.map_or(Ok(()), check_name)?;
    run(deleting(place, name, conduct))
}

async fn deleting(place: &Place, name: Option<&str>, conduct: &Conduct) -> Result<Deleted, KubernetesError> {
    let cluster = Cluster::connect(place).await?;
    let mut objects = Vec::new();
    let until = Instant::now() + conduct.wait;
    let mut said = String::new();
    loop {
        let mut left = Vec::new();
        for resource in made() {
            let refused = |error| KubernetesError::of(format!("list {}", resource.plural), &cluster.namespace, error);
            for object in cluster.labelled(&resource, name).await.map_err(refused)? {
                let shown = format!("{} {}", resource.kind, object.name_any());
                left.push(shown.clone());
                if object.metadata.deletion_timestamp.is_some() {
                    continue;
                }
                // What it has made goes with it.
                let gone = cluster.api(&resource).delete(&object.name_any(), &DeleteParams::background()).await;
                match gone {
                    Err(kube::Error::Api(status)) if status.code == 404 => {}
                    Err(error) => {
                        return Err(KubernetesError::of(format!("take {shown} away"), &cluster.namespace, error));
                    }
                    Ok(_) if resource.kind == "Pod" || objects.contains(&shown) => {}
                    Ok(_) => objects.push(shown),
                }
            }
        }
        for resource in derived() {
            // Who may not list these need not: the cluster takes them away.
            let of = cluster.labelled(&resource, name).await.unwrap_or_default();
            left.extend(of.iter().map(|object| format!("{} {}", resource.kind, object.name_any())));
        }
        if left.is_empty() || conduct.wait.is_zero() {
            return Ok(Deleted { namespace: cluster.namespace, objects });
        }
        let line = format!("waiting until {} objects are gone", left.len());
        if line != said {
            (conduct.tell)(&line);
            said = line;
        }
        if conduct.is_interrupted() {
            let undo = match name {
                Some(name) => cluster.undo(name),
                None => format!("plimsoll kubernetes delete{} --all", cluster.flags),
            };
            return Err(KubernetesError::Interrupted { undo });
        }
        if Instant::now() >= until {
            return Err(KubernetesError::Left { after_s: conduct.wait.as_secs(), left: left.join(", ") });
        }
        tokio::time::sleep(ASK_EVERY).await;
    }
}
