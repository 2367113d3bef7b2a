//! The kernels' own source as a library for this machine.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// Builds the library, once; none where there is no C++ compiler, which CI has.
pub(crate) fn library() -> Option<&'static Path> {
    static LIBRARY: OnceLock<Option<(tempfile::TempDir, PathBuf)>> = OnceLock::new();
    let built = LIBRARY.get_or_init(|| {
        let kernels = Path::new(env!("CARGO_MANIFEST_DIR")).join("kernels/emulation.cpp");
        let folder = tempfile::tempdir().unwrap();
        let library = folder.path().join("emulation.so");
        let build = Command::new("c++")
            .args(["-x", "c++", "-std=c++17", "-O1", "-ffp-contract=off"])
            .args(["-shared", "-fPIC", "-Wno-unknown-pragmas", "-o"])
            .args([&library, &kernels])
            .status();
        match build {
            Ok(status) => assert!(status.success(), "the kernels do not compile"),
            Err(_) if std::env::var_os("CI").is_none() => {
                eprintln!("skipped: there is no C++ compiler to build the emulation with");
                return None;
            }
            Err(error) => panic!("no C++ compiler: {error}"),
        }
        Some((folder, library))
    });
    built.as_ref().map(|(_, library)| library.as_path())
}
