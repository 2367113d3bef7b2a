//! `strata pack`: a model and its runtime in one artifact.

mod bootable;
mod components;
mod description;
pub(crate) mod keys;
mod registry;
mod shown;

use crate::failure::{Failure, Kind};
use crate::image;
use std::path::{Path, PathBuf};
use strata::Size;
use strata::load::{BUILT_IN, ModelFile};
use strata_host::MappedFile;
use strata_pack::{
    Artifact, Contents, Kind as Form, MachineNeeds, Manifest, PackError, PackedProgram, Start,
    StartMode, sha256,
};

/// Pack a model and its runtime into one artifact, or check one
///
/// The same model, program and flags give the same bytes.
#[derive(clap::Args)]
#[command(after_help = "\
The ending of NAME tells what is written:
  .run  a Linux executable: `./NAME.run` chats, `./NAME.run serve` serves, `unzip NAME.run` takes the models out
  .oci  a container image of that executable, as a tar archive of the OCI layout; the program must be linked statically
  .deb  a Debian package of that executable, with a service of systemd that is not enabled
  .snap a snap of that executable, with a service
  .elf, .efi, .img, .iso  a machine that boots into the model and its server, as `strata image` writes it

Examples:
  strata pack model.gguf -o model.run
  strata pack model-q8_0.gguf model-q4_k_m.gguf -o model.run    use the largest one that fits
  strata pack --new-key release                                 write release and release.pub
  strata pack model.gguf -o model.run --sign release
  strata pack --verify model.run --key release.pub
  strata pack model.gguf -o model.oci --program strata-static --push registry.example.org/team/model:1")]
pub(crate) struct Arguments {
    /// The model: a .gguf file, or a name that `strata list` shows; several are quantizations to choose from [default: tale]
    #[arg(value_name = "MODEL")]
    models: Vec<PathBuf>,
    /// Output file; the extension selects the kind of artifact
    #[arg(short, long, value_name = "NAME", required_unless_present_any = ["inspect", "verify", "new_key"])]
    output: Option<PathBuf>,
    /// What the artifact is called [default: the first model's name]
    #[arg(long, value_name = "TEXT")]
    name: Option<String>,
    /// Context length in tokens [default: the model's, at most 4096]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    ctx: Option<u32>,
    /// System prompt
    #[arg(long, value_name = "TEXT")]
    system: Option<String>,
    /// What the artifact does when it is started without a command
    #[arg(long, value_enum, value_name = "MODE")]
    start: Option<Mode>,
    /// The program to pack [default: this one]
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
    /// Write the models of a snap as components beside it, NAME+COMPONENT.comp, each of which is installed by itself
    #[arg(long, requires = "output")]
    components: bool,
    /// Send the container image to a registry too, as HOST/NAMESPACE/NAME:TAG
    #[arg(long, value_name = "NAME", requires = "output")]
    push: Option<String>,
    /// Allow a registry without TLS
    #[arg(long, requires = "push")]
    insecure: bool,
    /// Sign with the Ed25519 private key in this PEM file
    #[arg(long, value_name = "KEY")]
    sign: Option<PathBuf>,
    /// Show what is in an artifact, without checking it
    #[arg(long, value_name = "ARTIFACT", group = "only")]
    inspect: Option<PathBuf>,
    /// Print the manifest as JSON
    #[arg(long, requires = "inspect")]
    json: bool,
    /// Check every byte of an artifact
    #[arg(long, value_name = "ARTIFACT", group = "only")]
    verify: Option<PathBuf>,
    /// Who must have signed it: an Ed25519 public key, as a PEM file
    #[arg(long, value_name = "PUBLIC KEY", requires = "verify")]
    key: Option<PathBuf>,
    /// Write a new private key, and its public key beside it as FILE.pub
    #[arg(long, value_name = "FILE", group = "only")]
    new_key: Option<PathBuf>,
    #[command(flatten, next_help_heading = "Bootable images")]
    settings: image::SettingArguments,
}

/// The spelling of [`StartMode`] on the command line.
#[derive(Copy, Clone, clap::ValueEnum)]
enum Mode {
    /// Chat, or answer a prompt
    Chat,
    /// Serve
    Serve,
    /// Serve at a Unix socket and no port: NAME.sock in $XDG_RUNTIME_DIR
    Socket,
}

