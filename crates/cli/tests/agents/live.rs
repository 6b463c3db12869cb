//! The live page of a load that agents put on: made of what their ticks tell, and ended by whoever may.

use super::common::*;
use super::*;

/// The data of the next event of that name, of a page's stream.
fn next(stream: &mut BufReader<TcpStream>, wanted: &str) -> String {
    let (mut name, mut line) = (String::new(), String::new());
    loop {
        line.clear();
        assert!(stream.read_line(&mut line).unwrap() > 0, "expected '{wanted}', and the stream ended");
        if let Some(event) = line.strip_prefix("event: ") {
            event.trim().clone_into(&mut name);
        } else if let Some(data) = line.strip_prefix("data: ").filter(|_| name == wanted) {
            return data.trim().to_owned();
        }
    }
}

#[test]
fn a_load_of_agents_is_shown_while_it_goes_on_and_its_report_when_it_has_ended() {
    let Some(nats) = nats() else { return };
    let place = Place::new(&nats.url());
    let server = serve_http(&[]);
    let _agents = place.agents(&["a", "b"]);
    let more = ["--rate", "300", "-d", "5s", "-c", "4", "--tick", "200ms", "--live", "127.0.0.1:0"];
    let load = place.begin(&server.url, "2", &more);
    let said = || std::fs::read_to_string(place.file("said")).unwrap();
    let host = testkit::wait_for("the page's address is said", || {
        Some(said().split_once("live page: http://")?.1.split_once('/')?.0.to_owned())
    });
    let stream = TcpStream::connect(&host).unwrap();
    stream.set_read_timeout(Some(testkit::HANG_GUARD)).unwrap();
    write!(&stream, "GET /events HTTP/1.1\r\nHost: {host}\r\n\r\n").unwrap();
    let mut events = BufReader::new(stream);
    // The first has one interval, of which there is no chart.
    let shown = std::iter::repeat_with(|| serde_json::from_str::<Value>(&next(&mut events, "frame")).unwrap());
    let with_chart =
        |frame: &Value| frame["body"].as_str().is_some_and(|body| body.contains("id=\"chart-throughput\""));
    let frame = shown.take(10).find(with_chart).expect("a frame with the course of its throughput");
    let body = frame["body"].as_str().unwrap();
    assert!(body.contains("requests/s") && body.contains(concat!("plimsoll ", env!("CARGO_PKG_VERSION"))));
    assert_eq!(frame["planned_s"], 5.0);
    next(&mut events, "ended");
    assert_whole(&place.ended(load), 2, 1500);
}
