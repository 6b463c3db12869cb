//! The bytes of a description of types: in place where the kernel lets its own be mapped, else read some pages at a time.
//!
//! `/sys/kernel/btf/vmlinux` can be mapped since Linux 6.16, privately and for reading alone. Reading it takes a call for each
//! page (1,350 of them) and copies each twice. Not here: what the bytes mean.

use super::malformed;
use memmap2::{Mmap, MmapOptions};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Bytes read at a time: the kernel gives no more at once.
pub(super) const CHUNK: u64 = 4096;
/// Where files are the kernel's own.
const SYSFS: &str = "/sys/";

/// Where the bytes come from.
pub(super) enum Source {
    /// All of them, in the kernel's own memory.
    Mapped(Mmap),
    /// Some pages at a time.
    Read { file: File, chunk: Vec<u8>, chunk_at: u64 },
}

impl Source {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        // A file elsewhere may be cut while it is mapped, and reading on would end this process.
        if path.starts_with(SYSFS) {
            // SAFETY: what is mapped is a part of the running kernel's image, which is never changed and never taken away;
            // a private mapping cannot be written to.
            if let Ok(mapped) = unsafe { MmapOptions::new().map_copy_read_only(&file) } {
                return Ok(Source::Mapped(mapped));
            }
        }
        Ok(Source::Read { file, chunk: Vec::new(), chunk_at: 0 })
    }

    /// The bytes from a place on, within `end`: so many at least, and as many as are at hand.
    pub(super) fn bytes(&mut self, at: u64, least: usize, end: u64) -> io::Result<&[u8]> {
        let bytes = match self {
            Source::Mapped(mapped) => {
                let end = end.min(mapped.len() as u64);
                mapped.get(at.min(end) as usize..end as usize).unwrap_or_default()
            }
            Source::Read { file, chunk, chunk_at } => {
                let is_at_hand = at >= *chunk_at && at + least as u64 <= *chunk_at + chunk.len() as u64;
                if !is_at_hand {
                    chunk.resize(end.saturating_sub(at).min(CHUNK) as usize, 0);
                    *chunk_at = at;
                    file.read_exact_at(chunk, at)?;
                }
                chunk.get((at - *chunk_at) as usize..).unwrap_or_default()
            }
        };
        if bytes.len() < least { Err(malformed("the end of the file in the midst of a type")) } else { Ok(bytes) }
    }

    /// Reads anew what is asked for next.
    pub(super) fn forget(&mut self) {
        if let Source::Read { chunk, .. } = self {
            chunk.clear();
        }
    }

    pub(super) fn read_at(&self, into: &mut [u8], at: u64) -> io::Result<()> {
        match self {
            Source::Read { file, .. } => file.read_exact_at(into, at),
            Source::Mapped(mapped) => {
                let from = usize::try_from(at).unwrap_or(usize::MAX);
                let bytes = mapped.get(from..from.saturating_add(into.len()));
                into.copy_from_slice(bytes.ok_or(io::ErrorKind::UnexpectedEof)?);
                Ok(())
            }
        }
    }
}
