//! Readings over a run, taken in one by one as they come: of each name the first, the last, the least and the most.
//!
//! A recording keeps few of many snapshots, which is enough to draw them and too few to say what the most was. These are of
//! every one. Bounded: so many processes, threads, devices and namespaces; beyond that those that ended with the least CPU
//! time go, or what is new is left out.

use crate::limits::{COURSES_DEVICES_MAX, COURSES_PROCESSES_MAX, COURSES_THREADS_MAX};
use crate::metrics::Metrics;
use crate::snapshot::{ProcessSample, Role, Runtime, Snapshot, ThreadSample};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A metric over the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Course {
    /// The first reading.
    pub first: u64,
    /// The last.
    pub last: u64,
    /// The least.
    pub min: u64,
    /// The most.
    pub max: u64,
}

impl Course {
    /// Of one reading.
    pub fn of(value: u64) -> Self {
        Course { first: value, last: value, min: value, max: value }
    }

    fn push(&mut self, value: u64) {
        *self = Course { first: self.first, last: value, min: self.min.min(value), max: self.max.max(value) };
    }

    /// The last less the first.
    pub fn delta(&self) -> i64 {
        let delta = i128::from(self.last) - i128::from(self.first);
        i64::try_from(delta).unwrap_or(if delta > 0 { i64::MAX } else { i64::MIN })
    }
}

/// Takes a reading into a course that may not have begun.
fn push(course: &mut Option<Course>, value: Option<u64>) {
    let Some(value) = value else { return };
    course.get_or_insert(Course::of(value)).push(value);
}

/// Metrics over the run, by name.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Courses(pub BTreeMap<String, Course>);

impl Courses {
    fn push(&mut self, metrics: &Metrics) {
        for (name, value) in metrics.iter() {
            match self.0.get_mut(name) {
                Some(course) => course.push(value),
                None => drop(self.0.insert(name.to_owned(), Course::of(value))),
            }
        }
    }
}

/// Takes in the readings of each of several things that have names, such as disks.
fn push_each(all: &mut BTreeMap<String, Courses>, readings: &BTreeMap<String, Metrics>) {
    for (name, metrics) in readings {
        if let Some(courses) = all.get_mut(name) {
            courses.push(metrics);
        } else if all.len() < COURSES_DEVICES_MAX {
            all.entry(name.clone()).or_default().push(metrics);
        }
    }
}

/// A network namespace over the run.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct NetworkCourses {
    /// Its own.
    pub own: Courses,
    /// Each interface's.
    pub interfaces: BTreeMap<String, Courses>,
}

/// A listening socket over the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListenerCourse {
    /// Most connections that waited to be accepted.
    pub waiting_max: u32,
    /// How many may wait, as last read.
    pub backlog: u32,
}

/// A counter of CPU time from its first to its last reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuCourse {
    /// When it was first read, nanoseconds of the run.
    pub from_ns: i64,
    /// When last.
    pub to_ns: i64,
    /// The time itself, nanoseconds.
    pub ns: Course,
}

impl CpuCourse {
    /// CPUs that were used on average; `None` where no time passed.
    pub fn cpus(&self) -> Option<f64> {
        let passed_ns = self.to_ns.saturating_sub(self.from_ns);
        (passed_ns > 0).then(|| self.ns.last.saturating_sub(self.ns.first) as f64 / passed_ns as f64)
    }

    fn push(course: &mut Option<Self>, at_ns: i64, ns: Option<u64>) {
        let Some(ns) = ns else { return };
        let course = course.get_or_insert(CpuCourse { from_ns: at_ns, to_ns: at_ns, ns: Course::of(ns) });
        course.to_ns = at_ns;
        course.ns.push(ns);
    }
}

/// A thread over the run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadCourse {
    /// Its id.
    pub tid: u32,
    /// Its name, as last read.
    pub name: String,
    /// Its time on CPUs.
    pub cpu: CpuCourse,
}

