//! A queue: copies and launches are written down, sent off some at a time, and waited for.
#![allow(unsafe_code)]

use crate::instance::failed;
use crate::memory::{Block, FROM_DEVICE, Memory, TO_DEVICE};
use ash::vk;
use std::ffi::c_void;
use strata_gpu::DeviceError;

/// Bytes on their way to the device, and back from it, at most.
const STAGING: u64 = 16 << 20;
/// Bytes of arguments between two waits.
const ARGUMENTS: u64 = 1 << 20;
/// Launches that are sent off together: so many do not take so long that a system takes the device for stuck.
const TOGETHER: usize = 64;
/// Where arguments begin.
const ALIGN: u64 = 64;

/// Everything that is on its way.
pub(crate) struct Queue {
    device: ash::Device,
    queue: vk::Queue,
    pool: vk::CommandPool,
    fence: vk::Fence,
    /// Those that were sent off, and the one that is being written.
    sent: Vec<vk::CommandBuffer>,
    current: Option<vk::CommandBuffer>,
    launches: usize,
    staging: Block,
    staged: u64,
    back: Block,
    arguments: Block,
    argued: u64,
}

/// A pipeline with what its launches need.
#[derive(Copy, Clone)]
pub(crate) struct Pipeline {
    pub(crate) handle: vk::Pipeline,
    pub(crate) layout: vk::PipelineLayout,
}

impl Queue {
    pub(crate) fn new(
        device: ash::Device,
        family: u32,
        memory: &mut Memory,
    ) -> Result<Self, DeviceError> {
        let doing = "opening it";
        let failed = failed(doing);
        let info = vk::CommandPoolCreateInfo::default().queue_family_index(family);
        // SAFETY: the family is one of the device's, of which one queue was asked for.
        let queue = unsafe { device.get_device_queue(family, 0) };
        let staging = memory.block(STAGING, TO_DEVICE, doing)?;
        let back = memory.block(STAGING, FROM_DEVICE, doing)?;
        let arguments = memory.block(ARGUMENTS, TO_DEVICE, doing)?;
        // SAFETY: the struct is whole.
        let pool = unsafe { device.create_command_pool(&info, None) }.map_err(&failed)?;
        let info = vk::FenceCreateInfo::default();
        // SAFETY: likewise.
        let fence = unsafe { device.create_fence(&info, None) }.map_err(&failed)?;
        Ok(Self {
            device,
            queue,
            pool,
            fence,
            sent: Vec::new(),
            current: None,
            launches: 0,
            staging,
            staged: 0,
            back,
            arguments,
            argued: 0,
        })
    }

    /// What is being written; what follows sees all that came before it.
    fn next(&mut self) -> Result<vk::CommandBuffer, DeviceError> {
        let commands = match self.current {
            Some(commands) => commands,
            None => {
                let failed = failed("writing commands");
                let info = vk::CommandBufferAllocateInfo::default()
                    .command_pool(self.pool)
                    .command_buffer_count(1);
                // SAFETY: the pool is ours.
                let new = unsafe { self.device.allocate_command_buffers(&info) };
                let commands = new.map_err(&failed)?[0];
                let info = vk::CommandBufferBeginInfo::default()
                    .flags(vk::CommandBufferUsageFlags::ONE_TIME_SUBMIT);
                // SAFETY: it is new.
                unsafe { self.device.begin_command_buffer(commands, &info) }.map_err(&failed)?;
                self.current = Some(commands);
                commands
            }
        };
        let (stages, written) = (
            vk::PipelineStageFlags::COMPUTE_SHADER | vk::PipelineStageFlags::TRANSFER,
            vk::AccessFlags::SHADER_WRITE | vk::AccessFlags::TRANSFER_WRITE,
        );
        let read = vk::AccessFlags::SHADER_READ | vk::AccessFlags::TRANSFER_READ;
        self.barrier(commands, stages, (stages, written, read | written));
        Ok(commands)
    }

    fn barrier(
        &self,
        commands: vk::CommandBuffer,
        from: vk::PipelineStageFlags,
        (to, written, seen): (vk::PipelineStageFlags, vk::AccessFlags, vk::AccessFlags),
    ) {
        let barrier = vk::MemoryBarrier::default()
            .src_access_mask(written)
            .dst_access_mask(seen);
        let none = vk::DependencyFlags::empty();
        // SAFETY: the commands are being written.
        unsafe {
            self.device
                .cmd_pipeline_barrier(commands, from, to, none, &[barrier], &[], &[]);
        }
    }

    /// Copies bytes to a buffer. They have been read when this returns.
    pub(crate) fn upload(
        &mut self,
        (buffer, mut at): (vk::Buffer, u64),
        mut from: &[u8],
    ) -> Result<(), DeviceError> {
        while !from.is_empty() {
            if self.staged == STAGING {
                self.wait()?;
            }
            let len = from.len().min((STAGING - self.staged) as usize);
            let (part, rest) = from.split_at(len);
            // SAFETY: the block has so much room from there on, and the device reads none of it.
            unsafe {
                let to = self.staging.host.add(self.staged as usize);
                std::ptr::copy_nonoverlapping(part.as_ptr(), to, len);
            }
            let copied = (self.staged, at, len as u64);
            self.copy(
                (self.staging.buffer, copied.0),
                (buffer, copied.1),
                copied.2,
            )?;
            self.staged = (self.staged + copied.2).next_multiple_of(4);
            at += len as u64;
            from = rest;
        }
        Ok(())
    }

