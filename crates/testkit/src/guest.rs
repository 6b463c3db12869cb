//! Another kernel: Debian's stock ones, booted in QEMU with a root of nothing but busybox and what a test puts there.
//!
//! Emulated (accel=tcg), so all takes ten times as long as here: figures of a guest are compared only with figures of the same
//! guest. `scripts/guest.sh` fetches the kernels. No network but the guest's own loopback, and no disk but one that brings results
//! out; it ends when its script does. There `PLIMSOLL_TEST_GUEST` is set.

use crate::process::Guard;
use std::fs;
use std::io::{self, BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// What the guest does first: the file systems that tests look into, the modules, then the script.
const INIT: &str = r#"#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin TMPDIR=/tmp HOME=/tmp PLIMSOLL_TEST_GUEST=1
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
mount -t tracefs tracefs /sys/kernel/tracing
mount -t debugfs debugfs /sys/kernel/debug
mount -t tmpfs tmpfs /tmp
mount -t tmpfs cgroup /sys/fs/cgroup
mkdir /sys/fs/cgroup/memory /tmp/results
mount -t cgroup -o memory memory /sys/fs/cgroup/memory
for module in $(cat /modules/order); do insmod /modules/$module; done
ip link set lo up
ulimit -n 65536
echo "guest kernel: $(cat /proc/sys/kernel/osrelease)"
cd /tmp
sh /script </dev/null
status=$?
[ ! -b /dev/vda ] || tar -c -f /dev/vda -C /tmp/results .
echo "guest ended: $status"
poweroff -f
"#;
/// Room for what is brought out; the file takes only what is written.
const RESULTS_BYTES: u64 = 1 << 30;

/// A kernel to boot, and what that takes.
#[derive(Debug)]
pub struct Guest {
    qemu: PathBuf,
    /// The machine, as QEMU's arguments.
    machine: &'static [&'static str],
    /// The device of its serial line.
    console: &'static str,
    /// Of this machine, to pack the archive.
    busybox: PathBuf,
    /// Of the guest's.
    busybox_there: PathBuf,
    folder: PathBuf,
}

/// What the guest's clock is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clock {
    /// Ours: how much is done in a second depends on what else this machine does.
    Running,
    /// One that counts the guest's instructions, [`NS_PER_INSTRUCTION`] each, and skips the time in which it would wait: nothing here
    /// changes what is done there in a second. Of one CPU only: QEMU has several take turns then.
    Counted,
}

/// Of a kernel that stands still, where: warnings, and the stacks behind them, come over the console.
const WARNINGS: &str = "loglevel=5";

/// What an instruction takes by [`Clock::Counted`].
pub const NS_PER_INSTRUCTION: u32 = 4;

/// What is booted.
#[derive(Debug)]
pub struct Boot<'b> {
    /// Files of this machine, and where they are there.
    pub files: Vec<(PathBuf, String)>,
    /// What is done, as busybox's shell reads it. Its status is the guest's; results are what it leaves in /tmp/results.
    pub script: &'b str,
    /// Of the guest.
    pub cpus: u32,
    /// Of the guest.
    pub clock: Clock,
    /// Further arguments of its kernel, such as `slub_debug=FZPU`.
    pub kernel_arguments: &'b str,
    /// Lines of the console that begin with this are shown as they come, for who waits.
    pub shown: Option<&'static str>,
}

/// What was done there.
#[derive(Debug)]
pub struct Ran {
    /// All that came over the console.
    pub console: String,
    /// The kernel's release; `None`: it did not come so far.
    pub kernel: Option<String>,
    /// The script's exit status; `None`: it did not come so far in its time.
    pub status: Option<i32>,
    /// What it left in /tmp/results; empty where it did not come to its end.
    pub results: tempfile::TempDir,
}

impl Guest {
    /// Finds what is needed for a kernel of a series, such as `6.1`, or `6.1-arm64` of a machine of that architecture.
    ///
    /// # Errors
    /// What is missing, in a sentence.
    pub fn find(series: &str) -> Result<Self, String> {
        let program = |name: &str| crate::program(name).ok_or_else(|| format!("{name} is not installed"));
        if !cfg!(target_arch = "x86_64") {
            return Err("a guest is known only for x86-64".to_owned());
        }
        let folder = crate::workspace().join("target/guest").join(series);
        if !folder.join("vmlinuz").is_file() {
            return Err(format!("there is no kernel in {}: scripts/guest.sh {series} fetches it", folder.display()));
        }
        let busybox = program("busybox")?;
        if series.ends_with("-arm64") {
            return Ok(Guest {
                qemu: program("qemu-system-aarch64")?,
                machine: &["-M", "virt", "-accel", "tcg", "-cpu", "cortex-a72"],
                console: "ttyAMA0",
                busybox_there: folder.join("busybox"),
                busybox,
                folder,
            });
        }
        Ok(Guest {
            qemu: program("qemu-system-x86_64")?,
            machine: &["-M", "q35,accel=tcg"],
            console: "ttyS0",
            busybox_there: busybox.clone(),
            busybox,
            folder,
        })
    }

    /// Our module for that kernel: `plimsoll_echo`, or `plimsoll_echo_broken`, which fails on purpose.
    ///
    /// # Errors
    /// That it was not built, in a sentence.
    pub fn module(&self, name: &str) -> Result<PathBuf, String> {
        let module = self.folder.join(name).with_extension("ko");
        if module.is_file() {
            return Ok(module);
        }
        Err(format!("{} was not built: scripts/packages.sh kernel, then scripts/guest.sh builds it", module.display()))
    }

