//! The loader of Vulkan's drivers, and the devices that they have.
#![allow(unsafe_code)]

use crate::fma::{self, ShaderFma};
use ash::{Entry, Instance, vk};
use std::ffi::{CStr, CString};
use std::sync::OnceLock;
use strata_gpu::{DeviceError, DeviceFacts};

/// The loader and an instance, which stay for as long as the process.
pub(crate) struct Loader {
    pub(crate) instance: Instance,
    _entry: Entry,
}

/// A device and what it is known to have.
pub(crate) struct Found {
    pub(crate) handle: vk::PhysicalDevice,
    pub(crate) facts: DeviceFacts,
    pub(crate) memory: vk::PhysicalDeviceMemoryProperties,
    pub(crate) limits: vk::PhysicalDeviceLimits,
    /// The family of queues that compute.
    pub(crate) family: u32,
}

/// What kernels hold of a row does not depend on its width, so that there is no limit to it.
const ANY_WIDTH: u32 = i32::MAX as u32;

/// Vulkan does not say how many processors a device has: so many are taken to share out attention among them.
const PROCESSORS: u32 = 64;

/// The devices of this machine that compute; empty where there is no loader.
pub fn devices() -> Vec<DeviceFacts> {
    let Ok(loader) = Loader::get() else {
        return Vec::new();
    };
    let found = loader.devices().unwrap_or_default();
    found.into_iter().map(|device| device.facts).collect()
}

/// Bytes of memory that a device has free, by its number; none where its driver does not tell.
pub fn free_memory(device: usize) -> Option<u64> {
    let loader = Loader::get().ok()?;
    let found = loader.devices().ok()?.into_iter().nth(device)?;
    let tells = has_budget(&loader.extensions(&found).ok()?);
    tells.then(|| loader.budget(&found))
}

/// Whether a device with these extensions tells how much of its memory is free.
pub(crate) fn has_budget(extensions: &[CString]) -> bool {
    let wanted = ash::ext::memory_budget::NAME;
    extensions.iter().any(|name| name.as_c_str() == wanted)
}

/// Vulkan's error as ours.
pub(crate) fn failed(doing: &'static str) -> impl Fn(vk::Result) -> DeviceError {
    move |result| match result {
        vk::Result::ERROR_OUT_OF_DEVICE_MEMORY | vk::Result::ERROR_OUT_OF_HOST_MEMORY => {
            DeviceError::OutOfMemory { doing }
        }
        vk::Result::ERROR_DEVICE_LOST => {
            let reason = "the device was lost".into();
            DeviceError::Driver { doing, reason }
        }
        other => {
            let reason = other.to_string();
            DeviceError::Driver { doing, reason }
        }
    }
}

impl Loader {
    /// The loader of this machine; it is looked for once.
    pub(crate) fn get() -> Result<&'static Self, DeviceError> {
        static LOADER: OnceLock<Result<Loader, DeviceError>> = OnceLock::new();
        LOADER
            .get_or_init(Self::load)
            .as_ref()
            .map_err(Clone::clone)
    }

    fn load() -> Result<Self, DeviceError> {
        let missing = DeviceError::NoDriver { of: "Vulkan" };
        // SAFETY: the library is the system's loader, and it stays loaded.
        let Ok(entry) = (unsafe { Entry::load() }) else {
            return Err(missing);
        };
        // SAFETY: the loader was loaded.
        let version = unsafe { entry.try_enumerate_instance_version() };
        if !matches!(version, Ok(Some(version)) if version >= vk::API_VERSION_1_3) {
            return Err(DeviceError::OldDriver {
                of: "Vulkan",
                missing: "version 1.3".into(),
            });
        }
        let application = vk::ApplicationInfo::default()
            .application_name(c"strata")
            .api_version(vk::API_VERSION_1_3);
        let info = vk::InstanceCreateInfo::default().application_info(&application);
        // SAFETY: the structs are whole; nothing is enabled.
        let instance = unsafe { entry.create_instance(&info, None) };
        match instance {
            Ok(instance) => Ok(Self {
                instance,
                _entry: entry,
            }),
            Err(vk::Result::ERROR_INCOMPATIBLE_DRIVER) => Err(missing),
            Err(error) => Err(failed("starting it")(error)),
        }
    }

    /// The devices that compute, in the loader's order.
    pub(crate) fn devices(&self) -> Result<Vec<Found>, DeviceError> {
        // SAFETY: the instance is there, here and below; handles are those that it gave.
        let handles = unsafe { self.instance.enumerate_physical_devices() };
        let handles = handles.map_err(failed("counting devices"))?;
        Ok(handles
            .into_iter()
            .filter_map(|handle| self.device(handle))
            .collect())
    }

    fn device(&self, handle: vk::PhysicalDevice) -> Option<Found> {
        // SAFETY: likewise.
        let properties = unsafe { self.instance.get_physical_device_properties(handle) };
        // SAFETY: likewise.
        let memory = unsafe { self.instance.get_physical_device_memory_properties(handle) };
        // SAFETY: likewise.
        let families = unsafe {
            self.instance
                .get_physical_device_queue_family_properties(handle)
        };
        let family = families
            .iter()
            .position(|family| family.queue_flags.contains(vk::QueueFlags::COMPUTE))?;
        let name = properties.device_name_as_c_str().unwrap_or_default();
        let version = properties.api_version;
        let heap = device_heap(&memory)?;
        let facts = DeviceFacts {
            name: name.to_string_lossy().into_owned(),
            capability: (
                vk::api_version_major(version) as i32,
                vk::api_version_minor(version) as i32,
            ),
            processors: PROCESSORS,
            memory: memory.memory_heaps[heap].size,
            shared: ANY_WIDTH,
        };
        Some(Found {
            handle,
            facts,
            memory,
            limits: properties.limits,
            family: family as u32,
        })
    }
}