    /// Copies bytes from a buffer, after all that was asked for before.
    pub(crate) fn download(
        &mut self,
        mut to: &mut [u8],
        (buffer, mut at): (vk::Buffer, u64),
    ) -> Result<(), DeviceError> {
        while !to.is_empty() {
            let len = to.len().min(STAGING as usize);
            self.copy((buffer, at), (self.back.buffer, 0), len as u64)?;
            self.wait()?;
            let (part, rest) = to.split_at_mut(len);
            // SAFETY: the block is so long, and the device has written it.
            unsafe {
                std::ptr::copy_nonoverlapping(self.back.host.cast_const(), part.as_mut_ptr(), len);
            }
            at += len as u64;
            to = rest;
        }
        Ok(())
    }

    /// Copies from buffer to buffer.
    pub(crate) fn copy(
        &mut self,
        from: (vk::Buffer, u64),
        to: (vk::Buffer, u64),
        bytes: u64,
    ) -> Result<(), DeviceError> {
        let commands = self.next()?;
        let region = vk::BufferCopy {
            src_offset: from.1,
            dst_offset: to.1,
            size: bytes,
        };
        // SAFETY: both buffers have these bytes.
        unsafe {
            self.device
                .cmd_copy_buffer(commands, from.0, to.0, &[region]);
        }
        Ok(())
    }

    /// Launches a kernel.
    ///
    /// # Safety
    /// `arguments` points to so many bytes, which are what the pipeline takes, and what they point to has room.
    pub(crate) unsafe fn launch(
        &mut self,
        pipeline: Pipeline,
        grid: [u32; 3],
        (arguments, bytes): (*const c_void, usize),
    ) -> Result<(), DeviceError> {
        if self.argued + bytes as u64 > ARGUMENTS {
            self.wait()?;
        }
        let commands = self.next()?;
        // SAFETY: the caller's promise; the block has room, and the device reads none of it.
        unsafe {
            let to = self.arguments.host.add(self.argued as usize);
            std::ptr::copy_nonoverlapping(arguments.cast(), to, bytes);
        }
        let address = self.arguments.address() + self.argued;
        self.argued = (self.argued + bytes as u64).next_multiple_of(ALIGN);
        let (point, stages) = (
            vk::PipelineBindPoint::COMPUTE,
            vk::ShaderStageFlags::COMPUTE,
        );
        let [x, y, z] = grid;
        // SAFETY: the pipeline's only constant is the address; the commands are being written.
        unsafe {
            let device = &self.device;
            device.cmd_bind_pipeline(commands, point, pipeline.handle);
            let address = address.to_le_bytes();
            device.cmd_push_constants(commands, pipeline.layout, stages, 0, &address);
            device.cmd_dispatch(commands, x, y, z);
        }
        self.launches += 1;
        if self.launches == TOGETHER {
            self.send(vk::Fence::null())?;
        }
        Ok(())
    }

    /// Sends off what was written.
    fn send(&mut self, fence: vk::Fence) -> Result<(), DeviceError> {
        let failed = failed("computing");
        self.launches = 0;
        if let Some(commands) = self.current.take() {
            let (stages, written) = (
                vk::PipelineStageFlags::COMPUTE_SHADER | vk::PipelineStageFlags::TRANSFER,
                vk::AccessFlags::SHADER_WRITE | vk::AccessFlags::TRANSFER_WRITE,
            );
            let host = (
                vk::PipelineStageFlags::HOST,
                written,
                vk::AccessFlags::HOST_READ,
            );
            self.barrier(commands, stages, host);
            // SAFETY: the commands are whole.
            unsafe { self.device.end_command_buffer(commands) }.map_err(&failed)?;
            self.sent.push(commands);
            let list = [commands];
            let info = [vk::SubmitInfo::default().command_buffers(&list)];
            // SAFETY: the queue is ours, the fence unused or none.
            unsafe { self.device.queue_submit(self.queue, &info, fence) }.map_err(&failed)
        } else if fence != vk::Fence::null() {
            // SAFETY: likewise.
            unsafe { self.device.queue_submit(self.queue, &[], fence) }.map_err(&failed)
        } else {
            Ok(())
        }
    }

    /// Waits for everything that was asked for.
    pub(crate) fn wait(&mut self) -> Result<(), DeviceError> {
        if self.current.is_none() && self.sent.is_empty() {
            return Ok(());
        }
        self.send(self.fence)?;
        let failed = failed("computing");
        // SAFETY: the fence was sent off; what was sent is over after the wait.
        unsafe {
            self.device
                .wait_for_fences(&[self.fence], true, u64::MAX)
                .map_err(&failed)?;
            self.device.reset_fences(&[self.fence]).map_err(&failed)?;
            self.device.free_command_buffers(self.pool, &self.sent);
            let keep = vk::CommandPoolResetFlags::empty();
            self.device
                .reset_command_pool(self.pool, keep)
                .map_err(&failed)?;
        }
        self.sent.clear();
        (self.staged, self.argued) = (0, 0);
        Ok(())
    }

    /// Frees all of it, on a device that is idle.
    pub(crate) fn destroy(&self, memory: &Memory) {
        // SAFETY: they were made here and go once.
        unsafe {
            self.device.destroy_fence(self.fence, None);
            self.device.destroy_command_pool(self.pool, None);
        }
        for block in [&self.staging, &self.back, &self.arguments] {
            memory.destroy(block);
        }
    }
}
