//! UEFI (specification 2.10): what is asked of firmware before it is let go.
//!
//! Only the few services that are used are declared; the tables' other entries are skipped by their number.
#![allow(unsafe_code)]

use super::memory_map::{MemoryMap, PAGE, Range};
use super::{BootInfo, CommandLine, Framebuffer, Source, uefi_memory};
use crate::attest::log;
use crate::machine::cpu;
use crate::machine::entropy::ASKED;
use crate::say;
use crate::storage::{MODELS, SETTINGS, digest_from};
use core::ffi::c_void;
use core::ptr::null_mut;

/// What a service answers; 0 is success.
pub type Status = usize;

const LOADER_DATA: u32 = 2;
const MAP_BYTES: usize = 64 << 10;
const MAX_OPTIONS: usize = 2048;
/// Models larger than this stay on a disk that can be read later, so that they are not in memory twice.
const LARGE: u64 = 256 << 20;

#[derive(Copy, Clone, PartialEq, Eq)]
#[repr(C)]
struct Guid(u64, u64);

// The text form's first three groups are in the first number, the last of them in front; the bytes of the others follow.
const ACPI_2: Guid = Guid(0x11d3_e4f1_8868_e871, 0x8188_3cc7_8000_22bc);
const ACPI_1: Guid = Guid(0x11d3_2d88_eb9d_2d30, 0x4dc1_3f27_9000_169a);
const LOADED_IMAGE: Guid = Guid(0x11d2_9562_5b1b_31a1, 0x3b72_69c9_a000_3f8e);
const FILE_SYSTEM: Guid = Guid(0x11d2_6459_964e_5b22, 0x3b72_69c9_a000_398e);
const DEVICE_PATH: Guid = Guid(0x11d2_6d3f_0957_6e91, 0x3b72_69c9_a000_398e);
const GRAPHICS: Guid = Guid(0x4a38_23dc_9042_a9de, 0x6a51_80d0_de7a_fb96);
const RANDOM: Guid = Guid(0x433d_eade_3152_bca5, 0x441f_29dc_1cc0_2e86);

const TCG_2: Guid = Guid(0x42be_7455_607f_766c, 0x0f72_b26d_d7e4_0b93);
const LATER_EVENTS: Guid = Guid(0x4254_30e2_1e2e_d096, 0x2523_f8be_3b86_89bd);

#[cfg(target_arch = "aarch64")]
const DEVICE_TREE: Guid = Guid(0x41a5_f19c_b1b6_21d5, 0xe0aa_692c_15d9_0b83);

type Handle = *mut c_void;

/// The system table.
#[repr(C)]
pub struct SystemTable {
    header: [u64; 3],
    vendor: usize,
    revision: u64,
    consoles: [usize; 6],
    runtime_services: usize,
    boot_services: *const BootServices,
    entries: usize,
    configuration: *const Configuration,
}

#[repr(C)]
struct Configuration {
    guid: Guid,
    table: u64,
}

#[repr(C)]
struct BootServices {
    header: [u64; 3],
    skipped_0: [usize; 2],
    allocate_pages: unsafe extern "efiapi" fn(u32, u32, usize, &mut u64) -> Status,
    skipped_1: usize,
    get_memory_map:
        unsafe extern "efiapi" fn(&mut usize, *mut u8, &mut usize, &mut usize, &mut u32) -> Status,
    skipped_2: [usize; 11],
    handle_protocol: unsafe extern "efiapi" fn(Handle, &Guid, &mut *mut c_void) -> Status,
    skipped_3: [usize; 9],
    exit_boot_services: unsafe extern "efiapi" fn(Handle, usize) -> Status,
    skipped_4: [usize; 2],
    set_watchdog_timer: unsafe extern "efiapi" fn(usize, u64, usize, *const u16) -> Status,
    skipped_5: [usize; 7],
    locate_protocol: unsafe extern "efiapi" fn(&Guid, *mut c_void, &mut *mut c_void) -> Status,
}

