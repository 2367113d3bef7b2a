//! `strata boot`: the unikernel in QEMU, with its server on a port of this machine.

mod machine;

use crate::failure::{Failure, Kind};
use crate::image::kernel::Arch;
use crate::{image, stop_signal};
use machine::{Machine, Model};
use std::ffi::OsString;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::time::Duration;
use strata::Size;
use strata::load::{BUILT_IN, ModelFile};
use strata_image::{Architecture, Form, Trust};
use strata_model::{Blueprint, KvType, LoadOptions};

/// The port that the unikernel listens on.
const GUEST_PORT: u16 = 11434;
/// Positions that the unikernel keeps at most: two texts of 4096.
const POSITIONS: usize = 2 * 4096;
/// What the unikernel takes beside its model: itself, activations, tables of the tokenizer.
const BESIDE: u64 = 64 << 20;
/// With less nothing is gained.
const LEAST: u64 = 128 << 20;
/// QEMU puts a model beside the kernel below 3 GiB, where the guest's first memory ends, or 2 GiB on a PC. A larger
/// one is a disk.
const MOST_MODULE: u64 = 1800 << 20;

/// Boot a model in QEMU, without an operating system
#[derive(clap::Args)]
#[command(after_help = "\
The machine's serial line is this terminal, with a shell: `help` lists its commands, `shutdown` ends it.
The port can only be reached from this machine, so no key is needed.")]
pub(crate) struct Arguments {
    /// The model: a .gguf file, or a name that `strata list` shows
    #[arg(value_name = "MODEL", default_value = BUILT_IN)]
    model: PathBuf,
    /// The port on this machine at which the server can be reached
    #[arg(long, value_name = "N", default_value_t = 11434, value_parser = clap::value_parser!(u16).range(1..))]
    port: u16,
    /// The guest's memory [default: as much as the model needs]
    #[arg(long, value_name = "M")]
    memory: Option<Size>,
    /// The guest's processors [default: all of this machine's]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    cpus: Option<u16>,
    /// API key that clients must send
    #[arg(
        long,
        value_name = "KEY",
        env = "STRATA_API_KEY",
        hide_env_values = true
    )]
    api_key: Option<String>,
    /// The processors that QEMU emulates [default: those of --kernel, or x86_64]
    #[arg(long, value_enum)]
    arch: Option<Arch>,
    /// The machine type that QEMU emulates [default: microvm, or q35 with extra QEMU arguments; virt for aarch64]
    #[arg(long, value_enum)]
    machine: Option<Machine>,
    /// Boot a disk image by UEFI firmware (OVMF), as real machines do; implies --machine q35; x86_64 only
    #[arg(long, conflicts_with_all = ["machine"])]
    uefi: bool,
    /// How to run the guest [default: KVM where available, otherwise emulation]
    #[arg(long, value_enum)]
    accel: Option<machine::Accelerator>,
    /// The unikernel image [default: the one in this program, or the one built by `cargo xtask unikernel`]
    #[arg(long, value_name = "FILE")]
    kernel: Option<PathBuf>,
    /// Extra arguments for QEMU
    #[arg(last = true, value_name = "QEMU ARGS")]
    qemu: Vec<OsString>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let file = image::kernel::find(arguments.kernel.as_deref(), arguments.arch)?;
    let kernel = image::kernel::parse(&file, arguments.arch)?;
    let arch = match kernel.architecture() {
        Architecture::X86_64 => Arch::X86,
        Architecture::Aarch64 => Arch::Arm,
    };
    if arguments.uefi && arch == Arch::Arm {
        let sentence = "UEFI firmware does not start the unikernel for aarch64 yet";
        return Err(Failure::new(Kind::Usage, sentence).hint("leave --uefi out"));
    }
    let machine = match arguments.machine {
        Some(machine) if machine.arch() == arch => machine,
        Some(_) => {
            let name = kernel.architecture().name();
            let sentence = format_args!("that machine has no processors of {name}");
            return Err(Failure::new(Kind::Usage, sentence)
                .hint("leave --machine out, or choose the processors with --arch"));
        }
        None if arguments.uefi && arch == Arch::X86 => Machine::Q35,
        None => Machine::for_arguments(arch, &arguments.qemu),
    };
    let model = ModelFile::open(&arguments.model)?;
    let bytes = model.whole()?;
    let memory = match arguments.memory {
        Some(Size(bytes)) => bytes,
        None => needed(&model)?,
    };
    let mut options = vec![("name".to_owned(), image::name(&arguments.model))];
    options.extend(
        arguments
            .api_key
            .clone()
            .map(|key| ("api-key".to_owned(), key)),
    );
    image::check(&options)?;
    image::hide_key(&mut options);
    free(arguments.port)?;

    let folder = tempfile::Builder::new().prefix("strata-boot-").tempdir();
    let folder = folder.map_err(|error| Failure::io("cannot create a temporary folder", &error))?;
    let path = folder.path().join("kernel");
    let disk = folder.path().join("disk.img");
    // What QEMU's -kernel takes.
    let form = match arch {
        Arch::X86 => Form::Elf,
        Arch::Arm => Form::Efi,
    };
    let written = match form {
        Form::Elf => std::fs::write(&path, kernel.stripped()),
        _ => {
            let layout = strata_image::image(form, &kernel, &[], None);
            let layout = layout.map_err(|error| Failure::new(Kind::Failed, error))?;
            std::fs::write(&path, layout.to_vec())
        }
    };
    written.map_err(|error| Failure::io(path.display(), &error))?;
    let accelerator = arguments
        .accel
        .unwrap_or_else(|| machine::Accelerator::best(arch, &path));
    let source = match model.file() {
        _ if arguments.uefi => {
            let code = machine::firmware(arch).ok_or_else(|| {
                let failure = Failure::new(Kind::Failed, "UEFI firmware for QEMU is not installed");
                failure.hint(match arch {
                    Arch::X86 => "install ovmf (Debian, Ubuntu) or edk2-ovmf (Fedora, Arch)",
                    Arch::Arm => {
                        "install qemu-efi-aarch64 (Debian, Ubuntu) or edk2-aarch64 (Fedora, Arch)"
                    }
                })
            })?;
            let model = (bytes, arguments.model.as_path());
            let layout = image::layout(
                (Form::Img, None),
                &kernel,
                &options,
                model,
                &Trust::default(),
            )?;
            image::write(&layout, &disk)?;
            Model::Firmware { code, disk: &disk }
        }
        Some(file) => match bytes.len() as u64 {
            ..=MOST_MODULE => Model::Module(file),
            _ => Model::Disk(file),
        },
        None => {
            let model = (bytes, arguments.model.as_path());
            let layout = image::layout((form, None), &kernel, &[], model, &Trust::default())?;
            image::write(&layout, &path)?;
            Model::Attached
        }
    };
    let mut command = Command::new(machine::qemu(arch));
    machine::Guest {
        machine,
        accelerator,
        memory,
        processors: arguments.cpus.map_or_else(processors, usize::from),
        kernel: &path,
        model: source,
        options: &strata_image::options(&options),
        forward: (arguments.port, GUEST_PORT),
    }
    .describe(&mut command);
    command.args(&arguments.qemu);
    eprintln!(
        "booting {} with {} of memory, {accelerator}; open http://127.0.0.1:{}",
        arguments.model.display(),
        Size(memory),
        arguments.port
    );
    watch(spawn(arch, &mut command)?)
}

fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, |count| count.get().min(64))
}

/// What the guest needs: the model as it came, its weights as they are computed with, keys and values.
fn needed(model: &ModelFile) -> Result<u64, Failure> {
    let file = model.parse()?;
    let bytes = model.whole()?.len() as u64;
    let blueprint = Blueprint::new(&file, LoadOptions::default())
        .map_err(|error| strata::load::bad_model(model.path(), error))?;
    let positions = POSITIONS.min(2 * blueprint.config().context);
    let kv = blueprint.kv_bytes(KvType::F16, positions, 0) as u64;
    let all = bytes + blueprint.packed_bytes() as u64 + kv + BESIDE;
    Ok(all.next_multiple_of(16 << 20).max(LEAST))
}

/// QEMU's own message says nothing of ports.
fn free(port: u16) -> Result<(), Failure> {
    match TcpListener::bind((Ipv4Addr::LOCALHOST, port)) {
        Ok(_) => Ok(()),
        Err(error) => {
            let sentence = format_args!("cannot use port {port}: {error}");
            Err(Failure::new(Kind::Failed, sentence)
                .hint("another program may be using it; choose another with --port"))
        }
    }
}

fn spawn(arch: Arch, command: &mut Command) -> Result<Child, Failure> {
    let qemu = machine::qemu(arch);
    command.spawn().map_err(|error| match error.kind() {
        ErrorKind::NotFound => {
            let failure = Failure::new(Kind::Failed, format_args!("{qemu} is not installed"));
            failure.hint(match arch {
                Arch::X86 => "install qemu-system-x86 (Debian, Ubuntu, Arch), qemu-system-x86-core (Fedora) or qemu (Homebrew)",
                Arch::Arm => "install qemu-system-arm (Debian, Ubuntu), qemu-system-aarch64 (Fedora, Arch) or qemu (Homebrew)",
            })
        }
        _ => Failure::io(qemu, &error),
    })
}

/// Waits for the guest's end, and ends it where this program is to end.
fn watch(mut guest: Child) -> Result<(), Failure> {
    let failed = |error: std::io::Error| Failure::io("QEMU", &error);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(failed)?;
    let status = runtime.block_on(async {
        tokio::select! {
            stopped = stop_signal::received() => stopped?,
            status = ended(&mut guest) => return status.map(Some),
        }
        guest.kill()?;
        guest.wait()?;
        Ok(None)
    });
    match status.map_err(failed)? {
        Some(status) if !status.success() => Err(Failure::new(
            Kind::Failed,
            format_args!("QEMU failed with {status}"),
        )),
        _ => Ok(()),
    }
}

async fn ended(guest: &mut Child) -> std::io::Result<ExitStatus> {
    loop {
        if let Some(status) = guest.try_wait()? {
            return Ok(status);
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// A model's file that QEMU can load by itself.
trait OwnFile {
    fn file(&self) -> Option<&Path>;
}

impl OwnFile for ModelFile {
    fn file(&self) -> Option<&Path> {
        Some(self.path()).filter(|path| path.is_file())
    }
}
