//! From the entry code to a machine in order.
#![allow(unsafe_code)]

use super::address_space::{self, Image};
use super::crash::{self, Policy};
use super::features::Features;
use super::heap::Heap;
use super::processors::WORKERS;
use super::{cpu, platform, time};
use crate::boot::BootInfo;
use crate::boot::memory_map::{PAGE, Range};
use crate::drivers::pci::ConfigurationSpace;
use alloc::string::String;
use alloc::vec::Vec;
use strata_platform::Pool;

/// How often the timer looks at the watchdog and wakes a sleeping program.
pub(super) const TICKS: u32 = 20;

/// A machine in order: memory mapped, all processors at work, time running.
#[derive(Debug)]
pub struct Machine {
    /// What the processors can do.
    pub features: Features,
    /// Where PCI's configuration space is in memory.
    pub configuration_spaces: Vec<ConfigurationSpace>,
    /// Where PCI's devices may have their registers, if nobody has put them anywhere.
    pub pci_windows: Vec<Range>,
    /// Where virtio devices may be that no bus tells of; see [`VIRTIO_BESIDE_PCI`](super::VIRTIO_BESIDE_PCI).
    pub virtio: Vec<Range>,
    /// Where there is persistent memory.
    pub persistent: Vec<Range>,
    /// Where a TPM may be.
    pub tpm: Option<Range>,
    /// Processors that did not start.
    pub missing_processors: usize,
    /// Why the run before this one ended, if it crashed.
    pub last_words: Option<String>,
}

impl Machine {
    /// Brings the machine up and gives all free memory to `heap`.
    ///
    /// # Safety
    /// Once, by the boot processor, with interrupts off, on the image's own stack, after firmware has let go. What
    /// `info` says must be true, and `heap` be the program's allocator.
    pub unsafe fn start(info: &BootInfo, image: &Image, heap: &Heap) -> Self {
        let features = cpu::features();
        if let Some(policy) = info.command_line.get("panic").and_then(Policy::named) {
            crash::set_policy(policy);
        }
        // SAFETY: the caller's promise: nothing else runs yet.
        unsafe { platform::prepare(&features) };
        // SAFETY: the caller's promise.
        let (page, words) = unsafe { start_memory(info, image, heap, &features) };
        // SAFETY: firmware has let go of the timer.
        unsafe { time::start() };
        let mut machine = Self {
            features,
            configuration_spaces: Vec::new(),
            pci_windows: Vec::new(),
            virtio: Vec::new(),
            persistent: Vec::new(),
            tpm: None,
            missing_processors: 0,
            last_words: words,
        };
        // SAFETY: memory and time are in order; the rest is the caller's promise.
        unsafe { platform::bring_up(&mut machine, info, page) };
        machine
    }

    /// How many processors work.
    pub fn processors(&self) -> usize {
        WORKERS.workers()
    }
}

/// Maps memory and fills the heap. Gives the page for starting processors, and the last words of the run before.
///
/// # Safety
/// As for [`Machine::start`].
unsafe fn start_memory(
    info: &BootInfo,
    image: &Image,
    heap: &Heap,
    features: &Features,
) -> (Option<Range>, Option<String>) {
    let mut memory = info.memory.clone();
    let mut borrowed = info.borrowed.clone();
    for map in [&mut memory, &mut borrowed] {
        map.remove(image.memory());
        map.remove(Range::new(0, 16 * PAGE)); // old firmware's data, and the page that stays unmapped
        map.remove(info.module.unwrap_or(Range::new(0, 0)));
    }
    let page = platform::reserve_page(&mut memory);
    let last_words = platform::last_words(image);
    let keeps = memory.contains(last_words) || borrowed.contains(last_words);
    memory.remove(last_words);
    borrowed.remove(last_words);
    let module = info.module.map(Range::pages_around);
    let mut mapped = borrowed.clone();
    let also = [module, page, keeps.then_some(last_words)];
    for range in also.into_iter().flatten() {
        mapped.add(range);
    }
    let console = platform::console(info);
    let large = platform::gigabyte_pages(features);
    // SAFETY: what is left in `memory` is free; below 4 GiB it is mapped by the entry code or by firmware.
    unsafe {
        let devices = console.as_slice();
        if let Err(error) = address_space::switch(&mut memory, &mapped, image, devices, large) {
            crash::crash(format_args!("{error}"), cpu::frame_pointer());
        }
        for &range in memory.ranges().iter().chain(borrowed.ranges()) {
            heap.add(range);
        }
    }
    let mut words = None;
    if keeps {
        // SAFETY: the page was taken out of `memory` and is mapped.
        unsafe { crash::keep_last_words(last_words, |text| words = Some(String::from(text))) };
    }
    (page, words)
}
