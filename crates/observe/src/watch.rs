//! Which processes are looked at, and whether they are still the same ones.
//!
//! A process is known by its id and its start time, so an id that was given to another one is not mistaken for it.
//! Only the kernel saying that a process is not there makes it gone; that it could not be read does not.

use crate::limits::{HELPER_AGE_NS, PROCESSES_MAX, SEARCH_EVERY_NS, SEARCHES_MAX};
use crate::metric::{Metric, counter, gauge};
use crate::observer::ObserveSpec;
use crate::source::clock;
use crate::source::proc::{Buffers, SampleError, number, words};
use crate::source::stat::{Stat, ticks_ns};
use crate::target;
use model::event::Details;
use model::metrics::Metrics;
use model::plan::Address;
use model::snapshot::{ProcessSample, Role, SamplerState, SamplerStatus};
use model::{Event, Snapshot};

/// The name under which the state of the watch is reported, beside the samplers.
pub(crate) const NAME: &str = "process/target";

/// What it gives of each process, by name.
pub const METRICS: &[Metric] = &[
    counter("user_ns", "ns", "stat, 14th field", "user CPU time of all threads, living and gone")
        .otel("process.cpu.time"),
    counter("system_ns", "ns", "stat, 15th field", "system CPU time of all threads").otel("process.cpu.time"),
    counter("page_faults", "faults", "stat, 10th field", "page faults without a disk").otel("process.paging.faults"),
    counter("major_faults", "faults", "stat, 12th field", "page faults that waited for a disk")
        .otel("process.paging.faults"),
    gauge("started_ns", "ns", "stat, 22nd field", "when it began, since boot: tells a reused id apart"),
];

/// The processes looked at.
#[derive(Debug)]
pub(crate) struct Watch {
    processes: Vec<Watched>,
    addresses: Vec<Address>,
    /// Whether every child of the target's is taken in: where the process itself was named. Of what holds an address
    /// only those that run the same program: the holder may be an init process with the whole machine below it.
    takes_all_children: bool,
    own_pid: u32,
    /// Why there is no target to look at.
    unknown: Option<String>,
    /// The last failure to read a living process of the target.
    failure: Option<String>,
    search: Option<Search>,
    /// Processes of the target that are not looked at one by one, as there are too many: those that were named, and
    /// children at the last reading.
    beyond: usize,
    children_beyond: usize,
    /// Kept until they are taken.
    pub(crate) events: Vec<Event>,
}

#[derive(Debug)]
struct Watched {
    role: Role,
    pid: u32,
    /// `None`: not read yet.
    start_ticks: Option<u64>,
    /// Where its stack begins, which another program's would not; 0: not for us to see.
    stack_start: u64,
    name: String,
    /// Found as the child of another: it may end without the target being gone.
    is_child: bool,
}

/// The target, or a part of it, has gone: its address is looked at again from time to time.
#[derive(Debug, Clone, Copy)]
struct Search {
    next_ns: i64,
    left: u32,
}

impl Watch {
    pub(crate) fn new(spec: ObserveSpec, buffers: &mut Buffers) -> Self {
        let mut watch = Watch {
            processes: Vec::new(),
            takes_all_children: spec.addresses.is_empty(),
            addresses: spec.addresses,
            own_pid: spec.own_pid,
            unknown: spec
                .target_unknown
                .or_else(|| spec.target.is_empty().then(|| "no process of the target was named".to_owned())),
            failure: None,
            search: None,
            events: Vec::new(),
            beyond: 0,
            children_beyond: 0,
        };
        watch.add(Role::Generator, spec.own_pid, buffers);
        let mut target = spec.target;
        target.sort_unstable();
        target.dedup();
        if target.len() > PROCESSES_MAX {
            let text = format!("the target has {} processes; the first {PROCESSES_MAX} are looked at", target.len());
            let details = Details { times: Some(target.len() as u64), ..Details::default() };
            watch.events.push(Event::new(-1, "target-processes-bound", text).with(details));
            watch.beyond = target.len() - PROCESSES_MAX;
        }
        for pid in target.into_iter().take(PROCESSES_MAX) {
            watch.add(Role::Target, pid, buffers);
        }
        if !watch.takes_all_children {
            watch.know_helpers(buffers);
        }
        watch
    }

