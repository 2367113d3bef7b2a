//! Links a static, position-independent program without a C library, laid out by `link.ld`.

fn main() {
    let folder = std::env::var("CARGO_MANIFEST_DIR").expect("cargo sets it");
    println!("cargo:rerun-if-changed=link.ld");
    for argument in [
        "-nostartfiles",
        "-nostdlib",
        "-static-pie",
        "-Wl,-z,norelro",
        "-Wl,-z,noexecstack",
        "-Wl,-z,max-page-size=4096",
        "-Wl,--no-dynamic-linker",
        "-Wl,--build-id=none",
        "-Wl,--gc-sections",
    ] {
        println!("cargo:rustc-link-arg-bins={argument}");
    }
    println!("cargo:rustc-link-arg-bins=-Wl,-T,{folder}/link.ld");
}
