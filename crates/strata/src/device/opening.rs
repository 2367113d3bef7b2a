//! A model brought to GPUs.

use super::choice::{Device, DeviceLost};
use super::gpu::Gpu;
use super::refusal::Problem;
use super::survey::{Survey, own_needs, own_stretch};
use crate::error::{Error, ErrorKind};
use crate::load::{LoadedModel, Machine, MemoryPlan, ModelFile, Needs, TokenizerUse, WeightChoice};
use crate::open::{MOST_CONTEXTS, Runtime, add_pages};
use crate::options::Options;
use crate::peers::in_words;
use crate::size::Size;
use std::ops::ControlFlow;
use std::sync::Arc;
use strata_engine::EngineOptions;
use strata_gpu::{DeviceError, GpuExecutor, GpuOptions, GpuPart, Standby};
use strata_host::HugePages;
use strata_model::{CpuExecutor, CpuStretch, Executor, PAGE, PageLayout, PageStorage, Placement};
use strata_platform::Pool;

/// A model that was opened there: its weights, who computes it, what was loaded, in words, and bytes of pages in this
/// machine's memory beyond the plan.
pub(crate) struct Opened {
    pub(crate) loaded: LoadedModel,
    pub(crate) executor: Box<dyn Executor>,
    pub(crate) description: String,
    pub(crate) extra: u64,
}

/// Opens a model on the GPUs that the options ask for; nothing where the processors are to compute it.
pub(crate) fn open(
    file: &ModelFile,
    options: &Options,
    needs: (Needs, &EngineOptions),
    runtime: &Runtime,
    progress: &mut dyn FnMut(usize, usize) -> ControlFlow<()>,
) -> Result<Option<Opened>, Error> {
    let gpus = Gpu::asked(options)?;
    if gpus.is_empty() {
        return Ok(None);
    }
    let (needs, engine) = needs;
    let opening = Opening {
        file,
        options,
        gpus: &gpus,
        needs,
        engine,
        runtime,
    };
    match opening.open(progress) {
        Ok(opened) => Ok(Some(opened)),
        Err(Problem::Other(error)) => Err(error),
        Err(_) if options.device == Device::Auto => Ok(None),
        Err(problem) => Err(problem.refusal(file.path(), &gpus)),
    }
}

/// What is to be opened, and where.
struct Opening<'a> {
    file: &'a ModelFile,
    options: &'a Options,
    gpus: &'a [Gpu],
    needs: Needs,
    engine: &'a EngineOptions,
    runtime: &'a Runtime,
}

