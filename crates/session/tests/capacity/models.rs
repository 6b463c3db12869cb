//! Queues whose load line is known, as recursions over arrivals: what the search is tried on, a thousand times each.
//!
//! A step of a model is what a step of a real one is: warm-up, then blocks, in which requests are counted when they end, late
//! ones with those that are late. Nothing of it is the engine's: no request is sent.

use session::capacity::axis::Requests;
use session::capacity::blocks::{BLOCK_S, Block};
use session::capacity::decision::{Bound, Judge, Verdict};
use session::capacity::search::{Search, Settings, Step, Trial};

/// Discarded at the beginning of a step, seconds; and what a step takes beside.
pub const WARMUP_S: f64 = 0.5;
const BESIDE_S: f64 = 0.9;
/// What a search of the default length has for its steps, seconds: 50 s, less a second and a half in which it finds where to begin.
pub const TIME_S: f64 = 48.5;

/// A server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Model {
    /// Poisson arrivals, exponential service.
    MarkovMarkov,
    /// Poisson arrivals, every service as long.
    MarkovDeterministic,
    /// Even arrivals, every service as long: nothing is late below the limit, everything above it.
    HardLimit,
    /// Even arrivals, every service as long, and a pause each second.
    PauseEachSecond,
    /// A token bucket that lets 100 more through, and refuses the rest.
    TokenBucket,
    /// Above a load, a part of the requests fails, whatever went before.
    Cliff,
    /// M/M/1 that becomes slower, by 2 % in a minute.
    SlowDrift,
    /// M/M/1 whose objective is 200 services long: its queue takes a second to forget.
    SlowToForget,
    /// M/M/1 at a fifth of the others' rate and four times their objective: few bursts in a minute.
    SlowServer,
}

impl Model {
    /// All of them.
    pub const ALL: [Model; 9] = [
        Model::MarkovMarkov,
        Model::MarkovDeterministic,
        Model::HardLimit,
        Model::PauseEachSecond,
        Model::TokenBucket,
        Model::Cliff,
        Model::SlowDrift,
        Model::SlowToForget,
        Model::SlowServer,
    ];

    /// As the table has it.
    pub const fn name(self) -> &'static str {
        match self {
            Model::MarkovMarkov => "M/M/1",
            Model::MarkovDeterministic => "M/D/1",
            Model::HardLimit => "hard limit",
            Model::PauseEachSecond => "pause each second",
            Model::TokenBucket => "token bucket, credit 100",
            Model::Cliff => "cliff",
            Model::SlowDrift => "drift of 2 % a minute",
            Model::SlowToForget => "M/M/1, L of 200 services",
            Model::SlowServer => "M/M/1, 2,000/s, L of 20 ms",
        }
    }

    /// What is asked of it.
    pub fn bounds(self) -> Vec<Bound> {
        match self {
            Model::PauseEachSecond => vec![Bound { share_max: 0.01, late_s: 0.010 }],
            Model::TokenBucket => {
                vec![Bound { share_max: 0.01, late_s: 0.050 }, Bound { share_max: 0.001, late_s: 0.0 }]
            }
            Model::SlowToForget | Model::SlowServer => vec![Bound { share_max: 0.01, late_s: LONG_S }],
            _ => vec![Bound { share_max: 0.01, late_s: LATE_S }],
        }
    }

    /// Its load line, requests a second.
    pub fn line(self) -> f64 {
        match self {
            // P(T > L) = exp(-(mu - lambda) L).
            Model::MarkovMarkov => MU - 100f64.ln() / LATE_S,
            Model::SlowToForget => MU - 100f64.ln() / LONG_S,
            Model::SlowServer => SLOW_MU - 100f64.ln() / LONG_S,
            Model::MarkovDeterministic => md1_line(),
            Model::HardLimit => MU,
            // Late are those that come in the (P - L) / (1 - rho) after a pause of P began; the last of it is service.
            Model::PauseEachSecond => (1.0 - (PAUSE_S - 0.010 + 1.0 / PAUSED_MU) / 0.01) * PAUSED_MU,
            // The share refused is 1 - r / load.
            Model::TokenBucket => TOKENS / (1.0 - 0.001),
            Model::Cliff => 1_500.0,
            Model::SlowDrift => self.line_at(30.0),
        }
    }

    /// The same at a time of the search, seconds.
    fn line_at(self, s: f64) -> f64 {
        match self {
            Model::SlowDrift => MU * (1.0 - DRIFT * s / 60.0) - 100f64.ln() / LATE_S,
            _ => self.line(),
        }
    }
}

/// Services a second.
const MU: f64 = 10_000.0;
/// Those of the slow server.
const SLOW_MU: f64 = 2_000.0;
/// Tokens a second.
const TOKENS: f64 = 2_000.0;
/// From when on a request is late, seconds; and of the model that is slow to forget.
const LATE_S: f64 = 0.005;
const LONG_S: f64 = 0.020;
/// Those of the model with a pause, and the pause.
const PAUSED_MU: f64 = 10_000.0;
const PAUSE_S: f64 = 0.011;
const CREDIT: f64 = 100.0;
const DRIFT: f64 = 0.02;

