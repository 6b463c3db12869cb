//! The search for the load line: the highest load that holds an objective, its interval, and what gives beyond it.
//!
//! A file an axis: what a step saw ([`blocks`]), whether it held ([`decision`]), which load is next and where the line lies
//! ([`search`]), the fit that narrows it ([`fit`]), that no load holds ([`flat`]), what comes beyond it ([`beyond`]), how throughput scales over connections
//! ([`scaling`]); all of these pure.
//! What the load is a number of ([`axis`]), what is asked ([`objective`]), what the server answers at all and what is settled by that
//! ([`calibration`]), and the steps as runs ([`live`]). The line over a parameter
//! of the load, such as the payload's size, or over two ([`over`], [`surface`]). What the method is good for, model by model, is measured
//! in `crates/session/tests/capacity`, which writes the table of docs/capacity.md.

pub mod axis;
pub mod beyond;
pub mod blocks;
pub mod calibration;
pub mod decision;
pub mod fit;
pub mod flat;
pub mod live;
pub mod objective;
pub mod over;
pub mod scaling;
pub mod search;
pub mod surface;
