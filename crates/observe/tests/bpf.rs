//! The probes against real processes and sockets, each beside an independent reading: the shell, wait(2), strace,
//! schedstat. For root, on a kernel with BTF.
#![cfg(feature = "bpf")]
#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

use model::bpf::Level;
use observe::ObserveSpec;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use testkit::process::Guard;

mod common;
use common::memory::Group;
use common::{LONG, bpf, can_run, go, observer, of, shell};

#[test]
fn no_signal_and_no_exit_of_a_thousand_short_processes_is_missed() {
    if !can_run() {
        return;
    }
    let mut target =
        shell("i=0; while [ $i -lt 1000 ]; do sh -c 'kill -TERM $$'; i=$((i+1)); done 2>/dev/null; exit 7");
    let mut observer = observer(of(target.pid(), Level::Light));
    go(&mut target);
    let ended = target.wait(LONG).expect("the shell ends");
    assert_eq!(ended.code(), Some(7));
    let snapshot = observer.snapshot(1);
    let events = observer.take_events();
    let with = |kind: &str, text: &str| events.iter().filter(|e| e.kind == kind && e.text.contains(text)).count();
    assert_eq!(with("target-signal", "took SIGTERM from process"), 1000);
    assert_eq!(with("target-exit", "was ended by SIGTERM, in the system call kill"), 1000);
    assert_eq!(with("target-exit", "exited with code 7"), 1);
    let counts = &bpf(&snapshot).counts;
    // And the shell its SIGCHLDs.
    assert!(counts["lifecycle.signals"] >= 1000 && counts["lifecycle.records_lost"] == 0, "{counts:?}");
    assert_eq!((counts["lifecycle.forks"], counts["lifecycle.exits"]), (1000, 1001), "{counts:?}");
}

#[test]
fn signals_by_which_a_runtime_interrupts_its_own_threads_are_no_events() {
    if !can_run() {
        return;
    }
    // As Go, Ruby and a profiler's timer do; then one to itself that asks for something, and one of theirs from somebody else.
    let mut target = shell(
        "trap : URG VTALRM PROF TERM; kill -URG $$; kill -URG $$; kill -VTALRM $$; kill -PROF $$; kill -TERM $$; \
         sh -c 'kill -URG $1' sh $$; exit 7",
    );
    let mut observer = observer(of(target.pid(), Level::Light));
    go(&mut target);
    assert_eq!(target.wait(LONG).expect("the shell ends").code(), Some(7));
    let snapshot = observer.snapshot(1);
    let events = observer.take_events();
    let taken = |signal: &str| {
        let is_it = |e: &&model::Event| e.kind == "target-signal" && e.text.contains(&format!("took {signal}"));
        events.iter().find(is_it).map(|event| event.details.sender_pid == Some(target.pid()))
    };
    assert_eq!((taken("SIGTERM"), taken("SIGURG")), (Some(true), Some(false)), "{events:?}");
    assert_eq!((taken("SIGVTALRM"), taken("SIGPROF")), (None, None), "{events:?}");
    // Those two, and SIGCHLD; what writes no record is not counted, or the reader would wait for it.
    let counts = &bpf(&snapshot).counts;
    assert!(counts["lifecycle.signals"] <= 4 && counts["lifecycle.records_lost"] == 0, "{counts:?}");
}

#[test]
fn a_process_that_is_killed_says_by_what_and_where() {
    if !can_run() {
        return;
    }
    let mut target = shell("exec sleep 100");
    let mut observer = observer(of(target.pid(), Level::Light));
    go(&mut target);
    // Until it sleeps: what it is doing when it is killed is a part of what must be told.
    wait_until_it_waits(&target, Some(libc::SYS_clock_nanosleep));
    target.signal(libc::SIGKILL);
    target.wait(LONG).expect("it is killed");
    observer.snapshot(1);
    let events = observer.take_events();
    let signal = events.iter().find(|event| event.kind == "target-signal").expect("SIGKILL is seen");
    let from = format!("took SIGKILL from process {}", std::process::id());
    assert!(signal.text.contains("sleep (") && signal.text.contains(&from), "{signal:?}");
    let exit = events.iter().find(|event| event.kind == "target-exit").expect("its end is seen");
    assert!(exit.text.contains("was ended by SIGKILL, in the system call clock_nanosleep"), "{exit:?}");
}

