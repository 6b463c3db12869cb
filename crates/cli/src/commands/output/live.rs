//! The live page: how a run stands, handed to the page's server as often as somebody looks and as it costs next to nothing.
//!
//! A frame is made on the session's thread, which gives way to the workers, of the recording as it is; seldom, so that it takes
//! at most a hundredth of a core however much there is to show, and while nobody looks not at all. What is read meanwhile is
//! taken in, so that who comes late has all of it.

use super::results;
use super::seldom::Seldom;
use crate::args::pages::live::LiveArgs;
use crate::commands::report::html as kept;
use crate::exit::Failure;
use model::error_kind::ErrorExample;
use model::finding::Diagnosis;
use model::plan::{Pace, Plan};
use model::recording::Row;
use model::{Event, Interval, LatencyKind, Recording, Snapshot};
use report::html::Report;
use report::html::course::Course;
use report::html::heat::Heat;
use report::html::live::{Orders, Progress, shell};
use session::Watch;
use session::pages::PageError;
use session::pages::live::{Order, Server};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Time between two frames at least.
const FRAME_EVERY: Duration = Duration::from_millis(200);
/// How long whoever looks is waited for at the end, to fetch the report.
const FETCH: Duration = Duration::from_secs(10);

/// A page of a run, or of several after one another.
#[derive(Clone)]
pub struct Live(Arc<Mutex<Inner>>);

struct Inner {
    server: Server,
    interrupted: Arc<AtomicBool>,
    course: Course,
    heat: Heat,
    elapsed_ns: u64,
    planned_ns: Option<u64>,
    label: String,
    seldom: Seldom,
    factor: Option<f64>,
}

impl Live {
    /// Serves a page where one was asked for, and says where. `what` will be run, by these plans.
    ///
    /// # Errors
    /// The address or the certificate cannot be had.
    pub fn start(
        args: &LiveArgs,
        what: &str,
        plan: Option<&Plan>,
        interrupted: &Arc<AtomicBool>,
    ) -> Result<Option<Self>, Failure> {
        let Some(spec) = args.spec() else { return Ok(None) };
        let orders = match (spec.takes_orders, plan.map(|plan| &plan.pace)) {
            (false, _) => Orders::None,
            (true, Some(Pace::Open { .. })) => Orders::StopAndRate,
            (true, _) => Orders::Stop,
        };
        let server = Server::start(&spec, shell(what, orders), orders == Orders::StopAndRate)?;
        crate::commands::tell(&format!("live page: {}", server.serving().url()));
        if let Some(fingerprint) = server.serving().fingerprint().filter(|_| spec.certificate.is_none()) {
            crate::commands::tell(&format!(
                "live page: a browser will warn of its certificate, which was made now; its SHA-256 is {fingerprint}"
            ));
        }
        Ok(Some(Live(Arc::new(Mutex::new(Inner {
            server,
            interrupted: Arc::clone(interrupted),
            course: Course::default(),
            heat: Heat::default(),
            elapsed_ns: 0,
            planned_ns: None,
            label: String::new(),
            seldom: Seldom::new(FRAME_EVERY),
            factor: None,
        })))))
    }

    /// What to open in a browser.
    pub fn url(&self) -> String {
        self.inner().server.serving().url()
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How far it is, nanoseconds, of how many; what was ordered meanwhile is followed.
    pub fn at(&self, elapsed_ns: u64, planned_ns: Option<u64>) {
        let mut inner = self.inner();
        (inner.elapsed_ns, inner.planned_ns) = (elapsed_ns, planned_ns);
        while let Some(order) = inner.server.order() {
            match order {
                Order::Stop => inner.interrupted.store(true, Ordering::Relaxed),
                Order::Rate(factor) => inner.factor = Some(factor),
            }
        }
    }

    /// What the run is a part of, such as a step of a search.
    pub fn label(&self, label: &str) {
        label.trim().clone_into(&mut self.inner().label);
    }

    /// The run has ended: whoever looks gets its report.
    pub fn end(self, report: Vec<u8>) {
        if let Some(inner) = Arc::into_inner(self.0) {
            let inner = inner.into_inner().unwrap_or_else(PoisonError::into_inner);
            inner.server.end(report, FETCH);
        }
    }

    /// The same of a run whose report is made of its recording; where that is not kept, of what is in memory.
    ///
    /// # Errors
    /// None that can come: the writing is to memory.
    pub fn end_with(
        self,
        recording: &Recording,
        diagnosis: &Diagnosis,
        recorded_at: Option<&Path>,
    ) -> Result<(), Failure> {
        // A recording that cannot be read is no reason to show nothing.
        let page = match recorded_at.and_then(|path| kept::page_of(path).ok()) {
            Some(page) => page,
            None => {
                let mut page = Vec::new();
                self.inner().report(recording, diagnosis, false, |report| report.write(&mut page))?;
                page
            }
        };
        self.end(page);
        Ok(())
    }
}

impl Inner {
    fn report<T>(
        &mut self,
        recording: &Recording,
        diagnosis: &Diagnosis,
        goes_on: bool,
        write: impl FnOnce(&Report<'_>) -> std::io::Result<T>,
    ) -> std::io::Result<T> {
        let describe = |example: &ErrorExample| results::words_of(recording, example);
        let report = Report {
            recording,
            diagnosis,
            describe: &describe,
            kept: None,
            rows: recording.timeline.rows().to_vec(),
            heat: std::mem::take(&mut self.heat),
            course: std::mem::take(&mut self.course),
            flames: Vec::new(),
            beside: Vec::new(),
            goes_on,
        };
        let written = write(&report);
        (self.heat, self.course) = (report.heat, report.course);
        written
    }
}

impl Watch for Live {
    fn on_tick(&mut self, row: &Row, plan: &Plan) {
        if row.start_ns == 0 {
            let mut inner = self.inner();
            (inner.course, inner.heat) = Default::default();
        }
        self.at(row.end_ns, plan.planned_ns());
    }

    fn on_event(&mut self, _: &Event) {}

    fn on_interval(&mut self, interval: &Interval<u32>, _: &Plan) {
        let times = interval.latency.of(LatencyKind::Response);
        let times = times.iter_recorded().map(|(ns, count)| (ns, u64::from(count)));
        self.inner().heat.push(interval.start_ns, interval.end_ns, times);
    }

    fn on_snapshot(&mut self, snapshot: &Snapshot) {
        self.inner().course.push(snapshot);
    }

    fn rate_factor(&mut self) -> Option<f64> {
        self.inner().factor.take()
    }

    fn wants_standing(&mut self) -> bool {
        let mut inner = self.inner();
        if inner.server.viewers() == 0 {
            return false;
        }
        // Who has just come is shown something at once.
        if inner.server.is_awaited() {
            inner.seldom.asks_now();
            return true;
        }
        inner.seldom.asks()
    }

    fn on_standing(&mut self, recording: &Recording, diagnosis: &Diagnosis) {
        let mut inner = self.inner();
        if !inner.seldom.has_asked() {
            return;
        }
        let s = |ns: u64| ns as f64 / 1e9;
        let (elapsed_s, planned_s, label) = (s(inner.elapsed_ns), inner.planned_ns.map(s), inner.label.clone());
        let progress = Progress { elapsed_s, planned_s, label: &label };
        if let Ok(frame) = inner.report(recording, diagnosis, true, |report| report.frame(progress)) {
            inner.server.show(frame);
        }
        inner.seldom.answered();
    }
}

impl From<PageError> for Failure {
    fn from(error: PageError) -> Self {
        Failure::could_not_run(error.to_string())
    }
}