/// A process over the run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessCourse {
    /// Whose it is.
    pub role: Role,
    /// Its id.
    pub pid: u32,
    /// Start time in clock ticks since boot: tells a reused id apart.
    pub start_ticks: u64,
    /// Its name, as last read.
    pub name: String,
    /// The language runtime it has mapped.
    pub runtime: Option<Runtime>,
    /// Threads it had at the last reading.
    pub threads_total: u32,
    /// When it was last seen, nanoseconds of the run.
    pub last_ns: i64,
    /// Its CPU time, all threads.
    pub cpu: Option<CpuCourse>,
    /// Resident memory, bytes.
    pub rss_bytes: Option<Course>,
    /// Open descriptors.
    pub descriptors: Option<Course>,
    /// Its other readings.
    pub metrics: Courses,
    /// Its threads whose time on CPUs was read, in the order they were first seen.
    pub threads: Vec<ThreadCourse>,
}

impl ProcessCourse {
    fn of(sample: &ProcessSample, at_ns: i64) -> Self {
        let mut course = ProcessCourse {
            role: sample.role,
            pid: sample.pid,
            start_ticks: sample.start_ticks,
            name: String::new(),
            runtime: None,
            threads_total: 0,
            last_ns: at_ns,
            cpu: None,
            rss_bytes: None,
            descriptors: None,
            metrics: Courses::default(),
            threads: Vec::new(),
        };
        course.push(sample, at_ns);
        course
    }

    fn is_of(&self, sample: &ProcessSample) -> bool {
        (self.role, self.pid, self.start_ticks) == (sample.role, sample.pid, sample.start_ticks)
    }

    fn push(&mut self, sample: &ProcessSample, at_ns: i64) {
        if self.name != sample.name {
            self.name.clone_from(&sample.name);
        }
        self.runtime = sample.runtime.or(self.runtime);
        (self.threads_total, self.last_ns) = (sample.threads_total, at_ns);
        CpuCourse::push(&mut self.cpu, at_ns, sample.cpu_ns());
        push(&mut self.rss_bytes, sample.rss_bytes);
        push(&mut self.descriptors, sample.descriptors);
        self.metrics.push(&sample.metrics);
        for thread in &sample.threads {
            self.push_thread(thread, at_ns);
        }
    }

    fn push_thread(&mut self, thread: &ThreadSample, at_ns: i64) {
        let Some(run_ns) = thread.run_ns else { return };
        if let Some(known) = self.threads.iter_mut().find(|known| known.tid == thread.tid) {
            if known.name != thread.name {
                known.name.clone_from(&thread.name);
            }
            // Of an id that was given anew the counter begins anew.
            let before = if run_ns < known.cpu.ns.last { None } else { Some(known.cpu) };
            let mut cpu = before;
            CpuCourse::push(&mut cpu, at_ns, Some(run_ns));
            known.cpu = cpu.unwrap_or(known.cpu);
            return;
        }
        if self.threads.len() >= COURSES_THREADS_MAX {
            let ended = self.threads.iter().enumerate().filter(|(_, known)| known.cpu.to_ns < at_ns);
            let Some((least, _)) = ended.min_by_key(|(_, known)| known.cpu.ns.last) else { return };
            self.threads.remove(least);
        }
        let cpu = CpuCourse { from_ns: at_ns, to_ns: at_ns, ns: Course::of(run_ns) };
        self.threads.push(ThreadCourse { tid: thread.tid, name: thread.name.clone(), cpu });
    }

    /// The thread that used most CPU over the time that the process was seen, and its share of one CPU, 0..=1.
    pub fn busiest_thread(&self) -> Option<(&str, f64)> {
        let whole = self.cpu?;
        let passed_ns = whole.to_ns.saturating_sub(whole.from_ns);
        let share = |thread: &ThreadCourse| {
            thread.cpu.ns.last.saturating_sub(thread.cpu.ns.first) as f64 / passed_ns.max(1) as f64
        };
        let seen_twice = self.threads.iter().filter(|thread| passed_ns > 0 && thread.cpu.to_ns > thread.cpu.from_ns);
        seen_twice.map(|thread| (&*thread.name, share(thread))).max_by(|a, b| a.1.total_cmp(&b.1))
    }
}