#[test]
fn a_process_that_a_thread_of_many_ends_names_that_threads_call() {
    if !can_run() || testkit::program("python3").is_none() {
        return;
    }
    // The first thread, and others, wait elsewhere; one writes to a pipe that nobody reads.
    let code = "import os, signal, threading, time\n\
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)\n\
        [threading.Thread(target=time.sleep, args=(100,), daemon=True).start() for _ in range(3)]\n\
        r, w = os.pipe(); os.close(r)\n\
        threading.Thread(target=os.write, args=(w, b'x')).start()\n\
        time.sleep(100)";
    let mut target = shell(&format!("exec python3 -c \"{code}\""));
    let mut observer = observer(of(target.pid(), Level::Light));
    go(&mut target);
    target.wait(LONG).expect("it dies of the signal");
    observer.snapshot(1);
    let events = observer.take_events();
    // What finds the program may be a shell, with children of its own.
    let is_it = |event: &&model::Event| event.kind == "target-exit" && event.details.signal == Some(libc::SIGPIPE);
    let exit = events.iter().find(is_it).expect("its end is seen");
    assert!(exit.text.contains("was ended by SIGPIPE, in the system call write of descriptor"), "{exit:?}");
}

/// Until a process waits in the kernel, in a call if one is given: it is not on a CPU, and does not wait for one either.
fn wait_until_it_waits(process: &Guard, call: Option<i64>) {
    let stands = format!("/proc/{}/syscall", process.pid());
    testkit::wait_until(&format!("system call {call:?} of process {}", process.pid()), || {
        let text = std::fs::read_to_string(&stands).unwrap_or_default();
        let number = text.split(' ').next().and_then(|word| word.parse::<i64>().ok());
        number.is_some() && (call.is_none() || number == call)
    });
}

/// A server on a thread of this process: it answers every 4 bytes with two writes, until all have hung up.
fn server(connections: usize, nodelay: bool) -> (SocketAddr, std::thread::JoinHandle<()>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let thread = std::thread::spawn(move || {
        let accepted: Vec<TcpStream> = (0..connections).map(|_| listener.accept().unwrap().0).collect();
        for mut socket in accepted {
            socket.set_nodelay(nodelay).unwrap();
            let mut request = [0; 4];
            while socket.read_exact(&mut request).is_ok() {
                socket.write_all(b"first ").unwrap();
                socket.write_all(b"second").unwrap();
            }
        }
    });
    (address, thread)
}

/// Tests whose target is this process take turns: what it accepts is counted for all of them.
fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn requests(stream: &mut TcpStream, count: u32) {
    for _ in 0..count {
        stream.write_all(b"ping").unwrap();
        let mut reply = [0; 12];
        stream.read_exact(&mut reply).unwrap();
        assert_eq!(&reply, b"first second");
    }
}

fn own(address: SocketAddr, sockets_max: u32) -> ObserveSpec {
    common::own(address, sockets_max, Level::Full)
}

#[test]
fn small_sends_with_data_in_flight_are_counted_and_held_back_only_without_nodelay() {
    if !can_run() {
        return;
    }
    let _alone = alone();
    for nodelay in [true, false] {
        let (address, thread) = server(1, nodelay);
        let mut observer = observer(own(address, 64));
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        requests(&mut stream, 50);
        drop(stream);
        thread.join().unwrap();
        let snapshot = observer.snapshot(1);
        let bpf = bpf(&snapshot);
        let counts = &bpf.counts;
        assert_eq!((counts["sockets.sends"], counts["sockets.established"]), (100, 1), "{counts:?}");
        assert_eq!(counts["sockets.sends_nodelay"], if nodelay { 100 } else { 0 });
        let held = counts["sockets.sends_held_back"];
        assert!(if nodelay { held == 0 } else { held > 0 && held <= 50 }, "nodelay {nodelay}: {counts:?}");
        assert!(counts["sockets.small_sends_in_flight"] >= held);
        assert_eq!(bpf.histograms["sockets.service_ns"].count(), 50, "a pair a request");
        assert_eq!(bpf.histograms["sockets.first_read_ns"].count(), 1);
        assert_eq!(bpf.histograms["sockets.accepted_read_ns"].count(), 0, "accepted before it was watched");
        let sent = &bpf.histograms["sockets.send_bytes"];
        assert_eq!((sent.sum, sent.count(), sent.at_most(0.5)), (600, 100, Some(7)));
        assert_eq!(bpf.histograms["sockets.receive_bytes"].sum, 200);
    }
}

