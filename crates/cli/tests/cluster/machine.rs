//! A machine of the test's own: namespaces of network, mounts and processes, in which the cluster has its programs. It has the
//! address [`ADDRESS`] and no way out. When its first process is ended the kernel ends all others, containers among them, and their
//! mounts and interfaces are gone with them. What is left are folders of control groups, which are removed.

use std::fs::{self, File};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tempfile::TempDir;
use testkit::process::Guard;
use testkit::wait_for;

/// Where the machine is reached by its pods.
pub const ADDRESS: &str = "10.97.0.1";
/// Where Linux has the hierarchies of control groups (cgroups(7)).
const GROUPS: &str = "/sys/fs/cgroup";

pub struct Machine {
    holder: Option<Guard>,
    first: u32,
    folder: TempDir,
    groups: Vec<String>,
}

impl Machine {
    /// `first` is what runs as the first process: it takes over what is left without a parent.
    pub fn new(first: &Path) -> io::Result<Self> {
        let folder = tempfile::tempdir()?;
        let mut unshare = Command::new("unshare");
        unshare.args([
            "--net",
            "--mount",
            "--pid",
            "--fork",
            "--kill-child",
            "--mount-proc",
            "--propagation",
            "private",
        ]);
        let holder = Guard::spawn(unshare.arg(first).stdin(Stdio::null()))?;
        let pid = holder.pid();
        let children = format!("/proc/{pid}/task/{pid}/children");
        let first = wait_for("the machine's first process", || {
            let child = fs::read_to_string(&children).ok()?.trim().parse::<u32>().ok()?;
            let own = fs::read_link(format!("/proc/{child}/exe")).ok()?;
            own.ends_with(first.file_name()?).then_some(child)
        });
        let machine = Machine { holder: Some(holder), first, folder, groups: Vec::new() };
        machine.run("ip", &["link", "set", "lo", "up"])?;
        machine.run("ip", &["address", "add", &format!("{ADDRESS}/32"), "dev", "lo"])?;
        Ok(machine)
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.folder().join(name)
    }

    /// The program, to be run there. Its process is the one that is started, so it can be ended by its id.
    pub fn command(&self, program: impl AsRef<Path>) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["--target", &self.first.to_string(), "--net", "--mount", "--"]).arg(program.as_ref());
        command.stdin(Stdio::null());
        command
    }

    /// The same, in the machine's space of processes too: what it starts ends with the machine.
    pub fn start(&self, name: &str, program: impl AsRef<Path>, args: &[String]) -> io::Result<Guard> {
        let log = File::create(self.file(&format!("{name}.log")))?;
        let mut command = Command::new("nsenter");
        command.args(["--target", &self.first.to_string(), "--net", "--mount", "--pid", "--"]).arg(program.as_ref());
        command.args(args).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        // What a terminal's Ctrl-C would reach is ended with the machine.
        Guard::spawn(command.process_group(0))
    }

    /// Runs something there to its end.
    pub fn run(&self, program: &str, args: &[&str]) -> io::Result<String> {
        let output = self.command(program).args(args).output()?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        Err(io::Error::other(format!("{program} {args:?} ended with {}: {}", output.status, said.trim())))
    }

    /// Makes a control group of this name in each hierarchy, which is removed with the machine.
    pub fn group(&mut self, name: &str) -> io::Result<()> {
        self.groups.push(name.to_owned());
        for hierarchy in hierarchies()? {
            let folder = hierarchy.join(name);
            fs::create_dir(&folder)?;
            // A set of CPUs is empty at first, and nothing may run in it.
            for file in ["cpuset.cpus", "cpuset.mems"] {
                if let Ok(all) = fs::read_to_string(hierarchy.join(file)) {
                    fs::write(folder.join(file), all.trim())?;
                }
            }
        }
        Ok(())
    }

    /// What a program has said last.
    pub fn log(&self, name: &str) -> String {
        let text = fs::read_to_string(self.file(&format!("{name}.log"))).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(15)..].join("\n")
    }
}

/// The hierarchies that are there: several of cgroup v1, one of v2.
fn hierarchies() -> io::Result<Vec<PathBuf>> {
    let root = PathBuf::from(GROUPS);
    if root.join("cgroup.procs").exists() {
        return Ok(vec![root]);
    }
    let mut all = Vec::new();
    for entry in fs::read_dir(&root)? {
        let folder = entry?.path();
        if folder.join("cgroup.procs").exists() && !folder.is_symlink() {
            all.push(folder);
        }
    }
    Ok(all)
}

/// Removes a folder of control groups from below, as soon as nothing is in it any more.
fn remove(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten().filter(|entry| entry.path().is_dir()) {
        remove(&entry.path());
    }
    for _ in 0..100 {
        match fs::remove_dir(folder) {
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                std::thread::sleep(std::time::Duration::from_millis(20));
            }
            _ => return,
        }
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        // Ended by its id; unshare ends its child, and the kernel whatever else is in there.
        drop(self.holder.take());
        let first = format!("/proc/{}", self.first);
        testkit::wait_until("the machine is gone", || !Path::new(&first).exists());
        for group in &self.groups {
            for hierarchy in hierarchies().into_iter().flatten() {
                remove(&hierarchy.join(group));
            }
        }
    }
}