/// All of them. Of the load: what was read after it had ended (`load --after`) is not in it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct RunCourses {
    /// The target's machine.
    pub host: Courses,
    /// Its disks.
    pub disks: BTreeMap<String, Courses>,
    /// Network namespaces, by the process of the target whose each is; `None`: the generator's, as no target is known.
    #[serde(with = "pairs")]
    pub networks: BTreeMap<Option<u32>, NetworkCourses>,
    /// Of these the one that was read last.
    pub last_network: Option<u32>,
    /// The target's listening sockets, by address.
    pub listeners: BTreeMap<String, ListenerCourse>,
    /// Target's and generator's processes, in the order they were first seen.
    pub processes: Vec<ProcessCourse>,
    /// Memory that is available on the target's machine, bytes.
    pub memory_available_bytes: Option<Course>,
    /// Sockets in TIME_WAIT on the generator's machine.
    pub time_wait: Option<Course>,
}

impl RunCourses {
    /// Of snapshots that are all there.
    pub fn of(snapshots: &[Snapshot]) -> Self {
        let mut courses = RunCourses::default();
        snapshots.iter().for_each(|snapshot| courses.push(snapshot));
        courses
    }

    /// Takes a snapshot in; they come in order.
    pub fn push(&mut self, snapshot: &Snapshot) {
        if snapshot.is_after_load {
            return;
        }
        self.host.push(&snapshot.host);
        push_each(&mut self.disks, &snapshot.disks);
        let pid = snapshot.network_pid;
        let is_known = self.networks.contains_key(&pid) || self.networks.len() < COURSES_DEVICES_MAX;
        if is_known && !(snapshot.network.is_empty() && snapshot.interfaces.is_empty()) {
            let network = self.networks.entry(pid).or_default();
            network.own.push(&snapshot.network);
            push_each(&mut network.interfaces, &snapshot.interfaces);
            if !snapshot.network.is_empty() {
                self.last_network = pid;
            }
        }
        for sample in &snapshot.listeners {
            if let Some(listener) = self.listeners.get_mut(&sample.address) {
                listener.waiting_max = listener.waiting_max.max(sample.waiting);
                listener.backlog = sample.backlog;
            } else if self.listeners.len() < COURSES_DEVICES_MAX {
                let listener = ListenerCourse { waiting_max: sample.waiting, backlog: sample.backlog };
                self.listeners.insert(sample.address.clone(), listener);
            }
        }
        for sample in &snapshot.processes {
            self.push_process(sample, snapshot.at_ns);
        }
        push(&mut self.memory_available_bytes, snapshot.memory_available_bytes);
        push(&mut self.time_wait, snapshot.generator_time_wait());
    }

    fn push_process(&mut self, sample: &ProcessSample, at_ns: i64) {
        if let Some(known) = self.processes.iter_mut().find(|known| known.is_of(sample)) {
            return known.push(sample, at_ns);
        }
        if self.processes.len() >= COURSES_PROCESSES_MAX {
            let ended = self.processes.iter().enumerate().filter(|(_, known)| known.last_ns < at_ns);
            let least = ended.min_by_key(|(_, known)| known.cpu.map_or(0, |cpu| cpu.ns.last)).map(|(at, _)| at);
            let Some(least) = least else { return };
            self.processes.remove(least);
        }
        self.processes.push(ProcessCourse::of(sample, at_ns));
    }

    /// The network namespace that was read last: readings of another are of other things.
    pub fn network(&self) -> Option<&NetworkCourses> {
        self.networks.get(&self.last_network)
    }

    /// The processes of a role.
    pub fn of_role(&self, role: Role) -> impl Iterator<Item = &ProcessCourse> {
        self.processes.iter().filter(move |process| process.role == role)
    }

    /// Whether a run can have left it.
    pub fn is_sound(&self) -> bool {
        let devices = [self.disks.len(), self.networks.len(), self.listeners.len()];
        let interfaces = self.networks.values().map(|network| network.interfaces.len());
        let threads = self.processes.iter().map(|process| process.threads.len());
        devices.into_iter().chain(interfaces).all(|n| n <= COURSES_DEVICES_MAX)
            && self.processes.len() <= COURSES_PROCESSES_MAX
            && threads.into_iter().all(|n| n <= COURSES_THREADS_MAX)
    }
}

/// A map whose keys are no text, which JSON has no other way to write.
mod pairs {
    use super::NetworkCourses;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use std::collections::BTreeMap;

    type Networks = BTreeMap<Option<u32>, NetworkCourses>;

