//! A device through Vulkan.
#![allow(unsafe_code)]

use crate::exactness::{self, Exactness};
use crate::fma::{self, ShaderFma};
use crate::instance::{Found, Loader, failed, has_budget};
use crate::matmul::Matrices;
use crate::memory::Memory;
use crate::modules::{self, Module};
use crate::queue::{Pipeline, Queue};
use ash::vk;
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::{Mutex, MutexGuard, PoisonError};
use strata_gpu::{
    Address, Backend, DeviceError, DeviceFacts, HostBuffer, Kernel, Multiplier, Recording, Shape,
};

/// Bytes of a block's memory that kernels have at most, and threads of a block.
const SHARED: u32 = 16 << 10;
const THREADS: u32 = 256;
/// Experts that `choose_experts` has room for, in the bytes that its launch asks for.
const EXPERT_BYTES: u32 = 4 * 2048;

/// One device, a queue on it, and what was taken there.
pub(crate) struct Device {
    loader: &'static Loader,
    found: Found,
    device: ash::Device,
    exactness: Exactness,
    controls: Vec<(u32, u32)>,
    budget: bool,
    /// Whether kernels fuse by an instruction that is rounded once.
    fma: bool,
    layout: vk::PipelineLayout,
    cache: vk::PipelineCache,
    names: HashMap<String, Kernel>,
    kernels: Vec<(Pipeline, bool)>,
    host: Vec<(*mut u8, Layout)>,
    /// Calls come from one thread at a time, but not always through `&mut`.
    work: Mutex<Work>,
}

struct Work {
    memory: Memory,
    queue: Queue,
}

// SAFETY: the memory of this machine that it points to is its own.
unsafe impl Send for Device {}

impl Device {
    /// Opens a device and has it show which of its operations are exact, or at most those given.
    pub(crate) fn open(index: usize, at_most: Option<Exactness>) -> Result<Self, DeviceError> {
        let loader = Loader::get()?;
        let mut all = loader.devices()?;
        let count = all.len();
        if index >= count {
            return Err(DeviceError::NoDevice { index, count });
        }
        let found = all.swap_remove(index);
        let has_doubles = check(loader, &found)?;
        let extensions = loader.extensions(&found)?;
        let budget = has_budget(&extensions);
        let controls = modules::float_controls(&loader.float_controls(&found));
        let fma = loader.fuses(&found, &extensions);
        let device = create(loader, &found, (budget, has_doubles, fma))?;
        let mut memory = Memory::new(device.clone(), found.memory);
        let queue = Queue::new(device.clone(), found.family, &mut memory)?;
        let ranges = [vk::PushConstantRange {
            stage_flags: vk::ShaderStageFlags::COMPUTE,
            offset: 0,
            size: size_of::<Address>() as u32,
        }];
        let failed = failed("opening it");
        let info = vk::PipelineLayoutCreateInfo::default().push_constant_ranges(&ranges);
        // SAFETY: the structs are whole, here and below.
        let layout = unsafe { device.create_pipeline_layout(&info, None) }.map_err(&failed)?;
        let info = vk::PipelineCacheCreateInfo::default();
        // SAFETY: likewise.
        let cache = unsafe { device.create_pipeline_cache(&info, None) }.map_err(&failed)?;
        let mut opened = Self {
            loader,
            found,
            device,
            exactness: Exactness::default(),
            controls,
            budget,
            fma,
            layout,
            cache,
            names: HashMap::new(),
            kernels: Vec::new(),
            host: Vec::new(),
            work: Mutex::new(Work { memory, queue }),
        };
        let exactness = exactness::prove(&mut opened, has_doubles)?;
        opened.exactness = exactness.at_most(at_most);
        Ok(opened)
    }

    /// Which of its operations kernels use.
    pub(crate) fn exactness(&self) -> Exactness {
        self.exactness
    }

    fn work(&self) -> MutexGuard<'_, Work> {
        self.work.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Compiles a module for the device.
    fn pipeline(&self, module: &Module) -> Result<Pipeline, DeviceError> {
        let doing = "loading its kernels";
        let failed = failed(doing);
        let missing = || DeviceError::Driver {
            doing,
            reason: format!("there is no module {}", module.name),
        };
        // Where the device does not fuse, and has 64-bit floats, the kernels that use these.
        let doubles = module.doubles || self.exactness.doubles && !self.exactness.fuses;
        let words = modules::words(module.name, doubles).ok_or_else(missing)?;
        let mut words = modules::with_controls(&words, &self.controls);
        if self.fma {
            words = fma::with_fused(&words);
        }
        let info = vk::ShaderModuleCreateInfo::default().code(&words);
        // SAFETY: the words are a valid module.
        let shader = unsafe { self.device.create_shader_module(&info, None) }.map_err(&failed)?;
        let Exactness {
            fuses,
            divides,
            roots,
            ..
        } = self.exactness;
        let constants = [
            u32::from(fuses),
            u32::from(divides),
            u32::from(roots),
            module.constant,
        ];
        let data: Vec<u8> = constants.iter().flat_map(|c| c.to_le_bytes()).collect();
        let entry = |id: usize| vk::SpecializationMapEntry {
            constant_id: id as u32,
            offset: 4 * id as u32,
            size: 4,
        };
        let entries = [0, 1, 2, 3].map(entry);
        let special = vk::SpecializationInfo::default()
            .map_entries(&entries)
            .data(&data);
        let stage = vk::PipelineShaderStageCreateInfo::default()
            .stage(vk::ShaderStageFlags::COMPUTE)
            .module(shader)
            .name(c"main")
            .specialization_info(&special);
        let info = vk::ComputePipelineCreateInfo::default()
            .stage(stage)
            .layout(self.layout);
        // SAFETY: everything that the struct points to is alive.
        let made = unsafe {
            self.device
                .create_compute_pipelines(self.cache, &[info], None)
        };
        // SAFETY: pipelines do not need it any more.
        unsafe { self.device.destroy_shader_module(shader, None) };
        let made = made.map_err(|(_, error)| failed(error))?;
        Ok(Pipeline {
            handle: made[0],
            layout: self.layout,
        })
    }
}

