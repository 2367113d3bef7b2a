//! `cargo xtask test-boot --all`: the same text from every kind of machine: machine and firmware, processors, memory, model of
//! the processor.

use super::guest::{Boot, done, expect, firmware, scratch};
use super::images::{prompt_options, uefi};
use crate::command::root;
use crate::unikernel::Built;
use anyhow::{Context, Result, bail};
use std::time::Instant;

/// How a machine starts the program.
const STARTS: [&str; 3] = ["microvm", "q35", "uefi"];
const PROCESSORS: [usize; 4] = [1, 2, 3, 4];
const MEMORY: [&str; 3] = ["128M", "1G", "4G"];
/// Firmware needs some for itself.
const MEMORY_OF_FIRMWARE: [&str; 3] = ["256M", "1G", "4G"];
/// Without AVX, with AVX, with AVX2 by Intel and by AMD, and all that emulation has.
const MODELS: [&str; 5] = ["Nehalem", "SandyBridge", "Haswell", "EPYC", "max"];

/// Boots all whose name has some words. Those that fail are told together at the end.
pub(super) fn run(tale: &Built, expected: &str, only: &str) -> Result<()> {
    let disk = scratch("matrix.img");
    let settings = scratch("matrix.toml");
    let prompt = format!(
        "prompt = \"{}\"\nn = {}\ntemp = 0\n",
        super::PROMPT,
        super::TOKENS
    );
    std::fs::write(&settings, prompt)?;
    let model = root().join("models/tale/tale-q4_k_m.gguf");
    super::images::write(&scratch("kernel.elf"), &model, &disk, &settings)?;
    let disk = format!(
        "if=none,id=d,format=raw,snapshot=on,file={}",
        disk.display()
    );
    let options = prompt_options();
    let (begin, mut count, mut failed) = (Instant::now(), 0, Vec::new());
    for start in STARTS {
        let sizes = if start == "uefi" {
            MEMORY_OF_FIRMWARE
        } else {
            MEMORY
        };
        for (processors, memory) in PROCESSORS.iter().flat_map(|n| sizes.map(|size| (*n, size))) {
            for model in MODELS {
                let name = format!("{start}, {processors} × {model}, {memory}");
                if !name.contains(only) {
                    continue;
                }
                let boot = match start {
                    "uefi" => {
                        let code = firmware()?.context("there is no firmware")?;
                        let boot = uefi(&name, code).with(&["-drive", &disk]);
                        boot.with(&["-device", "nvme,drive=d,serial=1"])
                    }
                    machine => Boot {
                        machine,
                        ..Boot::default()
                    },
                };
                let boot = Boot {
                    name: &name,
                    memory,
                    processors,
                    model,
                    options: &options,
                    ..boot
                };
                let answered = answers(boot, tale, start, processors, expected);
                count += 1;
                if let Err(error) = answered {
                    eprintln!("  boot: {name}: {error:#}");
                    failed.push(name);
                }
            }
        }
    }
    done(
        &format!("{} of {count} machines", count - failed.len()),
        begin,
    );
    if !failed.is_empty() {
        bail!("these do not give the same text: {}", failed.join("; "));
    }
    Ok(())
}

fn answers(
    boot: Boot<'_>,
    tale: &Built,
    start: &str,
    processors: usize,
    expected: &str,
) -> Result<()> {
    let said = if start == "uefi" {
        // An image cannot be told to end QEMU, and so it is turned off.
        boot.finish(None)?.0
    } else {
        boot.run(Some(&tale.elf))?
    };
    expect(&said, &format!("processors {processors},"))?;
    expect(&said, expected)
}
