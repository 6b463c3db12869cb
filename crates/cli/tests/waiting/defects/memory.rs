//! Defects of memory, read from `VmRSS`.

use crate::defects::signs::{Case, Served, Sign, becomes, get, proves};

proves! {
    "memory-per-connection" => memory_per_connection,
    "memory-leak" => memory_leak,
    "memory-kept" => memory_kept,
}

const CONNECTIONS: u64 = 40;

/// Resident memory with connections open and after they closed, each above what it was before, in KiB.
fn grown_by_connections(served: &Served) -> (u64, u64) {
    let (before, sockets) = (served.resident_kib(), served.sockets());
    let mut streams: Vec<_> = (0..CONNECTIONS).map(|_| served.connect()).collect();
    for stream in &mut streams {
        get(stream, "/").unwrap();
    }
    let open = served.resident_kib().saturating_sub(before);
    drop(streams);
    assert!(becomes(|| served.sockets() == sockets), "connections stay");
    (open, served.resident_kib().saturating_sub(before))
}

fn memory_per_connection() {
    let probe = |served: &mut Served| -> Vec<Sign> {
        // What the server needs for its own part is there before.
        grown_by_connections(served);
        let (open, closed) = grown_by_connections(served);
        vec![("a buffer each while they are open", open >= CONNECTIONS * 1024 && closed < open / 2)]
    };
    Case { server: &["http"], defect: "memory-per-connection=1MiB", probe }.prove();
}

fn memory_leak() {
    const REQUESTS: u64 = 2000;
    let probe = |served: &mut Served| -> Vec<Sign> {
        let mut stream = served.connect();
        get(&mut stream, "/").unwrap();
        let before = served.resident_kib();
        for _ in 0..REQUESTS {
            get(&mut stream, "/").unwrap();
        }
        drop(stream);
        vec![("memory grows with requests", served.resident_kib().saturating_sub(before) >= REQUESTS * 4)]
    };
    Case { server: &["http"], defect: "memory-leak=4KiB", probe }.prove();
}

fn memory_kept() {
    let probe = |served: &mut Served| -> Vec<Sign> {
        let (open, closed) = grown_by_connections(served);
        let (again, _) = grown_by_connections(served);
        let buffers = CONNECTIONS * 512;
        vec![("memory stays when they close", open >= buffers && closed >= buffers && again < buffers / 2)]
    };
    Case { server: &["http"], defect: "memory-kept=512KiB", probe }.prove();
}
