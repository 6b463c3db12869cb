//! A node of the cluster: containerd, a kubelet, and images that are put into it, as there is no registry.
//!
//! Several stand on one machine, each with sockets, folders and control groups of its own. Containers have no limits of the kind
//! rlimits, and none is less likely to be killed for want of memory than its parent: so they start where raising either is forbidden
//! (CAP_SYS_RESOURCE).

use crate::control::Control;
use crate::machine::{ADDRESS, Machine};
use serde_json::Value;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use testkit::process::Guard;
use testkit::wait_until;

pub const PLIMSOLL: &str = "localhost/plimsoll:test";
pub const NATS: &str = "localhost/nats:test";
const PAUSE: &str = "localhost/pause:test";
/// The program in the image of the agents, such as the static one: that of the tests where it is not set.
const STATIC: &str = "PLIMSOLL_TEST_STATIC";
/// Where Debian has the programs that give pods their network.
pub const CNI: &str = "/usr/lib/cni";

pub struct Node {
    _processes: Vec<Guard>,
}

/// Makes the images, once for all nodes.
pub fn images(machine: &Machine, programs: &Path) -> io::Result<Vec<PathBuf>> {
    let nats = testkit::program("nats-server").unwrap();
    let plimsoll = std::env::var_os(STATIC).map_or_else(|| env!("CARGO_BIN_EXE_plimsoll").into(), PathBuf::from);
    let all = [(PLIMSOLL, plimsoll, "65532:65532"), (NATS, nats, "0"), (PAUSE, programs.join("pause"), "65535")];
    all.into_iter().map(|(name, program, user)| image(machine, name, &program, user)).collect()
}

/// An image of a program and the libraries it needs: that of the tests is not static.
fn image(machine: &Machine, name: &str, program: &Path, user: &str) -> io::Result<PathBuf> {
    let short = program.file_name().unwrap().to_str().unwrap();
    let (folder, out) = (machine.file(&format!("image-{short}")), machine.file(&format!("{short}.tar")));
    let entrypoint = format!("/{short}");
    for (from, to) in testkit::guest::with_libraries(program, &entrypoint)? {
        let to = folder.join(to.trim_start_matches('/'));
        fs::create_dir_all(to.parent().unwrap())?;
        fs::copy(from, to)?;
    }
    // Of the program that is tested, symbols are most.
    let _ = Command::new("strip").arg(folder.join(short)).status();
    let script = testkit::workspace().join("scripts/oci.sh");
    let arch = if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" };
    let made = Command::new(script)
        .args([out.to_str().unwrap(), name, user, &entrypoint])
        .arg(format!("{arch}={}", folder.display()))
        .output()?;
    let said = String::from_utf8_lossy(&made.stderr).into_owned();
    if made.status.success() { Ok(out) } else { Err(io::Error::other(said)) }
}

impl Node {
    pub fn start(
        machine: &mut Machine,
        control: &Control,
        programs: &Path,
        images: &[PathBuf],
        number: u16,
    ) -> io::Result<Self> {
        let name = format!("node-{number}");
        let group = format!("plimsoll-test-{}-{number}", std::process::id());
        machine.group(&group)?;
        let folder = machine.file(&name);
        fs::create_dir_all(folder.join("cni"))?;
        let at = |file: &str| folder.join(file).display().to_string();
        let spec = Command::new("ctr").args(["oci", "spec"]).output()?;
        let mut spec: Value = serde_json::from_slice(&spec.stdout)?;
        spec["process"].as_object_mut().unwrap().remove("rlimits");
        fs::write(at("spec.json"), spec.to_string())?;
        let addresses = machine.file("addresses");
        let network = format!(
            r#"{{"cniVersion":"0.4.0","name":"pods","plugins":[{{"type":"ptp","ipMasq":false,"ipam":{{"type":"host-local",
            "dataDir":"{}","ranges":[[{{"subnet":"10.98.0.0/24"}}]],"routes":[{{"dst":"0.0.0.0/0"}}]}}}}]}}"#,
            addresses.display()
        );
        fs::write(at("cni/pods.conflist"), network)?;
        let runtime = "plugins.\"io.containerd.grpc.v1.cri\"";
        let containerd = format!(
            "version = 2\nroot = '{root}'\nstate = '{state}'\n[grpc]\naddress = '{socket}'\n\
             [{runtime}]\nsandbox_image = '{PAUSE}'\nrestrict_oom_score_adj = true\ndisable_apparmor = true\n\
             netns_mounts_under_state_dir = true\n\
             [{runtime}.containerd.runtimes.runc]\nruntime_type = 'io.containerd.runc.v2'\nbase_runtime_spec = '{spec}'\n\
             [{runtime}.cni]\nbin_dir = '{CNI}'\nconf_dir = '{cni}'\n",
            root = at("root"),
            state = at("state"),
            socket = at("containerd.sock"),
            spec = at("spec.json"),
            cni = at("cni"),
        );
        fs::write(at("containerd.toml"), containerd)?;
        let log = |what: &str| format!("{what}-{number}");
        let containerd = testkit::program("containerd").unwrap();
        let mut processes =
            vec![machine.start(&log("containerd"), containerd, &["--config".to_owned(), at("containerd.toml")])?];
        let socket = at("containerd.sock");
        let ctr =
            |args: &[&str]| machine.run("ctr", &[&["--address", &socket, "--namespace", "k8s.io"], args].concat());
        wait_until("containerd answers", || ctr(&["version"]).is_ok());
        for image in images {
            ctr(&["images", "import", image.to_str().unwrap()])?;
        }
        let kubelet = format!(
            "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n\
             address: {ADDRESS}\nport: {port}\nreadOnlyPort: 0\nhealthzPort: 0\n\
             containerRuntimeEndpoint: 'unix://{socket}'\ncgroupDriver: cgroupfs\ncgroupRoot: /{group}\n\
             enforceNodeAllocatable: []\nfailCgroupV1: false\nfailSwapOn: false\noomScoreAdj: 0\n\
             authentication: {{anonymous: {{enabled: true}}, webhook: {{enabled: false}}}}\n\
             authorization: {{mode: AlwaysAllow}}\nclusterDomain: cluster.local\nclusterDNS: ['{ADDRESS}']\n\
             makeIPTablesUtilChains: false\nlocalStorageCapacityIsolation: false\npodLogsDir: '{logs}'\n\
             evictionHard: {{memory.available: 50Mi, nodefs.available: '0%', imagefs.available: '0%'}}\n",
            port = 10250 + number,
            logs = at("logs"),
        );
        fs::write(at("kubelet.yaml"), kubelet)?;
        let args = [
            format!("--config={}", at("kubelet.yaml")),
            format!("--kubeconfig={}", control.kubeconfig.display()),
            format!("--root-dir={}", at("kubelet")),
            format!("--cert-dir={}", at("certificates")),
            format!("--hostname-override={name}"),
            format!("--node-ip={ADDRESS}"),
        ];
        processes.push(machine.start(&log("kubelet"), programs.join("kubelet"), &args)?);
        Ok(Node { _processes: processes })
    }
}
