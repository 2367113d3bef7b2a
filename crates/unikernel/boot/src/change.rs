//! Loading a model, and changing to another while clients stay.
//!
//! A model that is refused, because it is not what was meant, is none, or has no room, leaves the old one where it is:
//! all that is looked at before the old one goes. Meanwhile requests for the old one are answered; then those that run are
//! computed to their end, and new ones are told when to come again.

use crate::server::{Failure, Serving};
use crate::source::{self, PAGES, ProgressLog, Wanted};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::ControlFlow;
use core::time::Duration;
use strata_platform::Pool;
use strata_unikernel::boot::CommandLine;
use strata_unikernel::boot::listed::{self, ListedModel};
use strata_unikernel::machine::heap::HugePages;
use strata_unikernel::machine::processors::WORKERS;
use strata_unikernel::machine::time;
use strata_unikernel::machine::workers::LimitedPool;
use strata_unikernel::model::{self, LoadSettings, LocalModel, Placement, Platform};
use strata_unikernel::say;
use strata_unikernel::serve::{ModelFacts, Server};
use strata_unikernel::shell::settings;
use strata_unikernel::storage::data::DataStore;

/// Sequences that run side by side, and how many of their tokens are computed together.
const REQUESTS: usize = 8;
const BATCH: usize = 128;

/// A model that was loaded.
pub(crate) struct Fresh {
    model: LocalModel,
    /// How long that took.
    took: Duration,
    /// Where its pages are kept, and the digest that they are known by.
    data: Option<(DataStore, [u8; 32])>,
}

impl Fresh {
    /// It answers from now on.
    pub(crate) fn put_in(self, server: &mut Server) {
        server.put_model(self.model, self.took);
        if let Some((data, digest)) = self.data {
            server.keep(data, digest);
        }
    }
}

/// What the model is called that the settings name.
fn own_name(options: &CommandLine) -> &str {
    options.get("name").unwrap_or("model")
}

/// The listed model of a name.
fn listed<'o>(options: &'o CommandLine, name: &str) -> Option<ListedModel<'o>> {
    let list = options.get("models").unwrap_or_default();
    listed::models(list)
        .flatten()
        .find(|model| model.name == name)
}

fn pool(options: &CommandLine) -> LimitedPool<'static> {
    LimitedPool {
        pool: &WORKERS,
        count: settings::number(options, "threads").map_or(usize::MAX, |n| n as usize),
    }
}

/// How a model is loaded into so much memory.
fn load_settings(options: &CommandLine, free: usize) -> LoadSettings {
    LoadSettings {
        requests: REQUESTS,
        batch: BATCH,
        context: settings::number(options, "ctx").map(|n| n as usize),
        free,
    }
}