/// Whether the device has what kernels need; an error names what it lacks. Says whether it has 64-bit floats too.
fn check(loader: &Loader, found: &Found) -> Result<bool, DeviceError> {
    let mut bytes = vk::PhysicalDevice8BitStorageFeatures::default();
    let mut halves = vk::PhysicalDevice16BitStorageFeatures::default();
    let mut addresses = vk::PhysicalDeviceBufferDeviceAddressFeatures::default();
    let mut products = vk::PhysicalDeviceShaderIntegerDotProductFeatures::default();
    let mut features = vk::PhysicalDeviceFeatures2::default();
    let new = found.facts.capability >= (1, 3);
    if new {
        features = features
            .push_next(&mut bytes)
            .push_next(&mut halves)
            .push_next(&mut addresses)
            .push_next(&mut products);
        // SAFETY: the structs are those of the version that the device has.
        unsafe {
            loader
                .instance
                .get_physical_device_features2(found.handle, &mut features);
        }
    }
    let wide = features.features.shader_int64 != 0;
    let doubles = features.features.shader_float64 != 0;
    let limits = &found.limits;
    let needs = [
        (new, "Vulkan 1.3"),
        (wide, "64-bit integers in shaders"),
        (
            addresses.buffer_device_address != 0,
            "addresses of buffers in shaders",
        ),
        (
            halves.storage_buffer16_bit_access != 0,
            "16-bit numbers in buffers",
        ),
        (
            bytes.storage_buffer8_bit_access != 0,
            "8-bit numbers in buffers",
        ),
        (
            products.shader_integer_dot_product != 0,
            "products of packed integers",
        ),
        (
            limits.max_compute_shared_memory_size >= SHARED
                && limits.max_compute_work_group_invocations >= THREADS,
            "groups of 256 threads with 16 KiB of memory",
        ),
    ];
    match needs.iter().find(|(has, _)| !has) {
        None => Ok(doubles),
        Some((_, missing)) => Err(DeviceError::Lacking {
            name: found.facts.name.clone(),
            missing: (*missing).into(),
        }),
    }
}

fn create(
    loader: &Loader,
    found: &Found,
    (budget, doubles, fuses): (bool, bool, bool),
) -> Result<ash::Device, DeviceError> {
    let mut bytes =
        vk::PhysicalDevice8BitStorageFeatures::default().storage_buffer8_bit_access(true);
    let mut halves =
        vk::PhysicalDevice16BitStorageFeatures::default().storage_buffer16_bit_access(true);
    let mut addresses =
        vk::PhysicalDeviceBufferDeviceAddressFeatures::default().buffer_device_address(true);
    let mut products = vk::PhysicalDeviceShaderIntegerDotProductFeatures::default()
        .shader_integer_dot_product(true);
    let mut features = vk::PhysicalDeviceFeatures2::default();
    features.features.shader_int64 = vk::TRUE;
    features.features.shader_float64 = doubles.into();
    let priorities = [1.0];
    let queues = [vk::DeviceQueueCreateInfo::default()
        .queue_family_index(found.family)
        .queue_priorities(&priorities)];
    let known = [(budget, ash::ext::memory_budget::NAME), (fuses, fma::NAME)];
    let names = known.iter().filter(|(has, _)| *has);
    let names: Vec<_> = names.map(|(_, name)| name.as_ptr()).collect();
    let mut fma = ShaderFma::new(true);
    let info = vk::DeviceCreateInfo::default()
        .queue_create_infos(&queues)
        .enabled_extension_names(&names)
        .push_next(&mut features)
        .push_next(&mut bytes)
        .push_next(&mut halves)
        .push_next(&mut addresses)
        .push_next(&mut products);
    let info = if fuses {
        info.push_next(&mut fma)
    } else {
        info
    };
    // SAFETY: the structs are whole, and the device has what is asked for.
    let device = unsafe { loader.instance.create_device(found.handle, &info, None) };
    device.map_err(failed("opening it"))
}

