//! Exercise 2.3: the roof over a model's speed.

/// What a machine can do in a second.
#[derive(Clone, Copy, Debug)]
pub struct Machine {
    /// Bytes read from memory.
    pub bytes: f64,
    /// Multiplications with their additions.
    pub products: f64,
}

/// The most tokens a second with `batch` sequences at a time, for a model of `parameters` numbers in `bytes` bytes. A
/// step reads every weight once, and multiplies it once for each sequence.
pub fn tokens_per_second(machine: Machine, parameters: f64, bytes: f64, batch: f64) -> f64 {
    // Your code here.
    machine.bytes + machine.products + parameters + bytes + batch
}