impl Serving<'_, '_, '_> {
    /// What is told of the listed models. Those that cannot be read are told and left out.
    pub(crate) fn others(&self) -> Vec<ModelFacts> {
        let options = &self.shell.options;
        let mut found = Vec::new();
        for model in listed::models(options.get("models").unwrap_or_default()) {
            let facts = model
                .map_err(|error| error.to_string())
                .and_then(|model| self.read_facts(model));
            match facts {
                Ok(facts) => found.push(facts),
                Err(problem) => say!("{problem}"),
            }
        }
        found
    }

    fn read_facts(&self, model: ListedModel<'_>) -> Result<ModelFacts, String> {
        let left_out = |problem: &dyn core::fmt::Display| format!("{}: {problem}", model.name);
        if model.name == own_name(&self.shell.options) {
            return Err(left_out(&"models= has the name of the first model"));
        }
        let wanted = Wanted::Listed(model);
        let found = source::locate(self.info, &self.shell.options, self.disks, wanted);
        let source = found.and_then(|found| found.open());
        let source = source.map_err(|error| left_out(&error))?;
        model::facts(&source, model.name).map_err(|error| left_out(&error))
    }

    /// Finds what is wanted: nothing names the settings' model, as its name does; else it is a listed model's name or a path.
    fn locate(&mut self, target: &str) -> Result<(source::Located, String), Failure> {
        let options = &mut self.shell.options;
        let is_own = target.is_empty() || target == own_name(options);
        if !is_own && listed(options, target).is_none() && !options.set("model", target) {
            return Err(Failure::Setting("that is no path"));
        }
        let options = &self.shell.options;
        let wanted = match listed(options, target).filter(|_| !is_own) {
            Some(model) => Wanted::Listed(model),
            None => Wanted::Set,
        };
        let located = source::locate(self.info, options, self.disks, wanted);
        Ok((located.map_err(Failure::Source)?, self.name_of(target)))
    }

    /// What the model that is wanted so is called.
    pub(crate) fn name_of(&self, target: &str) -> String {
        let options = &self.shell.options;
        let listed = listed(options, target).map(|model| model.name);
        listed.unwrap_or_else(|| own_name(options)).into()
    }

    /// Loads a model, while clients of a server that has none are told to wait.
    pub(crate) fn load(
        &mut self,
        target: &str,
        mut server: Option<&mut Server>,
    ) -> Result<Fresh, Failure> {
        let begin = time::now();
        let (located, name) = self.locate(target)?;
        let source = located.open_checked().map_err(Failure::Source)?;
        let data = self.data().and_then(|data| {
            let digest = located.digest(&source);
            if digest.is_none() {
                say!("nothing is kept: the model has no sha256=, by which its pages are known");
            }
            Some((data, digest?))
        });
        let free = source::free();
        let options = &self.shell.options;
        let (pool, load) = (pool(options), load_settings(options, free));
        let log = ProgressLog::new("packed");
        let platform = Platform {
            pool: Arc::new(pool),
            memory: &HugePages,
            progress: &mut |done, all| {
                log.report(done, all);
                if let Some(server) = &mut server {
                    self.tend(server);
                }
                ControlFlow::Continue(())
            },
        };
        let opened = model::open(&source, &name, load, platform);
        let (model, placement) = opened.map_err(Failure::Model)?;
        drop(source);
        if let Placement::Within(bytes) = placement {
            say!(
                "only {} MiB of weights fit in memory: it goes slowly",
                bytes >> 20
            );
        }
        self.loaded.target = target.into();
        self.loaded.held = free.saturating_sub(source::free());
        // It is announced again, under its name.
        self.announced = None;
        let took = Duration::from_nanos(time::now() - begin);
        Ok(Fresh { model, took, data })
    }

    /// Changes to another model, or says why not. What it says is only an error where there is no model any more.
    pub(crate) fn change(&mut self, server: &mut Server, target: &str) -> Result<(), Failure> {
        let before = self.shell.options.clone();
        let refused = match self.prepare(server, target) {
            Ok(()) => {
                drop(server.take_model());
                match self.load(target, Some(&mut *server)) {
                    Ok(fresh) => {
                        fresh.put_in(server);
                        return Ok(());
                    }
                    Err(failure) => failure,
                }
            }
            Err(failure) => failure,
        };
        say!("{refused}; the model stays");
        self.shell.options = before;
        server.refuse_model(target, &refused.to_string());
        if server.facts().is_none() {
            let old = core::mem::take(&mut self.loaded.target);
            self.load(&old, Some(&mut *server))?.put_in(server);
        }
        Ok(())
    }

    /// Sees to it that another model can take the place of the one that answers, and that nobody waits for that one.
    fn prepare(&mut self, server: &mut Server, target: &str) -> Result<(), Failure> {
        let (located, name) = self.locate(target)?;
        if source::free() < PAGES {
            let problem = "there is no memory to look at another model: model unload makes room";
            return Err(Failure::Setting(problem));
        }
        let source = located.open().map_err(Failure::Source)?;
        let options = &self.shell.options;
        let load = load_settings(options, source::free() + self.loaded.held);
        let workers = pool(options).workers();
        model::check(&source, load, workers).map_err(Failure::Model)?;
        say!("{name} is looked at");
        let checked = located.check(&source, &mut || {
            self.tend(server);
        });
        checked.map_err(Failure::Source)?;
        drop(source);
        server.retire(&name);
        self.drain(server);
        Ok(())
    }
}
