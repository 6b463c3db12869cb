//! Pictures of one figure over another: points, lines through them, stretches and levels. Unlike [`super::charts`] they have
//! no axis of time and no cursor in common.
//!
//! What a point means is its shape and its words, not its colour alone. Each plot has its points as a table.

use super::lines::shown;
use super::pack::{Column, Columns};
use super::table::{Cell, Table};
use super::unit::Unit;
use maud::{Markup, html};
use serde::Serialize;

/// A picture.
#[derive(Debug, Clone)]
pub struct Plot {
    /// Its id in the page.
    pub id: String,
    /// Its title.
    pub title: String,
    /// What it shows, in a sentence.
    pub about: String,
    /// What runs to the right.
    pub x: Axis,
    /// What runs upwards.
    pub y: Axis,
    /// How high it is drawn, pixels.
    pub height: u32,
    /// What a figure of nothing is called, at the foot of a logarithmic axis; `None`: such points are left out.
    pub nothing: Option<&'static str>,
    /// Its points and lines.
    pub series: Vec<Series>,
    /// Shaded stretches.
    pub stretches: Vec<Stretch>,
    /// Levels across all of it.
    pub levels: Vec<At>,
    /// Upright lines.
    pub uprights: Vec<At>,
}

/// An axis.
#[derive(Debug, Clone, Serialize)]
pub struct Axis {
    /// What it is of.
    pub name: String,
    /// In what it is counted.
    pub unit: Unit,
    /// Whether it is logarithmic.
    #[serde(rename = "log")]
    pub is_log: bool,
    /// Whether it begins at nothing.
    #[serde(rename = "from_zero")]
    pub is_from_zero: bool,
}

/// Points that mean the same.
#[derive(Debug, Clone)]
pub struct Series {
    /// Its name.
    pub name: String,
    /// The shape of its points.
    pub shape: Shape,
    /// Whether a line goes through them.
    pub line: Line,
    /// What they mean, for their colour.
    pub tone: Tone,
    /// Its points.
    pub points: Vec<Point>,
    /// Whether it is drawn through computed points, which are no measurements: they are in no table and take no cursor.
    pub is_computed: bool,
}

/// A point.
#[derive(Debug, Clone)]
pub struct Point {
    /// To the right.
    pub x: f64,
    /// Upwards.
    pub y: f64,
    /// What else is to be known of it.
    pub note: String,
}

/// The shape of points.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Shape {
    /// Only a line.
    None,
    /// A disc.
    Disc,
    /// A circle.
    Ring,
    /// A cross.
    Cross,
    /// A triangle.
    Triangle,
}

/// The line through points.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Line {
    /// None.
    None,
    /// Unbroken.
    Whole,
    /// In dashes.
    Dashed,
}

/// What a series means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Tone {
    /// The first of several.
    First,
    /// The second.
    Second,
    /// Well.
    Good,
    /// Not known.
    Warn,
    /// Not well.
    Bad,
    /// What others are set against.
    Dim,
}

/// A stretch of the axis to the right.
#[derive(Debug, Clone, Serialize)]
pub struct Stretch {
    /// Its beginning.
    pub from: f64,
    /// Its end.
    pub to: f64,
    /// What it is.
    pub name: String,
}

/// A place on an axis.
#[derive(Debug, Clone, Serialize)]
pub struct At {
    /// Where.
    pub at: f64,
    /// What is there.
    pub name: String,
}

/// Where the page finds a plot.
#[derive(Debug, Clone, Serialize)]
pub struct Places {
    id: String,
    x: Axis,
    y: Axis,
    height: u32,
    nothing: Option<&'static str>,
    series: Vec<SeriesPlace>,
    stretches: Vec<Stretch>,
    levels: Vec<At>,
    uprights: Vec<At>,
}

#[derive(Debug, Clone, Serialize)]
struct SeriesPlace {
    name: String,
    shape: Shape,
    line: Line,
    tone: Tone,
    computed: bool,
    x: Column,
    y: Column,
    notes: Vec<String>,
}

impl At {
    fn plain(&self) -> Self {
        At { at: self.at, name: shown(&self.name) }
    }
}

impl Axis {
    /// One that begins a little below what it holds.
    pub fn new(name: impl Into<String>, unit: Unit) -> Self {
        Axis { name: shown(&name.into()), unit, is_log: false, is_from_zero: false }
    }

