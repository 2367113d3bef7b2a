//! A virtual machine, as QEMU's arguments.

use std::ffi::OsString;
use std::fmt;
use std::path::Path;
use std::process::Command;

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
        match arguments.iter().any(adds) {
            true => Self::Q35,
            false => Self::Microvm,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Microvm => "microvm",
            Self::Q35 => "q35",
        }
    }

    fn network_card(self) -> &'static str {
        match self {
            Self::Microvm => "virtio-net-device",
            Self::Q35 => "virtio-net-pci",
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
    /// KVM, where this user may use it.
    pub(super) fn best() -> Self {
        let device = std::fs::OpenOptions::new()
            .read(true)
            .write(true)
            .open("/dev/kvm");
        match device {
            Ok(_) => Self::Kvm,
            Err(_) => Self::Tcg,
        }
    }
}

impl fmt::Display for Accelerator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Kvm => "with KVM",
            Self::Tcg => "emulated, which is slow",
        })
    }
}

/// A guest.
pub(super) struct Guest<'a> {
    pub(super) machine: Machine,
    pub(super) accelerator: Accelerator,
    pub(super) memory: u64,
    pub(super) processors: usize,
    pub(super) kernel: &'a Path,
    /// A model that is loaded beside the kernel.
    pub(super) module: Option<&'a Path>,
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
        if self.accelerator == Accelerator::Kvm {
            command.args(["-accel", "kvm"]);
        }
        // Also where KVM is there and cannot be used.
        command.args(["-accel", "tcg"]);
        command.arg("-kernel").arg(self.kernel);
        if let Some(module) = self.module {
            command.arg("-initrd").arg(module);
        }
        command.args(["-append", self.options]);
        let (here, there) = self.forward;
        let network = format!("user,id=n,hostfwd=tcp:127.0.0.1:{here}-:{there}");
        let card = format!("{},netdev=n", self.machine.network_card());
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
            module: Some(Path::new("m")),
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
