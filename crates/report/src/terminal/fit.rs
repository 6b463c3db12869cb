//! What of a column has room: blocks by rank, each with its least; then as many lines of each as it takes to say all of it;
//! then blank lines between groups; then what a block can do with more.

use crate::text::page::Span;

/// A line's parts.
pub type Spans = Vec<Span>;

/// Lines that belong together.
pub struct Block<'a> {
    /// What is lower is kept longer.
    pub rank: u8,
    /// So many lines at the least.
    pub least: usize,
    /// So many say what it has to say.
    pub enough: usize,
    /// So many at the most.
    pub most: usize,
    /// Whether it begins a group: a blank line stands before it where there is room.
    pub is_group: bool,
    /// The lines, of so many that there is room for.
    pub lines: Box<dyn Fn(usize) -> Vec<Spans> + 'a>,
}

impl<'a> Block<'a> {
    /// One that is made for the room it gets.
    pub fn new(rank: u8, [least, enough, most]: [usize; 3], lines: impl Fn(usize) -> Vec<Spans> + 'a) -> Self {
        Block { rank, least, enough, most, is_group: false, lines: Box::new(lines) }
    }

    /// Lines that are there, the most important first, of which so many are one text: that it is cut is hinted at.
    pub fn of(rank: u8, lines: Vec<Spans>, of_text: usize) -> Self {
        let (most, of_text) = (lines.len(), of_text.min(lines.len()));
        Block::new(rank, [most.min(1), most, most], move |rows| {
            let mut shown: Vec<Spans> = lines.iter().take(rows).cloned().collect();
            if rows < of_text
                && let Some((_, text)) = shown.last_mut().and_then(|line| line.last_mut())
            {
                text.push('…');
            }
            shown
        })
    }

    /// With no more than so many lines before others have all of theirs.
    pub fn enough(mut self, lines: usize) -> Self {
        self.enough = self.most.min(lines);
        self
    }

    /// As the first of a group.
    pub fn group(mut self) -> Self {
        self.is_group = true;
        self
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
    by_rank.retain(|at| given[*at] > 0);
    let mut give = |left: &mut usize, wanted: &dyn Fn(&Block<'_>) -> usize| {
        for at in &by_rank {
            let more = wanted(&blocks[*at]).saturating_sub(given[*at]).min(*left);
            given[*at] += more;
            *left -= more;
        }
    };
    give(&mut left, &|block| block.enough);
    let groups = blocks.iter().skip(1).filter(|block| block.is_group && block.most > 0).count();
    let mut gaps = groups.min(left);
    left -= gaps;
    give(&mut left, &|block| block.most);
    let mut lines = Vec::new();
    for (block, rows) in blocks.iter().zip(given).filter(|(_, rows)| *rows > 0) {
        if block.is_group && gaps > 0 && !lines.is_empty() {
            lines.push(Vec::new());
            gaps -= 1;
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
        let lines = (0..lines).map(|line| vec![(Paint::Plain, format!("{name}{line}"))]);
        Block::of(rank, lines.collect(), usize::MAX).group()
    }

    fn fitted(rows: usize) -> String {
        let blocks = [block(2, "b", 1), block(1, "a", 3).enough(2), block(3, "c", 2), block(0, "none", 0)];
        let lines = fit(&blocks, rows);
        assert!(lines.len() <= rows);
        let text = |line: &Spans| line.iter().map(|(_, text)| text.as_str()).collect::<String>();
        lines.iter().map(text).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn the_least_important_is_left_out_first() {
        assert_eq!(fitted(0), "");
        assert_eq!(fitted(1), "a0…");
        assert_eq!(fitted(2), "b0 a0…");
        assert_eq!(fitted(3), "b0 a0… c0…");
        assert_eq!(fitted(4), "b0 a0 a1… c0…");
        assert_eq!(fitted(5), "b0 a0 a1… c0 c1");
        assert_eq!(fitted(6), "b0  a0 a1… c0 c1");
        assert_eq!(fitted(20), "b0  a0 a1 a2  c0 c1");
    }
}
