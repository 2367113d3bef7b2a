//! Snaps (snapcraft.io): a squashfs file system with the executable in it and `meta/snap.yaml`, which makes it a command
//! and a service. Engines are the models inside; the executable itself chooses among them by the memory that they need.

use crate::error::PackError;
use crate::manifest::Manifest;
use crate::squashfs::{self, Squashfs};
use std::ops::Range;
use strata_image::Layout;

/// Where the executable is.
const PROGRAM: &str = "bin/strata.run";
/// Canonical's inference snaps count from 8324.
const PORT: &str = "8324";
/// What a snap's name can have.
const LONGEST_NAME: usize = 40;

/// The snap's name: small letters, digits and single hyphens, with a letter among them.
pub(crate) fn name(manifest: &Manifest) -> String {
    let plain = |c: char| match c.to_ascii_lowercase() {
        c @ ('a'..='z' | '0'..='9') => c,
        _ => '-',
    };
    let name: String = manifest.name.chars().map(plain).collect();
    let parts: Vec<&str> = name.split('-').filter(|part| !part.is_empty()).collect();
    let name = format!("strata-{}", parts.join("-"));
    let name: String = name.chars().take(LONGEST_NAME).collect();
    name.trim_matches('-').into()
}

/// The snap with the executable in it.
pub(crate) fn wrap<'a>(
    manifest: &Manifest,
    executable: Layout<'a>,
) -> Result<Layout<'a>, PackError> {
    let mut snap = Squashfs::default();
    // The first file, where the reader looks for it.
    snap.embed(PROGRAM, 0o755, executable)?;
    snap.file("meta/snap.yaml", 0o644, snap_yaml(manifest)?.into_bytes())?;
    let hook = "#!/bin/sh -e\nexec \"$SNAP/bin/strata.run\" use-engine --auto\n";
    snap.file("meta/hooks/install", 0o755, hook.into())?;
    Ok(snap.finish())
}

fn snap_yaml(manifest: &Manifest) -> Result<String, PackError> {
    let architecture = match manifest.machine.architecture.as_str() {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        _ => return Err(PackError::Program),
    };
    let name = name(manifest);
    let version: String = manifest.program.version.chars().take(32).collect();
    Ok(format!(
        "name: {name}\n\
         version: '{version}'\n\
         summary: Language model with its server\n\
         description: |\n  \
           A model and the program that runs it. The service answers the OpenAI, Anthropic and Ollama APIs\n  \
           at 127.0.0.1:{PORT}. `{name} status` says whether it answered, `{name} use-engine` chooses among\n  \
           the models inside.\n\
         architectures: [{architecture}]\n\
         base: core22\n\
         confinement: strict\n\
         grade: stable\n\
         environment:\n  \
           OLLAMA_HOST: 127.0.0.1:{PORT}\n  \
           OLLAMA_MODELS: $SNAP_COMMON/models\n  \
           STRATA_ENGINE_FILE: $SNAP_COMMON/engine\n\
         apps:\n  \
           {name}:\n    \
             command: {PROGRAM}\n    \
             plugs: [network, network-bind, home]\n  \
           server:\n    \
             command: {PROGRAM} serve --log-format json\n    \
             daemon: simple\n    \
             restart-condition: on-failure\n    \
             plugs: [network, network-bind, hardware-observe]\n"
    ))
}

/// Where the executable is in a snap, if it is one.
pub(crate) fn executable(bytes: &[u8]) -> Option<Result<Range<usize>, PackError>> {
    squashfs::first_file(bytes)
}
