//! The prompt on the command line, answered by the model.

use alloc::sync::Arc;
use crate::source::{self, Telling};
use strata_unikernel::boot::{BootInfo, CommandLine};
use strata_unikernel::drivers::Devices;
use strata_unikernel::machine::heap::HugePages;
use strata_unikernel::machine::processors::WORKERS;
use strata_unikernel::machine::workers::Few;
use strata_unikernel::machine::{time, watchdog};
use strata_unikernel::model::Means;
use strata_unikernel::prompt::{self, Prompt};
use strata_unikernel::shell::settings::patience;
use strata_unikernel::{console, say};

/// Answers the prompt on the command line, if there is one.
pub(crate) fn speak(info: &BootInfo, options: &CommandLine, devices: &Devices) {
    let prompt = match Prompt::from_options(options) {
        Ok(Some(prompt)) => prompt,
        Ok(None) => return,
        Err(error) => return say!("{error}"),
    };
    watchdog::arm(patience(options));
    let model = match source::model(info, options, &devices.disks) {
        Ok(model) => model,
        Err(error) => {
            watchdog::arm(0);
            return say!("{error}");
        }
    };
    let told = Telling::new("packed");
    let means = Means {
        pool: Arc::new(Few { pool: &WORKERS, count: usize::MAX }),
        memory: &HugePages,
        progress: &|done, all| told.tell(done, all),
    };
    let (start, mut first) = (time::now(), None);
    let answered = prompt::answer(&model, &prompt, source::free(), means, &mut |text| {
        first.get_or_insert_with(time::now);
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
