//! llama.cpp as a peer: libraries that come compiled for the checks, one compiled for this processor for measurements.

use crate::command::{answers, debian_install, run as execute, target};
use crate::python::Python;
use anyhow::{Context, Result, bail, ensure};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Python's view of llama.cpp's C interface.
const PACKAGE: &str = "llama-cpp-python==0.3.36";
/// The same version of llama.cpp's libraries, compiled, with a library for each kind of processor.
const LIBRARIES: &str = "@node-llama-cpp/linux-";
const LIBRARIES_VERSION: &str = "3.22.1";

/// How llama.cpp is compiled: for this processor, but without AMX. GCC 12 optimizes the setup of the AMX tiles away,
/// and the result dies with an illegal instruction. All of llama.cpp's AMX code is behind this macro, and compilers do
/// not emit AMX instructions on their own.
const NATIVE: &str = "-DGGML_NATIVE=ON -DLLAVA_BUILD=OFF \
                      -DCMAKE_C_FLAGS=-U__AMX_INT8__ -DCMAKE_CXX_FLAGS=-U__AMX_INT8__";
/// Nothing is compiled: the package is Python alone.
const WITHOUT_LIBRARIES: &str = "-DLLAMA_BUILD=OFF -DLLAVA_BUILD=OFF";

/// Where llama.cpp's libraries come from.
pub(crate) enum LlamaCpp {
    /// From the npm registry, compiled: there in seconds.
    Published,
    /// Compiled here: up to seven minutes on two cores.
    Native,
}

impl LlamaCpp {
    /// The quickest one that can be had here.
    pub(crate) fn for_checks() -> Self {
        if answers(Command::new("npm").arg("--version")) {
            Self::Published
        } else {
            Self::Native
        }
    }

    /// What is installed, in words that change whenever it does.
    pub(crate) fn describe(&self) -> Result<String> {
        Ok(match self {
            Self::Published => format!("{PACKAGE} with {}", libraries()?),
            Self::Native => format!("{PACKAGE} compiled as {}", build_key()?),
        })
    }

    pub(crate) fn install(&self, python: &Python) -> Result<()> {
        if !answers(Command::new("c++").arg("--version")) {
            debian_install(&["g++"])?;
        }
        match self {
            Self::Published => {
                install_package(python, WITHOUT_LIBRARIES, "strata-llama-cpp")?;
                install_libraries(python)
            }
            Self::Native => install_package(python, NATIVE, &format!("strata-{}", build_key()?)),
        }
    }
}

/// llama.cpp's own benchmark, built for NVIDIA's GPUs from the sources in the Python package.
pub(crate) fn bench_with_cuda() -> Result<PathBuf> {
    let folder = target().join("llama-bench");
    let build = folder.join("build");
    let program = build.join("bin/llama-bench");
    if program.exists() {
        return Ok(program);
    }
    let what = "llama.cpp on the GPU";
    let Some(python) = Python::install("llama-bench-tools", &["cmake==4.1.2"], None, what)? else {
        bail!("cmake could not be installed");
    };
    let archive = download(&python, &folder)?;
    execute(
        Command::new("tar")
            .args(["--extract", "--strip-components=1", "--file"])
            .arg(archive)
            .arg("--directory")
            .arg(&folder),
    )?;
    let sources = folder.join("vendor/llama.cpp");
    ensure!(
        sources.join("tools/llama-bench").is_dir(),
        "the package has no llama-bench: name a program with --llama-bench"
    );
    let cmake = || Command::new(python.folder().join("bin/cmake"));
    execute(
        cmake()
            .args([
                "-DGGML_CUDA=ON",
                "-DLLAMA_CURL=OFF",
                "-DCMAKE_BUILD_TYPE=Release",
                "-S",
            ])
            .arg(sources)
            .arg("-B")
            .arg(&build),
    )?;
    let target = ["--parallel", "--target", "llama-bench"];
    execute(cmake().arg("--build").arg(&build).args(target))?;
    Ok(program)
}

/// Installs the Python package. pip caches its wheel, but does not key it by build flags or processor, so each kind of
/// build gets its own cache.
fn install_package(python: &Python, flags: &str, cache_name: &str) -> Result<()> {
    let mut install = python.pip_install();
    install.arg(PACKAGE).env("CMAKE_ARGS", flags);
    let cache = python.pip().args(["cache", "dir"]).output()?;
    // With pip's cache disabled, nothing is reused.
    if cache.status.success() {
        let cache = String::from_utf8(cache.stdout)?;
        let folder = Path::new(cache.trim_end()).join(cache_name);
        install.arg("--cache-dir").arg(folder);
    }
    execute(&mut install)
}

