//! A device's memory for what is between the weights: sized once, for the largest batch.

use crate::backend::Address;
use crate::error::DeviceError;
use crate::multiplier::act_bytes;
use crate::weights::ends;
use strata_model::{BatchLimits, DeviceDense, DeviceFeedForward, DeviceModel};

/// Bytes of attention's shared-out chunks at most.
const PARTIALS: usize = 64 << 20;

/// Where everything is.
#[derive(Default)]
pub(crate) struct Buffers {
    pub(crate) x: Address,
    pub(crate) normed: Address,
    pub(crate) branch: Address,
    pub(crate) acts: Address,
    pub(crate) projected: Address,
    pub(crate) queries: Address,
    pub(crate) mixed: Address,
    pub(crate) mixed_acts: Address,
    pub(crate) hidden: Address,
    pub(crate) hidden_acts: Address,
    pub(crate) partials: Address,
    /// Floats there.
    pub(crate) partial_room: usize,
    pub(crate) rows: Address,
    pub(crate) row_acts: Address,
    pub(crate) logits: Address,
    pub(crate) experts: ExpertBuffers,
}

/// Those of experts; nowhere without.
#[derive(Default)]
pub(crate) struct ExpertBuffers {
    pub(crate) scores: Address,
    pub(crate) chosen: Address,
    pub(crate) weights: Address,
    pub(crate) inputs: Address,
    pub(crate) input_acts: Address,
    pub(crate) hidden: Address,
    pub(crate) hidden_acts: Address,
    pub(crate) results: Address,
}

/// The widest of all layers.
struct Widths {
    projected: usize,
    queries: usize,
    mixed: usize,
    hidden: usize,
    inner: usize,
}

impl Widths {
    fn of(model: &DeviceModel<'_>) -> Self {
        let mut widths = Self {
            projected: 0,
            queries: 0,
            mixed: 0,
            hidden: 0,
            inner: 0,
        };
        for layer in &model.layers {
            let attention = &layer.attention;
            let projected = attention.qkv.iter().map(|linear| linear.matrix.rows).sum();
            let mixed = attention.config.q_width();
            let gates = projected - mixed - 2 * attention.config.kv_width();
            widths.projected = widths.projected.max(projected);
            widths.queries = widths.queries.max(mixed + gates);
            widths.mixed = widths.mixed.max(mixed);
            let mut dense = |dense: &DeviceDense<'_>| {
                let hidden = dense.input.iter().map(|linear| linear.matrix.rows).sum();
                widths.hidden = widths.hidden.max(hidden);
                widths.inner = widths.inner.max(dense.down.matrix.columns);
            };
            match &layer.ffn {
                DeviceFeedForward::Nothing => {}
                DeviceFeedForward::Dense(ffn) => dense(ffn),
                DeviceFeedForward::Experts(experts) => experts.shared.iter().for_each(&mut dense),
            }
            if let Some((_, experts)) = &layer.expert_branch {
                experts.shared.iter().for_each(&mut dense);
            }
        }
        widths
    }
}

impl Buffers {
    /// Takes the memory, of which `alloc` is told the bytes.
    pub(crate) fn new(
        model: &DeviceModel<'_>,
        limits: BatchLimits,
        alloc: &mut dyn FnMut(usize) -> Result<Address, DeviceError>,
    ) -> Result<Self, DeviceError> {
        let mut take = |rows: usize, bytes: usize| alloc(rows.max(1).saturating_mul(bytes.max(16)));
        let config = model.config;
        let (tokens, width) = (limits.tokens, config.width);
        let widths = Widths::of(model);
        // Where there is another device after this one, it makes the logits.
        let logits = if ends(model) { limits.logits } else { 0 };
        let rows = if ends(model) { tokens + logits } else { 0 };
        let heads = config.attention().map(|attention| attention.heads).max();
        let head = config
            .attention()
            .map(|attention| attention.head_size + 2)
            .max();
        let chunk = heads.unwrap_or(1) * head.unwrap_or(1);
        let partial_room = (PARTIALS / 4).min(chunk * 128 * tokens.min(64));
        let experts = match &config.experts {
            None => ExpertBuffers::default(),
            Some(sizes) => {
                let slots = tokens * sizes.used;
                ExpertBuffers {
                    scores: take(tokens, 4 * sizes.count)?,
                    chosen: take(slots, 4)?,
                    weights: take(slots, 4)?,
                    inputs: take(slots, 4 * width)?,
                    input_acts: take(slots, act_bytes(width))?,
                    hidden: take(slots, 8 * sizes.ffn)?,
                    hidden_acts: take(slots, act_bytes(sizes.ffn))?,
                    results: take(slots, 4 * width)?,
                }
            }
        };
        let buffers = Self {
            x: take(tokens, 4 * width)?,
            normed: take(tokens, 4 * width)?,
            branch: take(tokens, 4 * width)?,
            acts: take(tokens, act_bytes(width))?,
            projected: take(tokens, 4 * widths.projected)?,
            queries: take(tokens, 4 * widths.queries)?,
            mixed: take(tokens, 4 * widths.mixed)?,
            mixed_acts: take(tokens, act_bytes(widths.mixed))?,
            hidden: take(tokens, 4 * widths.hidden)?,
            hidden_acts: take(tokens, act_bytes(widths.inner))?,
            partials: take(1, 4 * partial_room)?,
            partial_room,
            rows: take(rows, 4 * width)?,
            row_acts: take(rows, act_bytes(width))?,
            logits: take(logits, 4 * config.vocabulary)?,
            experts,
        };
        Ok(buffers)
    }
}
