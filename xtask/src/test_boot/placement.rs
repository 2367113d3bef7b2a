//! Where the program appears: elsewhere in each run, and what it then says of itself.

use super::guest::{Boot, done, expect, scratch};
use crate::command::answers;
use crate::unikernel::TARGET;
use anyhow::{Context, Result, ensure};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// Above all memory and all files.
const LOWEST: u64 = 0x6000_0000_0000;
/// Two programs of this size that do not touch each other.
const APART: u64 = 1 << 23;

/// The machine without an engine, twice, and without random numbers.
pub(super) fn drawn(kernel: &Path) -> Result<()> {
    let begin = Instant::now();
    let place = |model: &str, devices: &[&str]| {
        let boot = Boot {
            name: &format!("where the program appears, {model}"),
            machine: "microvm",
            model,
            options: "then=exit check=place",
            ..Boot::default()
        };
        let said = boot.with(devices).run(Some(kernel))?;
        let word = said.split_once("the program appears at 0x");
        let (_, rest) = word.context("the machine does not say where its program is")?;
        let digits = rest.split_whitespace().next().unwrap_or_default();
        anyhow::Ok((u64::from_str_radix(digits, 16)?, said))
    };
    let ((first, said), (second, _)) = (place("max", &[])?, place("max", &[])?);
    apart(first, second)?;
    ensure!(!said.contains("can be foreseen"), "{said}");
    // A device gives random numbers too late.
    for devices in [&[][..], &["-device", "virtio-rng-device"]] {
        let (fixed, said) = place("max,-rdrand,-rdseed", devices)?;
        ensure!(
            fixed == 0x20_0000,
            "without a source it appears at {fixed:#x}"
        );
        expect(&said, "the program's addresses can be foreseen: neither")?;
    }
    done("the program appears where nobody can foresee", begin);
    Ok(())
}

/// The callers that a crash names are found in the program's file, wherever it ran.
pub(super) fn resolved(said: &str, source: &str) -> Result<()> {
    if !answers(Command::new("addr2line").arg("--version")) {
        eprintln!("\nskipped: the names of callers, because there is no addr2line");
        return Ok(());
    }
    let linked = scratch(TARGET).join("release/strata-boot");
    let callers = said.lines().filter_map(|line| {
        let (_, address) = line.split_once("called from ")?;
        Some(address.trim())
    });
    let output = Command::new("addr2line")
        .arg("-e")
        .arg(&linked)
        .args(callers)
        .output()?;
    let found = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure!(
        found.contains(source),
        "no caller is in {source}:\n{found}\n{said}"
    );
    Ok(())
}

/// The monitor of a guest.
pub(super) struct Monitor(PathBuf);

impl Monitor {
    /// One that QEMU will have.
    pub(super) fn new(name: &str) -> Self {
        Self(scratch(name).with_extension("monitor"))
    }

    /// QEMU's arguments for it.
    pub(super) fn arguments(&self) -> [String; 2] {
        let path = std::path::absolute(&self.0).unwrap_or_else(|_| self.0.clone());
        let socket = format!("unix:{},server=on,wait=off", path.display());
        ["-monitor".into(), socket]
    }

    /// Where the guest's first processor is in its program.
    pub(super) fn program_counter(&self) -> Result<u64> {
        let mut stream = UnixStream::connect(&self.0).context("QEMU has no monitor")?;
        stream.set_read_timeout(Some(Duration::from_secs(60)))?;
        stream.write_all(b"info registers\n")?;
        let mut said = String::new();
        loop {
            if let Some((digits, _)) = said
                .split_once("RIP=")
                .and_then(|(_, rest)| rest.split_once(' '))
            {
                return Ok(u64::from_str_radix(digits, 16)?);
            }
            let mut bytes = [0; 4096];
            let len = stream.read(&mut bytes)?;
            ensure!(len > 0, "QEMU's monitor said {said}");
            said += &String::from_utf8_lossy(&bytes[..len]);
        }
    }
}

impl Drop for Monitor {
    fn drop(&mut self) {
        // QEMU may have taken it away, or never made it.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Two runs were at different addresses.
pub(super) fn apart(first: u64, second: u64) -> Result<()> {
    ensure!(
        first.min(second) >= LOWEST && first.abs_diff(second) >= APART,
        "two runs were at {first:#x} and {second:#x}"
    );
    Ok(())
}
