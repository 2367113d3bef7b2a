//! What dependencies may be, with reasons. An entry that nothing needs any more is an error too.

/// Licences under which code may be taken into a program under MIT or Apache-2.0. The Mozilla licence covers its own files
/// only, which are used as they are published: symphonia's.
pub(super) const LICENSES: [&str; 13] = [
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "CDLA-Permissive-2.0",
    "ISC",
    "MIT",
    "MIT-0",
    "MPL-2.0",
    "NCSA",
    "Unicode-3.0",
    "Zlib",
];

/// Packages that are there in more than one version, and why.
pub(super) const DUPLICATES: [(&str, &str); 7] = [
    (
        "base64",
        "ureq is ahead of boon, which llguidance's schemas need",
    ),
    ("bitflags", "smoltcp's defmt has stayed with version 1"),
    (
        "getrandom",
        "ring, ahash and tempfile each follow their own pace",
    ),
    (
        "hashbrown",
        "derivre and indexmap are ahead; 0.16 is what our no_std crates were measured with",
    ),
    (
        "libloading",
        "ash has stayed with 0.8, which finds Vulkan's loader; napi, of the package for Node, is ahead",
    ),
    (
        "miniz_oxide",
        "flate2, which checks our inflater in tests, is ahead",
    ),
    (
        "syn",
        "derives move from 2 to 3 one by one; none of it is in the program",
    ),
];

/// Packages that run code of their own while Strata is built: build scripts (`build.rs`) and procedural macros.
pub(super) const BUILD_CODE: [(&str, &str); 55] = [
    ("ahash", "asks the compiler's version"),
    ("anyhow", "asks the compiler's version"),
    (
        "ash",
        "links Vulkan's loader where it is asked to; here it is found at run time",
    ),
    ("bytemuck_derive", "derives"),
    ("clap_derive", "derives"),
    ("crc32fast", "asks the compiler's version"),
    ("defmt", "reads its environment for a log level; smoltcp's"),
    (
        "defmt-macros",
        "macros of a log that is not used; smoltcp's",
    ),
    ("displaydoc", "derives"),
    ("divan-macros", "benchmarks' attributes"),
    ("enumn", "derives"),
    ("futures-macro", "attributes; napi's"),
    ("generic-array", "asks the compiler's version"),
    (
        "getrandom",
        "chooses how to ask the system for random bytes",
    ),
    ("heapless", "asks which atomics the target has"),
    ("httparse", "asks which vector instructions the target has"),
    ("icu_normalizer_data", "reads where its tables are"),
    ("icu_properties_data", "reads where its tables are"),
    ("libc", "asks the compiler's version and the C library's"),
    (
        "libfuzzer-sys",
        "compiles libFuzzer (C++); of the fuzz targets alone",
    ),
    (
        "libm",
        "asks which floating-point instructions the target has",
    ),
    ("llguidance", "writes its version down"),
    (
        "napi",
        "asks what the target is; of the binding for Node alone",
    ),
    ("napi-derive", "exports functions to Node"),
    (
        "napi-sys",
        "asks what the target is; of the binding for Node alone",
    ),
    ("nix", "names for groups of targets"),
    ("num-traits", "asks the compiler's version"),
    ("portable-atomic", "asks which atomics the target has"),
    ("proc-macro2", "asks the compiler's version"),
    (
        "pyo3",
        "asks Python's version; of the binding for Python alone",
    ),
    (
        "pyo3-ffi",
        "asks Python's version; of the binding for Python alone",
    ),
    ("pyo3-macros", "exports functions to Python"),
    ("pyo3-macros-backend", "asks Python's version"),
    ("quote", "asks the compiler's version"),
    ("ref-cast", "asks the compiler's version"),
    ("ref-cast-impl", "derives"),
    (
        "ring",
        "compiles its assembly and C: the cryptography of TLS",
    ),
    ("rustix", "asks which system calls the target has"),
    ("rustls", "asks the compiler's version"),
    ("serde", "asks the compiler's version"),
    ("serde_core", "asks the compiler's version"),
    ("serde_derive", "derives"),
    ("serde_json", "asks how wide the target's arithmetic is"),
    ("smoltcp", "reads its environment for the sizes of buffers"),
    ("strum_macros", "derives"),
    ("target-lexicon", "reads the target's name; pyo3's"),
    ("thiserror", "asks the compiler's version"),
    ("thiserror-impl", "derives"),
    ("tokio-macros", "attributes"),
    ("yoke-derive", "derives"),
    ("zerocopy", "asks the compiler's version"),
    ("zerocopy-derive", "derives"),
    ("zerofrom-derive", "derives"),
    ("zerovec-derive", "derives"),
    ("zmij", "asks the compiler's version"),
];
