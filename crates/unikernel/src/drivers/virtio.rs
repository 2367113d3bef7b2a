//! Virtio disks and network cards, over the `virtio-drivers` crate.
#![allow(unsafe_code)]

use super::{BlockDevice, DeviceError, MAX_FRAME, NetDevice, check_range, dma};
use crate::machine::entropy::ASKED;
use alloc::alloc::{alloc_zeroed, dealloc, handle_alloc_error};
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use core::alloc::Layout;
use core::ptr::NonNull;
use virtio_drivers::device::blk::{SECTOR_SIZE, VirtIOBlk};
use virtio_drivers::device::net::VirtIONetRaw;
use virtio_drivers::device::rng::VirtIORng;
use virtio_drivers::transport::Transport;
use virtio_drivers::{BufferDirection, Error, Hal, PAGE_SIZE};

const DISK: &str = "virtio disk";
const CARD: &str = "virtio network card";

/// How many frames can be under way in each direction.
const QUEUE: usize = 64;
/// What comes before a frame, at most.
const HEADER: usize = 16;
/// The largest request: one buffer, so that any device takes it.
const LARGEST: usize = 4 << 20;

/// Memory as devices see it: at the same addresses, but for the program's own.
pub struct SameAddresses;

// SAFETY: memory comes from the heap, zeroed, in whole pages; all of it is mapped to itself, so that a device finds it at
// the address that the program has. What is shared may be in the program's image, which is one piece of memory.
unsafe impl Hal for SameAddresses {
    fn dma_alloc(pages: usize, _: BufferDirection) -> (u64, NonNull<u8>) {
        let bytes = pages
            .saturating_mul(PAGE_SIZE)
            .clamp(PAGE_SIZE, isize::MAX as usize / 2);
        let layout = Layout::from_size_align(bytes, PAGE_SIZE).unwrap_or(Layout::new::<u8>());
        // SAFETY: the size is not zero.
        match NonNull::new(unsafe { alloc_zeroed(layout) }) {
            Some(start) => (start.as_ptr() as u64, start),
            None => handle_alloc_error(layout),
        }
    }

    unsafe fn dma_dealloc(_: u64, start: NonNull<u8>, pages: usize) -> i32 {
        let Ok(layout) = Layout::from_size_align(pages * PAGE_SIZE, PAGE_SIZE) else {
            return -1;
        };
        // SAFETY: from `dma_alloc`, by the caller's promise.
        unsafe { dealloc(start.as_ptr(), layout) };
        0
    }

    unsafe fn mmio_phys_to_virt(address: u64, bytes: usize) -> NonNull<u8> {
        map(address, bytes);
        NonNull::new(address as *mut u8).unwrap_or(NonNull::dangling())
    }

    unsafe fn share(buffer: NonNull<[u8]>, _: BufferDirection) -> u64 {
        dma::physical(buffer.cast::<u8>().as_ptr())
    }

    unsafe fn unshare(_: u64, _: NonNull<[u8]>, _: BufferDirection) {}
}

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
fn map(address: u64, bytes: usize) {
    use crate::boot::memory_map::Range;
    let range = Range::new(address, bytes as u64);
    if let Err(error) = crate::machine::address_space::map_device(range) {
        crate::say!("a virtio device cannot be reached: {error}");
    }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn map(_: u64, _: usize) {}

fn failed(device: &'static str, error: Error) -> DeviceError {
    let why = match error {
        Error::IoError => return DeviceError::Failed { device, status: 1 },
        Error::DmaError => return DeviceError::NoMemory { device },
        Error::Unsupported => "it does not support the request",
        Error::ConfigSpaceTooSmall | Error::ConfigSpaceMissing => "its configuration is missing",
        _ => "it broke the protocol",
    };
    DeviceError::Unusable { device, why }
}

/// Bytes of a device that gives random ones.
pub fn random_bytes<T: Transport>(transport: T) -> Result<[u8; ASKED], DeviceError> {
    let told = |error| failed("virtio source of random numbers", error);
    let mut device = VirtIORng::<SameAddresses, T>::new(transport).map_err(told)?;
    let mut bytes = [0; ASKED];
    let mut given = 0;
    while given < ASKED {
        match device.request_entropy(&mut bytes[given..]).map_err(told)? {
            0 => return Err(told(Error::IoError)),
            more => given += more.min(ASKED - given),
        }
    }
    Ok(bytes)
}

/// A disk.
pub struct VirtioDisk<T: Transport>(VirtIOBlk<SameAddresses, T>);

impl<T: Transport> VirtioDisk<T> {
    /// Starts a disk.
    pub fn new(transport: T) -> Result<Self, DeviceError> {
        VirtIOBlk::new(transport)
            .map(Self)
            .map_err(|error| failed(DISK, error))
    }
}

impl<T: Transport + Send> BlockDevice for VirtioDisk<T> {
    fn name(&self) -> &'static str {
        DISK
    }
    fn block_bytes(&self) -> usize {
        SECTOR_SIZE
    }
    fn blocks(&self) -> u64 {
        self.0.capacity()
    }
    fn read(&mut self, block: u64, out: &mut [u8]) -> Result<(), DeviceError> {
        check_range(self, block, out.len())?;
        let mut block = block as usize;
        for part in out.chunks_mut(LARGEST) {
            self.0
                .read_blocks(block, part)
                .map_err(|error| failed(DISK, error))?;
            block += part.len() / SECTOR_SIZE;
        }
        // It was waited for; a line that stays raised would wake the machine for nothing.
        self.0.ack_interrupt();
        Ok(())
    }
    fn write(&mut self, block: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        check_range(self, block, bytes.len())?;
        let mut block = block as usize;
        for part in bytes.chunks(LARGEST) {
            self.0
                .write_blocks(block, part)
                .map_err(|error| failed(DISK, error))?;
            block += part.len() / SECTOR_SIZE;
        }
        self.0.ack_interrupt();
        Ok(())
    }
    fn flush(&mut self) -> Result<(), DeviceError> {
        // A device that offers no flushes has written what it says that it has.
        self.0.flush().map_err(|error| failed(DISK, error))?;
        self.0.ack_interrupt();
        Ok(())
    }
}

