//! Progress on standard error, where a terminal shows it.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

/// Loads that are done sooner need no bar.
const SHOWN_AFTER: Duration = Duration::from_millis(500);

/// A bar that appears when loading takes its time.
pub(crate) struct LoadProgress {
    start: Instant,
    bar: Option<ProgressBar>,
}

impl LoadProgress {
    pub(crate) fn new() -> Self {
        Self {
            start: Instant::now(),
            bar: None,
        }
    }

    pub(crate) fn show(&mut self, done: usize, total: usize) {
        if self.bar.is_none() && self.start.elapsed() < SHOWN_AFTER {
            return;
        }
        let bar = self.bar.get_or_insert_with(|| {
            bar(
                total as u64,
                "loading {wide_bar} {decimal_bytes}/{decimal_total_bytes}",
            )
        });
        bar.set_position(done as u64);
    }
}

impl LoadProgress {
    /// Shows progress to those who could be stopped by it.
    pub(crate) fn shown(&mut self) -> impl FnMut(usize, usize) -> ControlFlow<()> {
        |done, all| {
            self.show(done, all);
            ControlFlow::Continue(())
        }
    }
}

impl Drop for LoadProgress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// A bar over `length` steps; hidden where standard error is no terminal.
pub(crate) fn bar(length: u64, template: &str) -> ProgressBar {
    let target = if std::io::stderr().is_terminal() {
        ProgressDrawTarget::stderr()
    } else {
        ProgressDrawTarget::hidden()
    };
    let style =
        ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::with_draw_target(Some(length), target).with_style(style)
}
