//! What is known of a run that goes on, as it is fed: rows, intervals, readings, events, and how it stands.

use super::limits::{EVENTS_MAX, POINTS_MAX};
use super::threads::Threads;
use crate::Describe;
use crate::text::page::{Page, Span};
use crate::text::{Options, Paint, Style, failures, findings, headline};
use crate::words::{capitalized, of_plan};
use model::finding::{Diagnosis, Finding, Status, ValidityState};
use model::interval::ErrorCounts;
use model::latency::AtLeast;
use model::plain::plain;
use model::recording::Row;
use model::{Event, Interval, LatencyKind, Plan, Recording, Snapshot};
use std::collections::VecDeque;

/// The quantiles that are shown, of a response time: half, one in a hundred, one in a thousand are slower.
pub const QUANTILES: [(&str, f64); 3] = [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999)];

/// A run that goes on.
#[derive(Debug, Clone, Default)]
pub struct View {
    /// What stands before all else, such as a step of a search.
    pub(super) label: String,
    pub(super) target: String,
    pub(super) plan: String,
    pub(super) unit: &'static str,
    pub(super) planned_ns: Option<u64>,
    pub(super) warmup_ns: u64,
    pub(super) tick_ns: u64,
    /// The last tick.
    pub(super) row: Option<Row>,
    /// Requests a second, tick by tick.
    pub(super) rates: VecDeque<Option<f64>>,
    /// The p99 of the response time, nanoseconds, tick by tick.
    pub(super) p99s: VecDeque<Option<f64>>,
    /// The last tick's [`QUANTILES`].
    pub(super) quantiles: [Option<AtLeast>; 3],
    pub(super) ok: u64,
    pub(super) failed: u64,
    pub(super) dropped: u64,
    pub(super) errors: ErrorCounts,
    pub(super) connection_errors: ErrorCounts,
    pub(super) threads: Threads,
    pub(super) standing: Option<Standing>,
    /// What was told, the oldest first, made plain.
    pub(super) told: VecDeque<String>,
    /// Where the run is seen in a browser, too; empty: nowhere.
    pub(super) page: String,
}

impl View {
    /// A run begins; what was told before stays.
    pub fn begin(&mut self, plan: &Plan) {
        let told = std::mem::take(&mut self.told);
        let (label, page) = (std::mem::take(&mut self.label), std::mem::take(&mut self.page));
        *self = View {
            label,
            told,
            page,
            target: headline::target_of(plan),
            plan: of_plan(plan),
            unit: plan.unit(),
            planned_ns: plan.planned_ns(),
            warmup_ns: plan.warmup_ns,
            tick_ns: plan.tick_ns,
            ..View::default()
        };
    }

    /// What stands before all else.
    pub fn label(&mut self, label: &str) {
        if self.label != label {
            label.clone_into(&mut self.label);
        }
    }

    /// A tick has ended.
    pub fn row(&mut self, row: &Row) {
        self.row = Some(*row);
        if row.end_ns > self.warmup_ns {
            self.ok += row.counts.ok;
            self.failed += row.counts.failed;
            self.dropped += row.counts.dropped;
        }
        if row.is_drain {
            return;
        }
        let rate = crate::figures::per_s(row.counts.arrived(), row.end_ns.saturating_sub(row.start_ns));
        let is_warmup = self.is_warmup(row);
        keep(&mut self.rates, POINTS_MAX, Some(rate).filter(|_| !is_warmup));
        keep(&mut self.p99s, POINTS_MAX, row.response_p99_ns.map(|ns| ns as f64));
    }

    /// The same tick with its histograms.
    pub fn interval(&mut self, interval: &Interval<u32>) {
        if interval.end_ns > self.warmup_ns {
            self.errors.merge(&interval.errors);
            self.connection_errors.merge(&interval.connection_errors);
        }
        let quantiles = QUANTILES.map(|(_, q)| interval.latency.quantile(LatencyKind::Response, q));
        if !interval.is_drain || quantiles.iter().any(Option::is_some) {
            self.quantiles = quantiles;
        }
    }

    /// The machine and the target were read.
    pub fn snapshot(&mut self, snapshot: &Snapshot) {
        self.threads.read(snapshot);
    }

    /// Something happened.
    pub fn event(&mut self, event: &Event) {
        let at_s = event.at_ns as f64 / 1e9;
        let text = format!("{at_s:.1} s  {}: {}", event.kind, event.text);
        keep(&mut self.told, EVENTS_MAX, plain(&text).into_owned());
    }

