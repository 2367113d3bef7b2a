//! An NVIDIA GPU.
#![allow(unsafe_code)]

use crate::driver::{Driver, Handle, LaunchAttribute, LaunchConfig};
use crate::matmul::Multiplier;
use crate::modules;
use std::collections::HashMap;
use std::ffi::{CString, c_int, c_void};
use std::ptr::null_mut;
use strata_gpu::{
    Address, Backend, DeviceError, DeviceFacts, HostBuffer, Kernel, Recording, Shape,
};

/// Attributes of devices (`CUdevice_attribute`).
const PROCESSORS: c_int = 16;
const MAJOR: c_int = 75;
const MINOR: c_int = 76;
const SHARED_OPT_IN: c_int = 97;
/// `CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES`.
const MAX_SHARED: c_int = 8;
/// `CU_STREAM_NON_BLOCKING`.
const NON_BLOCKING: u32 = 1;
/// `CU_STREAM_CAPTURE_MODE_THREAD_LOCAL`.
const THREAD_LOCAL: c_int = 1;

/// Positions up to which the kernel for single tokens is as fast for prompts: measured on an H200.
pub(crate) const PROMPTS_FROM: usize = 512;

/// The GPUs of this machine; empty where there is no driver.
pub fn devices() -> Vec<DeviceFacts> {
    let Ok(driver) = Driver::get() else {
        return Vec::new();
    };
    let count = count(driver).unwrap_or(0);
    (0..count)
        .filter_map(|index| Some(facts(driver, index).ok()?.1))
        .collect()
}

fn count(driver: &Driver) -> Result<usize, DeviceError> {
    let mut count = 0;
    // SAFETY: the pointer is to a local.
    let status = unsafe { (driver.device_count)(&raw mut count) };
    driver.check(status, "counting devices")?;
    Ok(count as usize)
}

/// A device's number with the driver, and what it can do.
fn facts(driver: &Driver, index: usize) -> Result<(c_int, DeviceFacts), DeviceError> {
    let doing = "asking what it can do";
    let mut device = 0;
    // SAFETY: the pointers, here and below, are to locals of the lengths given.
    let status = unsafe { (driver.device)(&raw mut device, index as c_int) };
    driver.check(status, doing)?;
    let mut name = [0; 256];
    // SAFETY: likewise.
    let status = unsafe { (driver.device_name)(name.as_mut_ptr(), 256, device) };
    driver.check(status, doing)?;
    let name = name
        .iter()
        .take_while(|&&c| c != 0)
        .map(|&c| c as u8)
        .collect();
    let mut memory = 0;
    // SAFETY: likewise.
    let status = unsafe { (driver.device_memory)(&raw mut memory, device) };
    driver.check(status, doing)?;
    let attribute = |which| {
        let mut value = 0;
        // SAFETY: likewise.
        let status = unsafe { (driver.device_attribute)(&raw mut value, which, device) };
        driver.check(status, doing).map(|()| value)
    };
    let facts = DeviceFacts {
        name: String::from_utf8(name).unwrap_or_default(),
        capability: (attribute(MAJOR)?, attribute(MINOR)?),
        processors: attribute(PROCESSORS)? as u32,
        memory: memory as u64,
        shared: attribute(SHARED_OPT_IN)? as u32,
    };
    Ok((device, facts))
}

/// One GPU, a stream on it, and what was taken there.
pub(crate) struct Gpu {
    driver: &'static Driver,
    device: c_int,
    facts: DeviceFacts,
    context: Handle,
    stream: Handle,
    modules: HashMap<String, Handle>,
    names: HashMap<String, Kernel>,
    kernels: Vec<Handle>,
    recordings: Vec<Handle>,
    allocations: Vec<Address>,
    host: Vec<Handle>,
    /// Whether kernels begin before the one ahead has ended.
    early: bool,
}

// SAFETY: the driver's handles may be used by any thread that has made the context its own, which `enter` does.
unsafe impl Send for Gpu {}