#[repr(C)]
struct LoadedImage {
    skipped: [usize; 3],
    device: Handle,
    skipped_1: [usize; 2],
    options_bytes: u32,
    options: *const u8,
}

#[repr(C)]
struct FileSystem {
    revision: u64,
    open_volume: unsafe extern "efiapi" fn(*mut FileSystem, &mut *mut File) -> Status,
}

#[repr(C)]
struct File {
    revision: u64,
    open: unsafe extern "efiapi" fn(*mut File, &mut *mut File, *const u16, u64, u64) -> Status,
    skipped: [usize; 2],
    read: unsafe extern "efiapi" fn(*mut File, &mut usize, *mut u8) -> Status,
    skipped_1: usize,
    position: unsafe extern "efiapi" fn(*mut File, &mut u64) -> Status,
    set_position: unsafe extern "efiapi" fn(*mut File, u64) -> Status,
}

#[repr(C)]
struct Graphics {
    skipped: [usize; 3],
    mode: *const GraphicsMode,
}

#[repr(C)]
struct GraphicsMode {
    skipped: [u32; 2],
    info: *const [u32; 9],
    info_bytes: usize,
    address: u64,
}

#[repr(C)]
struct Random {
    skipped: usize,
    get: unsafe extern "efiapi" fn(*mut Random, *const Guid, usize, *mut u8) -> Status,
}

#[repr(C)]
struct Tcg2 {
    skipped: usize,
    get_event_log: unsafe extern "efiapi" fn(*mut Tcg2, u32, &mut u64, &mut u64, &mut u8) -> Status,
}

/// Calls firmware with interrupts on, as it wants, and off again afterwards: its handlers run on the program's stack, and
/// the precompiled core library keeps live data below the stack pointer.
macro_rules! call {
    ($call:expr) => {{
        cpu::interrupts_on();
        let answer = $call;
        cpu::interrupts_off();
        answer
    }};
}

/// Asks firmware for everything there is to know, and lets it go. After success nothing of it may be called, and
/// interrupts are off.
///
/// # Safety
/// `handle` and `table` must be what firmware gave the entry code, whose services are up.
pub unsafe fn leave(handle: u64, table: u64) -> Result<BootInfo, Status> {
    cpu::interrupts_off();
    // SAFETY: the caller's promise.
    let left = unsafe { ask_and_exit(handle as Handle, table) };
    if left.is_err() {
        // SAFETY: firmware's tables are still in place, and it goes on.
        unsafe { cpu::interrupts_on() };
    }
    left
}

/// # Safety
/// As for [`leave`], with interrupts off.
unsafe fn ask_and_exit(handle: Handle, table: u64) -> Result<BootInfo, Status> {
    // SAFETY: the caller's promise, here and for all services below: pointers are firmware's own or to live variables.
    let table = unsafe { &*(table as *const SystemTable) };
    // SAFETY: as above.
    let services = unsafe { &*table.boot_services };
    let mut info = BootInfo::new(Source::Uefi);
    info.rsdp = rsdp(table);
    #[cfg(target_arch = "aarch64")]
    {
        info.board = Some(board(table)?);
    }
    // SAFETY: as above.
    unsafe {
        // Firmware's own watchdog would reset the machine after five minutes.
        call!((services.set_watchdog_timer)(0, 0, 0, core::ptr::null()));
        info.framebuffer = framebuffer(services);
        info.entropy = random_bytes(services);
        if let Some(image) = protocol::<LoadedImage>(services, handle, &LOADED_IMAGE) {
            info.command_line = options(&*image);
            read_volume(services, (*image).device, &mut info);
        }
        read_log(services, table, &mut info);
        let (free, borrowed) = exit(services, handle)?;
        info.memory = free;
        info.borrowed = borrowed;
    }
    Ok(info)
}

