//! The container image as scripts/oci.sh packs it: read again with tar and sha256sum, digest by digest, for two architectures, and the
//! same bytes each time. That containerd takes it, and a kubelet runs it, is tested in `cluster/`.
#![allow(clippy::unwrap_used, reason = "helpers of tests: to stop is to fail")]

use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A folder whose one file is a program of that architecture, as far as the image goes.
fn root(folder: &Path, arch: &str) -> PathBuf {
    let root = folder.join(format!("root-{arch}"));
    fs::create_dir_all(root.join("etc")).unwrap();
    fs::write(root.join("plimsoll"), format!("the program for {arch}")).unwrap();
    // Whatever rights the folder has here, nobody may write in the image.
    fs::set_permissions(root.join("plimsoll"), fs::Permissions::from_mode(0o777)).unwrap();
    root
}

fn pack(out: &Path, roots: &[(&str, PathBuf)]) -> Output {
    let mut command = Command::new(testkit::workspace().join("scripts/oci.sh"));
    command.arg(out).args(["localhost/plimsoll:7", "65532:65532", "/plimsoll"]);
    command.args(roots.iter().map(|(arch, root)| format!("{arch}={}", root.display())));
    command.output().unwrap()
}

fn said(program: &str, args: &[&str]) -> String {
    let output = Command::new(program).args(args).output().unwrap();
    assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// A blob by what refers to it, whose digest and size are looked at.
fn blob(layout: &Path, reference: &Value) -> PathBuf {
    let digest = reference["digest"].as_str().unwrap().strip_prefix("sha256:").unwrap();
    let file = layout.join("blobs/sha256").join(digest);
    assert_eq!(said("sha256sum", &[file.to_str().unwrap()]).split(' ').next(), Some(digest));
    assert_eq!(fs::metadata(&file).unwrap().len(), reference["size"].as_u64().unwrap());
    file
}

fn json(file: &Path) -> Value {
    serde_json::from_slice(&fs::read(file).unwrap()).unwrap()
}

#[test]
fn an_image_of_two_architectures_is_whole_and_always_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let roots = ["amd64", "arm64"].map(|arch| (arch, root(folder.path(), arch)));
    let (first, second) = (folder.path().join("first.tar"), folder.path().join("second.tar"));
    for out in [&first, &second] {
        let packed = pack(out, &roots);
        assert!(packed.status.success(), "{}", String::from_utf8_lossy(&packed.stderr));
        // Another time, and other rights of a group here, change nothing.
        fs::write(roots[0].1.join("plimsoll"), "the program for amd64").unwrap();
        fs::set_permissions(&roots[0].1, fs::Permissions::from_mode(0o775)).unwrap();
    }
    assert!(fs::read(&first).unwrap() == fs::read(&second).unwrap(), "the same folders, other bytes");
    let layout = folder.path().join("layout");
    fs::create_dir(&layout).unwrap();
    said("tar", &["--extract", "--file", first.to_str().unwrap(), "--directory", layout.to_str().unwrap()]);
    assert_eq!(json(&layout.join("oci-layout"))["imageLayoutVersion"], "1.0.0");
    let named = &json(&layout.join("index.json"))["manifests"][0];
    assert_eq!(named["annotations"]["io.containerd.image.name"], "localhost/plimsoll:7");
    assert_eq!(named["annotations"]["org.opencontainers.image.ref.name"], "7");
    let index = json(&blob(&layout, named));
    let manifests = index["manifests"].as_array().unwrap();
    assert_eq!(manifests.len(), 2);
    for (reference, (arch, _)) in manifests.iter().zip(&roots) {
        assert_eq!(
            (&reference["platform"]["architecture"], &reference["platform"]["os"]),
            (&(*arch).into(), &"linux".into())
        );
        let manifest = json(&blob(&layout, reference));
        let config = json(&blob(&layout, &manifest["config"]));
        assert_eq!((&config["architecture"], &config["os"]), (&(*arch).into(), &"linux".into()));
        assert_eq!(config["config"]["User"], "65532:65532");
        assert_eq!(config["config"]["Entrypoint"], serde_json::json!(["/plimsoll"]));
        let layer = blob(&layout, &manifest["layers"][0]);
        let layer = layer.to_str().unwrap();
        let sum = said("sh", &["-c", "gzip -dc \"$0\" | sha256sum", layer]);
        assert_eq!(config["rootfs"]["diff_ids"][0], format!("sha256:{}", sum.split(' ').next().unwrap()));
        let listed = said("tar", &["--list", "--verbose", "--numeric-owner", "--gzip", "--file", layer]);
        let program = listed.lines().find(|line| line.ends_with("./plimsoll")).unwrap();
        assert!(program.starts_with("-rwxr-xr-x 0/0") && program.contains("1970-01-01"), "{program}");
        let text = said("tar", &["--extract", "--to-stdout", "--gzip", "--file", layer, "./plimsoll"]);
        assert_eq!(text, format!("the program for {arch}"));
    }
}

#[test]
fn what_is_no_folder_of_an_architecture_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out.tar");
    let packed = pack(&out, &[("amd64", folder.path().join("missing"))]);
    assert_eq!(packed.status.code(), Some(2));
    let said = String::from_utf8(packed.stderr).unwrap();
    assert!(said.contains("expected ARCH=FOLDER such as amd64=target/image/amd64, got 'amd64="), "{said}");
    assert!(!out.exists());
}