impl Gpu {
    /// Opens a device.
    pub(crate) fn open(index: usize) -> Result<Self, DeviceError> {
        let driver = Driver::get()?;
        let count = count(driver)?;
        if index >= count {
            return Err(DeviceError::NoDevice { index, count });
        }
        let (device, facts) = facts(driver, index)?;
        let (major, minor) = facts.capability;
        if facts.capability < (7, 5) {
            let name = facts.name;
            return Err(DeviceError::OldDevice { name, major, minor });
        }
        let (mut context, mut stream) = (null_mut(), null_mut());
        let doing = "opening it";
        // SAFETY: the pointers are to locals; the device is one that the driver has.
        let status = unsafe { (driver.retain_context)(&raw mut context, device) };
        driver.check(status, doing)?;
        // SAFETY: the context was just given.
        let status = unsafe { (driver.set_context)(context) };
        driver.check(status, doing)?;
        // SAFETY: the pointer is to a local.
        let status = unsafe { (driver.stream)(&raw mut stream, NON_BLOCKING) };
        driver.check(status, doing)?;
        Ok(Self {
            driver,
            device,
            early: facts.capability >= (9, 0),
            facts,
            context,
            stream,
            modules: HashMap::new(),
            names: HashMap::new(),
            kernels: Vec::new(),
            recordings: Vec::new(),
            allocations: Vec::new(),
            host: Vec::new(),
        })
    }

    fn module(&mut self, name: &str) -> Result<Handle, DeviceError> {
        if let Some(&module) = self.modules.get(name) {
            return Ok(module);
        }
        let doing = "loading its kernels";
        let missing = || DeviceError::Driver {
            doing,
            reason: format!("there is no module {name}"),
        };
        let text = modules::find(name, self.facts.capability).ok_or_else(missing)?;
        let text = CString::new(text).map_err(|_| missing())?;
        let mut module = null_mut();
        // SAFETY: the text is a C string, which the driver compiles and does not keep.
        let status = unsafe { (self.driver.load_module)(&raw mut module, text.as_ptr().cast()) };
        self.driver.check(status, doing)?;
        self.modules.insert(name.into(), module);
        Ok(module)
    }
}

impl Backend for Gpu {
    fn facts(&self) -> &DeviceFacts {
        &self.facts
    }

    fn free_memory(&self) -> Result<u64, DeviceError> {
        let (mut free, mut total) = (0, 0);
        // SAFETY: the pointers are to locals.
        let status = unsafe { (self.driver.memory)(&raw mut free, &raw mut total) };
        self.driver.check(status, "asking for its memory")?;
        Ok(free as u64)
    }

    fn multiplier(&self) -> Box<dyn strata_gpu::Multiplier> {
        Box::new(Multiplier::new(&self.facts))
    }

    fn prompts_from(&self) -> Option<usize> {
        Some(PROMPTS_FROM)
    }

    fn enter(&self) -> Result<(), DeviceError> {
        // SAFETY: the context is held until the drop.
        let status = unsafe { (self.driver.set_context)(self.context) };
        self.driver.check(status, "entering it")
    }

    fn alloc(&mut self, bytes: usize, doing: &'static str) -> Result<Address, DeviceError> {
        let mut address = 0;
        // SAFETY: the pointer is to a local.
        let status = unsafe { (self.driver.alloc)(&raw mut address, bytes.max(16)) };
        self.driver.check(status, doing)?;
        self.allocations.push(address);
        Ok(address)
    }

    fn free(&mut self, address: Address) {
        if let Some(index) = self.allocations.iter().position(|&a| a == address) {
            self.allocations.swap_remove(index);
            // SAFETY: the address came from `alloc` and was not given back yet. A failure leaves it taken.
            unsafe { (self.driver.free)(address) };
        }
    }

    fn alloc_host(&mut self, bytes: usize) -> Result<HostBuffer, DeviceError> {
        let (mut start, len) = (null_mut(), bytes.max(16));
        // SAFETY: the pointer is to a local.
        let status = unsafe { (self.driver.alloc_host)(&raw mut start, len, 0) };
        self.driver.check(status, "taking memory for copies")?;
        self.host.push(start);
        // SAFETY: the memory is ours until the drop; it is page-aligned, and zeroed here.
        unsafe {
            start.cast::<u8>().write_bytes(0, len);
            Ok(HostBuffer::new(start.cast(), len))
        }
    }

    fn upload(&self, to: Address, from: &[u8]) -> Result<(), DeviceError> {
        // SAFETY: the caller's address has room; memory that is not a host buffer's is read before the call returns.
        let status =
            unsafe { (self.driver.upload)(to, from.as_ptr().cast(), from.len(), self.stream) };
        self.driver.check(status, "copying to it")
    }

    fn download(&self, to: &mut [u8], from: Address) -> Result<(), DeviceError> {
        // SAFETY: likewise; the caller waits before it looks.
        let status =
            unsafe { (self.driver.download)(to.as_mut_ptr().cast(), from, to.len(), self.stream) };
        self.driver.check(status, "copying from it")
    }

