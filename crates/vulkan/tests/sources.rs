//! The committed SPIR-V belongs to the committed sources: `cargo xtask vulkan` notes a digest of what it compiled.

use crate::compare::root;

/// FNV-1a over the names and texts of all kernels, in order; `xtask/src/vulkan.rs` has the same.
fn digest() -> String {
    let folder = root().join("crates/vulkan/kernels");
    let entries = std::fs::read_dir(folder).unwrap();
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for path in paths {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let text = std::fs::read(&path).unwrap();
        for byte in name.bytes().chain(text) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        }
    }
    format!("{hash:016x}\n")
}

#[test]
fn the_modules_are_those_of_the_sources() {
    let noted = std::fs::read_to_string(root().join("crates/vulkan/spirv/sources.txt")).unwrap();
    assert_eq!(
        noted,
        digest(),
        "kernels have changed: run `cargo xtask vulkan`"
    );
}
