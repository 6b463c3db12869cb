//! Each limit over tables of values: where it binds, where not, and that what was not read is never fine.

use super::*;
use model::plan::DriverKind;
use model::readings::{BpfRights, GroupCpus, GroupLimit, Reading, SoftHard};

const GIB: u64 = 1 << 30;

/// A thousand kept connections to a server on this host.
fn demand() -> Demand {
    Demand {
        connections: 1000,
        rate_per_s: Some(5000.0),
        connects_per_s: Some(0.0),
        busy_at_once: None,
        destinations: 1,
        sources: 1,
        ends_here: 2,
        is_loopback: true,
        workers: 1,
        driver: DriverKind::Epoll,
        direct_descriptors: false,
    }
}

/// A small machine as it is set up by its distribution.
fn readings() -> Readings {
    let group = |limit| Reading::Known(GroupLimit { limit, used: 100, file: "/sys/fs/cgroup/x.max".to_owned() });
    Readings {
        nofile: Reading::Known(SoftHard { soft: Some(1024), hard: Some(20_000) }),
        nproc: Reading::Known(SoftHard { soft: None, hard: None }),
        nr_open: Reading::Known(1_048_576),
        file_max: Reading::Known(i64::MAX as u64),
        files_open: Reading::Known(1000),
        local_ports: Reading::Known((32_768, 60_999)),
        reserved_ports: Reading::Known(Vec::new()),
        somaxconn: Reading::Known(4096),
        syn_backlog: Reading::Known(2048),
        syncookies: Reading::Known(1),
        tcp_mem_pages: Reading::Known([280_000, 370_000, 560_000]),
        tcp_mem_pages_used: Reading::Known(3),
        page_bytes: 4096,
        tcp_rmem_bytes: Reading::Known([4096, 131_072, 6_291_456]),
        tcp_wmem_bytes: Reading::Known([4096, 16_384, 4_194_304]),
        rmem_max_bytes: Reading::Known(212_992),
        wmem_max_bytes: Reading::Known(212_992),
        tw_reuse: Reading::Known(2),
        tw_buckets_max: Reading::Known(131_072),
        time_wait: Reading::Known(12),
        conntrack_max: Reading::Absent,
        conntrack_count: Reading::Absent,
        pid_max: Reading::Known(32_768),
        threads_max: Reading::Known(190_000),
        threads_now: Reading::Known(200),
        swap_bytes: Reading::Known((0, 0)),
        swappiness: Reading::Known(60),
        overcommit: Reading::Known(0),
        commit_bytes: Reading::Known((12 * GIB, GIB)),
        memory_available_bytes: Reading::Known(20 * GIB),
        governors: Reading::Known(vec![("performance".to_owned(), 2)]),
        turbo: Reading::Known(false),
        cpus: 2,
        group_memory: group(None),
        group_cpus: Reading::Known(GroupCpus { cpus: None, file: "/sys/fs/cgroup/cpu.max".to_owned() }),
        group_pids: group(None),
        io_uring_disabled: Reading::Known(0),
        io_uring: Reading::Known(Ok(())),
        unprivileged_bpf_disabled: Reading::Known(2),
        bpf: Reading::Known(BpfRights { may_load: true, may_trace: true, has_btf: true }),
        huge_pages: Reading::Known("madvise".to_owned()),
    }
}

fn judged(id: &str, change: impl FnOnce(&mut Demand, &mut Readings)) -> Item {
    let (mut demand, mut readings) = (demand(), readings());
    change(&mut demand, &mut readings);
    check(demand, &readings).items.into_iter().find(|item| item.id == id).unwrap()
}

/// Standing, amounts and the fix in one line.
#[track_caller]
fn says(id: &str, change: impl FnOnce(&mut Demand, &mut Readings), expected: &str) {
    let item = judged(id, change);
    let amount = |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.0}"));
    let fix = item.fix.as_ref().map_or(String::new(), |fix| format!(" {}={}", fix.name, fix.value));
    let standing = format!("{:?}", item.standing);
    assert_eq!(format!("{standing} {}/{}{fix}", amount(item.allows), amount(item.needs)), expected, "{item:#?}");
}

#[test]
fn a_sound_host_binds_nothing_and_every_limit_is_there_once() {
    let check = check(demand(), &readings());
    assert_eq!(check.first_to_bind(), None);
    assert!(check.items.iter().all(|item| item.standing == Standing::Ok), "{:#?}", check.items);
    assert!(check.items.iter().all(|item| !item.text.is_empty() && item.commands.is_empty() && item.fix.is_none()));
    let mut ids: Vec<&str> = check.items.iter().map(|item| item.id).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), LIMITS.len());
}

