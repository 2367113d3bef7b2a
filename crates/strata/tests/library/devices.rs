//! Models on GPUs: the same text, and refusals that say why. In CI the GPU is Mesa's lavapipe.

use crate::support::{open, tale};
use strata::{Device, DeviceLost, ErrorKind, GpuLayers, Model, Options, user};

fn ask(model: &Model) -> String {
    let request = model.chat([user("A fox and an owl.")]);
    request.temperature(0.0).max_tokens(8).text().unwrap()
}

pub(crate) fn vulkan() -> Device {
    Device::Vulkan(vec![0])
}

/// Whether there is a device; CI has one.
pub(crate) fn present() -> bool {
    let found = strata::gpus().iter().any(|gpu| gpu.id == "vulkan:0");
    if !found {
        assert!(std::env::var_os("CI").is_none(), "CI has a device");
        eprintln!("skipped: there is no Vulkan device");
    }
    found
}

#[test]
fn a_gpu_through_vulkan_writes_the_same_text() {
    if !present() {
        return;
    }
    let options = || Options::default().context(256).requests(1);
    let there = open("tale", options().device(vulkan())).unwrap();
    assert_eq!(ask(&there), ask(tale()));
}

#[test]
fn a_gpu_that_is_not_there_is_named() {
    let error = open("tale", Options::default().device(Device::Vulkan(vec![99])));
    let sentence = error.expect_err("there are fewer").to_string();
    assert!(sentence.contains("cannot run on vulkan:99"), "{sentence}");
}

#[test]
fn layers_on_a_gpu_and_the_processors_write_the_same_text_and_are_planned() {
    if !present() {
        return;
    }
    let last = |layers| {
        let options = Options::default().context(256).requests(1);
        options.device(vulkan()).gpu_layers(GpuLayers::Last(layers))
    };
    let plan = Model::plan("tale", &last(3)).unwrap();
    let [device] = &plan.devices[..] else {
        panic!("{plan:?}")
    };
    assert_eq!((plan.layers, device.layers.clone()), (0..5, 5..8));
    assert_eq!(device.id, "vulkan:0");
    assert!(plan.fits && device.total() <= device.free && device.free <= device.memory);
    assert!(plan.weights > 0 && device.weights > 0 && device.kv > 0);
    let model = open("tale", last(3).device_lost(DeviceLost::Cpu)).unwrap();
    let description = &model.load_report().description;
    assert!(
        description.contains("layers 0 to 4 on the processors"),
        "{description}"
    );
    assert_eq!(ask(&model), ask(tale()));
}

#[test]
fn what_does_not_fit_is_refused_with_what_would() {
    if !present() {
        return;
    }
    // More positions than any machine has memory for.
    let options = Options::default().context(1 << 31).requests(1);
    let options = options.device(vulkan()).gpu_layers(GpuLayers::Last(8));
    let plan = Model::plan("tale", &options).unwrap();
    let misfit = plan.misfit.expect("it does not fit");
    assert!(!plan.fits);
    assert_eq!(misfit.kind(), ErrorKind::OutOfMemory);
    assert!(
        misfit.to_string().contains("tale does not fit on vulkan:0"),
        "{misfit}"
    );
    let hint = misfit.hint().unwrap_or_default();
    assert!(hint.contains("--ctx "), "{hint}");
    let refused = open("tale", options).expect_err("it does not fit");
    assert_eq!(refused.kind(), ErrorKind::OutOfMemory);
    assert_eq!(refused.hint().unwrap_or_default(), hint);
}

#[test]
fn layers_on_no_gpu_are_refused() {
    let layers = Options::default().gpu_layers(GpuLayers::Last(3));
    let lost = Options::default().device_lost(DeviceLost::Cpu);
    for options in [layers, lost] {
        let planned = Model::plan("tale", &options).expect_err("there is no GPU");
        assert_eq!(planned.kind(), ErrorKind::InvalidArgument);
        assert_eq!(open("tale", options).expect_err("likewise"), planned);
    }
}
