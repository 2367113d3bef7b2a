//! Layers shared out between the processors and devices, and devices that fail.

use crate::compare::Side;
use crate::lent::Lent;
use crate::present;
use crate::split::{golden, golden_models, same_bits, same_bits_with_adapters, split, whole};
use std::sync::{Mutex, MutexGuard, OnceLock};
use strata_gpu::DeviceError;
use strata_model::{BatchError, KvType, Output, Span};
use strata_vulkan::backend;

/// One for all tests, which take turns: a device's kernels are made once.
fn device() -> MutexGuard<'static, Lent> {
    static DEVICE: OnceLock<Mutex<Lent>> = OnceLock::new();
    let device = DEVICE.get_or_init(|| Mutex::new(Lent::new(backend(0).unwrap())));
    device.lock().unwrap()
}

#[test]
fn layers_on_devices_and_the_processors_give_the_same_bits() {
    if !present() {
        return;
    }
    let device = device();
    let mut gpu = || device.clone();
    // Behind the processors, and several devices; with windows, sinks, experts.
    let cuts = [("llama", &[1][..]), ("gpt-oss", &[1]), ("gemma2", &[0, 1])];
    for (name, starts) in cuts {
        assert!(same_bits(name, starts, KvType::F16, &mut gpu), "{name}");
    }
    // Short convolutions and their states stay with the processors.
    let last = golden("lfm2").config().layers.len() - 1;
    assert!(same_bits("lfm2", &[last], KvType::F16, &mut gpu));
    assert!(!same_bits("lfm2", &[0], KvType::F16, &mut gpu));
    if std::env::var("STRATA_GOLDEN").is_ok_and(|all| all == "all") {
        // Of those whose second layer no GPU computes the last one at least, behind recurrent states.
        let last = |name: &String| {
            let layers = golden(name).config().layers.len();
            same_bits(name, &[layers - 1], KvType::F16, &mut || device.clone())
        };
        let (same, others): (Vec<_>, Vec<_>) = golden_models()
            .into_iter()
            .partition(|name| same_bits(name, &[1], KvType::F16, &mut gpu));
        let (behind, refused): (Vec<_>, Vec<_>) = others.into_iter().partition(|name| last(name));
        println!("{behind:?} have them in their last layer");
        println!(
            "{} models have the same bits; refused: {refused:?}",
            same.len()
        );
        assert!(same.len() > 90, "only {}", same.len());
    }
}

#[test]
fn adapters_of_a_batch_give_the_same_bits() {
    if !present() {
        return;
    }
    let device = device();
    same_bits_with_adapters("llama", &[0], &mut || device.clone());
    same_bits_with_adapters("qwen2moe", &[1], &mut || device.clone());
}

/// One token of one sequence.
fn step(side: &mut Side) -> Result<Vec<f32>, BatchError> {
    let sequence = &mut side.sequences[0];
    side.table.reserve(sequence, 1).unwrap();
    let mut batch = [Span {
        sequence,
        tokens: &[5],
        output: Output::LastLogits,
        adapter: None,
        embedded: &[],
    }];
    let outputs = side.executor.forward(&side.table, &mut batch)?;
    Ok(outputs.logits.to_vec())
}

#[test]
fn a_lost_device_is_told_of_once_and_memory_that_is_short_is_not_a_loss() {
    if !present() {
        return;
    }
    let device = device();
    let model = golden("llama");
    let executor = split(&model, &[1], KvType::F16, &mut || device.clone()).unwrap();
    let mut side = Side::new(Box::new(executor), 1);
    let mut other = Side::new(whole(&model, KvType::F16), 1);
    let doing = "computing";
    let full = DeviceError::OutOfMemory { doing };
    device.launches.after(3, full);
    let error = step(&mut side).unwrap_err().to_string();
    assert_eq!(error, "the GPU has not enough memory, computing");
    assert_eq!(side.executor.take_loss(), None);
    // As if nothing had been.
    device.launches.over();
    for _ in 0..2 {
        let expected = step(&mut other).unwrap();
        assert_eq!(step(&mut side).unwrap(), expected);
    }
    let reason = "the device was lost".into();
    device
        .launches
        .after(3, DeviceError::Driver { doing, reason });
    let lost = step(&mut side).unwrap_err();
    let sentence = "the GPU failed, computing: the device was lost";
    assert!(matches!(&lost, BatchError::Lost { reason } if reason == sentence));
    assert_eq!(side.executor.take_loss(), Some(lost.clone()));
    assert_eq!(side.executor.take_loss(), None);
    device.launches.over();
    // What was lost stays so.
    assert_eq!(step(&mut side).unwrap_err(), lost);
}
