//! `cargo xtask test`: everything that must hold, in the order that fails soonest.

use crate::aarch64;
use crate::command::{cargo, run as execute, tests_are_built};
use crate::conformance;
use crate::peers::Peers;
use crate::test_boot;
use anyhow::Result;

pub(crate) fn run() -> Result<()> {
    execute(&mut cargo("fmt --all --check"))?;
    execute(&mut cargo(
        "clippy --workspace --all-targets --quiet -- -D warnings",
    ))?;
    execute(&mut cargo(
        "check --quiet --manifest-path xtask/no_std/Cargo.toml",
    ))?;
    execute(&mut cargo("check --quiet --manifest-path fuzz/Cargo.toml"))?;
    // A program that depends on nothing but the library.
    execute(&mut cargo(
        "check --quiet --manifest-path crates/strata/tests/embedder/Cargo.toml",
    ))?;
    // Without the built-in model.
    execute(&mut cargo(
        "check --quiet --package strata-cli --no-default-features",
    ))?;

    if std::env::var_os("STRATA_FIXTURES").is_none() {
        eprintln!(
            "\nskipped: the tests over published vocabularies and templates, because STRATA_FIXTURES is not set"
        );
    }
    let peers = Peers::install()?;
    let mut tests = cargo("test --workspace");
    if let Some(peers) = &peers {
        tests.env("STRATA_PYTHON", peers.python());
        if let Some(expected) = peers.expected_templates()? {
            tests.env("STRATA_TEMPLATE_EXPECTED", expected);
        }
    }
    execute(&mut tests)?;
    tests_are_built();
    aarch64::run()?;
    if let Some(peers) = peers {
        peers.check()?;
    }
    conformance::run()?;
    test_boot::run(&["--quick".into()])
}
