//! The objects as text: what is in them and what is not, that YAML's readers read what was meant, and that the base for Kustomize in
//! the repository is what is made now. `UPDATE_DOCS=1` writes it.
#![allow(clippy::unwrap_used, reason = "helpers of tests: to stop is to fail")]

use kubernetes::{Nats, SecretKey, Wanted, objects, yaml};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

/// What nobody has asked for otherwise.
fn wanted() -> Wanted {
    Wanted {
        name: "plimsoll".to_owned(),
        namespace: None,
        image: "plimsoll".to_owned(),
        pull_secret: None,
        agents: 4,
        cores: 1,
        memory_bytes: 512 << 20,
        // What no address is of: who uses the base says what is allowed.
        allow_target: vec!["nothing.invalid".to_owned()],
        labels: Vec::new(),
        rate_max: None,
        connections_max: None,
        token: None,
        observed_nodes: Vec::new(),
        nats: Nats::Placed { image: "docker.io/library/nats:2.12".to_owned(), storage_bytes: 4 << 30, claim: None },
    }
}

/// The objects, by kind, as a reader of YAML has them.
fn read(wanted: &Wanted) -> Vec<Value> {
    let text = yaml::manifest(wanted).unwrap();
    let documents = text.split("---\n").filter(|document| !document.is_empty());
    documents.map(|document| serde_saphyr::from_str(document).unwrap()).collect()
}

fn one(all: &[Value], kind: &str) -> Value {
    let mut found = all.iter().filter(|object| object["kind"] == kind);
    let first = found.next().unwrap_or_else(|| panic!("no {kind}")).clone();
    assert!(found.next().is_none(), "two of {kind}");
    first
}

fn kinds(all: &[Value]) -> Vec<&str> {
    all.iter().map(|object| object["kind"].as_str().unwrap()).collect()
}

#[test]
fn what_is_written_is_what_is_applied() {
    let mut wanted = wanted();
    wanted.labels = vec!["yes".to_owned(), "zone=1e3".to_owned(), "on=0x1f".to_owned()];
    wanted.namespace = Some("load".to_owned());
    let applied: Vec<Value> = objects::all(&wanted).into_iter().map(|object| object.value).collect();
    assert_eq!(read(&wanted), applied);
    assert_eq!(kinds(&applied), ["ServiceAccount", "ConfigMap", "Service", "StatefulSet", "Job"]);
    for object in &applied {
        assert_eq!(object["metadata"]["namespace"], "load");
        let labels = &object["metadata"]["labels"];
        assert_eq!(labels["app.kubernetes.io/managed-by"], "plimsoll", "{object:#}");
        assert_eq!(labels["app.kubernetes.io/instance"], "plimsoll", "{object:#}");
    }
}

#[test]
fn nothing_that_is_placed_has_any_right() {
    let all = read(&wanted());
    assert_eq!(one(&all, "ServiceAccount")["automountServiceAccountToken"], false);
    for (kind, name) in [("Job", "agent"), ("StatefulSet", "nats")] {
        let pod = &one(&all, kind)["spec"]["template"]["spec"];
        let container = &pod["containers"][0];
        assert_eq!((&container["name"], pod["containers"].as_array().unwrap().len()), (&json!(name), 1));
        assert_eq!(pod["automountServiceAccountToken"], false);
        let of_pod = json!({
            "runAsNonRoot": true, "runAsUser": 65532, "runAsGroup": 65532, "fsGroup": 65532,
            "seccompProfile": { "type": "RuntimeDefault" },
        });
        assert_eq!(pod["securityContext"], of_pod);
        let of_container = json!({
            "allowPrivilegeEscalation": false, "capabilities": { "drop": ["ALL"] }, "privileged": false,
            "readOnlyRootFilesystem": true,
        });
        assert_eq!(container["securityContext"], of_container);
        assert_eq!(container["resources"]["limits"], container["resources"]["requests"]);
        for part in ["hostNetwork", "hostPID", "hostIPC"] {
            assert!(pod.get(part).is_none(), "{part}");
        }
        let volumes = pod["volumes"].as_array().cloned().unwrap_or_default();
        assert!(volumes.iter().all(|volume| volume.get("hostPath").is_none()), "{volumes:?}");
    }
}