    fn copy(&self, to: Address, from: Address, bytes: usize) -> Result<(), DeviceError> {
        // SAFETY: the caller's addresses have room.
        let status = unsafe { (self.driver.copy)(to, from, bytes, self.stream) };
        self.driver.check(status, "copying within it")
    }

    fn wait(&self) -> Result<(), DeviceError> {
        // SAFETY: the stream is ours.
        let status = unsafe { (self.driver.synchronize)(self.stream) };
        self.driver.check(status, "computing")
    }

    fn kernel(&mut self, module: &str, name: &str) -> Result<Kernel, DeviceError> {
        if let Some(&kernel) = self.names.get(name) {
            return Ok(kernel);
        }
        let module = self.module(module)?;
        let doing = "loading its kernels";
        let text = CString::new(name).unwrap_or_default();
        let mut function = null_mut();
        // SAFETY: the module was loaded, the name is a C string, the pointer is to a local.
        let status = unsafe { (self.driver.function)(&raw mut function, module, text.as_ptr()) };
        self.driver.check(status, doing)?;
        let shared = self.facts.shared as c_int;
        // SAFETY: the function was just found. Kernels have no static shared memory, so all of it can be theirs.
        let status = unsafe { (self.driver.function_attribute)(function, MAX_SHARED, shared) };
        self.driver.check(status, doing)?;
        let kernel = Kernel(self.kernels.len());
        self.kernels.push(function);
        self.names.insert(name.into(), kernel);
        Ok(kernel)
    }

    unsafe fn launch(
        &self,
        kernel: Kernel,
        shape: Shape,
        arguments: *const c_void,
        _: usize,
    ) -> Result<(), DeviceError> {
        let early = [LaunchAttribute::EARLY];
        let config = LaunchConfig {
            grid: shape.grid,
            block: [shape.threads, 1, 1],
            shared: shape.shared,
            stream: self.stream,
            attributes: early.as_ptr(),
            attribute_count: u32::from(self.early),
        };
        let pointers = [arguments];
        // SAFETY: the caller's promise; the driver copies the arguments before it returns.
        let status = unsafe {
            (self.driver.launch)(
                &raw const config,
                self.kernels[kernel.0],
                pointers.as_ptr(),
                std::ptr::null(),
            )
        };
        self.driver.check(status, "launching a kernel")
    }

    fn begin_recording(&mut self) -> Result<bool, DeviceError> {
        // SAFETY: the stream is ours, and nothing is being recorded.
        let status = unsafe { (self.driver.begin_capture)(self.stream, THREAD_LOCAL) };
        self.driver.check(status, "recording launches")?;
        Ok(true)
    }

    fn end_recording(&mut self) -> Result<Recording, DeviceError> {
        let doing = "recording launches";
        let (mut graph, mut exec) = (null_mut(), null_mut());
        // SAFETY: the stream is recording; the pointer is to a local.
        let status = unsafe { (self.driver.end_capture)(self.stream, &raw mut graph) };
        self.driver.check(status, doing)?;
        // SAFETY: the graph was just given.
        let status = unsafe { (self.driver.instantiate)(&raw mut exec, graph, 0) };
        // SAFETY: likewise; what was instantiated does not need it.
        unsafe { (self.driver.destroy_graph)(graph) };
        self.driver.check(status, doing)?;
        self.recordings.push(exec);
        Ok(Recording(self.recordings.len() - 1))
    }

    fn replay(&self, recording: Recording) -> Result<(), DeviceError> {
        // SAFETY: the recording is ours, and what its kernels read is still there.
        let status =
            unsafe { (self.driver.launch_graph)(self.recordings[recording.0], self.stream) };
        self.driver.check(status, "launching a recording")
    }
}

impl Drop for Gpu {
    fn drop(&mut self) {
        // SAFETY: everything was given by the driver and is given back once; nothing is in flight after the wait. What
        // fails stays with the driver, which ends with the process.
        unsafe {
            (self.driver.set_context)(self.context);
            (self.driver.synchronize)(self.stream);
            for &exec in &self.recordings {
                (self.driver.destroy_exec)(exec);
            }
            for &address in &self.allocations {
                (self.driver.free)(address);
            }
            for &start in &self.host {
                (self.driver.free_host)(start);
            }
            for &module in self.modules.values() {
                (self.driver.unload_module)(module);
            }
            (self.driver.destroy_stream)(self.stream);
            (self.driver.release_context)(self.device);
        }
    }
}
