/* jumps.h: functions that jump through a slot, whatever their parameters are. A slot leads at first to code that passes the
 * function's number to tm_bind. This calls tm_resolve and jumps to where the function leads now, with all arguments as
 * they were. Functions of MPI have no arguments in vector registers. */
#ifndef TM_JUMPS_H
#define TM_JUMPS_H

#define TM_JUMP(function, number) TM_JUMP_AT(function, number)

#if defined(__x86_64__)

#define TM_JUMP_AT(function, number)                                                            \
  __asm__(".text\n.p2align 4\n.globl " #function "\n.type " #function ", @function\n" #function \
          ":\n  endbr64\n  jmp *tm_slots+8*" #number                                            \
          "(%rip)\n"                                                                            \
          "1: endbr64\n  pushq $" #number "\n  jmp tm_bind\n.size " #function ", .-" #function  \
          "\n"                                                                                  \
          ".section .data.rel.local.tm_slots, \"aw\"\n  .quad 1b\n.text\n");
/* The number is on the stack, which is aligned to 16 bytes after it. */
__asm__(
    ".section .data.rel.local.tm_slots, \"aw\"\n.p2align 3\n.hidden tm_slots\n.globl tm_slots\ntm_slots:\n"
    ".text\ntm_bind:\n"
    "  push %rdi\n  push %rsi\n  push %rdx\n  push %rcx\n  push %r8\n  push %r9\n  push %rax\n  sub $8, %rsp\n"
    "  mov 64(%rsp), %rdi\n  call tm_resolve\n  mov %rax, %r11\n"
    "  add $8, %rsp\n  pop %rax\n  pop %r9\n  pop %r8\n  pop %rcx\n  pop %rdx\n  pop %rsi\n  pop %rdi\n"
    "  add $8, %rsp\n  jmp *%r11\n");

#elif defined(__aarch64__)

#define TM_JUMP_AT(function, number)                                                             \
  __asm__(".text\n.p2align 4\n.globl " #function "\n.type " #function ", %function\n" #function  \
          ":\n  hint #34\n  adrp x16, tm_slots+8*" #number                                       \
          "\n"                                                                                   \
          "  ldr x16, [x16, #:lo12:tm_slots+8*" #number                                          \
          "]\n  br x16\n"                                                                        \
          "1: hint #36\n  mov x17, #" #number "\n  b tm_bind\n.size " #function ", .-" #function \
          "\n"                                                                                   \
          ".section .data.rel.local.tm_slots, \"aw\"\n  .xword 1b\n.text\n");
__asm__(
    ".section .data.rel.local.tm_slots, \"aw\"\n.p2align 3\n.hidden tm_slots\n.globl tm_slots\ntm_slots:\n"
    ".text\ntm_bind:\n"
    "  stp x29, x30, [sp, #-96]!\n  mov x29, sp\n"
    "  stp x0, x1, [sp, #16]\n  stp x2, x3, [sp, #32]\n  stp x4, x5, [sp, #48]\n  stp x6, x7, [sp, #64]\n"
    "  str x8, [sp, #80]\n  mov x0, x17\n  bl tm_resolve\n  mov x16, x0\n"
    "  ldp x0, x1, [sp, #16]\n  ldp x2, x3, [sp, #32]\n  ldp x4, x5, [sp, #48]\n  ldp x6, x7, [sp, #64]\n"
    "  ldr x8, [sp, #80]\n  ldp x29, x30, [sp], #96\n  br x16\n");

#else
#error "jumps.h: no jumps for this processor; build without libtutti_mpi.so, and preload the door of the MPI"
#endif

#endif
