//! Joining requests with what the target saw of them, by hand-made moments.

use diagnose::split::{Joiner, Parts, bands};
use model::Request;
use model::exchange::{Exchange, Exchanges};
use model::request::{IntervalRequests, Kept, RequestEnd, Set};
use model::split::{Passage, RunSplit, SplitRequest, TickSplit, Unsplit};
use std::net::SocketAddr;

fn peer(port: u16) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], port))
}

/// Due at 0, taken up after 1, sent after 3, ended at the given moment, all from `at`.
fn request(port: u16, at: u64, ended: u64) -> Request {
    Request {
        intended_ns: at,
        ready_ns: at + 1,
        sent_ns: at + 3,
        ended_ns: at + ended,
        ordinal: 2,
        local: Some(peer(port)),
        ..Request::default()
    }
}

fn exchange(port: u16, arrived_ns: i64, read_ns: i64, written_ns: i64) -> Exchange {
    Exchange { peer: peer(port), port: 80, arrived_ns, read_ns, written_ns }
}

fn seen(from_ns: i64, to_ns: i64, list: Vec<Exchange>) -> Option<Exchanges> {
    Some(Exchanges { from_ns, to_ns, list, ..Exchanges::default() })
}

fn tick(requests: &[Request]) -> IntervalRequests {
    let mut tick = IntervalRequests::default();
    for (key, request) in (0..).zip(requests) {
        tick.restore(Set::Sampled, Kept::new(key, *request));
    }
    tick
}

/// What becomes of one request beside what was seen in a window from 100 to 1000.
fn one(request: Request, list: Vec<Exchange>) -> TickSplit {
    let mut joiner = Joiner::new(1);
    joiner.push_requests(0, &tick(&[request]));
    joiner.push_reading(1001, seen(100, 1000, list))
}

fn passage(split: &TickSplit) -> Result<Passage, Unsplit> {
    assert_eq!((split.sampled.len(), split.cut), (1, 0), "{split:?}");
    split.sampled[0].passage
}

#[test]
fn a_request_has_the_exchange_of_its_own_connection_and_time() {
    let others = [exchange(7, 150, 160, 170), exchange(9, 210, 215, 220), exchange(7, 300, 310, 320)];
    let found = passage(&one(request(7, 200, 60), [&others[..], &[exchange(7, 205, 225, 240)]].concat()));
    assert_eq!(found, Ok(Passage { arrived_ns: 205, read_ns: 225, written_ns: 240 }));
    // A reply of several sends: the last of them that was sent before the reply was there.
    let sends = vec![exchange(7, 205, 225, 240), exchange(7, 205, 225, 250), exchange(7, 205, 225, 261)];
    assert_eq!(passage(&one(request(7, 200, 60), sends)).map(|p| p.written_ns), Ok(250));
    // A body that came after the server had said 100 Continue: from the first arrival on.
    let continued = vec![exchange(7, 205, 210, 212), exchange(7, 230, 235, 240)];
    let found = passage(&one(request(7, 200, 60), continued));
    assert_eq!(found, Ok(Passage { arrived_ns: 205, read_ns: 210, written_ns: 240 }));
    // On a loopback the reply may be read before the call that sent it has returned.
    assert_eq!(passage(&one(request(7, 200, 60), vec![exchange(7, 205, 225, 265)])).map(|p| p.written_ns), Ok(260));
}

#[test]
fn an_address_of_ipv4_is_one_whatever_the_socket_is_of() {
    let mapped = SocketAddr::new(std::net::Ipv4Addr::LOCALHOST.to_ipv6_mapped().into(), 7);
    let of = Request { local: Some(mapped), ..request(7, 200, 60) };
    assert!(passage(&one(of, vec![exchange(7, 205, 225, 240)])).is_ok());
}

