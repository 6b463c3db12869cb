//! Files of the user's, which may be anything: bounded before they are read, and not waited for without a word.
//!
//! A regular file says how long it is, so one that is too long is refused before a byte of it is read. A pipe or device
//! does not: of it a bounded part is read, and who waits for its other end is told so after a second. What waits runs
//! where it was called; the telling costs a thread, and only where something may have to be waited for.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

/// Takes a sentence to whoever waits.
pub type Tell = fn(&str);

/// So long is waited without a word.
const SILENCE: Duration = Duration::from_secs(1);
/// Most that is read of what does not say how long it is, bytes.
const UNSIZED_BYTES_MAX: u64 = 64 << 20;

/// The bytes of a file, at most `bytes_max`.
///
/// # Errors
/// What the kernel said; [`io::ErrorKind::FileTooLarge`] where there are more bytes, as half a sentence about the file.
pub fn read(path: &Path, bytes_max: u64, tell: Tell) -> io::Result<Vec<u8>> {
    let about = fs::metadata(path)?;
    let too_large = |why: String| io::Error::new(io::ErrorKind::FileTooLarge, why);
    if about.is_file() && about.len() > bytes_max {
        return Err(too_large(format!("has {}", about.len())));
    }
    let all = |bytes_max: u64| {
        let mut bytes = Vec::new();
        File::open(path)?.take(bytes_max.saturating_add(1)).read_to_end(&mut bytes)?;
        Ok::<_, io::Error>(bytes)
    };
    // Files of /proc say that they are empty.
    let (bytes, most) = match waited_for(path) {
        None => (all(bytes_max)?, bytes_max),
        Some(waiting) => {
            let most = bytes_max.min(UNSIZED_BYTES_MAX);
            (patiently(tell, &waiting, || all(most))?, most)
        }
    };
    if bytes.len() as u64 <= most {
        return Ok(bytes);
    }
    Err(too_large(match most < bytes_max {
        true => format!("has no length of its own, and more than the {most} that are read of such a one"),
        false => "has more".to_owned(),
    }))
}

/// What is waited for in reading a file, as a sentence; `None` of one that is there, whole.
pub fn waited_for(path: &Path) -> Option<String> {
    let kind = fs::metadata(path).ok()?.file_type();
    let what = match () {
        () if kind.is_fifo() => "a pipe",
        () if kind.is_char_device() => "a device",
        () => return None,
    };
    Some(format!("reading '{}', {what}: waiting for its writer to write all and close it", path.display()))
}

/// Whether a path leads to no file: a wrong word of who wrote it. That a file may not be read, or that its disk fails, is found on
/// the way.
pub fn is_no_file(error: &io::Error) -> bool {
    use io::ErrorKind::{IsADirectory, NotADirectory, NotFound};
    matches!(error.kind(), NotFound | NotADirectory | IsADirectory)
}

/// Does what may have to wait; if it has not ended in a second, what it waits for is told, once.
pub fn patiently<T>(tell: Tell, waiting: &str, work: impl FnOnce() -> T) -> T {
    let (working, is_over) = channel::<()>();
    thread::scope(|scope| {
        let telling = move || {
            if is_over.recv_timeout(SILENCE) == Err(RecvTimeoutError::Timeout) {
                tell(waiting);
            }
        };
        // Without a thread it is waited in silence.
        let _ = thread::Builder::new().name("patience".to_owned()).spawn_scoped(scope, telling);
        let done = work();
        drop(working);
        done
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    fn silent(_: &str) {}

    #[test]
    fn a_long_file_is_refused_unread_and_an_endless_one_in_time() {
        let sparse = tempfile::NamedTempFile::new().unwrap();
        sparse.as_file().set_len(1 << 40).unwrap();
        let error = read(sparse.path(), 1 << 30, silent).unwrap_err();
        assert_eq!((error.kind(), &*error.to_string()), (io::ErrorKind::FileTooLarge, "has 1099511627776"));
        let endless = read(Path::new("/dev/zero"), 1 << 30, silent).unwrap_err().to_string();
        assert_eq!(endless, "has no length of its own, and more than the 67108864 that are read of such a one");
        assert_eq!(read(Path::new("/dev/zero"), 3, silent).unwrap_err().to_string(), "has more");
        assert!(!read(Path::new("/proc/self/stat"), 1 << 20, silent).unwrap().is_empty());
        assert_eq!(read(Path::new("/nonexistent"), 1, silent).unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn who_waits_is_told_once() {
        static TOLD: AtomicU32 = AtomicU32::new(0);
        let tell = |_: &str| {
            TOLD.fetch_add(1, Ordering::Relaxed);
        };
        assert_eq!(patiently(tell, "x", || 5), 5);
        assert_eq!(TOLD.load(Ordering::Relaxed), 0);
        // It goes on when it has been told, not before.
        patiently(tell, "x", || {
            while TOLD.load(Ordering::Relaxed) == 0 {
                thread::yield_now();
            }
        });
        assert_eq!(TOLD.load(Ordering::Relaxed), 1);
    }
}
