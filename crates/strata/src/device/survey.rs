//! A model looked at for GPUs: what each of its layers would take there.

use super::choice::GpuLayers;
use super::placement::{Misplaced, Room, most_layers, most_pages, place};
use super::refusal::Problem;
use crate::error::Error;
use crate::load::{LoadedModel, Machine, ModelFile, Needs, TokenizerUse, WeightChoice};
use crate::options::{Options, Stream};
use std::ops::{ControlFlow, Range};
use strata_gpu::{DeviceNeeds, DeviceShare};
use strata_model::{BatchLimits, KvType, NotOnDevice, PAGE, Stretch};

/// A model whose weights have stayed in their file, from which they are packed on their way to a GPU.
pub(super) struct Survey {
    loaded: LoadedModel,
    asked: GpuLayers,
    needs: Needs,
}

impl Survey {
    pub(super) fn new(
        file: &ModelFile,
        options: &Options,
        needs: Needs,
        machine: &Machine,
    ) -> Result<Self, Error> {
        let checked = options.check(file, TokenizerUse::Optional)?;
        let choice = WeightChoice {
            stream: Stream::Always,
            memory: options.weight_choice()?.memory,
        };
        let here = Needs {
            positions: PAGE,
            ..needs
        };
        let quiet = &mut |_, _| ControlFlow::Continue(());
        let (loaded, _) = checked.load_any(here, choice, machine, quiet)?;
        Ok(Self {
            loaded,
            asked: options.gpu_layers,
            needs,
        })
    }

    pub(super) fn into_model(self) -> LoadedModel {
        self.loaded
    }

    /// The layer from which on GPUs are to have all, where everything fits that is asked for.
    pub(super) fn first(&self) -> usize {
        let layers = self.loaded.model.config().layers.len();
        match self.asked {
            GpuLayers::Auto => 0,
            GpuLayers::Last(last) => layers.saturating_sub(last),
        }
    }

    fn pages(&self) -> usize {
        self.needs.positions.div_ceil(PAGE)
    }

    fn device_needs(&self, kv: KvType) -> Result<DeviceNeeds, NotOnDevice> {
        let (model, limits) = (&self.loaded.model, self.needs.limits);
        DeviceNeeds::of(model, self.first(), kv, limits)
    }

    /// Which layers are on which GPU, where these have so much of their memory free.
    pub(super) fn place(&self, free: &[u64]) -> Result<Vec<Range<usize>>, Problem> {
        let config = self.loaded.model.config();
        let needs = self.device_needs(self.needs.kv)?;
        let pages = self.pages();
        let room = Room { free, pages };
        place(config, &needs, &room, self.asked).map_err(|error| {
            let remedies = match error {
                Misplaced::Full { .. } => self.remedies(&needs, &room),
                _ => Vec::new(),
            };
            Problem::Misplaced(error, remedies)
        })
    }

    /// What each GPU takes of these layers.
    pub(super) fn shares(&self, placed: &[Range<usize>]) -> Result<Vec<DeviceShare>, NotOnDevice> {
        let needs = self.device_needs(self.needs.kv)?;
        let shares = placed
            .iter()
            .map(|own| needs.share(own.clone(), self.pages()));
        Ok(shares.collect())
    }

    /// What would fit, as options of the command line.
    fn remedies(&self, needs: &DeviceNeeds, room: &Room<'_>) -> Vec<String> {
        let config = self.loaded.model.config();
        let mut remedies = Vec::new();
        if let Some(layers) = most_layers(config, needs, room) {
            remedies.push(format!("--gpu-layers {layers}"));
        }
        // Positions may hold several sequences.
        let share = self.loaded.context as u128;
        let context = |pages: usize| (pages * PAGE) as u128 * share / self.needs.positions as u128;
        match context(most_pages(config, needs, room, self.asked)) {
            0 => {}
            context => remedies.push(format!("--ctx {context}")),
        }
        if self.needs.kv != KvType::Q8_0
            && config.stores_kv(KvType::Q8_0)
            && let Ok(smaller) = self.device_needs(KvType::Q8_0)
        {
            match most_pages(config, &smaller, room, self.asked) {
                0 => {}
                pages if pages >= room.pages => remedies.push("--kv q8_0".into()),
                pages => remedies.push(format!("--kv q8_0 --ctx {}", context(pages))),
            }
        }
        remedies
    }
}

/// The layers before this one, of which nothing else is computed here.
pub(super) fn own_stretch(first: usize) -> Stretch {
    Stretch {
        first: 0,
        end: first,
        ends: false,
    }
}

/// What these need, where the whole model needs this. Without layers that is nothing.
pub(super) fn own_needs(needs: Needs, first: usize) -> Needs {
    let limits = BatchLimits {
        tokens: if first == 0 { 0 } else { needs.limits.tokens },
        logits: 0,
    };
    Needs { limits, ..needs }
}
