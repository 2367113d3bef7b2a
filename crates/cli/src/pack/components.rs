//! A snap whose models are components beside it.

use super::failed;
use crate::failure::{Failure, Kind};
use crate::image;
use std::path::{Path, PathBuf};
use strata::Size;
use strata_pack::{
    Contents, Kind as Form, Manifest, PackedModel, PackedProgram, SigningKey, component_name,
    sha256,
};

/// The store takes no larger ones.
const MOST_IN_STORE: u64 = 5_000_000_000;

/// Writes the snap without models, and each of them beside it.
pub(super) fn write(
    output: &Path,
    mut manifest: Manifest,
    program: &[u8],
    models: &[&[u8]],
    key: Option<&SigningKey>,
) -> Result<(), Failure> {
    for model in &mut manifest.models {
        model.component = Some(component_name(&model.file));
    }
    let names = || {
        manifest
            .models
            .iter()
            .filter_map(|model| model.component.as_ref())
    };
    if let Some(name) = names().find(|name| names().filter(|other| other == name).count() > 1) {
        let sentence = format_args!("two models would be the component {name}");
        return Err(Failure::new(Kind::Usage, sentence).hint("rename one of them"));
    }
    for (model, bytes) in manifest.models.iter().zip(models) {
        let contents = Contents::new(component(&manifest, model), &[], vec![bytes], key);
        let path = path(output, model);
        let length = write_one(&contents, &path)?;
        if length > MOST_IN_STORE {
            let most = Size(MOST_IN_STORE);
            eprintln!(
                "note: the snap store takes components of at most {most}; snapd installs larger files"
            );
        }
    }
    write_one(&Contents::new(manifest, program, Vec::new(), key), output).map(drop)
}

fn write_one(contents: &Contents<'_>, path: &Path) -> Result<u64, Failure> {
    let layout = contents.layout().map_err(|error| failed(path, &error))?;
    image::write(&layout, path)?;
    println!("{}: {}", path.display(), Size(layout.len()));
    Ok(layout.len())
}

/// What a component says of itself: the snap's manifest with one model and no program.
fn component(snap: &Manifest, model: &PackedModel) -> Manifest {
    let mut manifest = snap.clone();
    manifest.kind = Form::Component;
    manifest.program = PackedProgram {
        version: snap.program.version.clone(),
        bytes: 0,
        sha256: sha256(&[]),
    };
    manifest.machine.memory_bytes = model.memory.total_bytes;
    manifest.models = vec![model.clone()];
    manifest
}

/// `story+model-tale.comp` beside `story.snap`.
fn path(snap: &Path, model: &PackedModel) -> PathBuf {
    let component = model.component.as_deref().unwrap_or_default();
    let mut name = snap.file_stem().unwrap_or_default().to_owned();
    name.push(format!("+{component}.{}", Form::Component.ending()));
    snap.with_file_name(name)
}
