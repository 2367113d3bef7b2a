//! Python, Node and Ruby.

use super::super::expected::{Expected, Extent, said};
use super::super::package::{Build, copy, fresh, keep, outside, prefix, stripped};
use super::super::{folder, readme};
use super::missing;
use crate::command::{answers, debian_install, root, run as execute};
use crate::python::Python;
use anyhow::{Result, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What the tests in Python use beside the package. It needs none of them.
const PYTHON: &[&str] = &["numpy==2.4.6", "openai==3.49.0"];

pub(super) fn python_packages() -> Result<Option<Python>> {
    Python::install("bindings-python", PYTHON, None, "the tests in Python")
}

pub(super) fn python(expected: &Expected) -> Result<Option<Vec<String>>> {
    let Some(python) = python_packages()? else {
        return Ok(None);
    };
    let place = fresh("python")?;
    let wheel = install_wheel(&python, &place, Build::Test)?;
    keep(&wheel)?;
    let tests = root().join("bindings/python/tests");
    let interpreter = python.interpreter();
    let features =
        expected.features(&mut isolated(interpreter, &tests.join("check.py"), &place))?;
    if expected.extent() == Extent::Whole {
        types(&place, &wheel)?;
    }
    let example = place.join("start.py");
    fs::write(&example, readme::all("python", "python")?)?;
    let alone = only_the_wheel(&python, &place, &wheel)?;
    readme::told(&said(&mut isolated(&alone, &example, &place))?)?;
    Ok(Some(features))
}

/// What reads the package's types.
const MYPY: &[&str] = &["mypy==1.18.2"];

/// The types of the package, as a program's type checker sees them.
fn types(place: &Path, wheel: &Path) -> Result<()> {
    let Some(python) = Python::install("bindings-types", MYPY, None, "mypy")? else {
        return Ok(());
    };
    let mut install = python.pip_install();
    install.args(["--no-deps", "--force-reinstall"]).arg(wheel);
    execute(&mut install)?;
    let mut mypy = Command::new(python.interpreter());
    mypy.args(["-m", "mypy", "--strict", "--cache-dir", "/dev/null"]);
    mypy.arg(root().join("bindings/python/tests/typed.py"));
    said(mypy.current_dir(place))?;
    Ok(())
}

/// A new environment with nothing but the wheel in it: neither numpy nor pip.
fn only_the_wheel(python: &Python, place: &Path, wheel: &Path) -> Result<PathBuf> {
    let environment = place.join("environment");
    let mut venv = Command::new(python.interpreter());
    venv.args(["-m", "venv", "--without-pip"]).arg(&environment);
    execute(&mut venv)?;
    let mut install = python.pip();
    install.arg("--python").arg(&environment);
    execute(install.args(["install", "--quiet"]).arg(wheel))?;
    Ok(environment.join("bin/python"))
}

/// What a user types: `pip install .` in the package's folder, where maturin builds a wheel for release, into a new environment.
pub(in super::super) fn pip_install() -> Result<()> {
    let place = fresh("pip")?;
    let environment = place.join("environment");
    execute(
        Command::new("python3")
            .args(["-m", "venv"])
            .arg(&environment),
    )?;
    let interpreter = environment.join("bin/python");
    let mut install = Command::new(&interpreter);
    install.args(["-m", "pip", "install", "--quiet", "."]);
    said(install.current_dir(root().join("bindings/python")))?;
    let example = place.join("start.py");
    fs::write(&example, readme::all("python", "python")?)?;
    readme::told(&said(&mut isolated(&interpreter, &example, &place))?)
}

/// LangChain and LlamaIndex, with the client that both take.
const FRAMEWORKS: &[&str] = &[
    "openai==2.54.0",
    "langchain-openai==1.7.3",
    "llama-index-llms-openai-like==0.8.1",
    "llama-index-embeddings-openai-like==0.4.0",
];

/// The package under the frameworks that it has adapters for.
pub(in super::super) fn frameworks(expected: &Expected) -> Result<()> {
    let what = "LangChain and LlamaIndex";
    let Some(python) = Python::install("bindings-frameworks", FRAMEWORKS, None, what)? else {
        return Ok(());
    };
    let place = fresh("frameworks")?;
    install_wheel(&python, &place, Build::Test)?;
    let test = root().join("bindings/python/tests/frameworks.py");
    let seen = expected.features(&mut isolated(python.interpreter(), &test, &place))?;
    ensure!(seen == ["langchain", "llama_index"], "{seen:?}");
    Ok(())
}

/// Makes a wheel of what was built and installs it; says where it is.
pub(in super::super) fn install_wheel(
    python: &Python,
    place: &Path,
    build: Build,
) -> Result<PathBuf> {
    let library = folder().join("_strata.abi3.so");
    stripped(build, "lib_strata.so", &library)?;
    let mut pack = Command::new(python.interpreter());
    pack.arg(root().join("bindings/python/pack.py"));
    let wheel = said(pack.arg(&library).arg(place))?;
    let wheel = PathBuf::from(wheel.trim());
    let mut install = python.pip_install();
    install.args(["--no-deps", "--force-reinstall"]).arg(&wheel);
    execute(&mut install)?;
    Ok(wheel)
}

/// A script in an interpreter that finds nothing of the repository by accident.
fn isolated(interpreter: &Path, file: &Path, place: &Path) -> Command {
    let mut command = Command::new(interpreter);
    command.arg("-I").arg(file).current_dir(place);
    command.env("PYTHONFAULTHANDLER", "1");
    command
}

/// Puts the package together, with the library of this machine.
pub(in super::super) fn node_package(package: &Path, build: Build) -> Result<()> {
    let source = root().join("bindings/node");
    copy(&source.join("lib"), &package.join("lib"))?;
    for part in ["package.json", "README.md"] {
        fs::copy(source.join(part), package.join(part))?;
    }
    fs::create_dir_all(package.join("prebuilt"))?;
    let machine = if cfg!(target_arch = "x86_64") {
        "x64"
    } else {
        "arm64"
    };
    let prebuilt = format!("prebuilt/linux-{machine}.node");
    stripped(build, "libstrata_node.so", &package.join(prebuilt))
}

/// What the tests in Node use beside the package, and what reads its types.
const ZOD: &str = "zod@4.6.7";
const TYPESCRIPT: &[&str] = &["typescript@5.9", "@types/node@20"];

pub(super) fn node(expected: &Expected) -> Result<Option<Vec<String>>> {
    if !answers(Command::new("node").arg("--version"))
        && let Err(error) = debian_install(&["nodejs", "npm"])
    {
        return missing("Node", error);
    }
    let (package, source) = (fresh("node/package")?, root().join("bindings/node"));
    node_package(&package, Build::Test)?;
    let project = fresh("node/project")?;
    let npm = |arguments: &[&str], place: &Path| {
        let mut command = Command::new("npm");
        command.args(arguments).current_dir(place);
        said(&mut command)
    };
    let packed = npm(&["pack", "--silent", "--pack-destination", ".."], &package)?;
    let tarball = outside().join("node").join(packed.trim());
    keep(&tarball)?;
    fs::write(
        project.join("package.json"),
        "{\"type\":\"module\",\"private\":true}\n",
    )?;
    let tarball = tarball.to_string_lossy().into_owned();
    let install = [
        "install",
        "--silent",
        "--no-audit",
        "--no-fund",
        "--ignore-scripts",
    ];
    npm(&[&install[..], &[&tarball, ZOD]].concat(), &project)?;
    fs::copy(source.join("test/check.mjs"), project.join("check.mjs"))?;
    let run = |file: &str| {
        let mut command = Command::new("node");
        command.arg(file).current_dir(&project);
        command
    };
    let features = expected.features(&mut run("check.mjs"))?;
    fs::write(project.join("start.mjs"), readme::all("node", "js")?)?;
    readme::told(&said(&mut run("start.mjs"))?)?;
    if expected.extent() == Extent::Whole {
        npm(&[&install[..], TYPESCRIPT].concat(), &project)?;
        fs::copy(source.join("test/types.ts"), project.join("types.ts"))?;
        let mut compiler = run("node_modules/typescript/bin/tsc");
        compiler.args(["--noEmit", "--strict", "--target", "esnext"]);
        said(compiler.args(["--module", "nodenext", "--types", "node", "types.ts"]))?;
    }
    Ok(Some(features))
}

pub(super) fn ruby(expected: &Expected) -> Result<Option<Vec<String>>> {
    if !answers(Command::new("ruby").arg("--version"))
        && let Err(error) = debian_install(&["ruby"])
    {
        return missing("Ruby", error);
    }
    let (package, source) = (fresh("ruby/package")?, root().join("bindings/ruby"));
    copy(&source, &package)?;
    let library = package.join("lib/strata/libstrata_c.so");
    fs::copy(prefix().join("lib/libstrata_c.so"), library)?;
    let gems = fresh("ruby/gems")?;
    let gem = |arguments: &[&str]| {
        let mut command = Command::new("gem");
        command.args(arguments).current_dir(&package);
        said(&mut command)
    };
    gem(&["build", "--quiet", "strata.gemspec"])?;
    keep(&package.join("strata-llm-0.1.0.gem"))?;
    let place = gems.to_string_lossy().into_owned();
    let install = [
        "install",
        "--quiet",
        "--local",
        "--no-document",
        "--install-dir",
    ];
    gem(&[&install[..], &[&place, "strata-llm-0.1.0.gem"]].concat())?;
    let run = |file: &Path| {
        let mut command = Command::new("ruby");
        command.arg(file).current_dir(&gems);
        command.env("GEM_PATH", &gems).env("GEM_HOME", &gems);
        command
    };
    let features = expected.features(&mut run(&source.join("test/check.rb")))?;
    let example = gems.join("start.rb");
    fs::write(&example, readme::start("ruby", "ruby")?)?;
    readme::told(&said(&mut run(&example))?)?;
    Ok(Some(features))
}
