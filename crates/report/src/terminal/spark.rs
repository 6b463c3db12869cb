//! Figures over time, as characters: a cell a moment, as high as its figure beside the largest.

/// An eighth to eight eighths of a cell.
const EIGHTHS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// The same where only ASCII is shown: the denser, the higher.
const DENSITIES: [char; 8] = ['.', ':', '-', '=', '+', '*', '#', '@'];

/// So many rows of so many cells, the oldest figure on the left, the last at the right end once there are enough. What is
/// `None` was not measured, and is left blank; a figure of nothing has the lowest mark.
pub fn rows(values: &[Option<f64>], cells: usize, rows: usize, unicode: bool) -> Vec<String> {
    let shown = &values[values.len().saturating_sub(cells)..];
    let top = shown.iter().flatten().copied().fold(0.0, f64::max);
    let steps = rows * EIGHTHS.len();
    let heights: Vec<usize> = shown
        .iter()
        .map(|value| match value {
            Some(value) if top > 0.0 => ((value / top * steps as f64).round() as usize).clamp(1, steps.max(1)),
            Some(_) => 1,
            None => 0,
        })
        .collect();
    let marks = if unicode { EIGHTHS } else { DENSITIES };
    let mark = |height: usize, below: usize| match height.saturating_sub(below).min(EIGHTHS.len()) {
        0 => ' ',
        eighths => marks[eighths - 1],
    };
    (0..rows).rev().map(|row| heights.iter().map(|height| mark(*height, row * EIGHTHS.len())).collect()).collect()
}

/// Each figure as many times as it takes to fill so many cells with the figures of a run that has so many at its end.
pub fn widened(values: &[Option<f64>], cells: usize, at_end: Option<usize>) -> Vec<Option<f64>> {
    let each = at_end.map_or(1, |ticks| (cells / ticks.max(1)).max(1));
    values.iter().flat_map(|value| std::iter::repeat_n(*value, each)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_is_as_high_as_there_is_room() {
        let values = [Some(0.0), None, Some(4.0), Some(8.0)];
        assert_eq!(rows(&values, 9, 1, true), ["▁ ▄█"]);
        assert_eq!(rows(&values, 9, 1, false), [". =@"]);
        assert_eq!(rows(&values, 9, 2, true), ["   █", "▁ ██"]);
        assert_eq!(rows(&values, 2, 1, true), ["▄█"], "the last ones");
        assert_eq!(rows(&[Some(0.0)], 2, 1, true), ["▁"]);
        assert_eq!(rows(&values, 0, 1, true), [""]);
        assert!(rows(&values, 4, 0, true).is_empty());
        assert_eq!(rows(&[Some(f64::NAN), Some(f64::INFINITY)], 2, 1, true).len(), 1);
    }

    #[test]
    fn a_short_run_fills_the_width_at_its_end() {
        let values = [Some(1.0), None];
        assert_eq!(widened(&values, 9, Some(3)), [Some(1.0), Some(1.0), Some(1.0), None, None, None]);
        assert_eq!(widened(&values, 9, Some(100)), values);
        assert_eq!(widened(&values, 9, None), values);
    }
}
