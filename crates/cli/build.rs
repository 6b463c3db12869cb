//! Has the linker pack the program's relative relocations: unpacked they are a megabyte that is read, and so resident, at
//! each start. Linkers that cannot do it say so and go on; the program then needs glibc 2.36 where it was packed.

#![allow(clippy::print_stdout, reason = "how a build script speaks to cargo")]

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let is = |name, value: &str| std::env::var(name).is_ok_and(|is| is == value);
    if is("CARGO_CFG_TARGET_OS", "linux") && is("CARGO_CFG_TARGET_ENV", "gnu") {
        println!("cargo:rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
}
