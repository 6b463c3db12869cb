//! When a worker's requests ceased to succeed and when they did again, exactly: what the figures of a recovery are made of.
//!
//! Touched where something failed, and once by the success that comes next; else the hot path asks one flag. The last success
//! before is the last end of all before the first failure, which the ledger knows anyway. Of an interval the longest are kept.

use model::request::{IntervalRequests, Outage};

/// The outage of one worker, if there is one.
#[derive(Debug, Default)]
pub(super) struct Outages {
    worker: u16,
    open: Option<Outage>,
}

impl Outages {
    /// Of a worker.
    pub fn new(worker: u16) -> Self {
        Outages { worker, open: None }
    }

    /// Whether something has failed since the last success.
    #[inline]
    pub fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// Something failed; `last_end_ns`: the last end of a request before.
    #[cold]
    pub fn failed(&mut self, last_end_ns: u64, at_ns: u64) {
        let worker = self.worker;
        let open = self.open.get_or_insert(Outage {
            worker,
            from_ns: last_end_ns,
            first_failed_ns: at_ns.max(last_end_ns),
            ..Outage::default()
        });
        open.last_failed_ns = open.last_failed_ns.max(at_ns);
        open.failed += 1;
    }

    /// A request succeeded.
    #[cold]
    pub fn succeeded(&mut self, kept: &mut IntervalRequests, at_ns: u64) {
        if let Some(outage) = self.open.take() {
            kept.offer_outage(Outage { to_ns: Some(at_ns.max(outage.from_ns)), ..outage });
        }
    }

    /// The interval ends: what is open is told with it.
    pub fn cut(&self, kept: &mut IntervalRequests) {
        kept.outages.extend(self.open);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outage_is_from_the_last_success_to_the_next() {
        let (mut outages, mut kept) = (Outages::new(3), IntervalRequests::default());
        kept.reserve();
        assert!(!outages.is_open());
        outages.failed(100, 150);
        outages.failed(150, 180);
        outages.cut(&mut kept);
        let open =
            Outage { worker: 3, from_ns: 100, to_ns: None, first_failed_ns: 150, last_failed_ns: 180, failed: 2 };
        assert_eq!(kept.outages, [open]);
        kept.clear();
        assert!(outages.is_open());
        outages.succeeded(&mut kept, 220);
        assert!(!outages.is_open());
        assert_eq!(kept.outages, [Outage { to_ns: Some(220), ..open }]);
        // A failure that is told late, such as of a wait that was over before, is not before the outage.
        outages.failed(300, 250);
        outages.succeeded(&mut kept, 310);
        assert_eq!((kept.outages[1].from_ns, kept.outages[1].first_failed_ns), (300, 300));
    }
}
