//! The header that loaders of Linux know ("Booting AArch64 Linux", in its documentation) and the PE header, which are one;
//! the entry code of both.
//!
//! A loader enters with translation off, at the level of kernels or of hypervisors, with the address of a device tree.
//! Compiled code needs memory that is mapped as such, and so the entry code maps the image and the tree, 2 MiB at a time,
//! and all else below 512 GiB as devices. The program runs with the stack pointer of programs.

use crate::{entry, run};
use core::arch::global_asm;
use strata_unikernel::boot::{BootInfo, board, device_tree};
use strata_unikernel::machine::{cpu, first_translation, serial_port};

global_asm!(
    r#"
    .section .head, "ax", @progbits
    .globl strata_head
strata_head:
    .long 0xfa405a4d                    // "MZ", which is also an instruction that does no harm
    b boot_start
    .quad 0                             // at any multiple of 2 MiB
    .quad PE_IMAGE_BYTES
    .quad 0xa                           // little-endian, pages of 4 KiB, anywhere in memory
    .quad 0, 0, 0
    .ascii "ARM\x64"
    .long 1f - strata_head
1:  .ascii "PE\0\0"
    .short 0xaa64                       // AArch64
    .short 2                            // sections
    .long 0, 0, 0
    .short 4f - 2f                      // bytes of the optional header
    .short 0x022e                       // executable, large addresses, no symbols; relocatable
2:  .short 0x20b                        // PE32+
    .byte 1, 0
    .long PE_CODE_BYTES, PE_DATA_FILE_BYTES, 0
    .long PE_ENTRY
    .long 0x1000                        // where code begins
    .quad 0                             // preferred address: any
    .long 0x1000                        // alignment in memory
    .long 0x200                         // alignment in the file
    .short 0, 0, 0, 0, 0, 0
    .long 0
    .long PE_IMAGE_BYTES
    .long 0x1000                        // bytes of headers
    .long 0
    .short 10                           // EFI application
    .short 0x100                        // data need not be executable
    .quad 0, 0, 0, 0
    .long 0
    .long 6                             // data directories
    .quad 0, 0, 0, 0, 0
    .long PE_RELOCATIONS, 12            // an empty block: the image relocates itself
4:  .ascii ".text\0\0\0"
    .long PE_CODE_BYTES, 0x1000, PE_CODE_BYTES, 0x1000
    .long 0, 0
    .short 0, 0
    .long 0x60000020                    // code, executable, readable
    .ascii ".data\0\0\0"
    .long PE_DATA_BYTES, PE_DATA_START, PE_DATA_FILE_BYTES, PE_DATA_START
    .long 0, 0
    .short 0, 0
    .long 0xc0000040                    // data, readable, writable
    .fill 40, 1, 0                      // where `strata image` describes what it puts behind the image

    .section .text.strata_entry, "ax", @progbits
    // x0 = device tree.
    .globl boot_start
boot_start:
    msr daifset, #15
    mov x27, x0
    bl {level}
    // What is not in the file is zeros. Nothing of it may be in caches, neither before nor after it was written to memory.
    adrp x0, __data_end
    adrp x1, __image_end
    bl strata_drop_caches
    adrp x0, __data_end
1:  stp xzr, xzr, [x0], #16
    cmp x0, x1
    b.lo 1b
    adrp x0, __data_end
    bl strata_drop_caches
    bl strata_map
    bl strata_relocate
    mov x0, x27
    b {tree}

    // Maps the image and what x27 points to, and turns translation, caches and vector registers on; the stack is the boot
    // stack. For a processor whose translation is off.
strata_map:
    mov x28, x30
    adrp x20, strata_boot_tables
    add x21, x20, #0x1000
    orr x0, x21, #3
    str x0, [x20]                       // the top table has one entry
    ldr x22, =0x60000000000405          // a block of a device
    ldr x23, =0x40000000000701          // a block of memory, for code too
    mov x0, x21
    mov x1, x22
    mov x2, #512
    mov x3, #0x40000000
1:  str x1, [x0], #8
    add x1, x1, x3
    subs x2, x2, #1
    b.ne 1b
    mov x24, x0                         // the next free table
    adrp x25, strata_head
    adrp x26, __image_end
    add x26, x26, #0x200, lsl #12       // with the first of what is behind the image
2:  mov x0, x25
    bl strata_map_block
    add x25, x25, #0x200, lsl #12
    cmp x25, x26
    b.lo 2b
    mov x0, x26
    bl strata_map_block
    cbz x27, 3f
    mov x0, x27
    bl strata_map_block
    add x0, x27, #0x200, lsl #12
    bl strata_map_block
3:  dsb sy
    mov x0, x20
    bl {activate}
    mov x0, #(3 << 20)
    msr cpacr_el1, x0
    isb
    msr spsel, #0
    adrp x0, strata_boot_stack
    mov sp, x0
    mov x29, xzr
    ret x28

    // Maps the 2 MiB around x0 as memory.
strata_map_block:
    ubfx x1, x0, #30, #9
    ldr x2, [x21, x1, lsl #3]
    tbnz x2, #1, 2f
    orr x3, x24, #3
    str x3, [x21, x1, lsl #3]
    mov x4, #512
1:  str x2, [x24], #8
    add x2, x2, #0x200, lsl #12
    subs x4, x4, #1
    b.ne 1b
    mov x2, x3
2:  and x2, x2, #0xfffffffff000
    ubfx x1, x0, #21, #9
    lsr x3, x0, #21
    orr x3, x23, x3, lsl #21
    str x3, [x2, x1, lsl #3]
    ret

    // Forgets what caches have of x0 up to x1.
strata_drop_caches:
    mrs x2, ctr_el0
    ubfx x2, x2, #16, #4
    mov x3, #4
    lsl x2, x3, x2
1:  dc civac, x0
    add x0, x0, x2
    cmp x0, x1
    b.lo 1b
    dsb sy
    ret

    // EFI: x0 = image handle, x1 = system table, the firmware's stack.
    .globl efi_start
efi_start:
    stp x29, x30, [sp, #-48]!
    stp x19, x20, [sp, #16]
    stp x21, x22, [sp, #32]
    mov x19, x0
    mov x20, x1
    bl strata_relocate
    mov x0, x19
    mov x1, x20
    bl {efi}
    ldp x21, x22, [sp, #32]
    ldp x19, x20, [sp, #16]
    ldp x29, x30, [sp], #48
    ret

    // Adds the load address to every pointer in the image; relative relocations are the only kind there may be.
strata_relocate:
    adrp x0, __rela_start
    add x0, x0, :lo12:__rela_start
    adrp x1, __rela_end
    add x1, x1, :lo12:__rela_end
    adrp x2, strata_head
    sub x2, x2, #0x200, lsl #12
1:  cmp x0, x1
    b.hs 3f
    ldp x3, x4, [x0]
    ldr x5, [x0, #16]
    cmp w4, #1027
    b.ne 2f
    add x5, x5, x2
    str x5, [x3, x2]
    add x0, x0, #24
    b 1b
2:  brk #2
3:  ret

    // Calls x0(x1) on the boot stack, for good, with firmware's tables and level left behind.
    .globl strata_on_boot_stack
strata_on_boot_stack:
    msr daifset, #15
    mov x19, x0
    mov x26, x1
    adrp x0, strata_head
    adrp x1, __image_end
    bl strata_drop_caches
    bl {level}
    // At the level of kernels firmware's tables are still in use.
    mrs x0, sctlr_el1
    bic x0, x0, #1
    bic x0, x0, #4
    msr sctlr_el1, x0
    isb
    mov x27, x26
    bl strata_map
    mov x0, x27
    mov x30, xzr
    br x19

    .section .bss.strata_boot, "aw", @nobits
    .balign 4096
strata_boot_tables:
    .skip 8 * 4096
    .globl strata_boot_guard, strata_boot_stack
strata_boot_guard:
    .skip 4096
    .skip 512 * 1024
strata_boot_stack:
    .skip 4096
    .text
"#,
    level = sym cpu::leave_hypervisor_level,
    activate = sym first_translation,
    tree = sym tree_main,
    efi = sym crate::efi_main,
);

unsafe extern "C" {
    #[link_name = "strata_on_boot_stack"]
    fn call_on_boot_stack(run: u64, info: u64) -> !;
}

/// Goes on with `run(info)` on the image's own stack.
///
/// # Safety
/// `info` must live for good, outside of the present stack.
pub(crate) unsafe fn on_boot_stack(run: extern "C" fn(&BootInfo) -> !, info: *const BootInfo) -> ! {
    // SAFETY: the caller's promise.
    unsafe { call_on_boot_stack(run as *const () as u64, info as u64) }
}

/// Why the image's addresses can be foreseen.
pub(crate) fn fixed_because() -> Option<&'static str> {
    Some("on AArch64 it stays where the loader has put it")
}

/// From the entry code of loaders.
extern "C" fn tree_main(tree: u64) -> ! {
    let bytes = |len: usize| {
        // SAFETY: the entry code has mapped what is there, 2 MiB at least, and nothing writes to it until it was read.
        unsafe { core::slice::from_raw_parts(tree as *const u8, len) }
    };
    if tree == 0 || !tree.is_multiple_of(8) {
        panic!("the loader gave no device tree");
    }
    let read = device_tree::bytes(bytes(40)).and_then(|len| board::read(bytes(len), tree));
    match read {
        Ok(mut info) => {
            if let Some(serial) = info.board.as_ref().and_then(|board| board.serial) {
                // SAFETY: the device tree says what is there, and the entry code has mapped it.
                unsafe { serial_port::set_place(serial) };
            }
            let tpm = info.board.as_ref().and_then(|board| board.tpm);
            // SAFETY: no variable was written to that does not begin as zero.
            info.program = tpm.map(|_| unsafe { entry::measured() });
            crate::attach(&mut info);
            run(&info)
        }
        Err(error) => panic!("{error}"),
    }
}
