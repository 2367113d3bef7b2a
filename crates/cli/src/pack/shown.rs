//! Artifacts as people look at them.

use super::{failed, keys};
use crate::failure::Failure;
use std::io::{self, Write};
use std::path::Path;
use strata::Size;
use strata_host::MappedFile;
use strata_pack::{Artifact, Manifest, StartMode};

fn open(path: &Path) -> Result<MappedFile, Failure> {
    MappedFile::open(path).map_err(|error| Failure::io(path.display(), &error))
}

/// Shows an artifact's manifest.
pub(super) fn inspect(path: &Path, json: bool) -> Result<(), Failure> {
    let file = open(path)?;
    let artifact = Artifact::read(file.bytes()).map_err(|error| failed(path, &error))?;
    let mut out = io::stdout().lock();
    let written = if json {
        out.write_all(&artifact.manifest.to_bytes())
    } else {
        print(&artifact.manifest, &mut out)
    };
    written.map_err(|error| Failure::stdout(&error))
}

/// Checks an artifact, and says who signed it.
pub(super) fn verify(path: &Path, key: Option<&Path>) -> Result<(), Failure> {
    let key = key.map(keys::public).transpose()?;
    let file = open(path)?;
    let signer = Artifact::read(file.bytes())
        .and_then(|artifact| artifact.verify(key.as_ref()))
        .map_err(|error| failed(path, &error))?;
    let signed = match (signer, key) {
        (Some(_), Some(_)) => "every byte is as it was signed by that key".into(),
        (Some(signer), None) => format!(
            "every byte is as it was signed by {}; --key checks whose key that is",
            signer.to_hex()
        ),
        (None, _) => "every byte is as the manifest says; it is not signed".into(),
    };
    let mut out = io::stdout();
    let written = writeln!(out, "{}: {signed}", path.display());
    written.map_err(|error| Failure::stdout(&error))
}

fn print(manifest: &Manifest, out: &mut impl Write) -> io::Result<()> {
    let (program, machine) = (&manifest.program, &manifest.machine);
    let start = match manifest.start.mode {
        StartMode::Chat => "chat",
        StartMode::Serve => "serve",
        StartMode::Socket => "serve at a socket",
    };
    let signer = manifest.signer.as_deref().unwrap_or("nobody");
    let rows = [
        ("name", manifest.name.clone()),
        ("kind", manifest.kind.ending().into()),
        (
            "program",
            format!("{}, {}", program.version, Size(program.bytes)),
        ),
        (
            "starts as",
            format!("{start}, {} tokens", manifest.start.context),
        ),
        (
            "runs on",
            format!(
                "{} with {}",
                machine.architecture,
                Size(machine.memory_bytes)
            ),
        ),
        ("signed by", signer.into()),
    ];
    for (label, value) in rows {
        writeln!(out, "{label:<12} {value}")?;
    }
    for model in &manifest.models {
        let memory = &model.memory;
        writeln!(out, "\n{}", model.file)?;
        let template = model.template_sha256.as_deref().unwrap_or("none");
        let licenses = model.licenses.iter();
        let licenses: Vec<&str> = licenses.filter_map(|text| text.lines().next()).collect();
        let licenses = match licenses.as_slice() {
            [] => "unknown".into(),
            names => names.join(", "),
        };
        let rows = [
            ("file", Size(model.bytes).to_string()),
            ("sha256", model.sha256.clone()),
            (
                "model",
                format!("{}, {}", model.architecture, model.quantization),
            ),
            ("license", licenses),
            ("template", template.into()),
            ("memory", Size(memory.total_bytes).to_string()),
            ("  weights", Size(memory.weights_bytes).to_string()),
            ("  KV cache", Size(memory.kv_bytes).to_string()),
        ];
        for (label, value) in rows {
            writeln!(out, "  {label:<10} {value}")?;
        }
        if let Some(system) = model
            .preset
            .as_ref()
            .and_then(|preset| preset.system.as_ref())
        {
            writeln!(
                out,
                "  {:<10} {}",
                "system",
                system.lines().next().unwrap_or_default()
            )?;
        }
    }
    Ok(())
}
