//! A virtual machine, as QEMU's arguments.

use crate::image::kernel::Arch;
use std::ffi::OsString;
use std::fmt;
use std::fs::OpenOptions;
use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// How long the kernel may take to boot with KVM; it takes some tenths of a second.
const PROBING: Duration = Duration::from_secs(5);

/// What the kernel says on a machine without a network card, once it has started its processors and devices.
const BOOTED: &str = "there is no network";

/// What QEMU emulates.
#[derive(Copy, Clone, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Machine {
    /// Without PCI: the soonest to boot.
    Microvm,
    /// A PC with PCI.
    Q35,
    /// The machine that QEMU has for AArch64.
    Virt,
}

impl Machine {
    /// The smallest that has a place for what further arguments name.
    pub(super) fn for_arguments(arch: Arch, arguments: &[OsString]) -> Self {
        if arch == Arch::Arm {
            return Self::Virt;
        }
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
            Self::Virt => "virt",
        }
    }

    /// The processors that it has.
    pub(super) fn arch(self) -> Arch {
        match self {
            Self::Microvm | Self::Q35 => Arch::X86,
            Self::Virt => Arch::Arm,
        }
    }

    /// A virtio device, as it is called there.
    fn virtio(self, kind: &str) -> String {
        match self {
            Self::Microvm | Self::Virt => format!("virtio-{kind}-device"),
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

    /// KVM, where this user may use it and a kernel boots with it.
    pub(super) fn best(arch: Arch, kernel: &Path) -> Self {
        let device = OpenOptions::new().read(true).write(true).open("/dev/kvm");
        let (here, machine) = match arch {
            Arch::X86 => (cfg!(target_arch = "x86_64"), "microvm"),
            Arch::Arm => (cfg!(target_arch = "aarch64"), "virt,gic-version=host"),
        };
        if here && device.is_ok() && boots_with_kvm(qemu(arch), machine, kernel).unwrap_or(false) {
            Self::Kvm
        } else {
            Self::Tcg
        }
    }
}

/// Whether the kernel gets as far as looking for a network: inside of other virtual machines the device may be there, and
/// the guest stand still or QEMU end with a fault all the same.
fn boots_with_kvm(qemu: &str, machine: &str, kernel: &Path) -> std::io::Result<bool> {
    let mut probe = Command::new(qemu)
        .args(["-M", machine])
        .args("-accel kvm -cpu max -m 256M -nodefaults -display none".split(' '))
        .args(["-serial", "stdio", "-kernel"])
        .arg(kernel)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let (sender, receiver) = mpsc::channel();
    if let Some(mut serial) = probe.stdout.take() {
        std::thread::spawn(move || {
            let mut bytes = [0; 512];
            while let Ok(len @ 1..) = serial.read(&mut bytes) {
                if sender.send(bytes[..len].to_vec()).is_err() {
                    return;
                }
            }
        });
    }
    let (begin, mut said) = (Instant::now(), Vec::new());
    let boots = loop {
        match receiver.recv_timeout(PROBING.saturating_sub(begin.elapsed())) {
            Ok(bytes) => said.extend(bytes),
            // It has ended, or stands still.
            Err(_) => break false,
        }
        if String::from_utf8_lossy(&said).contains(BOOTED) {
            break true;
        }
    };
    // It may have ended by now.
    let _ = probe.kill();
    probe.wait()?;
    Ok(boots)
}

/// What emulates such processors.
pub(super) fn qemu(arch: Arch) -> &'static str {
    match arch {
        Arch::X86 => "qemu-system-x86_64",
        Arch::Arm => "qemu-system-aarch64",
    }
}

/// Firmware for virtual machines with AArch64, as distributions install it, in the size that QEMU's flash has.
const FIRMWARE_AARCH64: [&str; 2] = [
    "/usr/share/AAVMF/AAVMF_CODE.fd",
    "/usr/share/edk2/aarch64/QEMU_EFI-pflash.raw",
];

/// Firmware for virtual machines, as distributions install it.
const FIRMWARE: [&str; 5] = [
    "/usr/share/OVMF/OVMF_CODE_4M.fd",
    "/usr/share/OVMF/OVMF_CODE.fd",
    "/usr/share/edk2/x64/OVMF_CODE.4m.fd",
    "/usr/share/edk2/ovmf/OVMF_CODE.fd",
    "/opt/homebrew/share/qemu/edk2-x86_64-code.fd",
];

