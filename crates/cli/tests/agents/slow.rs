//! An agent that is much slower than the others: it is named with what it did not do, and the others' part is whole.

use super::common::*;
use super::*;

#[test]
fn an_agent_that_is_ten_times_slower_is_named() {
    if !testkit::is_root() {
        testkit::skip("a quota needs root");
        return;
    }
    let Some(nats) = nats() else { return };
    let place = Place::new(&nats.url());
    let server = serve_http(&[]);
    let _sound = place.agent("sound", &["--cores", "1"]);
    let slow = place.agent("slow", &["--cores", "1"]);
    // It wants some four tenths of a core for its part, and may have a twenty-fifth of one.
    let mut limit = limited(slow.pid(), "0.04");
    let run = finish(&mut place.load(&server.url, "2", &["--rate", "8000", "-d", "4s", "-c", "16"]));
    limit.signal(libc::SIGINT);
    limit.wait(testkit::HANG_GUARD);
    run.assert_exit(4);
    let document = run.json();
    let of = |name: &str| generators(&document).into_iter().find(|one| one["name"] == name).unwrap();
    let (sound, slow) = (of("sound"), of("slow"));
    assert_eq!((count(&sound, "/requests"), &slow["validity"]), (16_000, &"not-valid".into()), "{sound:#}\n{slow:#}");
    assert!(count(&slow, "/requests") < 16_000, "{slow:#}");
    let reasons: Vec<&str> =
        document["validity"]["reasons"].as_array().unwrap().iter().map(|one| one["text"].as_str().unwrap()).collect();
    let own = "generator 'slow': the generator was kept from running: a CPU quota held it ";
    assert!(reasons.iter().any(|text| text.starts_with(own)), "{reasons:#?}");
    // What the pooled readings say of it is said once. Beside other tests the sound one may have been kept from running, too.
    assert!(reasons.iter().all(|text| text.starts_with("generator '")), "{reasons:#?}");
    let first = document["gives"]["text"].as_str().unwrap();
    let named = ["generator 'slow' was kept from running", "all generators were kept from running"];
    // Beside other tests these may have the target's CPU, too: it is left out only where they explain all but all.
    let losses = document["losses"].as_array().unwrap();
    let is_open = |loss: &Value| loss["unexplained"].as_f64().unwrap() >= 0.1;
    let explained = !losses.is_empty() && !losses.iter().any(is_open);
    assert!(explained || named.iter().any(|named| first.contains(named)), "{first}\n{losses:#?}");
}
