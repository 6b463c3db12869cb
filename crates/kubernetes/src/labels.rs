//! The labels by which everything that was placed is found again: Kubernetes' recommended ones.

use std::collections::BTreeMap;

/// Whose it is.
pub const MANAGED_BY: (&str, &str) = ("app.kubernetes.io/managed-by", "plimsoll");
/// What it is part of: the name that was given.
pub const INSTANCE: &str = "app.kubernetes.io/instance";
/// Which part.
pub const COMPONENT: &str = "app.kubernetes.io/component";

/// The part that puts load on.
pub const AGENTS: &str = "agents";
/// The part that observes nodes.
pub const OBSERVERS: &str = "observers";
/// The part that carries messages and state.
pub const NATS: &str = "nats";

/// The labels of a part.
pub fn of(name: &str, component: &str) -> BTreeMap<String, String> {
    let mut labels = chosen(name, component);
    labels.insert("app.kubernetes.io/name".to_owned(), "plimsoll".to_owned());
    labels.insert(MANAGED_BY.0.to_owned(), MANAGED_BY.1.to_owned());
    labels
}

/// Those of them that tell a part's pods from all others.
pub fn chosen(name: &str, component: &str) -> BTreeMap<String, String> {
    [(INSTANCE, name), (COMPONENT, component)].map(|(key, value)| (key.to_owned(), value.to_owned())).into()
}

/// What finds all parts of a name; without one, of all names.
pub fn selector(name: Option<&str>) -> String {
    let own = format!("{}={}", MANAGED_BY.0, MANAGED_BY.1);
    match name {
        Some(name) => format!("{own},{INSTANCE}={name}"),
        None => own,
    }
}
