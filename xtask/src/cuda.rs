//! The GPU's kernels: compiled to PTX with the pinned compiler of the CUDA toolkit, and tested on a GPU.

use crate::command::{cargo, root, run as execute};
use crate::python::Python;
use anyhow::{Context, Result, bail};
use miniz_oxide::deflate::compress_to_vec_zlib;
use miniz_oxide::inflate::decompress_to_vec_zlib;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// The compiler, from PyPI. Another version gives other bytes.
const PACKAGES: [&str; 5] = [
    "nvidia-cuda-nvcc==13.0.88",
    "nvidia-nvvm==13.0.88",
    "nvidia-cuda-crt==13.0.88",
    "nvidia-cuda-runtime==13.0.96",
    "nvidia-cuda-cccl==13.0.85",
];

/// The generations of GPUs that have a text of their own.
const ARCHITECTURES: [u32; 3] = [75, 80, 90];

/// Kernels that are one file each.
const FILES: [&str; 8] = [
    "adapter",
    "attention",
    "experts",
    "ffn",
    "float",
    "mixed",
    "projection",
    "residual",
];

/// Types whose products are a file each.
const TYPES: [&str; 13] = [
    "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_NL",
    "IQ4_XS", "MXFP4",
];

/// zlib's highest level.
const LEVEL: u8 = 10;

/// One text to make.
struct Job {
    architecture: u32,
    name: String,
    source: &'static str,
    define: Option<&'static str>,
}

/// Compiles all kernels, or checks that what is committed is what the compiler makes; without a network it cannot, and says
/// so.
pub(crate) fn build(check: bool) -> Result<()> {
    let what = "the kernels' compiler";
    let Some(python) = Python::install("cuda", &PACKAGES, None, what)? else {
        if check {
            return Ok(());
        }
        bail!("the compiler could not be installed");
    };
    let nvcc = compiler(python.interpreter())?;
    let jobs: Vec<Job> = ARCHITECTURES.into_iter().flat_map(jobs).collect();
    let (next, failed) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                while let Some(job) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if let Err(error) = compile(&nvcc, job, check) {
                        let mut failed = failed.lock().unwrap_or_else(PoisonError::into_inner);
                        failed.push(format!("{} for {}: {error:#}", job.name, job.architecture));
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().unwrap_or_else(PoisonError::into_inner);
    if failed.is_empty() {
        if !check {
            let noted = root().join("crates/cuda/ptx/sources.txt");
            fs::write(noted, digest()?)?;
        }
        let done = if check {
            "are as committed"
        } else {
            "were written"
        };
        eprintln!("{} texts for GPUs {done}", jobs.len());
        return Ok(());
    }
    bail!("{}", failed.join("\n"));
}

/// FNV-1a over the names and texts of all kernels, in order: a test in `crates/cuda` compares it, without a compiler.
fn digest() -> Result<String> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(root().join("crates/cuda/kernels"))? {
        let path = entry?.path();
        if path.extension().is_some_and(|e| e == "cu" || e == "cuh") {
            paths.push(path);
        }
    }
    paths.sort();
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for path in paths {
        let name = path.file_name().context("a name")?.to_string_lossy();
        let text = fs::read(&path)?;
        for byte in name.bytes().chain(text) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        }
    }
    Ok(format!("{hash:016x}\n"))
}

fn jobs(architecture: u32) -> impl Iterator<Item = Job> {
    let files = FILES.into_iter().map(move |name| Job {
        architecture,
        name: name.into(),
        source: name,
        define: None,
    });
    let types = TYPES.into_iter().map(move |ty| Job {
        architecture,
        name: format!("matmul_{ty}"),
        source: "matmul",
        define: Some(ty),
    });
    files.chain(types)
}

/// The compiler in the environment; wheels leave programs without the right to run.
fn compiler(interpreter: &Path) -> Result<PathBuf> {
    let environment = interpreter
        .parent()
        .and_then(Path::parent)
        .context("an environment")?;
    let packages = fs::read_dir(environment.join("lib"))?
        .filter_map(Result::ok)
        .map(|folder| folder.path().join("site-packages/nvidia/cu13"))
        .find(|folder| folder.join("bin/nvcc").is_file())
        .context("the wheels hold no nvcc")?;
    for folder in ["bin", "nvvm/bin"] {
        execute(
            Command::new("chmod")
                .args(["-R", "+x"])
                .arg(packages.join(folder)),
        )?;
    }
    Ok(packages.join("bin/nvcc"))
}

fn compile(nvcc: &Path, job: &Job, check: bool) -> Result<()> {
    let folder = root().join("crates/cuda");
    let committed = folder.join(format!("ptx/sm_{}/{}.ptx.z", job.architecture, job.name));
    let out = crate::command::target().join(format!("cuda/{}-{}.ptx", job.name, job.architecture));
    let mut command = Command::new(nvcc);
    // Without contraction the text has only operations that are rounded once, which the driver may not join.
    command
        .args(["-ptx", "-O3", "-std=c++17", "--fmad=false"])
        .arg(format!("-arch=compute_{}", job.architecture))
        .args(job.define.map(|ty| format!("-DTYPE={ty}")))
        .arg("-o")
        .args([&out, &PathBuf::from(format!("kernels/{}.cu", job.source))])
        .current_dir(&folder);
    let output = command.output().context("nvcc does not start")?;
    if !output.status.success() {
        bail!("{}", String::from_utf8_lossy(&output.stderr));
    }
    let text = fs::read(&out)?;
    if check {
        // How it is packed is nobody's concern.
        let same = fs::read(&committed)
            .is_ok_and(|packed| decompress_to_vec_zlib(&packed).is_ok_and(|old| old == text));
        if !same {
            bail!("the committed text is another; run `cargo xtask cuda`");
        }
        return Ok(());
    }
    fs::create_dir_all(committed.parent().context("a folder")?)?;
    fs::write(&committed, compress_to_vec_zlib(&text, LEVEL))?;
    Ok(())
}

/// Compares golden models and the built-in one with the processors on the GPU of this machine.
pub(crate) fn test() -> Result<()> {
    execute(cargo("run --release --package strata-cuda --example gpu -- check").arg(root()))
}
