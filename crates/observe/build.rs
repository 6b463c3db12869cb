//! Compiles the BPF programs, `src/samplers/bpf/<name>/<name>.bpf.c`, into OUT_DIR: one call of clang each.
//!
//! The headers of libbpf are those of the libbpf that is built with it (`DEP_BPF_INCLUDE`, set by libbpf-sys).

fn main() {
    #[cfg(feature = "bpf")]
    programs::build();
}

#[cfg(feature = "bpf")]
mod programs {
    use std::path::{Path, PathBuf};
    use std::process::Command;

    pub fn build() {
        let (root, out) = (path("CARGO_MANIFEST_DIR"), path("OUT_DIR"));
        let includes = [root.join("bpf"), path("DEP_BPF_INCLUDE")];
        let programs = root.join("src/samplers/bpf");
        for watched in [&includes[0], &programs] {
            println!("cargo::rerun-if-changed={}", watched.display());
        }
        let listed = std::fs::read_dir(&programs).unwrap_or_else(|error| panic!("{}: {error}", programs.display()));
        for folder in listed.flatten().map(|entry| entry.path()).filter(|path| path.is_dir()) {
            let name = folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            compile(&folder.join(format!("{name}.bpf.c")), &out.join(format!("{name}.bpf.o")), &includes);
        }
    }

    fn path(variable: &str) -> PathBuf {
        std::env::var_os(variable).map(PathBuf::from).unwrap_or_else(|| panic!("cargo should set {variable}"))
    }

    fn compile(source: &Path, object: &Path, includes: &[PathBuf]) {
        let architecture = match &*std::env::var("CARGO_CFG_TARGET_ARCH").unwrap_or_default() {
            "aarch64" => "-D__TARGET_ARCH_arm64",
            _ => "-D__TARGET_ARCH_x86",
        };
        let mut clang = Command::new("clang");
        clang.args(["-g", "-O2", "-Wall", "-Werror", "-target", "bpf", architecture]);
        for folder in includes {
            clang.arg("-I").arg(folder);
        }
        let status = clang.arg("-c").arg(source).arg("-o").arg(object).status();
        let why = match status {
            Ok(status) if status.success() => return,
            Ok(status) => format!("clang ended with {status}"),
            Err(error) => format!("clang cannot be run ({error}): scripts/packages.sh build installs it"),
        };
        panic!("{}: {why}. Without probes: --no-default-features", source.display());
    }
}
