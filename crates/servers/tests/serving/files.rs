//! Files below a root: whole, in ranges, on conditions, never from outside; with a bare client and curl.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use crate::common::{Running, WAYS_OUT, noise};
use servers::ServeOptions;
use servers::http::HttpOptions;

const SIZES: &[usize] = &[0, 1, 1024, 8192, 8193, 65_536, 65_537, 3_000_000];

struct Site {
    folder: tempfile::TempDir,
    server: Running,
}

fn site() -> Site {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("root");
    std::fs::create_dir_all(root.join("sub/empty")).unwrap();
    for size in SIZES {
        std::fs::write(root.join(format!("{size}.bin")), noise(*size)).unwrap();
    }
    std::fs::write(root.join("index.html"), "<p>root").unwrap();
    std::fs::write(root.join("sub/index.html"), "<p>sub").unwrap();
    std::fs::write(root.join("sub/a b.txt"), "spaced").unwrap();
    std::fs::write(folder.path().join("secret"), "secret").unwrap();
    let http = HttpOptions { root: Some(root), ..HttpOptions::default() };
    Site { server: Running::http(ServeOptions::default(), http), folder }
}

impl Site {
    fn root(&self) -> std::path::PathBuf {
        self.folder.path().join("root")
    }

    fn get_with(&self, path: &str, fields: &str) -> crate::common::Reply {
        self.server.ask(&format!("GET {path} HTTP/1.1\r\nHost: t\r\n{fields}\r\n"))
    }
}

#[test]
fn files_come_whole_by_every_way_they_are_sent() {
    let site = site();
    let mut client = site.server.connect();
    for round in 0..2 {
        for size in SIZES {
            client.send(format!("GET /{size}.bin?x HTTP/1.1\r\nHost: t\r\n\r\n").as_bytes());
            let reply = client.reply(false);
            assert_eq!(reply.status, 200);
            assert!(reply.body == noise(*size), "{size} in round {round}");
            client.send(format!("HEAD /{size}.bin HTTP/1.1\r\nHost: t\r\n\r\n").as_bytes());
            assert_eq!(client.reply(true).field("Content-Length"), Some(size.to_string().as_str()));
        }
    }
    // All at once, pipelined.
    let pipeline: String = SIZES.iter().map(|size| format!("GET /{size}.bin HTTP/1.1\r\nHost: t\r\n\r\n")).collect();
    client.send(pipeline.repeat(5).as_bytes());
    for _ in 0..5 {
        for size in SIZES {
            assert!(client.reply(false).body == noise(*size), "{size} pipelined");
        }
    }
    for (path, body, kind) in [
        ("/", "<p>root", "text/html"),
        ("/index.html", "<p>root", "text/html"),
        ("/sub/", "<p>sub", "text/html"),
        ("/sub/a%20b.txt", "spaced", "text/plain"),
        ("//sub/./../sub//%61%20b.txt", "spaced", "text/plain"),
        ("http://other/sub/", "<p>sub", "text/html"),
    ] {
        let reply = site.server.get(path);
        assert_eq!((reply.status, reply.text()), (200, body), "{path}");
        assert_eq!(reply.field("Content-Type"), Some(kind), "{path}");
    }
    let moved = site.server.get("/sub?q=1");
    assert_eq!((moved.status, moved.field("Location")), (301, Some("/sub/?q=1")));
    assert_eq!(site.server.get("//sub").field("Location"), Some("/sub/"), "not another host");
    for (path, status) in [
        ("/none", 404),
        ("/index.html/", 404),
        ("/index.html/x", 404),
        ("/sub/empty/", 403),
        ("/none/", 404),
        ("/cpu?us=1", 404),
        ("/echo", 404),
    ] {
        assert_eq!(site.server.get(path).status, status, "{path}");
    }
    let name = format!("/{}", "n".repeat(300));
    assert_eq!(site.server.get(&name).status, 404);
    let refused = site.server.ask("POST / HTTP/1.1\r\nHost: t\r\nContent-Length: 1\r\n\r\nx");
    assert_eq!((refused.status, refused.field("Allow")), (405, Some("GET, HEAD")));
    let counters = site.server.finish();
    assert_eq!(counters.send_error + counters.recv_error, 0, "{counters:?}");
}

