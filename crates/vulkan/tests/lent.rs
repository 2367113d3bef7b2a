//! One device for several executors, so that its kernels are made once.
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::sync::{Arc, Mutex, MutexGuard};
use strata_gpu::{
    Address, Backend, DeviceError, DeviceFacts, HostBuffer, Kernel, Multiplier, Recording, Shape,
};
use strata_vulkan::{Exactness, backend};

/// A device that its executors give back.
#[derive(Clone)]
pub(crate) struct Lent {
    facts: DeviceFacts,
    device: Arc<Mutex<Box<dyn Backend>>>,
}

impl Lent {
    pub(crate) fn open(at_most: Option<Exactness>) -> Self {
        let (device, _) = backend(0, at_most).unwrap();
        Self {
            facts: device.facts().clone(),
            device: Arc::new(Mutex::new(device)),
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