    /// Something was said that is no event of the run.
    pub fn remark(&mut self, text: &str) {
        keep(&mut self.told, EVENTS_MAX, plain(text.trim()).into_owned());
    }

    /// Where the run is seen in a browser, too: below the view where there is room for it, and among what was told.
    pub fn page(&mut self, url: &str) {
        let page = plain(url);
        if self.page == page {
            return;
        }
        self.page = page.into_owned();
        self.remark(&format!("live page: {url}"));
    }

    /// How the run stands.
    pub fn standing(&mut self, standing: Standing) {
        self.standing = Some(standing);
    }

    /// Whether what a tick says is of the warm-up; messages sent while held connections are made are, too.
    pub(super) fn is_warmup(&self, row: &Row) -> bool {
        row.end_ns <= self.warmup_ns || (row.counts.warmup > 0 && row.counts.requests() == 0)
    }

    /// Ticks that the run has at its end.
    pub(super) fn ticks_at_end(&self) -> Option<usize> {
        self.planned_ns.filter(|_| self.tick_ns > 0).map(|planned_ns| planned_ns.div_ceil(self.tick_ns) as usize)
    }
}

fn keep<T>(all: &mut VecDeque<T>, at_most: usize, one: T) {
    if all.len() >= at_most {
        all.pop_front();
    }
    all.push_back(one);
}

/// What would be said of a run if it ended now, in lines that are not broken yet.
#[derive(Debug, Clone, Default)]
pub struct Standing {
    /// What gives first.
    pub(super) gives: Option<Span>,
    /// What speaks against the figures.
    pub(super) doubts: Vec<String>,
    /// The evidence of what gives first, its remedy, a command that checks it.
    pub(super) proof: Vec<Vec<Span>>,
    /// Other findings that are there, and do not speak against the figures, each in a line.
    pub(super) others: Vec<Span>,
    /// Failures by kind, with their first examples.
    pub(super) failures: Vec<Vec<Span>>,
    /// All other findings, and what could not be judged.
    pub(super) findings: Vec<Vec<Span>>,
    /// [`QUANTILES`] of all that was measured, and the longest.
    pub(super) quantiles: [Option<AtLeast>; 4],
}

impl Standing {
    /// Of what was measured so far; `describe` has the protocol's words for its error details.
    pub fn of(recording: &Recording, diagnosis: &Diagnosis, describe: Describe<'_>) -> Self {
        let style = Style { color: true, width: usize::MAX / 2, unicode: true };
        let options = Options { style, describe, all: true, kept: None };
        let latency = &recording.totals.sum.latency;
        let [p50, p99, p999] = QUANTILES.map(|(_, q)| latency.quantile(LatencyKind::Response, q));
        let gives = diagnosis.gives.as_ref().map(|gives| {
            let id = gives.finding.as_ref().map_or(String::new(), |id| format!(" [{id}]"));
            (headline::mood(diagnosis), format!("{}{id}", capitalized(&gives.text)))
        });
        let first = diagnosis.gives.as_ref().and(diagnosis.first_to_give());
        let is_other = |finding: &&Finding| {
            finding.status == Status::Supported
                && first.is_none_or(|first| first.id != finding.id)
                && diagnosis.validity.reasons.iter().all(|reason| reason.id != finding.id)
        };
        let others = diagnosis.findings.iter().filter(is_other);
        let others = others.map(|one| (findings::of_severity(one.severity), format!("{} ({})", one.title, one.id)));
        let is_doubtful = diagnosis.validity.state != ValidityState::Valid;
        let doubts = diagnosis.validity.reasons.iter().filter(|_| is_doubtful).map(|reason| reason.text.clone());
        // What a page of text would say; kept lines cannot fail to be written.
        let kept = |write: &dyn Fn(&mut Page<'_, std::io::Sink>) -> std::io::Result<()>| {
            let mut lines = Vec::new();
            drop(write(&mut Page::keeping(&mut lines)));
            lines
        };
        Standing {
            gives,
            doubts: doubts.collect(),
            proof: first.map_or(Vec::new(), |finding| kept(&|page| findings::proof(page, finding, &options))),
            others: others.collect(),
            failures: kept(&|page| failures::errors(page, recording, describe)),
            findings: kept(&|page| findings::write(page, diagnosis, &options)),
            quantiles: [p50, p99, p999, latency.max(LatencyKind::Response)],
        }
    }

    /// Its first sentence, where nothing is known yet.
    pub(super) fn sentence(&self) -> Span {
        self.gives.clone().unwrap_or((Paint::Dim, "Nothing can be said yet".to_owned()))
    }
}
