//! Machines that boot into a model: `strata image`, under the word `pack`.

use super::Arguments;
use crate::failure::{Failure, Kind};
use crate::image;
use std::path::{Path, PathBuf};
use strata::load::BUILT_IN;

/// Writes an image with one model, whose digest the bare machine checks before it runs it.
pub(super) fn write(arguments: &Arguments, output: &Path) -> Result<(), Failure> {
    let refused = [
        ("--push", arguments.push.is_some()),
        ("--system", arguments.system.is_some()),
        ("--start", arguments.start.is_some()),
        ("--program", arguments.program.is_some()),
        ("--name", arguments.name.is_some()),
    ];
    if let Some((flag, _)) = refused.iter().find(|(_, is_set)| *is_set) {
        let sentence = format_args!("{flag} does not apply to a bootable image");
        return Err(Failure::new(Kind::Usage, sentence).hint("omit it"));
    }
    let model = match arguments.models.as_slice() {
        [] => PathBuf::from(BUILT_IN),
        [model] => model.clone(),
        _ => {
            let sentence = "a bootable image holds one model";
            return Err(Failure::new(Kind::Usage, sentence));
        }
    };
    let context = arguments.ctx.map(|ctx| ("ctx".to_owned(), ctx.to_string()));
    let arguments = image::Arguments {
        model,
        output: output.into(),
        sign: arguments.sign.iter().cloned().collect(),
        cert: None,
        data: None,
        settings: arguments.settings.clone(),
    };
    image::write_image(&arguments, context.as_slice())
}

/// Refuses the flags of bootable images for others. A key in the environment is no flag.
pub(super) fn refuse_settings(arguments: &Arguments, output: &Path) -> Result<(), Failure> {
    let settings = &arguments.settings;
    let key = settings.api_key.as_ref();
    let asked_for_key = key.is_some() && key != std::env::var("STRATA_API_KEY").ok().as_ref();
    let refused = [
        ("--api-key", asked_for_key),
        ("--insecure-no-auth", settings.insecure_no_auth),
        ("--sealed", settings.sealed),
        ("--tls", settings.tls),
        ("--tls-cert", settings.tls_cert.is_some()),
        ("--config", settings.config.is_some()),
        ("--kernel", settings.kernel.is_some()),
    ];
    match refused.iter().find(|(_, is_set)| *is_set) {
        None => Ok(()),
        Some((flag, _)) => {
            let sentence = format_args!("{flag} does not apply to {}", output.display());
            let failure = Failure::new(Kind::Usage, sentence);
            Err(failure.hint("it is for bootable images: .elf, .efi, .img or .iso"))
        }
    }
}
