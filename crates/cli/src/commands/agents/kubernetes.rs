//! `plimsoll kubernetes`: agents as objects of a cluster, printed, put there, taken away.
//!
//! Progress goes to stderr. On stdout is the manifest; or, in lines that can be pasted, what is done next with agents that run.

use super::super::{interrupt, tell};
use crate::args::agents::kubernetes::{
    ApplyArgs, DeleteArgs, KubernetesArgs, KubernetesCommand, ManifestArgs, PlaceArgs,
};
use crate::exit::{Exit, Failure};
use kubernetes::{Conduct, KubernetesError, Nats, objects};
use std::io::Write;
use std::time::Duration;

/// Prints the objects, puts them into a cluster, or takes them away.
pub fn run(args: &KubernetesArgs) -> Result<Exit, Failure> {
    match &args.command {
        KubernetesCommand::Manifest(args) => manifest(args),
        KubernetesCommand::Apply(args) => apply(args),
        KubernetesCommand::Delete(args) => delete(args),
    }
}

fn manifest(args: &ManifestArgs) -> Result<Exit, Failure> {
    let text = kubernetes::yaml::manifest(&args.wanted.wanted()?)?;
    std::io::stdout().lock().write_all(text.as_bytes())?;
    Ok(Exit::Fine)
}

fn apply(args: &ApplyArgs) -> Result<Exit, Failure> {
    let wanted = args.wanted.wanted()?;
    let place = args.place.place(args.wanted.namespace.as_ref());
    let applied = kubernetes::apply(&place, &wanted, &conduct(&args.place)?)?;
    let namespace = &applied.namespace;
    let nodes = &wanted.observed_nodes;
    let observers = if nodes.is_empty() { String::new() } else { format!(", and observers on {}", nodes.join(", ")) };
    match applied.agents {
        Some(agents) => tell(&format!("{agents} agents run in namespace {namespace}{observers}")),
        None => {
            tell(&format!(
                "agents are asked for in namespace {namespace}{observers}; it was not waited until they run"
            ));
        }
    }
    let mut stdout = std::io::stdout().lock();
    let url = match &wanted.nats {
        Nats::There { url, .. } => url.clone(),
        Nats::Placed { .. } => {
            let service = objects::nats_name(&wanted.name);
            writeln!(stdout, "kubectl --namespace {namespace} port-forward service/{service} 4222 &")?;
            "nats://127.0.0.1:4222".to_owned()
        }
    };
    writeln!(stdout, "plimsoll agents --nats {url}")?;
    // The one whose node the target is on.
    let seen = nodes.first().map(|node| format!(" --observe-at nats:{node}")).unwrap_or_default();
    let token = if wanted.token.is_some() { " --token-file FILE" } else { "" };
    writeln!(stdout, "plimsoll load URL --agents {} --nats {url}{token}{seen}", wanted.agents)?;
    writeln!(stdout, "{}", applied.undo)?;
    Ok(Exit::Fine)
}

fn delete(args: &DeleteArgs) -> Result<Exit, Failure> {
    let name = (!args.all).then_some(args.name.as_str());
    let place = args.place.place(args.namespace.as_ref());
    let deleted = kubernetes::delete(&place, name, &conduct(&args.place)?)?;
    if deleted.objects.is_empty() {
        let of = name.map(|name| format!(" called {name}")).unwrap_or_default();
        tell(&format!("nothing{of} is in namespace {}", deleted.namespace));
    } else {
        tell(&format!("taken away from namespace {}: {}", deleted.namespace, deleted.objects.join(", ")));
    }
    Ok(Exit::Fine)
}

fn conduct(args: &PlaceArgs) -> Result<Conduct, Failure> {
    let tell: fn(&str) = if args.quiet { |_| () } else { tell };
    Ok(Conduct { wait: Duration::from_nanos(args.wait), interrupted: interrupt::flag()?, tell })
}

impl From<KubernetesError> for Failure {
    fn from(error: KubernetesError) -> Self {
        match error {
            KubernetesError::Interrupted { .. } => Failure::interrupted(error.to_string()),
            error if error.is_usage() => Failure::usage(error.to_string()),
            error => Failure::could_not_run(error.to_string()),
        }
    }
}
