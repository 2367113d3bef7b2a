//! `strata doctor`: what this machine is, what it can do, and which models it would run at what speed.

mod advice;
mod fits;
mod hardware;
mod report;
mod speed;

use crate::chart::{self, ChartArguments};
use crate::failure::Failure;
use crate::progress;
use fits::Fit;
use hardware::Hardware;
use report::Report;
use speed::Speeds;
use std::io::Write;
use strata::load::Machine;
use strata_host::{Budget, Effort};

/// Check this machine and estimate which models it can run, and how fast
///
/// Measures memory bandwidth, disk bandwidth and integer throughput for a few seconds. Other programs, and other virtual
/// machines on the same host, make the figures smaller.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Number of worker threads [default: one per processor]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Measure faster and less precisely
    #[arg(long)]
    quick: bool,
    /// Print as JSON
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
    let bar = progress::bar(Speeds::STEPS, "[{pos}/{len}] {msg}");
    let speeds = Speeds::measure(&machine, effort, &|step| {
        bar.inc(1);
        bar.set_message(step);
        bar.tick();
    })?;
    bar.finish_and_clear();
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
        let size = terminal_size::terminal_size();
        let columns = size.map_or(usize::MAX, |(width, _)| width.0.into());
        let printed = report.print(&mut out, columns);
        printed.and_then(|()| chart::print(&mut out, &charts))
    };
    written.map_err(|error| Failure::stdout(&error))
}
