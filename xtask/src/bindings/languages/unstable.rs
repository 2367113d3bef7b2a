//! Dart and Swift, whose toolchains run in a small system of their own.

use super::super::debian_root::Root;
use super::super::expected::{Expected, said};
use super::super::package::{copy, prefix};
use super::super::readme;
use super::missing;
use crate::command::root;
use anyhow::Result;
use std::fs;
use std::path::Path;
use std::process::Command;

pub(super) fn dart(expected: &Expected) -> Result<Option<Vec<String>>> {
    let system = match Root::install("dart", "sid", &["dart-sdk"]) {
        Ok(system) => system,
        Err(error) => return missing("Dart", error),
    };
    let (package, source) = (system.fresh("strata")?, root().join("bindings/dart"));
    for part in ["lib", "test"] {
        copy(&source.join(part), &package.join(part))?;
    }
    fs::copy(source.join("pubspec.yaml"), package.join("pubspec.yaml"))?;
    let project = system.fresh("project")?;
    library(&project)?;
    fs::write(
        project.join("pubspec.yaml"),
        "name: example\nenvironment:\n  sdk: ^3.3.0\ndependencies:\n  strata_llm:\n    path: ../strata\n",
    )?;
    fs::copy(source.join("test/check.dart"), project.join("check.dart"))?;
    fs::write(project.join("start.dart"), readme::start("dart", "dart")?)?;
    // There is no Flutter: of the app only the syntax is checked.
    copy(&source.join("example/lib"), &project.join("app"))?;
    let run = |name: &str, arguments: &[&str]| {
        let mut dart = system.command(name, "/usr/bin/dart");
        dart.args(arguments);
        dart.env("STRATA_LIBRARY", "/home/project/libstrata_c.so");
        dart
    };
    said(&mut run("strata", &["pub", "get", "--offline"]))?;
    said(&mut run("strata", &["analyze", "--fatal-infos"]))?;
    said(&mut run("project", &["pub", "get", "--offline"]))?;
    said(&mut run("project", &["format", "--output=none", "app"]))?;
    files(expected, &project)?;
    let mut features = run("project", &["run", "check.dart"]);
    let features = expected.features_in(&mut features, "/home/project")?;
    readme::told(&said(&mut run("project", &["run", "start.dart"]))?)?;
    Ok(Some(features))
}

const SWIFT: &[&str] = &[
    "swiftlang",
    "libc6-dev",
    "libstdc++-14-dev",
    "bash",
    "coreutils",
];

pub(super) fn swift(expected: &Expected) -> Result<Option<Vec<String>>> {
    let system = match Root::install("swift", "sid", SWIFT) {
        Ok(system) => system,
        Err(error) => return missing("Swift", error),
    };
    let place = system.fresh("strata")?;
    copy(&root().join("bindings/swift/Sources"), &place)?;
    fs::copy(prefix().join("include/strata.h"), place.join("strata.h"))?;
    library(&place)?;
    let swiftc = |arguments: &[&str]| -> Result<()> {
        let mut swiftc = system.command("strata", "/usr/bin/swiftc");
        swiftc.args([
            "-swift-version",
            "5",
            "-warnings-as-errors",
            "-I.",
            "-L.",
            "-Xcc",
            "-I/home/strata",
        ]);
        said(
            swiftc
                .args(["-Xlinker", "-rpath", "-Xlinker", "$ORIGIN"])
                .args(arguments),
        )?;
        Ok(())
    };
    let mut sources = Vec::new();
    for entry in fs::read_dir(place.join("Strata"))? {
        sources.push(format!("Strata/{}", entry?.file_name().to_string_lossy()));
    }
    let sources: Vec<&str> = sources.iter().map(String::as_str).collect();
    // As Package.swift has it, without the package manager.
    let module = [
        "-parse-as-library",
        "-emit-library",
        "-emit-module",
        "-module-name",
        "Strata",
        "-ICStrata",
    ];
    swiftc(&[&module[..], &["-lstrata_c", "-o", "libStrata.so"], &sources].concat())?;
    let program = ["-parse-as-library", "-ICStrata", "-lStrata", "-lstrata_c"];
    swiftc(&[&program[..], &["-o", "run-check", "check/Check.swift"]].concat())?;
    fs::write(place.join("Start.swift"), readme::start("swift", "swift")?)?;
    swiftc(&[&program[..], &["-o", "run-start", "Start.swift"]].concat())?;
    files(expected, &place)?;
    let mut check: Command = system.command("strata", "./run-check");
    let features = expected.features_in(&mut check, "/home/strata")?;
    readme::told(&said(&mut system.command("strata", "./run-start"))?)?;
    Ok(Some(features))
}

/// Puts the C library where a program in the system finds it.
fn library(place: &Path) -> Result<()> {
    let library = prefix().join("lib/libstrata_c.so");
    fs::copy(library, place.join("libstrata_c.so"))?;
    Ok(())
}

/// Puts the files that tests open there.
fn files(expected: &Expected, place: &Path) -> Result<()> {
    for file in expected.files() {
        fs::copy(&file, place.join(file.file_name().unwrap_or_default()))?;
    }
    Ok(())
}
