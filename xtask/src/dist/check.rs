//! Archives, tried as a user would: in an empty folder, without a Rust toolchain or a source tree in sight.

use crate::command::root;
use crate::test_boot;
use crate::wine::Wine;
use anyhow::{Result, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;

const PROMPT: &str = "Once upon a time";
const TOKENS: &str = "12";

/// Unpacks an archive, asks its program for a text, lets it write bootable images, and boots one.
pub(super) fn archive(path: &Path, name: &str) -> Result<()> {
    let folder = empty("unpacked")?;
    let mut tar = Command::new("tar");
    let status = tar.arg("-xzf").arg(path).arg("-C").arg(&folder).status()?;
    ensure!(status.success(), "{} cannot be unpacked", path.display());
    let program = folder.join(name).join("strata");
    for file in [
        "man/man1/strata-run.1",
        "completions/_strata",
        "LICENSE-MIT",
    ] {
        let file = folder.join(name).join(file);
        ensure!(file.is_file(), "there is no {}", file.display());
    }
    let work = empty("work")?;
    let say = |words: &[&str]| -> Result<String> {
        let output = Command::new(&program)
            .args(words)
            .env_clear()
            .env("HOME", &work)
            .current_dir(&work)
            .output()?;
        let error = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{name}: {words:?}: {error}");
        Ok(String::from_utf8(output.stdout)?)
    };
    let expected = say(&["run", "tale", "--raw", "--temp", "0", "-n", TOKENS, PROMPT])?;
    let settings = format!("prompt = \"{PROMPT}\"\nn = {TOKENS}\ntemp = 0\n");
    std::fs::write(work.join("settings"), settings)?;
    for image in ["x.img", "x.elf"] {
        let flags = ["--config", "settings", "--insecure-no-auth"];
        say(&[&["image", "tale", "-o", image], &flags[..]].concat())?;
    }
    test_boot::answers_at_boot(&work.join("x.elf"), expected.trim_end())?;
    test_boot::answers_at_boot(&work.join("x.img"), expected.trim_end())
}

/// Unpacks an archive for Windows and asks its program under Wine for a text, which must be the one of a program `here`.
pub(super) fn windows(path: &Path, name: &str, here: &Path) -> Result<()> {
    let wine = Wine::install()?;
    let folder = empty("windows")?;
    let mut tar = Command::new("tar");
    let status = tar.arg("-xzf").arg(path).arg("-C").arg(&folder).status()?;
    ensure!(status.success(), "{} cannot be unpacked", path.display());
    let folder = folder.join(name);
    let words = ["run", "tale", "--raw", "--temp", "0", "-n", TOKENS, PROMPT];
    let expected = Command::new(here).args(words).output()?;
    let output = wine
        .command(folder.join("strata.exe"))
        .args(words)
        .current_dir(&folder)
        .output()?;
    let error = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{name} under Wine: {error}");
    let plain = |bytes: &[u8]| String::from_utf8_lossy(bytes).replace('\r', "");
    let (said, expected) = (plain(&output.stdout), plain(&expected.stdout));
    ensure!(
        said == expected,
        "{name} under Wine says {said:?}, not {expected:?}"
    );
    eprintln!("  windows: {name} says under Wine what the program says here");
    Ok(())
}

/// A folder of this test's own, outside of the repository.
pub(super) fn empty(name: &str) -> Result<PathBuf> {
    let folder = std::env::temp_dir().join(format!("strata-dist-{}-{name}", std::process::id()));
    ensure!(
        !folder.starts_with(root()),
        "the temporary folder is in the repository"
    );
    if folder.exists() {
        std::fs::remove_dir_all(&folder)?;
    }
    std::fs::create_dir_all(&folder)?;
    Ok(folder)
}
