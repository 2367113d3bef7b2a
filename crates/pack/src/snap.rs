//! Snaps (snapcraft.io): a squashfs file system with the executable in it and `meta/snap.yaml`, which makes it a command
//! and a service. Engines are the models inside; the executable itself chooses among them by the memory that they need.
//!
//! Models may come in components (snapcraft.io/docs/components), which are installed one by one: each is a squashfs file
//! system with the archive that is behind the executable otherwise, and `meta/component.yaml`.

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
/// Where a component has its model.
pub const COMPONENT_ARCHIVE: &str = "model.zip";

/// The snap's name.
pub(crate) fn name(manifest: &Manifest) -> String {
    plain_name("strata", &manifest.name)
}

/// What the component of a model's file is called.
pub fn component_name(file: &str) -> String {
    plain_name("model", file.strip_suffix(".gguf").unwrap_or(file))
}

/// A name as snapd wants it: small letters, digits and single hyphens, with a letter among them.
fn plain_name(first: &str, rest: &str) -> String {
    let plain = |c: char| match c.to_ascii_lowercase() {
        c @ ('a'..='z' | '0'..='9') => c,
        _ => '-',
    };
    let name: String = rest.chars().map(plain).collect();
    let parts: Vec<&str> = name.split('-').filter(|part| !part.is_empty()).collect();
    let name = format!("{first}-{}", parts.join("-"));
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

/// The component with a model's archive in it.
pub(crate) fn wrap_component<'a>(
    manifest: &Manifest,
    archive: Layout<'a>,
) -> Result<Layout<'a>, PackError> {
    let [model] = &manifest.models[..] else {
        return Err(PackError::Manifest("a component has one model".into()));
    };
    let component = model.component.as_deref();
    let component = component.ok_or_else(|| PackError::Missing("component".into()))?;
    let mut file_system = Squashfs::default();
    // The first file, where the reader looks for it.
    file_system.embed(COMPONENT_ARCHIVE, 0o644, archive)?;
    let yaml = format!(
        "component: {}+{component}\n\
         type: standard\n\
         version: '{}'\n\
         summary: A language model\n\
         description: {}, {}\n",
        name(manifest),
        version(manifest),
        model.architecture,
        model.quantization,
    );
    file_system.file("meta/component.yaml", 0o644, yaml.into_bytes())?;
    Ok(file_system.finish())
}

fn version(manifest: &Manifest) -> String {
    manifest.program.version.chars().take(32).collect()
}

/// The section of `snap.yaml` that names the components; nothing where all models are in the snap.
fn components(manifest: &Manifest) -> String {
    let named = manifest.models.iter().filter_map(|model| {
        let component = model.component.as_ref()?;
        Some(format!(
            "  {component}:\n    type: standard\n    summary: A language model\n    description: {}, {}\n",
            model.architecture, model.quantization
        ))
    });
    let named: String = named.collect();
    if named.is_empty() {
        named
    } else {
        format!("components:\n{named}")
    }
}

fn snap_yaml(manifest: &Manifest) -> Result<String, PackError> {
    let architecture = match manifest.machine.architecture.as_str() {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        _ => return Err(PackError::Program),
    };
    let name = name(manifest);
    let (version, components) = (version(manifest), components(manifest));
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
         {components}\
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
