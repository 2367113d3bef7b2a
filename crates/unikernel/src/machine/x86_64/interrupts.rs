//! Interrupts and exceptions: one table of gates for all processors, stacks for each.
//!
//! Every handler runs on an interrupt stack, because compiled code keeps live data below its stack pointer. Handlers
//! save the old vector registers only (`fxsave`), so they contain no AVX.
#![allow(unsafe_code)]

use super::descriptors::{CODE, DATA, TASK, TaskState, gate, segments, stack_of};
use super::{cpu, local_apic};
use crate::machine::{crash, watchdog, window};
use core::arch::{asm, global_asm};
use core::cell::UnsafeCell;

/// The vector of devices, whose priority is below that of all others.
pub const DEVICE: u8 = 0x30;
/// The vector of the timer.
pub const TIMER: u8 = 0x40;
/// The vector that wakes a processor.
pub const WAKE: u8 = 0x41;
/// The vector of interrupts that vanished before they were taken.
pub const SPURIOUS: u8 = 0xff;

const NON_MASKABLE: u64 = 2;
const PAGE_FAULT: u64 = 14;

/// What was interrupted.
#[derive(Debug)]
#[repr(C)]
pub struct Frame {
    /// Those that hold numbers.
    pub registers: [u64; 15],
    /// Which interrupt or exception.
    pub vector: u64,
    /// What the processor adds to some exceptions.
    pub error: u64,
    /// Where it happened.
    pub instruction: u64,
    code: u64,
    flags: u64,
    /// The interrupted stack.
    pub stack: u64,
    stack_segment: u64,
}

impl Frame {
    /// What [`registers`](Self::registers) are called.
    pub const NAMES: [&str; 15] = [
        "r15", "r14", "r13", "r12", "r11", "r10", "r9", "r8", "rbp", "rdi", "rsi", "rdx", "rcx",
        "rbx", "rax",
    ];

    /// The frame pointer of the interrupted code.
    pub fn frame_pointer(&self) -> u64 {
        self.registers[8]
    }
}

global_asm!(
    r#"
    .section .text.strata_interrupts, "ax"
    .balign 16
strata_interrupt_stubs:
    .set vector, 0
    .rept 256
    .balign 16
    .if (vector == 8) || (vector >= 10 && vector <= 14) || vector == 17 || vector == 21 || vector == 29 || vector == 30
    .else
    pushq $0
    .endif
    pushq $vector
    jmp strata_interrupt_common
    .set vector, vector + 1
    .endr
strata_interrupt_common:
    push %rax; push %rbx; push %rcx; push %rdx; push %rsi; push %rdi; push %rbp
    push %r8; push %r9; push %r10; push %r11; push %r12; push %r13; push %r14; push %r15
    cld
    mov %rsp, %rdi
    mov %rsp, %rbx
    xor %ebp, %ebp
    sub $512, %rsp
    and $-64, %rsp
    fxsave64 (%rsp)
    call {handler}
    fxrstor64 (%rsp)
    mov %rbx, %rsp
    pop %r15; pop %r14; pop %r13; pop %r12; pop %r11; pop %r10; pop %r9; pop %r8
    pop %rbp; pop %rdi; pop %rsi; pop %rdx; pop %rcx; pop %rbx; pop %rax
    add $16, %rsp
    iretq
    .text
"#,
    handler = sym handle,
    options(att_syntax)
);

unsafe extern "C" {
    #[link_name = "strata_interrupt_stubs"]
    static STUBS: u8;
}

extern "C" fn handle(frame: &Frame) {
    match frame.vector {
        vector if vector == u64::from(TIMER) => {
            local_apic::end_of_interrupt();
            watchdog::tick(frame);
        }
        vector if vector == u64::from(DEVICE) => {
            local_apic::hold_devices();
            local_apic::end_of_interrupt();
        }
        vector if vector == u64::from(WAKE) => local_apic::end_of_interrupt(),
        vector if vector == u64::from(SPURIOUS) => {}
        // How a crashing processor stops the others.
        NON_MASKABLE if crash::is_crashing() => cpu::stop(),
        PAGE_FAULT if window::fault(cpu::fault_address()) => {}
        vector if vector >= 32 => local_apic::end_of_interrupt(),
        _ => exception(frame),
    }
}

