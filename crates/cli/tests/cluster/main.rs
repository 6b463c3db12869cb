//! Agents in a real cluster: Kubernetes' own API server, controllers, scheduler and kubelets with containerd on a machine of the test's
//! own (namespaces), a Job whose agents load a server there, and a namespace in which nothing is left.
//!
//! `make test-cluster` builds Kubernetes once (scripts/cluster/build.sh) and says where it is; without that nothing is done here.
#![allow(clippy::unwrap_used, reason = "helpers of tests: to stop is to fail")]

#[path = "../common/mod.rs"]
mod common;
mod control;
mod lost;
mod machine;
mod node;
mod observed;
mod own_nats;

use common::Run;
use control::Control;
use machine::{ADDRESS, Machine};
use node::{NATS, Node, PLIMSOLL};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;
use testkit::process::Guard;
use testkit::wait_for;

/// Nodes: each has as many CPUs as the machine, and five are asked for.
const NODES: u16 = 3;
/// Where scripts/cluster/build.sh has put Kubernetes' programs.
const PROGRAMS: &str = "PLIMSOLL_TEST_KUBERNETES";
/// A part of the name of the scenarios that are wanted: all, where it is not set.
const CHOSEN: &str = "PLIMSOLL_TEST_SCENARIO";

type Scenario = fn(&Cluster);

/// What is done with one cluster, as it takes half a minute to be there.
const SCENARIOS: &[(&str, Scenario)] = &[
    ("kubectl", what_is_applied_by_kubectl_is_the_same_and_is_taken_away),
    ("load", four_agents_load_a_server_and_nothing_is_left),
    ("own-nats", own_nats::ones_own_nats_is_reached_with_what_is_in_secrets),
    ("observed", observed::a_limit_of_a_pod_is_found_by_an_observer_on_its_node),
    ("lost", lost::an_agent_that_is_killed_is_named_and_started_again),
    ("killed", an_apply_that_is_killed_can_be_undone),
    ("hindered", what_hinders_is_said_with_what_to_do),
];

struct Cluster {
    // First dropped, last made.
    _nodes: Vec<Node>,
    _names: Guard,
    control: Control,
    machine: Machine,
}

impl Cluster {
    /// `None`: it cannot be here, and that was said.
    fn start(programs: PathBuf) -> Option<Self> {
        if !testkit::is_root() {
            testkit::skip("nodes of a cluster need root");
            return None;
        }
        for name in ["etcd", "containerd", "ctr", "runc", "nats-server", "openssl", "unshare", "nsenter", "ip"] {
            if testkit::program(name).is_none() {
                testkit::skip(&format!("{name} is not installed (scripts/packages.sh cluster)"));
                return None;
            }
        }
        if !PathBuf::from(node::CNI).join("ptp").exists() {
            testkit::skip("containernetworking-plugins is not installed (scripts/packages.sh cluster)");
            return None;
        }
        let mut machine = Machine::new(&programs.join("pause")).unwrap();
        fs::write(machine.file("names"), "").unwrap();
        let dns = [format!("{ADDRESS}:53"), machine.file("names").display().to_string()];
        let names = machine.start("dns", programs.join("dns"), &dns).unwrap();
        let control = Control::start(&machine, &programs).unwrap();
        let images = node::images(&machine, &programs).unwrap();
        let start = |number| Node::start(&mut machine, &control, &programs, &images, number);
        let nodes: Vec<Node> = (0..NODES).map(start).collect::<Result<_, _>>().unwrap();
        let cluster = Cluster { machine, control, _names: names, _nodes: nodes };
        cluster.until("nodes are ready", || {
            let listed = cluster.list("nodes", None);
            let is_ready = |node: &&Value| {
                node["status"]["conditions"]
                    .as_array()
                    .is_some_and(|all| all.iter().any(|one| one["type"] == "Ready" && one["status"] == "True"))
            };
            listed.iter().filter(is_ready).count() == usize::from(NODES)
        });
        Some(cluster)
    }