#[test]
fn the_accept_queue_is_told_from_the_time_until_the_first_read() {
    if !can_run() {
        return;
    }
    const PAUSE: Duration = Duration::from_millis(200);
    let _alone = alone();
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let mut watching = observer(own(address, 64));
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(b"ping").unwrap();
    // In the accept queue, then accepted and not read: twice as long, so that the one is not taken for the other.
    std::thread::sleep(PAUSE);
    let mut accepted = listener.accept().unwrap().0;
    std::thread::sleep(PAUSE * 2);
    let mut request = [0; 4];
    accepted.read_exact(&mut request).unwrap();
    accepted.write_all(b"pong").unwrap();
    listener.set_nonblocking(true).unwrap();
    assert!(listener.accept().is_err(), "nobody else comes");
    let snapshot = watching.snapshot(1);
    let bpf = bpf(&snapshot);
    let ms = |name: &str| {
        let of = &bpf.histograms[name];
        assert_eq!(of.count(), 1, "{name}: {of:?}");
        of.sum / 1_000_000
    };
    let (queue, read, both) =
        (ms("sockets.accept_queue_ns"), ms("sockets.accepted_read_ns"), ms("sockets.first_read_ns"));
    assert!(queue >= 199 && read >= 399 && both.abs_diff(queue + read) <= 2, "{queue} + {read} = {both} ms");
    // Told by the tick, which may be 10 ms.
    assert!(ms("sockets.service_ns") >= 580, "from the arrival, not from the read");
    assert_eq!((bpf.counts["accepts.accepted"], bpf.counts["accepts.empty_handed"]), (1, 1), "{:?}", bpf.counts);
}

#[test]
fn sockets_beyond_the_bound_are_counted_as_lost() {
    if !can_run() {
        return;
    }
    let _alone = alone();
    let (address, thread) = server(12, true);
    let mut observer = observer(own(address, 4));
    let mut streams: Vec<TcpStream> = (0..12).map(|_| TcpStream::connect(address).unwrap()).collect();
    for stream in &mut streams {
        // Each is served when those before it have hung up.
        requests(stream, 1);
        stream.shutdown(std::net::Shutdown::Both).unwrap();
    }
    thread.join().unwrap();
    let snapshot = observer.snapshot(1);
    let counts = &bpf(&snapshot).counts;
    assert_eq!((counts["sockets.established"], counts["sockets.receives"]), (12, 12), "{counts:?}");
    assert!(counts["sockets.sockets_lost"] >= 8, "{counts:?}");
}