/// What firmware's device tree tells; without one the machine cannot be used.
#[cfg(target_arch = "aarch64")]
fn board(table: &SystemTable) -> Result<super::board::Board, Status> {
    use super::{board, device_tree};
    const UNSUPPORTED: Status = 1 << 63 | 3;
    let address = configuration(table, DEVICE_TREE).ok_or(UNSUPPORTED)?;
    // SAFETY: firmware says that there is a device tree, which tells its length in its first bytes.
    let bytes = |len| unsafe { core::slice::from_raw_parts(address as *const u8, len) };
    let len = device_tree::bytes(bytes(40)).map_err(|_| UNSUPPORTED)?;
    let read = board::read(bytes(len), address).map_err(|_| UNSUPPORTED)?;
    let board = read.board.ok_or(UNSUPPORTED)?;
    if let Some(serial) = board.serial {
        // SAFETY: the device tree says what is there, and firmware has mapped its devices.
        unsafe { crate::machine::serial_port::set_place(serial) };
    }
    Ok(board)
}

fn rsdp(table: &SystemTable) -> Option<u64> {
    configuration(table, ACPI_2).or_else(|| configuration(table, ACPI_1))
}

/// The address of one of firmware's tables.
fn configuration(table: &SystemTable, guid: Guid) -> Option<u64> {
    // SAFETY: firmware says that there are so many.
    let tables = unsafe { core::slice::from_raw_parts(table.configuration, table.entries) };
    let mut found = tables.iter().filter(|entry| entry.guid == guid);
    found.next().map(|entry| entry.table)
}

/// Copies the list of what firmware has measured so far, which goes with it, and notes where it will go on.
///
/// # Safety
/// The services must be up.
unsafe fn read_log(services: &BootServices, table: &SystemTable, info: &mut BootInfo) {
    /// The newer form, whose digests are of any kind.
    const CRYPTO_AGILE: u32 = 2;
    const LONGEST_EVENT: usize = 1 << 20;
    // SAFETY: the caller's promise. The list is firmware's, from its first event to the end of its last; of what follows that
    // nothing is read, since events say how long they are.
    unsafe {
        let Some(protocol) = locate::<Tcg2>(services, &TCG_2) else {
            return;
        };
        let (mut first, mut last, mut is_cut) = (0, 0, 0);
        let status = call!(((*protocol).get_event_log)(
            protocol,
            CRYPTO_AGILE,
            &mut first,
            &mut last,
            &mut is_cut
        ));
        if status != 0 || first == 0 || last < first || is_cut != 0 {
            return;
        }
        let event = core::slice::from_raw_parts(last as *const u8, LONGEST_EVENT);
        let len = if last == first {
            log::first_event(event)
        } else {
            log::event(event)
        };
        let Some(len) = len else {
            return;
        };
        let bytes = (last - first) + len as u64;
        let mut copy = 0;
        let pages = bytes.div_ceil(PAGE) as usize;
        if call!((services.allocate_pages)(0, LOADER_DATA, pages, &mut copy)) != 0 {
            return;
        }
        core::ptr::copy_nonoverlapping(first as *const u8, copy as *mut u8, bytes as usize);
        info.firmware_log = Some(Range::new(copy, bytes));
        info.later_log =
            configuration(table, LATER_EVENTS).map(|later| (later, *((later + 8) as *const u64)));
    }
}

/// # Safety
/// The services must be up.
unsafe fn protocol<T>(services: &BootServices, handle: Handle, guid: &Guid) -> Option<*mut T> {
    let mut found = null_mut();
    // SAFETY: the caller's promise.
    let status = unsafe { call!((services.handle_protocol)(handle, guid, &mut found)) };
    (status == 0 && !found.is_null()).then_some(found.cast())
}

