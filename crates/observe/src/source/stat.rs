//! `/proc/<pid>/stat`, of a process or of one of its threads: the fields that are used, by their numbers in proc(5).
//!
//! The name stands in parentheses and may hold blanks, parentheses and bytes that are no UTF-8, so what follows is
//! counted from the last closing parenthesis. Times are in clock ticks, usually 10 ms.

use super::proc::{number, words};

/// What is used of a `stat` line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stat {
    /// Field 2.
    pub(crate) name: String,
    /// Field 3.
    pub(crate) state: char,
    /// Field 4: the process that began it, or took it over when that one ended.
    pub(crate) parent: u32,
    /// Field 9, bit PF_KTHREAD of linux/sched.h: a thread of the kernel's own.
    pub(crate) is_kernels: bool,
    /// Field 10: page faults without I/O.
    pub(crate) minor_faults: u64,
    /// Field 12: page faults with I/O.
    pub(crate) major_faults: u64,
    /// Field 14, clock ticks.
    pub(crate) user_ticks: u64,
    /// Field 15, clock ticks.
    pub(crate) system_ticks: u64,
    /// Fields 16 and 17, clock ticks: the time of children that have ended and were waited for, and of theirs.
    pub(crate) waited_user_ticks: u64,
    pub(crate) waited_system_ticks: u64,
    /// Field 20.
    pub(crate) threads: u32,
    /// Field 22, clock ticks since boot.
    pub(crate) start_ticks: u64,
    /// Field 24: pages that are resident, which the kernel says are inaccurate by some pages.
    pub(crate) resident_pages: u64,
    /// Field 28: where the stack begins, another place after each execve; 0 where it is not for us to see.
    pub(crate) stack_start: u64,
    /// Field 39: the CPU it last ran on.
    pub(crate) core: Option<u32>,
}

impl Stat {
    /// Parses a line; `None` where it is not of the documented form.
    pub(crate) fn parse(line: &[u8]) -> Option<Self> {
        let open = line.iter().position(|b| *b == b'(')?;
        let close = line.iter().rposition(|b| *b == b')')?;
        let name = line.get(open + 1..close)?;
        let mut stat = Stat {
            name: String::from_utf8_lossy(name).into_owned(),
            state: '?',
            parent: 0,
            is_kernels: false,
            resident_pages: 0,
            minor_faults: 0,
            major_faults: 0,
            stack_start: 0,
            user_ticks: 0,
            system_ticks: 0,
            waited_user_ticks: 0,
            waited_system_ticks: 0,
            threads: 0,
            start_ticks: 0,
            core: None,
        };
        let mut fields = 2;
        for (field, word) in (3..).zip(words(line.get(close + 1..)?)) {
            fields = field;
            match field {
                3 => stat.state = char::from(word[0]),
                4 => stat.parent = number(word).and_then(|n| u32::try_from(n).ok()).unwrap_or(0),
                9 => stat.is_kernels = number(word).is_some_and(|flags| flags & 0x0020_0000 != 0),
                24 => stat.resident_pages = number(word).unwrap_or(0),
                10 => stat.minor_faults = number(word).unwrap_or(0),
                12 => stat.major_faults = number(word).unwrap_or(0),
                28 => stat.stack_start = number(word).unwrap_or(0),
                14 => stat.user_ticks = number(word)?,
                15 => stat.system_ticks = number(word)?,
                16 => stat.waited_user_ticks = number(word).unwrap_or(0),
                17 => stat.waited_system_ticks = number(word).unwrap_or(0),
                20 => stat.threads = u32::try_from(number(word)?).unwrap_or(u32::MAX),
                22 => stat.start_ticks = number(word)?,
                39 => stat.core = number(word).and_then(|n| u32::try_from(n).ok()),
                _ => {}
            }
        }
        (fields >= 22).then_some(stat)
    }

    /// Whether the process has ended and only waits to be reaped. A first thread that ended before the others
    /// (`pthread_exit` in `main`) is shown as a zombie too, while the process lives on in them.
    pub(crate) fn process_has_ended(&self) -> bool {
        thread_has_ended(self.state) && self.threads <= 1
    }
}

/// Whether a thread with this state letter has ended.
pub(crate) fn thread_has_ended(state: char) -> bool {
    matches!(state, 'Z' | 'X' | 'x')
}

/// Clock ticks as nanoseconds (`sysconf(_SC_CLK_TCK)` ticks a second).
pub(crate) fn ticks_ns(ticks: u64) -> u64 {
    let per_s = rustix::param::clock_ticks_per_second().max(1);
    u64::try_from(u128::from(ticks) * 1_000_000_000 / u128::from(per_s)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(name: &str) -> String {
        let rest: Vec<String> = (4..=52).map(|field| (field * 10).to_string()).collect();
        format!("77 ({name}) R {}\n", rest.join(" "))
    }

    #[test]
    fn a_name_cannot_shift_the_fields() {
        for name in ["nginx", "a b", "x) R 1 (y", ")", "((", ""] {
            let stat = Stat::parse(line(name).as_bytes()).unwrap();
            assert_eq!(
                stat,
                Stat {
                    name: name.to_owned(),
                    state: 'R',
                    parent: 40,
                    is_kernels: false,
                    resident_pages: 240,
                    minor_faults: 100,
                    major_faults: 120,
                    stack_start: 280,
                    user_ticks: 140,
                    system_ticks: 150,
                    waited_user_ticks: 160,
                    waited_system_ticks: 170,
                    threads: 200,
                    start_ticks: 220,
                    core: Some(390)
                },
                "{name}"
            );
        }
    }

    #[test]
    fn what_is_no_stat_line_is_refused() {
        let whole = line("x");
        for text in ["", "77", "77 (x", "77 x) R", "77 )x( R 1", "77 (x) R 1 2 3", "77 (x) R a b c d e f g h i j k l"] {
            assert_eq!(Stat::parse(text.as_bytes()), None, "{text}");
        }
        // Cut anywhere: never a panic, and never a start time that is not there.
        for cut in 0..whole.len() {
            if let Some(stat) = Stat::parse(&whole.as_bytes()[..cut]) {
                assert!(cut > whole.find(" 220").unwrap(), "{stat:?}");
            }
        }
    }

    #[test]
    fn a_zombie_with_other_threads_is_a_process_that_lives() {
        for (state, threads, expected) in
            [('Z', 1, true), ('Z', 0, true), ('X', 1, true), ('Z', 2, false), ('S', 1, false), ('R', 9, false)]
        {
            let mut stat = Stat::parse(line("x").as_bytes()).unwrap();
            (stat.state, stat.threads) = (state, threads);
            assert_eq!(stat.process_has_ended(), expected, "{state} {threads}");
        }
    }

    #[test]
    fn the_kernel_agrees_with_us_about_ourselves() {
        let text = std::fs::read("/proc/self/stat").unwrap();
        let stat = Stat::parse(&text).unwrap();
        // It is that of the first thread, which may wait for memory that others map.
        assert!(stat.threads >= 1 && stat.start_ticks > 0 && "RSD".contains(stat.state), "{stat:?}");
        assert!(stat.core.is_some());
    }
}
