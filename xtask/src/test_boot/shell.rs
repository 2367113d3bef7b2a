//! A session at the serial line: every command that does something, and what it does.

use super::client::{KEY, greet};
use super::guest::{Boot, Guest, TIMEOUT, done, expect};
use super::server;
use crate::unikernel::Built;
use anyhow::{Context, Result, ensure};
use std::time::{Duration, Instant};

pub(super) fn session(built: &Built) -> Result<()> {
    let begin = Instant::now();
    let options = format!("key={KEY}");
    let boot = Boot {
        machine: "q35",
        options: &options,
        ..Boot::default()
    };
    let boot = boot.with(&["-no-reboot"]);
    let mut guest = boot.start(Some(&built.elf), Some("virtio-net-pci"))?;
    server::ready(&mut guest.running)?;
    inspection(&mut guest)?;
    model(&mut guest)?;
    serving(&mut guest)?;
    let idle = idle_share(&guest, 10)?;
    ensure!(
        idle < 10.0,
        "an idle machine takes {idle:.1}% of a processor"
    );
    ends(&mut guest, "reboot")?;
    let mut guest = Boot {
        machine: "microvm",
        options: &options,
        ..Boot::default()
    }
    .start(Some(&built.elf), Some("virtio-net-device"))?;
    server::ready(&mut guest.running)?;
    let small = idle_share(&guest, 10)?;
    ensure!(
        small < 10.0,
        "an idle microvm takes {small:.1}% of a processor"
    );
    ends(&mut guest, "shutdown")?;
    let name = format!("a session at the shell; idle at {idle:.1}% (q35), {small:.1}% (microvm)");
    done(&name, begin);
    Ok(())
}

/// Types a command, and gives what it says up to the next prompt.
fn command(guest: &mut Guest, line: &str) -> Result<String> {
    let said = guest.ask(line, "\n> ")?;
    Ok(said.trim_end_matches("> ").into())
}

fn inspection(guest: &mut Guest) -> Result<()> {
    for (line, signs) in [
        ("info", &["by Pvh, 2 processors", "command line: key=…"][..]),
        ("free", &[" KiB of ", " pieces"]),
        ("uptime", &[" s"]),
        ("cpuid", &["avx2", "hypervisor"]),
        ("memmap", &["KiB free"]),
        ("lspci", &["1af4"]),
        ("ip", &["10.0.2.15/24, port 11434 open"]),
        ("config get port", &["the port that clients call"]),
        ("watchdog", &["120 s"]),
        ("watchdog 77", &[]),
        ("watchdog soon", &["watchdog [SECONDS]"]),
        ("ping nowhere", &["ping ADDRESS"]),
        ("colour", &["there is no command \"colour\""]),
    ] {
        let said = command(guest, line)?;
        signs.iter().try_for_each(|sign| expect(&said, sign))?;
    }
    guest.ask("clear", "\x1b[2J\x1b[H> ")?;
    guest.ask("dmesg", "serving tale at http://")?;
    // Prompts are among what was said before, so that the last of them is not known by its look.
    std::thread::sleep(Duration::from_secs(1));
    Ok(())
}

fn model(guest: &mut Guest) -> Result<()> {
    expect(&command(guest, "model info")?, "tale: llama")?;
    expect(&command(guest, "ai")?, "ai PROMPT")?;
    let told = command(guest, "ai Once upon a time")?;
    ensure!(told.len() > 100, "the model said only {told:?}");
    let speed = command(guest, "bench")?;
    expect(&speed, " written, ")?;
    ensure!(!speed.contains(" 0.0 a second"), "{speed}");
    // Until a key is pressed.
    guest.ask("top", "pages free")?;
    guest.ask("", "> ")?;
    Ok(())
}

fn serving(guest: &mut Guest) -> Result<()> {
    command(guest, "serve stop")?;
    expect(&command(guest, "ip")?, "port 11434 closed")?;
    let refused = greet(guest.address(), TIMEOUT);
    ensure!(refused.is_err(), "a closed door answered {refused:?}");
    command(guest, "serve start")?;
    server::ready(&mut guest.running)?;
    expect(&command(guest, "serve")?, "serve start, serve stop")
}

/// A command after which there is no machine any more.
fn ends(guest: &mut Guest, line: &str) -> Result<()> {
    guest.write(line)?;
    let begin = Instant::now();
    while begin.elapsed() < TIMEOUT {
        if let Some(status) = guest.running.child.try_wait()? {
            ensure!(status.success(), "QEMU ended with {status} after {line}");
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    anyhow::bail!("{line} ended nothing:\n{}", guest.said())
}

/// How much of a processor QEMU takes while nobody asks anything, in hundredths.
fn idle_share(guest: &Guest, seconds: u64) -> Result<f64> {
    let id = guest.running.child.id();
    let ticks = || -> Result<u64> {
        let text = std::fs::read_to_string(format!("/proc/{id}/stat"))?;
        let (_, fields) = text.rsplit_once(") ").context("what is this process?")?;
        let fields: Vec<&str> = fields.split(' ').collect();
        Ok(fields[11].parse::<u64>()? + fields[12].parse::<u64>()?)
    };
    std::thread::sleep(Duration::from_secs(2));
    let before = ticks()?;
    std::thread::sleep(Duration::from_secs(seconds));
    // Linux counts hundredths of seconds.
    Ok((ticks()? - before) as f64 / seconds as f64)
}