impl Backend for Device {
    fn facts(&self) -> &DeviceFacts {
        &self.found.facts
    }

    fn free_memory(&self) -> Result<u64, DeviceError> {
        let taken = self.work().memory.taken;
        let all = self.found.facts.memory;
        if !self.budget {
            return Ok(all.saturating_sub(taken));
        }
        Ok(self.loader.budget(&self.found))
    }

    fn multiplier(&self) -> Box<dyn Multiplier> {
        Box::new(Matrices::default())
    }

    fn prompts_from(&self) -> Option<usize> {
        None
    }

    fn enter(&self) -> Result<(), DeviceError> {
        Ok(())
    }

    fn alloc(&mut self, bytes: usize, doing: &'static str) -> Result<Address, DeviceError> {
        self.work().memory.take(bytes as u64, doing)
    }

    fn free(&mut self, address: Address) {
        let mut work = self.work();
        // What is in flight may still use it; what has failed is reported by the next batch.
        let _ = work.queue.wait();
        work.memory.give(address);
    }

    fn alloc_host(&mut self, bytes: usize) -> Result<HostBuffer, DeviceError> {
        let doing = "taking memory for batches";
        let bytes = bytes.max(64);
        let full = || DeviceError::OutOfMemory { doing };
        let layout = Layout::from_size_align(bytes, 64).map_err(|_| full())?;
        // SAFETY: the size is not 0.
        let start = unsafe { alloc_zeroed(layout) };
        if start.is_null() {
            return Err(full());
        }
        self.host.push((start, layout));
        // SAFETY: the memory is zeroed and ours until the drop.
        Ok(unsafe { HostBuffer::new(start, bytes) })
    }

    fn upload(&self, to: Address, from: &[u8]) -> Result<(), DeviceError> {
        let Work { memory, queue } = &mut *self.work();
        queue.upload(memory.find(to, from.len() as u64), from)
    }

    fn download(&self, to: &mut [u8], from: Address) -> Result<(), DeviceError> {
        let Work { memory, queue } = &mut *self.work();
        let place = memory.find(from, to.len() as u64);
        queue.download(to, place)
    }

    fn copy(&self, to: Address, from: Address, bytes: usize) -> Result<(), DeviceError> {
        let Work { memory, queue } = &mut *self.work();
        let bytes = bytes as u64;
        queue.copy(memory.find(from, bytes), memory.find(to, bytes), bytes)
    }

    fn wait(&self) -> Result<(), DeviceError> {
        self.work().queue.wait()
    }

    fn kernel(&mut self, _: &str, name: &str) -> Result<Kernel, DeviceError> {
        if let Some(&kernel) = self.names.get(name) {
            return Ok(kernel);
        }
        let missing = || DeviceError::Driver {
            doing: "loading its kernels",
            reason: format!("there is no kernel {name}"),
        };
        let module = Module::of(name).ok_or_else(missing)?;
        let pipeline = self.pipeline(&module)?;
        let kernel = Kernel(self.kernels.len());
        self.kernels.push((pipeline, name == "choose_experts"));
        self.names.insert(name.into(), kernel);
        Ok(kernel)
    }

    unsafe fn launch(
        &self,
        kernel: Kernel,
        shape: Shape,
        arguments: *const c_void,
        bytes: usize,
    ) -> Result<(), DeviceError> {
        let (pipeline, chooses) = self.kernels[kernel.0];
        let doing = "launching a kernel";
        let most = self.found.limits.max_compute_work_group_count;
        if shape
            .grid
            .iter()
            .zip(most)
            .any(|(&wanted, most)| wanted > most)
        {
            let reason = format!("it takes no batch of {:?} groups", shape.grid);
            return Err(DeviceError::Driver { doing, reason });
        }
        if chooses && shape.shared > EXPERT_BYTES {
            let reason = "there are more experts than it has room for".into();
            return Err(DeviceError::Driver { doing, reason });
        }
        // SAFETY: the caller's promise.
        unsafe {
            self.work()
                .queue
                .launch(pipeline, shape.grid, (arguments, bytes))
        }
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

impl Drop for Device {
    fn drop(&mut self) {
        let Work { memory, queue } = &mut *self.work.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: everything was given by the device and is given back once; nothing is in flight after the wait.
        unsafe {
            let _ = self.device.device_wait_idle();
            for (pipeline, _) in &self.kernels {
                self.device.destroy_pipeline(pipeline.handle, None);
            }
            self.device.destroy_pipeline_cache(self.cache, None);
            self.device.destroy_pipeline_layout(self.layout, None);
        }
        queue.destroy(memory);
        memory.destroy_all();
        // SAFETY: likewise; nothing of the device is left.
        unsafe { self.device.destroy_device(None) };
        for (start, layout) in self.host.drain(..) {
            // SAFETY: it was taken with this layout, and goes once.
            unsafe { dealloc(start, layout) };
        }
    }
}