#[test]
fn what_was_not_read_is_never_fine() {
    let blind = Readings { page_bytes: 4096, cpus: 2, ..Readings::default() };
    for item in check(demand(), &blind).items {
        assert_eq!((item.standing, &item.value), (Standing::NotKnown, &None), "{item:?}");
        assert!(item.text.contains("not read") || item.text.contains("does not show"), "{item:?}");
    }
}

#[test]
fn descriptors_bind_by_the_hard_limit_and_not_at_all_in_a_rings_own_table() {
    says("nofile", |_, _| {}, "Ok 19936/1000");
    says("nofile", |d, _| d.connections = 19_936, "Tight 19936/19936");
    says("nofile", |d, _| d.connections = 19_937, "Binds 19936/19937");
    says("nofile", |d, _| (d.connections, d.direct_descriptors) = (1_000_000, true), "Ok -/-");
    says(
        "nofile",
        |d, r| {
            d.connections = 1_000_000;
            r.nofile = Reading::Known(SoftHard { soft: Some(1024), hard: None });
        },
        "Ok -/-",
    );
    let item = judged("nofile", |d, _| d.connections = 100_000);
    assert_eq!(item.commands.len(), 1);
    assert!(item.commands[0].starts_with("ulimit -n 110000 "), "{item:?}");
    let item = judged("nofile", |d, _| d.connections = 2_000_000);
    assert_eq!(item.commands[0], "sysctl -w fs.nr_open=2100000");
    assert!(item.commands[1].starts_with("ulimit -n 2100000 "), "{item:?}");
    says("nr-open", |d, _| d.connections = 2_000_000, "Binds 1048512/2000000 fs.nr_open=2600000");
    says(
        "file-max",
        |d, r| {
            d.connections = 50_000;
            r.file_max = Reading::Known(100_000);
        },
        "Binds 99000/100064 fs.file-max=130000",
    );
    says(
        "file-max",
        |d, r| {
            (d.connections, d.ends_here) = (50_000, 1);
            r.file_max = Reading::Known(100_000);
        },
        "Ok 99000/50064",
    );
}

#[test]
fn ports_count_for_each_pair_of_source_and_destination() {
    says("local-ports", |_, _| {}, "Ok 28232/1000");
    says("local-ports", |d, _| d.connections = 28_232, "Tight 28232/28232 net.ipv4.ip_local_port_range=1024 65535");
    says("local-ports", |d, _| d.connections = 28_233, "Binds 28232/28233 net.ipv4.ip_local_port_range=1024 65535");
    says("local-ports", |d, _| (d.connections, d.destinations, d.sources) = (100_000, 2, 3), "Ok 169392/100000");
    says(
        "local-ports",
        |d, r| {
            d.connections = 28_232;
            r.reserved_ports = Reading::Known(vec![(1, 5), (40_000, 40_009), (60_999, 60_999)]);
        },
        "Binds 28221/28232 net.ipv4.ip_local_port_range=1024 65535",
    );
    says("local-ports", |d, _| (d.connections, d.destinations) = (1_000_000, 0), "Ok -/-");
    // The widest range cannot be widened, but spread.
    let item = judged("local-ports", |d, r| {
        d.connections = 1_000_000;
        r.local_ports = Reading::Known((1024, 65_535));
    });
    assert_eq!((item.standing, &item.fix), (Standing::Binds, &None));
    assert!(item.text.contains("needs 16 source addresses"), "{}", item.text);
    let item = judged("local-ports", |_, _| {});
    let expected = "28,232 connections to one target address and port from one source address; \
                    × 1 destination × 1 source = 28,232";
    assert_eq!(item.text, expected);
}