/// The largest heap that is the device's own.
pub(crate) fn device_heap(memory: &vk::PhysicalDeviceMemoryProperties) -> Option<usize> {
    let heaps = memory.memory_heaps_as_slice().iter().enumerate();
    let own = heaps.filter(|(_, heap)| heap.flags.contains(vk::MemoryHeapFlags::DEVICE_LOCAL));
    own.max_by_key(|(_, heap)| heap.size)
        .map(|(index, _)| index)
}

impl Loader {
    /// The names of a device's extensions.
    pub(crate) fn extensions(&self, found: &Found) -> Result<Vec<CString>, DeviceError> {
        // SAFETY: the handle is one that the instance gave.
        let all = unsafe {
            self.instance
                .enumerate_device_extension_properties(found.handle)
        };
        let all = all.map_err(failed("asking what it can do"))?;
        let names = all.iter().filter_map(|e| e.extension_name_as_c_str().ok());
        Ok(names.map(CStr::to_owned).collect())
    }

    /// What is free of the memory of a device that [tells](has_budget).
    pub(crate) fn budget(&self, found: &Found) -> u64 {
        let mut budget = vk::PhysicalDeviceMemoryBudgetPropertiesEXT::default();
        let mut properties = vk::PhysicalDeviceMemoryProperties2::default().push_next(&mut budget);
        // SAFETY: the device has the extension.
        unsafe {
            self.instance
                .get_physical_device_memory_properties2(found.handle, &mut properties);
        }
        let heap = device_heap(&found.memory).unwrap_or(0);
        budget.heap_budget[heap].saturating_sub(budget.heap_usage[heap])
    }

    /// Whether a device with these extensions can be made to fuse 32-bit floats with one rounding.
    pub(crate) fn fuses(&self, found: &Found, extensions: &[CString]) -> bool {
        if !extensions.iter().any(|name| name.as_c_str() == fma::NAME) {
            return false;
        }
        let mut fma = ShaderFma::new(false);
        let mut features = vk::PhysicalDeviceFeatures2::default().push_next(&mut fma);
        // SAFETY: the device has the extension, whose struct it is.
        unsafe {
            self.instance
                .get_physical_device_features2(found.handle, &mut features);
        }
        fma.has_single()
    }

    /// What a device can be made to keep of 32-bit floats.
    pub(crate) fn float_controls(
        &self,
        found: &Found,
    ) -> vk::PhysicalDeviceFloatControlsProperties<'static> {
        let mut controls = vk::PhysicalDeviceFloatControlsProperties::default();
        let mut properties = vk::PhysicalDeviceProperties2::default().push_next(&mut controls);
        // SAFETY: the device has Vulkan 1.3, where the struct is known.
        unsafe {
            self.instance
                .get_physical_device_properties2(found.handle, &mut properties);
        }
        controls
    }
}
