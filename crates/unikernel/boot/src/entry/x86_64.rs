//! The PVH note and its 32-bit code, the PE header and the EFI entry, relocation.

use super::{MOVED, image};
use crate::entry;
use core::arch::global_asm;
use core::sync::atomic::Ordering;
use strata_image::le;
use strata_unikernel::boot::memory_map::Range;
use strata_unikernel::boot::placement::{self, LARGE};
use strata_unikernel::boot::{BootInfo, Physical, pvh};
use strata_unikernel::drivers::tpm;
use strata_unikernel::machine::{cpu, entropy};

global_asm!(
    r#"
    .section .head, "ax", @progbits
    .globl strata_head
strata_head:
    .ascii "MZ"
    .fill 0x3a, 1, 0
    .long 1f - strata_head
1:  .ascii "PE\0\0"
    .short 0x8664                       # x86-64
    .short 2                            # sections
    .long 0, 0, 0
    .short 4f - 2f                      # bytes of the optional header
    .short 0x022e                       # executable, large addresses, no symbols; relocatable
2:  .short 0x20b                        # PE32+
    .byte 1, 0
    .long PE_CODE_BYTES, PE_DATA_FILE_BYTES, 0
    .long PE_ENTRY
    .long 0x1000                        # where code begins
    .quad 0                             # preferred address: any
    .long 0x1000                        # alignment in memory
    .long 0x200                         # alignment in the file
    .short 0, 0, 0, 0, 0, 0
    .long 0
    .long PE_IMAGE_BYTES
    .long 0x1000                        # bytes of headers
    .long 0
    .short 10                           # EFI application
    .short 0x100                        # data need not be executable
    .quad 0, 0, 0, 0
    .long 0
    .long 6                             # data directories
    .quad 0, 0, 0, 0, 0
    .long PE_RELOCATIONS, 12            # an empty block: the image relocates itself
4:  .ascii ".text\0\0\0"
    .long PE_CODE_BYTES, 0x1000, PE_CODE_BYTES, 0x1000
    .long 0, 0
    .short 0, 0
    .long 0x60000020                    # code, executable, readable
    .ascii ".data\0\0\0"
    .long PE_DATA_BYTES, PE_DATA_START, PE_DATA_FILE_BYTES, PE_DATA_START
    .long 0, 0
    .short 0, 0
    .long 0xc0000040                    # data, readable, writable
    .fill 40, 1, 0                      # where `strata image` describes what it puts behind the image

    # PVH: 32-bit protected mode without paging, ebx = start info, loaded where it was linked.
    .balign 16
    .code32
    .globl boot_start
boot_start:
    cld
    cli
    mov $0x200000, %ebp
    lea (strata_boot_stack - strata_head)(%ebp), %esp
    # Map the first 4 GiB to themselves, in pages of 2 MiB: a top table, one of gigabytes, four of pages.
    lea (strata_boot_tables - strata_head)(%ebp), %edi
    lea 0x1003(%edi), %eax
    mov %eax, (%edi)
    lea 0x2003(%edi), %eax
    xor %ecx, %ecx
1:  mov %eax, 0x1000(%edi, %ecx, 8)
    add $0x1000, %eax
    inc %ecx
    cmp $4, %ecx
    jne 1b
    mov $0x83, %eax
    xor %ecx, %ecx
1:  mov %eax, 0x2000(%edi, %ecx, 8)
    add $0x200000, %eax
    inc %ecx
    cmp $2048, %ecx
    jne 1b
    mov %edi, %cr3
    mov $0x620, %eax                    # PAE; SSE, which compiled code uses
    mov %eax, %cr4
    mov $0xc0000080, %ecx
    rdmsr
    or $0x900, %eax                     # long mode, no-execute
    wrmsr
    mov $0x80010033, %eax               # paging, write protection, native errors, protected mode
    mov %eax, %cr0
    lea (strata_boot_segments - strata_head)(%ebp), %eax
    push %eax
    pushw $23
    lgdt (%esp)
    add $6, %esp
    lea (2f - strata_head)(%ebp), %eax
    push $8
    push %eax
    lret
    .code64
2:  mov $16, %eax
    mov %eax, %ds
    mov %eax, %es
    mov %eax, %ss
    xor %eax, %eax
    mov %eax, %fs
    mov %eax, %gs
    lea strata_boot_stack(%rip), %rsp
    xor %ebp, %ebp
    call strata_relocate
    mov %ebx, %edi
    call {pvh}
    ud2
    .balign 16
strata_boot_segments:
    .quad 0, 0x00af9b000000ffff, 0x00cf93000000ffff

    .section .text.strata_entry, "ax", @progbits
    # EFI: rcx = image handle, rdx = system table, the firmware's stack.
    .globl efi_start
efi_start:
    push %rsi
    push %rdi
    push %rbx
    push %r12
    sub $8, %rsp
    mov %rcx, %rbx
    mov %rdx, %r12
    cld
    call strata_relocate
    mov %rbx, %rdi
    mov %r12, %rsi
    call {efi}
    add $8, %rsp
    pop %r12
    pop %rbx
    pop %rdi
    pop %rsi
    ret

    # Adds the load address to every pointer in the image; relative relocations are the only kind there may be.
strata_relocate:
    lea __rela_start(%rip), %rsi
    lea __rela_end(%rip), %rcx
    lea strata_head(%rip), %rdx
    sub $0x200000, %rdx
1:  cmp %rcx, %rsi
    jae 3f
    cmpl $8, 8(%rsi)
    jne 2f
    mov (%rsi), %rdi
    mov 16(%rsi), %rax
    add %rdx, %rax
    mov %rax, (%rdi, %rdx)
    add $24, %rsi
    jmp 1b
2:  ud2
3:  ret

    # Calls rdi(rsi) on the boot stack, for good; so far up as rdx says, with the tables at rcx, if that is not zero.
    .globl strata_on_boot_stack
strata_on_boot_stack:
    test %rdx, %rdx
    jz 1f
    mov %cr4, %rax
    and $-129, %rax                     # forget firmware's global pages too
    mov %rax, %cr4
    mov %rcx, %cr3
1:  lea 2f(%rip), %rax
    add %rdx, %rax
    jmp *%rax
2:  lea strata_boot_stack(%rip), %rsp
    lea (%rdi, %rdx), %rbx
    lea (%rsi, %rdx), %r12
    call strata_relocate
    mov %r12, %rdi
    xor %ebp, %ebp
    call *%rbx
    ud2

    .section .note.pvh, "a", @note
    .balign 4
    .long 4, 8, 18
    .asciz "Xen"
    .quad BOOT_ENTRY

    .section .bss.strata_boot, "aw", @nobits
    .balign 4096
strata_boot_tables:
    .skip 8 * 4096
    .globl strata_boot_tables, strata_boot_guard, strata_boot_stack
strata_boot_guard:
    .skip 4096
    .skip 2048 * 1024
strata_boot_stack:
    .text
"#,
    pvh = sym pvh_main,
    efi = sym crate::efi_main,
    options(att_syntax)
);

