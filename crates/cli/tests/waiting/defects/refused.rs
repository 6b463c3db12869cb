//! What does not go with a defect is refused, in one sentence and as wrong usage.

use crate::common::plimsoll;

#[test]
fn what_cannot_be_meant_is_refused_in_one_sentence() {
    for (args, says) in [
        (&["--defect", "tls-rsa-4096"][..], "expected --tls with the defect tls-rsa-4096, got none"),
        (&["--tls", "--defect", "tls-rsa-4096@1s"], "cannot begin later than the server"),
        (
            &["--tls", "--tls-cert", "/x", "--tls-key-file", "/y", "--defect", "tls-rsa-4096"],
            "expected a certificate that is made with the defect tls-rsa-4096",
        ),
        (&["--tls", "--defect", "lost-wakeup"], "expected no --tls with the defect lost-wakeup"),
        (&["--tls", "--defect", "sigpipe"], "expected no --tls with the defect sigpipe"),
        (&["--tls", "--defect", "worker-starvation"], "expected no --tls with the defect worker-starvation"),
        (&["--defect", "thundering-herd"], "expected --workers 2 or more with the defect thundering-herd, got 1"),
        (&["--defect", "accept-imbalance"], "expected --workers 2 or more with the defect accept-imbalance, got 1"),
        (&["--defect", "fd-limit=1000m"], "expected a limit up to "),
    ] {
        let run = plimsoll(&[&["serve", "http", "--listen", "127.0.0.1:0"], args].concat());
        run.assert_exit(2);
        assert!(run.stderr.contains(says), "{args:?}: {}", run.stderr);
        assert_eq!(run.stderr.lines().count(), 1, "{}", run.stderr);
    }
    let run = plimsoll(&["serve", "echo", "--listen", "127.0.0.1:0", "--defect", "keepalive-off"]);
    run.assert_exit(2);
    assert!(run.stderr.contains("serve echo cannot carry the defect keepalive-off"), "{}", run.stderr);
}
