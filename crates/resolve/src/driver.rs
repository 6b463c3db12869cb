//! Which driver a plan gets, and why: one function to change when measurements say otherwise.
//!
//! A driver asked for by name is taken or refused. One chosen here falls back to epoll where io_uring cannot be
//! used, and says so.

use crate::Choice;
use crate::host::Host;
use crate::say::error::ResolveError;
use crate::say::field::Field;
use crate::say::words::{Words, words};
use model::plan::{Batch, DriverKind, Pace};

/// The driver that suits a plan where both can be used, and why (measured: docs/decisions/2026-11-21-drivers.md).
pub fn choose_driver(pace: &Pace, batch: Option<Batch>) -> (DriverKind, &'static str) {
    match (pace, batch) {
        (Pace::Held { .. }, _) => {
            (DriverKind::Rings, "a ring's own file table needs no descriptor and arms nothing that rests")
        }
        (_, Some(_)) => (DriverKind::Uring, "only a ring can wait for several completions at once"),
        (Pace::Open { .. }, None) => (DriverKind::Epoll, "a worker wakes by the clock, and io_uring costs as much"),
        (Pace::Burst { .. }, None) => (DriverKind::Uring, "a ring hands a burst to the kernel in one call"),
        (Pace::Closed { .. }, None) => (DriverKind::Epoll, "a worker wakes for each reply, and io_uring costs as much"),
    }
}

/// The driver of a plan; a warning where it is not the one that would suit.
pub(super) fn driver(
    asked: Option<DriverKind>,
    pace: &Pace,
    batch: Option<Batch>,
    host: &dyn Host,
    warnings: &mut Vec<Words>,
) -> Result<(DriverKind, Choice), ResolveError> {
    let choice = |kind: DriverKind, why: &str| (kind, Choice::new("driver", kind.name(), why));
    match asked {
        Some(kind @ (DriverKind::Uring | DriverKind::Rings)) => match host.uring_available() {
            Ok(()) => Ok(choice(kind, "asked for")),
            Err(why) => Err(ResolveError::NoUring { why }),
        },
        Some(kind) => Ok(choice(kind, "asked for")),
        None => match choose_driver(pace, batch) {
            (kind @ (DriverKind::Uring | DriverKind::Rings), because) => match host.uring_available() {
                Ok(()) => Ok(choice(kind, because)),
                Err(why) => {
                    warnings.push(words![
                        format!("io_uring cannot be used ({why}): epoll drives this run; "),
                        (Field::Driver, "epoll"),
                        " says so without this warning"
                    ]);
                    Ok(choice(DriverKind::Epoll, &format!("io_uring cannot be used: {why}")))
                }
            },
            (kind, because) => Ok(choice(kind, because)),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::FakeHost;
    use model::plan::{Arrivals, Think};

    const BATCH: Option<Batch> = Some(Batch { completions: 16, delay_ns: 1 });

    #[track_caller]
    fn check(asked: Option<DriverKind>, is_open: bool, batch: Option<Batch>, uring: bool, expected: &str) {
        let pace = match is_open {
            true => Pace::Open { profile: vec![], arrivals: Arrivals::Constant },
            false => Pace::Closed { think: Think::None },
        };
        let uring = if uring { Ok(()) } else { Err("it is forbidden".to_owned()) };
        let mut warnings = Vec::new();
        let host = FakeHost { uring, ..FakeHost::default() };
        let got = match driver(asked, &pace, batch, &host, &mut warnings) {
            Ok((kind, _)) => format!("{} {}", kind.name(), warnings.len()),
            Err(error) => {
                assert!(!error.is_usage(), "the machine is at fault, not the flag");
                error.to_string()
            }
        };
        assert_eq!(got, expected);
    }

    #[test]
    fn chosen_drivers_fall_back_and_named_ones_do_not() {
        check(None, false, None, true, "epoll 0");
        check(None, false, None, false, "epoll 0");
        check(None, false, BATCH, true, "uring 0");
        check(None, false, BATCH, false, "epoll 1");
        check(None, true, None, true, "epoll 0");
        check(None, true, None, false, "epoll 0");
        check(Some(DriverKind::Epoll), true, BATCH, false, "epoll 0");
        check(Some(DriverKind::Uring), false, None, true, "uring 0");
        check(
            Some(DriverKind::Uring),
            false,
            None,
            false,
            "driver uring: expected a kernel that allows io_uring, but it is forbidden: leave driver out, or use driver epoll",
        );
    }
}
