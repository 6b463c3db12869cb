//! `plimsoll kubernetes` as far as no cluster is needed: the manifest, what is refused, and where no cluster is named. What a cluster
//! makes of it is in `cluster/`.
#![allow(clippy::unwrap_used, reason = "helpers of tests: to stop is to fail")]

mod common;
use common::{command, finish, plimsoll};

const WANTED: [&str; 4] = ["--image", "plimsoll:1", "--allow-target", "10.1.0.0/16:80"];

#[test]
fn the_manifest_is_printed_and_nothing_is_asked() {
    let mut print = command(&["kubernetes", "manifest"]);
    // No cluster could be reached.
    let run =
        finish(print.args(WANTED).args(["--agents", "7", "--rate-max", "5k/s"]).env("KUBECONFIG", "/nonexistent"));
    run.assert_exit(0);
    assert_eq!(run.stderr, "");
    let kinds: Vec<&str> = run.stdout.lines().filter(|line| line.starts_with("kind: ")).collect();
    assert_eq!(kinds, ["kind: ServiceAccount", "kind: ConfigMap", "kind: Service", "kind: StatefulSet", "kind: Job"]);
    for line in ["  completions: 7", "        - --rate-max=5000/s", "        image: plimsoll:1", "---"] {
        assert!(run.stdout.lines().any(|printed| printed == line), "no line '{line}' in:\n{}", run.stdout);
    }
    assert!(!run.stdout.contains("namespace:"), "kubectl's own holds");
}

#[test]
fn what_cannot_be_meant_ends_in_one_sentence_and_status_2() {
    let cases: &[(&[&str], &str)] = &[
        (&["--agents", "1025"], "--agents: expected 1 to 1024, got 1025"),
        (&["--name", "Load"], "--name: expected 1 to 32 lower-case letters"),
        (&["--namespace", "a_b"], "--namespace: expected 1 to 63 lower-case letters"),
        (&["--memory", "1MiB"], "--memory: expected 64 MiB at the least"),
        (&["--label", "a b"], "--label: expected a word such as big"),
        (&["--nats", "nats://me:word@hub"], "put credentials into a Secret and give --credentials-secret"),
        (&["--nats", "http://hub"], "--nats: expected nats://HOST:PORT"),
        (&["--credentials-secret", "a"], "--nats"),
        (&["--token-secret", "A/b/c"], "--token-secret: expected the name of a Secret, or SECRET/KEY, got 'A/b/c'"),
        (&["--observe-node", "node-1"], "--observe-node: expected --token-secret with it"),
        (&["--observe-node", "a b"], "--observe-node: expected the name of a node"),
        (&["--nats-storage", "1MiB"], "--nats-storage: expected 256 MiB at the least"),
        (&["--allow-target", "a b"], "--allow-target"),
    ];
    for (more, expected) in cases {
        let run =
            plimsoll(&[&["kubernetes", "manifest", "--image", "plimsoll:1"], *more, &["--allow-target", "x"]].concat());
        run.assert_exit(2);
        assert!(run.stderr.contains(expected) && run.stderr.lines().count() == 1, "{more:?}: {}", run.stderr);
        assert!(!run.stderr.contains("me:word") && run.stdout.is_empty(), "{more:?}: {}", run.stderr);
    }
    for missing in [&WANTED[..2], &WANTED[2..]] {
        plimsoll(&[&["kubernetes", "manifest"], missing].concat()).assert_exit(2);
    }
}

#[test]
fn without_a_cluster_it_is_said_where_one_would_be_named() {
    let folder = tempfile::tempdir().unwrap();
    let broken = folder.path().join("broken");
    std::fs::write(&broken, "clusters: [").unwrap();
    for kubeconfig in ["/nonexistent", broken.to_str().unwrap()] {
        for (verb, more) in [("apply", &WANTED[..]), ("delete", &[])] {
            let mut run = command(&["kubernetes", verb]);
            let run = finish(run.args(more).env("KUBECONFIG", kubeconfig).env_remove("KUBERNETES_SERVICE_HOST"));
            run.assert_exit(1);
            assert!(run.stderr.contains("expected a cluster that a kubeconfig names"), "{}", run.stderr);
            assert!(run.stderr.contains("set KUBECONFIG to its file"), "{}", run.stderr);
        }
    }
    // One that does not answer, by an address of the loopback where nobody listens.
    let nobody = testkit::port::Reserved::new().unwrap();
    let text = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: it\nclusters: [{{name: it, cluster: {{server: 'http://{}'}}}}]\n\
         users: [{{name: it, user: {{}}}}]\ncontexts: [{{name: it, context: {{cluster: it, user: it}}}}]\n",
        nobody.address()
    );
    std::fs::write(&broken, text).unwrap();
    let run = finish(command(&["kubernetes", "delete"]).env("KUBECONFIG", &broken));
    run.assert_exit(1);
    assert!(
        run.stderr.contains("cannot be reached") && run.stderr.contains("check the kubeconfig's server"),
        "{}",
        run.stderr
    );
}