    /// What a server starts for a moment (a shell of a CGI script) has its listening socket too, where that was not closed for it. It
    /// is a child, whose end is no end of the target: young, and another program than its parent, which has the socket as well.
    fn know_helpers(&mut self, buffers: &mut Buffers) {
        let is_target = |process: &&Watched| process.role == Role::Target;
        let names: Vec<(u32, String)> =
            self.processes.iter().filter(is_target).map(|one| (one.pid, one.name.clone())).collect();
        for process in self.processes.iter_mut().filter(|process| process.role == Role::Target) {
            let Ok(stat) = read(buffers, process.pid) else { continue };
            let age_ns = clock::boottime_ns() - i128::from(ticks_ns(stat.start_ticks));
            let is_of = |(pid, name): &(u32, String)| *pid == stat.parent && *name != stat.name;
            process.is_child = age_ns < HELPER_AGE_NS && names.iter().any(is_of);
        }
    }

    fn add(&mut self, role: Role, pid: u32, buffers: &mut Buffers) {
        // Who cannot be read now is read, or found gone, by the next snapshot.
        let stat = read(buffers, pid).ok();
        self.processes.push(Watched {
            role,
            pid,
            start_ticks: stat.as_ref().map(|s| s.start_ticks),
            stack_start: stat.as_ref().map_or(0, |s| s.stack_start),
            is_child: false,
            name: stat.map_or_else(String::new, |s| s.name),
        });
    }

    /// Puts every process that lives into the snapshot, without its threads and memory; says who has gone.
    pub(crate) fn sample(&mut self, buffers: &mut Buffers, snapshot: &mut Snapshot) {
        self.failure = None;
        let (mut gone, mut executed) = (Vec::new(), Vec::new());
        for (i, process) in self.processes.iter_mut().enumerate() {
            match read(buffers, process.pid) {
                Ok(stat) if stat.process_has_ended() || process.start_ticks.is_some_and(|s| s != stat.start_ticks) => {
                    gone.push(i)
                }
                Ok(stat) => {
                    process.start_ticks = Some(stat.start_ticks);
                    let has_executed = is_another_program(process.stack_start, stat.stack_start);
                    if has_executed && process.is_child && !self.takes_all_children {
                        gone.push(i);
                        continue;
                    }
                    if has_executed && process.role == Role::Target && !process.is_child {
                        let text = format!(
                            "the target's process {} runs another program now: {}",
                            described(process),
                            stat.name
                        );
                        executed.push((text, known_of(process.pid, &stat.name)));
                    }
                    process.stack_start = stat.stack_start;
                    process.name.clone_from(&stat.name);
                    snapshot.processes.push(sample_of(process, stat));
                }
                Err(error) if error.is_gone() => gone.push(i),
                Err(error) if process.role == Role::Target => self.failure = Some(error.to_string()),
                Err(_) => {}
            }
        }
        for (text, details) in executed {
            self.events.push(Event::new(snapshot.at_ns, "target-executed", text).with(details));
        }
        for i in gone.into_iter().rev() {
            let process = self.processes.remove(i);
            if process.role == Role::Target && !process.is_child {
                let text = format!("the target's process {} is gone", described(&process));
                let details = known_of(process.pid, &process.name);
                self.events.push(Event::new(snapshot.at_ns, "target-gone", text).with(details));
                self.search = Some(Search { next_ns: snapshot.at_ns, left: SEARCHES_MAX });
            }
        }
        self.adopt(buffers, snapshot);
        self.search_again(buffers, snapshot);
    }

