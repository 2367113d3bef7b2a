//! WebAssembly, built here, for one thread and for many, and run under Node and in Chromium.

use super::super::expected::{Expected, Extent, said};
use super::super::package::{Build, copy, fresh};
use super::super::readme;
use super::scripts::node_package;
use super::{cannot_install, missing};
use crate::command::{answers, cargo, debian_install, root, run as execute, target};
use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const TALE: &str = "models/tale/tale-q4_k_m.gguf";
/// Models that together have most types of weights, and layers of each kind.
const MODELS: [(&str, &str); 12] = [
    ("tiny", "q4_0"),
    ("tiny", "q4_1"),
    ("tiny", "q5_0"),
    ("tiny", "q5_1"),
    ("tiny", "q8_0"),
    ("tiny", "q2_k"),
    ("tiny", "q3_k_m"),
    ("tiny", "q5_k_m"),
    ("tiny", "f16"),
    ("tiny-lfm2", "q4_k_m"),
    ("tiny-moe", "q6_k"),
    ("tiny-hybrid", "bf16"),
];
const TARGET: &str = "wasm32-unknown-unknown";
/// Debian's compiler for browsers' builds knows the target, and comes with the sources of what rustup would bring built.
const DEBIAN: [&str; 2] = ["rustc-web", "rust-web-src"];
const DEBIAN_COMPILER: &str = "/usr/bin/rustc";

pub(super) fn wasm(expected: &Expected) -> Result<Option<Vec<String>>> {
    if let Err(error) = install() {
        return missing("the compiler for WebAssembly", error);
    }
    let (place, source) = (fresh("wasm")?, root().join("bindings/wasm"));
    for part in ["js", "page", "test"] {
        copy(&source.join(part), &place.join(part))?;
    }
    fs::copy(root().join(TALE), place.join("tale.gguf"))?;
    let node = |arguments: &[&str]| {
        let mut node = Command::new("node");
        node.current_dir(&place).args(arguments);
        node
    };
    let mut check = node(&["test/check.mjs", "strata.wasm", "tale.gguf"]);
    if expected.extent() == Extent::Quick {
        fs::copy(build(Module::Alone, QUICK)?, place.join("strata.wasm"))?;
        return expected.features(&mut check).map(Some);
    }
    fs::copy(build(Module::Alone, RELEASE)?, place.join("strata.wasm"))?;
    let threaded = build(Module::Threaded, RELEASE)?;
    fs::copy(threaded, place.join("strata-threads.wasm"))?;
    let features = expected.features(check.arg("strata-threads.wasm"))?;
    native(
        expected,
        &place,
        &mut node(&["test/native.mjs", "strata.wasm", "native"]),
    )?;
    page(expected, &place, &node)?;
    Ok(Some(features))
}

/// Compares with the native engine: the built-in model, and models with random weights of many types.
fn native(expected: &Expected, place: &Path, node: &mut Command) -> Result<()> {
    node_package(&place.join("native"), Build::Test)?;
    node.arg(root().join(TALE));
    for (shape, mix) in MODELS {
        let file = place.join(format!("{shape}-{mix}.gguf"));
        let mut synth = Command::new(target().join("debug/strata"));
        synth.arg("synth").arg(&file);
        said(synth.args(["--shape", shape, "--mix", mix]))?;
        node.arg(file);
    }
    let seen = expected.features(node)?;
    ensure!(
        seen == ["native"],
        "WebAssembly beside the native engine: {seen:?}"
    );
    Ok(())
}

/// The page in one file, in a browser, with no server.
fn page(expected: &Expected, place: &Path, node: &dyn Fn(&[&str]) -> Command) -> Result<()> {
    let packed = said(&mut node(&["page/pack.mjs", "strata.wasm", "tale.gguf"]))?;
    fs::write(place.join("tale.html"), packed)?;
    let browser = std::env::var("CHROMIUM").unwrap_or_else(|_| "chromium".into());
    if !answers(Command::new(&browser).arg("--version"))
        && cannot_install("the page in a browser", &["chromium"])
    {
        return Ok(());
    }
    // The README's example, with its files beside it.
    let beside = place.join("beside");
    copy(&place.join("js"), &beside)?;
    for name in ["strata.wasm", "strata-threads.wasm", "tale.gguf"] {
        fs::copy(place.join(name), beside.join(name))?;
    }
    let example = readme::start("wasm", "js")?;
    let page = format!("<!doctype html><body><script type=\"module\">\n{example}</script>\n");
    fs::write(beside.join("start.html"), page)?;
    let seen = expected.features(&mut node(&["test/browser.mjs", "tale.html", "beside"]))?;
    ensure!(seen == ["browser"], "the page in a browser: {seen:?}");
    Ok(())
}

/// The ordinary module: 128-bit vectors, a stack for compiling grammars, and the host's clock, which is not there yet when
/// the library for grammars is linked alone.
const VECTORS: &str = "-Ctarget-feature=+simd128 -Clink-arg=-zstack-size=8388608 \
                       -Clink-arg=--import-undefined";
/// The module for threads: memory that its instances share, which the host makes, and stacks that it gives each.
const THREADS: &str = "-Ctarget-feature=+simd128,+atomics,+bulk-memory,+mutable-globals \
                       -Clink-arg=--shared-memory -Clink-arg=--import-memory \
                       -Clink-arg=-zstack-size=8388608 \
                       -Clink-arg=--import-undefined -Clink-arg=--initial-memory=67108864 -Clink-arg=--max-memory=4294967296 \
                       -Clink-arg=--export=__stack_pointer";

/// A module: for one thread, or for many.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Module {
    Alone,
    Threaded,
}

/// Profiles of `bindings/wasm/Cargo.toml`: what users get, and what is built in a quarter of the time.
const RELEASE: &str = "release";
const QUICK: &str = "quick";

/// Whether the compiler that comes with rustup cannot build it: the libraries that come with compilers are not made for shared
/// memory.
fn needs_debian(module: Module) -> bool {
    module == Module::Threaded || !has_target()
}

/// Installs the compiler where it is missing.
pub(super) fn install() -> Result<()> {
    if !Path::new(DEBIAN_COMPILER).exists() {
        debian_install(&DEBIAN)?;
    }
    Ok(())
}

/// Builds a module; says where it is.
fn build(module: Module, profile: &str) -> Result<PathBuf> {
    let (flags, folder) = match module {
        Module::Alone => (VECTORS, "wasm"),
        Module::Threaded => (THREADS, "wasm-threads"),
    };
    let output = target().join(folder);
    let mut build = cargo("build --quiet --manifest-path bindings/wasm/Cargo.toml");
    build
        .args(["--profile", profile, "--target", TARGET, "--target-dir"])
        .arg(&output);
    build.env("CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_RUSTFLAGS", flags);
    if needs_debian(module) {
        build.arg("-Zbuild-std=std,panic_abort");
        build.env("RUSTC", DEBIAN_COMPILER);
        build.env("RUSTC_BOOTSTRAP", "1");
        build.env("CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER", linker()?);
    }
    execute(&mut build)?;
    let built = format!("{TARGET}/{profile}/strata_wasm.wasm");
    Ok(output.join(built))
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
