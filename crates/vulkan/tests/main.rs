//! The executor for Vulkan against the processors', bit for bit, on whatever device there is: in CI, Mesa's lavapipe.

#[path = "../../gpu/tests/compare.rs"]
mod compare;
mod forward;
#[path = "../../gpu/tests/lent.rs"]
mod lent;
#[path = "../../gpu/tests/products.rs"]
mod products;
mod products_here;
mod sources;
#[path = "../../gpu/tests/split.rs"]
mod split;
mod split_here;

/// Whether there is a device; CI has one.
fn present() -> bool {
    let found = !strata_vulkan::devices().is_empty();
    if !found {
        let sentence = "there is no Vulkan device: install mesa-vulkan-drivers";
        assert!(std::env::var_os("CI").is_none(), "{sentence}");
        eprintln!("skipped: {sentence}");
    }
    found
}