/// And none else: they are told apart from agents, by their labels and by what may be done with them.
#[test]
fn observers_have_every_right_on_the_nodes_that_were_named() {
    let mut wanted = wanted();
    wanted.token = Some(SecretKey { secret: "sealing".to_owned(), key: "word".to_owned() });
    wanted.observed_nodes = vec!["node-1.eu.example".to_owned(), "node-2".to_owned()];
    let all = read(&wanted);
    assert_eq!(kinds(&all), ["ServiceAccount", "ConfigMap", "Service", "StatefulSet", "DaemonSet", "Job"]);
    let set = &one(&all, "DaemonSet");
    assert_eq!(set["metadata"]["name"], "plimsoll-observers");
    let labels = &set["spec"]["template"]["metadata"]["labels"];
    for (key, value) in set["spec"]["selector"]["matchLabels"].as_object().unwrap() {
        assert_eq!(&labels[key], value);
    }
    assert_eq!(labels["app.kubernetes.io/component"], "observers");
    let pod = &set["spec"]["template"]["spec"];
    let nodes = &pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"];
    let term = |node: &str| json!({ "matchFields": [{ "key": "metadata.name", "operator": "In", "values": [node] }] });
    assert_eq!(nodes, &json!([term("node-1.eu.example"), term("node-2")]));
    assert_eq!((&pod["hostPID"], &pod["hostNetwork"]), (&json!(true), &json!(true)));
    assert_eq!(pod["automountServiceAccountToken"], false);
    let container = &pod["containers"][0];
    assert_eq!(container["securityContext"], json!({ "privileged": true, "readOnlyRootFilesystem": true }));
    let args = json!([
        "watch",
        "--serve=127.0.0.1:0",
        "--nats=nats://plimsoll-nats:4222",
        "--token-file=/etc/plimsoll/token/word",
    ]);
    assert_eq!(container["args"], args);
    assert_eq!(container["env"][0]["valueFrom"]["fieldRef"]["fieldPath"], "spec.nodeName");
    let groups = &pod["volumes"].as_array().unwrap()[1];
    assert_eq!(groups["hostPath"]["path"], "/sys/fs/cgroup");
    assert_eq!(container["volumeMounts"][1]["readOnly"], true);
    // Agents beside them have what they had.
    let agent = &one(&all, "Job")["spec"]["template"]["spec"];
    assert_eq!(agent["containers"][0]["securityContext"]["privileged"], false);
    assert!(agent.get("hostPID").is_none());
}

#[test]
fn what_was_asked_for_is_passed_on() {
    let mut wanted = wanted();
    let secret = |name: &str, key: &str| Some(SecretKey { secret: name.to_owned(), key: key.to_owned() });
    wanted.name = "eu".to_owned();
    wanted.agents = 16;
    wanted.cores = 3;
    wanted.memory_bytes = 1000 << 10;
    wanted.memory_bytes += 64 << 20;
    wanted.allow_target = vec!["10.1.0.0/16:80".to_owned(), "shop".to_owned()];
    wanted.labels = vec!["zone=a".to_owned()];
    wanted.rate_max = Some(60_000.0);
    wanted.connections_max = Some(500);
    wanted.token = secret("load", "token");
    wanted.pull_secret = Some("registry".to_owned());
    wanted.nats = Nats::There {
        url: "tls://hub:4222".to_owned(),
        credentials: secret("nats", "agent.creds"),
        ca: secret("nats", "ca.crt"),
    };
    let all = read(&wanted);
    assert_eq!(kinds(&all), ["ServiceAccount", "Job"]);
    assert_eq!(one(&all, "ServiceAccount")["imagePullSecrets"], json!([{ "name": "registry" }]));
    let job = &one(&all, "Job");
    assert_eq!((&job["spec"]["completions"], &job["spec"]["parallelism"]), (&json!(16), &json!(16)));
    assert_eq!((&job["spec"]["completionMode"], &job["metadata"]["name"]), (&json!("Indexed"), &json!("eu")));
    let pod = &job["spec"]["template"]["spec"];
    let args = json!([
        "agent",
        "--nats=tls://hub:4222",
        "--allow-target=10.1.0.0/16:80",
        "--allow-target=shop",
        "--cores=3",
        "--label=zone=a",
        "--rate-max=60000/s",
        "--connections-max=500",
        "--nats-credentials=/etc/plimsoll/credentials/agent.creds",
        "--nats-ca=/etc/plimsoll/ca/ca.crt",
        "--token-file=/etc/plimsoll/token/token",
    ]);
    assert_eq!(pod["containers"][0]["args"], args);
    let limits = json!({ "cpu": "3", "memory": "66536Ki" });
    assert_eq!(pod["containers"][0]["resources"]["limits"], limits);
    let mounted: Vec<&Value> =
        pod["containers"][0]["volumeMounts"].as_array().unwrap().iter().map(|one| &one["mountPath"]).collect();
    assert_eq!(mounted, ["/etc/plimsoll/credentials", "/etc/plimsoll/ca", "/etc/plimsoll/token"]);
    assert_eq!(pod["volumes"][0]["secret"]["secretName"], "nats");
    // By what they are kept apart is what their pods have.
    let labels = &job["spec"]["template"]["metadata"]["labels"];
    let apart = &pod["affinity"]["podAntiAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"][0];
    let chosen = apart["podAffinityTerm"]["labelSelector"]["matchLabels"].as_object().unwrap();
    assert!(chosen.len() == 2 && chosen.iter().all(|(key, value)| labels.get(key) == Some(value)), "{chosen:?}");
}

