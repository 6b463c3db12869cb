//! The objects as text: for `kubectl apply -f -`, and as a base for Kustomize, a file an object.

use crate::error::KubernetesError;
use crate::objects::{self, Object};
use crate::wanted::Wanted;

/// All objects, one behind the other.
///
/// # Errors
/// [`KubernetesError::Usage`]; [`KubernetesError::Yaml`].
pub fn manifest(wanted: &Wanted) -> Result<String, KubernetesError> {
    wanted.check()?;
    objects::all(wanted).iter().map(|object| Ok(format!("---\n{}", written(object)?))).collect()
}

/// The files of a base for Kustomize: each object, and the file that lists them.
///
/// # Errors
/// As [`manifest`].
pub fn base(wanted: &Wanted) -> Result<Vec<(String, String)>, KubernetesError> {
    wanted.check()?;
    let mut files = Vec::new();
    for object in objects::all(wanted) {
        let kind = object.resource.kind.to_ascii_lowercase();
        files.push((format!("{kind}.yaml"), written(&object)?));
    }
    let mut list = "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources:\n".to_owned();
    for (name, _) in &files {
        list.push_str(&format!("- {name}\n"));
    }
    files.push(("kustomization.yaml".to_owned(), list));
    Ok(files)
}

fn written(object: &Object) -> Result<String, KubernetesError> {
    serde_saphyr::to_string(&object.value).map_err(|error| KubernetesError::Yaml(error.to_string()))
}
