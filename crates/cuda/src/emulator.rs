//! The kernels' own source, built for a CPU, in the place of a GPU: for tests where there is none.
#![allow(unsafe_code)]

use crate::matmul::Multiplier;
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ffi::{CString, c_char, c_int, c_uint, c_void};
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use strata_gpu::{
    Address, Backend, DeviceError, DeviceFacts, HostBuffer, Kernel, Recording, Shape,
};

type Launch = unsafe extern "C" fn(
    *const c_char,
    c_uint,
    c_uint,
    c_uint,
    c_uint,
    usize,
    *const c_void,
) -> c_int;
type Has = unsafe extern "C" fn(*const c_char) -> c_int;

/// Whose turn it is to launch.
static TURN: Mutex<()> = Mutex::new(());

/// The kernels in a library.
pub(crate) struct Emulator {
    facts: DeviceFacts,
    launch: Launch,
    has: Has,
    kernels: Vec<CString>,
    memory: Vec<(*mut u8, Layout)>,
}

// SAFETY: the memory is owned; launches take turns.
unsafe impl Send for Emulator {}

impl Emulator {
    /// Loads the library that `kernels/emulation.cpp` was built to.
    pub(crate) fn open(library: &Path, capability: (i32, i32)) -> Result<Self, DeviceError> {
        let failed = || DeviceError::NoDriver { of: "emulated" };
        let path = CString::new(library.as_os_str().as_encoded_bytes()).map_err(|_| failed())?;
        // SAFETY: the path is a C string; the library is one of ours.
        let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW) };
        if handle.is_null() {
            return Err(failed());
        }
        // SAFETY: the library stays open.
        let symbols = [c"strata_emulate", c"strata_has"]
            .map(|name| unsafe { libc::dlsym(handle, name.as_ptr()) });
        if symbols.iter().any(|symbol| symbol.is_null()) {
            return Err(failed());
        }
        let [launch, has] = symbols;
        Ok(Self {
            facts: DeviceFacts {
                name: "emulated".into(),
                capability,
                processors: 2,
                memory: 1 << 32,
                shared: 227 << 10,
            },
            // SAFETY: kernels/emulation.cpp declares them so.
            launch: unsafe { std::mem::transmute::<*mut c_void, Launch>(launch) },
            // SAFETY: likewise.
            has: unsafe { std::mem::transmute::<*mut c_void, Has>(has) },
            kernels: Vec::new(),
            memory: Vec::new(),
        })
    }

    fn take(&mut self, bytes: usize) -> *mut u8 {
        let layout = Layout::from_size_align(bytes.max(64), 64).expect("a size");
        // SAFETY: the size is not 0.
        let start = unsafe { alloc_zeroed(layout) };
        self.memory.push((start, layout));
        start
    }
}

impl Backend for Emulator {
    fn facts(&self) -> &DeviceFacts {
        &self.facts
    }

    fn free_memory(&self) -> Result<u64, DeviceError> {
        Ok(self.facts.memory)
    }

    fn multiplier(&self) -> Box<dyn strata_gpu::Multiplier> {
        Box::new(Multiplier::new(&self.facts))
    }

    fn prompts_from(&self) -> Option<usize> {
        // Tests see both.
        Some(if cfg!(test) {
            0
        } else {
            crate::gpu::PROMPTS_FROM
        })
    }

    fn enter(&self) -> Result<(), DeviceError> {
        Ok(())
    }

    fn alloc(&mut self, bytes: usize, _: &'static str) -> Result<Address, DeviceError> {
        let start = self.take(bytes);
        // What nobody has written is nobody's zero.
        // SAFETY: so many bytes were just taken.
        unsafe { start.write_bytes(0xff, bytes) };
        Ok(start as Address)
    }

    fn free(&mut self, address: Address) {
        if let Some(at) = self
            .memory
            .iter()
            .position(|(p, _)| *p as Address == address)
        {
            let (start, layout) = self.memory.swap_remove(at);
            // SAFETY: it was taken with this layout.
            unsafe { dealloc(start, layout) };
        }
    }

    fn alloc_host(&mut self, bytes: usize) -> Result<HostBuffer, DeviceError> {
        let start = self.take(bytes);
        // SAFETY: the memory is zeroed and ours until the drop.
        Ok(unsafe { HostBuffer::new(start, bytes.max(64)) })
    }

    fn upload(&self, to: Address, from: &[u8]) -> Result<(), DeviceError> {
        // SAFETY: the caller's address has room.
        unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), to as *mut u8, from.len()) };
        Ok(())
    }

    fn download(&self, to: &mut [u8], from: Address) -> Result<(), DeviceError> {
        // SAFETY: likewise.
        unsafe { std::ptr::copy_nonoverlapping(from as *const u8, to.as_mut_ptr(), to.len()) };
        Ok(())
    }

    fn copy(&self, to: Address, from: Address, bytes: usize) -> Result<(), DeviceError> {
        // SAFETY: likewise.
        unsafe { std::ptr::copy(from as *const u8, to as *mut u8, bytes) };
        Ok(())
    }

    fn wait(&self) -> Result<(), DeviceError> {
        Ok(())
    }

    fn kernel(&mut self, _: &str, name: &str) -> Result<Kernel, DeviceError> {
        let text = CString::new(name).unwrap_or_default();
        // SAFETY: the name is a C string.
        if unsafe { (self.has)(text.as_ptr()) } == 0 {
            let reason = format!("there is no kernel {name}");
            let doing = "loading its kernels";
            return Err(DeviceError::Driver { doing, reason });
        }
        self.kernels.push(text);
        Ok(Kernel(self.kernels.len() - 1))
    }

    unsafe fn launch(
        &self,
        kernel: Kernel,
        shape: Shape,
        arguments: *const c_void,
        _: usize,
    ) -> Result<(), DeviceError> {
        let ([x, y, z], name) = (shape.grid, &self.kernels[kernel.0]);
        let shared = shape.shared as usize;
        assert!(
            shared <= self.facts.shared as usize,
            "{name:?} has {shared} bytes"
        );
        // The library's state is global.
        let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: the caller's promise.
        unsafe { (self.launch)(name.as_ptr(), x, y, z, shape.threads, shared, arguments) };
        Ok(())
    }

    fn begin_recording(&mut self) -> Result<bool, DeviceError> {
        Ok(false)
    }

    fn end_recording(&mut self) -> Result<Recording, DeviceError> {
        unreachable!("nothing is recorded")
    }

    fn replay(&self, _: Recording) -> Result<(), DeviceError> {
        unreachable!("nothing is recorded")
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        for (start, layout) in self.memory.drain(..) {
            // SAFETY: it was taken with this layout, and goes once.
            unsafe { dealloc(start, layout) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Emulator;
    use crate::emulation;
    use strata_gpu::prove;
    use strata_model::{GgmlType, KvType};

    #[test]
    fn a_device_with_the_bits_of_the_processors_is_taken() {
        if let Some(library) = emulation::library() {
            let device = Emulator::open(library, (8, 0)).unwrap();
            let types = [GgmlType::Q4_K, GgmlType::Q6_K, GgmlType::F16];
            assert!(prove(Box::new(device), &types, KvType::F16).is_ok());
        }
    }
}