    pub(super) fn serialize<S: Serializer>(networks: &Networks, to: S) -> Result<S::Ok, S::Error> {
        networks.iter().collect::<Vec<_>>().serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Networks, D::Error> {
        Vec::<(Option<u32>, NetworkCourses)>::deserialize(from).map(|pairs| pairs.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::ListenerSample;

    fn seen(at_ns: i64, value: u64, waiting: u32) -> Snapshot {
        let mut snapshot = Snapshot { at_ns, network_pid: Some(7), ..Snapshot::default() };
        snapshot.host.set("memory_free_bytes", value);
        snapshot.network.set("listen_drops", 100 - value);
        snapshot.disks.entry("sda".to_owned()).or_default().set("reads", value);
        let address = "127.0.0.1:80".to_owned();
        snapshot.listeners.push(ListenerSample { address, waiting, backlog: 128, ..ListenerSample::default() });
        snapshot
    }

    fn process(pid: u32, cpu_ns: u64, threads: &[(u32, u64)]) -> ProcessSample {
        let thread = |&(tid, run_ns): &(u32, u64)| ThreadSample {
            tid,
            name: String::new(),
            state: 'R',
            core: None,
            run_ns: Some(run_ns),
            wait_ns: None,
            user_ns: None,
            system_ns: None,
            switches: None,
            stands: None,
        };
        ProcessSample {
            role: Role::Target,
            pid,
            start_ticks: 0,
            name: String::new(),
            rss_bytes: Some(1000 - cpu_ns),
            descriptors: None,
            user_ns: Some(cpu_ns),
            system_ns: Some(0),
            threads: threads.iter().map(thread).collect(),
            threads_total: 1,
            runtime: None,
            metrics: Metrics::default(),
        }
    }

    #[test]
    fn a_course_has_its_ends_and_extremes_and_readings_of_another_namespace_are_apart() {
        let mut other = Snapshot::default();
        other.network.set("listen_drops", 99);
        let courses = RunCourses::of(&[other, seen(1, 50, 3), seen(2, 70, 99), seen(3, 20, 0)]);
        assert_eq!(courses.host.0["memory_free_bytes"], Course { first: 50, last: 20, min: 20, max: 70 });
        assert_eq!(courses.host.0["memory_free_bytes"].delta(), -30);
        assert_eq!(courses.disks["sda"].0["reads"].max, 70);
        let network = courses.network().unwrap();
        assert_eq!(network.own.0["listen_drops"], Course { first: 50, last: 80, min: 30, max: 80 });
        assert_eq!((courses.last_network, courses.listeners["127.0.0.1:80"].waiting_max), (Some(7), 99));
    }

    #[test]
    fn processes_and_threads_are_counted_for_the_time_they_were_seen() {
        let at = |at_ns, processes| Snapshot { at_ns, processes, ..Snapshot::default() };
        let courses = RunCourses::of(&[
            at(0, vec![process(7, 0, &[(1, 50)])]),
            at(100, vec![process(7, 50, &[(1, 90), (2, 20)])]),
            at(200, vec![process(8, 100, &[(9, 30)])]),
            at(300, vec![process(8, 150, &[(9, 40)])]),
        ]);
        let of: Vec<_> =
            courses.processes.iter().map(|p| (p.pid, p.cpu.unwrap().cpus(), p.busiest_thread().unwrap().1)).collect();
        assert_eq!(of, [(7, Some(0.5), 0.4), (8, Some(0.5), 0.1)]);
        assert_eq!(courses.processes[0].rss_bytes, Some(Course { first: 1000, last: 950, min: 950, max: 1000 }));
    }

    #[test]
    fn of_very_many_processes_and_threads_the_busiest_are_kept() {
        let mut courses = RunCourses::default();
        for i in 0..2000_u32 {
            let lasting = process(1, 900, &[(1, 500), (10_000 + i, 3)]);
            let short = process(100 + i, u64::from(i % 7), &[]);
            courses.push(&Snapshot { at_ns: i64::from(i), processes: vec![lasting, short], ..Snapshot::default() });
        }
        assert!(courses.is_sound() && courses.processes.len() == COURSES_PROCESSES_MAX);
        assert_eq!((courses.processes[0].pid, courses.processes[0].threads.len()), (1, COURSES_THREADS_MAX));
        assert_eq!(courses.processes[0].threads[0].tid, 1);
        let again: RunCourses = serde_json::from_str(&serde_json::to_string(&courses).unwrap()).unwrap();
        assert_eq!(again, courses);
    }
}
