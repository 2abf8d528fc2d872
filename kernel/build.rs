//! Builds what is embedded in the library: the guest agent, as a static program, and what is loaded into a kernel.
//!
//! The agent has a build of its own, with a target directory of its own: it needs other flags than the
//! rest of the workspace (no shared libraries in an initramfs), whatever the outer build uses.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

const TARGET: &str = "x86_64-unknown-linux-gnu";
const PROGRAM: &str = "warikomi-guest";

/// What the outer cargo sets for its own build and the inner one must not see.
const OUTER: [&str; 9] = [
    "CARGO_BUILD_TARGET",
    "CARGO_BUILD_RUSTFLAGS",
    "CARGO_TARGET_DIR",
    "RUSTC",
    "RUSTC_WRAPPER",
    "RUSTC_WORKSPACE_WRAPPER",
    "RUSTDOC",
    "RUSTFLAGS",
    "TARGET",
];

fn main() {
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let kernel = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets this"));
    let workspace = kernel.parent().expect("the crate is in a workspace");
    let guest = workspace.join("guest");
    for source in [&guest, &workspace.join("crates/protocol")] {
        println!("cargo:rerun-if-changed={}", source.join("src").display());
        println!("cargo:rerun-if-changed={}", source.join("Cargo.toml").display());
    }
    println!("cargo:rerun-if-changed={}", workspace.join("Cargo.lock").display());
    println!("cargo:rerun-if-changed=build.rs");
    // Next to the directories of the profiles, which would all make the same of it: each takes it from there.
    let shared = out.ancestors().nth(4).expect("OUT_DIR is target/PROFILE/build/NAME/out");
    let program = build(&guest, workspace, &shared.join("guest"));
    fs::copy(&program, out.join(PROGRAM))
        .unwrap_or_else(|error| panic!("cannot copy {}: {error}", program.display()));
    link_preload(&kernel.join("preload"), &out.join("preload.so"));
}

/// Makes the shared library of `preload`, by the program with which rustc links.
fn link_preload(sources: &Path, library: &Path) {
    println!("cargo:rerun-if-changed={}", sources.display());
    let mut link = Command::new(env::var_os("CC").unwrap_or_else(|| "cc".into()));
    link.args(["-O2", "-Wall", "-Werror", "-shared", "-fPIC", "-o"]).arg(library);
    link.args(["memory.c", "seeded.c", "xstate.c"].map(|source| sources.join(source)));
    let output = link.output().expect("the C compiler, with which rustc links, can be run");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{} does not compile:\n{errors}", sources.display());
}

fn build(guest: &Path, workspace: &Path, target_dir: &Path) -> PathBuf {
    let mut cargo = Command::new(env::var_os("CARGO").expect("cargo sets CARGO"));
    for name in OUTER {
        cargo.env_remove(name);
    }
    cargo
        .args(["build", "--release", "--target", TARGET, "--bin", PROGRAM])
        .arg("--manifest-path")
        .arg(guest.join("Cargo.toml"))
        .arg("--target-dir")
        .arg(target_dir)
        .env("CARGO_ENCODED_RUSTFLAGS", "-Ctarget-feature=+crt-static")
        .env("CARGO_PROFILE_RELEASE_STRIP", "true")
        .env("CARGO_PROFILE_RELEASE_DEBUG", "false")
        // The agent's loops are its own code; not optimising its libraries makes the build shorter.
        .args(["--config", "profile.release.package.'*'.opt-level=0"]);
    if workspace.join("Cargo.lock").exists() {
        cargo.arg("--locked");
    }
    let output = cargo.output().expect("cargo can be run");
    assert!(
        output.status.success(),
        "the guest agent does not build as a static program for {TARGET} (it needs that target and \
         libc's static library, Debian package libc6-dev):\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    target_dir.join(TARGET).join("release").join(PROGRAM)
}