#[test]
fn nothing_outside_the_root_is_served() {
    let site = site();
    let root = site.root();
    let outside = site.folder.path().join("secret");
    symlink(&outside, root.join("absolute")).unwrap();
    symlink("../secret", root.join("relative")).unwrap();
    symlink("..", root.join("up")).unwrap();
    symlink("/", root.join("slash")).unwrap();
    symlink("/proc/self/root", root.join("magic")).unwrap();
    symlink("loop", root.join("loop")).unwrap();
    symlink("sub/index.html", root.join("inside")).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, root.join("pipe"), rustix::fs::Mode::RUSR).unwrap();
    std::os::unix::net::UnixListener::bind(root.join("socket")).unwrap();
    assert_eq!(site.server.get("/inside").text(), "<p>sub", "a link that stays inside is fine");
    let others = [
        "/%2E%2E/%2E%2E/%2E%2E/etc/passwd",
        "/index.html%00",
        "/%c0%ae%c0%ae/secret",
        "/absolute",
        "/relative",
        "/up/secret",
        "/up/",
        "/slash/etc/passwd",
        "/magic/etc/passwd",
        "/loop",
        "/pipe",
        "/socket",
    ];
    for path in WAYS_OUT.into_iter().chain(others) {
        for _ in 0..2 {
            let reply = site.server.get(path);
            assert!([400, 403, 404].contains(&reply.status), "{path}: {reply:?}");
            assert!(!reply.text().contains("secret"), "{path}");
        }
    }
    // One that turns into a link out after it was remembered: at the latest a second later it is gone.
    std::fs::write(root.join("turns"), "inside").unwrap();
    assert_eq!(site.server.get("/turns").text(), "inside");
    std::fs::remove_file(root.join("turns")).unwrap();
    symlink(&outside, root.join("turns")).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(1100));
    assert_eq!(site.server.get("/turns").status, 403);
    site.server.finish();
}

#[test]
fn ranges_are_exact_in_memory_and_from_disk() {
    let site = site();
    for size in [1024_usize, 65_536, 65_537, 3_000_000] {
        let (path, whole) = (format!("/{size}.bin"), noise(size));
        for (from, to) in [(0, 1), (0, size), (1, size - 1), (size - 1, size), (size / 2, size / 2 + 500), (100, size)]
        {
            let reply = site.get_with(&path, &format!("Range: bytes={from}-{}\r\n", to - 1));
            assert_eq!(reply.status, 206);
            assert_eq!(reply.field("Content-Range"), Some(format!("bytes {from}-{}/{size}", to - 1).as_str()));
            assert!(reply.body == whole[from..to], "{from}..{to} of {size}");
        }
        assert!(site.get_with(&path, "Range: bytes=-7\r\n").body == whole[size - 7..]);
        let beyond = site.get_with(&path, &format!("Range: bytes={size}-\r\n"));
        assert_eq!((beyond.status, beyond.field("Content-Range")), (416, Some(format!("bytes */{size}").as_str())));
        assert_eq!(site.get_with(&path, "Range: bytes=0-0,5-6\r\n").status, 200, "lists are answered whole");
    }
    site.server.finish();
}

#[test]
fn conditions_are_honoured_and_follow_the_file() {
    let site = site();
    let first = site.server.get("/1024.bin");
    let (etag, modified) = (first.field("ETag").unwrap(), first.field("Last-Modified").unwrap());
    for fields in [format!("If-None-Match: {etag}\r\n"), format!("If-Modified-Since: {modified}\r\n")] {
        let reply = site.get_with("/1024.bin", &fields);
        assert_eq!((reply.status, reply.field("ETag"), reply.body.len()), (304, Some(etag), 0), "{fields}");
    }
    assert_eq!(site.get_with("/1024.bin", "If-None-Match: \"other\"\r\n").status, 200);
    assert_eq!(site.get_with("/1024.bin", "If-Match: \"other\"\r\n").status, 412);
    let path = site.root().join("1024.bin");
    std::fs::write(&path, "new").unwrap();
    std::thread::sleep(std::time::Duration::from_millis(1100));
    let changed = site.get_with("/1024.bin", &format!("If-None-Match: {etag}\r\n"));
    assert_eq!((changed.status, changed.text()), (200, "new"));
    site.server.finish();
}

#[test]
fn a_file_cut_while_it_is_sent_ends_the_connection_and_not_the_server() {
    let site = site();
    let path = site.root().join("huge");
    let file = std::fs::File::create(&path).unwrap();
    file.set_len(1 << 30).unwrap();
    let mut client = site.server.connect();
    client.send(b"GET /huge HTTP/1.1\r\nHost: t\r\n\r\n");
    // It has begun, and nobody reads the rest of it yet.
    assert!(!client.is_at_end());
    file.set_len(0).unwrap();
    let got = client.rest();
    assert!(got.len() < 1 << 30, "the missing rest is not made up");
    assert_eq!(site.server.get("/").status, 200);
    assert_eq!(site.server.finish().send_error, 1);
}

