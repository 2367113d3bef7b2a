//! The functions of NVIDIA's driver that the executor calls, found when the program runs.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::sync::OnceLock;
use strata_gpu::DeviceError;

/// What a function of the driver returns; 0 is success.
type Status = c_int;
/// A pointer that only the driver looks behind.
pub(crate) type Handle = *mut c_void;

/// How a kernel is launched (`CUlaunchConfig`).
#[repr(C)]
pub(crate) struct LaunchConfig {
    pub(crate) grid: [c_uint; 3],
    pub(crate) block: [c_uint; 3],
    pub(crate) shared: c_uint,
    pub(crate) stream: Handle,
    pub(crate) attributes: *const LaunchAttribute,
    pub(crate) attribute_count: c_uint,
}

/// `CUlaunchAttribute`.
#[repr(C, align(8))]
pub(crate) struct LaunchAttribute {
    pub(crate) id: c_int,
    padding: [u8; 4],
    pub(crate) value: [c_int; 16],
}

impl LaunchAttribute {
    /// The kernel may begin before the one ahead of it has ended.
    pub(crate) const EARLY: Self = Self {
        id: 6,
        padding: [0; 4],
        value: [1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
    };
}

macro_rules! functions {
    ($($field:ident = $symbol:literal: ($($ty:ty),*);)*) => {
        /// The driver's functions.
        pub(crate) struct Driver {
            $(pub(crate) $field: unsafe extern "C" fn($($ty),*) -> Status,)*
        }

        impl Driver {
            /// Finds all functions, or says which one is missing.
            fn find(symbol: impl Fn(&CStr) -> *mut c_void) -> Result<Self, DeviceError> {
                Ok(Self {$(
                    $field: {
                        let found = symbol($symbol);
                        if found.is_null() {
                            let name = $symbol.to_string_lossy().into_owned();
                            return Err(DeviceError::OldDriver { of: "NVIDIA", missing: name });
                        }
                        // SAFETY: the driver's function of this name has this signature (cuda.h).
                        unsafe {
                            std::mem::transmute::<
                                *mut c_void,
                                unsafe extern "C" fn($($ty),*) -> Status,
                            >(found)
                        }
                    },
                )*})
            }
        }
    };
}

functions! {
    init = c"cuInit": (c_uint);
    device_count = c"cuDeviceGetCount": (*mut c_int);
    device = c"cuDeviceGet": (*mut c_int, c_int);
    device_name = c"cuDeviceGetName": (*mut c_char, c_int, c_int);
    device_attribute = c"cuDeviceGetAttribute": (*mut c_int, c_int, c_int);
    device_memory = c"cuDeviceTotalMem_v2": (*mut usize, c_int);
    retain_context = c"cuDevicePrimaryCtxRetain": (*mut Handle, c_int);
    release_context = c"cuDevicePrimaryCtxRelease_v2": (c_int);
    set_context = c"cuCtxSetCurrent": (Handle);
    memory = c"cuMemGetInfo_v2": (*mut usize, *mut usize);
    alloc = c"cuMemAlloc_v2": (*mut u64, usize);
    free = c"cuMemFree_v2": (u64);
    alloc_host = c"cuMemHostAlloc": (*mut Handle, usize, c_uint);
    free_host = c"cuMemFreeHost": (Handle);
    upload = c"cuMemcpyHtoDAsync_v2": (u64, *const c_void, usize, Handle);
    download = c"cuMemcpyDtoHAsync_v2": (*mut c_void, u64, usize, Handle);
    copy = c"cuMemcpyDtoDAsync_v2": (u64, u64, usize, Handle);
    stream = c"cuStreamCreate": (*mut Handle, c_uint);
    synchronize = c"cuStreamSynchronize": (Handle);
    destroy_stream = c"cuStreamDestroy_v2": (Handle);
    load_module = c"cuModuleLoadData": (*mut Handle, *const c_void);
    unload_module = c"cuModuleUnload": (Handle);
    function = c"cuModuleGetFunction": (*mut Handle, Handle, *const c_char);
    function_attribute = c"cuFuncSetAttribute": (Handle, c_int, c_int);
    launch = c"cuLaunchKernelEx": (*const LaunchConfig, Handle, *const *const c_void, *const *const c_void);
    begin_capture = c"cuStreamBeginCapture_v2": (Handle, c_int);
    end_capture = c"cuStreamEndCapture": (Handle, *mut Handle);
    instantiate = c"cuGraphInstantiateWithFlags": (*mut Handle, Handle, u64);
    launch_graph = c"cuGraphLaunch": (Handle, Handle);
    destroy_graph = c"cuGraphDestroy": (Handle);
    destroy_exec = c"cuGraphExecDestroy": (Handle);
    error_text = c"cuGetErrorString": (c_int, *mut *const c_char);
}

impl Driver {
    /// The driver of this machine; it is looked for once.
    pub(crate) fn get() -> Result<&'static Self, DeviceError> {
        static DRIVER: OnceLock<Result<Driver, DeviceError>> = OnceLock::new();
        let driver = DRIVER.get_or_init(Self::load);
        driver.as_ref().map_err(Clone::clone)
    }

