//! The same folder served by nginx and by us: the same requests, the same answers, byte for byte where it matters.
//!
//! Where the two differ on purpose the case says why; it fails, too, when they no longer do.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::symlink;
use std::time::Duration;

use crate::common::{Client, Reply, Running, WAYS_OUT, noise};
use servers::ServeOptions;
use servers::http::HttpOptions;
use testkit::nginx::Nginx;

const BYTES: usize = 1024;

struct Pair {
    nginx: Nginx,
    ours: Running,
}

fn pair(directives: &str, idle_timeout: Duration) -> Option<Pair> {
    let nginx = match Nginx::start(directives) {
        Ok(nginx) => nginx,
        Err(error) => {
            testkit::skip(&error.to_string());
            return None;
        }
    };
    let root = nginx.root();
    std::fs::create_dir_all(root.join("sub/empty")).unwrap();
    std::fs::write(root.join("file.bin"), noise(BYTES)).unwrap();
    std::fs::write(root.join("large.bin"), noise(3_000_000)).unwrap();
    std::fs::write(root.join("nothing.bin"), "").unwrap();
    std::fs::write(root.join("sub/index.html"), "<p>sub").unwrap();
    std::fs::write(root.parent().unwrap().join("secret"), "secret").unwrap();
    let http = HttpOptions { root: Some(root), ..HttpOptions::default() };
    let options = ServeOptions { idle_timeout: Some(idle_timeout), ..ServeOptions::default() };
    Some(Pair { ours: Running::http(options, http), nginx })
}

impl Pair {
    /// nginx's reply and ours. `{etag}` stands for the file's tag of each.
    fn ask(&self, method: &str, path: &str, fields: &str) -> [Reply; 2] {
        [self.nginx.address(), self.ours.addrs[0]].map(|addr| {
            let etag = ask(addr, "HEAD", "/file.bin", "").field("ETag").unwrap().to_owned();
            ask(addr, method, path, &fields.replace("{etag}", &etag))
        })
    }
}

fn ask(addr: SocketAddr, method: &str, path: &str, fields: &str) -> Reply {
    let mut client = Client::new(TcpStream::connect(addr).unwrap());
    client.send(format!("{method} {path} HTTP/1.1\r\nHost: t\r\n{fields}\r\n").as_bytes());
    client.reply(method == "HEAD")
}

/// What a client goes by. An error's text is each server's own.
fn essence(reply: &Reply) -> impl PartialEq + std::fmt::Debug {
    let field = |name: &str| reply.field(name).map(str::to_owned);
    let is_file = matches!(reply.status, 200 | 206);
    (
        reply.status,
        is_file.then(|| (reply.body.len(), digest(&reply.body))),
        is_file.then(|| field("Content-Length")),
        field("Content-Range"),
        field("Last-Modified").filter(|_| reply.status < 400),
        field("Accept-Ranges").filter(|_| reply.status == 200),
        field("ETag").is_some() && reply.status < 400,
        field("Location").map(|location| location.ends_with("/sub/")),
    )
}

fn digest(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    hasher.finish()
}

const LATER: &str = "Fri, 31 Dec 2100 23:59:59 GMT";
const EARLIER: &str = "Sun, 06 Nov 1994 08:49:37 GMT";

