//! Where the machine enters: the PVH note and its 32-bit code, the PE header and the EFI entry, relocation.
//!
//! The image begins with a PE header, so that it is an EFI application as it is: file offsets equal addresses.

use core::arch::global_asm;
use strata_image::reader::attachment::{self, Attachment};
use strata_image::{le, measure};
use strata_unikernel::boot::BootInfo;
use strata_unikernel::boot::memory_map::Range;
use strata_unikernel::machine::address_space::Image;

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
    .globl pvh_start
pvh_start:
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

    # Calls rdi(rsi) on the boot stack, for good.
    .globl strata_on_boot_stack
strata_on_boot_stack:
    lea strata_boot_stack(%rip), %rsp
    xor %ebp, %ebp
    mov %rdi, %rax
    mov %rsi, %rdi
    call *%rax
    ud2

    .section .note.pvh, "a", @note
    .balign 4
    .long 4, 8, 18
    .asciz "Xen"
    .quad PVH_ENTRY

    .section .bss.strata_boot, "aw", @nobits
    .balign 4096
strata_boot_tables:
    .skip 6 * 4096
    .globl strata_boot_guard, strata_boot_stack
strata_boot_guard:
    .skip 4096
    .skip 2048 * 1024
strata_boot_stack:
    .text
"#,
    pvh = sym crate::pvh_main,
    efi = sym crate::efi_main,
    options(att_syntax)
);

unsafe extern "C" {
    static __image_start: u8;
    static __code_start: u8;
    static __text_end: u8;
    static __constants_end: u8;
    static __image_end: u8;
    static __data_end: u8;
    static __rela_start: u8;
    static __rela_end: u8;
    #[link_name = "strata_boot_guard"]
    static GUARD: u8;
}

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

/// Where the linker put the image, if nobody moves it.
const LINKED: u64 = 0x20_0000;

/// Where the image is.
pub(crate) fn image() -> Image {
    let [start, text, constants, end, guard] = [
        &raw const __image_start,
        &raw const __text_end,
        &raw const __constants_end,
        &raw const __image_end,
        &raw const GUARD,
    ]
    .map(|address| address as u64);
    Image {
        text: Range { start, end: text },
        read_only: Range {
            start: text,
            end: constants,
        },
        data: Range {
            start: constants,
            end,
        },
        guard: Range::new(guard, 4096),
    }
}

/// What was put behind the image, beginning with the image itself.
///
/// # Safety
/// Only while the memory behind the image is as the loader left it, and mapped to itself.
pub(crate) unsafe fn attachment() -> Option<Attachment<'static>> {
    let start = &raw const __image_start;
    // SAFETY: the image begins with a page of headers.
    let head = unsafe { core::slice::from_raw_parts(start, 4096) };
    let place = attachment::place(head)?;
    let start = (start as u64).checked_add(place.start)?;
    let len = (place.end - place.start) as usize;
    // SAFETY: the caller's promise, and the loader put so many bytes there, as the headers say.
    let bytes = unsafe { core::slice::from_raw_parts(start as *const u8, len) };
    attachment::read(bytes, start)
}

/// The digest of the program as it was loaded.
///
/// # Safety
/// Only before any variable is written to.
pub(crate) unsafe fn measured() -> [u8; 32] {
    let bytes = |start: *const u8, end: *const u8| {
        // SAFETY: the linker's own symbols, around what the loader has put there; by the caller's promise nothing writes.
        unsafe { core::slice::from_raw_parts(start, end as usize - start as usize) }
    };
    let variables = &raw const __constants_end;
    // Where a pointer is, what kind of relocation, what is added: 24 bytes each, by rising places.
    let pointers = bytes(&raw const __rela_start, &raw const __rela_end).chunks_exact(24);
    let before = variables as u64 - &raw const __image_start as u64 + LINKED;
    let pointers = pointers.map(|entry| {
        let place = le::u64(entry, 0).unwrap_or(0);
        place.wrapping_sub(before) as usize
    });
    let fixed = bytes(&raw const __code_start, variables);
    measure::program(fixed, bytes(variables, &raw const __data_end), pointers)
}

/// By how much the image was moved.
pub(crate) fn offset() -> u64 {
    (&raw const __image_start as u64).wrapping_sub(LINKED)
}
