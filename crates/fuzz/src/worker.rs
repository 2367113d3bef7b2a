//! One target in a process of its own, and the process that looks after it.

use crate::arguments::Arguments;
use anyhow::{Context, Result, bail};
use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use strata_fuzz::{Fuzzer, Limit, Target, corpus};

/// An input that takes longer is not waited for.
const HANGS: Duration = Duration::from_secs(60);

/// Runs the target of a process of its own.
pub(crate) fn run(arguments: &Arguments, current: &Path) -> Result<()> {
    let [target] = arguments.targets[..] else {
        bail!("a worker has one target");
    };
    // A panic is an answer; what it says comes with the report.
    std::panic::set_hook(Box::new(|_| {}));
    let file = File::create(current).with_context(|| format!("{}", current.display()))?;
    let started = watch_for_hangs();
    let begin = Instant::now();
    let mut about_to_run = |input: &[u8]| {
        started.store(begin.elapsed().as_millis() as u64, Ordering::Relaxed);
        // Its length first: the file is never made shorter, which would cost more.
        let _ = file.write_all_at(&(input.len() as u64).to_le_bytes(), 0);
        let _ = file.write_all_at(input, 8);
    };
    let report = Fuzzer::new(target, arguments.seed, &mut about_to_run).run(arguments.limit);
    started.store(u64::MAX, Ordering::Relaxed);
    println!(
        "{:<15} {:>8} mutants in {:>5.1} s, {:>4} outcomes, slowest {:>6.1} ms, most memory {:>6.1} MiB",
        target.name,
        report.mutants,
        begin.elapsed().as_secs_f64(),
        report.outcomes,
        report.slowest.as_secs_f64() * 1e3,
        report.most_memory as f64 / (1 << 20) as f64,
    );
    match report.failure {
        None => Ok(()),
        Some(failure) => {
            let path = keep(target, failure.violation.kind(), &failure.input)?;
            bail!(
                "{} {}\nthe input ({} bytes) is {}",
                target.name,
                failure.violation,
                failure.input.len(),
                path.display()
            )
        }
    }
}

/// Ends the process if one input takes for ever. Milliseconds since the start say when the input began.
fn watch_for_hangs() -> &'static AtomicU64 {
    static STARTED: AtomicU64 = AtomicU64::new(u64::MAX);
    let begin = Instant::now();
    std::thread::spawn(move || {
        loop {
            std::thread::sleep(Duration::from_secs(1));
            let started = Duration::from_millis(STARTED.load(Ordering::Relaxed));
            if begin.elapsed().saturating_sub(started) > HANGS {
                std::process::abort();
            }
        }
    });
    &STARTED
}

/// Runs a target in another process, and keeps the input that ended it if one did.
pub(crate) fn supervise(arguments: &Arguments, target: &'static Target) -> Result<()> {
    let current = std::env::temp_dir().join(format!(
        "strata-fuzz-{}-{}",
        std::process::id(),
        target.name
    ));
    let (option, number) = match arguments.limit {
        Limit::Mutants(mutants) => ("--mutants", mutants),
        Limit::Time(time) => ("--seconds", time.as_secs()),
    };
    let status = Command::new(std::env::current_exe()?)
        .arg(target.name)
        .args([option, &number.to_string()])
        .args(["--seed", &arguments.seed.to_string()])
        .arg("--worker")
        .arg(&current)
        .status()?;
    let input = fs::read(&current).unwrap_or_default();
    let _ = fs::remove_file(&current);
    // 1 is a failure that was reported.
    match status.code() {
        Some(0) => Ok(()),
        Some(1) => bail!("an input failed"),
        _ => {
            let (length, input) = input.split_at_checked(8).unwrap_or_default();
            let length = u64::from_le_bytes(length.try_into().unwrap_or_default()) as usize;
            let input = input.get(..length).unwrap_or(input);
            let path = keep(target, "crash", input)?;
            bail!(
                "the process ended ({status}): the stack overflowed, memory ran out, or the input took more than {} s\n\
                 the input ({} bytes) is {}",
                HANGS.as_secs(),
                input.len(),
                path.display()
            )
        }
    }
}

/// Leaves an input in `target/fuzz`.
fn keep(target: &Target, kind: &str, input: &[u8]) -> Result<PathBuf> {
    let mut hasher = DefaultHasher::new();
    input.hash(&mut hasher);
    let build = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    let build = build.unwrap_or_else(|| corpus::repository().join("target"));
    let folder = build.join("fuzz").join(target.name);
    fs::create_dir_all(&folder)?;
    let path = folder.join(format!("{kind}-{:016x}", hasher.finish()));
    fs::write(&path, input)?;
    Ok(path)
}