/// The first protocol of a kind that any device has.
///
/// # Safety
/// The services must be up.
unsafe fn locate<T>(services: &BootServices, guid: &Guid) -> Option<*mut T> {
    let mut found = null_mut();
    // SAFETY: the caller's promise.
    let status = unsafe { call!((services.locate_protocol)(guid, null_mut(), &mut found)) };
    (status == 0 && !found.is_null()).then_some(found.cast())
}

/// # Safety
/// The services must be up.
unsafe fn random_bytes(services: &BootServices) -> Option<[u8; ASKED]> {
    let mut bytes = [0; ASKED];
    // SAFETY: the caller's promise; the bytes are as many as are asked for, by the usual algorithm.
    let status = unsafe {
        let random = locate::<Random>(services, &RANDOM)?;
        call!(((*random).get)(
            random,
            core::ptr::null(),
            ASKED,
            bytes.as_mut_ptr()
        ))
    };
    (status == 0).then_some(bytes)
}

/// # Safety
/// The services must be up.
unsafe fn framebuffer(services: &BootServices) -> Option<Framebuffer> {
    // SAFETY: the caller's promise; what is found stays valid, and its fields are as the specification says.
    unsafe {
        let graphics = locate::<Graphics>(services, &GRAPHICS)?;
        let mode = &*(*graphics).mode;
        let [_, width, height, format, _, _, _, _, stride] = *mode.info;
        // Four bytes a pixel, red or blue first; others have no such memory.
        (format < 2 && mode.address != 0 && stride >= width).then_some(Framebuffer {
            address: mode.address,
            width,
            height,
            stride,
        })
    }
}

/// # Safety
/// `image` must be firmware's.
unsafe fn options(image: &LoadedImage) -> CommandLine {
    let mut text = [0; MAX_OPTIONS];
    let units = image.options_bytes as usize / 2;
    if image.options.is_null() {
        return CommandLine::new();
    }
    for (index, out) in text.iter_mut().enumerate().take(units) {
        // SAFETY: firmware says that there are so many bytes, perhaps not aligned.
        let unit = unsafe { image.options.cast::<u16>().add(index).read_unaligned() };
        *out = u8::try_from(unit).unwrap_or(b'?');
    }
    CommandLine::copy(&text)
}

/// Reads settings and the model from the volume that was booted.
///
/// # Safety
/// The services must be up.
unsafe fn read_volume(services: &BootServices, device: Handle, info: &mut BootInfo) {
    // SAFETY: the caller's promise.
    let most = if unsafe { has_driver(services, device) } {
        LARGE
    } else {
        u64::MAX
    };
    // SAFETY: as above; what was read is mapped and stays.
    let read = |path: &[&str]| unsafe { load(services, device, path, most) };
    // SAFETY: as above.
    let text = |file: Range| unsafe {
        core::slice::from_raw_parts(file.start as *const u8, file.len() as usize)
    };
    let mut files = SETTINGS.iter().filter_map(|path| read(&[path]));
    if let Some(file) = files.next() {
        info.command_line.set_file(text(file));
    }
    let model = info.command_line.get("model");
    info.module_was_named = model.is_some();
    let paths = model.as_ref().map_or(&MODELS[..], core::slice::from_ref);
    for path in paths {
        info.module = read(&[path]);
        if info.module.is_some() {
            info.module_sha256 = read(&[path, ".sha256"]).and_then(|file| digest_from(text(file)));
            return;
        }
    }
    info.module_was_named = false;
}

/// Whether this program can read a volume's disk by itself: NVMe, SATA, or one to which PCI alone leads, as to virtio's;
/// not from a disc.
///
/// # Safety
/// The services must be up.
unsafe fn has_driver(services: &BootServices, device: Handle) -> bool {
    const MESSAGING: u8 = 3;
    const DRIVERS: [[u8; 2]; 2] = [[MESSAGING, 0x17], [MESSAGING, 0x12]];
    const DISC: [u8; 2] = [4, 2];
    // SAFETY: the caller's promise. A path is nodes of a kind (two bytes), a length (two) and data, and then an end.
    unsafe {
        let Some(mut node) = protocol::<[u8; 4]>(services, device, &DEVICE_PATH) else {
            return false;
        };
        loop {
            let [kind, below, low, high] = *node;
            let len = usize::from(u16::from_le_bytes([low, high]));
            if kind & 0x7f == 0x7f || len < 4 {
                return true;
            }
            let foreign = kind == MESSAGING && !DRIVERS.contains(&[kind, below]);
            if foreign || [kind, below] == DISC {
                return false;
            }
            node = node.byte_add(len);
        }
    }
}

