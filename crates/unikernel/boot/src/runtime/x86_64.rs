//! Plain vector loops: string instructions are ten to fifty times slower under emulation and no faster on hardware for
//! what is moved here.

use core::arch::global_asm;

global_asm!(
    r#"
    .section .text.strata_memory, "ax", @progbits
    .globl memcpy, memmove, memset, memcmp, bcmp, strlen
    .balign 16
memmove:
    mov %rdi, %rax
    sub %rsi, %rax
    cmp %rdx, %rax
    jb 5f
memcpy:
    mov %rdi, %rax
1:  cmp $64, %rdx
    jb 2f
    movups (%rsi), %xmm0
    movups 16(%rsi), %xmm1
    movups 32(%rsi), %xmm2
    movups 48(%rsi), %xmm3
    movups %xmm0, (%rdi)
    movups %xmm1, 16(%rdi)
    movups %xmm2, 32(%rdi)
    movups %xmm3, 48(%rdi)
    add $64, %rsi
    add $64, %rdi
    sub $64, %rdx
    jmp 1b
2:  cmp $8, %rdx
    jb 3f
    mov (%rsi), %rcx
    mov %rcx, (%rdi)
    add $8, %rsi
    add $8, %rdi
    sub $8, %rdx
    jmp 2b
3:  test %rdx, %rdx
    jz 4f
    movb (%rsi), %cl
    movb %cl, (%rdi)
    inc %rsi
    inc %rdi
    dec %rdx
    jmp 3b
4:  ret
    # Overlapping, the target behind: from the end.
5:  mov %rdi, %rax
6:  cmp $16, %rdx
    jb 7f
    movups -16(%rsi, %rdx), %xmm0
    movups %xmm0, -16(%rdi, %rdx)
    sub $16, %rdx
    jmp 6b
7:  test %rdx, %rdx
    jz 4b
    movb -1(%rsi, %rdx), %cl
    movb %cl, -1(%rdi, %rdx)
    dec %rdx
    jmp 7b

    .balign 16
memset:
    mov %rdi, %rax
    movzbl %sil, %esi
    mov $0x0101010101010101, %rcx
    imul %rsi, %rcx
    movq %rcx, %xmm0
    punpcklqdq %xmm0, %xmm0
1:  cmp $64, %rdx
    jb 2f
    movups %xmm0, (%rdi)
    movups %xmm0, 16(%rdi)
    movups %xmm0, 32(%rdi)
    movups %xmm0, 48(%rdi)
    add $64, %rdi
    sub $64, %rdx
    jmp 1b
2:  test %rdx, %rdx
    jz 3f
    movb %cl, (%rdi)
    inc %rdi
    dec %rdx
    jmp 2b
3:  ret

    .balign 16
bcmp:
memcmp:
    xor %eax, %eax
1:  cmp $8, %rdx
    jb 2f
    mov (%rdi), %rcx
    cmp (%rsi), %rcx
    jne 2f
    add $8, %rdi
    add $8, %rsi
    sub $8, %rdx
    jmp 1b
2:  test %rdx, %rdx
    jz 3f
    movzbl (%rdi), %eax
    movzbl (%rsi), %ecx
    sub %ecx, %eax
    jnz 3f
    inc %rdi
    inc %rsi
    dec %rdx
    jmp 2b
3:  ret

    .balign 16
strlen:
    mov %rdi, %rax
1:  cmpb $0, (%rax)
    je 2f
    inc %rax
    jmp 1b
2:  sub %rdi, %rax
    ret

    # Panics abort, so nothing ever unwinds; the precompiled core library names these all the same.
    .globl rust_eh_personality, _Unwind_Resume
rust_eh_personality:
_Unwind_Resume:
    ud2
    .text
"#,
    options(att_syntax)
);