/// Where this machine has such firmware.
pub(super) fn firmware(arch: Arch) -> Option<&'static Path> {
    let list = match arch {
        Arch::X86 => &FIRMWARE[..],
        Arch::Arm => &FIRMWARE_AARCH64,
    };
    list.iter().map(Path::new).find(|path| path.is_file())
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
    /// A disk with the kernel and the model, which this firmware boots.
    Firmware { code: &'a Path, disk: &'a Path },
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
        let mut machine = self.machine.name().to_owned();
        if self.machine == Machine::Virt {
            machine += match (self.accelerator, &self.model) {
                // The kernel reads device trees, which firmware hands on where there is no ACPI.
                (_, Model::Firmware { .. }) => ",acpi=off",
                (Accelerator::Kvm, _) => ",gic-version=host",
                (Accelerator::Tcg, _) => ",gic-version=3",
            };
        }
        command.args(["-M", &machine, "-m", &format!("{mib}M")]);
        command.args(["-smp", &self.processors.to_string(), "-cpu", "max"]);
        command.args(["-nodefaults", "-display", "none", "-serial", "stdio"]);
        command.args(["-accel", self.accelerator.name()]);
        let drive = |fields: &str, path: &Path| {
            // A comma ends a field, and two of them are one.
            let path = path.to_string_lossy().replace(',', ",,");
            format!("{fields},format=raw,readonly=on,file={path}")
        };
        let disk = format!("{},drive=model", self.machine.virtio("blk"));
        let firmware = matches!(self.model, Model::Firmware { .. });
        if self.machine == Machine::Virt {
            command.args(["-device", "virtio-rng-device"]);
        }
        if !firmware {
            command.arg("-kernel").arg(self.kernel);
        }
        match self.model {
            Model::Attached => {}
            Model::Module(path) => drop(command.arg("-initrd").arg(path)),
            Model::Disk(path) => {
                command.args(["-drive", &drive("if=none,id=model", path)]);
                command.args(["-device", &disk]);
            }
            Model::Firmware { code, disk: path } => {
                command.args(["-drive", &drive("if=pflash", code)]);
                command.args(["-drive", &drive("if=none,id=model", path)]);
                command.args(["-device", &disk]);
            }
        }
        if !firmware {
            command.args(["-append", self.options]);
        }
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
        let line = described(&Guest {
            machine: Machine::Q35,
            model: Model::Firmware {
                code: Path::new("ovmf"),
                disk: Path::new("disk"),
            },
            ..guest
        });
        assert!(
            line.contains("if=pflash,format=raw,readonly=on,file=ovmf"),
            "{line}"
        );
        assert!(!line.contains("-kernel"), "{line}");
        let line = described(&Guest {
            machine: Machine::Virt,
            model: Model::Attached,
            ..guest
        });
        assert!(line.contains("-M virt,gic-version=3 -m 128M"), "{line}");
        assert!(
            line.contains("-device virtio-net-device,netdev=n"),
            "{line}"
        );
    }

    /// A machine whose KVM starts no instruction says nothing and does not end.
    #[cfg(unix)]
    #[test]
    fn a_guest_that_stands_still_is_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let program = |text: &str| {
            let path = folder.path().join("qemu");
            std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
            use std::os::unix::fs::PermissionsExt;
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
            path.to_string_lossy().into_owned()
        };
        let kernel = Path::new("k");
        let begin = Instant::now();
        let boots_with_kvm = |qemu: &str, kernel| boots_with_kvm(qemu, "microvm", kernel);
        assert!(!boots_with_kvm(&program("exec sleep 60"), kernel).unwrap());
        assert!(begin.elapsed() < 4 * PROBING);
        assert!(!boots_with_kvm(&program("echo fault; exit 1"), kernel).unwrap());
        let boots = format!("echo \"strata: {BOOTED} to serve through\"; exec sleep 60");
        assert!(boots_with_kvm(&program(&boots), kernel).unwrap());
    }

    #[test]
    fn devices_ask_for_a_machine_with_places() {
        let arguments = |words: &[&str]| words.iter().map(OsString::from).collect::<Vec<_>>();
        assert_eq!(
            Machine::for_arguments(Arch::X86, &arguments(&["-s"])),
            Machine::Microvm
        );
        let disk = arguments(&["-drive", "file=x", "-device", "nvme"]);
        assert_eq!(Machine::for_arguments(Arch::X86, &disk), Machine::Q35);
        assert_eq!(Machine::for_arguments(Arch::Arm, &disk), Machine::Virt);
    }
}
