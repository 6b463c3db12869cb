//! The store: the one actor that owns the map. It takes all jobs there are, does them, makes what changed durable with
//! one fdatasync, and only then answers: who waits shares the commit.
//!
//! While a commit or a rewriting is on its way nothing else is done: readers see only what is durable. What a full
//! disk refuses is taken back and not acknowledged. Its memory is gone when it crashes; the journal is not.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use ractor::{Actor, ActorProcessingErr, ActorRef};

use super::command::Op;
use super::counters::{Gauges, count};
use super::error::NamesError;
use super::journal::{self, Journal, Payload, Record};
use super::limits;
use super::map::{Map, Undo};
use super::queue::{End, Job, Queue, Wake};
use super::reply;
use crate::defects::Defects;

/// What a store is started with, the first time and after each crash.
#[derive(Clone)]
pub(super) struct StoreParts {
    pub(super) queue: Arc<Queue>,
    pub(super) gauges: Arc<Gauges>,
    pub(super) journal: Option<PathBuf>,
    pub(super) rewrite_factor: u32,
    pub(super) store_bytes_max: u64,
    pub(super) defects: Defects,
}

/// The actor.
pub(super) struct Store;

/// The state of the actor.
pub(super) struct Owned {
    parts: StoreParts,
    map: Map,
    /// `None` also while a commit or rewrite on another thread has it.
    journal: Option<Journal>,
    /// No rewriting below this size: the last one failed there.
    rewrite_above: u64,
    batch: Batch,
}

/// A batch while it is worked on.
#[derive(Default)]
struct Batch {
    payload: Payload,
    undo: Vec<Undo>,
    /// Why writes are refused, if they are.
    refuse: Option<String>,
    saves: u64,
    loads: u64,
    removes: u64,
    writes_refused: u64,
}

/// A job of a batch, and how to begin with it again.
struct Taken {
    job: Job,
    next: usize,
    out: usize,
    refused: u64,
}

impl Actor for Store {
    type Msg = Wake;
    type State = Owned;
    type Arguments = StoreParts;

    async fn pre_start(&self, myself: ActorRef<Wake>, parts: StoreParts) -> Result<Owned, ActorProcessingErr> {
        let mut map = Map::default();
        let mut journal = None;
        if let Some(path) = parts.journal.clone() {
            let read = tokio::task::spawn_blocking(move || {
                let mut map = Map::default();
                Journal::open(&path, &mut map).map(|(journal, recovered)| (journal, recovered, map))
            });
            let (opened, recovered, found) = read
                .await
                .map_err(|gone| NamesError::Runtime { doing: "read the journal", got: gone.to_string() })??;
            count(&parts.gauges.recovered, recovered.records);
            count(&parts.gauges.cut_bytes, recovered.cut_bytes);
            (journal, map) = (Some(opened), found);
        }
        let owned = Owned { parts, map, journal, rewrite_above: 0, batch: Batch::default() };
        owned.show();
        // Here and not in `post_start`, which nobody waits for: who connects as soon as the server says that it listens
        // would find no store. What is sent before the actor runs waits in its mailbox.
        owned.parts.queue.store_is_up(myself);
        Ok(owned)
    }

    async fn handle(&self, _: ActorRef<Wake>, _: Wake, owned: &mut Owned) -> Result<(), ActorProcessingErr> {
        let mut jobs = VecDeque::new();
        loop {
            // Connections that are ready to read get their turn first: the batch grows by what they bring.
            tokio::task::yield_now().await;
            owned.parts.queue.take(&mut jobs);
            if jobs.is_empty() {
                return Ok(());
            }
            while !jobs.is_empty() {
                if owned.batch(&mut jobs).await? {
                    owned.parts.queue.store_is_down(jobs);
                    // As a panic, but without its message on stderr: this crash was asked for.
                    std::panic::resume_unwind(Box::new("OOPS".to_owned()));
                }
            }
        }
    }
}