impl From<Mode> for StartMode {
    fn from(mode: Mode) -> Self {
        match mode {
            Mode::Chat => Self::Chat,
            Mode::Serve => Self::Serve,
            Mode::Socket => Self::Socket,
        }
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let only = [&arguments.inspect, &arguments.verify, &arguments.new_key];
    if only.into_iter().any(Option::is_some)
        && (arguments.output.is_some() || !arguments.models.is_empty())
    {
        let sentence = "--inspect, --verify and --new-key take neither a model nor --output";
        return Err(Failure::new(Kind::Usage, sentence));
    }
    if let Some(path) = &arguments.inspect {
        return shown::inspect(path, arguments.json);
    }
    if let Some(path) = &arguments.verify {
        return shown::verify(path, arguments.key.as_deref());
    }
    if let Some(path) = &arguments.new_key {
        return keys::create(path);
    }
    match &arguments.output {
        Some(output) => pack(arguments, output),
        None => Err(Failure::new(Kind::Usage, "--output is missing")),
    }
}

fn pack(arguments: &Arguments, output: &Path) -> Result<(), Failure> {
    let ending = output.extension().and_then(|ending| ending.to_str());
    if ending.and_then(strata_image::Form::by_ending).is_some() {
        return bootable::write(arguments, output);
    }
    bootable::refuse_settings(arguments, output)?;
    let kind = ending.and_then(Form::by_ending).ok_or_else(|| {
        let sentence = format_args!("{}: unknown kind of artifact", output.display());
        let known = Form::ALL.map(|kind| format!(".{}", kind.ending()));
        let known = known.join(", ");
        Failure::new(Kind::Usage, sentence).hint(format_args!(
            "use a name that ends in {known}, .elf, .efi, .img or .iso"
        ))
    })?;
    if arguments.push.is_some() && kind != Form::Oci {
        let sentence = format_args!("--push does not apply to {}", output.display());
        return Err(Failure::new(Kind::Usage, sentence).hint("use a name that ends in .oci"));
    }
    if arguments.components && kind != Form::Snap {
        let sentence = format_args!("--components does not apply to {}", output.display());
        return Err(Failure::new(Kind::Usage, sentence).hint("use a name that ends in .snap"));
    }
    let key = arguments.sign.as_deref().map(keys::signing).transpose()?;
    let program = program(arguments.program.as_deref())?;
    let program = program_of(program.bytes());
    let mut paths = arguments.models.clone();
    if paths.is_empty() {
        paths.push(BUILT_IN.into());
    }
    let files = paths.iter().map(|path| ModelFile::open(path));
    let files = files.collect::<Result<Vec<_>, _>>()?;
    let described = description::describe(&paths, &files, arguments)?;
    let manifest = Manifest {
        format: Manifest::FORMAT,
        kind,
        name: match &arguments.name {
            Some(name) => name.clone(),
            None => image::name(&paths[0]),
        },
        program: PackedProgram {
            version: env!("CARGO_PKG_VERSION").into(),
            bytes: program.len() as u64,
            sha256: sha256(program),
        },
        start: Start {
            mode: arguments.start.unwrap_or(Mode::Chat).into(),
            context: described.context,
        },
        machine: MachineNeeds {
            architecture: strata_pack::architecture(program)
                .ok_or_else(|| failed(output, &PackError::Program))?
                .into(),
            memory_bytes: described.least_memory(),
        },
        models: described.models,
        signer: None,
    };
    if arguments.components {
        return components::write(output, manifest, program, &described.bytes, key.as_ref());
    }
    let contents = Contents::new(manifest, program, described.bytes, key.as_ref());
    let layout = contents.layout().map_err(|error| failed(output, &error))?;
    image::write(&layout, output)?;
    #[cfg(unix)]
    if kind == Form::Run {
        use std::os::unix::fs::PermissionsExt;
        std::fs::set_permissions(output, PermissionsExt::from_mode(0o755))
            .map_err(|error| Failure::io(output.display(), &error))?;
    }
    println!("{}: {}", output.display(), Size(layout.len()));
    match &arguments.push {
        Some(name) => registry::push(output, name, arguments.insecure),
        None => Ok(()),
    }
}

fn failed(path: &Path, error: &PackError) -> Failure {
    use PackError as E;
    let kind = match error {
        E::Program | E::Name(_) | E::TooLarge { .. } | E::Dynamic => Kind::Usage,
        _ => Kind::BadModel,
    };
    let failure = Failure::new(kind, format_args!("{}: {error}", path.display()));
    match error {
        E::Dynamic => failure.hint(
            "pass a static program with --program, such as the one for x86_64-unknown-linux-musl that \
             `cargo xtask dist` builds",
        ),
        _ => failure,
    }
}

/// The file of the program that is packed.
fn program(named: Option<&Path>) -> Result<MappedFile, Failure> {
    let path = match named {
        Some(path) => path.to_path_buf(),
        None => std::env::current_exe().map_err(|error| Failure::io("this program", &error))?,
    };
    MappedFile::open(&path).map_err(|error| Failure::io(path.display(), &error))
}

/// The program alone, where it has models behind it already.
fn program_of(file: &[u8]) -> &[u8] {
    match Artifact::read(file) {
        Ok(artifact) => artifact.program(),
        Err(_) => file,
    }
}
