//! One device for several executors, so that its kernels are made once; it can be made to fail.
#![allow(unsafe_code)]
#![allow(dead_code, reason = "not everybody uses all of it")]

use std::ffi::c_void;
use std::sync::{Arc, Mutex, MutexGuard};
use strata_gpu::{
    Address, Backend, DeviceError, DeviceFacts, HostBuffer, Kernel, Multiplier, Recording, Shape,
};

/// Launches, or takings of memory, that go well before one fails with this error, and all after it.
#[derive(Clone, Default)]
pub(crate) struct Trouble(Arc<Mutex<Option<(usize, DeviceError)>>>);

impl Trouble {
    /// After so many more of them.
    pub(crate) fn after(&self, count: usize, error: DeviceError) {
        *self.0.lock().unwrap() = Some((count, error));
    }

    pub(crate) fn over(&self) {
        *self.0.lock().unwrap() = None;
    }

    fn pass(&self) -> Result<(), DeviceError> {
        match &mut *self.0.lock().unwrap() {
            None => Ok(()),
            Some((0, error)) => Err(error.clone()),
            Some((left, _)) => {
                *left -= 1;
                Ok(())
            }
        }
    }
}

/// A device that its executors give back.
#[derive(Clone)]
pub(crate) struct Lent {
    facts: DeviceFacts,
    device: Arc<Mutex<Box<dyn Backend>>>,
    pub(crate) launches: Trouble,
    pub(crate) memory: Trouble,
}

impl Lent {
    pub(crate) fn new(device: Box<dyn Backend>) -> Self {
        Self {
            facts: device.facts().clone(),
            device: Arc::new(Mutex::new(device)),
            launches: Trouble::default(),
            memory: Trouble::default(),
        }
    }

    fn device(&self) -> MutexGuard<'_, Box<dyn Backend>> {
        self.device.lock().unwrap()
    }
}

impl Backend for Lent {
    fn facts(&self) -> &DeviceFacts {
        &self.facts
    }

    fn free_memory(&self) -> Result<u64, DeviceError> {
        self.device().free_memory()
    }

    fn multiplier(&self) -> Box<dyn Multiplier> {
        self.device().multiplier()
    }

    fn prompts_from(&self) -> Option<usize> {
        self.device().prompts_from()
    }

    fn enter(&self) -> Result<(), DeviceError> {
        self.device().enter()
    }

    fn alloc(&mut self, bytes: usize, doing: &'static str) -> Result<Address, DeviceError> {
        self.memory.pass()?;
        self.device().alloc(bytes, doing)
    }

    fn free(&mut self, address: Address) {
        self.device().free(address);
    }

    fn alloc_host(&mut self, bytes: usize) -> Result<HostBuffer, DeviceError> {
        self.device().alloc_host(bytes)
    }

    fn upload(&self, to: Address, from: &[u8]) -> Result<(), DeviceError> {
        self.device().upload(to, from)
    }

    fn download(&self, to: &mut [u8], from: Address) -> Result<(), DeviceError> {
        self.device().download(to, from)
    }

    fn copy(&self, to: Address, from: Address, bytes: usize) -> Result<(), DeviceError> {
        self.device().copy(to, from, bytes)
    }

    fn wait(&self) -> Result<(), DeviceError> {
        self.device().wait()
    }

    fn kernel(&mut self, module: &str, name: &str) -> Result<Kernel, DeviceError> {
        self.device().kernel(module, name)
    }

    unsafe fn launch(
        &self,
        kernel: Kernel,
        shape: Shape,
        arguments: *const c_void,
        bytes: usize,
    ) -> Result<(), DeviceError> {
        self.launches.pass()?;
        // SAFETY: the caller's promise.
        unsafe { self.device().launch(kernel, shape, arguments, bytes) }
    }

    fn begin_recording(&mut self) -> Result<bool, DeviceError> {
        self.device().begin_recording()
    }

    fn end_recording(&mut self) -> Result<Recording, DeviceError> {
        self.device().end_recording()
    }

    fn replay(&self, recording: Recording) -> Result<(), DeviceError> {
        self.device().replay(recording)
    }
}