impl Owned {
    /// Does as many jobs as make a batch, commits, and answers. Whether one of them asked for a crash.
    async fn batch(&mut self, jobs: &mut VecDeque<Job>) -> Result<bool, ActorProcessingErr> {
        let mut taken: Vec<Taken> = Vec::with_capacity(jobs.len());
        let mut oops = false;
        while let Some(mut job) = jobs.pop_front() {
            let (next, out, refused) = (job.next, job.out.len(), job.refused);
            oops = self.work(&mut job);
            taken.push(Taken { job, next, out, refused });
            if oops || self.batch.payload.len() >= limits::BATCH_BYTES {
                break;
            }
        }
        if !self.batch.payload.is_empty()
            && let Err(error) = self.commit().await?
        {
            self.take_back();
            self.batch.refuse =
                Some(format!("MISCONF the journal could not be written ({error}): nothing was changed"));
            for Taken { job, next, out, refused } in &mut taken {
                job.next = *next;
                job.out.truncate(*out);
                job.refused = *refused;
                self.work(job);
            }
            self.batch.refuse = None;
        }
        self.batch.undo.clear();
        self.batch.count(&self.parts.gauges);
        self.show();
        let last = taken.len().saturating_sub(1);
        for (at, taken) in taken.into_iter().enumerate() {
            taken.job.finish(if oops && at == last { End::Crashed } else { End::Worked });
        }
        if !oops {
            self.rewrite_if_large().await?;
        }
        Ok(oops)
    }

    /// Does a job's operations, as far as its replies do not grow too large; whether it comes upon an OOPS.
    fn work(&mut self, job: &mut Job) -> bool {
        while job.next < job.ops.len() && job.out.len() < limits::OUT_BYTES {
            if job.ops[job.next] == Op::Oops {
                return true;
            }
            self.parts.defects.asked(job.ops[job.next].subject());
            let fine = self.operation(&mut job.ops[job.next], &mut job.out);
            job.refused += u64::from(!fine);
            job.next += 1;
        }
        false
    }

    fn operation(&mut self, op: &mut Op, out: &mut Vec<u8>) -> bool {
        if let (Op::Save(..) | Op::Remove(_) | Op::RemoveAll, Some(why)) = (&op, &self.batch.refuse) {
            reply::error(out, why);
            self.batch.writes_refused += 1;
            return false;
        }
        match op {
            Op::Load(name) => {
                self.batch.loads += 1;
                match self.map.load(name) {
                    Some(value) => reply::bulk(out, value),
                    None => out.extend_from_slice(reply::NULL),
                }
                true
            }
            Op::LoadAll => self.load_all(out),
            Op::Save(name, value) => self.save(name, value, out),
            Op::Remove(names) => {
                let removed = names.iter().filter(|name| self.remove(name)).count() as u64;
                self.batch.removes += removed;
                reply::integer(out, removed);
                true
            }
            Op::RemoveAll => {
                self.batch.removes += 1;
                let all = std::mem::take(&mut self.map);
                if self.is_durable() {
                    self.batch.payload.push(Record::RemoveAll);
                    self.batch.undo.push(Undo::All(all));
                }
                out.extend_from_slice(reply::OK);
                true
            }
            // `work` stops in front of it.
            Op::Oops => true,
        }
    }

    fn save(&mut self, name: &[u8], value: &mut Vec<u8>, out: &mut Vec<u8>) -> bool {
        if self.map.held_bytes_with(name, value) > self.parts.store_bytes_max {
            reply::error(out, "OOM command not allowed when used memory > 'maxmemory'.");
            self.batch.writes_refused += 1;
            return false;
        }
        if self.is_durable() {
            self.batch.payload.push(Record::Save(name, value));
        }
        let old = self.map.insert(name, std::mem::take(value).into_boxed_slice());
        if self.is_durable() {
            self.batch.undo.push(Undo::Entry(name.into(), old));
        }
        self.batch.saves += 1;
        out.extend_from_slice(reply::OK);
        true
    }

