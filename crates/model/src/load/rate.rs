//! What an open pace asks for: the rate of a profile at a moment, and how many requests it has due between two.
//!
//! Exact for the profile's straight pieces; after the last one its end rate holds, as in the engine, which finds the
//! moment of each request from the same areas (`crates/engine/src/pace.rs`).

use crate::Plan;
use crate::plan::{Pace, Segment, Think};

impl Segment {
    /// The rate so many nanoseconds after its start, requests a second. Not beyond its end.
    pub fn rate_per_s(&self, into_ns: u64) -> f64 {
        // One of no length is its end rate already.
        let share = if self.for_ns == 0 { 1.0 } else { into_ns.min(self.for_ns) as f64 / self.for_ns as f64 };
        self.from_per_s + (self.to_per_s - self.from_per_s) * share
    }

    /// Requests that are due in all of it.
    pub fn due(&self) -> f64 {
        self.due_between(0, self.for_ns)
    }

    /// Requests that are due between two moments of it, nanoseconds after its start.
    fn due_between(&self, from_ns: u64, to_ns: u64) -> f64 {
        (self.rate_per_s(from_ns) + self.rate_per_s(to_ns)) / 2.0 * (to_ns.saturating_sub(from_ns) as f64 / 1e9)
    }
}

impl Plan {
    /// The profile of an open pace; `None` for any other.
    fn profile(&self) -> Option<&[Segment]> {
        match &self.pace {
            Pace::Open { profile, .. } => Some(profile),
            _ => None,
        }
    }

    /// The rate asked for at a moment after the start, requests a second; `None` but for an open pace.
    pub fn rate_at_ns(&self, at_ns: u64) -> Option<f64> {
        let profile = self.profile()?;
        let of_piece = pieces(profile).find(|piece| at_ns < piece.end_ns);
        match of_piece {
            Some(piece) => Some(piece.segment.rate_per_s(at_ns - piece.start_ns)),
            None => profile.last().map(|last| last.to_per_s),
        }
    }

    /// Requests due between two moments after the start; `None` but for an open pace.
    pub fn due_between(&self, from_ns: u64, to_ns: u64) -> Option<f64> {
        Some(due_between(self.profile()?, from_ns, to_ns)).filter(|due| due.is_finite())
    }

    /// The mean rate asked for between two moments, requests a second; `None` but for an open pace.
    pub fn mean_rate_per_s(&self, from_ns: u64, to_ns: u64) -> Option<f64> {
        match to_ns.saturating_sub(from_ns) {
            0 => self.rate_at_ns(from_ns),
            length_ns => Some(self.due_between(from_ns, to_ns)? / (length_ns as f64 / 1e9)),
        }
    }

    /// Whether each connection always has a request under way: a closed pace without think time.
    pub fn always_asks(&self) -> bool {
        matches!(self.pace, Pace::Closed { think: Think::None })
    }

    /// Whether the rate is the same at every moment between two. So it is in any other than an open pace, which asks for none.
    pub fn has_constant_rate(&self, from_ns: u64, to_ns: u64) -> bool {
        let Some(profile) = self.profile() else { return true };
        let mut rates = Vec::new();
        let mut end_ns = 0;
        for piece in pieces(profile) {
            if piece.start_ns < to_ns && piece.end_ns > from_ns {
                rates.extend([piece.segment.from_per_s, piece.segment.to_per_s]);
            }
            end_ns = piece.end_ns;
        }
        if end_ns < to_ns {
            rates.extend(profile.last().map(|last| last.to_per_s));
        }
        rates.windows(2).all(|pair| pair[0] == pair[1])
    }
}