    /// A logarithmic one.
    pub fn logarithmic(self) -> Self {
        Axis { is_log: true, ..self }
    }

    /// One that begins at nothing.
    pub fn from_zero(self) -> Self {
        Axis { is_from_zero: true, ..self }
    }
}

impl Series {
    /// Points of a shape, without a line.
    pub fn points(name: impl Into<String>, shape: Shape, tone: Tone, points: Vec<Point>) -> Self {
        Series { name: name.into(), shape, line: Line::None, tone, points, is_computed: false }
    }

    /// A line through computed points.
    pub fn computed(name: impl Into<String>, tone: Tone, points: impl IntoIterator<Item = (f64, f64)>) -> Self {
        let points = points.into_iter().map(|(x, y)| Point { x, y, note: String::new() }).collect();
        Series { name: name.into(), shape: Shape::None, line: Line::Dashed, tone, points, is_computed: true }
    }

    /// The same with a line through its points.
    pub fn joined(self, line: Line) -> Self {
        Series { line, ..self }
    }
}

impl Plot {
    /// One without stretches and levels yet.
    pub fn new(id: impl Into<String>, title: impl Into<String>, about: impl Into<String>, x: Axis, y: Axis) -> Self {
        Plot {
            id: id.into(),
            title: title.into(),
            about: about.into(),
            x,
            y,
            height: 280,
            nothing: None,
            series: Vec::new(),
            stretches: Vec::new(),
            levels: Vec::new(),
            uprights: Vec::new(),
        }
    }

    /// Whether it has a measured point.
    pub fn has_any(&self) -> bool {
        self.series.iter().any(|series| !series.is_computed && !series.points.is_empty())
    }

    /// Packs it. Points that its axes have no place for are left out.
    pub fn packed(&self, to: &mut Columns) -> Places {
        let fits = |point: &&Point| {
            let is_below = |value: f64, axis: &Axis| !value.is_finite() || (axis.is_log && value <= 0.0);
            !is_below(point.x, &self.x) && (!is_below(point.y, &self.y) || (point.y == 0.0 && self.nothing.is_some()))
        };
        let mut place = |series: &Series| {
            let points: Vec<&Point> = series.points.iter().filter(fits).collect();
            SeriesPlace {
                name: shown(&series.name),
                shape: series.shape,
                line: series.line,
                tone: series.tone,
                computed: series.is_computed,
                x: to.push(self.x.unit.scale(), points.iter().map(|point| Some(point.x))),
                y: to.push(self.y.unit.scale(), points.iter().map(|point| Some(point.y))),
                notes: if series.is_computed { Vec::new() } else { points.iter().map(|p| shown(&p.note)).collect() },
            }
        };
        Places {
            id: self.id.clone(),
            x: self.x.clone(),
            y: self.y.clone(),
            height: self.height,
            nothing: self.nothing,
            series: self.series.iter().filter(|series| !series.points.is_empty()).map(&mut place).collect(),
            stretches: self.stretches.clone(),
            levels: self.levels.iter().map(At::plain).collect(),
            uprights: self.uprights.iter().map(At::plain).collect(),
        }
    }

    /// Its figure, with its points as a table.
    pub fn markup(&self) -> Markup {
        html! {
            @if self.has_any() {
                figure.chart id={ "chart-" (self.id) } data-plot=(self.id) {
                    figcaption { h3 { (shown(&self.title)) } p { (shown(&self.about)) } }
                    div.plot {}
                    details.figures { summary { "Figures of this chart" } (self.table().markup()) }
                }
            }
        }
    }

    fn table(&self) -> Table {
        let nothing = |y: f64| if y == 0.0 { self.nothing } else { None };
        let row = |series: &Series, point: &Point| {
            vec![
                Cell::text(&*series.name),
                Cell::figure(Some(point.x), |x| self.x.unit.shown(x)),
                Cell::figure(Some(point.y), |y| nothing(y).map_or_else(|| self.y.unit.shown(y), str::to_owned)),
                Cell::text(&*point.note),
            ]
        };
        let measured = self.series.iter().filter(|series| !series.is_computed);
        let titles = [("series", false), (&*self.x.name, true), (&*self.y.name, true), ("what it is", false)];
        Table {
            caption: format!("{}: its points", self.title),
            columns: titles.map(|(title, is_figure)| (title.to_owned(), is_figure)).to_vec(),
            rows: measured.flat_map(|series| series.points.iter().map(move |point| row(series, point))).collect(),
        }
    }
}
