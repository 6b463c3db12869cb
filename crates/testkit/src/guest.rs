//! A program run on another kernel: Debian's stock one, booted in QEMU with a root of nothing but busybox and the program.
//!
//! Emulated (accel=tcg), so it takes ten times as long as here; nothing is measured there. `scripts/guest.sh` fetches
//! the kernel. No network but its own loopback, no disk; it ends when the program does. There `PLIMSOLL_TEST_GUEST` is set.

use crate::process::Guard;
use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

const PROGRAMS: &[&str] = &["sh", "sleep", "cat", "tail", "dd", "taskset", "kill", "mount", "ip", "poweroff", "mkdir"];

/// What the guest does first: the file systems that the tests look into, then the program.
const INIT: &str = "#!/bin/sh
export PATH=/bin TMPDIR=/tmp HOME=/tmp PLIMSOLL_TEST_GUEST=1
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
mount -t tracefs tracefs /sys/kernel/tracing
mount -t tmpfs tmpfs /tmp
mount -t tmpfs cgroup /sys/fs/cgroup
mkdir /sys/fs/cgroup/memory
mount -t cgroup -o memory memory /sys/fs/cgroup/memory
ip link set lo up
echo \"guest kernel: $(cat /proc/sys/kernel/osrelease)\"
/bin/program ARGUMENTS </dev/null
echo \"guest ended: $?\"
poweroff -f
";

/// A kernel to boot, and what that takes.
#[derive(Debug)]
pub struct Guest {
    qemu: PathBuf,
    busybox: PathBuf,
    kernel: PathBuf,
}

/// What a program did there.
#[derive(Debug)]
pub struct Ran {
    /// All that came over the console.
    pub console: String,
    /// The kernel's release; `None`: it did not come so far.
    pub kernel: Option<String>,
    /// The program's exit status; `None`: it did not come so far in its time.
    pub status: Option<i32>,
}

impl Guest {
    /// Finds what is needed.
    ///
    /// # Errors
    /// What is missing, in a sentence.
    pub fn find() -> Result<Self, String> {
        let program = |name: &str| crate::program(name).ok_or_else(|| format!("{name} is not installed"));
        if !cfg!(target_arch = "x86_64") {
            return Err("a guest is known only for x86-64".to_owned());
        }
        let kernel = crate::workspace().join("target/guest/vmlinuz");
        if !kernel.is_file() {
            return Err(format!("{} is not there: scripts/guest.sh fetches it", kernel.display()));
        }
        Ok(Guest { qemu: program("qemu-system-x86_64")?, busybox: program("busybox")?, kernel })
    }

    /// Boots, runs a program of this machine with its libraries, and waits for its end.
    ///
    /// # Errors
    /// Of the file system and of starting QEMU.
    pub fn run(&self, program: &Path, arguments: &str, at_most: Duration) -> io::Result<Ran> {
        let folder = tempfile::tempdir()?;
        let archive = self.archive(folder.path(), program, arguments)?;
        let mut qemu = Command::new(&self.qemu);
        qemu.args(["-M", "q35,accel=tcg", "-m", "1G", "-nographic", "-no-reboot", "-nodefaults", "-serial", "stdio"]);
        qemu.args(["-append", "console=ttyS0 panic=-1 quiet"]).arg("-kernel").arg(&self.kernel);
        qemu.arg("-initrd").arg(archive).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut guest = Guard::spawn(&mut qemu)?;
        let stdout = guest.child().stdout.take();
        let reader = std::thread::spawn(move || {
            let mut bytes = Vec::new();
            let outcome = stdout.map_or(Ok(0), |mut stdout| stdout.read_to_end(&mut bytes));
            outcome.map(|_| String::from_utf8_lossy(&bytes).into_owned())
        });
        guest.wait(at_most);
        drop(guest);
        let console = reader.join().map_err(|_| io::Error::other("the console's reader panicked"))??;
        let after = |mark: &str| console.split_once(mark)?.1.lines().next().map(|rest| rest.trim().to_owned());
        let (kernel, status) = (after("guest kernel: "), after("guest ended: ").and_then(|word| word.parse().ok()));
        Ok(Ran { console, kernel, status })
    }

    /// The guest's root as an archive that a kernel unpacks.
    fn archive(&self, folder: &Path, program: &Path, arguments: &str) -> io::Result<PathBuf> {
        let (root, archive) = (folder.join("root"), folder.join("initrd"));
        for name in ["bin", "proc", "sys", "dev", "tmp"] {
            fs::create_dir_all(root.join(name))?;
        }
        fs::copy(&self.busybox, root.join("bin/busybox"))?;
        for name in PROGRAMS {
            symlink("busybox", root.join("bin").join(name))?;
        }
        fs::copy(program, root.join("bin/program"))?;
        for library in libraries(program)? {
            let to = root.join(library.strip_prefix("/").unwrap_or(&library));
            fs::create_dir_all(to.parent().unwrap_or(&root))?;
            fs::copy(&library, to)?;
        }
        fs::write(root.join("init"), INIT.replace("ARGUMENTS", arguments))?;
        fs::set_permissions(root.join("init"), fs::Permissions::from_mode(0o755))?;
        let pack = "find . | \"$0\" cpio -o -H newc >\"$1\" 2>/dev/null";
        let made = Command::new("sh").args(["-c", pack]).args([&self.busybox, &archive]).current_dir(&root).status()?;
        if made.success() { Ok(archive) } else { Err(io::Error::other(format!("cpio ended with {made}"))) }
    }
}

/// The shared libraries of a program, the loader among them.
fn libraries(program: &Path) -> io::Result<Vec<PathBuf>> {
    let listed = Command::new("ldd").arg(program).output()?;
    let text = String::from_utf8_lossy(&listed.stdout).into_owned();
    Ok(text.split_whitespace().filter(|word| word.starts_with('/')).map(PathBuf::from).collect())
}
