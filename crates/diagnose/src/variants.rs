//! The same run in several variants: what each of them came to, and which expectations held in which.
//!
//! A variant is a run, or several, with other values of what the file varies ([`crate::repeats`] has what its runs come to). Nothing
//! is tested here: variants with a run each differ by chance, too. `plimsoll ab` compares two of them in turn. Pure.

use crate::comparison::Quantity;
use crate::repeats::{RepeatedLoad, Repeats};
use model::recording::End;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The document's name and version.
pub const SCHEMA: &str = "plimsoll.variants/1";

/// A file's variants.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Variants {
    /// Always `plimsoll.variants/1`.
    pub schema: String,
    /// The version that made it.
    pub version: String,
    /// How it ended.
    pub end: End,
    /// Variants of the file.
    pub asked: u32,
    /// What varies, in the order of the file.
    pub axes: Vec<Axis>,
    /// Each variant that was run, in order.
    pub variants: Vec<Variant>,
}

/// What varies.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Axis {
    /// Its name.
    pub name: String,
    /// Its values, by name, in the order of the file.
    pub values: Vec<String>,
}

/// What an axis is in a variant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Value {
    /// The axis.
    pub axis: String,
    /// Its value's name.
    pub value: String,
}

/// A variant.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Variant {
    /// What each axis is in it.
    pub values: Vec<Value>,
    /// Its runs.
    pub repeats: Repeats,
}

/// A variant's name: `design fork, size 4096`.
pub fn named(values: &[Value]) -> String {
    values.iter().map(|Value { axis, value }| format!("{axis} {value}")).collect::<Vec<_>>().join(", ")
}

/// What became of what was expected of a variant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expected {
    /// Nothing was stated.
    Nothing,
    /// All of it was met in each run.
    Met,
    /// Some of it could not be told.
    Undetermined,
    /// Some of it was not met in some run.
    NotMet,
}

impl Variant {
    /// Of all its loads.
    pub fn expected(&self) -> Expected {
        let all = || self.repeats.loads.iter().flat_map(|load| &load.expectations);
        match () {
            () if all().any(|one| one.not_met > 0) => Expected::NotMet,
            () if all().any(|one| one.undetermined > 0) => Expected::Undetermined,
            () if all().any(|one| one.is_stated) => Expected::Met,
            () => Expected::Nothing,
        }
    }

    /// Its load of a name; `None`: of the only one.
    pub fn load(&self, name: Option<&String>) -> Option<&RepeatedLoad> {
        self.repeats.loads.iter().find(|load| load.name.as_ref() == name)
    }
}

/// A variant in which a larger share of the requests failed is not compared with others by its throughput.
const FAILURES_MAX: f64 = 0.01;

/// The variants between which a figure of the main load varies the most.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Span<'a> {
    /// The variant with the least of it.
    pub least: (&'a Variant, f64),
    /// That with the most.
    pub most: (&'a Variant, f64),
}

impl Variants {
    /// Which have the least and the most of a figure of the main load, of those in which hardly a request failed; `None` where
    /// fewer than two have it.
    pub fn span(&self, quantity: Quantity) -> Option<Span<'_>> {
        let figure = |variant: &Variant| {
            let load = variant.repeats.loads.first()?;
            let of = |quantity| load.figures.iter().find(|figure| figure.quantity == quantity);
            let is_sound = of(Quantity::Failures).is_none_or(|failures| failures.median <= FAILURES_MAX);
            of(quantity).filter(|_| is_sound).map(|figure| figure.median)
        };
        let mut all: Vec<(&Variant, f64)> =
            self.variants.iter().filter_map(|variant| Some((variant, figure(variant)?))).collect();
        all.sort_by(|a, b| a.1.total_cmp(&b.1));
        match all[..] {
            [least, .., most] => Some(Span { least, most }),
            _ => None,
        }
    }
}
