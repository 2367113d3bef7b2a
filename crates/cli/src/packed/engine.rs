//! Engines: the models of a packed program, of which one is chosen by the memory that it needs here. The choice is kept in
//! the file that `STRATA_ENGINE_FILE` names, or in a snap's own folder, and a model that does not fit is never chosen, nor one
//! whose component is not installed.

use super::Words;
use crate::failure::{Failure, Kind};
use std::ffi::OsString;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use strata::{Model, Options, Plan, Size};
use strata_pack::{COMPONENT_ARCHIVE, MODELS, Manifest};

/// The models of an artifact: their names, and where they are.
pub(super) struct Engines {
    names: Vec<String>,
    /// For those that are in components: the component, and the archive in it.
    components: Vec<Option<(String, PathBuf)>>,
    pub(super) paths: Vec<PathBuf>,
    context: u64,
}

impl Engines {
    pub(super) fn new(manifest: &Manifest, models: &Path) -> Self {
        let files = manifest.models.iter().map(|model| &model.file);
        // Where snapd shows them. Without it none is there.
        let folder = PathBuf::from(std::env::var_os("SNAP_COMPONENTS").unwrap_or_default());
        let components = manifest.models.iter().map(|model| {
            let component = model.component.as_ref()?;
            let archive = folder.join(component).join(COMPONENT_ARCHIVE);
            Some((component.clone(), archive))
        });
        let components: Vec<_> = components.collect();
        let paths = files.clone().zip(&components);
        Self {
            names: files
                .clone()
                .map(|file| file.strip_suffix(".gguf").unwrap_or(file).into())
                .collect(),
            paths: paths
                .map(|(file, component)| match component {
                    Some((_, archive)) => archive.join(MODELS).join(file),
                    None => models.join(file),
                })
                .collect(),
            components,
            context: manifest.start.context,
        }
    }

    /// The archive of the component that has a model, if it comes in one.
    pub(super) fn archive(&self, index: usize) -> Option<&Path> {
        let (_, archive) = self.components[index].as_ref()?;
        Some(archive)
    }

    fn is_installed(&self, index: usize) -> bool {
        let is_there = |archive: &Path| archive.is_absolute() && archive.is_file();
        self.archive(index).is_none_or(is_there)
    }

    /// The models that are here, those that need most memory first.
    pub(super) fn installed(&self) -> Vec<usize> {
        let all = 0..self.names.len();
        all.filter(|&index| self.is_installed(index)).collect()
    }

    /// That no model is here.
    pub(super) fn none(&self) -> Failure {
        let failure = Failure::new(Kind::BadModel, "there is no model in this program");
        match self.components.iter().flatten().next() {
            Some((component, _)) => failure.hint(install(component)),
            None => failure,
        }
    }

    pub(super) fn must_be_installed(&self, index: usize) -> Result<(), Failure> {
        match &self.components[index] {
            Some((component, _)) if !self.is_installed(index) => {
                let sentence = format_args!("the component {component} is not installed");
                Err(Failure::new(Kind::BadModel, sentence).hint(install(component)))
            }
            _ => Ok(()),
        }
    }

    /// How a server would open a model.
    fn options(&self, path: &Path) -> Options {
        let words = Words {
            command: "serve",
            context: self.context,
            socket: None,
            rest: &[],
        };
        words.options(path).unwrap_or_default()
    }

    fn plan(&self, index: usize) -> Result<Plan, Failure> {
        let path = &self.paths[index];
        Ok(Model::plan(path, &self.options(path))?)
    }

    /// Lists the engines, the memory that each needs here, and which one is chosen.
    pub(super) fn list(&self) -> Result<(), Failure> {
        let chosen = self.chosen()?;
        let mut out = std::io::stdout().lock();
        for (index, name) in self.names.iter().enumerate() {
            if !self.is_installed(index) {
                let written = writeln!(out, "  {name:<40} {:>10}  not installed", "");
                written.map_err(|error| Failure::stdout(&error))?;
                continue;
            }
            let plan = self.plan(index)?;
            let mark = if chosen == Some(index) { "*" } else { " " };
            let fits = if plan.fits { "fits" } else { "does not fit" };
            let needs = Size(plan.total()).to_string();
            let written = writeln!(out, "{mark} {name:<40} {needs:>10}  {fits}");
            written.map_err(|error| Failure::stdout(&error))?;
        }
        Ok(())
    }

    /// Chooses an engine by its name, or with `--auto` the largest that fits.
    pub(super) fn choose(&self, words: &[OsString]) -> Result<(), Failure> {
        let [word] = words else {
            let failure = Failure::new(Kind::Usage, "use-engine takes an engine, or --auto");
            return Err(failure.hint("`engines` lists them"));
        };
        let word = word.to_string_lossy();
        let index = if word == "--auto" {
            self.largest_that_fits()?
        } else {
            let index = self.find(&word)?;
            self.must_fit(index)?;
            index
        };
        let file = file().ok_or_else(|| {
            let failure = Failure::new(Kind::Usage, "there is no place to keep the choice");
            failure.hint("set STRATA_ENGINE_FILE to the name of a file")
        })?;
        let written = std::fs::write(&file, format!("{}\n", self.names[index]));
        written.map_err(|error| Failure::io(file.display(), &error))?;
        println!("{}", self.names[index]);
        Ok(())
    }

    /// The engine that was chosen, if one was, and the artifact has it.
    pub(super) fn chosen(&self) -> Result<Option<usize>, Failure> {
        let Some(file) = file() else {
            return Ok(None);
        };
        match std::fs::read_to_string(&file) {
            Ok(text) => self.find(text.trim()).map(Some),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Failure::io(file.display(), &error)),
        }
    }

    pub(super) fn name(&self, index: usize) -> &str {
        &self.names[index]
    }

    fn find(&self, name: &str) -> Result<usize, Failure> {
        let index = self.names.iter().position(|known| known == name);
        index.ok_or_else(|| {
            let failure = Failure::new(Kind::Usage, format_args!("there is no engine {name:?}"));
            failure.hint(format_args!("there are {}", self.names.join(", ")))
        })
    }

    fn largest_that_fits(&self) -> Result<usize, Failure> {
        let installed = self.installed();
        for &index in &installed {
            if self.plan(index)?.fits {
                return Ok(index);
            }
        }
        match installed.last() {
            Some(&smallest) => self.must_fit(smallest).map(|()| smallest),
            None => Err(self.none()),
        }
    }

    fn must_fit(&self, index: usize) -> Result<(), Failure> {
        self.must_be_installed(index)?;
        let plan = self.plan(index)?;
        if plan.fits {
            return Ok(());
        }
        let sentence = format_args!(
            "{} needs {} of memory, and {} may be used",
            self.names[index],
            Size(plan.total()),
            Size(plan.limit)
        );
        Err(Failure::new(Kind::OutOfMemory, sentence).hint("`engines` lists what fits"))
    }
}

/// How a component is had. A snap knows its name.
fn install(component: &str) -> String {
    let snap = std::env::var("SNAP_INSTANCE_NAME").or_else(|_| std::env::var("SNAP_NAME"));
    format!(
        "`snap install {}+{component}`",
        snap.unwrap_or_else(|_| "SNAP".into())
    )
}

/// Where the choice is kept.
fn file() -> Option<PathBuf> {
    let named = std::env::var_os("STRATA_ENGINE_FILE").map(PathBuf::from);
    let of_snap = || Some(Path::new(&std::env::var_os("SNAP_COMMON")?).join("engine"));
    named.or_else(of_snap)
}
