//! The unikernel in QEMU, emulated: started, listened to, spoken to.

use super::placement::Monitor;
use crate::command::{answers, debian_install};
use anyhow::{Context, Result, anyhow, bail, ensure};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

const QEMU: &str = "qemu-system-x86_64";
const QEMU_AARCH64: &str = "qemu-system-aarch64";
/// QEMU's exit status for `then=exit`: twice 0x10, plus one.
const EXITED: i32 = 0x21;
/// Emulation on a machine that is busy with other tests is slow.
pub(super) const TIMEOUT: Duration = Duration::from_secs(600);
/// The port that the unikernel listens on.
const PORT: u16 = 11434;
const FIRMWARE: [&str; 3] = [
    "/usr/share/OVMF/OVMF_CODE_4M.fd",
    "/usr/share/OVMF/OVMF_CODE.fd",
    "/usr/share/edk2/x64/OVMF_CODE.4m.fd",
];

/// Finds or installs QEMU, or says why the tests are left out.
pub(super) fn install(what: &str, package: &str, there: impl Fn() -> bool) -> Result<bool> {
    if there() {
        return Ok(true);
    }
    let apt = answers(Command::new("apt-get").arg("--version"));
    let installed = if apt {
        debian_install(&[package])
    } else {
        Err(anyhow!("there is no apt-get"))
    };
    match installed {
        Ok(()) if there() => return Ok(true),
        Err(error) if std::env::var_os("CI").is_none() => {
            eprintln!("\nskipped: {what}, because {package} could not be installed: {error:#}");
        }
        Err(error) => return Err(error.context(format!("installing {package}"))),
        Ok(()) => bail!("{package} is installed and does not answer"),
    }
    Ok(false)
}

pub(super) fn install_qemu() -> Result<bool> {
    install("booting the unikernel", "qemu-system-x86", || {
        answers(Command::new(QEMU).arg("--version"))
    })
}

pub(super) fn install_qemu_for_aarch64() -> Result<bool> {
    install(
        "booting the unikernel on AArch64",
        "qemu-system-arm",
        || answers(Command::new(QEMU_AARCH64).arg("--version")),
    )
}

/// Where the firmware for virtual machines is.
pub(super) fn firmware() -> Result<Option<&'static str>> {
    let find = || FIRMWARE.into_iter().find(|path| Path::new(path).exists());
    let there = install("booting from UEFI firmware", "ovmf", || find().is_some())?;
    Ok(find().filter(|_| there))
}

/// A machine and how it is started.
pub(super) struct Boot<'a> {
    pub(super) name: &'a str,
    pub(super) machine: &'a str,
    pub(super) memory: &'a str,
    pub(super) processors: usize,
    pub(super) model: &'a str,
    pub(super) options: &'a str,
    pub(super) devices: Vec<String>,
}

impl Default for Boot<'_> {
    fn default() -> Self {
        Self {
            name: "",
            machine: "q35",
            memory: "128M",
            processors: 2,
            model: "max",
            options: "",
            devices: Vec::new(),
        }
    }
}

