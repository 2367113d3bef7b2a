//! `strata doctor`: what this machine is, what it can do, and which models it would run at what speed.

mod advice;
mod fits;
mod hardware;
mod report;
mod speed;

use crate::chart::{self, ChartArguments};
use crate::failure::Failure;
use fits::Fit;
use hardware::Hardware;
use report::Report;
use speed::Speeds;
use std::io::Write;
use strata::load::Machine;
use strata_host::{Budget, Effort};

/// Look at this machine and say which models it would run, and at what speed
///
/// Measures how fast memory and the disk are read and what the processor's integer units do, for a few seconds. Other
/// programs, and neighbours of a virtual machine, make the figures smaller.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Worker threads [default: one for each processor]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Measure for a moment only, less exactly
    #[arg(long)]
    quick: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    chart: ChartArguments,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let machine = Machine::new(arguments.threads.map(usize::from))?;
    let effort = if arguments.quick {
        Effort::Quick
    } else {
        Effort::Full
    };
    let hardware = Hardware::look(&machine);
    let speeds = Speeds::measure(&machine, effort)?;
    let budget = Budget::now();
    let fits = Fit::table(&budget, &speeds);
    let report = Report {
        advice: advice::of(&hardware, &speeds, &budget, &fits),
        hardware,
        speeds,
        budget,
        fits,
    };
    let charts = [report.chart()];
    arguments.chart.write("Models on this machine", &charts)?;
    let mut out = std::io::stdout().lock();
    let written = if arguments.json {
        writeln!(out, "{}", report.json())
    } else {
        let printed = report.print(&mut out);
        printed.and_then(|()| chart::print(&mut out, &charts))
    };
    written.map_err(|error| Failure::stdout(&error))
}
