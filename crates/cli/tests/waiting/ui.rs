//! `plimsoll ui`: recordings in a browser. Who may look and delete, what is shown of each, what may not be deleted. What a
//! browser makes of it is tested in `web/tests/library.test.ts`.

use crate::common::*;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;
use testkit::process::Guard;

struct Ui {
    process: Guard,
    host: String,
    token: String,
}

impl Ui {
    fn start(folder: &Path) -> Self {
        let mut ui = command(&["ui", "127.0.0.1:0", "--folder", folder.to_str().unwrap()]);
        let mut process = Guard::spawn(ui.stdout(Stdio::piped())).unwrap();
        let mut line = String::new();
        BufReader::new(process.child().stdout.take().unwrap()).read_line(&mut line).unwrap();
        let (host, token) = line.trim().rsplit_once("http://").unwrap().1.split_once("/?token=").unwrap();
        Ui { process, host: host.to_owned(), token: token.to_owned() }
    }

    fn get(&self, path: &str) -> (u16, String) {
        let cookie = format!("plimsoll-{}={}", self.host.rsplit(':').next().unwrap(), self.token);
        let (status, _, body) = ask(&self.host, "GET", path, &[("Cookie", &cookie)], "");
        (status, body)
    }

    fn delete(&self, id: &str, origin: &str) -> (u16, String) {
        let cookie = format!("plimsoll-{}={}", self.host.rsplit(':').next().unwrap(), self.token);
        let body = serde_json::json!({ "id": id }).to_string();
        let (status, _, body) = ask(&self.host, "POST", "/delete", &[("Cookie", &cookie), ("Origin", origin)], &body);
        (status, body)
    }
}

/// A short run, recorded there.
fn recorded(url: &str, path: &Path) {
    plimsoll(&["load", url, "--rate", "50", "-d", "1s", "-c", "2", "--record", path.to_str().unwrap()])
        .assert_measured();
}

#[test]
fn recordings_are_listed_shown_compared_and_deleted_by_who_has_the_token_alone() {
    let server = serve_http(&[]);
    let folder = tempfile::tempdir().unwrap();
    let of = |id: &str| folder.path().join(format!("{id}.plimsoll"));
    let strange = "b <i>&\"'é #1";
    recorded(&server.url, &of("a"));
    recorded(&server.url, &of(strange));
    std::fs::write(of("damaged"), "this is no recording").unwrap();
    std::fs::write(folder.path().join("notes.txt"), "not to be seen").unwrap();
    let ui = Ui::start(folder.path());
    for path in ["/", "/run/a", "/compare?run=a&run=a", "/?token=nonsense"] {
        assert_eq!(ask(&ui.host, "GET", path, &[], "").0, 403, "{path}");
    }
    let list = ui.get("/").1;
    assert_eq!(list.matches("<tr data-id=").count(), 3, "{list}");
    assert!(list.contains("valid") && list.contains("unreadable") && !list.contains("<i>"), "{list}");
    // A recording is shown as `report --html` shows it.
    let (status, page) = ui.get("/run/a");
    let again = plimsoll(&["report", of("a").to_str().unwrap(), "--html", "-"]);
    assert!(status == 200 && page == again.stdout);
    assert_eq!(ui.get("/run/b%20%3Ci%3E%26%22%27%C3%A9%20%231").0, 200);
    assert_eq!(ui.get("/run/damaged").0, 404);
    let (status, page) = ui.get("/compare?run=a&run=b%20%3Ci%3E%26%22%27%C3%A9%20%231");
    assert!(status == 200 && page.contains("a.plimsoll"), "{page}");
    assert_eq!(ui.get("/compare?run=a").0, 400);
    // Nothing but what the list has, and nothing by a part of its name.
    for foreign in
        ["/run/..%2F..%2Fetc%2Fpasswd", "/run/notes", "/run/notes.txt", "/run/last", "/run/dam", "/run/%00", "/run/%ff"]
    {
        assert!(matches!(ui.get(foreign).0, 400 | 404), "{foreign}");
    }
    // Deleted from the page itself only, once, and nothing else with it.
    let origin = format!("http://{}", ui.host);
    assert_eq!(ui.delete("a", "http://evil.example").0, 403);
    for nobody in ["../a", "", "d", "notes", "*"] {
        assert_eq!(ui.delete(nobody, &origin).0, 409, "{nobody}");
    }
    assert!(of("a").exists());
    assert_eq!(ui.delete("a", &origin).0, 200);
    assert_eq!(ui.delete("damaged", &origin).0, 200);
    assert!(!of("a").exists() && !of("damaged").exists() && of(strange).exists());
    assert!(folder.path().join("notes.txt").exists());
    let list = ui.get("/").1;
    assert_eq!(list.matches("<tr data-id=").count(), 1, "{list}");
    let mut ui = ui;
    ui.process.signal(2);
    assert_eq!(ui.process.wait(Duration::from_secs(30)).and_then(|status| status.code()), Some(0));
}

#[test]
fn a_recording_of_a_run_that_goes_on_is_not_deleted() {
    let server = serve_http(&[]);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("now.plimsoll");
    let mut load = command(&["load", &server.url, "--rate", "50", "-d", "60s", "--record", path.to_str().unwrap()]);
    let mut load = Guard::spawn(load.stdout(Stdio::piped()).stderr(Stdio::null())).unwrap();
    wait_for_load(&server);
    let ui = Ui::start(folder.path());
    testkit::wait_until("something is recorded", || ui.get("/").1.contains("partial"));
    let (status, why) = ui.delete("now", &format!("http://{}", ui.host));
    assert!(status == 409 && why.contains("is being written"), "{why}");
    assert!(ui.get("/run/now").0 == 200, "but it is shown as far as it is");
    load.signal(2);
    assert_eq!(load.wait(Duration::from_secs(60)).and_then(|status| status.code()), Some(130));
    assert_eq!(ui.delete("now", &format!("http://{}", ui.host)).0, 200);
    assert!(std::fs::read_dir(folder.path()).unwrap().all(|entry| {
        let name = entry.unwrap().file_name();
        !name.to_string_lossy().starts_with("now")
    }));
}

#[test]
fn an_empty_folder_and_one_that_is_not_there_say_what_makes_a_recording() {
    let folder = tempfile::tempdir().unwrap();
    for folder in [folder.path().to_owned(), folder.path().join("none")] {
        assert!(Ui::start(&folder).get("/").1.contains("plimsoll load URL"));
    }
}

#[test]
fn what_cannot_be_served_is_said_with_the_next_step() {
    let run = plimsoll(&["ui", "nonsense"]);
    run.assert_exit(2);
    assert!(run.stderr.contains("such as 127.0.0.1:7546"), "{}", run.stderr);
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let run = plimsoll(&["ui", &taken.local_addr().unwrap().to_string()]);
    run.assert_exit(1);
    assert!(run.stderr.contains("choose another address"), "{}", run.stderr);
}
