//! `strata image`: a model, its server and nothing else, as a file that machines boot.

mod config;
pub(crate) mod kernel;

use crate::failure::{Failure, Kind};
use crate::model_file::{BUILT_IN, ModelFile};
use crate::size::Size;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use strata_image::{Form, ImageError, Kernel, Layout, image};

/// The unikernel takes no shorter keys.
const SHORTEST_KEY: usize = 8;

/// Write a bootable image of a model and its server, for machines without an operating system
#[derive(clap::Args)]
#[command(after_help = "\
The ending of NAME tells what is written:
  .elf  for hypervisors that boot by PVH (QEMU's -kernel, Firecracker, Cloud Hypervisor)
  .efi  an EFI application, for a boot partition that there is already
  .img  a disk for UEFI machines: write it to a USB stick as it is
  .iso  a disc for UEFI machines, which is such a disk too")]
pub(crate) struct Arguments {
    /// The model's file, or tale
    #[arg(value_name = "MODEL", default_value = BUILT_IN)]
    model: PathBuf,
    /// The file to write; its ending tells what is written
    #[arg(short, long, value_name = "NAME.{elf,efi,img,iso}")]
    output: PathBuf,
    /// A key that clients must send; needed where strangers may reach the machine
    #[arg(
        long,
        value_name = "KEY",
        env = "STRATA_API_KEY",
        hide_env_values = true
    )]
    api_key: Option<String>,
    /// Let everyone in who reaches the machine
    #[arg(long, conflicts_with = "api_key")]
    insecure_no_auth: bool,
    /// A file with further settings, a line for each: port = 80
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The unikernel [default: the one in this program, or what `cargo xtask unikernel` has built]
    #[arg(long, value_name = "FILE")]
    kernel: Option<PathBuf>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let output = &arguments.output;
    let ending = output.extension().and_then(|ending| ending.to_str());
    let form = ending.and_then(Form::by_ending).ok_or_else(|| {
        let sentence = format_args!("{}: what kind of image is that?", output.display());
        Failure::new(Kind::Usage, sentence).hint("its name ends with .elf, .efi, .img or .iso")
    })?;
    let mut options = vec![("name".to_owned(), name(&arguments.model))];
    if let Some(path) = &arguments.config {
        options.extend(config::read(path)?);
    }
    if let Some(key) = &arguments.api_key {
        options.push(("key".into(), key.clone()));
    }
    let options = command_line(&options)?;
    if form.for_hardware() && !arguments.insecure_no_auth && !options.contains(" key=") {
        let sentence = format_args!(
            "{} is for machines that others can reach, and there is no key",
            output.display()
        );
        return Err(Failure::new(Kind::Usage, sentence)
            .hint("give --api-key, or --insecure-no-auth to let everyone in"));
    }
    let file = kernel::find(arguments.kernel.as_deref())?;
    let kernel = kernel::parse(&file)?;
    let model = ModelFile::open(&arguments.model)?;
    model.parse()?;
    let bytes = model.whole()?;
    let layout = layout(form, &kernel, &options, bytes, &arguments.model)?;
    write(&layout, output)?;
    let beside = layout.len() - bytes.len() as u64;
    println!(
        "{}: {} (the model has {}, everything else {})",
        output.display(),
        Size(layout.len()),
        Size(bytes.len() as u64),
        Size(beside)
    );
    Ok(())
}

/// The image, or why there is none, with what to do about it.
pub(crate) fn layout<'a>(
    form: Form,
    kernel: &Kernel<'_>,
    options: &str,
    model: &'a [u8],
    path: &Path,
) -> Result<Layout<'a>, Failure> {
    image(form, kernel, options, Some(model)).map_err(|error| {
        let failure = Failure::new(
            Kind::Failed,
            format_args!("{}: {error}", path.display()),
        );
        match error {
            ImageError::TooLarge { .. } | ImageError::Fat(_) | ImageError::Iso(_) => failure
                .hint("choose a model with fewer bits a weight, or give the machine the model's file as a disk"),
            ImageError::Options { .. } => failure.hint("shorten the settings"),
            ImageError::Kernel(_) => failure.hint(kernel::HOW_TO_BUILD),
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

/// Options as the unikernel reads them, later ones counting more.
pub(crate) fn command_line(options: &[(String, String)]) -> Result<String, Failure> {
    let mut line = String::new();
    for (key, value) in options {
        let plain = value.chars().all(|c| (' '..='~').contains(&c) && c != '"');
        let enough = key != "key" || value.len() >= SHORTEST_KEY;
        if !plain {
            let sentence = format_args!("{key}: only plain characters are possible, and no quotes");
            return Err(Failure::new(Kind::Usage, sentence));
        }
        if !enough {
            let sentence = format_args!("the key has fewer than {SHORTEST_KEY} characters");
            return Err(Failure::new(Kind::Usage, sentence));
        }
        let quote = if value.contains(' ') { "\"" } else { "" };
        line += &format!(
            "{}{key}={quote}{value}{quote}",
            if line.is_empty() { "" } else { " " }
        );
    }
    Ok(line)
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
    fn options_are_one_line() {
        let option = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        let line = command_line(&[option("name", "tale"), option("key", "pass word")]);
        assert_eq!(line.unwrap(), "name=tale key=\"pass word\"");
        for (key, value) in [
            ("key", "short"),
            ("name", "a\"b"),
            ("name", "a\nb"),
            ("ip", "é"),
        ] {
            assert!(
                command_line(&[option(key, value)]).is_err(),
                "{key} {value}"
            );
        }
    }

    #[test]
    fn models_are_called_as_their_files() {
        assert_eq!(name(Path::new("tale")), "tale");
        assert_eq!(name(Path::new("a/My model-Q4.gguf")), "My-model-Q4");
        assert_eq!(name(Path::new("qwen3:0.6b")), "qwen3:0.6b");
    }
}
