//! `strata image`: a model, its server and nothing else, as a file that machines boot.

mod certificate;
mod config;
pub(crate) mod kernel;
mod secure_boot;

use crate::failure::{Failure, Kind};
use crate::pack::keys;
use secure_boot::{ProgramKey, is_program_key};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use strata::Size;
use strata::load::{BUILT_IN, ModelFile};
use strata_image::{
    Architecture, Form, ImageError, Kernel, Layout, ProgramSigner, Setting, Signer, Trust, measure,
    stick, trusted_image,
};
use strata_pack::{SigningKey, sha256};

/// What data partitions may have: in less there is no room for a page of a model, and more is written out as zeros.
const LEAST_DATA: u64 = 4 << 20;
const MOST_DATA: u64 = 16 << 30;
/// The unikernel takes no shorter keys.
const SHORTEST_KEY: usize = 8;
/// What it calls them.
const KEYS: [&str; 3] = ["api-key", "key", KEY_DIGEST];
const KEY_DIGEST: &str = "api-key-sha256";

/// Write a bootable image with a model and its server
#[derive(clap::Args)]
#[command(after_help = "\
The ending of NAME tells what is written:
  .elf  for hypervisors that boot by PVH (QEMU's -kernel, Firecracker, Cloud Hypervisor); x86_64 only
  .efi  an EFI application, for a boot partition that there is already; for aarch64, a kernel as Linux's loaders take it
  .img  a disk for UEFI machines: write it to a USB stick as it is; x86_64 only
  .iso  a disc for UEFI machines, which is such a disk too; x86_64 only")]
pub(crate) struct Arguments {
    /// The model: a .gguf file, or a name that `strata list` shows
    #[arg(value_name = "MODEL", default_value = BUILT_IN)]
    pub(crate) model: PathBuf,
    /// Output file; the extension selects the kind of image
    #[arg(short, long, value_name = "NAME.{elf,efi,img,iso}")]
    pub(crate) output: PathBuf,
    /// Sign with the private key in this PEM file: an Ed25519 key signs the settings and the model's digest, and the machine
    /// takes no others; an RSA key with --cert signs the program for Secure Boot. May be given once for each
    #[arg(long, value_name = "KEY")]
    pub(crate) sign: Vec<PathBuf>,
    /// The certificate of the RSA key, which firmware with Secure Boot must know
    #[arg(long, value_name = "CERT", requires = "sign")]
    pub(crate) cert: Option<PathBuf>,
    /// Add a partition of this size, on which the machine keeps computed pages and saved texts over restarts; .img only
    #[arg(long, value_name = "SIZE")]
    pub(crate) data: Option<Size>,
    #[command(flatten)]
    pub(crate) settings: SettingArguments,
}

/// What an image is told, beside its model.
#[derive(Clone, Default, clap::Args)]
pub(crate) struct SettingArguments {
    /// API key that clients must send
    #[arg(
        long,
        value_name = "KEY",
        env = "STRATA_API_KEY",
        hide_env_values = true
    )]
    pub(crate) api_key: Option<String>,
    /// Let everyone use the server without a key
    #[arg(long, conflicts_with = "api_key")]
    pub(crate) insecure_no_auth: bool,
    /// No shell and no settings but these: the machine does nothing but serve
    #[arg(long)]
    pub(crate) sealed: bool,
    /// Serve by TLS 1.3, with a certificate made now and written to NAME.crt for clients to trust
    #[arg(long, conflicts_with = "tls_cert")]
    pub(crate) tls: bool,
    /// Serve by TLS 1.3, with the certificates in this PEM file
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// The Ed25519 private key of the first of them, as a PEM file
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,
    /// File with more settings, one per line: port = 80
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// The processors that the image is for [default: those of --kernel, or x86_64]
    #[arg(long, value_enum)]
    pub(crate) arch: Option<kernel::Arch>,
    /// The unikernel image [default: the one in this program, or the one built by `cargo xtask unikernel`]
    #[arg(long, value_name = "FILE")]
    pub(crate) kernel: Option<PathBuf>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    write_image(arguments, &[])
}

