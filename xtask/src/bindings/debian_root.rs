//! Toolchains that only other distributions of Debian have, each in a folder with all that it needs, down to the C library.

use super::folder;
use crate::command::{answers, run as execute};
use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A folder that is the root of a small system.
pub(super) struct Root(PathBuf);

/// A file that says that everything is unpacked.
const STAMP: &str = "unpacked";

impl Root {
    /// Fetches packages with all that they depend on, from the mirror that apt is set to, and unpacks them. Nothing of this
    /// system is changed.
    pub(super) fn install(name: &str, suite: &str, packages: &[&str]) -> Result<Self> {
        let place = folder().join("toolchains").join(name);
        let root = place.join("root");
        if place.join(STAMP).exists() {
            return Ok(Self(root));
        }
        for part in [
            "lists/partial",
            "archives/partial",
            "root/home",
            "root/tmp",
            "root/proc",
        ] {
            fs::create_dir_all(place.join(part))?;
        }
        let source = format!("deb {} {suite} main\n", mirror()?);
        fs::write(place.join("sources.list"), source)?;
        fs::write(place.join("status"), "")?;
        let apt = |arguments: &[&str]| {
            let mut apt = Command::new("apt-get");
            apt.args(["-qq", "-y", "--no-install-recommends"]);
            for (setting, value) in [
                ("Dir::State::lists", "lists"),
                ("Dir::State::status", "status"),
                ("Dir::Cache::archives", "archives"),
                ("Dir::Etc::sourcelist", "sources.list"),
            ] {
                apt.arg("-o")
                    .arg(format!("{setting}={}", place.join(value).display()));
            }
            let own = [
                "Dir::Etc::sourceparts=-",
                "Dir::Cache::pkgcache=",
                "Dir::Cache::srcpkgcache=",
            ];
            apt.args(own.iter().flat_map(|setting| ["-o", setting]));
            execute(apt.args(arguments))
        };
        apt(&["update"])?;
        apt(&[&["install", "--download-only"], packages].concat())?;
        for entry in fs::read_dir(place.join("archives"))? {
            let path = entry?.path();
            if path.extension().is_some_and(|end| end == "deb") {
                execute(Command::new("dpkg-deb").arg("-x").arg(&path).arg(&root))?;
                fs::remove_file(path)?;
            }
        }
        for name in ["lib", "lib64", "bin"] {
            if !root.join(name).exists() {
                std::os::unix::fs::symlink(format!("usr/{name}"), root.join(name))?;
            }
        }
        fs::write(place.join(STAMP), packages.join("\n"))?;
        Ok(Self(root))
    }

    /// A folder in the system that programs see as `/home/NAME`, empty.
    pub(super) fn fresh(&self, name: &str) -> Result<PathBuf> {
        let place = self.0.join("home").join(name);
        if place.exists() {
            fs::remove_dir_all(&place)?;
        }
        fs::create_dir_all(&place)?;
        Ok(place)
    }

    /// A program of the system, started in `/home/NAME`.
    pub(super) fn command(&self, name: &str, program: &str) -> Command {
        let mut command = Command::new("unshare");
        command.args(["--mount", "--pid", "--fork", "--mount-proc"]);
        if !answers(Command::new("sh").args(["-c", "test $(id -u) = 0"])) {
            command.arg("--map-root-user");
        }
        command.arg(format!("--root={}", self.0.display()));
        command.arg(format!("--wd=/home/{name}")).arg(program);
        // Folders of this system are none of that one.
        command.env("HOME", "/tmp").env_remove("TMPDIR");
        command
    }

    /// Where it is.
    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

/// Where this system's packages come from.
fn mirror() -> Result<String> {
    let mut apt = Command::new("apt-get");
    apt.args([
        "indextargets",
        "--format",
        "$(REPO_URI)",
        "Created-By: Packages",
    ]);
    let found = apt.output().context("there is no apt-get")?;
    ensure!(found.status.success(), "apt has no sources");
    let found = String::from_utf8_lossy(&found.stdout).into_owned();
    let main = found.lines().find(|line| !line.contains("security"));
    Ok(main.context("apt has no sources")?.to_owned())
}
