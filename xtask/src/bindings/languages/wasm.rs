//! WebAssembly, built here and run under Node.

use super::super::expected::Expected;
use super::super::folder;
use super::super::package::{copy, fresh};
use super::missing;
use crate::command::{answers, cargo, debian_install, root, run as execute, target};
use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const TARGET: &str = "wasm32-unknown-unknown";
/// Debian's compiler for browsers' builds knows the target, and comes with the sources of what rustup would bring built.
const DEBIAN: [&str; 2] = ["rustc-web", "rust-web-src"];
const DEBIAN_COMPILER: &str = "/usr/bin/rustc";

pub(super) fn wasm(expected: &Expected) -> Result<Option<Vec<String>>> {
    let module = match build() {
        Ok(module) => module,
        Err(error) => return missing("the compiler for WebAssembly", error),
    };
    let (place, source) = (fresh("wasm")?, root().join("bindings/wasm"));
    copy(&source.join("js"), &place.join("js"))?;
    copy(&source.join("test"), &place.join("test"))?;
    fs::copy(&module, place.join("strata.wasm"))?;
    let mut node = Command::new("node");
    node.current_dir(&place)
        .args(["test/check.mjs", "strata.wasm"])
        .arg(root().join("models/tale/tale-q4_k_m.gguf"));
    expected.features(&mut node).map(Some)
}

/// Builds the module; says where it is.
fn build() -> Result<PathBuf> {
    let output = target().join("wasm");
    let mut build = cargo("build --quiet --release --manifest-path bindings/wasm/Cargo.toml");
    build
        .args(["--target", TARGET, "--target-dir"])
        .arg(&output);
    build.env(
        "CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_RUSTFLAGS",
        "-Ctarget-feature=+simd128",
    );
    if !has_target() {
        if !Path::new(DEBIAN_COMPILER).exists() {
            debian_install(&DEBIAN)?;
        }
        build.arg("-Zbuild-std=core,alloc");
        build.env("RUSTC", DEBIAN_COMPILER);
        build.env("RUSTC_BOOTSTRAP", "1");
        build.env("CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER", linker()?);
    }
    execute(&mut build)?;
    fs::create_dir_all(folder())?;
    Ok(output.join(TARGET).join("release/strata_wasm.wasm"))
}

/// Whether the ordinary compiler has the target.
fn has_target() -> bool {
    let libraries = Command::new("rustc")
        .args(["--print", "target-libdir", "--target", TARGET])
        .output();
    libraries.is_ok_and(|found| {
        let folder = String::from_utf8_lossy(&found.stdout).trim().to_owned();
        found.status.success() && Path::new(&folder).is_dir()
    })
}

/// The linker of the ordinary compiler, which links for every target.
fn linker() -> Result<PathBuf> {
    let root = Command::new("rustc")
        .args(["--print", "sysroot"])
        .output()?;
    let root = PathBuf::from(String::from_utf8_lossy(&root.stdout).trim());
    let host = root.join("lib/rustlib");
    let found = fs::read_dir(&host)?.filter_map(Result::ok);
    let mut found = found.map(|entry| entry.path().join("bin/rust-lld"));
    found
        .find(|linker| answers(Command::new(linker).args(["-flavor", "wasm", "--version"])))
        .context("the compiler has no rust-lld")
}
