//! The clock rate of the CPUs: binds nothing, but makes figures of two runs differ.
//!
//! Documentation/admin-guide/pm/cpufreq.rst and intel_pstate.rst. Guests mostly see neither.

use super::shape::{Name, Said};
use model::check::{Demand, Item, Standing};
use model::readings::{Reading, Readings};

const GOVERNOR: Name = Name { id: "governor", setting: "cpufreq governor" };
const TURBO: Name = Name { id: "turbo", setting: "turbo" };

/// Only `performance` keeps the rate up while the load is small.
pub(super) fn governor(_demand: &Demand, readings: &Readings) -> Item {
    let Some(governors) = readings.governors.known() else {
        return match &readings.governors {
            Reading::Absent => GOVERNOR.not_read(&Reading::<()>::Unreadable(
                "this machine shows no cpufreq: who runs it decides, as for most guests".to_owned(),
            )),
            other => GOVERNOR.not_read(other),
        };
    };
    let value: Vec<String> = governors.iter().map(|(name, cpus)| format!("{name} on {cpus}")).collect();
    let is_steady = governors.iter().all(|(name, _)| name == "performance");
    let item = match is_steady {
        true => GOVERNOR.setting(value.join(", "), Standing::Ok, "the rate stays up"),
        false => GOVERNOR.setting(
            value.join(", "),
            Standing::Tight,
            "the rate follows the load: latency at small loads is the CPU's waking up, and runs differ",
        ),
    };
    item.changed_by(|| "cpupower frequency-set -g performance".to_owned())
}

/// Above the nominal rate it depends on temperature and on how many cores work.
pub(super) fn turbo(_demand: &Demand, readings: &Readings) -> Item {
    match &readings.turbo {
        Reading::Known(true) => {
            TURBO.setting("on", Standing::Ok, "the rate depends on how many cores work and how warm they are")
        }
        Reading::Known(false) => TURBO.setting("off", Standing::Ok, "the rate is the nominal one"),
        Reading::Absent => TURBO.not_read(&Reading::<()>::Unreadable("this machine does not show it".to_owned())),
        other => TURBO.not_read(other),
    }
}
