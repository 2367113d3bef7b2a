//! Memory and kernels, on a GPU or in the emulation of one.

use crate::error::DeviceError;
use crate::multiplier::Multiplier;
use std::ffi::c_void;

/// An address in a device's memory; 0 is nowhere.
pub type Address = u64;

/// A kernel that was found.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Kernel(pub usize);

/// A recorded sequence of launches.
#[derive(Copy, Clone, Debug)]
pub struct Recording(pub usize);

/// How many threads compute.
#[derive(Copy, Clone, Debug)]
pub struct Shape {
    pub grid: [u32; 3],
    pub threads: u32,
    /// Bytes of shared memory for each block.
    pub shared: u32,
}

/// What a device can do.
#[derive(Clone, Debug)]
pub struct DeviceFacts {
    /// What its maker calls it.
    pub name: String,
    /// Its compute capability with CUDA; with Vulkan, the version that it has.
    pub capability: (i32, i32),
    /// Blocks of threads run on so many processors.
    pub processors: u32,
    /// Bytes of memory.
    pub memory: u64,
    /// Bytes of shared memory that a block can have.
    pub shared: u32,
}

/// Memory of this machine that a device reads and writes without a copy in between.
pub struct HostBuffer {
    start: *mut u8,
    len: usize,
}

// SAFETY: the memory belongs to whoever has the buffer.
#[allow(unsafe_code)]
unsafe impl Send for HostBuffer {}

#[allow(unsafe_code)]
impl HostBuffer {
    /// # Safety
    /// The memory is zeroed or otherwise initialized, aligned for f32, nobody else has it, and it stays until the backend is gone.
    pub unsafe fn new(start: *mut u8, len: usize) -> Self {
        Self { start, len }
    }

    /// The bytes.
    pub fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: what `new` was promised.
        unsafe { std::slice::from_raw_parts_mut(self.start, self.len) }
    }

    /// The bytes as floats.
    pub fn floats(&mut self) -> &mut [f32] {
        // SAFETY: likewise; every bit pattern is a float.
        unsafe { std::slice::from_raw_parts_mut(self.start.cast(), self.len / 4) }
    }

    /// The bytes as floats.
    pub fn as_floats(&self) -> &[f32] {
        // SAFETY: likewise.
        unsafe { std::slice::from_raw_parts(self.start.cast(), self.len / 4) }
    }

    /// The bytes as numbers.
    pub fn words(&mut self) -> &mut [u32] {
        // SAFETY: likewise.
        unsafe { std::slice::from_raw_parts_mut(self.start.cast(), self.len / 4) }
    }
}

/// A device's memory and kernels. Everything happens in the order of the calls; memory is given back with the backend.
pub trait Backend: Send {
    /// What it can do.
    fn facts(&self) -> &DeviceFacts;
    /// Bytes that are free.
    fn free_memory(&self) -> Result<u64, DeviceError>;
    /// Who chooses kernels for matrices.
    fn multiplier(&self) -> Box<dyn Multiplier>;
    /// Positions from which on its kernels for prompts (`prompt_…`) are faster than those for single tokens; none without such.
    fn prompts_from(&self) -> Option<usize>;
    /// Makes the calling thread one that may call the rest.
    fn enter(&self) -> Result<(), DeviceError>;
    /// Takes memory. What is in it is undefined.
    fn alloc(&mut self, bytes: usize, doing: &'static str) -> Result<Address, DeviceError>;
    /// Gives memory back that [`alloc`](Self::alloc) gave.
    fn free(&mut self, address: Address);
    /// Takes memory of this machine, zeroed.
    fn alloc_host(&mut self, bytes: usize) -> Result<HostBuffer, DeviceError>;
    /// Copies to the device. What lies in a [`HostBuffer`] must stay until the next [`wait`](Self::wait).
    fn upload(&self, to: Address, from: &[u8]) -> Result<(), DeviceError>;
    /// Copies from the device; done after the next [`wait`](Self::wait).
    fn download(&self, to: &mut [u8], from: Address) -> Result<(), DeviceError>;
    /// Copies within the device.
    fn copy(&self, to: Address, from: Address, bytes: usize) -> Result<(), DeviceError>;
    /// Waits for everything that was asked for.
    fn wait(&self) -> Result<(), DeviceError>;
    /// Finds a kernel of a module.
    fn kernel(&mut self, module: &str, name: &str) -> Result<Kernel, DeviceError>;
    /// Launches a kernel.
    ///
    /// # Safety
    /// `arguments` points to the struct of so many `bytes` that the kernel takes, and what that points to is memory of this device, large
    /// enough for what the kernel does.
    #[allow(unsafe_code)]
    unsafe fn launch(
        &self,
        kernel: Kernel,
        shape: Shape,
        arguments: *const c_void,
        bytes: usize,
    ) -> Result<(), DeviceError>;
    /// Begins to record launches instead of doing them; false where that is not possible.
    fn begin_recording(&mut self) -> Result<bool, DeviceError>;
    /// Ends a recording.
    fn end_recording(&mut self) -> Result<Recording, DeviceError>;
    /// Does what was recorded.
    fn replay(&self, recording: Recording) -> Result<(), DeviceError>;
}
