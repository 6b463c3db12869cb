//! Replies kept in memory for all workers: bounded in bytes, the least recently used leaves first.
//!
//! Shards by key, a mutex each, held for a look-up or an insertion and never while bytes move. One variant a
//! key: a request whose `Vary` fields differ is a miss, and what it brings takes the place. Misses of one key
//! at the same moment do not collapse: each goes to an origin. Not here: what may be kept (`freshness`).

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::origins::{fnv, mix};

/// A reply that was kept.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Stored {
    /// Status line and fields for the client, without length, age and connection.
    pub(super) head: Vec<u8>,
    pub(super) body: Vec<u8>,
    pub(super) etag: Option<Vec<u8>>,
    pub(super) last_modified_s: Option<i64>,
    /// Fields of the request the reply depends on: name in lower case, and value.
    pub(super) vary: Vec<(Vec<u8>, Option<Vec<u8>>)>,
    /// Its age when it was kept.
    pub(super) age_s: u64,
    pub(super) stored_ns: u64,
    pub(super) fresh_until_ns: u64,
}

/// What a worker's cache costs an entry beyond its bytes: maps, counts, the allocations' own.
const ENTRY_BYTES: usize = 400;
const SHARDS: usize = 8;

/// The cache of a proxy.
#[derive(Debug)]
pub(super) struct Cache {
    shards: [Mutex<Shard>; SHARDS],
    shard_bytes_max: usize,
    object_bytes_max: usize,
}

#[derive(Debug, Default)]
struct Shard {
    entries: HashMap<Vec<u8>, Kept>,
    /// Keys by when they were used last.
    order: BTreeMap<u64, Vec<u8>>,
    uses: u64,
    bytes: usize,
}

#[derive(Debug)]
struct Kept {
    stored: Arc<Stored>,
    used: u64,
    bytes: usize,
}

impl Cache {
    /// Of so many bytes; an object may take a 16th, so that no one of them empties its shard.
    pub(super) fn new(bytes: u64) -> Self {
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        Self { shards: Default::default(), shard_bytes_max: bytes / SHARDS, object_bytes_max: bytes / 16 }
    }

    /// The largest body that is kept.
    pub(super) fn object_bytes_max(&self) -> usize {
        self.object_bytes_max.saturating_sub(ENTRY_BYTES)
    }

    /// What is kept under that key, if it is still fresh and `matches`.
    pub(super) fn find(&self, key: &[u8], now_ns: u64, matches: impl Fn(&Stored) -> bool) -> Option<Arc<Stored>> {
        let mut shard = self.shard(key);
        let kept = shard.entries.get(key)?;
        if kept.stored.fresh_until_ns <= now_ns {
            shard.remove(key);
            return None;
        }
        if !matches(&kept.stored) {
            return None;
        }
        let (used, stored) = (kept.used, Arc::clone(&kept.stored));
        shard.order.remove(&used);
        let now = shard.next_use(key);
        if let Some(kept) = shard.entries.get_mut(key) {
            kept.used = now;
        }
        Some(stored)
    }

    /// Keeps a reply, if it is not too large a part of the whole.
    pub(super) fn insert(&self, key: &[u8], stored: Stored) {
        let vary: usize = stored.vary.iter().map(|(name, value)| name.len() + value.as_ref().map_or(0, Vec::len)).sum();
        let bytes = 2 * key.len() + stored.head.len() + stored.body.len() + vary + ENTRY_BYTES;
        if bytes > self.object_bytes_max {
            return;
        }
        let mut shard = self.shard(key);
        shard.remove(key);
        while shard.bytes + bytes > self.shard_bytes_max {
            let Some((_, oldest)) = shard.order.first_key_value() else { return };
            let oldest = oldest.clone();
            shard.remove(&oldest);
        }
        let used = shard.next_use(key);
        shard.bytes += bytes;
        shard.entries.insert(key.to_vec(), Kept { stored: Arc::new(stored), used, bytes });
    }

    /// Forgets what is kept under that key.
    pub(super) fn forget(&self, key: &[u8]) {
        self.shard(key).remove(key);
    }

    fn shard(&self, key: &[u8]) -> MutexGuard<'_, Shard> {
        let shard = &self.shards[(mix(fnv(0, key)) % SHARDS as u64) as usize];
        // A shard is whole between statements: a worker that panicked ends the server anyway.
        shard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shard {
    fn next_use(&mut self, key: &[u8]) -> u64 {
        self.uses += 1;
        self.order.insert(self.uses, key.to_vec());
        self.uses
    }

    fn remove(&mut self, key: &[u8]) {
        if let Some(kept) = self.entries.remove(key) {
            self.order.remove(&kept.used);
            self.bytes -= kept.bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(body: usize, fresh_until_ns: u64) -> Stored {
        Stored {
            head: Vec::new(),
            body: vec![1; body],
            etag: None,
            last_modified_s: None,
            vary: Vec::new(),
            age_s: 0,
            stored_ns: 0,
            fresh_until_ns,
        }
    }

    #[test]
    fn it_stays_within_its_bytes_and_lets_the_least_used_go() {
        let cache = Cache::new(1 << 20);
        cache.insert(b"/stays", stored(1000, 10));
        for n in 0..10_000 {
            cache.insert(format!("/{n}").as_bytes(), stored(1000, 10));
            assert!(cache.find(b"/stays", 1, |_| true).is_some(), "{n}");
        }
        for shard in &cache.shards {
            let shard = shard.lock().unwrap();
            assert!(shard.bytes <= (1 << 20) / SHARDS && shard.entries.len() == shard.order.len());
            assert_eq!(shard.bytes, shard.entries.values().map(|kept| kept.bytes).sum::<usize>());
            assert!(shard.entries.len() > 50);
        }
        assert!(cache.find(b"/9999", 1, |_| true).is_some());
        assert!(cache.find(b"/0", 1, |_| true).is_none());
        assert!(cache.find(b"/9999", 1, |_| false).is_none());
        assert!(cache.find(b"/9999", 10, |_| true).is_none(), "no longer fresh");
        cache.insert(b"/large", stored((1 << 20) / 16, 10));
        assert!(cache.find(b"/large", 1, |_| true).is_none());
    }
}