/// The package of compiled libraries for this kind of machine.
fn libraries() -> Result<String> {
    let machine = match std::env::consts::ARCH {
        "x86_64" => "x64",
        "aarch64" => "arm64",
        other => bail!("llama.cpp does not come compiled for {other}"),
    };
    Ok(format!("{LIBRARIES}{machine}@{LIBRARIES_VERSION}"))
}

/// Where the Python package looks for libraries.
fn libraries_folder(python: &Python) -> Result<PathBuf> {
    let find = "import sysconfig; print(sysconfig.get_path('platlib'))";
    let packages = Command::new(python.interpreter())
        .args(["-c", find])
        .output()?;
    let packages = PathBuf::from(String::from_utf8(packages.stdout)?.trim_end());
    Ok(packages.join("llama_cpp/lib"))
}

/// Puts the compiled libraries where the Python package looks for its own.
fn install_libraries(python: &Python) -> Result<()> {
    let folder = libraries_folder(python)?;
    std::fs::create_dir_all(&folder)?;
    execute(
        Command::new("npm")
            .args(["pack", "--silent", "--pack-destination"])
            .arg(&folder)
            .arg(libraries()?),
    )?;
    let archive = files(&folder, "tgz")?.pop().context("npm packed nothing")?;
    execute(
        Command::new("tar")
            .args(["--extract", "--strip-components=3", "--file"])
            .arg(&archive)
            .arg("--directory")
            .arg(&folder)
            .arg("package/bins"),
    )?;
    std::fs::remove_file(archive)?;
    // Their names have versions that the package does not ask for.
    for name in ["libllama", "libggml"] {
        let versioned = files(&folder, "so")?.into_iter().find(|path| {
            let file = path.file_name().unwrap_or_default().to_string_lossy();
            file.starts_with(&format!("{name}.v"))
        });
        let versioned = versioned.with_context(|| format!("{name} is not in the package"))?;
        symlink(versioned, folder.join(format!("{name}.so")))?;
    }
    Ok(())
}

/// Functions that llama.cpp's sources call to compute embeddings, and that its published libraries may not have yet.
/// Nothing here computes that way.
const LATER_FUNCTIONS: &[&str] = &[
    "llama_batch_ext_add_embd",
    "llama_batch_ext_add_token",
    "llama_batch_ext_clear",
    "llama_batch_ext_free",
    "llama_batch_ext_init",
    "llama_batch_ext_set_output_logits",
    "llama_batch_ext_set_pos",
    "llama_process",
];

/// Compiles the library that reads images, mtmd, of the Python package's sources, and puts it beside llama.cpp's libraries:
/// it only builds graphs, which those compute. The npm package has none. Two minutes of two cores, once.
pub(crate) fn install_mtmd(python: &Python) -> Result<()> {
    let sources = sources(python)?;
    let libraries = libraries_folder(python)?;
    let library = libraries.join("libmtmd.so");
    if library.exists() {
        return Ok(());
    }
    let objects = target().join("llama-cpp-sources/mtmd-objects");
    std::fs::create_dir_all(&objects)?;
    let tools = sources.join("tools/mtmd");
    let mut units = files(&tools, "cpp")?;
    units.retain(|path| {
        let name = path.file_name().unwrap_or_default();
        name != "mtmd-cli.cpp" && name != "deprecation-warning.cpp"
    });
    units.extend(files(&tools.join("models"), "cpp")?);
    let hashes = sources.join("vendor/hash");
    for folder in [
        &hashes,
        &hashes.join("sha1"),
        &hashes.join("sha256"),
        &hashes.join("xxhash"),
    ] {
        units.extend(files(folder, "cpp")?);
        units.extend(files(folder, "c")?);
    }
    let later = objects.join("later.cpp");
    let bodies = LATER_FUNCTIONS.iter();
    let bodies = bodies.map(|name| format!("extern \"C\" void {name}() {{ std::abort(); }}\n"));
    let text = format!("#include <cstdlib>\n{}", bodies.collect::<String>());
    std::fs::write(&later, text)?;
    units.push(later);
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    let compile = |unit: &PathBuf| {
        let folder = unit.parent().and_then(Path::file_name);
        let name = format!(
            "{}-{}.o",
            folder.unwrap_or_default().to_string_lossy(),
            unit.file_name().unwrap_or_default().to_string_lossy()
        );
        let object = objects.join(name);
        let mut compiler = Command::new("c++");
        compiler.args(["-std=c++17", "-O3", "-fPIC", "-DNDEBUG", "-w"]);
        compiler
            .args(["-x", "c++", "-c"])
            .arg(unit)
            .arg("-o")
            .arg(&object);
        let includes = [
            "tools/mtmd",
            "include",
            "ggml/include",
            "vendor",
            "vendor/hash",
            "common",
            "src",
        ];
        for include in includes {
            compiler.arg("-I").arg(sources.join(include));
        }
        execute(&mut compiler).map(|()| object)
    };
    let part = units.len().div_ceil(workers);
    let compiled: Result<Vec<Vec<PathBuf>>> = std::thread::scope(|scope| {
        let parts = units.chunks(part);
        let threads: Vec<_> = parts
            .map(|units| scope.spawn(move || units.iter().map(compile).collect::<Result<Vec<_>>>()))
            .collect();
        let join = |thread: std::thread::ScopedJoinHandle<'_, Result<Vec<PathBuf>>>| {
            thread
                .join()
                .unwrap_or_else(|_| bail!("a compiler's thread panicked"))
        };
        threads.into_iter().map(join).collect()
    });
    execute(
        Command::new("c++")
            .arg("-shared")
            .arg("-o")
            .arg(&library)
            .args(compiled?.concat())
            .args(["libllama.so", "libggml.so", "libggml-base.so"].map(|name| libraries.join(name)))
            .args(["-Wl,-rpath,$ORIGIN", "-Wl,--no-undefined", "-lpthread"]),
    )
}

