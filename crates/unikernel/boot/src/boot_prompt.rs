//! The prompt on the command line, answered by the model.

use crate::source::{self, ProgressLog, Wanted};
use alloc::sync::Arc;
use core::ops::ControlFlow;
use strata_unikernel::boot::{BootInfo, CommandLine};
use strata_unikernel::drivers::Devices;
use strata_unikernel::machine::heap::HugePages;
use strata_unikernel::machine::processors::WORKERS;
use strata_unikernel::machine::workers::LimitedPool;
use strata_unikernel::machine::{cpu, time, watchdog};
use strata_unikernel::model::Platform;
use strata_unikernel::prompt::{self, Prompt};
use strata_unikernel::shell::settings::step_timeout;
use strata_unikernel::{console, say};

/// Answers the prompt on the command line, if there is one.
pub(crate) fn answer(info: &BootInfo, options: &CommandLine, devices: &Devices) {
    let prompt = match Prompt::from_options(options, cpu::time_stamp()) {
        Ok(Some(prompt)) => prompt,
        Ok(None) => return,
        Err(error) => return say!("{error}"),
    };
    watchdog::arm(step_timeout(options));
    let found = source::locate(info, options, &devices.disks, Wanted::Set);
    let model = match found.and_then(|found| found.open_checked()) {
        Ok(model) => model,
        Err(error) => {
            watchdog::arm(0);
            return say!("{error}");
        }
    };
    let log = ProgressLog::new("packed");
    let platform = Platform {
        pool: Arc::new(LimitedPool {
            pool: &WORKERS,
            count: usize::MAX,
        }),
        memory: &HugePages,
        progress: &mut |done, all| {
            log.report(done, all);
            ControlFlow::Continue(())
        },
    };
    let (start, mut first) = (time::now(), None);
    let answered = prompt::answer(&model, &prompt, source::free(), platform, &mut |text| {
        watchdog::progress();
        if !text.is_empty() {
            first.get_or_insert_with(time::now);
        }
        console::write(format_args!("{text}"));
    });
    watchdog::arm(0);
    say!();
    match answered {
        Ok(()) => {
            let first = first.unwrap_or_else(time::now) - start;
            let all = time::now() - start;
            say!(
                "first token after {} ms, all after {} ms",
                first / 1_000_000,
                all / 1_000_000
            );
        }
        Err(error) => say!("{error}"),
    }
}