    fn load() -> Result<Self, DeviceError> {
        let driver = Self::open()?;
        // SAFETY: the call takes a reserved number, which must be 0.
        driver.check(unsafe { (driver.init)(0) }, "starting the driver")?;
        Ok(driver)
    }

    #[cfg(unix)]
    fn open() -> Result<Self, DeviceError> {
        // SAFETY: the name is a C string; loading runs the library's own initializers, as any program with the driver does.
        let library = unsafe { libc::dlopen(c"libcuda.so.1".as_ptr(), libc::RTLD_NOW) };
        if library.is_null() {
            return Err(DeviceError::NoDriver { of: "NVIDIA" });
        }
        // SAFETY: the library was opened and is never closed.
        Self::find(|name| unsafe { libc::dlsym(library, name.as_ptr()) })
    }

    #[cfg(windows)]
    fn open() -> Result<Self, DeviceError> {
        use windows_sys::Win32::System::LibraryLoader::{
            GetProcAddress, LOAD_LIBRARY_SEARCH_SYSTEM32, LoadLibraryExA,
        };
        let name = c"nvcuda.dll".as_ptr().cast();
        let place = LOAD_LIBRARY_SEARCH_SYSTEM32;
        // SAFETY: as on Unix. Only the system's own folder is searched, where the driver's installer puts it.
        let library = unsafe { LoadLibraryExA(name, std::ptr::null_mut(), place) };
        if library.is_null() {
            return Err(DeviceError::NoDriver { of: "NVIDIA" });
        }
        Self::find(|name| {
            // SAFETY: the library was opened and is never closed.
            let found = unsafe { GetProcAddress(library, name.as_ptr().cast()) };
            found.map_or(std::ptr::null_mut(), |function| function as *mut c_void)
        })
    }

    #[cfg(not(any(unix, windows)))]
    fn open() -> Result<Self, DeviceError> {
        Err(DeviceError::NoDriver { of: "NVIDIA" })
    }

    /// An error for what the driver did not do.
    pub(crate) fn check(&self, status: Status, doing: &'static str) -> Result<(), DeviceError> {
        const OUT_OF_MEMORY: Status = 2;
        if status == 0 {
            return Ok(());
        }
        if status == OUT_OF_MEMORY {
            return Err(DeviceError::OutOfMemory { doing });
        }
        let mut text = std::ptr::null();
        // SAFETY: the pointer is to a local; the text lives as long as the driver.
        let found = unsafe { (self.error_text)(status, &raw mut text) };
        let reason = if found == 0 && !text.is_null() {
            // SAFETY: the driver gave a C string.
            unsafe { CStr::from_ptr(text) }
                .to_string_lossy()
                .into_owned()
        } else {
            format!("error {status}")
        };
        Err(DeviceError::Driver { doing, reason })
    }
}
