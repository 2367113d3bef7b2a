//! `cargo xtask sanitize`: the tests of the crates with `unsafe` code under AddressSanitizer, which the stable compiler
//! has too, behind a switch.

use crate::command::{cargo, root, run, target};
use anyhow::{Context, Result};
use std::fs;
use std::path::Path;

/// Crates whose unsafe code runs on any machine. Their tests are run with the features that have it.
const COVERED: [&str; 4] = ["platform", "host", "kernels", "unikernel"];
const HOST: &str = "x86_64-unknown-linux-gnu";

pub(crate) fn command(arguments: &[String]) -> Result<()> {
    let chosen: Vec<&str> = match arguments {
        [] => COVERED.to_vec(),
        names => names.iter().map(String::as_str).collect(),
    };
    let mut tests = cargo("test --profile test --no-fail-fast");
    for name in &chosen {
        tests.args(["--package", &format!("strata-{name}")]);
    }
    // Without documentation's examples, which cargo builds without the flags, and without the test of the host that limits
    // its own address space, of which the sanitizer needs terabytes.
    tests.args(["--lib", "--target", HOST]);
    if chosen.contains(&"kernels") {
        tests.args(["--test", "kernels"]);
    }
    tests.arg("--target-dir").arg(target().join("sanitize"));
    tests.env("RUSTC_BOOTSTRAP", "1");
    tests.env(
        "RUSTFLAGS",
        "-Zsanitizer=address -Cforce-frame-pointers=yes",
    );
    // A model's pages may be asked for and refused; that is an answer, not a fault.
    let options =
        "detect_stack_use_after_return=1:strict_string_checks=1:allocator_may_return_null=1";
    tests.env("ASAN_OPTIONS", options);
    run(&mut tests)?;
    report(&chosen)
}

/// Says which modules with `unsafe` code were run so, and what such a run cannot see.
fn report(chosen: &[&str]) -> Result<()> {
    let (mut covered, mut others) = (Vec::new(), Vec::new());
    for module in unsafe_modules(&root().join("crates"))? {
        let runs = chosen
            .iter()
            .any(|name| module.starts_with(&format!("crates/{name}/src/")));
        let elsewhere = module.contains("/aarch64/") || module.contains("/machine/");
        if runs && !elsewhere {
            covered.push(module);
        } else {
            others.push(module);
        }
    }
    println!(
        "\nmodules with unsafe code whose tests ran:\n  {}",
        covered.join("\n  ")
    );
    println!("\nnot covered:\n  {}", others.join("\n  "));
    println!(
        "\nKernels run for the instruction sets that this machine has. Modules of the bare machine run only there\n\
         (`cargo xtask test-boot`), those of AArch64 only emulated (`cargo xtask test-aarch64`), those of GPUs only there\n\
         (`cargo xtask test-gpu`) or in an emulation that switches stacks. AddressSanitizer sees\n\
         accesses outside of what is allocated and after it was freed. It does not see broken aliasing rules, races, or\n\
         memory that is read before it is written: that takes Miri, which a stable toolchain does not have."
    );
    Ok(())
}

/// The files that may have unsafe code, which their first lines say.
fn unsafe_modules(folder: &Path) -> Result<Vec<String>> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|ending| ending == "rs")
                && fs::read_to_string(&path)?.contains("allow(unsafe_code")
            {
                let inside = path.strip_prefix(root()).unwrap_or(&path);
                found.push(inside.display().to_string());
            }
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crates_with_unsafe_code_are_covered_or_known() {
        let modules = unsafe_modules(&root().join("crates")).unwrap();
        let known = |module: &&String| {
            let covered = COVERED
                .iter()
                .any(|name| module.starts_with(&format!("crates/{name}/")));
            // Allocators that count, for tests and the fuzzer, and one of the program's that gives memory back.
            let counts = module.contains("/tests/") || module.contains("/examples/");
            // Calls of a GPU's driver, or of an emulation whose fibers the sanitizer takes for one stack.
            let gpu = ["crates/cuda/", "crates/gpu/", "crates/vulkan/"]
                .iter()
                .any(|folder| module.starts_with(folder));
            covered
                || counts
                || gpu
                || matches!(
                    module.as_str(),
                    "crates/cli/src/memory.rs" | "crates/fuzz/src/meter.rs"
                )
        };
        let unknown: Vec<&String> = modules.iter().filter(|module| !known(module)).collect();
        assert!(unknown.is_empty(), "{unknown:?}");
        assert!(modules.len() > COVERED.len());
    }
}
