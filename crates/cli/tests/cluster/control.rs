//! The cluster's control plane: etcd, API server, controllers and scheduler, each a process of the machine's.
//!
//! Two users may come: one who may do everything, and one who may do nothing, by tokens in a file.

use crate::machine::Machine;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use testkit::process::Guard;
use testkit::wait_until;

pub const SERVER: &str = "https://127.0.0.1:6443";

pub struct Control {
    /// Kubernetes' programs.
    programs: PathBuf,
    /// Of who may do everything.
    pub kubeconfig: PathBuf,
    /// Of who may do nothing.
    pub powerless: PathBuf,
    _processes: Vec<Guard>,
}

impl Control {
    pub fn start(machine: &Machine, programs: &Path) -> io::Result<Self> {
        let certificates = machine.file("certificates");
        fs::create_dir(&certificates)?;
        let path = |name: &str| certificates.join(name).display().to_string();
        machine.run("openssl", &["genrsa", "-out", &path("accounts.key"), "2048"])?;
        fs::write(path("tokens"), "all,admin,1,system:masters\nnone,nobody,2\n")?;
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let etcd = format!(
            "--data-dir {} --listen-client-urls http://127.0.0.1:2379 --advertise-client-urls http://127.0.0.1:2379 \
             --listen-peer-urls http://127.0.0.1:2380",
            machine.file("etcd").display()
        );
        let mut processes = vec![machine.start("etcd", testkit::program("etcd").unwrap(), &words(&etcd))?];
        let api = format!(
            "--etcd-servers http://127.0.0.1:2379 --service-account-issuer https://kubernetes.default.svc \
             --service-account-key-file {key} --service-account-signing-key-file {key} \
             --service-cluster-ip-range 10.99.0.0/24 --token-auth-file {tokens} --bind-address 127.0.0.1 \
             --advertise-address 127.0.0.1 --endpoint-reconciler-type none --cert-dir {folder} \
             --authorization-mode RBAC --allow-privileged=true --kubelet-preferred-address-types InternalIP",
            key = path("accounts.key"),
            tokens = path("tokens"),
            folder = certificates.display()
        );
        processes.push(machine.start("kube-apiserver", programs.join("kube-apiserver"), &words(&api))?);
        let (kubeconfig, powerless) = (machine.file("kubeconfig"), machine.file("powerless"));
        for (file, token) in [(&kubeconfig, "all"), (&powerless, "none")] {
            let text = format!(
                "apiVersion: v1\nkind: Config\ncurrent-context: it\n\
                 clusters: [{{name: it, cluster: {{server: '{SERVER}', certificate-authority: '{}'}}}}]\n\
                 users: [{{name: it, user: {{token: {token}}}}}]\n\
                 contexts: [{{name: it, context: {{cluster: it, user: it}}}}]\n",
                path("apiserver.crt")
            );
            fs::write(file, text)?;
        }
        let control = Control { programs: programs.to_owned(), kubeconfig, powerless, _processes: Vec::new() };
        wait_until("the API server is ready", || control.kubectl(machine, &["get", "--raw", "/readyz"]).is_ok());
        let own =
            format!("--kubeconfig {} --leader-elect=false --bind-address 127.0.0.1", control.kubeconfig.display());
        let of_controllers = format!(
            "{own} --service-account-private-key-file {} --root-ca-file {}",
            path("accounts.key"),
            path("apiserver.crt")
        );
        for (name, args) in [("kube-controller-manager", &of_controllers), ("kube-scheduler", &own)] {
            processes.push(machine.start(name, programs.join(name), &words(args))?);
        }
        Ok(Control { _processes: processes, ..control })
    }

    /// kubectl, that goes on.
    pub fn kubectl_on(&self, machine: &Machine, name: &str, args: &[&str]) -> io::Result<Guard> {
        let own = ["--kubeconfig".to_owned(), self.kubeconfig.display().to_string()];
        let all: Vec<String> = own.into_iter().chain(args.iter().map(|arg| (*arg).to_owned())).collect();
        machine.start(name, self.programs.join("kubectl"), &all)
    }

    /// What kubectl says.
    pub fn kubectl(&self, machine: &Machine, args: &[&str]) -> io::Result<String> {
        let own = self.kubeconfig.display().to_string();
        let program = self.programs.join("kubectl").display().to_string();
        machine.run(&program, &[&["--kubeconfig", &own], args].concat())
    }
}