/// Writes an image with more settings than the flags have.
pub(crate) fn write_image(arguments: &Arguments, more: &[Setting]) -> Result<(), Failure> {
    let output = &arguments.output;
    let ending = output.extension().and_then(|ending| ending.to_str());
    let form = ending.and_then(Form::by_ending).ok_or_else(|| {
        let sentence = format_args!("{}: unknown kind of image", output.display());
        Failure::new(Kind::Usage, sentence).hint("use a name that ends in .elf, .efi, .img or .iso")
    })?;
    let settings = &arguments.settings;
    let mut options = vec![("name".to_owned(), name(&arguments.model))];
    options.extend_from_slice(more);
    if let Some(path) = &settings.config {
        options.extend(config::read(path)?);
    }
    if let Some(key) = &settings.api_key {
        options.retain(|(name, _)| !KEYS.contains(&name.as_str()));
        options.push((KEYS[0].into(), key.clone()));
    }
    if arguments.data.is_some() {
        options.retain(|(name, _)| name != "data");
        options.push(("data".into(), "on".into()));
    }
    check(&options)?;
    hide_key(&mut options);
    let has_key = options.iter().any(|(key, _)| KEYS.contains(&key.as_str()));
    if form.for_hardware() && !settings.insecure_no_auth && !has_key {
        let sentence = format_args!(
            "refusing to write {} without an API key: other machines will be able to reach it",
            output.display()
        );
        return Err(Failure::new(Kind::Usage, sentence)
            .hint("set --api-key, or --insecure-no-auth to allow everyone"));
    }
    let (tls, certificate) = certificate::settings(settings, output, &options)?;
    options.extend(tls);
    let (key, program) = signers(arguments, form)?;
    let file = kernel::find(settings.kernel.as_deref(), settings.arch)?;
    let kernel = kernel::parse(&file, settings.arch)?;
    let model = ModelFile::open(&arguments.model)?;
    model.parse()?;
    let bytes = model.whole()?;
    if !options.iter().any(|(key, _)| key == "sha256") {
        options.push(("sha256".into(), sha256(bytes)));
    }
    let sign = |message: &[u8]| key.as_ref().map_or([0; 64], |key| key.sign(message));
    // `signers` has tried it.
    let sign_program = |message: &[u8]| {
        let signed = program.as_ref().map(|key| key.sign(message));
        signed.and_then(Result::ok).unwrap_or_default()
    };
    let trust = Trust {
        signer: key.as_ref().map(|key| Signer {
            public: key.public().to_bytes(),
            sign: &sign,
        }),
        program: program.as_ref().map(|key| ProgramSigner {
            certificate: &key.certificate,
            sign: &sign_program,
        }),
        sealed: settings.sealed,
    };
    let form = (form, arguments.data);
    let layout = layout(form, &kernel, &options, (bytes, &arguments.model), &trust)?;
    write(&layout, output)?;
    if let Some((path, text)) = certificate {
        std::fs::write(&path, text).map_err(|error| Failure::io(path.display(), &error))?;
        println!("{}: the certificate, for clients", path.display());
    }
    let find = |key: &str| options.iter().rev().find(|(name, _)| name == key);
    let measured = measure::settings(settings.sealed, |key| find(key).map(|(_, v)| v.as_str()));
    let model_sum = find("sha256").map(|(_, sum)| sum.as_str());
    let program_sum = kernel
        .measured()
        .map_err(|error| Failure::new(Kind::Failed, error))?;
    let program_sum: String = program_sum
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    println!("a TPM is told, besides what firmware measures:");
    println!("register 8: {program_sum} (the program)");
    println!("register 9: {} (the settings)", sha256(measured.as_bytes()));
    println!("register 10: {} (the model)", model_sum.unwrap_or_default());
    let beside = layout.len() - bytes.len() as u64;
    println!(
        "{}: {} (model {}, everything else {})",
        output.display(),
        Size(layout.len()),
        Size(bytes.len() as u64),
        Size(beside)
    );
    Ok(())
}

/// Who signs the settings, and who the program.
fn signers(
    arguments: &Arguments,
    form: Form,
) -> Result<(Option<SigningKey>, Option<ProgramKey>), Failure> {
    let usage = |sentence: &str| Failure::new(Kind::Usage, sentence);
    let (programs, settings): (Vec<_>, Vec<_>) =
        arguments.sign.iter().partition(|path| is_program_key(path));
    if programs.len() > 1 || settings.len() > 1 {
        let hint = "one Ed25519 key signs the settings, one RSA key the program";
        return Err(usage("--sign was given two keys of one kind").hint(hint));
    }
    let signer = settings
        .first()
        .map(|path| keys::signing(path))
        .transpose()?;
    let program = match (programs.first(), &arguments.cert) {
        (None, None) => return Ok((signer, None)),
        (Some(key), Some(certificate)) => ProgramKey::open(key, certificate)?,
        (Some(_), None) => {
            let sentence = "an RSA key signs for Secure Boot, with its certificate";
            return Err(usage(sentence).hint("set --cert"));
        }
        (None, Some(_)) => {
            let sentence = "--cert needs its RSA key";
            return Err(usage(sentence).hint("add --sign KEY"));
        }
    };
    if form == Form::Elf {
        let sentence = "firmware with Secure Boot starts no .elf images";
        return Err(usage(sentence).hint("write an .efi, .img or .iso image, or leave --cert out"));
    }
    program.sign(b"a key that cannot sign is told now")?;
    Ok((signer, Some(program)))
}

/// Puts the digest of the key in its place: whoever reads the image or the command line learns nothing that opens it.
pub(crate) fn hide_key(options: &mut [Setting]) {
    for (name, value) in options {
        if KEYS[..2].contains(&name.as_str()) {
            *value = sha256(value.as_bytes());
            *name = KEY_DIGEST.into();
        }
    }
}