#[test]
fn ranges_conditions_and_methods_are_answered_as_nginx_does() {
    let Some(pair) = pair("", Duration::from_secs(75)) else { return };
    let modified = pair.ours.get("/file.bin").field("Last-Modified").unwrap().to_owned();
    let fields = [
        "Range: bytes=0-0",
        "Range: bytes=0-1023",
        "Range: bytes=100-",
        "Range: bytes=-7",
        "Range: bytes=-5000",
        "Range: bytes=1000-99999",
        "Range: bytes=1024-",
        "Range: bytes=5000-6000",
        "Range: bytes=-0",
        "Range: lines=0-5",
        "If-Range: {etag}\r\nRange: bytes=1-2",
        "If-Range: \"other\"\r\nRange: bytes=1-2",
        "If-Range: {modified}\r\nRange: bytes=1-2",
        "If-Range: {earlier}\r\nRange: bytes=1-2",
        "If-None-Match: {etag}",
        "If-None-Match: W/{etag}",
        "If-None-Match: \"a\", {etag}",
        "If-None-Match: *",
        "If-None-Match: \"a\"",
        "If-None-Match: \"a\"\r\nIf-Modified-Since: {modified}",
        "If-Modified-Since: {modified}",
        "If-Modified-Since: {earlier}",
        "If-Modified-Since: never",
        "If-Match: {etag}",
        "If-Match: *",
        "If-Match: \"a\"",
        "If-Unmodified-Since: {modified}",
        "If-Unmodified-Since: {earlier}",
        "If-Unmodified-Since: {later}",
    ];
    for line in fields {
        let line = line.replace("{modified}", &modified).replace("{earlier}", EARLIER).replace("{later}", LATER);
        for path in ["/file.bin", "/large.bin"] {
            if path == "/large.bin" && line.contains("{etag}") {
                continue;
            }
            let [theirs, ours] = pair.ask("GET", path, &format!("{line}\r\n"));
            assert_eq!(essence(&ours), essence(&theirs), "{path} with {line}");
        }
        if !line.contains("Range:") {
            let [theirs, ours] = pair.ask("HEAD", "/file.bin", &format!("{line}\r\n"));
            assert_eq!(essence(&ours), essence(&theirs), "HEAD with {line}");
        }
    }
    for (method, path) in [
        ("GET", "/file.bin"),
        ("HEAD", "/file.bin"),
        ("GET", "/nothing.bin"),
        ("GET", "/large.bin"),
        ("HEAD", "/large.bin"),
        ("GET", "/"),
        ("GET", "/sub/"),
        ("GET", "/sub"),
        ("GET", "/none"),
        ("HEAD", "/none"),
        ("GET", "/sub/empty/"),
        ("POST", "/file.bin"),
        ("DELETE", "/file.bin"),
    ] {
        let [theirs, ours] = pair.ask(method, path, "");
        assert_eq!(essence(&ours), essence(&theirs), "{method} {path}");
    }
    for (method, fields, theirs, ours, why) in [
        ("HEAD", "Range: bytes=0-0\r\n", 206, 200, "a range is defined for GET alone (RFC 9110 §14.2)"),
        ("GET", "Range: bytes=0-0,5-6\r\n", 206, 200, "a list may be answered whole (§14.2)"),
        ("GET", "If-Unmodified-Since: never\r\n", 412, 200, "a date that is none is to be ignored (§13.1.4)"),
        ("GET", "Range: bytes=5-2\r\n", 416, 200, "a range that is no range is as none (§14.1.1)"),
    ] {
        let statuses = pair.ask(method, "/file.bin", fields).map(|reply| reply.status);
        assert_eq!(statuses, [theirs, ours], "{why}");
    }
    pair.ours.finish();
}

#[test]
fn what_nginx_does_not_let_out_we_do_not() {
    let Some(pair) = pair("disable_symlinks on from=$document_root;", Duration::from_secs(75)) else { return };
    let root = pair.nginx.root();
    symlink("../secret", root.join("relative")).unwrap();
    symlink(root.parent().unwrap().join("secret"), root.join("absolute")).unwrap();
    symlink("..", root.join("up")).unwrap();
    let others = [
        "/.%2e/secret",
        "/%252e%252e/secret",
        "/.../secret",
        "/file.bin%00",
        "/%zz",
        "/relative",
        "/absolute",
        "/up/secret",
        "/sub/../file.bin",
        "/sub/%2e%2e/file.bin",
        "/./file.bin",
        "//file.bin",
        "/sub//../file.bin",
        "/file%2ebin",
        "/file.bin?../secret",
    ];
    for path in WAYS_OUT.into_iter().chain(others) {
        let [theirs, ours] = pair.ask("GET", path, "");
        if theirs.status < 400 {
            assert_eq!(essence(&ours), essence(&theirs), "{path}");
        } else {
            // Which of these is a matter of taste.
            assert!(
                [400, 403, 404].contains(&ours.status),
                "{path}: {} where nginx says {}",
                ours.status,
                theirs.status
            );
        }
        assert!(!ours.body.windows(6).any(|six| six == b"secret"), "{path}");
    }
    pair.ours.finish();
}

#[test]
fn connections_are_kept_and_ended_as_nginx_does() {
    let Some(pair) = pair("keepalive_timeout 2s;", Duration::from_secs(2)) else { return };
    for (version, field, is_kept) in [
        ("1.1", "", true),
        ("1.1", "Connection: close\r\n", false),
        ("1.1", "Connection: keep-alive\r\n", true),
        ("1.0", "", false),
        ("1.0", "Connection: keep-alive\r\n", true),
    ] {
        for addr in [pair.nginx.address(), pair.ours.addrs[0]] {
            let mut client = Client::new(TcpStream::connect(addr).unwrap());
            let request = format!("GET /file.bin HTTP/{version}\r\nHost: t\r\n{field}\r\n");
            client.send(request.as_bytes());
            assert!(client.reply(false).body == noise(BYTES));
            if is_kept {
                client.send(request.as_bytes());
                assert!(client.reply(false).body == noise(BYTES), "{addr} HTTP/{version} {field}");
            }
            // Closed at once, or after the idle timeout; either way nothing more is said.
            assert!(client.is_at_end(), "{addr} HTTP/{version} {field}");
        }
    }
    assert_eq!(pair.ours.finish().idle_closed, 3);
}