#[test]
fn what_cannot_be_joined_has_its_reason() {
    let known = vec![exchange(7, 205, 225, 240)];
    let unknown = Request { local: None, ..request(7, 200, 60) };
    assert_eq!(passage(&one(unknown, known.clone())), Err(Unsplit::NoLocalAddress));
    assert_eq!(passage(&one(request(8, 200, 60), known.clone())), Err(Unsplit::NoExchange));
    // Read before it came, answered before it was read, or of another time.
    for wrong in [exchange(7, 205, 204, 240), exchange(7, 205, 245, 240), exchange(7, 202, 225, 240)] {
        assert_eq!(passage(&one(request(7, 200, 60), vec![wrong])), Err(Unsplit::OutOfOrder), "{wrong:?}");
    }
    // Two sockets of the target that one address is connected to at a time: which it was is not known.
    let other = Exchange { port: 81, ..known[0] };
    assert_eq!(passage(&one(request(7, 200, 60), vec![known[0], other])), Err(Unsplit::OutOfOrder));
    let mut pipelined = Joiner::new(2);
    pipelined.push_requests(0, &tick(&[request(7, 200, 60)]));
    assert_eq!(passage(&pipelined.push_reading(1001, seen(100, 1000, known))), Err(Unsplit::Pipelined));
}

#[test]
fn what_a_window_cuts_is_counted_and_what_lies_outside_is_not() {
    for (at, ended, cut) in [(90, 60, 1), (950, 60, 1), (10, 60, 0), (90, 950, 1)] {
        let mut joiner = Joiner::new(1);
        joiner.push_requests(0, &tick(&[request(7, at, ended)]));
        let split = joiner.push_reading(2000, seen(100, 1000, Vec::new()));
        assert_eq!((split.sampled.len(), split.cut), (0, cut), "from {at} for {ended}");
    }
    // Failures have no reply that could have been on its way.
    let failed = Request { end: RequestEnd::Unfinished, ..request(7, 200, 60) };
    assert!(one(failed, Vec::new()).is_empty());
}

#[test]
fn a_window_goes_on_over_readings_unless_one_is_missing() {
    let mut joiner = Joiner::new(1);
    joiner.push_requests(0, &tick(&[request(7, 480, 60)]));
    let early = exchange(7, 490, 495, 500);
    assert!(joiner.push_reading(500, seen(100, 505, vec![early])).is_empty(), "it has not ended");
    let late = exchange(7, 490, 495, 530);
    let split = joiner.push_reading(1000, seen(505, 1005, vec![late]));
    assert_eq!(passage(&split).map(|p| p.written_ns), Ok(530));
    joiner.push_requests(0, &tick(&[request(7, 1480, 60)]));
    let split = joiner.push_reading(2000, seen(1500, 2005, vec![exchange(7, 1490, 1495, 1530)]));
    assert_eq!((split.sampled.len(), split.cut), (0, 1), "what was seen until 1500 did not come");
    // A tick's requests may come after the reading with which their window ended.
    joiner.push_requests(0, &tick(&[request(7, 1600, 60)]));
    joiner.push_reading(2100, seen(2005, 2050, vec![exchange(9, 1, 2, 3)]));
    joiner.push_requests(0, &tick(&[Request { ended_ns: 1990, ..request(7, 1900, 0) }]));
    assert_eq!(passage(&joiner.push_reading(2200, None)), Err(Unsplit::OutOfOrder));
    joiner.push_reading(2300, None);
    joiner.push_requests(0, &tick(&[request(7, 2060, 60)]));
    assert!(joiner.push_reading(2400, None).is_empty(), "that window is over");
}