    /// Takes in the children of the target's processes, and theirs, within the bound.
    fn adopt(&mut self, buffers: &mut Buffers, snapshot: &mut Snapshot) {
        self.children_beyond = 0;
        let mut i = 0;
        while let Some(process) = self.processes.get(i) {
            i += 1;
            if process.role != Role::Target {
                continue;
            }
            let (pid, name) = (process.pid, process.name.clone());
            // Without CONFIG_PROC_CHILDREN they are not known, and the target is what was named.
            let Ok(text) = buffers.read(format_args!("/proc/{pid}/task/{pid}/children")) else { continue };
            let children: Vec<u32> = words(text).filter_map(|w| u32::try_from(number(w)?).ok()).collect();
            for child in children {
                let is_known = child == self.own_pid || self.processes.iter().any(|p| p.pid == child);
                if is_known || self.processes.len() > PROCESSES_MAX {
                    self.children_beyond += usize::from(!is_known);
                    continue;
                }
                let Some(stat) = read(buffers, child).ok().filter(|stat| !stat.process_has_ended()) else { continue };
                if !self.takes_all_children && stat.name != name {
                    continue;
                }
                let process = Watched { is_child: true, ..watched(child, &stat) };
                snapshot.processes.push(sample_of(&process, stat));
                self.processes.push(process);
            }
        }
    }

    /// Looks who holds the target's address now.
    fn search_again(&mut self, buffers: &mut Buffers, snapshot: &mut Snapshot) {
        let Some(search) = &mut self.search else { return };
        if snapshot.at_ns < search.next_ns || self.addresses.is_empty() {
            return;
        }
        search.next_ns = snapshot.at_ns.saturating_add(SEARCH_EVERY_NS);
        search.left = search.left.saturating_sub(1);
        if search.left == 0 {
            self.search = None;
        }
        let Ok(mut found) = target::find(&self.addresses) else { return };
        found.retain(|pid| {
            *pid != self.own_pid && !self.processes.iter().any(|p| p.role == Role::Target && p.pid == *pid)
        });
        for pid in found {
            if self.processes.len() > PROCESSES_MAX {
                break;
            }
            let Ok(stat) = read(buffers, pid) else { continue };
            let process = watched(pid, &stat);
            let text = format!("the target's address is held by another process now: {}", described(&process));
            let details = known_of(pid, &process.name);
            self.events.push(Event::new(snapshot.at_ns, "target-restarted", text).with(details));
            snapshot.processes.push(sample_of(&process, stat));
            self.processes.push(process);
            self.search = None;
        }
    }

    /// That only a part of the target is looked at process by process. Named ones that were too many are children, too.
    fn leaves_out(&self) -> String {
        match self.beyond.max(self.children_beyond) {
            0 => String::new(),
            beyond => format!("{beyond} processes beyond {PROCESSES_MAX}: of those, only CPU time is read, in one sum"),
        }
    }

    /// How the watch fares: active while a process of the target is looked at.
    pub(crate) fn status(&self) -> SamplerStatus {
        let is_watched = self.processes.iter().any(|p| p.role == Role::Target);
        let (status, reason) = match (&self.failure, &self.unknown) {
            (Some(failure), _) => (SamplerState::Failed, failure.clone()),
            (None, _) if is_watched => (SamplerState::Active, self.leaves_out()),
            (None, Some(unknown)) => (SamplerState::Disabled, unknown.clone()),
            (None, None) => (SamplerState::Failed, "the target's processes have ended during the run".to_owned()),
        };
        SamplerStatus { name: NAME.to_owned(), status, reason }
    }
}

/// Id and name, as far as it has one.
fn known_of(pid: u32, name: &str) -> Details {
    let process = Some(name.to_owned()).filter(|name| !name.is_empty());
    Details { pid: Some(pid), process, ..Details::default() }
}

fn watched(pid: u32, stat: &Stat) -> Watched {
    Watched {
        role: Role::Target,
        pid,
        start_ticks: Some(stat.start_ticks),
        stack_start: stat.stack_start,
        name: stat.name.clone(),
        is_child: false,
    }
}

/// The kernel puts the stack elsewhere at each execve(2).
fn is_another_program(before: u64, now: u64) -> bool {
    before != 0 && now != 0 && before != now
}

fn described(process: &Watched) -> String {
    match &*process.name {
        "" => format!("{}", process.pid),
        name => format!("{name} ({})", process.pid),
    }
}

