//! A virtual machine, as QEMU's arguments.

use std::ffi::OsString;
use std::fmt;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// How long QEMU may take to say whether KVM works.
const PROBING: Duration = Duration::from_secs(10);

/// What QEMU emulates.
#[derive(Copy, Clone, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Machine {
    /// Without PCI: the soonest to boot.
    Microvm,
    /// A PC with PCI.
    Q35,
}

impl Machine {
    /// The smallest that has a place for what further arguments name.
    pub(super) fn for_arguments(arguments: &[OsString]) -> Self {
        let adds = |word: &OsString| {
            ["-device", "--device", "-drive", "--drive", "-hda", "-cdrom"]
                .iter()
                .any(|name| word == name)
        };
        if arguments.iter().any(adds) {
            Self::Q35
        } else {
            Self::Microvm
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Microvm => "microvm",
            Self::Q35 => "q35",
        }
    }

    /// A virtio device, as it is called there.
    fn virtio(self, kind: &str) -> String {
        match self {
            Self::Microvm => format!("virtio-{kind}-device"),
            Self::Q35 => format!("virtio-{kind}-pci"),
        }
    }
}

/// What runs the guest's instructions.
#[derive(Copy, Clone, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Accelerator {
    /// The processor itself.
    Kvm,
    /// QEMU's emulation, which is many times slower.
    Tcg,
}

impl Accelerator {
    fn name(self) -> &'static str {
        match self {
            Self::Kvm => "kvm",
            Self::Tcg => "tcg",
        }
    }

    /// KVM, where this user may use it and QEMU gets along with it.
    pub(super) fn best(qemu: &str) -> Self {
        let device = OpenOptions::new().read(true).write(true).open("/dev/kvm");
        if device.is_ok() && starts_with_kvm(qemu).unwrap_or(false) {
            Self::Kvm
        } else {
            Self::Tcg
        }
    }
}

/// Whether a machine that halts at once can be started: inside of other virtual machines the device may be there, and
/// QEMU end with a fault all the same.
fn starts_with_kvm(qemu: &str) -> std::io::Result<bool> {
    let mut probe = Command::new(qemu)
        .args(
            "-M microvm -accel kvm -cpu max -nodefaults -display none -S -monitor stdio".split(' '),
        )
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    if let Some(mut monitor) = probe.stdin.take() {
        // Where it has ended already, its status tells.
        let _ = monitor.write_all(b"quit\n");
    }
    let begin = Instant::now();
    while begin.elapsed() < PROBING {
        if let Some(status) = probe.try_wait()? {
            return Ok(status.success());
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    probe.kill()?;
    probe.wait()?;
    Ok(false)
}

impl fmt::Display for Accelerator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Kvm => "with KVM",
            Self::Tcg => "emulated, which is slow",
        })
    }
}

/// How the guest gets its model.
#[derive(Copy, Clone, Debug)]
pub(super) enum Model<'a> {
    /// It is behind the kernel.
    Attached,
    /// QEMU loads the file beside the kernel.
    Module(&'a Path),
    /// The file is a disk.
    Disk(&'a Path),
}

/// A guest.
pub(super) struct Guest<'a> {
    pub(super) machine: Machine,
    pub(super) accelerator: Accelerator,
    pub(super) memory: u64,
    pub(super) processors: usize,
    pub(super) kernel: &'a Path,
    pub(super) model: Model<'a>,
    pub(super) options: &'a str,
    /// A port of this machine's loopback, and the guest's that it leads to.
    pub(super) forward: (u16, u16),
}

impl Guest<'_> {
    pub(super) fn describe(&self, command: &mut Command) {
        let mib = self.memory.div_ceil(1 << 20);
        command.args(["-M", self.machine.name(), "-m", &format!("{mib}M")]);
        command.args(["-smp", &self.processors.to_string(), "-cpu", "max"]);
        command.args(["-nodefaults", "-display", "none", "-serial", "stdio"]);
        command.args(["-accel", self.accelerator.name()]);
        command.arg("-kernel").arg(self.kernel);
        match self.model {
            Model::Attached => {}
            Model::Module(path) => drop(command.arg("-initrd").arg(path)),
            Model::Disk(path) => {
                let mut drive = OsString::from("if=none,id=model,format=raw,readonly=on,file=");
                // A comma ends a field, and two of them are one.
                drive.push(path.to_string_lossy().replace(',', ",,"));
                let disk = format!("{},drive=model", self.machine.virtio("blk"));
                command.arg("-drive").arg(drive).args(["-device", &disk]);
            }
        }
        command.args(["-append", self.options]);
        let (here, there) = self.forward;
        let network = format!("user,id=n,hostfwd=tcp:127.0.0.1:{here}-:{there}");
        let card = format!("{},netdev=n", self.machine.virtio("net"));
        command.args(["-netdev", &network, "-device", &card]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn described(guest: &Guest<'_>) -> String {
        let mut command = Command::new("qemu");
        guest.describe(&mut command);
        let words = command.get_args().map(|word| word.to_string_lossy());
        words.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn only_this_machine_reaches_the_guest() {
        let guest = Guest {
            machine: Machine::Microvm,
            accelerator: Accelerator::Tcg,
            memory: 128 << 20,
            processors: 2,
            kernel: Path::new("k"),
            model: Model::Module(Path::new("m")),
            options: "name=x",
            forward: (8080, 11434),
        };
        let line = described(&guest);
        assert!(line.contains("hostfwd=tcp:127.0.0.1:8080-:11434"), "{line}");
        assert!(line.contains("-m 128M -smp 2"), "{line}");
        assert!(
            line.contains("-kernel k -initrd m -append name=x"),
            "{line}"
        );
        assert!(!line.contains("kvm"), "{line}");
        let line = described(&Guest {
            machine: Machine::Q35,
            model: Model::Disk(Path::new("a,b")),
            ..guest
        });
        assert!(
            line.contains("readonly=on,file=a,,b -device virtio-blk-pci,drive=model"),
            "{line}"
        );
    }

    #[test]
    fn devices_ask_for_a_machine_with_places() {
        let arguments = |words: &[&str]| words.iter().map(OsString::from).collect::<Vec<_>>();
        assert_eq!(
            Machine::for_arguments(&arguments(&["-s"])),
            Machine::Microvm
        );
        let disk = arguments(&["-drive", "file=x", "-device", "nvme"]);
        assert_eq!(Machine::for_arguments(&disk), Machine::Q35);
    }
}
