//! A history as bytes, so that a recording can keep what was made of readings that it keeps no more.
//!
//! What is restored is the history that was saved, to the last bit, and goes on as that would have: a test cuts runs at many
//! places and compares. Cells stand in columns, each value as the difference (exclusive or) to the one before it in a few
//! bytes: most series are zero or change little, and what is left is what compression is good at. The layout is postcard's,
//! so another one has another number ([`FORMAT`]). Nothing in the bytes is trusted. A day's takes 2 MB with what stands
//! beside it, and 140 KB deflated.

use super::axis::{Axis, Cell, Track};
use super::machine::Cpus;
use super::series::{Growth, Levels};
use super::{Group, History, Series};
use crate::facts::Demand;
use crate::limits::{SERIES_MAX, STRETCHES_MAX};
use crate::usage::HostTime;
use serde::de::{Error as _, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The layout's number, first in the bytes.
const FORMAT: u8 = 1;

impl History {
    /// All of it as bytes.
    ///
    /// # Errors
    /// In words; none that can come of a history.
    pub fn save(&self) -> Result<Vec<u8>, String> {
        postcard::to_stdvec(&(FORMAT, self)).map_err(|error| error.to_string())
    }

    /// The opposite of [`History::save`].
    ///
    /// # Errors
    /// In words, where the bytes are none that it made, or of a layout that this version does not know.
    pub fn restore(bytes: &[u8]) -> Result<Self, String> {
        match bytes.first() {
            Some(&FORMAT) => {}
            Some(other) => return Err(format!("expected a history of layout {FORMAT}, got one of {other}")),
            None => return Err("expected a history, got no bytes".to_owned()),
        }
        let (_, history): (u8, History) = postcard::from_bytes(bytes).map_err(|error| error.to_string())?;
        history.check().map(|()| history)
    }

    fn check(&self) -> Result<(), String> {
        let Axis { start_ns, ends_ns, .. } = &self.axis;
        let is_in_order = ends_ns.is_sorted_by(|a, b| a < b) && ends_ns.first().is_none_or(|first| start_ns <= first);
        if ends_ns.len() > STRETCHES_MAX || !is_in_order {
            return Err("its stretches of time are none that can be".to_owned());
        }
        if self.budget.kept > SERIES_MAX || self.cores.len() > SERIES_MAX {
            return Err("it holds more series than a history keeps".to_owned());
        }
        let networks = self.networks.values().chain(std::iter::once(&self.generator_network));
        let of_networks = networks.flat_map(|network| std::iter::once(&network.own).chain(network.interfaces.values()));
        let groups = [&self.machine, &self.generator_machine, &self.probes].into_iter();
        let groups = groups.chain(&self.cores).chain(self.disks.values()).chain(of_networks);
        let groups = groups.chain(self.listeners.values()).chain(&self.tasks.together);
        let groups = groups.chain(self.tasks.processes.values().map(|process| &process.group));
        let threads = self.tasks.threads.values();
        let of_threads = threads.flat_map(|t| [&t.run, &t.wait, &t.voluntary, &t.involuntary]);
        let of_neighbours = self.neighbours.values().map(|seen| &seen.cpu);
        let stretches = ends_ns.len();
        let fits = self.cpus.is_within(stretches)
            && groups.flat_map(Group::iter).all(|series| is_within(series, stretches))
            && of_threads.chain(of_neighbours).all(|track| track.is_within(stretches));
        if fits { Ok(()) } else { Err("something in it is of a time that it has not".to_owned()) }
    }
}

fn is_within(series: &Series, stretches: usize) -> bool {
    match series {
        Series::Counter(track, _) => track.is_within(stretches),
        Series::Gauge(track) | Series::Undeclared(track) => track.is_within(stretches),
    }
}

/// A value that goes into a column of its own by each of its fields.
pub trait Columns: Cell {
    /// How many columns.
    const COLUMNS: usize;
    /// The field of a column.
    fn column(&self, column: usize) -> u64;
    /// Sets it; `None` where it cannot be so.
    fn set(&mut self, column: usize, value: u64) -> Option<()>;
}

/// The bits of a float, its first ones last: those of small whole numbers are zero but for a few.
fn of_float(value: f64) -> u64 {
    value.to_bits().swap_bytes()
}

fn float(value: u64) -> Option<f64> {
    Some(f64::from_bits(value.swap_bytes())).filter(|value| value.is_finite())
}

impl Columns for Growth {
    const COLUMNS: usize = 4;

    fn column(&self, column: usize) -> u64 {
        match column {
            0 => of_float(self.grown),
            1 => of_float(self.covered_ns),
            2 => u64::from(self.readings),
            _ => u64::from(self.resets),
        }
    }

    fn set(&mut self, column: usize, value: u64) -> Option<()> {
        match column {
            0 => self.grown = float(value)?,
            1 => self.covered_ns = float(value)?,
            2 => self.readings = u32::try_from(value).ok()?,
            _ => self.resets = u32::try_from(value).ok()?,
        }
        Some(())
    }
}

impl Columns for Levels {
    const COLUMNS: usize = 5;

    fn column(&self, column: usize) -> u64 {
        match column {
            0 => self.min,
            1 => self.max,
            2 => self.last,
            3 => of_float(self.sum),
            _ => u64::from(self.readings),
        }
    }

    fn set(&mut self, column: usize, value: u64) -> Option<()> {
        match column {
            0 => self.min = value,
            1 => self.max = value,
            2 => self.last = value,
            3 => self.sum = float(value)?,
            _ => self.readings = u32::try_from(value).ok()?,
        }
        Some(())
    }
}

impl Cpus {
    /// Each field: how long it is known, and its figures.
    fn flat(&self) -> [Option<([f64; 4], f64)>; 5] {
        let host = |(time, ns): (HostTime, f64)| ([time.busy_ns, time.idle_ns, time.steal_ns, time.total_ns], ns);
        [
            self.demand.map(|(demand, ns)| ([demand.low, demand.high, 0.0, 0.0], ns)),
            self.host.map(host),
            self.generator_host.map(host),
            self.target.map(|(cpu, ns)| ([cpu, 0.0, 0.0, 0.0], ns)),
            self.held.map(|(held, ns)| ([held, 0.0, 0.0, 0.0], ns)),
        ]
    }

    fn of_flat([demand, host, generator_host, target, held]: [Option<([f64; 4], f64)>; 5]) -> Self {
        let time = |(all, ns): ([f64; 4], f64)| {
            let [busy_ns, idle_ns, steal_ns, total_ns] = all;
            (HostTime { busy_ns, idle_ns, steal_ns, total_ns }, ns)
        };
        Cpus {
            demand: demand.map(|([low, high, ..], ns)| (Demand { low, high }, ns)),
            host: host.map(time),
            generator_host: generator_host.map(time),
            target: target.map(|([cpu, ..], ns)| (cpu, ns)),
            held: held.map(|([held, ..], ns)| (held, ns)),
        }
    }
}

/// Columns of each of its fields: whether there is one, how long it is known, four figures.
const OF_A_FIELD: usize = 6;

impl Columns for Cpus {
    const COLUMNS: usize = 5 * OF_A_FIELD;

    fn column(&self, column: usize) -> u64 {
        let field = self.flat().get(column / OF_A_FIELD).copied().flatten();
        match (field, column % OF_A_FIELD) {
            (None, _) => 0,
            (Some(_), 0) => 1,
            (Some((_, ns)), 1) => of_float(ns),
            (Some((all, _)), figure) => all.get(figure - 2).copied().map_or(0, of_float),
        }
    }

    fn set(&mut self, column: usize, value: u64) -> Option<()> {
        let mut flat = self.flat();
        let field = flat.get_mut(column / OF_A_FIELD)?;
        match column % OF_A_FIELD {
            0 => *field = (value == 1).then_some(([0.0; 4], 0.0)),
            part => {
                if let Some((all, ns)) = field {
                    let into = if part == 1 { ns } else { all.get_mut(part - 2)? };
                    *into = float(value)?;
                }
            }
        }
        *self = Cpus::of_flat(flat);
        Some(())
    }
}

impl<C: Columns> Serialize for Track<C> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut bytes = Vec::with_capacity(C::COLUMNS * self.cells.len() * 2);
        for column in 0..C::COLUMNS {
            let mut before = 0;
            for cell in &self.cells {
                let value = cell.column(column);
                put(value ^ before, &mut bytes);
                before = value;
            }
        }
        (self.first as u64, self.cells.len() as u64, Bytes(bytes)).serialize(to)
    }
}