fn due_between(profile: &[Segment], from_ns: u64, to_ns: u64) -> f64 {
    let (mut due, mut end_ns) = (0.0f64, 0);
    for piece in pieces(profile) {
        let (low_ns, high_ns) = (from_ns.max(piece.start_ns), to_ns.min(piece.end_ns));
        if high_ns > low_ns {
            due += piece.segment.due_between(low_ns - piece.start_ns, high_ns - piece.start_ns);
        }
        end_ns = piece.end_ns;
    }
    if let Some(last) = profile.last() {
        due += last.to_per_s * (to_ns.saturating_sub(from_ns.max(end_ns)) as f64 / 1e9);
    }
    due.max(0.0)
}

/// A profile as it is until a moment after the start, and from then on so many times as high.
pub fn scaled_from(profile: &[Segment], at_ns: u64, factor: f64) -> Vec<Segment> {
    let times = |segment: Segment| Segment {
        from_per_s: segment.from_per_s * factor,
        to_per_s: segment.to_per_s * factor,
        ..segment
    };
    let (mut scaled, mut end_ns) = (Vec::with_capacity(profile.len() + 1), 0);
    for piece in pieces(profile) {
        end_ns = piece.end_ns;
        if piece.end_ns <= at_ns {
            scaled.push(*piece.segment);
        } else if piece.start_ns >= at_ns {
            scaled.push(times(*piece.segment));
        } else {
            let into_ns = at_ns - piece.start_ns;
            let now_per_s = piece.segment.rate_per_s(into_ns);
            scaled.push(Segment { to_per_s: now_per_s, for_ns: into_ns, ..*piece.segment });
            scaled.push(times(Segment { from_per_s: now_per_s, for_ns: piece.end_ns - at_ns, ..*piece.segment }));
        }
    }
    // Its end rate holds.
    if let Some(last_per_s) = profile.last().map(|last| last.to_per_s).filter(|_| end_ns <= at_ns) {
        let until = Segment { from_per_s: last_per_s, to_per_s: last_per_s, for_ns: at_ns - end_ns };
        scaled.extend([until, times(Segment { for_ns: 1_000_000_000, ..until })]);
    }
    scaled
}

/// A segment and when it is, after the start.
struct Piece<'a> {
    segment: &'a Segment,
    start_ns: u64,
    end_ns: u64,
}

fn pieces(profile: &[Segment]) -> impl Iterator<Item = Piece<'_>> {
    let mut start_ns = 0u64;
    profile.iter().map(move |segment| {
        let piece = Piece { segment, start_ns, end_ns: start_ns.saturating_add(segment.for_ns) };
        start_ns = piece.end_ns;
        piece
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    #[test]
    fn a_profile_that_is_scaled_from_a_moment_on_is_as_before_until_then() {
        let ramp = Segment { from_per_s: 0.0, to_per_s: 400.0, for_ns: 4 * S };
        let flat = Segment { from_per_s: 100.0, to_per_s: 100.0, for_ns: 2 * S };
        let before = [ramp, flat];
        for at_ns in [0, S, 4 * S, 5 * S, 6 * S, 9 * S] {
            let after = scaled_from(&before, at_ns, 2.5);
            assert_eq!(due_between(&after, 0, at_ns), due_between(&before, 0, at_ns), "{at_ns}");
            let rest = |profile: &[Segment]| due_between(profile, at_ns, 20 * S);
            assert!((rest(&after) - 2.5 * rest(&before)).abs() < 1e-6, "{at_ns}");
        }
        assert_eq!(scaled_from(&[], S, 2.0), []);
    }

    #[test]
    fn a_segment_is_a_trapezium() {
        let ramp = Segment { from_per_s: 100.0, to_per_s: 300.0, for_ns: 4 * S };
        assert_eq!([0, S, 4 * S, 9 * S].map(|at| ramp.rate_per_s(at)), [100.0, 150.0, 300.0, 300.0]);
        assert_eq!(ramp.due(), 800.0);
        assert_eq!(ramp.due_between(0, 2 * S) + ramp.due_between(2 * S, 4 * S), ramp.due());
        // A jump takes no time and has nothing due.
        let jump = Segment { for_ns: 0, ..ramp };
        assert_eq!((jump.rate_per_s(0), jump.due()), (300.0, 0.0));
    }
}
