//! Models on GPUs: the same text, and refusals that say why. In CI the GPU is Mesa's lavapipe.

use crate::support::{open, tale};
use strata::{Device, Model, Options, user};

fn ask(model: &Model) -> String {
    let request = model.chat([user("A fox and an owl.")]);
    request.temperature(0.0).max_tokens(8).text().unwrap()
}

#[test]
fn a_gpu_through_vulkan_writes_the_same_text() {
    if strata::vulkan_devices().is_empty() {
        assert!(std::env::var_os("CI").is_none(), "CI has a device");
        eprintln!("skipped: there is no Vulkan device");
        return;
    }
    let options = || Options::default().context(256).requests(1);
    let there = open("tale", options().device(Device::Vulkan(0))).unwrap();
    assert_eq!(ask(&there), ask(tale()));
}

#[test]
fn a_gpu_that_is_not_there_is_named() {
    let error = open("tale", Options::default().device(Device::Vulkan(99)));
    let sentence = error.expect_err("there are fewer").to_string();
    assert!(sentence.contains("cannot run on vulkan:99"), "{sentence}");
}
