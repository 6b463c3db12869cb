//! Targets in other namespaces of this host: `load` finds them by itself, and says why where it may not look.

use crate::common::*;
use std::process::{Command, Stdio};
use testkit::network::of_its_own;
use testkit::process::Guard;
use testkit::wait_until;

const PORT: &str = "8080";

/// Two network namespaces with a link between them: a server in one, the load from the other.
struct Linked {
    client: Guard,
    server: Guard,
    folder: tempfile::TempDir,
    /// The server's address: one that no other test of this machine has.
    address: String,
}

impl Linked {
    /// `link`: which of the addresses. `None`: it cannot be made here, and the reason is printed.
    fn new(link: u8, server: &mut Command) -> Option<Self> {
        let here = testkit::is_root() && testkit::program("ip").is_some() && testkit::program("nsenter").is_some();
        if !here {
            testkit::skip("a link between two network namespaces needs root, ip and nsenter");
            return None;
        }
        let client = Guard::spawn(of_its_own(Command::new("sleep").arg("600"))).unwrap();
        let server = Guard::spawn(of_its_own(server.stdout(Stdio::null()))).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let (link, own_pid) = (4 * u32::from(link), std::process::id());
        let ends = [1, 2].map(|end| format!("10.{}.{}.{}", own_pid >> 8 & 255, own_pid & 255, link + end));
        let linked = Linked { client, server, folder, address: ends[1].clone() };
        let (at_client, at_server) = (linked.client.pid(), linked.server.pid());
        let own = std::fs::read_link("/proc/self/ns/net").unwrap();
        for pid in [at_client, at_server] {
            wait_until("a namespace of its own", || {
                std::fs::read_link(format!("/proc/{pid}/ns/net")).is_ok_and(|there| there != own)
            });
        }
        let peer = at_server.to_string();
        run_in(at_client, &["ip", "link", "add", "p0", "type", "veth", "peer", "name", "p0", "netns", &peer])?;
        for (pid, address) in [at_client, at_server].into_iter().zip(&ends) {
            run_in(pid, &["ip", "addr", "add", &format!("{address}/30"), "dev", "p0"])?;
            run_in(pid, &["ip", "link", "set", "p0", "up"])?;
        }
        wait_until("the server listens", || {
            std::fs::read_to_string(format!("/proc/{at_server}/net/tcp")).is_ok_and(|table| table.contains(":1F90 "))
        });
        Some(linked)
    }

    /// The program in the client's namespace; `prefix`: what starts it there.
    fn plimsoll(&self, prefix: &[&str], args: &[&str]) -> Run {
        let pid = self.client.pid().to_string();
        let mut command = Command::new("nsenter");
        command.args(["-t", &pid, "-n", "--"]).args(prefix).arg(BIN).args(args);
        command.env("XDG_STATE_HOME", self.folder.path());
        finish(&mut command)
    }
}

fn run_in(pid: u32, words: &[&str]) -> Option<()> {
    let status = Command::new("nsenter").args(["-t", &pid.to_string(), "-n", "--"]).args(words).status().unwrap();
    if !status.success() {
        testkit::skip(&format!("{words:?} cannot be done here"));
    }
    status.success().then_some(())
}

fn load(url: &str) -> [&str; 11] {
    ["load", url, "-c", "4", "-d", "1s", "--tick", "200ms", "--json", "--no-record", "-q"]
}

