//! The prompt on the command line, answered by the model in the image.

use strata_unikernel::boot::BootInfo;
use strata_unikernel::machine::heap::HugePages;
use strata_unikernel::machine::processors::WORKERS;
use strata_unikernel::machine::{time, watchdog};
use strata_unikernel::model::Means;
use strata_unikernel::prompt::{self, Prompt};
use strata_unikernel::{console, say};

/// Answers the prompt on the command line, if there is one.
pub(crate) fn speak(info: &BootInfo) {
    let prompt = match Prompt::from_options(&info.command_line) {
        Ok(Some(prompt)) => prompt,
        Ok(None) => return,
        Err(error) => return say!("{error}"),
    };
    let Some((_, model)) = model(info) else {
        return say!("there is no model in this image to answer the prompt with");
    };
    let means = Means {
        pool: &WORKERS,
        memory: &HugePages,
        progress: &watchdog::progress,
    };
    watchdog::arm(seconds(info).saturating_mul(1_000_000_000));
    let (start, mut first) = (time::now(), None);
    let answered = prompt::answer(model, &prompt, means, &mut |text| {
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

/// The model that came along with the image, and what it is called.
pub(crate) fn model(info: &BootInfo) -> Option<(&str, &[u8])> {
    Some((
        info.command_line.get("name").unwrap_or("model"),
        module(info)?,
    ))
}

/// The file that was loaded along with the image: an initrd, `strata.gguf` from the volume that firmware booted, or
/// what `strata image` put behind the image.
fn module(info: &BootInfo) -> Option<&[u8]> {
    let module = info.module?;
    say!("the model is the module of {} bytes", module.len());
    // SAFETY: whoever booted the image loaded so many bytes there; they are mapped, and kept out of the heap.
    Some(unsafe { core::slice::from_raw_parts(module.start as *const u8, module.len() as usize) })
}

/// How long a step may take: `watchdog=SECONDS`, or two minutes, which is enough for emulation.
pub(crate) fn seconds(info: &BootInfo) -> u64 {
    let given = info.command_line.get("watchdog");
    given.and_then(|text| text.parse().ok()).unwrap_or(120)
}
