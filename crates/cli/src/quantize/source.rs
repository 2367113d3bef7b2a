//! What is quantized: a GGUF, or a checkpoint.

use super::table::{Row, Table};
use crate::failure::{Failure, Kind};
use crate::part_file;
use std::io::Write;
use std::path::Path;
use strata::load::{ModelFile, bad_folder, check_conversion, is_built_in};
use strata_convert::{ConvertError, Folder, Plan, Recipe, Requantizing, WriteFailure};
use strata_host::ThreadPool;

/// A model's bytes.
pub(super) enum Source {
    Gguf(ModelFile),
    Folder(Folder),
}

impl Source {
    pub(super) fn open(path: &Path) -> Result<Source, Failure> {
        if !is_built_in(path) && Folder::is_checkpoint(path) {
            let folder = Folder::open(path).map_err(|error| bad_folder(path, &error))?;
            return Ok(Source::Folder(folder));
        }
        Ok(Source::Gguf(ModelFile::open(path)?))
    }

    /// What each tensor would become.
    pub(super) fn plan(&self, recipe: &Recipe<'_>) -> Result<Table, Failure> {
        self.each(recipe, |plan| Ok(plan.table()))
    }

    /// Warns of matrices that are quantized already: what their types lost does not come back, and more is lost.
    pub(super) fn warn_of_loss(&self, recipe: &Recipe<'_>) -> Result<(), Failure> {
        let table = self.plan(recipe)?;
        let plain = ["f32", "f16", "bf16", "f64"];
        let lost = table.tensors.iter().filter(|row| {
            let from = row.from.to_lowercase();
            !plain.contains(&from.as_str()) && from != row.to.name().to_lowercase()
        });
        let mut types: Vec<&str> = lost.map(|row| row.from.as_str()).collect();
        types.sort_unstable();
        types.dedup();
        if !types.is_empty() {
            eprintln!(
                "warning: the source is already quantized ({}): quantizing it again loses accuracy; \
                 start from f16, bf16 or f32 weights if you can",
                types.join(", ")
            );
        }
        Ok(())
    }

    /// Writes the file.
    pub(super) fn write(
        &self,
        recipe: &Recipe<'_>,
        out: &Path,
        pool: &ThreadPool,
    ) -> Result<Table, Failure> {
        self.each(recipe, |plan| {
            plan.write(out, pool).map_err(|failure| match failure {
                WriteFailure::Convert(error) => bad_recipe(&error),
                WriteFailure::Sink(error) => Failure::io(out.display(), &error),
            })?;
            Ok(plan.table())
        })
    }

    fn each(
        &self,
        recipe: &Recipe<'_>,
        then: impl FnOnce(Planned<'_, '_, '_>) -> Result<Table, Failure>,
    ) -> Result<Table, Failure> {
        match self {
            Source::Gguf(file) => {
                let parsed = file.parse()?;
                let plan = Requantizing::new(&parsed, recipe);
                let plan = plan.map_err(|error| bad_recipe(&error))?;
                then(Planned::Gguf(file, &plan))
            }
            Source::Folder(folder) => {
                let fail =
                    |error| bad_folder(Path::new(&folder.name().unwrap_or_default()), &error);
                let config = folder.config().map_err(fail)?;
                let vocabulary = folder.vocabulary().map_err(fail)?;
                let checkpoint = folder.tensors().map_err(fail)?;
                let name = folder.name();
                let plan = Plan::with_recipe(
                    &config,
                    &checkpoint,
                    vocabulary.as_ref(),
                    recipe,
                    name.as_deref(),
                );
                let plan = plan.map_err(|error| bad_recipe(&error))?;
                let source = name.unwrap_or_default();
                check_conversion(Path::new(&source), &plan, vocabulary.as_ref())?;
                then(Planned::Folder(folder, &plan))
            }
        }
    }
}

/// A source and what it becomes.
enum Planned<'p, 's, 'a> {
    Gguf(&'p ModelFile, &'p Requantizing<'s, 'a>),
    Folder(&'p Folder, &'p Plan<'s, 'a>),
}

impl Planned<'_, '_, '_> {
    fn table(&self) -> Table {
        match self {
            Planned::Gguf(_, plan) => Table {
                tensors: plan
                    .tensors()
                    .iter()
                    .map(|tensor| Row {
                        name: tensor.from.name.to_owned(),
                        dims: tensor.from.dims.to_vec(),
                        from: tensor.from.ty.to_string(),
                        to: tensor.to,
                        bytes: tensor.len,
                    })
                    .collect(),
                bytes: plan.layout().total_len,
            },
            Planned::Folder(_, plan) => Table {
                tensors: plan
                    .tensors()
                    .iter()
                    .zip(&plan.layout().tensors)
                    .map(|(tensor, extent)| Row {
                        name: tensor.name.clone(),
                        dims: tensor.dims.clone(),
                        from: plan
                            .source_type(tensor)
                            .map_or_else(String::new, |dtype| dtype.to_string()),
                        to: tensor.ty,
                        bytes: extent.len,
                    })
                    .collect(),
                bytes: plan.layout().total_len,
            },
        }
    }

    fn write(&self, out: &Path, pool: &ThreadPool) -> Result<(), WriteFailure<std::io::Error>> {
        match self {
            Planned::Folder(folder, plan) => {
                let length = plan.layout().total_len;
                part_file::write(out, length, "quantizing", |out, bar| {
                    folder.convert(plan, out, pool, &mut |done, _| bar.set_position(done))
                })
            }
            Planned::Gguf(file, plan) => {
                let layout = plan.layout();
                let backing = file.backing();
                part_file::write(out, layout.total_len, "quantizing", |out, bar| {
                    let sink = WriteFailure::Sink;
                    out.write_all(&layout.header).map_err(sink)?;
                    let extents = layout.tensors.iter();
                    for (index, (tensor, extent)) in plan.tensors().iter().zip(extents).enumerate()
                    {
                        if let Some(next) = plan.tensors().get(index + 1) {
                            backing.will_need(next.from.data);
                        }
                        plan.write(tensor, pool, &mut |bytes| {
                            bar.inc(bytes.len() as u64);
                            out.write_all(bytes)
                        })?;
                        let zeros = extent.padded_len - extent.len;
                        let mut zeros = std::io::Read::take(std::io::repeat(0), zeros);
                        std::io::copy(&mut zeros, out).map_err(sink)?;
                        backing.done_with(tensor.from.data);
                    }
                    Ok(())
                })
            }
        }
    }
}

/// Who is to blame: the model, or what was asked for.
fn bad_recipe(error: &ConvertError) -> Failure {
    match error {
        ConvertError::UnusedRule { .. } => {
            Failure::new(Kind::Usage, error).hint("--dry-run shows the tensors' names")
        }
        ConvertError::Importance { .. } => Failure::new(Kind::Usage, error)
            .hint("the importance matrix may have been made for another model"),
        ConvertError::CannotWrite { .. } => Failure::new(Kind::Usage, error),
        ConvertError::Quant { .. } => Failure::new(Kind::BadModel, error)
            .hint("the model's weights may be damaged, or too large for the type"),
        error => Failure::new(Kind::BadModel, error),
    }
}