    /// Boots, runs a program of this machine with its libraries, and waits for its end. Where it does not come to its end, the console
    /// says where its kernel stood.
    ///
    /// # Errors
    /// Of the file system and of starting QEMU.
    pub fn run(&self, program: &Path, arguments: &str, cpus: u32, at_most: Duration) -> io::Result<Ran> {
        let files = with_libraries(program, "/bin/program")?;
        let script = format!("/bin/program {arguments}");
        self.boot(
            &Boot { files, script: &script, cpus, clock: Clock::Running, kernel_arguments: WARNINGS, shown: None },
            at_most,
        )
    }

    /// Boots, runs a script, and waits for its end.
    ///
    /// # Errors
    /// Of the file system and of starting QEMU.
    pub fn boot(&self, boot: &Boot<'_>, at_most: Duration) -> io::Result<Ran> {
        let folder = tempfile::tempdir()?;
        let archive = self.archive(folder.path(), boot)?;
        let disk = folder.path().join("disk");
        fs::File::create(&disk)?.set_len(RESULTS_BYTES)?;
        let mut qemu = Command::new(&self.qemu);
        qemu.args(self.machine);
        qemu.args(["-m", "2G", "-nographic", "-no-reboot", "-nodefaults", "-serial", "stdio"]);
        qemu.args(["-smp", &boot.cpus.to_string()]);
        if boot.clock == Clock::Counted {
            qemu.args(["-icount", &format!("shift={},sleep=off", NS_PER_INSTRUCTION.ilog2())]);
        }
        qemu.args(["-append", &format!("console={} panic=-1 quiet {}", self.console, boot.kernel_arguments)]);
        qemu.args(["-drive", &format!("file={},if=virtio,format=raw", disk.display())]);
        qemu.arg("-kernel").arg(self.folder.join("vmlinuz"));
        qemu.arg("-initrd").arg(archive).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut guest = Guard::spawn(&mut qemu)?;
        let stdout = guest.child().stdout.take().ok_or_else(|| io::Error::other("QEMU has no standard output"))?;
        let shown = boot.shown;
        let reader = std::thread::spawn(move || read_console(stdout, shown));
        guest.wait(at_most);
        drop(guest);
        let console = reader.join().map_err(|_| io::Error::other("the console's reader panicked"))??;
        let after = |mark: &str| console.split_once(mark)?.1.lines().next().map(|rest| rest.trim().to_owned());
        let (kernel, status) = (after("guest kernel: "), after("guest ended: ").and_then(|word| word.parse().ok()));
        let results = tempfile::tempdir()?;
        if status.is_some() {
            let unpacked = Command::new("tar").arg("-xf").arg(&disk).arg("-C").arg(results.path()).status()?;
            if !unpacked.success() {
                return Err(io::Error::other(format!(
                    "what the guest left cannot be unpacked: tar ended with {unpacked}"
                )));
            }
        }
        Ok(Ran { console, kernel, status, results })
    }

    /// The guest's root as an archive that a kernel unpacks.
    fn archive(&self, folder: &Path, boot: &Boot<'_>) -> io::Result<PathBuf> {
        let (root, archive) = (folder.join("root"), folder.join("initrd"));
        for name in ["bin", "proc", "sys", "dev", "tmp", "modules"] {
            fs::create_dir_all(root.join(name))?;
        }
        fs::copy(&self.busybox_there, root.join("bin/busybox"))?;
        for module in fs::read_dir(self.folder.join("modules"))? {
            let module = module?.path();
            fs::copy(&module, root.join("modules").join(module.file_name().unwrap_or_default()))?;
        }
        for (from, to) in &boot.files {
            let to = root.join(to.trim_start_matches('/'));
            fs::create_dir_all(to.parent().unwrap_or(&root))?;
            fs::copy(from, to)?;
        }
        fs::write(root.join("script"), boot.script)?;
        fs::write(root.join("init"), INIT)?;
        fs::set_permissions(root.join("init"), fs::Permissions::from_mode(0o755))?;
        let pack = "find . | \"$0\" cpio -o -H newc >\"$1\" 2>/dev/null";
        let made = Command::new("sh").args(["-c", pack]).args([&self.busybox, &archive]).current_dir(&root).status()?;
        if made.success() { Ok(archive) } else { Err(io::Error::other(format!("cpio ended with {made}"))) }
    }
}

/// A program of this machine and its shared libraries, the loader among them, for [`Boot::files`]. A static one has none.
///
/// # Errors
/// Of running ldd.
pub fn with_libraries(program: &Path, to: &str) -> io::Result<Vec<(PathBuf, String)>> {
    let listed = Command::new("ldd").arg(program).output()?;
    let text = String::from_utf8_lossy(&listed.stdout).into_owned();
    let libraries = text.split_whitespace().filter(|word| word.starts_with('/') && !word.ends_with(':'));
    let libraries = libraries.map(|path| (PathBuf::from(path), path.to_owned()));
    Ok(std::iter::once((program.to_owned(), to.to_owned())).chain(libraries).collect())
}

/// All of it, as text; what is no UTF-8 is replaced.
fn read_console(stdout: impl io::Read, shown: Option<&str>) -> io::Result<String> {
    let (mut console, mut line) = (String::new(), Vec::new());
    let mut reader = BufReader::new(stdout);
    while reader.read_until(b'\n', &mut line)? > 0 {
        let text = String::from_utf8_lossy(&line);
        if shown.is_some_and(|mark| text.starts_with(mark)) {
            io::Write::write_all(&mut io::stderr(), text.as_bytes())?;
        }
        console.push_str(&text);
        line.clear();
    }
    Ok(console)
}
