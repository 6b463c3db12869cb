//! A thread beside the workers that ends with the defect it belongs to.

use crate::defects::defect::Setting;
use crate::error::ServeError;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Told to end and waited for when dropped.
#[derive(Debug)]
pub(super) struct Background {
    end: Arc<End>,
    thread: Option<JoinHandle<()>>,
}

/// Whether the thread is to end; its sleeps are cut short when it is.
#[derive(Debug, Default)]
pub(super) struct End {
    is_there: Mutex<bool>,
    came: Condvar,
}

impl Background {
    /// Starts the thread; `work` must return once [`End::within`] says true.
    pub(super) fn start(setting: &Setting, work: impl FnOnce(&Arc<End>) + Send + 'static) -> Result<Self, ServeError> {
        let end = Arc::new(End::default());
        let told = Arc::clone(&end);
        // It has no name of its own: as the process is called, so is it.
        let thread = std::thread::Builder::new().spawn(move || work(&told));
        let thread = thread.map_err(|source| refused(setting, "start a thread", source))?;
        Ok(Self { end, thread: Some(thread) })
    }

    /// Tells the thread to end.
    pub(super) fn end(&self) {
        *lock(&self.end.is_there) = true;
        self.end.came.notify_all();
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.end();
        if let Some(thread) = self.thread.take() {
            // A panic of it was printed; there is nothing else to learn from it.
            let _ = thread.join();
        }
    }
}

impl End {
    /// Sleeps for so long, or until the thread is to end. True if it is.
    pub(super) fn within(&self, time: Duration) -> bool {
        let until = Instant::now().checked_add(time);
        let mut is_there = lock(&self.is_there);
        while !*is_there {
            let left = until.map_or(Duration::MAX, |until| until.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                return false;
            }
            is_there = self.came.wait_timeout(is_there, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }
}

/// Locks, also after a thread panicked while it held the lock.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The error of a defect that could not start, because the machine refused what it needs.
pub(super) fn refused(setting: &Setting, doing: &'static str, source: impl Into<std::io::Error>) -> ServeError {
    ServeError::Defect { defect: setting.defect.name, doing, source: source.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sleep_ends_by_itself_or_with_its_owner() {
        let setting = Setting::new(crate::defects::DEFECTS[0]);
        let (tell, told) = std::sync::mpsc::channel();
        let background = Background::start(&setting, move |end| {
            tell.send(end.within(Duration::from_millis(1))).unwrap();
            tell.send(end.within(Duration::MAX)).unwrap();
        });
        let background = background.unwrap();
        assert!(!told.recv().unwrap());
        drop(background);
        assert!(told.recv().unwrap());
    }
}
