//! Arguments of `serve names`: the store, its supervisor, its journal, and what clients see while it is down.

use super::CommonArgs;
use crate::args::values;
use clap::Args;
use clap::builder::{BoolishValueParser, PossibleValuesParser, TypedValueParser};
use servers::names::{self, NamesOptions, OnCrash};
use std::path::PathBuf;
use std::time::Duration;

/// Arguments of `serve names`.
#[derive(Debug, Args)]
pub struct NamesArgs {
    /// How the server is built
    #[arg(long, value_name = "DESIGN", env = "PLIMSOLL_DESIGN", default_value = names::DESIGNS[0].info.name, value_parser = design())]
    design: &'static names::Design,
    /// Keep what is acknowledged on the disk: nothing of it is lost by a crash or kill -9
    #[arg(long, env = "PLIMSOLL_DURABLE", value_parser = BoolishValueParser::new())]
    durable: bool,
    /// The journal of --durable, which it then need not be told; FILE.lock and FILE.new lie beside it [default: names.journal]
    #[arg(long, value_name = "FILE", env = "PLIMSOLL_JOURNAL")]
    journal: Option<PathBuf>,
    /// Rewrite the journal when it is this many times as large as it would be then
    #[arg(long, value_name = "N", env = "PLIMSOLL_REWRITE_FACTOR", default_value = "4", value_parser = values::count::<u32>)]
    rewrite_factor: u32,
    /// What the store may hold: beyond, SET is refused
    #[arg(long, value_name = "SIZE", env = "PLIMSOLL_STORE_MAX", default_value = "1GiB", value_parser = values::size::<u64>)]
    store_max: u64,
    /// What clients see while the store is down: an error at once, a wait until it is back, or N tries with a pause that doubles
    #[arg(long, value_name = "fail-fast|wait|retry:N:BACKOFF", env = "PLIMSOLL_ON_CRASH", default_value = "fail-fast", value_parser = on_crash)]
    on_crash: OnCrash,
    /// How long --on-crash wait holds a request
    #[arg(long, value_name = "TIME", env = "PLIMSOLL_WAIT_TIMEOUT", default_value = "5s", value_parser = values::duration_ns)]
    wait_timeout: u64,
    /// How many connections --on-crash wait holds a request of; others get an error
    #[arg(long, value_name = "N", env = "PLIMSOLL_WAIT_QUEUE", default_value = "10k", value_parser = values::count::<usize>)]
    wait_queue: usize,
    /// Restarts of the store within --restart-period; at one crash more the server ends
    #[arg(long, value_name = "N", env = "PLIMSOLL_RESTARTS_MAX", default_value = "5", value_parser = values::count::<u32>)]
    restarts_max: u32,
    /// The period in which restarts are counted
    #[arg(long, value_name = "TIME", env = "PLIMSOLL_RESTART_PERIOD", default_value = "10s", value_parser = values::duration_ns)]
    restart_period: u64,
    /// The pause before a restart; doubles with each crash within the period
    #[arg(long, value_name = "TIME", env = "PLIMSOLL_RESTART_BACKOFF", default_value = "10ms", value_parser = values::duration_ns)]
    restart_backoff: u64,
    /// The longest such pause
    #[arg(long, value_name = "TIME", env = "PLIMSOLL_RESTART_BACKOFF_MAX", default_value = "1s", value_parser = values::duration_ns)]
    restart_backoff_max: u64,
    /// What every server is told.
    #[command(flatten)]
    pub common: CommonArgs,
}

impl NamesArgs {
    /// What only the name service is told.
    pub fn options(&self) -> NamesOptions {
        let journal = self.journal.clone().or_else(|| self.durable.then(|| PathBuf::from("names.journal")));
        NamesOptions {
            design: self.design,
            on_crash: self.on_crash,
            wait_timeout: Duration::from_nanos(self.wait_timeout),
            wait_queue: self.wait_queue,
            restarts_max: self.restarts_max,
            restart_period: Duration::from_nanos(self.restart_period),
            backoff: Duration::from_nanos(self.restart_backoff),
            backoff_max: Duration::from_nanos(self.restart_backoff_max),
            journal,
            rewrite_factor: self.rewrite_factor,
            store_bytes_max: self.store_max,
        }
    }
}

fn design() -> impl TypedValueParser<Value = &'static names::Design> {
    PossibleValuesParser::new(names::DESIGNS.iter().map(|design| design.info.name))
        .try_map(|name| names::design(&name).ok_or("expected the name of a design"))
}

/// `fail-fast`, `wait`, `retry:5:10ms`.
fn on_crash(text: &str) -> Result<OnCrash, String> {
    let retry = || {
        let (times, backoff) = text.strip_prefix("retry:")?.split_once(':')?;
        let times = values::count(times).ok()?;
        Some(OnCrash::Retry { times, backoff: Duration::from_nanos(values::duration_ns(backoff).ok()?) })
    };
    match text {
        "fail-fast" => Ok(OnCrash::FailFast),
        "wait" => Ok(OnCrash::Wait),
        _ => retry().ok_or_else(|| "expected fail-fast, wait, or retry:N:BACKOFF such as retry:5:10ms".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        names: NamesArgs,
    }

    #[test]
    fn what_is_not_said_is_the_default_of_the_server() {
        let options = Line::parse_from(["names"]).names.options();
        assert_eq!(format!("{options:?}"), format!("{:?}", NamesOptions::default()));
        let options = Line::parse_from(["names", "--durable"]).names.options();
        assert_eq!(options.journal, Some("names.journal".into()));
    }

    #[test]
    fn on_crash_is_read_or_refused() {
        assert_eq!(on_crash("retry:3:5ms"), Ok(OnCrash::Retry { times: 3, backoff: Duration::from_millis(5) }));
        for wrong in ["", "retry", "retry:3", "retry::1s", "retry:3:x", "retry:-1:1s", "waits"] {
            assert!(on_crash(wrong).is_err(), "{wrong}");
        }
    }
}
