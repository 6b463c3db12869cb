//! The proxy's cache: what is a hit, what is not, when it ends, and that it stays within its bytes.

use std::time::{Duration, Instant};

use crate::common::proxy::{Proxied, proxy_to};
use crate::common::{HANG_GUARD, Reply};
use servers::proxy::ProxyOptions;
use testkit::nginx::Nginx;

const SERVER: &str = r#"
    add_header X-Request $request_id;
    location /fresh { alias www/index.html; add_header Cache-Control "max-age=3600"; add_header X-Request $request_id; }
    location /second { alias www/index.html; add_header Cache-Control "max-age=1"; add_header X-Request $request_id; }
    location /shared { alias www/index.html; add_header Cache-Control "max-age=3600, s-maxage=0"; add_header X-Request $request_id; }
    location /private { alias www/index.html; add_header Cache-Control "private, max-age=3600"; add_header X-Request $request_id; }
    location /no-store { alias www/index.html; add_header Cache-Control "no-store, max-age=3600"; add_header X-Request $request_id; }
    location /vary { alias www/index.html; add_header Cache-Control "max-age=3600"; add_header Vary X-Kind; add_header X-Request $request_id; }
    location /cookie { alias www/index.html; add_header Cache-Control "max-age=3600"; add_header Set-Cookie a=b; add_header X-Request $request_id; }
    location /plain { alias www/index.html; add_header X-Request $request_id; }
    location /missing { return 404; add_header Cache-Control "max-age=3600" always; }
"#;

fn nginx() -> Option<Nginx> {
    match Nginx::start(SERVER) {
        Ok(nginx) => Some(nginx),
        Err(why) => {
            testkit::skip(&why.to_string());
            None
        }
    }
}

fn ask(proxy: &Proxied, path: &str, fields: &str) -> Reply {
    proxy.ask(&format!("GET {path} HTTP/1.1\r\nHost: t\r\n{fields}\r\n"))
}

fn is_hit(reply: &Reply) -> bool {
    assert_eq!(reply.field("Cache-Status").is_some(), reply.field("Age").is_some(), "{reply:?}");
    reply.field("Cache-Status") == Some("plimsoll; hit")
}

#[test]
fn only_what_is_explicitly_fresh_is_answered_from_memory() {
    let Some(nginx) = nginx() else { return };
    let proxy = proxy_to(&[nginx.address()], ProxyOptions { cache_bytes: 1 << 20, ..ProxyOptions::default() });
    let first = ask(&proxy, "/fresh", "");
    let second = ask(&proxy, "/fresh", "");
    assert!(!is_hit(&first) && is_hit(&second), "{second:?}");
    assert_eq!((first.body.len(), &first.body), (612, &second.body));
    assert_eq!(first.field("X-Request"), second.field("X-Request"));
    let head = proxy.ask("HEAD /fresh HTTP/1.1\r\nHost: t\r\n\r\n");
    assert!(is_hit(&head) && head.field("Content-Length") == Some("612"));
    let etag = first.field("ETag").unwrap().to_owned();
    let modified = first.field("Last-Modified").unwrap().to_owned();
    for condition in [format!("If-None-Match: {etag}\r\n"), format!("If-Modified-Since: {modified}\r\n")] {
        let reply = ask(&proxy, "/fresh", &condition);
        assert_eq!((reply.status, is_hit(&reply)), (304, true), "{condition}");
    }
    assert_eq!(ask(&proxy, "/fresh", "If-None-Match: \"other\"\r\n").status, 200);
    for fields in
        ["Cache-Control: no-cache\r\n", "Cache-Control: no-store\r\n", "Authorization: x\r\n", "Range: bytes=0-1\r\n"]
    {
        assert!(!is_hit(&ask(&proxy, "/fresh", fields)), "{fields}");
    }
    for path in ["/shared", "/private", "/no-store", "/cookie", "/plain", "/missing", "/fresh?other"] {
        assert!(!is_hit(&ask(&proxy, path, "")), "{path}");
        if path != "/fresh?other" {
            assert!(!is_hit(&ask(&proxy, path, "")), "{path} again");
        }
    }
    assert!(!is_hit(&proxy.ask("GET /fresh HTTP/1.1\r\nHost: other\r\n\r\n")), "another host, another thing");
    assert!(!is_hit(&ask(&proxy, "/vary", "X-Kind: a\r\n")));
    assert!(is_hit(&ask(&proxy, "/vary", "X-Kind: a\r\n")));
    assert!(!is_hit(&ask(&proxy, "/vary", "X-Kind: b\r\n")));
    assert!(!is_hit(&ask(&proxy, "/second", "")));
    let kept_at = Instant::now();
    while is_hit(&ask(&proxy, "/second", "")) {
        assert!(kept_at.elapsed() < HANG_GUARD, "it never ends");
        std::thread::sleep(Duration::from_millis(50));
    }
    let (counters, of_origins) = proxy.finish();
    assert!(of_origins.cache_hits >= 6, "{of_origins:?}");
    let by_origin = of_origins.upstream_connects + of_origins.upstream_reused;
    assert_eq!(of_origins.cache_hits + by_origin, counters.requests, "{of_origins:?}");
}

#[test]
fn a_change_through_the_proxy_forgets_and_large_objects_are_not_kept() {
    let Some(nginx) = Nginx::start("add_header Cache-Control max-age=3600; dav_methods PUT DELETE;").ok() else {
        return testkit::skip("nginx with its DAV module is needed");
    };
    std::fs::write(nginx.root().join("large"), vec![7; 70_000]).unwrap();
    let proxy = proxy_to(&[nginx.address()], ProxyOptions { cache_bytes: 1 << 20, ..ProxyOptions::default() });
    let first = ask(&proxy, "/index.html", "");
    assert_eq!((first.status, first.field("Cache-Control")), (200, Some("max-age=3600")), "{first:?}");
    let second = ask(&proxy, "/index.html", "");
    assert!(is_hit(&second), "{second:?}");
    let put = proxy.ask("PUT /index.html HTTP/1.1\r\nHost: t\r\nContent-Length: 3\r\n\r\nnew");
    assert_eq!(put.status, 204);
    let reply = ask(&proxy, "/index.html", "");
    assert!(!is_hit(&reply) && reply.body == b"new", "{reply:?}");
    for _ in 0..2 {
        let reply = ask(&proxy, "/large", "");
        assert!(!is_hit(&reply) && reply.body == [7; 70_000]);
    }
    proxy.finish();
}

#[test]
fn without_a_size_nothing_is_kept() {
    let Some(nginx) = nginx() else { return };
    let proxy = proxy_to(&[nginx.address()], ProxyOptions::default());
    (0..3).for_each(|_| assert!(!is_hit(&ask(&proxy, "/fresh", ""))));
    let (_, of_origins) = proxy.finish();
    assert_eq!((of_origins.cache_hits, of_origins.cache_misses), (0, 0));
}
