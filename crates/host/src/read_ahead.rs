//! A thread that brings in a mapped file's bytes before they are read.
//!
//! The kernel's own advice for this (`MADV_WILLNEED`) reads into single 4 KiB pages, on the caller's time. Faulting the
//! pages in from another thread (`MADV_POPULATE_READ`) reads into large ones: four times as fast, at a thirtieth of
//! the processor's time, and it leaves nothing to fault for the reader. Windows reads ahead when asked to
//! (`PrefetchVirtualMemory`), on the time of whoever asks, and macOS and Android by the first kind of advice.
#![allow(unsafe_code)]

use memmap2::Mmap;
use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// How many ranges may wait. More are forgotten: they are read when they are touched.
const CAPACITY: usize = 256;
/// What is read at a time. In between it may turn out that the rest is not needed any more.
const STEP: usize = 8 << 20;

/// The thread, and what it has yet to read.
pub(crate) struct ReadAhead {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    queue: Queue,
    closed: bool,
}

impl ReadAhead {
    pub(crate) fn start(bytes: Arc<Mmap>) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            state: Mutex::new(State {
                queue: Queue::new(),
                closed: false,
            }),
            changed: Condvar::new(),
        });
        let thread = std::thread::Builder::new()
            .name("strata-read".into())
            .spawn({
                let shared = Arc::clone(&shared);
                move || shared.serve(&bytes)
            })?;
        Ok(Self {
            shared,
            thread: Some(thread),
        })
    }

    /// Reads `range` when what was asked for earlier is there.
    pub(crate) fn fetch(&self, range: Range<usize>) {
        self.shared.lock().queue.push(range);
        self.shared.changed.notify_one();
    }

    /// Forgets `range`.
    pub(crate) fn cancel(&self, range: &Range<usize>) {
        self.shared.lock().queue.remove(range);
    }
}

impl Drop for ReadAhead {
    fn drop(&mut self) {
        self.shared.lock().closed = true;
        self.shared.changed.notify_one();
        if let Some(thread) = self.thread.take() {
            // It does nothing that panics, and if it did there would be nothing to do about it.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next piece, when there is one; `None` when there will be no more.
    fn next(&self) -> Option<Range<usize>> {
        let mut state = self.lock();
        loop {
            if state.closed {
                return None;
            }
            if let Some(piece) = state.queue.take(STEP) {
                return Some(piece);
            }
            state = self
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn serve(&self, bytes: &Mmap) {
        while let Some(piece) = self.next() {
            bring_in(bytes, piece);
        }
    }
}

/// Reads a piece, if it can. Otherwise the bytes are read when they are touched.
#[cfg(target_os = "linux")]
fn bring_in(bytes: &Mmap, piece: Range<usize>) {
    use memmap2::Advice;
    // Kernels before 5.14 cannot do the first.
    let populated = bytes.advise_range(Advice::PopulateRead, piece.start, piece.len());
    if populated.is_err() {
        let _ = bytes.advise_range(Advice::WillNeed, piece.start, piece.len());
    }
}

#[cfg(all(unix, not(target_os = "linux")))]
fn bring_in(bytes: &Mmap, piece: Range<usize>) {
    let _ = bytes.advise_range(memmap2::Advice::WillNeed, piece.start, piece.len());
}

#[cfg(windows)]
fn bring_in(bytes: &Mmap, piece: Range<usize>) {
    use windows_sys::Win32::System::Memory::{PrefetchVirtualMemory, WIN32_MEMORY_RANGE_ENTRY};
    use windows_sys::Win32::System::Threading::GetCurrentProcess;
    let piece = &bytes[piece];
    let range = WIN32_MEMORY_RANGE_ENTRY {
        VirtualAddress: piece.as_ptr().cast_mut().cast(),
        NumberOfBytes: piece.len(),
    };
    // SAFETY: one range, which is part of a mapping that lives as long as this call; its bytes are only read.
    unsafe { PrefetchVirtualMemory(GetCurrentProcess(), 1, &range, 0) };
}

/// Ranges in the order in which they were asked for. It never allocates once made.
struct Queue(VecDeque<Range<usize>>);

impl Queue {
    fn new() -> Self {
        Self(VecDeque::with_capacity(CAPACITY))
    }

    fn push(&mut self, range: Range<usize>) {
        if self.0.len() < CAPACITY && !range.is_empty() {
            self.0.push_back(range);
        }
    }

    /// Up to `bytes` from the front.
    fn take(&mut self, bytes: usize) -> Option<Range<usize>> {
        let front = self.0.front_mut()?;
        let end = front.end.min(front.start.saturating_add(bytes));
        let piece = front.start..end;
        front.start = end;
        if front.start == front.end {
            self.0.pop_front();
        }
        Some(piece)
    }

    /// Cuts `gone` off the ranges that start or end in it. One that reaches beyond on both sides is still wanted.
    fn remove(&mut self, gone: &Range<usize>) {
        self.0.retain_mut(|range| {
            if gone.contains(&range.start) {
                range.start = gone.end.min(range.end);
            } else if gone.start < range.end && range.end <= gone.end {
                range.end = gone.start.max(range.start);
            }
            range.start < range.end
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_come_in_order_and_cover_what_was_asked_for() {
        let mut queue = Queue::new();
        [0..10, 5..5, 30..34]
            .into_iter()
            .for_each(|range| queue.push(range));
        let pieces: Vec<_> = std::iter::from_fn(|| queue.take(4)).collect();
        assert_eq!(pieces, [0..4, 4..8, 8..10, 30..34]);
    }

    #[test]
    fn what_is_done_with_is_not_read() {
        for (gone, left) in [
            (0..100, None),
            (10..20, None),
            (5..12, Some(12..20)),
            (15..30, Some(10..15)),
            (12..15, Some(10..20)),
            (0..10, Some(10..20)),
            (20..30, Some(10..20)),
            (14..14, Some(10..20)),
        ] {
            let mut queue = Queue::new();
            queue.push(10..20);
            queue.remove(&gone);
            assert_eq!(queue.take(100), left, "{gone:?}");
        }
    }

    #[test]
    fn more_than_fits_is_forgotten() {
        let mut queue = Queue::new();
        (0..10_000).for_each(|i| queue.push(i..i + 1));
        assert_eq!(queue.0.len(), CAPACITY);
    }
}
