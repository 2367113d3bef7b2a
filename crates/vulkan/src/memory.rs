//! A device's memory: blocks from the driver, of which small pieces share one.
#![allow(unsafe_code)]

use crate::instance::failed;
use ash::vk;
use strata_gpu::{Address, DeviceError};

/// Pieces begin at multiples of this.
const ALIGN: u64 = 256;
/// Pieces from this size on have a block of their own.
const OWN: u64 = 16 << 20;
/// Blocks that pieces share.
const SHARED: u64 = 32 << 20;

/// Memory with one buffer over it.
pub(crate) struct Block {
    pub(crate) buffer: vk::Buffer,
    memory: vk::DeviceMemory,
    address: Address,
    pub(crate) len: u64,
    used: u64,
    shared: bool,
    /// Where the host sees it, if it does.
    pub(crate) host: *mut u8,
}

// SAFETY: the memory belongs to whoever has the block.
unsafe impl Send for Block {}

/// Where memory for some use comes from.
#[derive(Copy, Clone)]
pub(crate) struct Kind {
    pub(crate) wanted: vk::MemoryPropertyFlags,
    pub(crate) preferred: vk::MemoryPropertyFlags,
}

pub(crate) const DEVICE: Kind = Kind {
    wanted: vk::MemoryPropertyFlags::DEVICE_LOCAL,
    preferred: vk::MemoryPropertyFlags::empty(),
};
/// Written by the host, read by the device.
pub(crate) const TO_DEVICE: Kind = Kind {
    wanted: HOST,
    preferred: vk::MemoryPropertyFlags::empty(),
};
/// The other way.
pub(crate) const FROM_DEVICE: Kind = Kind {
    wanted: HOST,
    preferred: vk::MemoryPropertyFlags::HOST_CACHED,
};
const HOST: vk::MemoryPropertyFlags = vk::MemoryPropertyFlags::from_raw(
    vk::MemoryPropertyFlags::HOST_VISIBLE.as_raw()
        | vk::MemoryPropertyFlags::HOST_COHERENT.as_raw(),
);

/// All blocks of a device.
pub(crate) struct Memory {
    device: ash::Device,
    types: vk::PhysicalDeviceMemoryProperties,
    blocks: Vec<Block>,
    pub(crate) taken: u64,
}

impl Memory {
    pub(crate) fn new(device: ash::Device, types: vk::PhysicalDeviceMemoryProperties) -> Self {
        Self {
            device,
            types,
            blocks: Vec::new(),
            taken: 0,
        }
    }

    /// Takes memory of the device's own.
    pub(crate) fn take(&mut self, bytes: u64, doing: &'static str) -> Result<Address, DeviceError> {
        let bytes = bytes.max(1).next_multiple_of(ALIGN);
        if bytes >= OWN {
            let block = self.block(bytes, DEVICE, doing)?;
            let address = block.address;
            self.blocks.push(block);
            return Ok(address);
        }
        let room = |block: &&mut Block| block.shared && block.len - block.used >= bytes;
        let block = match self.blocks.iter_mut().find(room) {
            Some(block) => block,
            None => {
                let mut block = self.block(SHARED, DEVICE, doing)?;
                block.shared = true;
                self.blocks.push(block);
                self.blocks.last_mut().expect("it was just added")
            }
        };
        let address = block.address + block.used;
        block.used += bytes;
        Ok(address)
    }

    /// Gives a piece back. Those that share a block stay there until the end: there are few.
    pub(crate) fn give(&mut self, address: Address) {
        let own = |block: &Block| !block.shared && block.address == address;
        if let Some(index) = self.blocks.iter().position(own) {
            let block = self.blocks.swap_remove(index);
            self.taken -= block.len;
            self.destroy(&block);
        }
    }

    /// The buffer that bytes at an address are in, and where they begin there.
    pub(crate) fn find(&self, address: Address, bytes: u64) -> (vk::Buffer, u64) {
        let mut holding = self.blocks.iter().filter(|block| {
            block.address <= address && address + bytes <= block.address + block.len
        });
        let block = holding.next().expect("the memory was taken here");
        (block.buffer, address - block.address)
    }