fn read(buffers: &mut Buffers, pid: u32) -> Result<Stat, SampleError> {
    Stat::parse(buffers.read_single(format_args!("/proc/{pid}/stat"))?)
        .ok_or_else(|| SampleError::lacks(format!("/proc/{pid}/stat"), "the fields up to the start time"))
}

fn sample_of(process: &Watched, stat: Stat) -> ProcessSample {
    let mut metrics = Metrics::default();
    metrics.set("page_faults", stat.minor_faults);
    metrics.set("major_faults", stat.major_faults);
    metrics.set("started_ns", ticks_ns(stat.start_ticks));
    ProcessSample {
        role: process.role,
        pid: process.pid,
        start_ticks: stat.start_ticks,
        name: stat.name,
        rss_bytes: None,
        descriptors: None,
        user_ns: Some(ticks_ns(stat.user_ticks)),
        system_ns: Some(ticks_ns(stat.system_ticks)),
        threads: Vec::new(),
        threads_total: stat.threads,
        runtime: None,
        metrics,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_that_was_given_to_another_process_is_not_the_target() {
        let own_pid = std::process::id();
        let mut buffers = Buffers::default();
        let spec = ObserveSpec { target: vec![own_pid, own_pid], own_pid, ..ObserveSpec::default() };
        let mut watch = Watch::new(spec, &mut buffers);
        let mut snapshot = Snapshot::default();
        watch.sample(&mut buffers, &mut snapshot);
        assert_eq!(snapshot.processes.len(), 2, "one of each role, a repeated id once");
        assert!(watch.events.is_empty());

        for process in watch.processes.iter_mut().filter(|p| p.role == Role::Target) {
            process.start_ticks = process.start_ticks.map(|ticks| ticks - 1);
        }
        let mut snapshot = Snapshot { at_ns: 9, ..Snapshot::default() };
        watch.sample(&mut buffers, &mut snapshot);
        assert!(snapshot.processes.iter().all(|p| p.role == Role::Generator), "{:?}", snapshot.processes);
        assert_eq!(watch.events.len(), 1);
        assert_eq!((watch.events[0].at_ns, &*watch.events[0].kind), (9, "target-gone"));
    }

    #[test]
    fn a_helper_that_has_the_servers_socket_may_end_and_an_older_process_may_not() {
        let told = |age: std::time::Duration| {
            let mut helper = std::process::Command::new("sleep").arg("60").spawn().unwrap();
            std::thread::sleep(age);
            let addresses = vec![Address::Tcp("127.0.0.1:1".parse().unwrap())];
            // This process stands for the server, so another one for the generator.
            let target = vec![std::process::id(), helper.id()];
            let mut buffers = Buffers::default();
            let spec = ObserveSpec { target, addresses, own_pid: 1, ..ObserveSpec::default() };
            let mut watch = Watch::new(spec, &mut buffers);
            watch.sample(&mut buffers, &mut Snapshot::default());
            helper.kill().unwrap();
            helper.wait().unwrap();
            watch.sample(&mut buffers, &mut Snapshot { at_ns: 9, ..Snapshot::default() });
            watch.events.iter().map(|event| event.kind.to_string()).collect::<Vec<_>>()
        };
        // Past the time that it takes to become `sleep`; beside other tests it may be old before it is looked at.
        assert!((0..5).any(|_| told(std::time::Duration::from_millis(50)).is_empty()));
        assert_eq!(told(std::time::Duration::from_millis(1200)), ["target-gone"]);
    }

    #[test]
    fn more_processes_than_the_bound_are_said() {
        let own_pid = std::process::id();
        let mut buffers = Buffers::default();
        let target = (4_200_000..).take(PROCESSES_MAX + 3).collect();
        let watch = Watch::new(ObserveSpec { target, own_pid, ..ObserveSpec::default() }, &mut buffers);
        assert_eq!(watch.processes.len(), PROCESSES_MAX + 1);
        assert_eq!(watch.events[0].kind, "target-processes-bound");
        assert!(watch.events[0].text.contains("67"), "{}", watch.events[0].text);
        assert!(watch.status().reason.starts_with("3 processes beyond 64: "), "{:?}", watch.status());
    }
}
