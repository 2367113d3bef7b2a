//! Where packages are put together and used, outside the repository; and the C library as it is installed there: a folder with
//! include, lib and pkg-config's file.

use super::folder;
use crate::command::{root, run as execute, target};
use anyhow::{Context, Result};
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A folder outside the repository, this checkout's own: what is run there finds nothing but what was installed.
pub(super) fn outside() -> PathBuf {
    let mut checkout = DefaultHasher::new();
    target().hash(&mut checkout);
    let name = format!("strata-bindings-{:016x}", checkout.finish());
    std::env::temp_dir().join(name)
}

/// Where the C library is installed for the tests.
pub(super) fn prefix() -> PathBuf {
    outside().join("c")
}

/// Keeps a package that was built, for whoever wants to install it.
pub(super) fn keep(package: &Path) -> Result<()> {
    let packages = folder().join("packages");
    fs::create_dir_all(&packages)?;
    let name = package.file_name().context("a package is a file")?;
    fs::copy(package, packages.join(name))?;
    Ok(())
}

/// How libraries were built.
#[derive(Clone, Copy)]
pub(super) enum Build {
    Test,
    Release,
}

impl Build {
    fn folder(self) -> &'static str {
        match self {
            Self::Test => "debug",
            Self::Release => "release",
        }
    }
}

/// Installs the C library for the tests.
pub(super) fn c() -> Result<()> {
    install(&prefix(), Build::Test)
}

/// Installs the C library in a folder.
pub(super) fn install(prefix: &Path, build: Build) -> Result<()> {
    let source = root().join("bindings/c");
    fs::create_dir_all(prefix.join("include"))?;
    fs::create_dir_all(prefix.join("lib/pkgconfig"))?;
    fs::copy(
        source.join("include/strata.h"),
        prefix.join("include/strata.h"),
    )?;
    let hpp = root().join("bindings/cpp/include/strata.hpp");
    fs::copy(hpp, prefix.join("include/strata.hpp"))?;
    stripped(build, "libstrata_c.so", &prefix.join("lib/libstrata_c.so"))?;
    linked(build, "libstrata_c.a", &prefix.join("lib/libstrata_c.a"))?;
    let wanted = fs::read_to_string(source.join("strata.pc.in"))?;
    let wanted = wanted
        .replace("@PREFIX@", &prefix.to_string_lossy())
        .replace("@VERSION@", env!("CARGO_PKG_VERSION"));
    fs::write(prefix.join("lib/pkgconfig/strata.pc"), wanted)?;
    Ok(())
}

/// Copies a library that was built, without what debuggers read.
pub(super) fn stripped(build: Build, name: &str, to: &Path) -> Result<()> {
    let from = target().join(build.folder()).join(name);
    let strip = Command::new("strip")
        .args(["--strip-debug", "-o"])
        .args([to, &from])
        .status();
    if !strip.is_ok_and(|status| status.success()) {
        fs::copy(&from, to).with_context(|| from.display().to_string())?;
    }
    Ok(())
}

/// Puts a library that was built somewhere as it is, without a copy where that can be done: this one is large.
fn linked(build: Build, name: &str, to: &Path) -> Result<()> {
    let from = target().join(build.folder()).join(name);
    if to.exists() {
        fs::remove_file(to)?;
    }
    if fs::hard_link(&from, to).is_err() {
        fs::copy(&from, to).with_context(|| from.display().to_string())?;
    }
    Ok(())
}

/// Copies a folder's files, and those of its folders.
pub(super) fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from).with_context(|| from.display().to_string())? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

/// An empty folder for a test, outside the repository.
pub(super) fn fresh(name: &str) -> Result<PathBuf> {
    let fresh = outside().join(name);
    if fresh.exists() {
        fs::remove_dir_all(&fresh)?;
    }
    fs::create_dir_all(&fresh)?;
    Ok(fresh)
}

/// What pkg-config says of the installed library.
fn pkg_config(arguments: &[&str]) -> Result<Vec<String>> {
    let found = Command::new("pkg-config")
        .args(arguments)
        .arg("strata")
        .env("PKG_CONFIG_PATH", prefix().join("lib/pkgconfig"))
        .output()
        .context("cannot start pkg-config")?;
    let found = String::from_utf8_lossy(&found.stdout).into_owned();
    Ok(found.split_whitespace().map(String::from).collect())
}

fn compiler(name: &str, flags: &[&str], source: &Path, to: &Path) -> Command {
    let mut command = Command::new(name);
    command
        .args(["-Wall", "-Wextra", "-Werror", "-pedantic", "-g"])
        .args(flags)
        .arg(source)
        .arg("-o")
        .arg(to);
    command
}

/// Compiles a program with what pkg-config says of the installed library, and nothing else.
pub(super) fn compile(name: &str, flags: &[&str], source: &Path, to: &Path) -> Result<()> {
    let mut command = compiler(name, flags, source, to);
    execute(
        command
            .args(pkg_config(&["--cflags", "--libs"])?)
            .arg("-lpthread"),
    )
}

/// Compiles a program in C that has the static library in it.
pub(super) fn compile_static(flags: &[&str], source: &Path, to: &Path) -> Result<()> {
    let mut command = compiler("cc", flags, source, to);
    command.args(pkg_config(&["--cflags"])?);
    command.arg(prefix().join("lib/libstrata_c.a"));
    let libraries = pkg_config(&["--static", "--libs"])?;
    let others = libraries
        .iter()
        .filter(|word| !word.contains("strata") && !word.starts_with("-L"));
    execute(command.args(others))
}