    /// Memory and a buffer over it.
    pub(crate) fn block(
        &mut self,
        len: u64,
        kind: Kind,
        doing: &'static str,
    ) -> Result<Block, DeviceError> {
        let failed = failed(doing);
        let usage = vk::BufferUsageFlags::SHADER_DEVICE_ADDRESS
            | vk::BufferUsageFlags::STORAGE_BUFFER
            | vk::BufferUsageFlags::TRANSFER_SRC
            | vk::BufferUsageFlags::TRANSFER_DST;
        let info = vk::BufferCreateInfo::default().size(len).usage(usage);
        // SAFETY: the struct is whole.
        let buffer = unsafe { self.device.create_buffer(&info, None) }.map_err(&failed)?;
        let (memory, host) = match self.back(buffer, kind, doing) {
            Ok(backed) => backed,
            Err(error) => {
                // SAFETY: nobody uses the buffer.
                unsafe { self.device.destroy_buffer(buffer, None) };
                return Err(error);
            }
        };
        let info = vk::BufferDeviceAddressInfo::default().buffer(buffer);
        // SAFETY: the buffer has memory, and was made for this use.
        let address = unsafe { self.device.get_buffer_device_address(&info) };
        self.taken += len;
        Ok(Block {
            buffer,
            memory,
            address,
            len,
            used: 0,
            shared: false,
            host,
        })
    }

    fn back(
        &self,
        buffer: vk::Buffer,
        kind: Kind,
        doing: &'static str,
    ) -> Result<(vk::DeviceMemory, *mut u8), DeviceError> {
        let failed = failed(doing);
        // SAFETY: the buffer was just made.
        let needs = unsafe { self.device.get_buffer_memory_requirements(buffer) };
        let types = self.types.memory_types_as_slice().iter().enumerate();
        let fitting = types.filter(|(index, ty)| {
            needs.memory_type_bits & 1 << index != 0 && ty.property_flags.contains(kind.wanted)
        });
        // The last of the best ones would be the first of the driver's order turned around.
        let best = fitting.rev().max_by_key(|(_, ty)| {
            let heap = self.types.memory_heaps[ty.heap_index as usize].size;
            let preferred = ty.property_flags.contains(kind.preferred);
            let own = kind.wanted == vk::MemoryPropertyFlags::DEVICE_LOCAL;
            (preferred, if own { heap } else { 0 })
        });
        let (index, _) = best.ok_or(DeviceError::OutOfMemory { doing })?;
        let mut flags =
            vk::MemoryAllocateFlagsInfo::default().flags(vk::MemoryAllocateFlags::DEVICE_ADDRESS);
        let info = vk::MemoryAllocateInfo::default()
            .allocation_size(needs.size)
            .memory_type_index(index as u32)
            .push_next(&mut flags);
        // SAFETY: the struct is whole; the type is one of the device's.
        let memory = unsafe { self.device.allocate_memory(&info, None) }.map_err(&failed)?;
        let bound = || {
            // SAFETY: the memory is large enough, of a type that the buffer takes, and no other buffer is there.
            unsafe { self.device.bind_buffer_memory(buffer, memory, 0) }?;
            if !kind.wanted.contains(vk::MemoryPropertyFlags::HOST_VISIBLE) {
                return Ok(std::ptr::null_mut());
            }
            let flags = vk::MemoryMapFlags::empty();
            // SAFETY: the memory can be mapped, and was not yet.
            unsafe { self.device.map_memory(memory, 0, vk::WHOLE_SIZE, flags) }
        };
        match bound() {
            Ok(host) => Ok((memory, host.cast())),
            Err(error) => {
                // SAFETY: nobody uses the memory.
                unsafe { self.device.free_memory(memory, None) };
                Err(failed(error))
            }
        }
    }

    /// Frees a block.
    pub(crate) fn destroy(&self, block: &Block) {
        // SAFETY: the device is idle, and both were made here and go once.
        unsafe {
            self.device.destroy_buffer(block.buffer, None);
            self.device.free_memory(block.memory, None);
        }
    }

    /// Frees all that was taken.
    pub(crate) fn destroy_all(&mut self) {
        for block in std::mem::take(&mut self.blocks) {
            self.destroy(&block);
        }
    }
}

impl Block {
    pub(crate) fn address(&self) -> Address {
        self.address
    }
}