/// Ends the run because of an exception.
fn exception(frame: &Frame) -> ! {
    const NAMES: &str = "division by zero,debug,non-maskable interrupt,breakpoint,overflow,bound,\
        invalid instruction,no coprocessor,double fault,coprocessor overrun,invalid task state,\
        segment not present,stack segment fault,general protection fault,page fault,reserved,\
        x87 error,misaligned access,machine check,vector error,virtualization,control protection";
    let mut names = NAMES.split(',');
    let name = names.nth(frame.vector as usize).unwrap_or("exception");
    let at = crash::file_address(frame.instruction);
    let (error, stack) = (frame.error, frame.stack);
    if frame.vector == 14 {
        let address = cpu::fault_address();
        crash::interrupted(
            format_args!(
                "{name} at {at:#x}: address {address:#x}, error {error:#x}, stack {stack:#x}"
            ),
            frame,
        )
    }
    crash::interrupted(
        format_args!("{name} at {at:#x}: error {error:#x}, stack {stack:#x}"),
        frame,
    )
}

#[repr(C, align(16))]
struct Gates(UnsafeCell<[[u64; 2]; 256]>);

// SAFETY: written by the boot processor alone, before others run; afterwards only processors read it.
unsafe impl Sync for Gates {}

static GATES: Gates = Gates(UnsafeCell::new([[0; 2]; 256]));

/// The tables of one processor.
#[derive(Debug)]
#[repr(C, align(16))]
pub struct Tables {
    segments: [u64; 5],
    task_state: TaskState,
}

impl Tables {
    /// With the tops of the stacks for ordinary and for severe interrupts.
    pub const fn new(ordinary: u64, severe: u64) -> Self {
        Self {
            segments: [0; 5],
            task_state: TaskState::new(ordinary, severe),
        }
    }
}

/// Fills the gates. Once, by the boot processor, before [`load`].
///
/// # Safety
/// No other processor may run.
pub unsafe fn fill_gates() {
    let stubs = &raw const STUBS as u64;
    for vector in 0..=255u8 {
        let entry = gate(stubs + u64::from(vector) * 16, stack_of(vector));
        // SAFETY: the caller's promise, and the index is below 256.
        unsafe { (*GATES.0.get())[usize::from(vector)] = entry };
    }
}

#[repr(C, packed)]
struct Pointer {
    limit: u16,
    base: u64,
}

/// Makes a processor use its tables, which stay where they are for good.
///
/// # Safety
/// The gates must be filled, and the stacks be this processor's alone.
pub unsafe fn load(tables: &'static mut Tables) {
    tables.segments = segments(&raw const tables.task_state as u64);
    let segments = Pointer {
        limit: size_of::<[u64; 5]>() as u16 - 1,
        base: &raw const tables.segments as u64,
    };
    let gates = Pointer {
        limit: size_of::<Gates>() as u16 - 1,
        base: GATES.0.get() as u64,
    };
    // SAFETY: both tables are valid and live for good; the selectors are those of `segments`.
    unsafe {
        asm!(
            "lgdt [{segments}]",
            "lidt [{gates}]",
            "push {code}",
            "lea {scratch}, [rip + 2f]",
            "push {scratch}",
            "retfq",
            "2:",
            "mov ds, {data:e}",
            "mov es, {data:e}",
            "mov ss, {data:e}",
            "ltr {task:x}",
            segments = in(reg) &segments,
            gates = in(reg) &gates,
            code = const CODE as i64,
            scratch = out(reg) _,
            data = in(reg) u32::from(DATA),
            task = in(reg) u32::from(TASK),
        );
    }
}
