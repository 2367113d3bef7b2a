//! `cargo xtask fuzz`: the fuzz targets on stable Rust, as the tests build them.

use crate::command::{cargo, run_as};
use anyhow::Result;

pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let mut command = cargo("run --quiet --profile test --package strata-fuzz --");
    run_as("the fuzzer", command.args(arguments))
}
