//! What is lost in a cluster and what is not: an agent that is killed in the middle of a run is named, and started again; NATS has its
//! room from a claim, which goes with the rest.

use super::{Cluster, finish};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use testkit::process::Guard;

pub fn an_agent_that_is_killed_is_named_and_started_again(cluster: &Cluster) {
    cluster.namespace("lost", "restricted");
    // Room that somebody has made: no class of storage makes any here.
    let room = cluster.machine.file("room");
    fs::create_dir(&room).unwrap();
    fs::set_permissions(&room, fs::Permissions::from_mode(0o777)).unwrap();
    let volume = format!(
        "apiVersion: v1\nkind: PersistentVolume\nmetadata: {{name: room}}\nspec: {{storageClassName: by-hand, \
         accessModes: [ReadWriteOnce], capacity: {{storage: 2Gi}}, hostPath: {{path: '{}'}}}}\n",
        room.display()
    );
    let file = cluster.machine.file("volume.yaml");
    fs::write(&file, volume).unwrap();
    cluster.kubectl(&["apply", "--filename", file.to_str().unwrap()]);
    let apply = cluster.apply("lost", &["--agents", "2", "--nats-claim", "by-hand"]);
    let applied = std::thread::scope(|scope| {
        let applied = scope.spawn(|| finish(apply));
        cluster.name_nats("lost");
        applied.join().unwrap()
    });
    applied.assert_exit(0);
    let claims = cluster.list("persistentvolumeclaims", Some("lost"));
    assert_eq!((claims.len(), &claims[0]["status"]["phase"]), (1, &Value::from("Bound")), "{claims:#?}");
    assert!(room.join("jetstream").is_dir(), "JetStream has its files there");

    let nats = format!("nats://{}:4222", cluster.name_nats("lost"));
    let agents = || -> BTreeSet<(String, String)> {
        let listed = finish(cluster.plimsoll(&["agents", "--nats", &nats, "--json"]));
        listed.assert_exit(0);
        let text = |one: &Value, key: &str| one[key].as_str().unwrap().to_owned();
        listed.json()["agents"].as_array().unwrap().iter().map(|one| (text(one, "name"), text(one, "state"))).collect()
    };
    let before: BTreeSet<String> = agents().into_iter().map(|(name, _)| name).collect();
    assert_eq!(before.len(), 2);
    let gone = before.first().unwrap();
    let server = cluster.serve(&[]);
    let load = ["load", &server.url, "--rate", "200", "-d", "12s", "-c", "4", "--agents", "2", "--nats", &nats];
    let more = ["--lost-after", "3s", "--json", "--no-record"];
    let [out, said] = ["out", "lost-said"].map(|name| cluster.machine.file(name));
    let mut load = cluster.plimsoll(&[&load[..], &more].concat());
    let streams = [&out, &said].map(|file| fs::File::create(file).unwrap());
    let [stdout, stderr] = streams;
    let mut load = Guard::spawn(load.stdout(stdout).stderr(stderr)).unwrap();
    cluster.until("both put load on", || agents().iter().filter(|(_, state)| state == "running").count() == 2);
    // To delete its pod would tell it to end, and it would hand over what it has.
    let pid = process_of(gone);
    assert!(Command::new("kill").args(["-s", "KILL", &pid]).status().unwrap().success());
    let status = load.wait(testkit::HANG_GUARD).and_then(|status| status.code());
    let document: Value = serde_json::from_str(&fs::read_to_string(&out).unwrap())
        .unwrap_or_else(|_| panic!("{}", fs::read_to_string(&said).unwrap()));
    assert_eq!(status, Some(4), "less was put on than was asked for: {:#}", document["validity"]);
    let shortfalls = document["generators"]["shortfalls"].to_string();
    assert!(shortfalls.contains(gone.as_str()), "{gone} is not named: {shortfalls}");
    cluster.until("there are two again", || agents().len() == 2);
    let pods = cluster.list("pods", Some("lost"));
    let again = pods.iter().find(|pod| pod["metadata"]["name"] == gone.as_str()).unwrap();
    assert_eq!(again["status"]["containerStatuses"][0]["restartCount"], 1, "{again:#}");
    assert_ne!(process_of(gone), pid);
    // One that is told to end has done what it was there for.
    cluster.kubectl(&["delete", "pod", gone, "--namespace", "lost"]);
    let job = || cluster.list("jobs", Some("lost"))[0]["status"].clone();
    cluster.until("its index is done", || job()["completedIndexes"] == "0");
    assert_eq!((&job()["active"], agents().len()), (&Value::from(1), 1));
    cluster.delete("lost");
    cluster.kubectl(&["delete", "persistentvolume", "room"]);
}

/// The process of an agent, by the name that it has from its pod.
fn process_of(name: &str) -> String {
    let wanted = format!("PLIMSOLL_NAME={name}");
    let is_it = |folder: &Path| {
        let environment = fs::read(folder.join("environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|variable| variable == wanted.as_bytes())
    };
    let folders = fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().path());
    let found: Vec<PathBuf> = folders.filter(|folder| is_it(folder)).collect();
    assert_eq!(found.len(), 1, "{name}: {found:?}");
    found[0].file_name().unwrap().to_str().unwrap().to_owned()
}