impl Opening<'_> {
    fn open(
        &self,
        progress: &mut dyn FnMut(usize, usize) -> ControlFlow<()>,
    ) -> Result<Opened, Problem> {
        let (machine, choice) = (&*self.runtime.machine, self.options.weight_choice()?);
        let backends = self.gpus.iter().map(|gpu| gpu.open());
        let backends = backends.collect::<Result<Vec<_>, DeviceError>>()?;
        let free = backends.iter().map(|backend| {
            backend.enter()?;
            backend.free_memory()
        });
        let free = free.collect::<Result<Vec<u64>, DeviceError>>()?;
        let survey = Survey::new(self.file, self.options, self.needs, machine)?;
        let placed = survey.place(&free)?;
        let surveyed = survey.into_model();
        let first = placed[0].start;
        let context = surveyed.context;
        let contexts = self.engine.requests.clamp(1, MOST_CONTEXTS);
        let most = context.saturating_mul(contexts).div_ceil(PAGE);
        let pages = self.needs.positions.div_ceil(PAGE);
        let standby = self.standby(choice)?;
        let (loaded, most, own) = if first == 0 {
            (surveyed, most, None)
        } else {
            let (loaded, needs) = self.first_layers(first, choice, progress)?;
            let own = Own { first, needs };
            (loaded, own.needs.positions.div_ceil(PAGE), Some(own))
        };
        let most = standby.map_or(most, |positions| most.min(positions.div_ceil(PAGE)));
        let start = std::time::Instant::now();
        let mut canceled = false;
        let parts = backends.into_iter().zip(&placed);
        let parts = parts.map(|(backend, layers)| GpuPart {
            backend,
            layers: layers.clone(),
        });
        let model = &loaded.model;
        let wanted = GpuOptions {
            kv: self.needs.kv,
            pages,
            most_pages: most.max(pages),
            limits: self.needs.limits,
            pool: Arc::clone(&machine.pool) as Arc<dyn Pool + Send>,
            processors: &mut |pages| own.as_ref()?.stretch(&loaded, machine, pages),
            progress: &mut |done, all| {
                canceled = canceled || progress(done, all).is_break();
                !canceled
            },
        };
        let opened = GpuExecutor::open(parts.collect(), Arc::clone(model), wanted);
        if canceled {
            let error = Error::new(ErrorKind::Canceled, "the load was canceled");
            return Err(Problem::Other(error));
        }
        let executor = opened?;
        let description = self.describe(&loaded, &executor, start.elapsed().as_secs_f64());
        let extra = own.map_or(0, |own| own.extra(&executor, self.needs));
        let executor: Box<dyn Executor> = match standby {
            Some(_) => self.with_standby(executor),
            None => Box::new(executor),
        };
        Ok(Opened {
            loaded,
            executor,
            description,
            extra,
        })
    }

    /// Positions that the processors would have room for, where they are to take over.
    fn standby(&self, choice: WeightChoice) -> Result<Option<usize>, Error> {
        if self.options.device_lost == DeviceLost::Stop {
            return Ok(None);
        }
        let checked = self.options.check(self.file, TokenizerUse::Required)?;
        let mut needs = self.needs;
        let plan = MemoryPlan::new(&checked.blueprint, needs, choice.limit());
        let plan = plan.for_context(checked.context);
        plan.place(self.file.path(), choice).map_err(|error| {
            let sentence = format_args!("the processors cannot take over: {error}");
            Error::new(error.kind(), sentence).with_hint("omit --device-lost cpu")
        })?;
        add_pages(&mut needs, &checked, self.engine, choice, self.runtime);
        Ok(Some(needs.positions))
    }

    /// The model with the weights of its first layers in this machine's memory, and what these need.
    fn first_layers(
        &self,
        first: usize,
        choice: WeightChoice,
        progress: &mut dyn FnMut(usize, usize) -> ControlFlow<()>,
    ) -> Result<(LoadedModel, Needs), Error> {
        let (path, machine) = (self.file.path(), &self.runtime.machine);
        let stretch = own_stretch(first);
        let required = TokenizerUse::Required;
        let part = self
            .options
            .check_part(self.file, required, Some(stretch))?;
        let mut needs = own_needs(self.needs, first);
        let plan = MemoryPlan::new(&part.blueprint, needs, choice.limit());
        let placement = match plan.for_context(part.context).place(path, choice)? {
            Placement::Packed => Placement::FirstLayers(first),
            streamed => streamed,
        };
        add_pages(&mut needs, &part, self.engine, choice, self.runtime);
        let checked = self.options.check(self.file, required)?;
        let loaded = checked.load_weights(placement, machine.pool_in_turns(), progress)?;
        Ok((loaded, needs))
    }

    fn with_standby(&self, executor: GpuExecutor) -> Box<dyn Executor> {
        let (path, options) = (self.file.path().to_owned(), self.options.clone());
        let (machine, needs) = (Arc::clone(&self.runtime.machine), self.needs);
        let untested = self.options.untested;
        let (layout, pages) = (executor.layout().clone(), executor.pages());
        let load = move || -> Result<Box<dyn Executor>, Error> {
            let file = ModelFile::open_as(&path, options.quantize, &mut |_, _| {})?;
            let file = file.allowing(untested);
            let choice = options.weight_choice()?;
            let checked = options.check(&file, TokenizerUse::Required)?;
            let placement = MemoryPlan::new(&checked.blueprint, needs, choice.limit())
                .for_context(checked.context)
                .place(&path, choice)?;
            // The engine has the turn already.
            let pool = Arc::clone(&machine.pool) as Arc<dyn Pool + Send>;
            let proceed = &mut |_, _| ControlFlow::Continue(());
            let loaded = checked.load_weights(placement, Arc::clone(&pool), proceed)?;
            let memory = HugePages::default();
            let storage = PageStorage::new(layout, pages * PAGE, needs.states, &memory);
            let storage = storage.map_err(|error| Error::new(ErrorKind::OutOfMemory, error))?;
            let (kernels, limits) = (machine.kernels, needs.limits);
            let executor = CpuExecutor::new(loaded.model, kernels, pool, storage, limits);
            Ok(Box::new(executor))
        };
        let load = || load().map_err(|error| error.to_string());
        Box::new(Standby::new(Box::new(executor), Box::new(load)))
    }

    fn describe(&self, loaded: &LoadedModel, executor: &GpuExecutor, seconds: f64) -> String {
        let memory = executor.memory();
        let (context, pages) = (loaded.context, Size(memory.pages as u64));
        let weights = Size(memory.weights as u64);
        let devices: Vec<_> = executor.devices().zip(self.gpus).collect();
        let (place, mut lines) = match &devices[..] {
            [((facts, layers), gpu)] if layers.start == 0 => {
                (format!(" on {} ({gpu})", facts.name), String::new())
            }
            _ => (String::new(), String::new()),
        };
        if place.is_empty() {
            let first = devices.first().map_or(0, |((_, layers), _)| layers.start);
            if first > 0 {
                lines += &format!("\n{} on the processors", in_words(0..first));
            }
            for ((facts, layers), gpu) in devices {
                lines += &format!("\n{} on {} ({gpu})", in_words(layers), facts.name);
            }
        }
        format!(
            "weights {weights}{place}, loaded in {seconds:.3} s; keys and values of {context} positions and more take {pages}{lines}"
        )
    }
}

/// What the first layers take, which are the processors'.
struct Own {
    first: usize,
    needs: Needs,
}

impl Own {
    fn stretch(&self, loaded: &LoadedModel, machine: &Machine, pages: usize) -> Option<CpuStretch> {
        let config = loaded.model.config();
        let layout = PageLayout::of_layers(config, self.needs.kv, 0..self.first);
        let states = self.needs.states;
        let storage = PageStorage::new(layout, pages * PAGE, states, &HugePages::default()).ok()?;
        Some(machine.first_layers(&loaded.model, self.first, storage, self.needs.limits))
    }

    /// Bytes of pages that there are beyond what is needed.
    fn extra(&self, executor: &GpuExecutor, asked: Needs) -> u64 {
        let layout = executor.layout();
        let page = PageLayout::of_layers(executor.config(), layout.kind(), 0..self.first);
        let more = executor
            .pages()
            .saturating_sub(asked.positions.div_ceil(PAGE));
        (more * page.page_bytes()) as u64
    }
}