impl<'de, C: Columns> Deserialize<'de> for Track<C> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let (first, count, Bytes(bytes)) = <(u64, u64, Bytes)>::deserialize(from)?;
        let most = STRETCHES_MAX as u64;
        if first > most || count > most {
            return Err(D::Error::custom("it has more stretches of time than a history keeps"));
        }
        let mut cells = vec![C::default(); count as usize];
        let mut left = &bytes[..];
        for column in 0..C::COLUMNS {
            let mut before = 0;
            for cell in &mut cells {
                before ^= take(&mut left).ok_or_else(|| D::Error::custom("a column of it ends early"))?;
                cell.set(column, before).ok_or_else(|| D::Error::custom("a figure of it cannot be"))?;
            }
        }
        if !left.is_empty() {
            return Err(D::Error::custom("a column of it is too long"));
        }
        Ok(Track { first: first as usize, cells })
    }
}

/// Seven bits a byte, the lowest first; the highest bit says that more follow (LEB128).
fn put(mut value: u64, into: &mut Vec<u8>) {
    while value >= 0x80 {
        into.push(value as u8 | 0x80);
        value >>= 7;
    }
    into.push(value as u8);
}

fn take(from: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..u64::BITS).step_by(7) {
        let (byte, rest) = from.split_first()?;
        *from = rest;
        value |= u64::from(byte & 0x7f).checked_shl(shift)?;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

/// Bytes as such.
struct Bytes(Vec<u8>);

impl Serialize for Bytes {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_bytes(&self.0)
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct AsTheyAre;
        impl Visitor<'_> for AsTheyAre {
            type Value = Bytes;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("bytes")
            }

            fn visit_bytes<E>(self, bytes: &[u8]) -> Result<Bytes, E> {
                Ok(Bytes(bytes.to_vec()))
            }
        }
        from.deserialize_bytes(AsTheyAre)
    }
}