    /// Waits; where it is in vain, says what the programs said.
    fn until(&self, what: &str, mut is_so: impl FnMut() -> bool) {
        let begun = std::time::Instant::now();
        while !is_so() {
            if begun.elapsed() > testkit::HANG_GUARD {
                let said: Vec<String> = ["kube-apiserver", "kube-controller-manager", "kubelet-0", "port-forward"]
                    .map(|name| format!("{name}:\n{}", self.machine.log(name)))
                    .into();
                panic!("in vain: {what}\n{}", said.join("\n"));
            }
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    fn kubectl(&self, args: &[&str]) -> String {
        self.control.kubectl(&self.machine, args).unwrap()
    }

    fn list(&self, kinds: &str, namespace: Option<&str>) -> Vec<Value> {
        let mut args = vec!["get", kinds, "--output", "json"];
        args.extend(namespace.iter().flat_map(|namespace| ["--namespace", namespace]));
        let list: Value = serde_json::from_str(&self.kubectl(&args)).unwrap();
        list["items"].as_array().unwrap().clone()
    }

    /// A namespace whose pods may have no more than this level allows.
    fn namespace(&self, name: &str, level: &str) {
        self.kubectl(&["create", "namespace", name]);
        self.kubectl(&["label", "namespace", name, &format!("pod-security.kubernetes.io/enforce={level}")]);
    }

    /// plimsoll there.
    fn plimsoll(&self, args: &[&str]) -> Command {
        let mut command = self.machine.command(env!("CARGO_BIN_EXE_plimsoll"));
        command.args(args).env("KUBECONFIG", &self.control.kubeconfig).env("XDG_STATE_HOME", self.machine.folder());
        command
    }

    /// A server that pods can reach.
    fn serve(&self, more: &[&str]) -> Server {
        let listen = format!("{ADDRESS}:0");
        let serve = [&["serve", "http", "--listen", &listen], more].concat();
        let mut process = Guard::spawn(self.plimsoll(&serve).stdout(Stdio::piped())).unwrap();
        let mut line = String::new();
        let mut output = BufReader::new(process.child().stdout.take().unwrap());
        output.read_line(&mut line).unwrap();
        let url = line.trim().rsplit(' ').next().unwrap().to_owned();
        assert!(url.starts_with("http://"), "{line}");
        // Its later output goes nowhere, but the pipe stays open.
        std::thread::spawn(move || std::io::copy(&mut output, &mut std::io::sink()));
        Server { _process: process, url }
    }

    fn kubernetes(&self, verb: &str, namespace: &str, more: &[&str]) -> Command {
        self.plimsoll(&[&["kubernetes", verb, "--namespace", namespace], more].concat())
    }

    fn apply(&self, namespace: &str, more: &[&str]) -> Command {
        let own = ["--image", PLIMSOLL, "--nats-image", NATS, "--allow-target", ADDRESS, "--memory", "256MiB"];
        let mut command = self.kubernetes("apply", namespace, &own);
        // A flag of the test's own wins.
        command.args(["--nats-storage", "2GiB"]).args(more).env("PLIMSOLL_WAIT", "2m");
        command
    }

    fn delete(&self, namespace: &str) -> Run {
        let run = finish(self.kubernetes("delete", namespace, &["--wait", "2m"]));
        run.assert_exit(0);
        self.assert_empty(namespace);
        run
    }

    /// Nothing is there but what every namespace has.
    fn assert_empty(&self, namespace: &str) {
        let kinds = self.kubectl(&["api-resources", "--namespaced", "--verbs", "list", "--output", "name"]);
        let kinds: Vec<&str> = kinds.lines().filter(|kind| !kind.starts_with("events")).collect();
        assert!(kinds.len() > 20, "{kinds:?}");
        let all = self.list(&kinds.join(","), Some(namespace));
        let own = [("ConfigMap", "kube-root-ca.crt"), ("ServiceAccount", "default")];
        let left: Vec<String> = all
            .iter()
            .map(|one| (one["kind"].as_str().unwrap(), one["metadata"]["name"].as_str().unwrap()))
            .filter(|one| !own.contains(one))
            .map(|(kind, name)| format!("{kind} {name}"))
            .collect();
        assert!(left.is_empty(), "left in {namespace}: {left:?}");
    }

    /// Writes down where the Service of NATS leads, as soon as its pod has an address; says the address.
    fn name_nats(&self, namespace: &str) -> String {
        let address = wait_for("NATS has an address", || {
            let pods = self.list("pods", Some(namespace));
            let nats = pods.iter().find(|pod| pod["metadata"]["name"] == "plimsoll-nats-0")?;
            nats["status"]["podIP"].as_str().map(str::to_owned)
        });
        let line = format!("plimsoll-nats.{namespace}.svc.cluster.local. {address}\n");
        fs::write(self.machine.file("names"), line).unwrap();
        address
    }
}

/// A server there, and where it is.
struct Server {
    _process: Guard,
    url: String,
}

fn finish(mut command: Command) -> Run {
    common::finish(&mut command)
}

#[test]
fn a_real_cluster() {
    let Some(programs) = std::env::var_os(PROGRAMS).map(PathBuf::from) else { return };
    let Some(cluster) = Cluster::start(programs) else { return };
    let chosen = std::env::var(CHOSEN).unwrap_or_default();
    for (name, scenario) in SCENARIOS.iter().filter(|(name, _)| name.contains(&chosen)) {
        println!("{name}");
        scenario(&cluster);
    }
}

/// The manifest passes the strictest level of Pod Security, and the base for Kustomize is the same.
fn what_is_applied_by_kubectl_is_the_same_and_is_taken_away(cluster: &Cluster) {
    cluster.namespace("printed", "restricted");
    let manifest = cluster.machine.file("manifest.yaml");
    let print = ["--image", "plimsoll", "--allow-target", "nothing.invalid"];
    let run = finish(cluster.plimsoll(&[&["kubernetes", "manifest"], &print[..]].concat()));
    run.assert_exit(0);
    fs::write(&manifest, &run.stdout).unwrap();
    let base = testkit::workspace().join("deploy/kustomize/base");
    let of_base = cluster.kubectl(&["kustomize", base.to_str().unwrap()]);
    let sorted = |text: &str| {
        let mut all: Vec<String> = text.split("---\n").map(|one| one.trim().to_owned()).collect();
        all.retain(|one| !one.is_empty());
        all.sort();
        all
    };
    assert_eq!(sorted(&of_base), sorted(&run.stdout), "kustomize and manifest");
    cluster.kubectl(&["apply", "--namespace", "printed", "--filename", manifest.to_str().unwrap()]);
    cluster.until("the Job has made its pods", || cluster.list("pods", Some("printed")).len() == 5);
    let pods = cluster.list("pods", Some("printed"));
    let index = "batch.kubernetes.io/job-completion-index";
    let indices: BTreeSet<&str> =
        pods.iter().filter_map(|pod| pod["metadata"]["annotations"][index].as_str()).collect();
    assert_eq!(indices, BTreeSet::from(["0", "1", "2", "3"]));
    let said = cluster.delete("printed").stderr;
    assert!(said.contains("StatefulSet plimsoll-nats") && said.contains("Job plimsoll"), "{said}");
    // Once more does no harm.
    let said = cluster.delete("printed").stderr;
    assert!(said.contains("nothing called plimsoll is in namespace printed"), "{said}");
    // Two beside each other: each by its name, or both.
    for name in ["one", "two"] {
        finish(cluster.apply("printed", &["--name", name, "--wait", "0s"])).assert_exit(0);
    }
    let names = |cluster: &Cluster| {
        let all = cluster.list("jobs", Some("printed"));
        all.iter().map(|job| job["metadata"]["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(names(cluster), ["one", "two"]);
    finish(cluster.kubernetes("delete", "printed", &["--name", "one"])).assert_exit(0);
    assert_eq!(names(cluster), ["two"]);
    finish(cluster.kubernetes("delete", "printed", &["--all"])).assert_exit(0);
    cluster.assert_empty("printed");
}

fn four_agents_load_a_server_and_nothing_is_left(cluster: &Cluster) {
    cluster.namespace("load", "restricted");
    let counters = cluster.machine.file("counters");
    let server = cluster.serve(&["--control", counters.to_str().unwrap()]);
    let url = server.url.clone();
    // What the example changes is taken as well.
    let example = testkit::workspace().join("deploy/kustomize/example");
    cluster.kubectl(&["apply", "--dry-run=server", "--kustomize", example.to_str().unwrap()]);
    // Plans are sealed with a token that the pods have from a Secret.
    let token = cluster.machine.file("token");
    fs::write(&token, "b1946ac92492d2347c6235b4d2611184b1946ac92492d2347c6235b4d2611184").unwrap();
    let from = format!("--from-file=word={}", token.display());
    cluster.kubectl(&["create", "secret", "generic", "sealing", &from, "--namespace", "load"]);
    let wanted = ["--agents", "4", "--label", "place=cluster", "--token-secret", "sealing/word"];
    let apply = cluster.apply("load", &wanted);
    let applied = std::thread::scope(|scope| {
        let applied = scope.spawn(|| finish(apply));
        cluster.name_nats("load");
        applied.join().unwrap()
    });
    applied.assert_exit(0);
    assert!(applied.stderr.contains("4 agents run in namespace load"), "{}", applied.stderr);
    assert!(applied.stdout.contains("port-forward service/plimsoll-nats 4222"), "{}", applied.stdout);
    // To apply the same once more changes nothing.
    finish(cluster.apply("load", &wanted)).assert_exit(0);
    // Other agents in place of these: what a Job has made cannot be changed.
    let other = finish(cluster.apply("load", &["--agents", "3"]));
    other.assert_exit(1);
    assert!(other.stderr.contains("take it away first with `plimsoll kubernetes delete`"), "{}", other.stderr);
    let pods = cluster.list("pods", Some("load"));
    let of_agents = |pod: &&Value| pod["metadata"]["labels"]["app.kubernetes.io/component"] == "agents";
    let agents: BTreeSet<&str> =
        pods.iter().filter(of_agents).map(|pod| pod["metadata"]["name"].as_str().unwrap()).collect();
    let hosts: BTreeSet<&str> =
        pods.iter().filter(of_agents).map(|pod| pod["spec"]["nodeName"].as_str().unwrap()).collect();
    assert_eq!((agents.len(), hosts.len()), (4, usize::from(NODES)), "apart where there are hosts: {hosts:?}");

    // As `apply` has said: from outside, NATS is reached through the API server.
    let forward = ["--namespace", "load", "port-forward", "service/plimsoll-nats", "4222"];
    let _forward = cluster.control.kubectl_on(&cluster.machine, "port-forward", &forward).unwrap();
    cluster.until("NATS is reached", || cluster.machine.log("port-forward").contains("Forwarding from 127.0.0.1:4222"));
    let nats = "nats://127.0.0.1:4222";
    let recording = cluster.machine.file("all.plimsoll");
    let load = ["load", &url, "--rate", "400", "-n", "1201", "-c", "8", "--json", "--agents", "4", "--nats", nats];
    let own = ["--agent-label", "place=cluster", "--record", recording.to_str().unwrap()];
    let refused = finish(cluster.plimsoll(&[&load[..], &own, &["--agents-wait", "2s"]].concat()));
    refused.assert_exit(1);
    assert!(refused.stderr.contains("token"), "{}", refused.stderr);
    let more = [&own[..], &["--token-file", token.to_str().unwrap()]].concat();
    let run = finish(cluster.plimsoll(&[&load[..], &more].concat()));
    run.assert_measured();
    let document = run.json();
    let count = |at: &str| document.pointer(at).and_then(Value::as_u64).unwrap_or_else(|| panic!("{at}: {document:#}"));
    let generators = document["generators"]["generators"].as_array().unwrap();
    let names: BTreeSet<&str> = generators.iter().map(|one| one["name"].as_str().unwrap()).collect();
    assert_eq!(names, agents, "an agent is called as its pod is");
    let parts: u64 = generators.iter().map(|one| one["requests"].as_u64().unwrap()).sum();
    let counted = finish(cluster.plimsoll(&["serve", "--counters", counters.to_str().unwrap()]));
    counted.assert_exit(0);
    let counted: Value = serde_json::from_str(&counted.stdout).unwrap_or_else(|_| panic!("{}", counted.stdout));
    let seen = counted["counters"]["requests"].as_u64().unwrap_or_else(|| panic!("{counted:#}"));
    assert_eq!((count("/totals/started"), count("/totals/ok"), parts, seen), (1201, 1201, 1201, 1201));
    cluster.kubectl(&["delete", "secret", "sealing", "--namespace", "load"]);
    let said = cluster.delete("load").stderr;
    assert!(said.contains("taken away from namespace load: Job plimsoll"), "{said}");
}

/// At whatever moment: what is there is found by its labels.
fn an_apply_that_is_killed_can_be_undone(cluster: &Cluster) {
    cluster.namespace("killed", "restricted");
    let mut found = BTreeSet::new();
    for after_ms in [20, 60, 120, 250, 500, 1000, 2500] {
        let mut apply = Guard::spawn(cluster.apply("killed", &["--quiet"]).stderr(Stdio::null())).unwrap();
        std::thread::sleep(Duration::from_millis(after_ms));
        apply.signal(9);
        assert!(apply.wait(testkit::HANG_GUARD).is_some());
        let kinds = "serviceaccounts,configmaps,services,statefulsets,jobs";
        let all = cluster.list(kinds, Some("killed"));
        found
            .insert(all.iter().filter(|one| one["metadata"]["labels"]["app.kubernetes.io/name"] == "plimsoll").count());
        // And so can a delete that is.
        let mut delete =
            Guard::spawn(cluster.kubernetes("delete", "killed", &["--quiet"]).stderr(Stdio::null())).unwrap();
        std::thread::sleep(Duration::from_millis(after_ms / 4));
        delete.signal(9);
        assert!(delete.wait(testkit::HANG_GUARD).is_some());
        cluster.delete("killed");
    }
    assert!(found.len() > 1 && found.iter().any(|there| *there > 0), "killed with so many objects there: {found:?}");
}

fn what_hinders_is_said_with_what_to_do(cluster: &Cluster) {
    cluster.namespace("hindered", "restricted");
    let refused = |command: Command, expected: &[&str]| {
        let run = finish(command);
        run.assert_exit(1);
        for part in expected {
            assert!(run.stderr.contains(part), "expected '{part}' in: {}", run.stderr);
        }
        assert!(!run.stderr.contains("panicked"), "{}", run.stderr);
    };
    let own_nats = ["--nats", "nats://192.0.2.1:4222", "--agents", "1"];
    refused(cluster.apply("nowhere", &[]), &["namespaces \"nowhere\" not found", "kubectl create namespace nowhere"]);
    let mut powerless = cluster.apply("hindered", &own_nats);
    powerless.env("KUBECONFIG", &cluster.control.powerless);
    refused(powerless, &["is forbidden", "ask who runs the cluster for that right in namespace hindered"]);
    let mut unknown = cluster.apply("hindered", &own_nats);
    unknown.env("KUBECONFIG", cluster.machine.file("none"));
    refused(unknown, &["expected a cluster that a kubeconfig names", "KUBECONFIG"]);
    let image = ["--image", "localhost:1/nothing:1"];
    let args = [&["--allow-target", ADDRESS, "--wait", "1m"], &own_nats[..], &image].concat();
    let undo = "plimsoll kubernetes delete --namespace hindered --name plimsoll";
    refused(cluster.kubernetes("apply", "hindered", &args), &["'localhost:1/nothing:1' cannot be pulled", undo]);
    cluster.delete("hindered");
    let large = [&["--cores", "1000", "--wait", "5s"], &own_nats[..]].concat();
    refused(cluster.apply("hindered", &large), &["has no node", "Insufficient cpu", undo]);
    cluster.delete("hindered");
    let mut waiting = cluster.apply("hindered", &[&["--cores", "1000"], &own_nats[..]].concat());
    let said = fs::File::create(cluster.machine.file("said")).unwrap();
    let mut waiting = Guard::spawn(waiting.stdout(Stdio::null()).stderr(said)).unwrap();
    let said = || fs::read_to_string(cluster.machine.file("said")).unwrap();
    cluster.until("it waits", || said().contains("0 of 1 agents run"));
    waiting.signal(2);
    assert_eq!(waiting.wait(testkit::HANG_GUARD).and_then(|status| status.code()), Some(130), "{}", said());
    assert!(said().contains("interrupted; what was made is there") && said().contains(undo), "{}", said());
    cluster.delete("hindered");
    cluster.kubectl(&["create", "quota", "few", "--hard", "pods=1", "--namespace", "hindered"]);
    let two = ["--nats", "nats://192.0.2.1:4222", "--agents", "2"];
    refused(cluster.apply("hindered", &two), &["pods cannot be made", "exceeded quota: few", undo]);
    cluster.kubectl(&["delete", "quota", "few", "--namespace", "hindered"]);
    cluster.delete("hindered");
    // What was said of the Job before is no reason any more.
    let secret = [&["--token-secret", "not-there", "--wait", "10s"], &own_nats[..]].concat();
    refused(cluster.apply("hindered", &secret), &["secret \"not-there\" not found", undo]);
    cluster.delete("hindered");
    // What somebody else made of that name is left alone, by both.
    cluster.kubectl(&["create", "serviceaccount", "plimsoll", "--namespace", "hindered"]);
    refused(cluster.apply("hindered", &own_nats), &["ServiceAccount 'plimsoll' to be one that plimsoll made"]);
    finish(cluster.kubernetes("delete", "hindered", &[])).assert_exit(0);
    let left = cluster.list("serviceaccounts", Some("hindered"));
    assert!(left.iter().any(|one| one["metadata"]["name"] == "plimsoll"), "{left:?}");
}