/// The image, or why there is none, with what to do about it.
pub(crate) fn layout<'a>(
    (form, data): (Form, Option<Size>),
    kernel: &Kernel<'_>,
    options: &[Setting],
    (model, path): (&'a [u8], &Path),
    trust: &Trust<'_>,
) -> Result<Layout<'a>, Failure> {
    if kernel.architecture() == Architecture::Aarch64 && matches!(form, Form::Img | Form::Iso) {
        let sentence = "UEFI firmware does not start the unikernel for aarch64 yet";
        return Err(Failure::new(Kind::Usage, sentence)
            .hint("write an .efi image, which QEMU's -kernel and other loaders of Linux take"));
    }
    let made = match data {
        None => trusted_image(form, kernel, options, Some(model), trust),
        Some(Size(bytes)) if form == Form::Img => {
            if !(LEAST_DATA..=MOST_DATA).contains(&bytes) {
                let sentence = format_args!(
                    "a data partition has {} to {}",
                    Size(LEAST_DATA),
                    Size(MOST_DATA)
                );
                return Err(Failure::new(Kind::Usage, sentence).hint("set --data to such a size"));
            }
            stick(kernel, options, Some(model), trust, bytes)
        }
        Some(_) => {
            let sentence = "only .img images have a data partition";
            return Err(Failure::new(Kind::Usage, sentence)
                .hint("write an .img image, or leave --data out and attach a disk that has one"));
        }
    };
    made.map_err(|error| {
        let failure = Failure::new(Kind::Failed, format_args!("{}: {error}", path.display()));
        match error {
            ImageError::TooLarge { .. } | ImageError::Fat(_) | ImageError::Iso(_) => failure
                .hint("use a model with fewer bits per weight, or attach the model file as a disk"),
            ImageError::Options { .. } => failure.hint("shorten the settings"),
            ImageError::Kernel(_) => failure.hint(kernel::HOW_TO_BUILD),
            ImageError::NoHypervisor => {
                failure.hint("write an .efi image, which QEMU's -kernel boots")
            }
            ImageError::Certificate => failure,
        }
    })
}

/// What the model is called.
pub(crate) fn name(path: &Path) -> String {
    let stem = match path.extension() {
        Some(ending) if ending == "gguf" => path.file_stem(),
        _ => path.file_name(),
    };
    let plain = |c: char| c.is_alphanumeric() || "-_.:/".contains(c);
    let name = stem.map(|stem| stem.to_string_lossy()).unwrap_or_default();
    name.chars()
        .map(|c| if plain(c) { c } else { '-' })
        .collect()
}

/// Whether the unikernel can read settings as they will be written.
pub(crate) fn check(settings: &[Setting]) -> Result<(), Failure> {
    for (key, value) in settings {
        let plain = |c: char| (' '..='~').contains(&c) && c != '"' && c != '\\';
        if !value.chars().all(plain) {
            let sentence = format_args!("{key}: only printable ASCII without quotes is allowed");
            return Err(Failure::new(Kind::Usage, sentence));
        }
        if KEYS[..2].contains(&key.as_str()) && value.len() < SHORTEST_KEY {
            let sentence = format_args!("the key must have at least {SHORTEST_KEY} characters");
            return Err(Failure::new(Kind::Usage, sentence));
        }
    }
    Ok(())
}

/// Writes the file beside its place first, so that there is never half of one.
pub(crate) fn write(layout: &Layout<'_>, path: &Path) -> Result<(), Failure> {
    let mut part = path.as_os_str().to_owned();
    part.push(".part");
    let part = PathBuf::from(part);
    let written = (|| {
        let mut file = BufWriter::with_capacity(1 << 20, File::create(&part)?);
        layout.write_to(&mut file)?;
        file.flush()?;
        std::fs::rename(&part, path)
    })();
    written.map_err(|error| {
        // What was written is of no use, and may not be there.
        let _ = std::fs::remove_file(&part);
        Failure::io(path.display(), &error)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_written_is_refused() {
        let setting = |key: &str, value: &str| [(key.to_owned(), value.to_owned())];
        assert!(check(&setting("api-key", "pass word")).is_ok());
        for (key, value) in [
            ("key", "short"),
            ("name", "a\"b"),
            ("name", "a\nb"),
            ("name", "a\\b"),
            ("ip", "é"),
        ] {
            assert!(check(&setting(key, value)).is_err(), "{key} {value}");
        }
    }

    #[test]
    fn models_are_called_as_their_files() {
        assert_eq!(name(Path::new("tale")), "tale");
        assert_eq!(name(Path::new("a/My model-Q4.gguf")), "My-model-Q4");
        assert_eq!(name(Path::new("qwen3:0.6b")), "qwen3:0.6b");
    }
}
