//! Loops of vector registers, which may be loaded from anywhere in memory.

use core::arch::global_asm;

global_asm!(
    r#"
    .section .text.strata_memory, "ax", @progbits
    .globl memcpy, memmove, memset, memcmp, bcmp, strlen
    .balign 16
memmove:
    sub x3, x0, x1
    cmp x3, x2
    b.lo 5f
memcpy:
    mov x3, x0
1:  cmp x2, #64
    b.lo 2f
    ldp q0, q1, [x1]
    ldp q2, q3, [x1, #32]
    stp q0, q1, [x3]
    stp q2, q3, [x3, #32]
    add x1, x1, #64
    add x3, x3, #64
    sub x2, x2, #64
    b 1b
2:  cmp x2, #8
    b.lo 3f
    ldr x4, [x1], #8
    str x4, [x3], #8
    sub x2, x2, #8
    b 2b
3:  cbz x2, 4f
    ldrb w4, [x1], #1
    strb w4, [x3], #1
    sub x2, x2, #1
    b 3b
4:  ret
    // Overlapping, the target behind: from the end.
5:  add x1, x1, x2
    add x3, x0, x2
6:  cmp x2, #16
    b.lo 7f
    ldr q0, [x1, #-16]!
    str q0, [x3, #-16]!
    sub x2, x2, #16
    b 6b
7:  cbz x2, 4b
    ldrb w4, [x1, #-1]!
    strb w4, [x3, #-1]!
    sub x2, x2, #1
    b 7b

    .balign 16
memset:
    mov x3, x0
    dup v0.16b, w1
    and x1, x1, #255
1:  cmp x2, #64
    b.lo 2f
    stp q0, q0, [x3]
    stp q0, q0, [x3, #32]
    add x3, x3, #64
    sub x2, x2, #64
    b 1b
2:  cbz x2, 3f
    strb w1, [x3], #1
    sub x2, x2, #1
    b 2b
3:  ret

    .balign 16
bcmp:
memcmp:
1:  cmp x2, #8
    b.lo 2f
    ldr x3, [x0]
    ldr x4, [x1]
    cmp x3, x4
    b.ne 2f
    add x0, x0, #8
    add x1, x1, #8
    sub x2, x2, #8
    b 1b
2:  cbz x2, 3f
    ldrb w3, [x0], #1
    ldrb w4, [x1], #1
    sub x2, x2, #1
    subs w3, w3, w4
    b.eq 2b
    mov w0, w3
    ret
3:  mov w0, wzr
    ret

    .balign 16
strlen:
    mov x1, x0
1:  ldrb w2, [x1], #1
    cbnz w2, 1b
    sub x0, x1, x0
    sub x0, x0, #1
    ret

    // Panics abort, so nothing ever unwinds; the precompiled core library names these all the same.
    .globl rust_eh_personality, _Unwind_Resume
rust_eh_personality:
_Unwind_Resume:
    brk #1

    // Parts of the compiler's library that never run: what looks for atomic instructions when a C library starts a program.
    .globl getauxval, __stack_chk_fail, __stack_chk_guard
getauxval:
    mov x0, xzr
    ret
__stack_chk_fail:
    brk #2
    .section .rodata.strata_guard, "a", @progbits
    .balign 8
__stack_chk_guard:
    .quad 0
    .text
"#
);