    fn remove(&mut self, name: &[u8]) -> bool {
        let Some(old) = self.map.remove(name) else { return false };
        if self.is_durable() {
            self.batch.payload.push(Record::Remove(name));
            self.batch.undo.push(Undo::Entry(name.into(), Some(old)));
        }
        true
    }

    fn load_all(&mut self, out: &mut Vec<u8>) -> bool {
        self.batch.loads += 1;
        let bytes = self.map.held_bytes();
        if bytes > limits::LOADALL_BYTES_MAX {
            reply::error(
                out,
                &format!("ERR all together is {bytes} bytes, more than one reply may have: LOAD by name"),
            );
            return false;
        }
        reply::array(out, self.map.len() * 2);
        for (name, value) in self.map.iter() {
            reply::bulk(out, name);
            reply::bulk(out, value);
        }
        true
    }

    fn is_durable(&self) -> bool {
        self.journal.is_some()
    }

    /// The payload onto the disk, off the threads that serve.
    async fn commit(&mut self) -> Result<std::io::Result<()>, ActorProcessingErr> {
        let Some(mut journal) = self.journal.take() else { return Ok(Ok(())) };
        let mut payload = std::mem::take(&mut self.batch.payload);
        let written = tokio::task::spawn_blocking(move || {
            let result = journal.commit(&mut payload);
            (journal, payload, result)
        });
        let (journal, payload, result) = written.await?;
        self.journal = Some(journal);
        self.batch.payload = payload;
        count(&self.parts.gauges.commits, u64::from(result.is_ok()));
        Ok(result)
    }

    fn take_back(&mut self) {
        while let Some(change) = self.batch.undo.pop() {
            self.map.undo(change);
        }
        // The operations are done again, and are counted then.
        (self.batch.saves, self.batch.loads, self.batch.removes, self.batch.writes_refused) = (0, 0, 0, 0);
    }

    async fn rewrite_if_large(&mut self) -> Result<(), ActorProcessingErr> {
        let Some(journal) = &self.journal else { return Ok(()) };
        let live = journal::payload_bytes(&self.map) * u64::from(self.parts.rewrite_factor);
        if journal.bytes() <= live.max(limits::REWRITE_BYTES_MIN).max(self.rewrite_above) {
            return Ok(());
        }
        let Some(mut journal) = self.journal.take() else { return Ok(()) };
        let map = std::mem::take(&mut self.map);
        let rewritten = tokio::task::spawn_blocking(move || {
            let result = journal.rewrite(&map);
            (journal, map, result)
        });
        let (journal, map, result) = rewritten.await?;
        let gauges = &self.parts.gauges;
        match result {
            Ok(()) => {
                count(&gauges.rewrites, 1);
                self.rewrite_above = 0;
            }
            // The disk is probably full: do not try again with every batch.
            Err(_) => {
                count(&gauges.rewrites_failed, 1);
                self.rewrite_above = journal.bytes() + journal.bytes() / 4;
            }
        }
        (self.journal, self.map) = (Some(journal), map);
        self.show();
        Ok(())
    }

    /// Publishes sizes and counts where INFO reads them.
    fn show(&self) {
        let gauges = &self.parts.gauges;
        gauges.keys.store(self.map.len(), Relaxed);
        gauges.store_bytes.store(self.map.held_bytes(), Relaxed);
        gauges.journal_bytes.store(self.journal.as_ref().map_or(0, Journal::bytes), Relaxed);
    }
}

impl Batch {
    /// Adds what the batch counted to the figures of the server, and sets it back to zero.
    fn count(&mut self, gauges: &Gauges) {
        for (figure, n) in [
            (&gauges.saves, &mut self.saves),
            (&gauges.loads, &mut self.loads),
            (&gauges.removes, &mut self.removes),
            (&gauges.writes_refused, &mut self.writes_refused),
        ] {
            count(figure, std::mem::take(n));
        }
        count(&gauges.batches, 1);
    }
}