#[test]
fn a_target_in_another_network_namespace_is_found_and_read_there() {
    let listen = format!("0.0.0.0:{PORT}");
    let Some(linked) = Linked::new(0, &mut command(&["serve", "http", "--listen", &listen])) else { return };
    let url = format!("http://{}:{PORT}/", linked.address);
    let document = linked.plimsoll(&[], &load(&url)).json();
    assert!(document["totals"]["ok"].as_u64().unwrap() > 0);
    let observed = &document["observed"];
    let pid = linked.server.pid();
    assert_eq!(observed["target"][0]["pid"], pid, "{}", document["samplers"]);
    assert_eq!(observed["metrics"]["network_pid"], pid);
    assert_eq!(observed["metrics"]["listeners"][0]["address"], listen);
    let counter = |name: &str| observed["metrics"]["network"][name]["delta"].as_i64().unwrap();
    assert!(counter("tcp_passive_opens") >= 4 && counter("tcp_active_opens") == 0, "that namespace's alone");
    assert!(observed["metrics"]["interfaces"].get("p0").is_some());

    // And nginx, started there in the same way, by its master and its worker.
    drop(linked);
    if testkit::program("nginx").is_none() {
        return testkit::skip("nginx is not installed");
    }
    let folder = tempfile::tempdir().unwrap();
    let own = folder.path().display();
    let configuration = format!(
        "daemon off; user root; worker_processes 1; pid {own}/pid; error_log {own}/log;\nevents {{}}\nhttp {{ access_log \
         off; client_body_temp_path {own}/a; proxy_temp_path {own}/b; fastcgi_temp_path {own}/c; uwsgi_temp_path \
         {own}/d; scgi_temp_path {own}/e; server {{ listen {PORT}; return 200 hello; }} }}\n"
    );
    std::fs::write(folder.path().join("nginx.conf"), configuration).unwrap();
    let mut nginx = Command::new(testkit::program("nginx").unwrap());
    nginx.arg("-e").arg(folder.path().join("log")).arg("-p").arg(folder.path());
    nginx.arg("-c").arg(folder.path().join("nginx.conf"));
    let Some(linked) = Linked::new(1, &mut nginx) else { return };
    let children = format!("/proc/{0}/task/{0}/children", linked.server.pid());
    wait_until("nginx has its worker", || std::fs::read_to_string(&children).is_ok_and(|list| !list.trim().is_empty()));
    let url = format!("http://{}:{PORT}/", linked.address);
    let document = linked.plimsoll(&[], &load(&url)).json();
    let targets = document["observed"]["target"].as_array().unwrap();
    assert_eq!(targets.len(), 2, "master and worker: {targets:?}");
    assert!(targets.iter().all(|target| target["name"] == "nginx"), "{targets:?}");
    // nginx's master ends its worker when it is told to end.
    linked.server.signal(15);
}

#[test]
fn of_two_targets_with_one_address_the_one_that_the_route_leads_to_is_found() {
    let listen = format!("0.0.0.0:{PORT}");
    let server = || command(&["serve", "http", "--listen", &listen]);
    let (Some(one), Some(other)) = (Linked::new(3, &mut server()), Linked::new(3, &mut server())) else { return };
    for linked in [&one, &other] {
        let url = format!("http://{}:{PORT}/", linked.address);
        let document = linked.plimsoll(&[], &load(&url)).json();
        assert_eq!(document["observed"]["target"][0]["pid"], linked.server.pid(), "{}", document["samplers"]);
        assert_eq!(document["observed"]["target"].as_array().unwrap().len(), 1);
    }
}

#[test]
fn without_the_rights_to_look_into_others_the_status_says_what_is_wanted() {
    let Some(setpriv) = testkit::program("setpriv") else { return testkit::skip("setpriv is not installed") };
    let listen = format!("0.0.0.0:{PORT}");
    let Some(linked) = Linked::new(2, &mut command(&["serve", "http", "--listen", &listen])) else { return };
    let url = format!("http://{}:{PORT}/", linked.address);
    let without_rights = [setpriv.to_str().unwrap(), "--bounding-set=-all", "--inh-caps=-all", "--no-new-privs", "--"];
    let args = ["load", &url, "-c", "2", "-d", "500ms", "--json", "--no-record", "-q"];
    // Still root by name, so that the program can be read wherever it is, but without any capability.
    let document = linked.plimsoll(&without_rights, &args).json();
    assert!(document["totals"]["ok"].as_u64().unwrap() > 0, "the load itself needs none");
    let samplers = document["samplers"].as_array().unwrap();
    let target = samplers.iter().find(|sampler| sampler["name"] == "process/target").unwrap();
    let reason = target["reason"].as_str().unwrap();
    assert_ne!(target["status"], "active");
    assert!(reason.contains("CAP_SYS_ADMIN") && reason.contains("CAP_SYS_PTRACE"), "{reason}");
    assert!(reason.contains("--observe-at"), "{reason}");
}

#[test]
fn without_an_observer_nothing_is_read_and_that_is_said() {
    let server = serve_http(&[]);
    let load = ["load", &server.url, "-c", "2", "-d", "500ms", "--json", "--no-record", "-q"];
    let document = plimsoll(&[&load[..], &["--no-observe"]].concat()).json();
    assert!(document["totals"]["ok"].as_u64().unwrap() > 0);
    assert!(document["observed"]["target"].as_array().unwrap().is_empty());
    assert!(document["observed"]["host_busy"].is_null());
    let samplers = document["samplers"].as_array().unwrap();
    assert!(samplers.len() == 1 && samplers[0]["reason"].as_str().unwrap().contains("--no-observe"), "{samplers:?}");
    let both = plimsoll(&[&load[..], &["--no-observe", "--observe", "light"]].concat());
    both.assert_exit(2);
    assert!(both.stderr.contains("--observe"), "{}", both.stderr);
}
