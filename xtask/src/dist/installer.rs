//! The script that installs: what is whole and signed by the key that is asked for, and nothing else.

use super::check::empty;
use super::{SUMS, files};
use crate::command::run as execute;
use anyhow::{Context, Result, ensure};
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What became of an installation.
struct Installed {
    succeeded: bool,
    program: PathBuf,
    said: String,
}

impl Installed {
    /// Installs from a folder into another that is empty.
    fn from(folder: &Path, key: Option<&Path>) -> Result<Self> {
        let prefix = empty("home")?.join(".local");
        let mut script = Command::new("sh");
        script.arg(folder.join("install.sh"));
        script
            .arg("--from")
            .arg(folder)
            .arg("--prefix")
            .arg(&prefix);
        if let Some(key) = key {
            script.arg("--key").arg(key);
        }
        let output = script.output().context("cannot start sh")?;
        Ok(Self {
            succeeded: output.status.success(),
            program: prefix.join("bin/strata"),
            said: String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned(),
        })
    }

    fn must_start(&self) -> Result<()> {
        ensure!(self.succeeded, "install.sh failed: {}", self.said);
        let output = Command::new(&self.program).arg("--version").output()?;
        let starts = output.status.success();
        ensure!(starts, "the installed program does not start");
        Ok(())
    }

    fn must_be_refused(&self, reason: &str) -> Result<()> {
        let refused = !self.succeeded && !self.program.exists() && self.said.contains(reason);
        ensure!(
            refused,
            "install.sh takes what it should not: {}",
            self.said
        );
        Ok(())
    }
}

/// Tries the script of a folder of archives, and with the private key that signed them also what it says of signatures.
pub(super) fn check(out: &Path, key: Option<&Path>) -> Result<()> {
    Installed::from(out, None)?.must_start()?;
    let damaged = changed(out, "damaged", |name, bytes| {
        if name.ends_with(".tar.gz") {
            let middle = bytes.len() / 2;
            bytes[middle] ^= 1;
        }
    })?;
    Installed::from(&damaged, None)?.must_be_refused("checksum")?;
    let Some(key) = key else {
        return Ok(());
    };
    let keys = empty("keys")?;
    let (other, public, stranger) = (keys.join("other"), keys.join("pub"), keys.join("other.pub"));
    let mut openssl = Command::new("openssl");
    execute(
        openssl
            .args(["genpkey", "-algorithm", "ed25519", "-out"])
            .arg(&other),
    )?;
    for (private, public) in [(key, &public), (&other, &stranger)] {
        let mut openssl = Command::new("openssl");
        openssl.args(["pkey", "-pubout", "-in"]).arg(private);
        execute(openssl.arg("-out").arg(public))?;
    }
    Installed::from(out, Some(&public))?.must_start()?;
    Installed::from(out, Some(&stranger))?.must_be_refused("signature")?;
    // Archives and checksums that agree, but were not signed so.
    let replaced = changed(out, "replaced", |name, bytes| {
        if name == SUMS {
            bytes.push(b'\n');
        }
    })?;
    Installed::from(&replaced, Some(&public))?.must_be_refused("signature")
}

/// A copy of a folder, in which files may be changed.
fn changed(out: &Path, name: &str, change: impl Fn(&str, &mut Vec<u8>)) -> Result<PathBuf> {
    let folder = empty(name)?;
    for path in files(out)? {
        let name = path.file_name().map(OsStr::to_string_lossy);
        let name = name.unwrap_or_default();
        let mut bytes = fs::read(&path)?;
        change(&name, &mut bytes);
        fs::write(folder.join(&*name), bytes)?;
    }
    Ok(folder)
}

#[cfg(test)]
mod tests {
    use super::super::{INSTALLER, sign, write_sums};
    use super::*;
    use crate::command::root;

    /// The script itself, with a program that only tells its version.
    #[test]
    fn what_was_changed_or_signed_by_others_is_not_installed() {
        let (out, tree) = (empty("out").unwrap(), empty("tree").unwrap());
        let libc = if cfg!(target_env = "musl") {
            "musl"
        } else {
            "gnu"
        };
        let target = format!("{}-unknown-linux-{libc}", std::env::consts::ARCH);
        let name = format!("strata-1.2.3-{target}");
        let folder = tree.join(&name);
        for part in ["man/man1", "completions"] {
            fs::create_dir_all(folder.join(part)).unwrap();
        }
        for file in [
            "man/man1/strata.1",
            "completions/strata.bash",
            "completions/_strata",
            "completions/strata.fish",
        ] {
            fs::write(folder.join(file), "text\n").unwrap();
        }
        let program = "#!/bin/sh\necho strata 1.2.3\n";
        let script = "chmod 755 strata && cd .. && tar -czf \"$0\" \"$1\"";
        fs::write(folder.join("strata"), program).unwrap();
        let mut pack = Command::new("sh");
        pack.args(["-ec", script]).current_dir(&folder);
        let archive = out.join(format!("{name}.tar.gz"));
        assert!(pack.arg(archive).arg(&name).status().unwrap().success());
        fs::copy(root().join(INSTALLER), out.join("install.sh")).unwrap();
        write_sums(&out).unwrap();
        let key = tree.join("key");
        let mut openssl = Command::new("openssl");
        openssl.args(["genpkey", "-algorithm", "ed25519", "-out"]);
        if !openssl
            .arg(&key)
            .status()
            .is_ok_and(|status| status.success())
        {
            check(&out, None).unwrap();
            return eprintln!("openssl is not here");
        }
        sign(&out, &key).unwrap();
        check(&out, Some(&key)).unwrap();
        for folder in ["out", "tree", "home", "damaged", "keys", "replaced"] {
            fs::remove_dir_all(empty(folder).unwrap()).unwrap();
        }
    }
}
