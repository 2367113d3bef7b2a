//! Archives of the program and what belongs to it. The same files give the same bytes.

use super::target::{WINDOWS, file_name};
use crate::command::root;
use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const DOCUMENTS: [&str; 4] = ["LICENSE-APACHE", "LICENSE-MIT", "README.md", "CHANGELOG.md"];
const SHELLS: [(&str, &str); 4] = [
    ("bash", "strata.bash"),
    ("zsh", "_strata"),
    ("fish", "strata.fish"),
    ("powershell", "_strata.ps1"),
];

/// Writes `NAME.tar.gz`, with one folder of that name in it. `here` is a program that runs on this machine.
pub(super) fn write(
    (target, name): (&str, &str),
    program: &Path,
    here: &Path,
    out: &Path,
) -> Result<PathBuf> {
    let parent = out.with_extension("tree");
    let folder = parent.join(name);
    if folder.exists() {
        std::fs::remove_dir_all(&folder)?;
    }
    std::fs::create_dir_all(folder.join("completions"))?;
    std::fs::copy(program, folder.join(file_name(target)))
        .with_context(|| format!("cannot copy {}", program.display()))?;
    for document in DOCUMENTS {
        std::fs::copy(root().join(document), folder.join(document))?;
    }
    for unit in ["strata.service", "strata.socket"] {
        if target != WINDOWS {
            std::fs::copy(root().join("deploy").join(unit), folder.join(unit))?;
        }
    }
    for (shell, file) in SHELLS {
        let output = Command::new(here).args(["completions", shell]).output()?;
        ensure!(output.status.success(), "no completions for {shell}");
        std::fs::write(folder.join("completions").join(file), output.stdout)?;
    }
    let status = Command::new(here)
        .arg("man")
        .arg(folder.join("man/man1"))
        .status()?;
    ensure!(status.success(), "no manual pages");
    let path = out.join(format!("{name}.tar.gz"));
    pack(&parent, name, &path)?;
    Ok(path)
}

/// Packs a folder with names in order, one owner and one time, so that nothing of this machine gets in.
fn pack(parent: &Path, name: &str, path: &Path) -> Result<()> {
    let mut tar = Command::new("tar")
        .args([
            "--sort=name",
            "--mtime=@946684800",
            "--owner=0",
            "--group=0",
        ])
        .args(["--numeric-owner", "--mode=u+rw,go+r,go-w,a+X", "-cf", "-"])
        .args(["-C".as_ref(), parent.as_os_str()])
        .arg(name)
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot start tar")?;
    let bytes = tar.stdout.take().context("tar has no output")?;
    let status = Command::new("gzip")
        .args(["-9n"])
        .stdin(bytes)
        .stdout(std::fs::File::create(path)?)
        .status()
        .context("cannot start gzip")?;
    ensure!(tar.wait()?.success() && status.success(), "tar failed");
    Ok(())
}

/// A file's digest.
pub(super) fn sha256(path: &Path) -> Result<String> {
    let output = Command::new("sha256sum").arg(path).output()?;
    ensure!(output.status.success(), "cannot read {}", path.display());
    let text = String::from_utf8(output.stdout)?;
    // A name with odd characters is escaped, and announced by a backslash.
    let digest = text.trim_start_matches('\\').get(..64);
    Ok(digest.context("sha256sum says something else")?.into())
}