impl Boot<'_> {
    /// Adds QEMU's arguments.
    pub(super) fn with(mut self, arguments: &[&str]) -> Self {
        let arguments = arguments.iter().map(|word| String::from(*word));
        self.devices.extend(arguments);
        self
    }

    fn is_aarch64(&self) -> bool {
        self.machine.starts_with("virt") || self.machine.starts_with("raspi")
    }

    /// QEMU, with a kernel or with what its devices hold.
    fn command(&self, kernel: Option<&Path>) -> Command {
        let (qemu, exit) = if self.is_aarch64() {
            (
                QEMU_AARCH64,
                ["-semihosting-config", "enable=on,target=native"],
            )
        } else {
            (QEMU, ["-device", "isa-debug-exit,iobase=0xf4,iosize=4"])
        };
        let mut command = Command::new(qemu);
        command.args(["-M", self.machine, "-m", self.memory]);
        let processors = self.processors.to_string();
        command.args(["-accel", "tcg", "-cpu", self.model, "-smp", &processors]);
        command.args("-nodefaults -display none -serial stdio".split(' '));
        command.args(exit);
        if let Some(kernel) = kernel {
            command.arg("-kernel").arg(kernel);
            command.args(["-append", self.options]);
        }
        command.args(&self.devices);
        command.stderr(Stdio::inherit());
        command
    }

    /// Boots a kernel that ends by itself, and gives what it said.
    pub(super) fn run(&self, kernel: Option<&Path>) -> Result<String> {
        let (said, code) = self.finish(kernel)?;
        ensure!(
            code == Some(EXITED),
            "QEMU ended with {code:?} after:\n{said}"
        );
        Ok(said)
    }

    /// Boots, and gives what was said until the end, and QEMU's exit status.
    pub(super) fn finish(&self, kernel: Option<&Path>) -> Result<(String, Option<i32>)> {
        let begin = Instant::now();
        let mut child = self
            .command(kernel)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start {QEMU}"))?;
        let mut output = child.stdout.take().context("QEMU has no output")?;
        let (sender, receiver) = mpsc::channel();
        std::thread::spawn(move || {
            let mut said = Vec::new();
            let _ = output.read_to_end(&mut said);
            let _ = sender.send(said);
        });
        let said = receiver.recv_timeout(TIMEOUT);
        if said.is_err() {
            child.kill()?;
        }
        let status = child.wait()?;
        let Ok(said) = said.or_else(|_| receiver.recv()) else {
            bail!("what QEMU said was lost");
        };
        let said = String::from_utf8_lossy(&said).into_owned();
        done(self.name, begin);
        ensure!(
            begin.elapsed() < TIMEOUT,
            "{} took too long and said:\n{said}",
            self.name
        );
        Ok((said, status.code()))
    }

    /// Starts a guest that goes on, with its server on a port of the loopback address if it has a card.
    pub(super) fn start(mut self, kernel: Option<&Path>, card: Option<&str>) -> Result<Guest> {
        let address = free_port()?;
        let monitor = Monitor::new(&format!("port-{}", address.port()));
        self.devices.extend(monitor.arguments());
        if let Some(card) = card {
            let network = format!("user,id=n,hostfwd=tcp:{address}-:{PORT}");
            let card = format!("{card},netdev=n");
            self = self.with(&["-netdev", &network, "-device", &card]);
        }
        let mut child = self
            .command(kernel)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start {QEMU}"))?;
        let input = child.stdin.take().context("QEMU has no input")?;
        let mut output = child.stdout.take().context("QEMU has no output")?;
        let said = Arc::new(Mutex::new(Vec::new()));
        let heard = Arc::clone(&said);
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(len @ 1..) = output.read(&mut bytes) {
                if let Ok(mut said) = heard.lock() {
                    said.extend_from_slice(&bytes[..len]);
                }
            }
        });
        Ok(Guest {
            running: ServerProcess { child, address },
            input,
            said,
            monitor,
        })
    }
}

/// Tells that something was tested, and how long it took.
pub(super) fn done(name: &str, begin: Instant) {
    eprintln!("  boot: {name} ({:.1} s)", begin.elapsed().as_secs_f64());
}

pub(super) fn expect(said: &str, sign: &str) -> Result<()> {
    ensure!(
        said.contains(sign),
        "{sign:?} is not in what the machine said:\n{said}"
    );
    Ok(())
}

pub(super) fn free_port() -> Result<SocketAddr> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?)
}

/// A program that goes with this value.
pub(super) struct ServerProcess {
    pub(super) child: Child,
    pub(super) address: SocketAddr,
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A guest that runs.
pub(super) struct Guest {
    pub(super) running: ServerProcess,
    input: ChildStdin,
    /// Bytes, because a letter of several may come in pieces.
    said: Arc<Mutex<Vec<u8>>>,
    monitor: Monitor,
}

impl Guest {
    pub(super) fn address(&self) -> SocketAddr {
        self.running.address
    }

    /// Where its first processor is in its program.
    pub(super) fn program_counter(&self) -> Result<u64> {
        self.monitor.program_counter()
    }

    /// All that it has said.
    pub(super) fn said(&self) -> String {
        self.said_after(0)
    }

    /// Adds what the machine said to an error.
    pub(super) fn explain<T>(&self, result: Result<T>) -> Result<T> {
        result.map_err(|error| anyhow!("{error:#}\nThe machine said:\n{}", self.said()))
    }

    fn said_after(&self, from: usize) -> String {
        let Ok(said) = self.said.lock() else {
            return String::new();
        };
        String::from_utf8_lossy(&said[from..]).into_owned()
    }

    /// Waits for a sign after so many bytes of what was said, and gives all from there.
    pub(super) fn hear(&mut self, from: usize, sign: &str) -> Result<String> {
        let begin = Instant::now();
        loop {
            let said = self.said_after(from);
            if said.contains(sign) {
                return Ok(said);
            }
            if let Some(status) = self.running.child.try_wait()? {
                bail!("QEMU ended with {status} before {sign:?}:\n{said}");
            }
            ensure!(begin.elapsed() < TIMEOUT, "{sign:?} never came:\n{said}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Types a line into the shell, and gives what comes up to a sign.
    pub(super) fn ask(&mut self, line: &str, sign: &str) -> Result<String> {
        let from = self.said.lock().map_or(0, |said| said.len());
        self.write(line)?;
        self.hear(from, sign)
    }

    /// Types a line.
    pub(super) fn write(&mut self, line: &str) -> Result<()> {
        self.input.write_all(line.as_bytes())?;
        self.input.write_all(b"\r")?;
        Ok(self.input.flush()?)
    }
}

/// A file of the test's own.
pub(super) fn scratch(name: &str) -> PathBuf {
    crate::command::target().join("unikernel").join(name)
}