#[test]
fn curl_agrees() {
    if Command::new("curl").arg("--version").output().is_err() {
        eprintln!("skipped: curl is not installed");
        return;
    }
    let site = site();
    let base = format!("http://{}", site.server.addrs[0]);
    let curl = |arguments: &[&str], path: &str| {
        let url = format!("{base}{path}");
        let run = Command::new("curl").args(["-sS", "--max-time", "20"]).args(arguments).arg(url).output().unwrap();
        assert!(run.status.success(), "{arguments:?} {path}: {}", String::from_utf8_lossy(&run.stderr));
        run.stdout
    };
    assert!(curl(&[], "/3000000.bin") == noise(3_000_000));
    assert!(curl(&["--http1.0"], "/65536.bin") == noise(65_536));
    assert!(curl(&["-r", "10-19"], "/1024.bin") == noise(1024)[10..20]);
    assert_eq!(curl(&["--path-as-is", "-o", "/dev/null", "-w", "%{http_code}"], "/../secret"), b"400");
    assert_eq!(curl(&["-L"], "/sub"), b"<p>sub");
    curl_ranges_and_conditions(&site, &curl);
    let head = String::from_utf8(curl(&["-I"], "/1024.bin")).unwrap();
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n") && head.contains("Content-Length: 1024\r\n"), "{head}");
    let stamp = site.folder.path().join("etag");
    let stamp = stamp.to_str().unwrap();
    curl(&["--etag-save", stamp], "/1024.bin");
    assert_eq!(curl(&["--etag-compare", stamp, "-w", "%{http_code}"], "/1024.bin"), b"304");
    curl_uploads(&site.folder.path().join("root/3000000.bin"));
    site.server.finish();
}

fn curl_ranges_and_conditions(site: &Site, curl: &impl Fn(&[&str], &str) -> Vec<u8>) {
    let whole = noise(3_000_000);
    let status = |arguments: &[&str], path: &str| {
        let with_status = [arguments, &["-o", "/dev/null", "-w", "%{http_code}"]].concat();
        String::from_utf8(curl(&with_status, path)).unwrap()
    };
    assert!(curl(&["-r", "-7"], "/3000000.bin") == whole[3_000_000 - 7..]);
    assert!(curl(&["-r", "2999000-"], "/3000000.bin") == whole[2_999_000..]);
    assert_eq!(status(&["-r", "3000000-"], "/3000000.bin"), "416");
    assert_eq!(status(&["-I", "-r", "0-9"], "/3000000.bin"), "200");
    // A download that goes on where it was cut.
    let part = site.folder.path().join("part");
    std::fs::write(&part, &whole[..1_234_567]).unwrap();
    assert_eq!(curl(&["-C", "-", "-o", part.to_str().unwrap(), "-w", "%{http_code}"], "/3000000.bin"), b"206");
    assert!(std::fs::read(&part).unwrap() == whole);
    // `-z DATE`: only if newer; `-z -DATE`: only if not.
    assert_eq!(status(&["-z", "31 Dec 2100"], "/1024.bin"), "304");
    assert_eq!(status(&["-z", "1 Jan 2000"], "/1024.bin"), "200");
    assert_eq!(status(&["-z", "-1 Jan 2000"], "/1024.bin"), "412");
    symlink(site.folder.path().join("secret"), site.root().join("out")).unwrap();
    for (path, expected) in [("/%2e%2e/secret", "400"), ("/sub/..%2f..%2fsecret", "400"), ("/out", "403")] {
        assert_eq!(status(&["--path-as-is"], path), expected, "{path}");
    }
}

fn curl_uploads(file: &Path) {
    let server = crate::common::http_default();
    let url = format!("http://{}/echo", server.addrs[0]);
    let file = file.to_str().unwrap();
    // Above 1 MiB curl asks with `Expect: 100-continue` first.
    for arguments in [&["-T", file][..], &["-T", file, "-H", "Transfer-Encoding: chunked"]] {
        let run = Command::new("curl").args(["-sS", "--max-time", "20"]).args(arguments).arg(&url).output().unwrap();
        assert!(run.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&run.stderr));
        assert!(run.stdout == noise(3_000_000), "{arguments:?}");
    }
    server.finish();
}