#[test]
fn room_of_nats_goes_with_the_pod_or_is_claimed() {
    let pod_of = |wanted: &Wanted| one(&read(wanted), "StatefulSet")["spec"].clone();
    let spec = pod_of(&wanted());
    assert_eq!(spec["template"]["spec"]["volumes"][1]["emptyDir"], json!({ "sizeLimit": "4Gi" }));
    assert!(spec.get("volumeClaimTemplates").is_none());
    for (class, there) in [("fast", Some("fast")), ("", None)] {
        let mut wanted = wanted();
        let image = "nats:2".to_owned();
        wanted.nats = Nats::Placed { image, storage_bytes: 4 << 30, claim: Some(class.to_owned()) };
        let spec = pod_of(&wanted);
        let claim = &spec["volumeClaimTemplates"][0];
        assert_eq!(claim["spec"].get("storageClassName").and_then(Value::as_str), there);
        assert_eq!(claim["metadata"]["labels"]["app.kubernetes.io/managed-by"], "plimsoll");
        assert_eq!(spec["persistentVolumeClaimRetentionPolicy"]["whenDeleted"], "Delete");
        assert_eq!(spec["template"]["spec"]["volumes"].as_array().unwrap().len(), 1);
    }
}

#[test]
fn what_cannot_be_is_refused_in_one_sentence() {
    let refused = |change: &dyn Fn(&mut Wanted)| {
        let mut wanted = wanted();
        change(&mut wanted);
        let error = yaml::manifest(&wanted).unwrap_err();
        assert!(error.is_usage(), "{error}");
        error.to_string()
    };
    assert_eq!(refused(&|w| w.agents = 1025), "--agents: expected 1 to 1024, got 1025");
    assert_eq!(refused(&|w| w.memory_bytes = 1), "--memory: expected 64 MiB at the least, got 1");
    assert_eq!(
        refused(&|w| w.image = "my image".to_owned()),
        "--image: expected an image such as registry.example/plimsoll:1, got 'my image'"
    );
    let observed =
        |w: &mut Wanted, nodes: &[&str]| w.observed_nodes = nodes.iter().map(|&node| node.to_owned()).collect();
    assert!(refused(&|w| observed(w, &["node-1"])).starts_with("--observe-node: expected --token-secret with it"));
    assert!(refused(&|w| observed(w, &["Node 1"])).contains("`kubectl get nodes` shows it, got 'Node 1'"));
    assert!(refused(&|w| observed(w, &["a", "b", "a"])).ends_with("each node once, got 'a' twice"));
    assert!(refused(&|w| w.allow_target.clear()).starts_with("--allow-target: expected"));
    assert!(refused(&|w| w.name = "Load".to_owned()).starts_with("--name: expected"));
    assert!(refused(&|w| w.namespace = Some("a b".to_owned())).starts_with("--namespace: expected"));
}

/// The base as it is in the repository.
#[test]
fn the_base_for_kustomize_is_what_is_made() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/kustomize/base");
    let files = yaml::base(&wanted()).unwrap();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::create_dir_all(&folder).unwrap();
        for (name, text) in &files {
            fs::write(folder.join(name), text).unwrap();
        }
    }
    let mut there: Vec<String> =
        fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    there.sort();
    let mut made: Vec<String> = files.iter().map(|(name, _)| name.clone()).collect();
    made.sort();
    assert_eq!(there, made, "the files of deploy/kustomize/base: UPDATE_DOCS=1 writes them");
    for (name, text) in files {
        let is = fs::read_to_string(folder.join(&name)).unwrap();
        assert_eq!(is, text, "deploy/kustomize/base/{name} is not what is made: UPDATE_DOCS=1 writes it");
    }
}