#[test]
fn from_when_the_ring_was_full_nothing_is_joined_until_there_is_room() {
    let mut joiner = Joiner::new(1);
    joiner.push_requests(0, &tick(&[request(7, 200, 60), request(7, 400, 60), request(7, 600, 60)]));
    let list = vec![exchange(7, 205, 206, 207), exchange(7, 405, 406, 407), exchange(7, 605, 606, 607)];
    let reading = Exchanges { from_ns: 100, to_ns: 500, lost_from_ns: Some(430), list, clock_error_ns: 0 };
    let split = joiner.push_reading(500, Some(reading));
    let found: Vec<_> = split.sampled.iter().map(|one| one.passage.is_ok()).collect();
    assert_eq!(found, [true, false]);
    assert_eq!(split.sampled[1].passage, Err(Unsplit::Lost));
    assert!(passage(&joiner.push_reading(1000, seen(500, 1000, Vec::new()))).is_ok());
}

#[test]
fn of_two_clocks_a_way_may_be_less_than_nothing_and_the_sum_is_right() {
    let mut joiner = Joiner::new(1);
    joiner.push_requests(0, &tick(&[request(7, 200, 60)]));
    let list = vec![exchange(7, 190, 210, 225)];
    let reading = Exchanges { from_ns: 100, to_ns: 1000, clock_error_ns: 20, list, ..Exchanges::default() };
    let split = joiner.push_reading(1001, Some(reading));
    let parts = Parts::of(&split.sampled[0]);
    assert_eq!((parts.there_ns, parts.socket_ns, parts.server_ns, parts.back_ns), (-13.0, 20.0, 15.0, 35.0));
    assert_eq!(parts.sum_ns(), 60.0);
}

#[test]
fn the_parts_of_each_request_and_of_each_band_are_its_response_time() {
    let mut run = RunSplit::default();
    let whole = |n: u64, passage| {
        let request = Request { connect_ns: 50, ordinal: 1 + (n % 2) as u32, ..request(7, 40 + n % 20, 60 + n) };
        SplitRequest { key: n, below: None, request, passage }
    };
    for n in 0..1000 {
        let at = 40 + n % 20 + 3;
        let passage = if n % 10 == 0 {
            Err(Unsplit::NoExchange)
        } else {
            Ok(Passage { arrived_ns: at + 5, read_ns: at + 11 + n / 100, written_ns: at + 40 })
        };
        let one = whole(n, passage);
        assert_eq!(Parts::of(&one).sum_ns(), one.request.response_ns() as f64, "{one:?}");
        run.push(&TickSplit { sampled: vec![one], slowest: vec![one], cut: 0 });
    }
    let bands = bands(&run);
    let names: Vec<_> = bands.iter().map(|band| (band.name, band.requests, band.joined)).collect();
    assert_eq!(names, [("p50", 200, 180), ("p90", 100, 90), ("p99", 10, 9), ("slowest", 256, 230)]);
    for band in &bands {
        assert!((band.parts.sum_ns() - band.response_ns).abs() < 1e-6, "{band:?}");
    }
    let near_p50 = &bands[0];
    assert!((near_p50.response_ns - 559.5).abs() < 1e-9, "{near_p50:?}");
    // One in ten is not split: what it took from its sending on is a part of its own.
    assert!((near_p50.parts.unsplit_ns - 0.1 * (555.0 - 3.0)).abs() < 1.0, "{near_p50:?}");
}

#[test]
fn too_few_requests_make_no_band_and_memory_is_bounded() {
    let mut joiner = Joiner::new(1);
    let mut run = RunSplit::default();
    for n in 0..200u64 {
        let at = 1000 + n * 1000;
        joiner.push_requests(0, &tick(&[request(7, at, 60)]));
        let list = (0..5000)
            .map(|i| exchange((i % 1000) as u16 + 1, (at + 5 + i / 100) as i64, (at + 55) as i64, (at + 56) as i64));
        let reading = seen(if n == 0 { 0 } else { at as i64 }, at as i64 + 1000, list.collect());
        run.push(&joiner.push_reading(at as i64 + 1000, reading));
        if n == 10 {
            assert!(bands(&run).is_empty() && run.whole == 11);
        }
    }
    assert_eq!((run.whole, run.joined), (200, 200), "what is old is forgotten, and what is new is joined");
}