/// Reads a file of a volume into pages that stay ours; nothing if there is no such file, or it has more than `most`
/// bytes. Its path is in pieces.
///
/// # Safety
/// The services must be up.
unsafe fn load(
    services: &BootServices,
    device: Handle,
    pieces: &[&str],
    most: u64,
) -> Option<Range> {
    let mut path = [0u16; 256];
    let bytes = pieces.iter().flat_map(|piece| piece.bytes());
    for (unit, byte) in path[..255].iter_mut().zip(bytes) {
        *unit = if byte == b'/' { b'\\' } else { byte }.into();
    }
    // SAFETY: the caller's promise; the path ends with a zero.
    unsafe {
        let system = protocol::<FileSystem>(services, device, &FILE_SYSTEM)?;
        let (mut root, mut file) = (null_mut(), null_mut());
        if call!(((*system).open_volume)(system, &mut root)) != 0
            || call!(((*root).open)(root, &mut file, path.as_ptr(), 1, 0)) != 0
        {
            return None;
        }
        // The end is at the largest position.
        let (mut bytes, mut address) = (0, 0);
        call!(((*file).set_position)(file, u64::MAX));
        call!(((*file).position)(file, &mut bytes));
        call!(((*file).set_position)(file, 0));
        let pages = usize::try_from(bytes.div_ceil(PAGE)).ok()?;
        if pages == 0 || bytes > most {
            return None;
        }
        if call!((services.allocate_pages)(
            0,
            LOADER_DATA,
            pages,
            &mut address
        )) != 0
        {
            say!("there is no memory for {}, {bytes} bytes", pieces[0]);
            return None;
        }
        let mut read = 0;
        while read < bytes {
            let mut part = (bytes - read).min(8 << 20) as usize;
            let status = call!(((*file).read)(file, &mut part, (address + read) as *mut u8));
            if status != 0 || part == 0 {
                say!("{} cannot be read past byte {read}", pieces[0]);
                return None;
            }
            read += part as u64;
        }
        Some(Range::new(address, bytes))
    }
}

/// # Safety
/// The services must be up; they are down after success.
unsafe fn exit(services: &BootServices, handle: Handle) -> Result<(MemoryMap, MemoryMap), Status> {
    let mut map = 0;
    // SAFETY: the caller's promise.
    let status = unsafe {
        call!((services.allocate_pages)(
            0,
            LOADER_DATA,
            MAP_BYTES / PAGE as usize,
            &mut map
        ))
    };
    if status != 0 {
        return Err(status);
    }
    let mut last = 0;
    // The map may change until the moment of the exit, so that it takes more than one attempt.
    for _ in 0..8 {
        let (mut bytes, mut key, mut size, mut version) = (MAP_BYTES, 0, 0, 0);
        // SAFETY: the caller's promise, and the map has as many bytes as it says.
        unsafe {
            last = call!((services.get_memory_map)(
                &mut bytes,
                map as *mut u8,
                &mut key,
                &mut size,
                &mut version,
            ));
            if last != 0 {
                return Err(last);
            }
            last = call!((services.exit_boot_services)(handle, key));
            if last == 0 {
                let map = core::slice::from_raw_parts(map as *const u8, bytes.min(MAP_BYTES));
                return Ok(uefi_memory::read(map, size));
            }
        }
    }
    Err(last)
}