unsafe extern "C" {
    #[link_name = "strata_on_boot_stack"]
    fn call_on_boot_stack(run: u64, info: u64, distance: u64, tables: u64) -> !;
    #[link_name = "strata_boot_tables"]
    static TABLES: u8;
}

/// What the first tables map to itself.
const MAPPED: u64 = 1 << 32;

/// Goes on with `run(info)` on the image's own stack, at an address that was drawn, if it could be.
///
/// # Safety
/// Once, with interrupts off, without firmware. `info` must live for good in the image, outside of the present stack.
pub(crate) unsafe fn on_boot_stack(run: extern "C" fn(&BootInfo) -> !, info: *const BootInfo) -> ! {
    // SAFETY: the caller's promise.
    let distance = distance(unsafe { &*info }).unwrap_or(0);
    let (run, info, tables) = (run as *const () as u64, info as u64, &raw const TABLES);
    // SAFETY: the caller's promise; where the image is to appear the tables have it.
    unsafe {
        if distance != 0 {
            map_elsewhere(tables.cast_mut().cast(), distance);
            MOVED.store(distance, Ordering::Relaxed);
        }
        call_on_boot_stack(run, info, distance, tables as u64)
    }
}

/// How far from its memory the image shall appear.
fn distance(info: &BootInfo) -> Option<u64> {
    let (mut numbers, mut count) = ([[0; 8]; 8], 0);
    cpu::random_numbers(&mut |number| {
        if let Some(place) = numbers.get_mut(count) {
            *place = number.to_le_bytes();
            count += 1;
        }
    });
    let firmware = info.entropy.as_ref().map_or(&[][..], |bytes| bytes);
    let sources = [numbers[..count].as_flattened(), firmware];
    let number = entropy::early(cpu::time_stamp(), sources)?;
    let memory = image().memory();
    // A refusal has words in it that would be left behind.
    if memory.end > MAPPED || info.refusal.is_some() {
        return None;
    }
    Some(placement::draw(number, memory)? - memory.start)
}

