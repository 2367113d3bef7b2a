//! Exceptions and interrupts: one table of vectors for all processors.
//!
//! The program runs with the stack pointer that programs have (`SP_EL0`), and exceptions have one of their own, so that a
//! stack that overflows is noticed. Handlers save all vector registers.
#![allow(unsafe_code)]

use super::{interrupt_controller, power};
use crate::machine::{crash, window};
use core::arch::{asm, naked_asm};

/// What was interrupted.
#[derive(Debug)]
#[repr(C)]
pub struct Frame {
    /// x0 to x30.
    pub registers: [u64; 31],
    /// The interrupted stack.
    pub stack: u64,
    /// Where it happened.
    pub instruction: u64,
    state: u64,
    /// What kind of exception (`ESR_EL1`), and of which address.
    pub syndrome: u64,
    address: u64,
    /// Which of the 16 vectors.
    vector: u64,
    padding: u64,
    vectors: [u128; 32],
    float_state: [u64; 2],
}

const FRAME: usize = size_of::<Frame>();
const _: () = assert!(FRAME == 832);

impl Frame {
    /// What [`registers`](Self::registers) are called.
    pub const NAMES: [&str; 31] = [
        "x0", "x1", "x2", "x3", "x4", "x5", "x6", "x7", "x8", "x9", "x10", "x11", "x12", "x13",
        "x14", "x15", "x16", "x17", "x18", "x19", "x20", "x21", "x22", "x23", "x24", "x25", "x26",
        "x27", "x28", "x29", "x30",
    ];

    /// The frame pointer of the interrupted code.
    pub fn frame_pointer(&self) -> u64 {
        self.registers[29]
    }
}

/// The vectors, from the next multiple of 2 KiB on.
#[unsafe(naked)]
unsafe extern "C" fn vectors() {
    naked_asm!(
        ".balign 2048",
        ".set vector, 0",
        ".rept 16",
        ".balign 128",
        "sub sp, sp, #{frame}",
        "stp x0, x1, [sp]",
        "mov x0, #vector",
        "b 8f",
        ".set vector, vector + 1",
        ".endr",
        ".balign 128",
        "8:",
        "stp x2, x3, [sp, #16]",
        "stp x4, x5, [sp, #32]",
        "stp x6, x7, [sp, #48]",
        "stp x8, x9, [sp, #64]",
        "stp x10, x11, [sp, #80]",
        "stp x12, x13, [sp, #96]",
        "stp x14, x15, [sp, #112]",
        "stp x16, x17, [sp, #128]",
        "stp x18, x19, [sp, #144]",
        "stp x20, x21, [sp, #160]",
        "stp x22, x23, [sp, #176]",
        "stp x24, x25, [sp, #192]",
        "stp x26, x27, [sp, #208]",
        "stp x28, x29, [sp, #224]",
        "mrs x1, sp_el0",
        "stp x30, x1, [sp, #240]",
        "mrs x2, elr_el1",
        "mrs x3, spsr_el1",
        "stp x2, x3, [sp, #256]",
        "mrs x4, esr_el1",
        "mrs x5, far_el1",
        "stp x4, x5, [sp, #272]",
        "str x0, [sp, #288]",
        "add x1, sp, #304",
        "stp q0, q1, [x1]",
        "stp q2, q3, [x1, #32]",
        "stp q4, q5, [x1, #64]",
        "stp q6, q7, [x1, #96]",
        "stp q8, q9, [x1, #128]",
        "stp q10, q11, [x1, #160]",
        "stp q12, q13, [x1, #192]",
        "stp q14, q15, [x1, #224]",
        "stp q16, q17, [x1, #256]",
        "stp q18, q19, [x1, #288]",
        "stp q20, q21, [x1, #320]",
        "stp q22, q23, [x1, #352]",
        "stp q24, q25, [x1, #384]",
        "stp q26, q27, [x1, #416]",
        "stp q28, q29, [x1, #448]",
        "stp q30, q31, [x1, #480]",
        "mrs x2, fpcr",
        "mrs x3, fpsr",
        "add x1, x1, #512",
        "stp x2, x3, [x1]",
        "mov x0, sp",
        "mov x29, xzr",
        "mov x30, xzr",
        "bl {handler}",
        "add x1, sp, #816",
        "ldp x2, x3, [x1]",
        "msr fpcr, x2",
        "msr fpsr, x3",
        "sub x1, x1, #512",
        "ldp q0, q1, [x1]",
        "ldp q2, q3, [x1, #32]",
        "ldp q4, q5, [x1, #64]",
        "ldp q6, q7, [x1, #96]",
        "ldp q8, q9, [x1, #128]",
        "ldp q10, q11, [x1, #160]",
        "ldp q12, q13, [x1, #192]",
        "ldp q14, q15, [x1, #224]",
        "ldp q16, q17, [x1, #256]",
        "ldp q18, q19, [x1, #288]",
        "ldp q20, q21, [x1, #320]",
        "ldp q22, q23, [x1, #352]",
        "ldp q24, q25, [x1, #384]",
        "ldp q26, q27, [x1, #416]",
        "ldp q28, q29, [x1, #448]",
        "ldp q30, q31, [x1, #480]",
        "ldp x2, x3, [sp, #256]",
        "msr elr_el1, x2",
        "msr spsr_el1, x3",
        "ldr x30, [sp, #240]",
        "ldp x28, x29, [sp, #224]",
        "ldp x26, x27, [sp, #208]",
        "ldp x24, x25, [sp, #192]",
        "ldp x22, x23, [sp, #176]",
        "ldp x20, x21, [sp, #160]",
        "ldp x18, x19, [sp, #144]",
        "ldp x16, x17, [sp, #128]",
        "ldp x14, x15, [sp, #112]",
        "ldp x12, x13, [sp, #96]",
        "ldp x10, x11, [sp, #80]",
        "ldp x8, x9, [sp, #64]",
        "ldp x6, x7, [sp, #48]",
        "ldp x4, x5, [sp, #32]",
        "ldp x2, x3, [sp, #16]",
        "ldp x0, x1, [sp]",
        "add sp, sp, #{frame}",
        "eret",
        frame = const FRAME,
        handler = sym handle,
    )
}