/// Where P(W > L − s) of M/D/1 is 1 %: the tail is C·exp(−θt), with θ the root of λ(e^(θs) − 1) = θ and
/// C = (1 − ρ)/(λ s e^(θs) − 1) (Cramér and Lundberg; exact to many digits at a hundred services).
fn md1_line() -> f64 {
    let (s, t) = (1.0 / MU, LATE_S - 1.0 / MU);
    let tail = |load: f64| {
        let (mut low, mut high) = (1e-6, 40.0 / s);
        for _ in 0..200 {
            let theta = (low + high) / 2.0;
            if load * ((theta * s).exp() - 1.0) > theta { high = theta } else { low = theta }
        }
        let theta = low;
        (1.0 - load * s) / (load * s * (theta * s).exp() - 1.0) * (-theta * t).exp()
    };
    let (mut low, mut high) = (0.5 * MU, 0.99999 * MU);
    for _ in 0..100 {
        let load = (low + high) / 2.0;
        if tail(load) > 0.01 { high = load } else { low = load }
    }
    low
}

/// A server under way: what lasts between steps.
struct Server<U: FnMut() -> f64> {
    model: Model,
    uniform: U,
    /// Time since the search began, seconds.
    now_s: f64,
    tokens: f64,
    tokens_at_s: f64,
}

impl<U: FnMut() -> f64> Server<U> {
    fn exponential(&mut self) -> f64 {
        -(1.0 - (self.uniform)()).ln()
    }

    /// Runs a step as the real ones are run.
    fn step(&mut self, trial: Trial, bounds: &[Bound]) -> Step {
        let begin_s = self.now_s;
        let blocks = self.blocks(trial, bounds);
        let mut judge = Judge::new(bounds, trial.length_s);
        let mut verdict = None;
        for block in blocks {
            verdict = judge.push(block);
            if verdict.is_some() {
                break;
            }
        }
        let verdict = verdict.unwrap_or_else(|| judge.cut_off());
        let seconds = judge.blocks.len() as f64 * BLOCK_S;
        self.now_s = begin_s + seconds + BESIDE_S;
        Step {
            asked: trial.load,
            load: trial.load,
            took_s: seconds + BESIDE_S,
            verdict,
            is_growing: judge.is_growing(),
            purpose: trial.purpose,
            blocks: judge.blocks,
        }
    }

    fn blocks(&mut self, trial: Trial, bounds: &[Bound]) -> Vec<Block> {
        let count = ((trial.most_s / BLOCK_S) as usize).max(1);
        let empty = Block { seconds: BLOCK_S, bad: vec![0; bounds.len()], ..Block::default() };
        let mut blocks = vec![empty; count];
        let (mut arrived, mut departed) = (vec![0i64; count], vec![0i64; count]);
        let mut carried = 0i64;
        let end_s = WARMUP_S + count as f64 * BLOCK_S;
        let is_poisson =
            !matches!(self.model, Model::HardLimit | Model::PauseEachSecond | Model::TokenBucket | Model::Cliff);
        // Pauses and arrivals have no common phase.
        let phase = (self.uniform)();
        let mut at_s = (self.uniform)() / trial.load;
        let mut free_s = 0.0f64;
        let place = |t: f64| (((t - WARMUP_S) / BLOCK_S).floor() as i64).min(count as i64 - 1);
        while at_s < end_s {
            let (done_s, is_failed) = self.serve(trial.load, at_s, &mut free_s, phase);
            let is_measured = at_s >= WARMUP_S;
            let done_block = place(done_s);
            match place(at_s) {
                block if block >= 0 => arrived[block as usize] += 1,
                _ => carried += 1,
            }
            if done_s < end_s {
                match done_block {
                    block if block >= 0 => departed[block as usize] += 1,
                    _ => carried -= 1,
                }
            }
            if is_measured && done_block >= 0 {
                let block = &mut blocks[done_block as usize];
                block.requests += 1;
                for (bad, bound) in block.bad.iter_mut().zip(bounds) {
                    let is_late = bound.late_s > 0.0 && done_s - at_s >= bound.late_s;
                    *bad += u64::from(is_failed || is_late);
                }
            }
            at_s += if is_poisson { self.exponential() / trial.load } else { 1.0 / trial.load };
        }
        let mut backlog = carried;
        for (i, block) in blocks.iter_mut().enumerate() {
            backlog += arrived[i] - departed[i];
            block.backlog = backlog as f64;
        }
        blocks
    }

