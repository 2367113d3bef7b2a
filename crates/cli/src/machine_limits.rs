//! What the machine can do, measured with the workers that compute the model.

use crate::failure::{Failure, Kind};
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use strata::Size;
use strata::load::Machine;
use strata_host::{Effort, HugePages, MemoryNode};
use strata_model::Model;
use strata_platform::Pool;

/// How long the peak is measured, at least.
const PEAK_TIME: Duration = Duration::from_millis(500);
const PEAK_ROUNDS: usize = 100_000;

/// Bytes a second that all workers together read from memory.
pub(crate) fn read_bandwidth(machine: &Machine, effort: Effort) -> Result<f64, Failure> {
    strata_host::read_bandwidth(&*machine.pool, &HugePages::default(), effort)
        .map_err(|error| Failure::new(Kind::OutOfMemory, error))
}

/// The same of the memory that a model's weights are in, if there is so much of it that no cache holds them.
pub(crate) fn read_weights(machine: &Machine, model: &Model) -> Option<f64> {
    const ENOUGH: usize = 512 << 20;
    let weights = Some(model.packed()).filter(|weights| weights.len() >= ENOUGH)?;
    Some(strata_host::read_bandwidth_of(&*machine.pool, weights))
}

/// Operations a second of independent dot products in the registers of all workers, the median of many runs.
pub(crate) fn int_peak(machine: &Machine, effort: Effort) -> f64 {
    peak(machine, effort, &|rounds| machine.kernels.dot_peak(rounds))
}

/// The same of floats that are multiplied and added.
pub(crate) fn float_peak(machine: &Machine, effort: Effort) -> f64 {
    peak(machine, effort, &|rounds| {
        machine.kernels.float_peak(rounds)
    })
}

fn peak(machine: &Machine, effort: Effort, work: &(dyn Fn(usize) -> u64 + Sync)) -> f64 {
    let time = match effort {
        Effort::Quick => PEAK_TIME / 10,
        Effort::Full => PEAK_TIME,
    };
    let begin = Instant::now();
    let mut speeds = Vec::new();
    while begin.elapsed() < time || speeds.len() < 3 {
        let start = Instant::now();
        machine.pool.run(&|_| {
            work(PEAK_ROUNDS);
        });
        speeds.push(1.0 / start.elapsed().as_secs_f64());
    }
    let operations = work(1) as f64 * PEAK_ROUNDS as f64;
    median(&mut speeds) * operations * machine.pool.workers() as f64
}

/// The number in the middle. Sorts them.
pub(crate) fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => f64::NAN,
        n if n % 2 == 0 => (values[middle - 1] + values[middle]) / 2.0,
        _ => values[middle],
    }
}

/// The machine's memory nodes, as in `0: 96 GiB, processors 0-15; 1: …`.
pub(crate) fn nodes_in_words(nodes: &[MemoryNode]) -> String {
    let words = |node: &MemoryNode| {
        let processors = match node.processors.as_str() {
            "" => "no processors".to_owned(),
            some => format!("processors {some}"),
        };
        format!("{}: {}, {processors}", node.number, Size(node.bytes))
    };
    nodes.iter().map(words).collect::<Vec<_>>().join("; ")
}

pub(crate) fn nodes_as_json(nodes: &[MemoryNode]) -> Value {
    let node = |node: &MemoryNode| {
        json!({
            "node": node.number,
            "bytes": node.bytes,
            "processors": node.processors,
        })
    };
    nodes.iter().map(node).collect()
}
