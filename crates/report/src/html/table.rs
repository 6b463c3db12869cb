//! Tables that can be sorted and copied: each cell has its text and, where it is a figure, the number it is sorted by.

use super::lines::{class, shown};
use crate::text::Paint;
use maud::{Markup, html};

/// A table.
#[derive(Debug, Clone)]
pub(crate) struct Table {
    /// What it is of.
    pub caption: String,
    /// Titles of its columns, and whether they are of figures.
    pub columns: Vec<(String, bool)>,
    /// Its rows; the first cell is the row's name.
    pub rows: Vec<Vec<Cell>>,
}

/// A cell.
#[derive(Debug, Clone)]
pub(crate) struct Cell {
    /// What is shown.
    pub text: String,
    /// By what it is sorted; `None`: by its text.
    pub value: Option<f64>,
    /// How it is painted.
    pub paint: Paint,
}

impl Cell {
    /// Text.
    pub fn text(text: impl Into<String>) -> Self {
        Cell { text: text.into(), value: None, paint: Paint::Plain }
    }

    /// A figure, `–` where there is none.
    pub fn figure(value: Option<f64>, show: impl FnOnce(f64) -> String) -> Self {
        Cell { text: value.map_or("–".to_owned(), show), value, paint: Paint::Plain }
    }

    /// A count.
    pub fn count(n: u64) -> Self {
        Cell { text: crate::words::grouped(n), value: Some(n as f64), paint: Paint::Plain }
    }

    /// The same in a paint.
    pub fn painted(self, paint: Paint) -> Self {
        Cell { paint, ..self }
    }
}

/// Titles of columns: the first is of names, all others of figures.
pub fn figures(titles: &[&str]) -> Vec<(String, bool)> {
    titles.iter().enumerate().map(|(i, title)| ((*title).to_owned(), i > 0)).collect()
}

/// Titles of columns of text.
pub fn texts(titles: &[&str]) -> Vec<(String, bool)> {
    titles.iter().map(|title| ((*title).to_owned(), false)).collect()
}

impl Table {
    /// As markup; nothing where it has no row.
    pub fn markup(&self) -> Markup {
        html! {
            @if !self.rows.is_empty() {
                div.scroll {
                    table.sortable {
                        caption { (shown(&self.caption)) }
                        thead { tr {
                            @for (title, is_figure) in &self.columns {
                                th scope="col" class=[is_figure.then_some("figure")] { (shown(title)) }
                            }
                        } }
                        tbody {
                            @for row in &self.rows {
                                tr {
                                    @for ((i, cell), (_, is_figure)) in row.iter().enumerate().zip(&self.columns) {
                                        @if i == 0 {
                                            th scope="row" class=[class(cell.paint)] data-value=[cell.value] { (shown(&cell.text)) }
                                        } @else {
                                            td class=[classes(*is_figure, cell.paint)] data-value=[cell.value] { (shown(&cell.text)) }
                                        }
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn classes(is_figure: bool, paint: Paint) -> Option<String> {
    match (is_figure, class(paint)) {
        (false, None) => None,
        (false, Some(class)) => Some(class.to_owned()),
        (true, None) => Some("figure".to_owned()),
        (true, Some(class)) => Some(format!("figure {class}")),
    }
}