type Buffer = Box<[u8]>;

/// A network card.
pub struct VirtioCard<T: Transport> {
    card: VirtIONetRaw<SameAddresses, T, QUEUE>,
    /// The buffers that the device has, by the number that it knows them by.
    coming: [Option<Buffer>; QUEUE],
    /// With how much of each was sent.
    going: [Option<(Buffer, usize)>; QUEUE],
    /// Buffers that come back from sending.
    spare: Vec<Buffer>,
}

impl<T: Transport> VirtioCard<T> {
    /// Starts a card.
    pub fn new(transport: T) -> Result<Self, DeviceError> {
        let card = VirtIONetRaw::new(transport).map_err(|error| failed(CARD, error))?;
        let buffer = || vec![0; HEADER + MAX_FRAME].into_boxed_slice();
        let mut card = Self {
            card,
            coming: [const { None }; QUEUE],
            going: [const { None }; QUEUE],
            spare: (0..QUEUE / 2).map(|_| buffer()).collect(),
        };
        for _ in 0..QUEUE {
            card.offer(buffer());
        }
        Ok(card)
    }

    /// Gives the device a buffer to receive into.
    fn offer(&mut self, mut buffer: Buffer) {
        // SAFETY: the buffer stays in `coming`, untouched, until the device gives it back.
        if let Ok(token) = unsafe { self.card.receive_begin(&mut buffer) }
            && let Some(place) = self.coming.get_mut(usize::from(token))
        {
            *place = Some(buffer);
        }
    }

    /// Takes back what was sent.
    fn collect(&mut self) {
        while let Some(token) = self.card.poll_transmit() {
            let sent = self.going.get_mut(usize::from(token));
            let Some((buffer, len)) = sent.and_then(Option::take) else {
                return;
            };
            // SAFETY: what was sent with this number. A device that gives back something else is not waited for.
            if unsafe { self.card.transmit_complete(token, &buffer[..len]) }.is_err() {
                return;
            }
            self.spare.push(buffer);
        }
    }
}

impl<T: Transport + Send> NetDevice for VirtioCard<T> {
    fn name(&self) -> &'static str {
        CARD
    }
    fn address(&self) -> [u8; 6] {
        self.card.mac_address()
    }

    fn acknowledge(&mut self) {
        self.card.ack_interrupt();
    }

    fn receive(&mut self, frame: &mut [u8; MAX_FRAME]) -> Option<usize> {
        let token = self.card.poll_receive()?;
        let place = self.coming.get_mut(usize::from(token))?;
        let mut buffer = place.take()?;
        // SAFETY: the buffer that was offered with this number.
        let got = unsafe { self.card.receive_complete(token, &mut buffer) };
        let len = got.ok().and_then(|(header, len)| {
            let bytes = buffer.get(header..header.checked_add(len)?)?;
            frame.get_mut(..len)?.copy_from_slice(bytes);
            Some(len)
        });
        self.offer(buffer);
        len.filter(|&len| len > 0)
    }

    fn can_send(&mut self) -> bool {
        self.collect();
        !self.spare.is_empty() && self.card.can_send()
    }

    fn send(&mut self, frame: &[u8]) -> Result<(), DeviceError> {
        let bytes = frame.len();
        if frame.is_empty() || bytes > MAX_FRAME {
            return Err(DeviceError::Frame { bytes });
        }
        if !self.can_send() {
            return Ok(());
        }
        let Some(mut buffer) = self.spare.pop() else {
            return Ok(());
        };
        let header = self
            .card
            .fill_buffer_header(&mut buffer)
            .map_err(|error| failed(CARD, error))?;
        let len = header + bytes;
        buffer[header..len].copy_from_slice(frame);
        // SAFETY: the buffer stays in `going`, untouched, until the device gives it back.
        let token = unsafe { self.card.transmit_begin(&buffer[..len]) };
        let token = token.map_err(|error| failed(CARD, error))?;
        if let Some(place) = self.going.get_mut(usize::from(token)) {
            *place = Some((buffer, len));
        }
        Ok(())
    }
}