/// Why the image's addresses can be foreseen, if so.
pub(crate) fn fixed_because() -> Option<&'static str> {
    if MOVED.load(Ordering::Relaxed) != 0 {
        None
    } else if image().memory().end > MAPPED {
        Some("firmware has put it above 4 GiB")
    } else {
        Some("neither the processor nor firmware gives random numbers")
    }
}

/// Has the first tables map the first 4 GiB to themselves, as the code above does, and the image also so far up.
///
/// # Safety
/// `tables` must be the eight of the image, where firmware's are in use.
unsafe fn map_elsewhere(tables: *mut [u64; 512], distance: u64) {
    const TABLE: u64 = 3;
    const PAGE: u64 = 0x83;
    let Range { start, end } = image().memory();
    let place = start + distance;
    let table = |number: u64| (tables as u64 + number * 4096) | TABLE;
    let set = |number: usize, entry: u64, value: u64| {
        // SAFETY: inside of the tables, by the caller's promise.
        unsafe { (*tables.add(number))[entry as usize % 512] = value }
    };
    set(0, 0, table(1));
    for gigabyte in 0..MAPPED >> 30 {
        set(1, gigabyte, table(2 + gigabyte));
        for page in 0..512 {
            let address = (gigabyte << 30) + page * LARGE;
            set(2 + gigabyte as usize, page, address | PAGE);
        }
    }
    set(0, place >> 39, table(6));
    set(6, place >> 30, table(7));
    for number in 0..end.div_ceil(LARGE) - start / LARGE {
        let address = (start / LARGE + number) * LARGE;
        set(7, place / LARGE + number, address | PAGE);
    }
}

/// What the entry code has mapped: the first 4 GiB.
struct Low;

impl Physical for Low {
    fn bytes(&self, address: u64, len: usize) -> Option<&[u8]> {
        let end = address.checked_add(len as u64)?;
        // SAFETY: mapped by the entry code, and nothing writes there until the start info has been read.
        (address != 0 && end <= 1 << 32)
            .then(|| unsafe { core::slice::from_raw_parts(address as *const u8, len) })
    }
}

/// From the PVH entry code.
extern "C" fn pvh_main(start_info: u64) -> ! {
    let interface = Low.bytes(tpm::PLACE.0 + tpm::INTERFACE as u64, 4);
    let there = interface.and_then(|bytes| le::u32(bytes, 0));
    // SAFETY: nothing was written to yet.
    let program = there
        .filter(|&kind| tpm::is_there(kind))
        .map(|_| unsafe { entry::measured() });
    match pvh::read(&Low, start_info) {
        Ok(mut info) => {
            info.program = program;
            crate::go_on(info)
        }
        Err(error) => panic!("{error}"),
    }
}