fn files(folder: &Path, extension: &str) -> Result<Vec<PathBuf>> {
    let paths = std::fs::read_dir(folder)?.map(|entry| Ok(entry?.path()));
    let paths: Vec<PathBuf> = paths.collect::<Result<_>>()?;
    let has_extension = |path: &PathBuf| path.extension().is_some_and(|have| have == extension);
    Ok(paths.into_iter().filter(has_extension).collect())
}

/// The archive of the Python package's sources, in a folder.
fn download(python: &Python, folder: &Path) -> Result<PathBuf> {
    std::fs::create_dir_all(folder)?;
    let mut download = python.pip();
    download.args(["download", "--quiet", "--no-deps"]);
    download.args(["--no-binary", "llama-cpp-python", "--dest"]);
    execute(download.arg(folder).arg(PACKAGE))?;
    files(folder, "gz")?.pop().context("pip has no sources")
}

/// llama.cpp's sources as the Python package carries them: the tests of its server, the templates they read, mtmd.
pub(crate) fn sources(python: &Python) -> Result<PathBuf> {
    let folder = target().join("llama-cpp-sources");
    let sources = folder.join("vendor/llama.cpp");
    let tests = sources.join("tools/server/tests/unit");
    if tests.is_dir() && sources.join("tools/mtmd").is_dir() {
        return Ok(sources);
    }
    let archive = download(python, &folder)?;
    execute(
        Command::new("tar")
            .args(["--extract", "--strip-components=1", "--wildcards", "--file"])
            .arg(archive)
            .arg("--directory")
            .arg(&folder)
            .args([
                "*/vendor/llama.cpp/tools/server/tests",
                "*/vendor/llama.cpp/models/templates",
                "*/vendor/llama.cpp/tools/mtmd",
                "*/vendor/llama.cpp/include",
                "*/vendor/llama.cpp/ggml/include",
                "*/vendor/llama.cpp/vendor",
                "*/vendor/llama.cpp/common",
                "*/vendor/llama.cpp/src",
            ]),
    )?;
    Ok(sources)
}

/// A hash of what a compiled package depends on besides its source: build flags, compiler, C library and processor. All
/// but the flags show in the macros that the compiler predefines for this processor.
fn build_key() -> Result<String> {
    if !answers(Command::new("c++").arg("--version")) {
        debian_install(&["g++"])?;
    }
    let native = if cfg!(target_arch = "x86_64") {
        "-march=native"
    } else {
        "-mcpu=native"
    };
    let macros = Command::new("c++")
        .args([native, "-include", "stdlib.h", "-dM", "-E", "-x", "c++"])
        .arg("/dev/null")
        .output()
        .context("cannot start c++")?;
    ensure!(
        macros.status.success(),
        "c++ cannot compile for this processor: {}",
        String::from_utf8_lossy(&macros.stderr)
    );
    let mut hasher = DefaultHasher::new();
    (NATIVE, macros.stdout).hash(&mut hasher);
    Ok(format!("{:016x}", hasher.finish()))
}
