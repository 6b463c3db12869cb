//! Observers on nodes that were named: they see what a pod of the user's does there, down to the limit that holds it.

use super::{Cluster, finish};
use crate::node::PLIMSOLL;
use serde_json::Value;
use std::fs;
use std::process::Command;

const TOKEN: &str = "0f6c9a3b5e1d47829c0b8f7e6d5a4b3c2d1e0f9a8b7c6d5e4f3a2b1c0d9e8f7a";

pub fn a_limit_of_a_pod_is_found_by_an_observer_on_its_node(cluster: &Cluster) {
    // Pods that see their whole node are let in by the widest level alone.
    cluster.namespace("observed", "privileged");
    let token = cluster.machine.file("observers-token");
    fs::write(&token, TOKEN).unwrap();
    let from = format!("--from-file=token={}", token.display());
    cluster.kubectl(&["create", "secret", "generic", "sealing", &from, "--namespace", "observed"]);
    let address = server_with_a_limit(cluster);
    let wanted = ["--agents", "2", "--allow-target", &address, "--token-secret", "sealing"];
    let observing = [&wanted[..], &["--observe-node", "node-1"]].concat();

    // Whoever is strict says so, and what there was to do.
    cluster.namespace("strict", "restricted");
    cluster.kubectl(&["create", "secret", "generic", "sealing", &from, "--namespace", "strict"]);
    let refused = |namespace: &str, args: &[&str], expected: &str| {
        let mut apply = cluster.apply(namespace, args);
        apply.args(["--nats", "nats://192.0.2.1:4222"]);
        let run = finish(apply);
        run.assert_exit(1);
        assert!(run.stderr.contains(expected), "expected '{expected}' in: {}", run.stderr);
    };
    refused("strict", &observing, "violates PodSecurity");
    cluster.kubectl(&["delete", "secret", "sealing", "--namespace", "strict"]);
    cluster.delete("strict");
    let nowhere = [&wanted[..], &["--observe-node", "nowhere", "--wait", "10s"]].concat();
    // Agents that find no NATS say that first.
    let apply = cluster.apply("observed", &nowhere);
    let run = with_nats_named(cluster, apply);
    run.assert_exit(1);
    assert!(run.stderr.contains("no pod is on node nowhere: is there one of that name"), "{}", run.stderr);
    finish(cluster.kubernetes("delete", "observed", &["--wait", "2m"])).assert_exit(0);

    let applied = with_nats_named(cluster, cluster.apply("observed", &observing));
    applied.assert_exit(0);
    assert!(
        applied.stderr.contains("2 agents run in namespace observed, and observers on node-1"),
        "{}",
        applied.stderr
    );
    assert!(applied.stdout.contains(" --observe-at nats:node-1"), "{}", applied.stdout);
    let forward = ["--namespace", "observed", "port-forward", "service/plimsoll-nats", "4223:4222"];
    let forward = cluster.control.kubectl_on(&cluster.machine, "port-forward", &forward).unwrap();
    cluster.until("NATS is reached", || cluster.machine.log("port-forward").contains("Forwarding from 127.0.0.1:4223"));
    let nats = ["--nats", "nats://127.0.0.1:4223"];
    let listed = finish(cluster.plimsoll(&[&["agents"], &nats[..]].concat()));
    assert!(listed.stdout.contains("observer nats:node-1: "), "{}", listed.stdout);
    let url = format!("http://{address}/");
    let observed = ["--observe-at", "nats:node-1", "--token-file", token.to_str().unwrap(), "--json", "--no-record"];
    let load = ["load", &url, "-c", "8", "-d", "6s", "--agents", "2"];
    let run = finish(cluster.plimsoll(&[&load[..], &nats, &observed].concat()));
    run.assert_measured();
    let document = run.json();
    let gives = &document["gives"];
    assert_eq!(gives["finding"], "cpu-throttled", "{gives:#}\n{:#}", document["samplers"]);
    let statuses = document["samplers"].as_array().unwrap();
    let of = |name: &str| statuses.iter().find(|one| one["name"] == name).unwrap_or_else(|| panic!("{statuses:#?}"));
    for sampler in ["process/cgroup", "process/threads", "bpf/lifecycle"] {
        assert_eq!(of(sampler)["status"], "active", "{:#}", of(sampler));
    }
    drop(forward);
    // Who asks for none has none left.
    finish(cluster.apply("observed", &wanted)).assert_exit(0);
    cluster.until("the observers are gone", || {
        let component = |pod: &Value| pod["metadata"]["labels"]["app.kubernetes.io/component"].clone();
        cluster.list("pods", Some("observed")).iter().all(|pod| component(pod) != "observers")
    });
    cluster.kubectl(&["delete", "pod", "server", "--namespace", "observed"]);
    cluster.kubectl(&["delete", "secret", "sealing", "--namespace", "observed"]);
    cluster.delete("observed");
}

/// A pod of the user's on node-1, which works 3 ms for a request in one thread and may have three tenths of a core; says where.
fn server_with_a_limit(cluster: &Cluster) -> String {
    let file = cluster.machine.file("server.yaml");
    let text = format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: server}}\nspec:\n  nodeName: node-1\n  containers:\n  - name: server\n    \
         image: {PLIMSOLL}\n    imagePullPolicy: Never\n    args: [serve, http, '--listen=0.0.0.0:8080', '--defect=single-thread=3ms']\n    \
         resources: {{limits: {{cpu: 300m, memory: 128Mi}}}}\n"
    );
    fs::write(&file, text).unwrap();
    cluster.kubectl(&["apply", "--namespace", "observed", "--filename", file.to_str().unwrap()]);
    let pod = || cluster.list("pods", Some("observed")).into_iter().find(|pod| pod["metadata"]["name"] == "server");
    cluster.until("the server runs", || pod().is_some_and(|pod| pod["status"]["phase"] == "Running"));
    format!("{}:8080", pod().unwrap()["status"]["podIP"].as_str().unwrap())
}

/// An `apply` that places NATS, whose name is written down meanwhile.
fn with_nats_named(cluster: &Cluster, apply: Command) -> super::Run {
    std::thread::scope(|scope| {
        let applied = scope.spawn(|| finish(apply));
        cluster.name_nats("observed");
        applied.join().unwrap()
    })
}
