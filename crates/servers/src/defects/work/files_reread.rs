//! The same few small files, opened and read again for each request: nobody keeps what is in them.
//!
//! They are those that servers really do this with, by way of their C library: the time zone, the names of hosts, who
//! resolves names, the users. They come from the page cache, so what it costs is system calls.

use crate::defects::able::Able;
use crate::defects::defect::{Defect, Strength};
use crate::defects::hook::{Hook, Request};
use crate::defects::server::Server;
use crate::error::ServeError;
use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::read;

const FILES: [&str; 4] = ["/etc/localtime", "/etc/hosts", "/etc/resolv.conf", "/etc/passwd"];
/// More than the largest of them has, usually; what is behind is not read.
const BYTES_MAX: usize = 4096;

pub(super) const DEFECT: Defect = Defect {
    name: "files-reread",
    servers: &[Server::Echo, Server::Http, Server::WebSocket, Server::Proxy],
    strength: Strength::Count(4),
    parts: &[],
    ways: &[],
    needs: &[Able::Requests],
    about: "each request opens, reads and closes this many small files, the same ones again and again (of /etc)",
    makes: "syscall-bound: openat, read and close far outnumber receives and sends, and most processor time is the kernel's",
    see: "timeout 5 strace -f -c -e trace=openat,read,close -p PID under load: as many openat a request",
    make: |setting| {
        let files: Vec<_> = FILES.into_iter().filter(|file| std::fs::File::open(file).is_ok()).collect();
        if files.is_empty() {
            return Err(ServeError::DefectMisused {
                defect: setting.defect.name,
                expected: format!("one of {}", FILES.join(", ")),
                got: "none that can be read".to_owned(),
                next: "serve where there is one",
            });
        }
        Ok(Box::new(FilesReread { files, number: setting.number() }))
    },
};

#[derive(Debug)]
struct FilesReread {
    files: Vec<&'static str>,
    number: u64,
}

impl Hook for FilesReread {
    fn request(&self, _: &Request<'_>) {
        let mut bytes = [0; BYTES_MAX];
        for (file, _) in self.files.iter().cycle().zip(0..self.number) {
            // As the C library does it, by openat. One that is gone, or no descriptor for it: the server goes on.
            if let Ok(file) = openat(CWD, *file, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()) {
                let _ = std::hint::black_box(read(&file, &mut bytes));
            }
        }
    }
}
