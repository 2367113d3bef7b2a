//! Programs that firmware with Secure Boot starts, and those that it does not. OpenSSL makes the keys, virt-firmware enrolls
//! them, sbsigntool and OVMF check the signatures.

use super::guest::{Boot, TIMEOUT, done, install, scratch};
use crate::command::{answers, run as execute, strata_for_checks};
use crate::python::Python;
use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

const CODE: &str = "/usr/share/OVMF/OVMF_CODE_4M.secboot.fd";
const VARIABLES: &str = "/usr/share/OVMF/OVMF_VARS_4M.fd";
const PACKAGES: &[&str] = &["virt-firmware==26.10"];
/// The owner of the keys, which may be anyone.
const OWNER: &str = "77fa9abd-0359-4d32-bd60-28f4e78f784b";
/// A text of the program, in which a bit is changed.
const TEXT: &[u8] = b"this machine does not start";

/// A signed image boots where its certificate is enrolled, and one with a changed bit does not.
pub(super) fn enrolled(kernel: &Path) -> Result<()> {
    let there = || Path::new(CODE).exists();
    let what = "Secure Boot";
    if !install(what, "ovmf", there)?
        || !install(what, "sbsigntool", || {
            answers(Command::new("sbverify").arg("--version"))
        })?
    {
        return Ok(());
    }
    let Some(python) = Python::install("firmware", PACKAGES, None, what)? else {
        return Ok(());
    };
    let keys = keys()?;
    let variables = enroll(&python, &keys.1)?;
    let image = |name: &str| write(kernel, &scratch(name), &keys);
    let program = image("secure.efi")?;
    execute(
        Command::new("sbverify")
            .arg("--cert")
            .arg(&keys.1)
            .arg(&program),
    )?;
    let disk = image("secure.img")?;
    boots(&disk, &variables, "Strata 0.", "a signed program")?;
    let mut changed = std::fs::read(&disk)?;
    let at = changed.windows(TEXT.len()).position(|part| part == TEXT);
    changed[at.context("the program has this text")?] ^= 1;
    let tampered = scratch("tampered.img");
    std::fs::write(&tampered, changed)?;
    boots(
        &tampered,
        &variables,
        "Access Denied",
        "a program with a changed bit is refused",
    )
}

fn keys() -> Result<(PathBuf, PathBuf)> {
    let (key, certificate) = (scratch("secure.key"), scratch("secure.crt"));
    let words = "req -x509 -newkey rsa:2048 -nodes -subj /CN=maker -days 3650 -keyout";
    execute(
        Command::new("openssl")
            .args(words.split(' '))
            .arg(&key)
            .arg("-out")
            .arg(&certificate),
    )?;
    Ok((key, certificate))
}

/// Firmware's variables, in which the certificate is the only one.
fn enroll(python: &Python, certificate: &Path) -> Result<PathBuf> {
    let variables = scratch("secure-vars.fd");
    let mut command = Command::new(python.folder().join("bin/virt-fw-vars"));
    command
        .args(["--input", VARIABLES, "--output"])
        .arg(&variables);
    for store in ["--set-pk", "--add-kek", "--add-db"] {
        command.args([store, OWNER]).arg(certificate);
    }
    execute(command.arg("--secure-boot"))?;
    Ok(variables)
}

fn write(kernel: &Path, path: &Path, (key, certificate): &(PathBuf, PathBuf)) -> Result<PathBuf> {
    execute(
        Command::new(strata_for_checks()?)
            .args(["image", "tale", "--sealed", "--insecure-no-auth", "--sign"])
            .arg(key)
            .arg("--cert")
            .arg(certificate)
            .arg("--kernel")
            .arg(kernel)
            .arg("--output")
            .arg(path),
    )?;
    Ok(path.into())
}

fn boots(disk: &Path, variables: &Path, sign: &str, name: &str) -> Result<()> {
    let begin = Instant::now();
    let own = scratch("secure-own.fd");
    std::fs::copy(variables, &own)?;
    let file = |unit: &str, path: &Path| {
        format!("if=pflash,format=raw,unit={unit},file={}", path.display())
    };
    let code = format!("{},readonly=on", file("0", Path::new(CODE)));
    let disk = format!(
        "if=none,id=d,format=raw,snapshot=on,file={}",
        disk.display()
    );
    let boot = Boot {
        name,
        machine: "q35,smm=on",
        memory: "256M",
        ..Boot::default()
    };
    let mut guest = boot
        .with(&["-global", "driver=cfi.pflash01,property=secure,value=on"])
        .with(&["-drive", &code, "-drive", &file("1", &own)])
        .with(&["-drive", &disk, "-device", "nvme,drive=d,serial=1"])
        .start(None, None)?;
    let heard = guest.hear(0, sign)?;
    ensure!(begin.elapsed() < TIMEOUT, "{name} took too long");
    ensure!(
        sign.starts_with("Strata") || !heard.contains("Strata"),
        "{name}: it runs:\n{heard}"
    );
    done(name, begin);
    Ok(())
}