const DATA_FAULT: u64 = 0x25;
const CODE_FAULT: u64 = 0x21;

extern "C" fn handle(frame: &Frame) {
    /// Of each four vectors: what an instruction does, and what comes from outside.
    const SYNCHRONOUS: u64 = 0;
    const INTERRUPT: u64 = 1;
    // Where there is nothing, as opposed to what is not allowed.
    let is_absent = frame.syndrome & 0x3c == 4;
    match (frame.vector % 4, frame.syndrome >> 26) {
        (INTERRUPT, _) => interrupt_controller::handle(frame),
        (SYNCHRONOUS, DATA_FAULT) if is_absent && window::fault(frame.address) => {}
        (SYNCHRONOUS, _) if power::is_leaving() => power::stop_for_good(),
        _ => exception(frame),
    }
}

/// Ends the run because of an exception.
fn exception(frame: &Frame) -> ! {
    let class = frame.syndrome >> 26;
    let name = match (frame.vector % 4, class) {
        (0, 0) => "invalid instruction",
        (0, 0x07) => "vector registers are off",
        (0, 0x0e) => "illegal state",
        (0, CODE_FAULT | DATA_FAULT) => "page fault",
        (0, 0x22) => "misaligned instruction",
        (0, 0x26) => "misaligned stack",
        (0, 0x2c) => "float exception",
        (0, 0x3c) => "breakpoint",
        (2, _) => "fast interrupt",
        (3, _) => "error of the system",
        _ => "exception",
    };
    let at = crash::file_address(frame.instruction);
    let (syndrome, stack) = (frame.syndrome, frame.stack);
    if matches!(class, CODE_FAULT | DATA_FAULT) {
        let address = frame.address;
        crash::interrupted(
            format_args!(
                "{name} at {at:#x}: address {address:#x}, error {syndrome:#x}, stack {stack:#x}"
            ),
            frame,
        )
    }
    crash::interrupted(
        format_args!("{name} at {at:#x}: error {syndrome:#x}, stack {stack:#x}"),
        frame,
    )
}

/// Makes this processor use the vectors, with a stack for exceptions.
///
/// # Safety
/// The stack must be this processor's alone, for good.
pub(super) unsafe fn load(stack: u64) {
    let table = (vectors as *const () as u64).next_multiple_of(2048);
    // SAFETY: the vectors are there for good; the program keeps its own stack.
    unsafe {
        asm!(
            "msr vbar_el1, {table}",
            "msr spsel, #1",
            "mov sp, {stack}",
            "msr spsel, #0",
            "isb",
            table = in(reg) table,
            stack = in(reg) stack,
        );
    }
}