#[test]
fn resets_and_drops_are_counted_with_the_kernels_reason() {
    if !can_run() {
        return;
    }
    let _alone = alone();
    let (address, thread) = server(1, true);
    let mut watching = observer(own(address, 64));
    let mut stream = TcpStream::connect(address).unwrap();
    requests(&mut stream, 1);
    rustix::net::sockopt::set_socket_linger(&stream, Some(Duration::ZERO)).unwrap();
    drop(stream);
    thread.join().unwrap();
    let snapshot = watching.snapshot(1);
    let counts = &bpf(&snapshot).counts;
    assert_eq!((counts["losses.resets_received"], counts["losses.resets_sent"]), (1, 0), "{counts:?}");

    // A port that is taken, and where nobody listens: a segment to it is dropped, and reset without a socket.
    use rustix::net::{AddressFamily, SocketAddrV4, SocketType};
    let taken = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    rustix::net::bind(&taken, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address: SocketAddrV4 = rustix::net::getsockname(&taken).unwrap().try_into().unwrap();
    let mut watching = observer(own(address.into(), 64));
    for _ in 0..3 {
        assert!(TcpStream::connect(address).is_err(), "nobody listens there");
    }
    let snapshot = watching.snapshot(1);
    let bpf = bpf(&snapshot);
    let expected = std::collections::BTreeMap::from([("NO_SOCKET".to_owned(), 3)]);
    assert_eq!((&bpf.drops, bpf.counts["losses.drops"]), (&expected, 3), "{:?}", bpf.counts);
}

#[test]
fn an_oom_kill_is_an_event() {
    if !can_run() {
        return;
    }
    let Some(group) = Group::new("once", 16 << 20) else {
        return testkit::skip("no memory cgroup can be made here, of version 1 or 2");
    };
    let mut target = shell("exec tail /dev/zero");
    std::fs::write(group.processes(), target.pid().to_string()).unwrap();
    let mut observer = observer(of(target.pid(), Level::Light));
    go(&mut target);
    target.wait(LONG).expect("the kernel ends it");
    let snapshot = observer.snapshot(1);
    let events = observer.take_events();
    assert!(bpf(&snapshot).counts["lifecycle.oom_kills"] >= 1, "{events:?}");
    assert!(events.iter().any(|event| event.kind == "target-oom-kill"), "{events:?}");
    assert!(events.iter().any(|event| event.text.contains("was ended by SIGKILL")), "{events:?}");
}

/// Calls of one name in the summary of `strace -c`.
fn strace_calls(summary: &str, name: &str) -> Option<u64> {
    let line = summary.lines().find(|line| line.split_whitespace().last() == Some(name))?;
    line.split_whitespace().nth(3)?.parse().ok()
}

#[test]
fn system_calls_agree_with_strace() {
    if !can_run() {
        return;
    }
    let Some(strace) = testkit::program("strace") else { return testkit::skip("strace is not installed") };
    const SCRIPT: &str = "exec dd if=/dev/zero of=/dev/null bs=1 count=5000 status=none";
    let traced = Command::new(strace).args(["-f", "-c", "sh", "-c", SCRIPT]).output().unwrap();
    let summary = String::from_utf8_lossy(&traced.stderr);
    let Some(writes) = strace_calls(&summary, "write") else {
        return testkit::skip("strace cannot trace here");
    };
    let mut target = shell(SCRIPT);
    let mut observer = observer(of(target.pid(), Level::Full));
    go(&mut target);
    target.wait(LONG).expect("dd ends");
    let snapshot = observer.snapshot(1);
    let bpf = bpf(&snapshot);
    let call = |name: &str| bpf.calls.iter().find(|call| call.name == name).cloned().unwrap_or_default();
    assert_eq!((writes, call("write").count), (5000, 5000), "{:?}", bpf.calls);
    assert!(call("write").errors == 0 && call("write").ns > 0);
    // It reads as often as it writes, and its own libraries before.
    assert!((5000..5020).contains(&call("read").count), "{:?}", bpf.calls);
    assert_eq!(bpf.calls.iter().map(|call| call.count).sum::<u64>(), bpf.histograms["syscalls.call_ns"].count());
}

#[test]
fn a_sleeping_thread_waits_where_it_sleeps() {
    if !can_run() {
        return;
    }
    // Again and again: on a busy machine the names of its first waits may come too late for them.
    let mut target = shell("while :; do sleep 1 & echo $!; wait; done");
    let mut observer = observer(of(target.pid(), Level::Full));
    let said = BufReader::new(target.child().stdout.take().unwrap()).lines();
    go(&mut target);
    let slept = testkit::wait_for("a wait in nanosleep", || {
        let snapshot = observer.snapshot(1);
        let mut waits = bpf(&snapshot).waits.clone().into_iter();
        waits.find(|wait| wait.stack.iter().any(|frame| frame.contains("nanosleep")))
    });
    // By the shell that started it.
    let is_one = said.take(100).any(|pid| pid.unwrap() == slept.tid.to_string());
    assert!(slept.state == "sleeping" && is_one, "{slept:?}");
    assert!(slept.count >= 1 && slept.ns >= slept.count * 990_000_000, "{slept:?}");
}

#[test]
fn windows_open_and_close_at_ticks_and_say_how_long_they_were() {
    if !can_run() {
        return;
    }
    let mut target = shell("while read line; do echo $line; done");
    let mut observer = observer(of(target.pid(), Level::Windows));
    go(&mut target);
    let mut replies = BufReader::new(target.child().stdout.take().unwrap()).lines();
    let mut talk = |target: &mut Guard| {
        target.child().stdin.as_mut().unwrap().write_all(b"x\n").unwrap();
        assert_eq!(replies.next().unwrap().unwrap(), "x");
    };
    talk(&mut target);
    let before = observer.snapshot(1);
    assert_eq!((bpf(&before).windows, bpf(&before).counts["syscalls.calls"]), (0, 0));
    talk(&mut target);
    std::thread::sleep(Duration::from_secs(1));
    let after = observer.snapshot(2);
    let (windows, calls) = (bpf(&after).windows, bpf(&after).counts["syscalls.calls"]);
    assert!(windows == 1 && bpf(&after).window_ns > 0 && calls >= 2, "{after:?}");
    // Closed: what it does now is not counted, and the next window is not due.
    talk(&mut target);
    let closed = observer.snapshot(3);
    assert_eq!((bpf(&closed).windows, bpf(&closed).counts["syscalls.calls"]), (windows, calls));
}

#[test]
fn a_busy_target_has_its_calls_counted_until_there_are_enough() {
    if !can_run() {
        return;
    }
    for (script, is_busy) in [("exec dd if=/dev/zero of=/dev/null bs=1", true), ("exec sleep 60", false)] {
        let mut target = shell(script);
        let mut observer = observer(of(target.pid(), Level::Windows));
        go(&mut target);
        // Its program may have to come from a slow disk, and the window is not to be over by then.
        let program = script.split(' ').nth(1).unwrap();
        // By the thread's name: a busybox need not start its own programs anew.
        testkit::wait_until(program, || {
            std::fs::read_to_string(format!("/proc/{}/comm", target.pid())).is_ok_and(|name| name.trim() == program)
        });
        assert_eq!(observer.relieve_in(), None, "no window is open");
        observer.snapshot(1);
        let opened = Instant::now();
        while let Some(wait) = observer.relieve_in()
            && opened.elapsed() < Duration::from_secs(1)
        {
            std::thread::sleep(wait);
            observer.relieve();
        }
        assert_eq!(observer.relieve_in().is_none(), is_busy);
        std::thread::sleep(Duration::from_secs(1).saturating_sub(opened.elapsed()));
        let snapshot = observer.snapshot(2);
        let bpf = bpf(&snapshot);
        let calls = bpf.counts["syscalls.calls"];
        assert!(bpf.windows == 1 && bpf.calls_window_ns >= 200_000_000, "{bpf:?}");
        assert_eq!((bpf.calls_window_ns < bpf.window_ns, calls >= 20_000), (is_busy, is_busy), "{bpf:?}");
        assert_eq!(observer.relieve_in(), None, "it is closed");
    }
}

/// Runnable time of a process's only thread (`schedstat`, second field).
fn schedstat_wait_ns(pid: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/schedstat")).unwrap();
    text.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn a_shared_cpu_makes_the_run_queue_longer_and_schedstat_agrees() {
    if !can_run() {
        return;
    }
    let Some(taskset) = testkit::program("taskset") else { return testkit::skip("taskset is not installed") };
    let pinned = |script: &str| {
        let mut command = Command::new(&taskset);
        command.args(["-c", "0", "sh", "-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped());
        Guard::spawn(&mut command).unwrap()
    };
    let spinners: Vec<Guard> = (0..3).map(|_| pinned("while :; do :; done")).collect();
    let mut target =
        pinned("echo ready; read line; i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; echo done; read line");
    let mut said = BufReader::new(target.child().stdout.take().unwrap()).lines();
    assert_eq!(said.next().unwrap().unwrap(), "ready");
    // Off its CPU and not waiting for one, there and at the end: both accounts end with the same wait.
    wait_until_it_waits(&target, None);
    let mut observer = observer(of(target.pid(), Level::Full));
    let before_ns = schedstat_wait_ns(target.pid());
    go(&mut target);
    assert_eq!(said.next().unwrap().unwrap(), "done");
    wait_until_it_waits(&target, None);
    let kernel_ns = schedstat_wait_ns(target.pid()) - before_ns;
    let snapshot = observer.snapshot(1);
    let bpf = bpf(&snapshot);
    let waited = &bpf.histograms["runqueue.wait_ns"];
    assert!(bpf.counts["runqueue.preempted"] > 0 && bpf.counts["runqueue.threads_lost"] == 0, "{:?}", bpf.counts);
    let difference = waited.sum.abs_diff(kernel_ns);
    assert!(difference * 10 <= kernel_ns, "probe {} ns, schedstat {kernel_ns} ns", waited.sum);
    drop(spinners);
}

#[test]
fn each_request_on_a_socket_has_its_arrival_read_and_sends_in_the_order_they_were_in() {
    if !can_run() {
        return;
    }
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let mut observer = observer(ObserveSpec { has_requests: true, ..own(address, 64) });
    let mut client = TcpStream::connect(address).unwrap();
    let mut server = listener.accept().unwrap().0;
    let (mut buffer, mut lain) = ([0; 4], Vec::new());
    for round in 0..20 {
        client.write_all(b"ping").unwrap();
        // The kernel may bring it later than the call returns.
        while rustix::io::ioctl_fionread(&server).unwrap() < 4 {}
        let there = Instant::now();
        if round % 2 > 0 {
            std::thread::sleep(Duration::from_millis(2));
        }
        lain.push(there.elapsed().as_nanos() as i64);
        server.read_exact(&mut buffer).unwrap();
        // A reply in two sends.
        server.write_all(b"po").unwrap();
        server.write_all(b"ng").unwrap();
        client.read_exact(&mut buffer).unwrap();
    }
    let snapshot = observer.snapshot(1);
    let seen = snapshot.exchanges.as_ref().expect("single requests are looked for");
    assert_eq!((seen.list.len(), seen.lost_from_ns), (40, None), "{:?}", bpf(&snapshot).counts);
    for (pair, lain_ns) in seen.list.chunks(2).zip(lain) {
        let [one, other] = pair else { panic!("{pair:?}") };
        assert_eq!((one.peer, one.port), (client.local_addr().unwrap(), address.port()), "{one:?}");
        assert_eq!((one.arrived_ns, one.read_ns), (other.arrived_ns, other.read_ns), "{pair:?}");
        assert!(one.read_ns - one.arrived_ns >= lain_ns, "{lain_ns} ns in the socket: {pair:?}");
        assert!(one.read_ns <= one.written_ns && one.written_ns <= other.written_ns, "{pair:?}");
        assert!(seen.from_ns <= one.arrived_ns && other.written_ns <= seen.to_ns, "{pair:?}");
    }
    // What was told is not told again.
    assert_eq!(observer.snapshot(2).exchanges.expect("they are looked for").list, []);
}

/// In two guests at once, half of the tests each: a guest has one CPU, as with two it once stood still
/// (docs/decisions/2026-11-28-time-of-ci.md). `PLIMSOLL_TEST_GUEST_CPUS` gives each another number.
#[test]
fn all_of_this_holds_on_the_oldest_kernel_too() {
    if std::env::var_os("PLIMSOLL_TEST_GUEST").is_some() {
        return testkit::skip("this is that kernel");
    }
    let guest = match testkit::guest::Guest::find("6.1") {
        Ok(guest) => guest,
        Err(why) => return testkit::skip(&why),
    };
    let tests = std::env::current_exe().unwrap();
    let listed = Command::new(&tests).args(["--list", "--format", "terse"]).output().unwrap();
    let names = String::from_utf8(listed.stdout).unwrap();
    let names: Vec<&str> = names.lines().filter_map(|line| line.strip_suffix(": test")).collect();
    assert!(names.len() > 10, "{names:?}");
    let cpus = std::env::var("PLIMSOLL_TEST_GUEST_CPUS").map_or(1, |number| number.parse().unwrap());
    std::thread::scope(|scope| {
        for half in 0..2 {
            let names: Vec<&str> = names.iter().copied().skip(half).step_by(2).collect();
            let (guest, tests) = (&guest, &tests);
            scope.spawn(move || {
                let arguments = format!("--exact --test-threads {cpus} {}", names.join(" "));
                let ran = guest.run(tests, &arguments, cpus, LONG * 4).unwrap();
                assert_eq!(ran.status, Some(0), "{}", ran.console);
                assert!(ran.console.contains(&format!("running {} tests", names.len())), "{}", ran.console);
                assert!(ran.kernel.is_some_and(|kernel| kernel.starts_with("6.1.")), "{}", ran.console);
            });
        }
    });
}