/// A snapshot as the JSON that a recording has of it: its fields may be absent, which postcard does not know.
pub mod as_document {
    use super::{Deserialize, Deserializer, Serialize, Serializer};
    use model::Snapshot;

    /// Writes it.
    pub fn serialize<S: Serializer>(snapshot: &Option<Box<Snapshot>>, to: S) -> Result<S::Ok, S::Error> {
        serde_json::to_string(snapshot).map_err(serde::ser::Error::custom)?.serialize(to)
    }

    /// Reads it.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Box<Snapshot>>, D::Error> {
        serde_json::from_str(&String::deserialize(from)?).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_any_size_take_few_bytes_and_come_back() {
        let all = [0, 1, 127, 128, 300, u64::MAX / 2, u64::MAX, of_float(1e9), of_float(-0.1)];
        let mut bytes = Vec::new();
        all.iter().for_each(|value| put(*value, &mut bytes));
        let mut left = &bytes[..];
        assert_eq!(all.map(|_| take(&mut left).unwrap()), all);
        assert_eq!(take(&mut left), None);
        assert_eq!(take(&mut &[0xff; 11][..]), None, "longer than a number can be");
        bytes.clear();
        put(of_float(3.0), &mut bytes);
        assert_eq!(bytes.len(), 2);
    }

    #[test]
    fn a_track_comes_back_to_the_last_bit_and_no_other_bytes_are_one() {
        let cell = |n: u32| Growth {
            grown: f64::from(n) / 3.0,
            covered_ns: 1e9,
            readings: 1,
            resets: u32::from(n.is_multiple_of(7)),
        };
        let track = Track { first: 3, cells: (0..200).map(cell).collect::<Vec<_>>() };
        let bytes = postcard::to_stdvec(&track).unwrap();
        assert_eq!(postcard::from_bytes::<Track<Growth>>(&bytes), Ok(track));
        for cut in 0..bytes.len() {
            assert!(postcard::from_bytes::<Track<Growth>>(&bytes[..cut]).is_err(), "cut at {cut}");
            let mut other = bytes.clone();
            other[cut] ^= 0x81;
            // Sense or none: it must not panic.
            let _ = postcard::from_bytes::<Track<Growth>>(&other);
        }
        let levels = Track { first: 0, cells: vec![Levels { min: 5, max: 9, last: 7, sum: 21.0, readings: 3 }; 4] };
        assert_eq!(postcard::from_bytes::<Track<Levels>>(&postcard::to_stdvec(&levels).unwrap()), Ok(levels));
        let cpus = Cpus { held: Some((0.0, 5.0)), host: Some((HostTime::default(), 0.25)), ..Cpus::default() };
        let cpus = Track { first: 1, cells: vec![Cpus::default(), cpus] };
        assert_eq!(postcard::from_bytes::<Track<Cpus>>(&postcard::to_stdvec(&cpus).unwrap()), Ok(cpus));
    }
}