#[test]
fn time_wait_bounds_new_connections_unless_ports_are_reused() {
    let churn = |rate: f64, loopback: bool, reuse: u64| {
        move |d: &mut Demand, r: &mut Readings| {
            (d.connects_per_s, d.is_loopback, d.connections) = (Some(rate), loopback, 232);
            r.tw_reuse = Reading::Known(reuse);
        }
    };
    says("time-wait", churn(500.0, false, 2), "Binds 467/500 net.ipv4.tcp_tw_reuse=1");
    says("time-wait", churn(400.0, false, 0), "Tight 467/400 net.ipv4.tcp_tw_reuse=1");
    says("time-wait", churn(100.0, false, 0), "Ok 467/100");
    says("time-wait", churn(500.0, true, 2), "Ok 28000/500");
    says("time-wait", churn(500.0, false, 1), "Ok 28000/500");
    // As fast as the target is: nobody can say beforehand.
    says("time-wait", |d, _| d.connects_per_s = None, "NotKnown -/-");
    says("tw-buckets", |d, _| d.connects_per_s = None, "NotKnown 131060/1000");
    says(
        "tw-buckets",
        |d, _| d.connects_per_s = Some(3000.0),
        "Tight 131060/181000 net.ipv4.tcp_max_tw_buckets=230000",
    );
    // What others left behind.
    says(
        "time-wait",
        |d, r| {
            d.is_loopback = false;
            r.time_wait = Reading::Known(28_000);
        },
        "Tight 232/1000",
    );
    says("time-wait", |_, r| r.time_wait = Reading::Known(28_000), "Ok 28232/1000");
}

#[test]
fn tracking_counts_only_where_it_is_loaded() {
    let table = |most, count| {
        move |_: &mut Demand, r: &mut Readings| {
            (r.conntrack_max, r.conntrack_count) = (Reading::Known(most), Reading::Known(count));
        }
    };
    says("conntrack", |_, _| {}, "Ok -/-");
    says("conntrack", table(10_000, 50), "Ok 9950/1000");
    says("conntrack", table(1000, 50), "Binds 950/1000 net.netfilter.nf_conntrack_max=1300");
    says("conntrack", table(900, 0), "Tight 900/1000 net.netfilter.nf_conntrack_max=1300");
    says("conntrack", |_, r| r.conntrack_max = Reading::Known(900), "NotKnown -/-");
}

#[test]
fn listening_matters_where_the_target_is() {
    says("somaxconn", |d, _| d.connections = 10_000, "Tight 4096/10000 net.core.somaxconn=10000");
    says("somaxconn", |d, _| d.connections = 1_000_000, "Tight 4096/65535 net.core.somaxconn=65535");
    says("somaxconn", |d, _| (d.connections, d.ends_here) = (10_000, 1), "Ok -/-");
    says("somaxconn", |d, r| (d.connections, r.somaxconn) = (1_000_000, Reading::Known(65_535)), "Ok 65535/65535");
    says("syn-backlog", |d, _| d.connections = 10_000, "Ok -/-");
    says(
        "syn-backlog",
        |d, r| {
            d.connections = 3000;
            r.syncookies = Reading::Known(0);
        },
        "Tight 1536/3000 net.ipv4.tcp_max_syn_backlog=4100",
    );
    says("syncookies", |_, r| r.syncookies = Reading::Known(0), "Tight -/- net.ipv4.tcp_syncookies=1");
    says("syncookies", |_, r| r.syncookies = Reading::Known(2), "Tight -/- net.ipv4.tcp_syncookies=1");
}

#[test]
fn memory_counts_both_ends_and_the_group() {
    // 2,000,000 ends of 5,224 bytes and 32 MiB: 10.4 GB.
    says("memory-available", |d, _| d.connections = 1_000_000, "Ok 21474836480/10481554432");
    let item = judged("memory-available", |d, r| {
        d.connections = 1_000_000;
        r.memory_available_bytes = Reading::Known(8 * GIB);
    });
    assert_eq!(item.standing, Standing::Binds);
    let limited = |limit| {
        move |_: &mut Demand, r: &mut Readings| {
            r.group_memory =
                Reading::Known(GroupLimit { limit: Some(limit), used: 100, file: "/g/memory.max".to_owned() });
        }
    };
    let item = judged("cgroup-memory", limited(20 << 20));
    assert_eq!(item.standing, Standing::Binds);
    assert!(item.commands[0].starts_with("echo ") && item.commands[0].ends_with(" > /g/memory.max"), "{item:?}");
    assert_eq!(judged("cgroup-memory", limited(GIB)).standing, Standing::Ok);
    says(
        "overcommit",
        |_, r| {
            (r.overcommit, r.commit_bytes) = (Reading::Known(2), Reading::Known((GIB, GIB - 10)));
        },
        "Binds 10/35602432 vm.overcommit_memory=0",
    );
    says("swap", |_, r| r.swap_bytes = Reading::Known((GIB, GIB)), "Ok -/-");
    says("swap", |_, r| r.swap_bytes = Reading::Known((GIB, GIB / 2)), "Tight -/-");
}

