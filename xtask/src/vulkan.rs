//! The kernels for Vulkan: compiled to SPIR-V with a pinned compiler, from the registry of Rust's packages.

mod spirv;

use crate::command::{answers, cargo, debian_install, root, run as execute, target};
use anyhow::{Context, Result, bail, ensure};
use miniz_oxide::deflate::compress_to_vec_zlib;
use miniz_oxide::inflate::decompress_to_vec_zlib;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The compiler's project: the sources of glslang are in the package. Another version gives other words.
const MANIFEST: &str = r#"[package]
name = "spirv-compiler"
edition = "2024"

[dependencies]
glslang = "=0.9.1"
glslang-sys = "=0.9.2"

[workspace]
"#;
const PROGRAM: &str = include_str!("vulkan/compiler.rs");

/// Kernels that are one file each.
const FILES: [&str; 14] = [
    "activate",
    "adapter_add",
    "adapter_weights",
    "choose_experts",
    "expert_inputs",
    "finish_mixed",
    "float",
    "gather_experts",
    "join_chunks",
    "logits",
    "output_rows",
    "project_heads",
    "residual",
    "self_test",
];

/// Types whose products are files of their own.
const TYPES: [&str; 13] = [
    "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "IQ4_NL", "MXFP4", "Q4_K", "Q5_K", "Q6_K", "Q3_K",
    "Q2_K", "IQ4_XS",
];

/// zlib's highest level.
const LEVEL: u8 = 10;

/// One module to make.
struct Job {
    name: String,
    source: &'static str,
    defines: Vec<String>,
}

fn jobs() -> Vec<Job> {
    let job = |name: String, source, defines| Job {
        name,
        source,
        defines,
    };
    let mut jobs: Vec<Job> = FILES
        .iter()
        .map(|name| job(name.to_string(), *name, Vec::new()))
        .collect();
    for heads in [1, 2, 4] {
        let defines = vec![format!("HEADS {heads}")];
        jobs.push(job(format!("attend_{heads}"), "attend", defines));
    }
    for ty in TYPES {
        let ty_is = format!("TYPE {ty}");
        jobs.push(job(format!("gemv_{ty}"), "matmul", vec![ty_is.clone()]));
        let defines = vec![ty_is, "ROWS".into()];
        jobs.push(job(format!("tiles_{ty}"), "matmul", defines));
    }
    // All of them also for devices that do not fuse, but have 64-bit floats.
    let with_doubles = |plain: &Job| {
        let defines = plain.defines.iter().cloned().chain(["DOUBLES".into()]);
        job(
            format!("{}_f64", plain.name),
            plain.source,
            defines.collect(),
        )
    };
    let others: Vec<Job> = jobs.iter().map(with_doubles).collect();
    jobs.extend(others);
    jobs
}

/// Compiles all kernels, or checks that what is committed is what the compiler makes.
pub(crate) fn build(check: bool) -> Result<()> {
    let compiler = compiler()?;
    let folder = root().join("crates/vulkan");
    let jobs = jobs();
    for job in &jobs {
        let words = compile(&compiler, job).with_context(|| job.name.clone())?;
        let committed = folder.join(format!("spirv/{}.spv.z", job.name));
        if check {
            // How it is packed is nobody's concern.
            let same = fs::read(&committed)
                .is_ok_and(|packed| decompress_to_vec_zlib(&packed).is_ok_and(|old| old == words));
            ensure!(
                same,
                "{}: the committed words are others; run `cargo xtask vulkan`",
                job.name
            );
        } else {
            fs::create_dir_all(folder.join("spirv"))?;
            fs::write(&committed, compress_to_vec_zlib(&words, LEVEL))?;
        }
    }
    if !check {
        fs::write(folder.join("spirv/sources.txt"), digest()?)?;
    }
    let done = if check {
        "are as committed"
    } else {
        "were written"
    };
    eprintln!("{} modules for Vulkan {done}", jobs.len());
    Ok(())
}

/// Installs Mesa's drivers, among which is one without a GPU, where there is none and apt-get can.
pub(crate) fn install_driver() -> Result<()> {
    let folders = ["/usr/share/vulkan/icd.d", "/etc/vulkan/icd.d"];
    let has_driver = folders
        .iter()
        .any(|folder| fs::read_dir(folder).is_ok_and(|mut drivers| drivers.next().is_some()));
    if !has_driver && answers(Command::new("apt-get").arg("--version")) {
        debian_install(&["libvulkan1", "mesa-vulkan-drivers"])?;
    }
    Ok(())
}

/// FNV-1a over the names and texts of all kernels, in order: a test in `crates/vulkan` compares it, without a compiler.
fn digest() -> Result<String> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(root().join("crates/vulkan/kernels"))? {
        paths.push(entry?.path());
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

/// Builds the compiler, which takes a C++ compiler and about a minute, once.
fn compiler() -> Result<PathBuf> {
    let folder = target().join("vulkan-compiler");
    fs::create_dir_all(folder.join("src"))?;
    fs::write(folder.join("Cargo.toml"), MANIFEST)?;
    fs::write(folder.join("src/main.rs"), PROGRAM)?;
    let mut command = cargo("build --quiet --manifest-path");
    command
        .arg(folder.join("Cargo.toml"))
        .arg("--target-dir")
        .arg(folder.join("target"))
        .env_remove("RUSTC_WORKSPACE_WRAPPER");
    execute(&mut command)?;
    Ok(folder.join("target/debug/spirv-compiler"))
}

fn compile(compiler: &Path, job: &Job) -> Result<Vec<u8>> {
    let text = text(&format!("{}.comp", job.source))?;
    let (version, rest) = text.split_once('\n').context("a version")?;
    let defines = job
        .defines
        .iter()
        .map(|define| format!("#define {define}\n"));
    let text = format!("{version}\n{}{rest}", defines.collect::<String>());
    let mut child = Command::new(compiler)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let mut input = child.stdin.take().context("a pipe")?;
    input.write_all(text.as_bytes())?;
    drop(input);
    let output = child.wait_with_output()?;
    if !output.status.success() {
        bail!("{}", String::from_utf8_lossy(&output.stderr));
    }
    spirv::finish(&output.stdout)
}

/// A source with the files that it includes.
fn text(name: &str) -> Result<String> {
    let text = fs::read_to_string(root().join("crates/vulkan/kernels").join(name))?;
    let mut out = String::new();
    for line in text.lines() {
        match line.strip_prefix("#include \"") {
            Some(rest) => out += &self::text(rest.trim_end_matches('"'))?,
            None => {
                out += line;
                out.push('\n');
            }
        }
    }
    Ok(out)
}