    /// When a request ends that comes at this time of the step, and whether it failed.
    fn serve(&mut self, load: f64, at_s: f64, free_s: &mut f64, phase: f64) -> (f64, bool) {
        let queue = |free_s: &mut f64, service_s: f64| {
            *free_s = free_s.max(at_s) + service_s;
            *free_s
        };
        match self.model {
            Model::MarkovMarkov | Model::SlowToForget => {
                let service_s = self.exponential() / MU;
                (queue(free_s, service_s), false)
            }
            Model::SlowServer => {
                let service_s = self.exponential() / SLOW_MU;
                (queue(free_s, service_s), false)
            }
            Model::SlowDrift => {
                let mu = MU * (1.0 - DRIFT * (self.now_s + at_s) / 60.0);
                let service_s = self.exponential() / mu;
                (queue(free_s, service_s), false)
            }
            Model::MarkovDeterministic | Model::HardLimit => (queue(free_s, 1.0 / MU), false),
            Model::PauseEachSecond => {
                let begin_s = free_s.max(at_s);
                let into = (begin_s + phase).fract();
                let wait_s = if into < PAUSE_S { PAUSE_S - into } else { 0.0 };
                *free_s = begin_s + wait_s + 1.0 / PAUSED_MU;
                (*free_s, false)
            }
            Model::TokenBucket => {
                let now_s = self.now_s + at_s;
                self.tokens = (self.tokens + (now_s - self.tokens_at_s).max(0.0) * TOKENS).min(CREDIT);
                self.tokens_at_s = now_s;
                let has_token = self.tokens >= 1.0;
                self.tokens -= f64::from(u8::from(has_token));
                (at_s + 0.001, !has_token)
            }
            Model::Cliff => {
                let share = if load > Model::Cliff.line() { 0.3 } else { 0.000_5 };
                (at_s + 0.001, (self.uniform)() < share)
            }
        }
    }
}

/// A whole search on a model.
pub fn search(model: Model, seed: u64, mut uniform: impl FnMut() -> f64) -> Search {
    let first = model.line() * (0.5 + uniform());
    let settings = Settings {
        bounds: model.bounds(),
        precision: 0.02,
        time_s: TIME_S,
        beside_s: BESIDE_S,
        requests: Requests::RATE,
        is_whole: false,
        load_max: f64::INFINITY,
        seed,
    };
    let bounds = settings.bounds.clone();
    let mut search = Search::new(first, settings);
    let mut server = Server { model, uniform, now_s: 0.0, tokens: CREDIT, tokens_at_s: 0.0 };
    while let Some(trial) = search.next_trial() {
        let step = server.step(trial, &bounds);
        search.observe(step);
    }
    search
}

/// What many searches on a model came to.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Figures {
    /// Searches.
    pub searches: usize,
    /// Relative error of the line: median, and 95th percentile.
    pub error_median: f64,
    /// See `error_median`.
    pub error_95: f64,
    /// Share of intervals that cover the line.
    pub covers: f64,
    /// Median width of the interval, as a share of the line.
    pub width_median: f64,
    /// Of the decided steps below 0.97 of the line and above 1.03 of it: the share that was decided rightly.
    pub decided_rightly: f64,
    /// Of these steps, the share that was undecided.
    pub undecided: f64,
    /// Mean time of a search, seconds.
    pub took_s: f64,
    /// Searches that did not enclose the line.
    pub open: usize,
}

impl Figures {
    /// Of searches on one model.
    pub fn of(model: Model, searches: &[Search]) -> Self {
        let truth = model.line();
        let (mut errors, mut widths) = (Vec::new(), Vec::new());
        let (mut covered, mut right, mut wrong, mut undecided, mut took_s) = (0, 0, 0, 0, 0.0);
        for search in searches {
            let line = search.line();
            if let (Some(load), Some(low), Some(high)) = (line.load, line.low, line.high) {
                errors.push((load / truth - 1.0).abs());
                widths.push((high - low) / truth);
                covered += usize::from(low <= truth && truth <= high);
            }
            let mut begun_s = 0.0;
            for step in search.steps() {
                // What the server was in the middle of the step: one that drifts is not the same all along.
                let line = model.line_at(begun_s + step.took_s / 2.0);
                begun_s += step.took_s;
                took_s += step.took_s;
                let expected = match step.load / line {
                    x if x < 0.97 => Verdict::Held,
                    x if x > 1.03 => Verdict::Missed,
                    _ => continue,
                };
                match step.verdict {
                    Verdict::Undecided => undecided += 1,
                    verdict if verdict == expected => right += 1,
                    _ => wrong += 1,
                }
            }
        }
        let quantile = |values: &mut Vec<f64>, q: f64| {
            values.sort_by(f64::total_cmp);
            values
                .get(((values.len() as f64 * q) as usize).min(values.len().saturating_sub(1)))
                .copied()
                .unwrap_or(f64::NAN)
        };
        let share = |part: usize, all: usize| part as f64 / all.max(1) as f64;
        Figures {
            searches: searches.len(),
            error_median: quantile(&mut errors, 0.5),
            error_95: quantile(&mut errors, 0.95),
            covers: share(covered, searches.len()),
            width_median: quantile(&mut widths, 0.5),
            decided_rightly: share(right, right + wrong),
            undecided: share(undecided, right + wrong + undecided),
            took_s: took_s / searches.len().max(1) as f64,
            open: searches.len() - errors.len(),
        }
    }
}