#[test]
fn buffers_bind_only_where_all_talk_at_once() {
    says("tcp-mem", |d, _| d.connections = 600_000, "Tight 559997/600000 net.ipv4.tcp_mem=375001 562500 750003");
    says(
        "tcp-mem",
        |d, _| (d.connections, d.busy_at_once) = (600_000, Some(600_000)),
        "Binds 559997/600000 net.ipv4.tcp_mem=375001 562500 750003",
    );
    says("tcp-mem", |d, _| (d.connections, d.busy_at_once) = (600_000, Some(10)), "Ok 559997/10");
    let elsewhere = judged("tcp-mem", |_, r| r.tcp_mem_pages = Reading::Absent);
    assert_eq!(elsewhere.standing, Standing::NotKnown);
    assert!(elsewhere.text.contains("first network namespace"), "{}", elsewhere.text);
}

#[test]
fn threads_and_cpus() {
    says("pid-max", |_, r| r.threads_now = Reading::Known(32_765), "Binds 3/9 kernel.pid_max=65536");
    says(
        "threads-max",
        |d, r| {
            d.workers = 100;
            r.threads_max = Reading::Known(250);
        },
        "Binds 50/108 kernel.threads-max=500",
    );
    says("nproc", |_, r| r.nproc = Reading::Known(SoftHard { soft: Some(5), hard: Some(5) }), "Binds 5/9");
    says(
        "cgroup-pids",
        |_, r| {
            r.group_pids = Reading::Known(GroupLimit { limit: Some(105), used: 100, file: "/g/pids.max".to_owned() });
        },
        "Binds 5/9",
    );
    says(
        "cgroup-cpu",
        |d, r| {
            d.workers = 2;
            r.group_cpus = Reading::Known(GroupCpus { cpus: Some(1.5), file: "/g/cpu.max".to_owned() });
        },
        "Tight 2/2",
    );
}

#[test]
fn the_machine_and_the_rights() {
    says("governor", |_, r| r.governors = Reading::Known(vec![("powersave".to_owned(), 2)]), "Tight -/-");
    says("governor", |_, r| r.governors = Reading::Absent, "NotKnown -/-");
    says("turbo", |_, r| r.turbo = Reading::Absent, "NotKnown -/-");
    let forbidden = |d: &mut Demand, r: &mut Readings, driver, disabled| {
        d.driver = driver;
        r.io_uring = Reading::Known(Err("it is forbidden".to_owned()));
        r.io_uring_disabled = Reading::Known(disabled);
    };
    says("io-uring", |d, r| forbidden(d, r, DriverKind::Epoll, 0), "Tight -/-");
    says("io-uring", |d, r| forbidden(d, r, DriverKind::Uring, 2), "Binds -/- kernel.io_uring_disabled=0");
    says(
        "bpf",
        |_, r| {
            r.bpf = Reading::Known(BpfRights { may_load: false, may_trace: true, has_btf: true });
        },
        "Tight -/-",
    );
}

#[test]
fn what_binds_first_is_first() {
    let demand = Demand { connections: 1_000_000, ..demand() };
    let check = check(demand, &readings());
    let binding: Vec<&str> =
        check.items.iter().filter(|item| item.standing == Standing::Binds).map(|item| item.id).collect();
    assert_eq!(binding, ["nofile", "local-ports"]);
    assert_eq!(check.first_to_bind().unwrap().id, "nofile");
    let ranks: Vec<Standing> = check.items.iter().map(|item| item.standing).collect();
    assert!(ranks.is_sorted(), "{ranks:?}");
}

#[test]
fn extremes_do_not_overflow() {
    let demand = Demand {
        connections: u64::MAX,
        destinations: u64::MAX,
        sources: u64::MAX,
        workers: u64::MAX,
        connects_per_s: Some(f64::MAX),
        busy_at_once: Some(u64::MAX),
        ..demand()
    };
    let mut readings = readings();
    readings.files_open = Reading::Known(u64::MAX);
    readings.file_max = Reading::Known(1);
    readings.time_wait = Reading::Known(u64::MAX);
    readings.tcp_mem_pages = Reading::Known([u64::MAX; 3]);
    readings.threads_now = Reading::Known(u64::MAX);
    (readings.conntrack_max, readings.conntrack_count) = (Reading::Known(1), Reading::Known(u64::MAX));
    assert_eq!(check(demand, &readings).items.len(), LIMITS.len());
}
