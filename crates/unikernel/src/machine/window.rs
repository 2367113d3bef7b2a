//! A file on a disk as memory: its bytes are read when they are touched, and let go when they were used.
//!
//! Pages come by a fault, on any processor, or because they are soon wanted. They go only when the boot processor says
//! so, between two jobs of the workers, and every processor has forgotten where they were.
#![allow(unsafe_code)]

use super::address_space::map_at;
use super::lock::Lock;
use super::page_table::Access;
use super::paging;
use super::processors::WORKERS;
use crate::boot::memory_map::Range;
use crate::say;
use crate::storage::{PAGE, Pages, Sum, Verified, VerifyError};
use core::ops::Deref;
use core::sync::atomic::{AtomicBool, Ordering};
use strata_platform::{Backing, Pool};

/// Where files appear: far above all memory, which is mapped to itself. There are two, so that a model can be looked at
/// while another is read from its file.
const START: u64 = 1 << 46;
const SLOT: u64 = 1 << 44;
/// Pages that are brought before they are touched, at most.
const AHEAD: usize = 8;

struct Slot {
    file: Lock<Option<Pages>>,
    /// Whether a page that cannot be read ends the run: there is nobody any more who would ask.
    verified: AtomicBool,
}

static SLOTS: [Slot; 2] = [const {
    Slot {
        file: Lock::new(None),
        verified: AtomicBool::new(false),
    }
}; 2];

/// Where the pages of a slot begin.
const fn start(slot: usize) -> u64 {
    START + slot as u64 * SLOT
}

/// A file that is mapped.
pub struct Window {
    slot: usize,
    bytes: usize,
}

impl Window {
    /// Maps a file; nothing while two others are mapped, or if it is larger than any memory.
    pub fn new(pages: Pages) -> Option<Self> {
        let bytes = usize::try_from(pages.bytes()).ok()?;
        if pages.bytes() >= SLOT {
            return None;
        }
        let free = |slot: &Slot| slot.file.lock().is_none();
        let slot = SLOTS.iter().position(free)?;
        SLOTS[slot].verified.store(false, Ordering::Relaxed);
        *SLOTS[slot].file.lock() = Some(pages);
        Some(Self { slot, bytes })
    }

    /// Sums up what is read from now on.
    pub fn expect(&self, sum: Sum) {
        if let Some(file) = &mut *self.file().lock() {
            file.expect(sum);
        }
    }

    /// Says whether all that was read could be read and is as it should be. What cannot be read later ends the run.
    pub fn verify(&self, progress: &mut dyn FnMut(usize)) -> Result<Verified, VerifyError> {
        let verified = match &mut *self.file().lock() {
            Some(file) => file.verify(progress)?,
            None => unreachable!("the window is open"),
        };
        SLOTS[self.slot].verified.store(true, Ordering::Relaxed);
        Ok(verified)
    }

    fn file(&self) -> &'static Lock<Option<Pages>> {
        &SLOTS[self.slot].file
    }

    /// The pages that bytes lie in, up to and without the one that they end on, unless the file ends there.
    fn pages(&self, bytes: &[u8]) -> core::ops::Range<usize> {
        let begin = (bytes.as_ptr() as usize).saturating_sub(start(self.slot) as usize);
        let end = begin.saturating_add(bytes.len());
        if end >= self.bytes {
            begin / PAGE..self.bytes.div_ceil(PAGE)
        } else {
            begin / PAGE..end / PAGE
        }
    }
}

impl Deref for Window {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        // SAFETY: so many bytes can be read there, by `fault`, while the window is open; nothing writes to them.
        unsafe { core::slice::from_raw_parts(start(self.slot) as *const u8, self.bytes) }
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        self.done_with(self);
        *self.file().lock() = None;
    }
}

impl Backing for Window {
    fn part(&self, index: usize) -> Option<&[u8]> {
        (index == 0).then_some(&**self)
    }

    fn will_need(&self, bytes: &[u8]) {
        for page in self.pages(bytes).take(AHEAD) {
            if let Some(file) = &mut *self.file().lock() {
                bring(file, page, self.slot);
            }
        }
    }

    fn done_with(&self, bytes: &[u8]) {
        let gone = match &mut *self.file().lock() {
            Some(file) => file.release(self.pages(bytes)),
            None => return,
        };
        for (page, _) in &gone {
            let range = Range::new(start(self.slot) + (page * PAGE) as u64, PAGE as u64);
            // SAFETY: by the caller's word nobody reads these bytes now; taking a mapping away needs no memory.
            let _ = unsafe { map_at(range, 0, Access::Nothing) };
        }
        if !gone.is_empty() {
            WORKERS.run(&|_| paging::forget());
            if let Some(file) = &mut *self.file().lock() {
                file.reuse(gone);
            }
        }
    }
}

/// Makes a page of the file appear.
fn bring(file: &mut Pages, page: usize, slot: usize) -> bool {
    let range = Range::new(start(slot) + (page * PAGE) as u64, PAGE as u64);
    match file.fetch(page) {
        Ok(Some(bytes)) => {
            let address = bytes.as_ptr() as u64;
            // SAFETY: the page is the file's own as long as it is mapped, and was not mapped before.
            unsafe { map_at(range, address, Access::Read) }.is_ok()
        }
        Ok(None) => true,
        Err(error) => {
            say!("the model cannot be read: {error}");
            false
        }
    }
}

/// A page fault: whether it was for the file, and is mended.
pub(super) fn fault(address: u64) -> bool {
    let Some(at) = address.checked_sub(START) else {
        return false;
    };
    let (slot, page) = ((at / SLOT) as usize, (at % SLOT) as usize / PAGE);
    let Some(Slot { file, verified }) = SLOTS.get(slot) else {
        return false;
    };
    let mut file = file.lock();
    let Some(file) = file.as_mut().filter(|file| page < file.count()) else {
        return false;
    };
    let there = bring(file, page, slot);
    match verified.load(Ordering::Relaxed).then(|| file.take_error()) {
        Some(Some(error)) => {
            say!("the model cannot be read: {error}");
            false
        }
        _ => there,
    }
}
