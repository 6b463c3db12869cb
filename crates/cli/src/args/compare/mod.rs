//! Arguments of `plimsoll ab`, `plimsoll compare` and `plimsoll trend`: what they share is here.

pub mod ab;
pub mod recorded;

use super::values;
use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use diagnose::comparison::{QUANTITIES, Quantity};

/// What a verdict is held to.
#[derive(Debug, Args)]
#[command(next_help_heading = "Verdicts")]
pub struct BoundsArgs {
    /// Changes of less do not matter: status 3 where B is worse and the near end of its interval is beyond
    #[arg(long, value_name = "SHARE", env = "PLIMSOLL_TOLERANCE", default_value = "3%", value_parser = values::share)]
    pub tolerance: f64,
    /// How sure it is that none of the verdicts "better" and "worse" is chance, all together
    #[arg(long, value_name = "SHARE", env = "PLIMSOLL_CONFIDENCE", default_value = "98%", value_parser = values::share)]
    pub confidence: f64,
    /// What verdicts are about; the fewer, the smaller a change that is found [default: all but p50, or with a rate all but throughput]
    #[arg(long, value_name = "LIST", env = "PLIMSOLL_DECLARE", value_delimiter = ',', value_parser = quantity())]
    pub declare: Vec<Quantity>,
}

fn quantity() -> impl TypedValueParser<Value = Quantity> {
    PossibleValuesParser::new(QUANTITIES.iter().map(|entry| PossibleValue::new(entry.name).help(entry.about))).try_map(
        |name| {
            let of_name = QUANTITIES.iter().find(|entry| entry.name == name);
            of_name.map(|entry| entry.quantity).ok_or("expected the name of a quantity")
        },
    )
}
