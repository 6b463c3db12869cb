//! What of a column has room: blocks of lines by rank, then more lines of each, then blank lines between them.

use crate::text::page::Span;

/// A line's parts.
pub type Spans = Vec<Span>;

/// Lines that belong together.
pub struct Block<'a> {
    /// What is lower is kept longer.
    pub rank: u8,
    /// So many lines at the least.
    pub least: usize,
    /// So many at the most.
    pub most: usize,
    /// The lines, of so many that there is room for.
    pub lines: Box<dyn Fn(usize) -> Vec<Spans> + 'a>,
}

impl<'a> Block<'a> {
    /// One that is made for the room it gets.
    pub fn new(rank: u8, least: usize, most: usize, lines: impl Fn(usize) -> Vec<Spans> + 'a) -> Self {
        Block { rank, least, most: most.max(least), lines: Box::new(lines) }
    }

    /// Lines that are there, the most important first.
    pub fn of(rank: u8, lines: Vec<Spans>) -> Self {
        let most = lines.len();
        Block::new(rank, most.min(1), most, move |rows| lines.iter().take(rows).cloned().collect())
    }
}

/// The lines of those that have room in so many rows, in their order.
pub fn fit(blocks: &[Block<'_>], rows: usize) -> Vec<Spans> {
    let mut by_rank: Vec<usize> = (0..blocks.len()).filter(|at| blocks[*at].most > 0).collect();
    by_rank.sort_by_key(|at| blocks[*at].rank);
    let mut given = vec![0; blocks.len()];
    let mut left = rows;
    for at in &by_rank {
        if blocks[*at].least <= left {
            given[*at] = blocks[*at].least;
            left -= blocks[*at].least;
        }
    }
    // Blank lines are worth more than the last line of everything: they are counted in as soon as there is room to spare.
    let shown = given.iter().filter(|rows| **rows > 0).count();
    let gaps = shown.saturating_sub(1);
    let has_gaps = left >= 2 * gaps;
    left -= if has_gaps { gaps } else { 0 };
    for at in by_rank.iter().filter(|at| blocks[**at].least <= rows) {
        if given[*at] > 0 {
            let more = (blocks[*at].most - given[*at]).min(left);
            given[*at] += more;
            left -= more;
        }
    }
    let mut lines = Vec::new();
    for (block, rows) in blocks.iter().zip(given).filter(|(_, rows)| *rows > 0) {
        if has_gaps && !lines.is_empty() {
            lines.push(Vec::new());
        }
        lines.extend((block.lines)(rows).into_iter().take(rows));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::Paint;

    fn block(rank: u8, name: &str, lines: usize) -> Block<'static> {
        Block::of(rank, (0..lines).map(|line| vec![(Paint::Plain, format!("{name}{line}"))]).collect())
    }

    fn fitted(rows: usize) -> String {
        let blocks = [block(2, "b", 1), block(1, "a", 3), block(3, "c", 2), block(0, "none", 0)];
        let lines = fit(&blocks, rows);
        assert!(lines.len() <= rows);
        let text = |line: &Spans| line.iter().map(|(_, text)| text.as_str()).collect::<String>();
        lines.iter().map(text).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn the_least_important_is_left_out_first() {
        assert_eq!(fitted(0), "");
        assert_eq!(fitted(1), "a0");
        assert_eq!(fitted(2), "b0 a0");
        assert_eq!(fitted(3), "b0 a0 c0");
        assert_eq!(fitted(5), "b0 a0 a1 a2 c0");
        assert_eq!(fitted(7), "b0  a0 a1 a2  c0");
        assert_eq!(fitted(20), "b0  a0 a1 a2  c0 c1");
    }
}
