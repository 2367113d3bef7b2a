//! Embeds the unikernel that `STRATA_UNIKERNEL` names, for `strata image` and `strata boot`: the file
//! `target/unikernel/kernel.elf` that `cargo xtask unikernel` makes.

fn main() {
    println!("cargo::rustc-check-cfg=cfg(embedded_unikernel)");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=STRATA_UNIKERNEL");
    let Some(path) = std::env::var_os("STRATA_UNIKERNEL") else {
        return;
    };
    let path = match std::path::absolute(&path) {
        Ok(path) if path.is_file() => path,
        _ => panic!(
            "STRATA_UNIKERNEL names {}, which is no file",
            path.display()
        ),
    };
    println!("cargo::rerun-if-changed={}", path.display());
    println!("cargo::rustc-env=STRATA_UNIKERNEL_FILE={}", path.display());
    println!("cargo::rustc-cfg=embedded_unikernel");
}
