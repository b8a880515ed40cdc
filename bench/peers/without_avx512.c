// SPDX-License-Identifier: Apache-2.0
// Makes a processor look like one with AVX2 alone to every program that loads this library, whatever asks it and how:
//   cc -shared -fPIC -O2 bench/peers/without_avx512.c -o without_avx512.so
//   LD_PRELOAD=$PWD/without_avx512.so peers/bin/python bench/peers/race.py ...
// Variables that bound an instruction set (ONEDNN_MAX_CPU_ISA and its like) reach some of a peer's loops only. Here the
// instruction CPUID itself is refused (arch_prctl(2), ARCH_SET_CPUID, where processor and hypervisor allow it) and
// answered by a signal handler without AVX-512, AMX and, unless WITH_AVX_VNNI is set, AVX-VNNI. It holds for threads and, since the library is loaded
// there again, for started programs.
#define _GNU_SOURCE
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

enum { kSetCpuid = 0x1012 };  // asm/prctl.h

static long allow_cpuid(unsigned long allowed) { return syscall(SYS_arch_prctl, kSetCpuid, allowed); }

static uint32_t bits(const int* places, size_t count) {
  uint32_t all = 0;
  for (size_t i = 0; i < count; ++i) all |= 1u << places[i];
  return all;
}
#define BITS(...) bits((const int[]){__VA_ARGS__}, sizeof((const int[]){__VA_ARGS__}) / sizeof(int))

static int with_avx_vnni;

static void answer(int signal_number, siginfo_t* info, void* context) {
  (void)info;
  greg_t* registers = ((ucontext_t*)context)->uc_mcontext.gregs;
  const uint8_t* instruction = (const uint8_t*)registers[REG_RIP];
  if (instruction[0] != 0x0F || instruction[1] != 0xA2) {
    signal(signal_number, SIG_DFL);  // a fault of the program's own
    return;
  }
  const uint32_t leaf = (uint32_t)registers[REG_RAX], part = (uint32_t)registers[REG_RCX];
  uint32_t a, b, c, d;
  allow_cpuid(1);
  __asm__ volatile("cpuid" : "=a"(a), "=b"(b), "=c"(c), "=d"(d) : "a"(leaf), "c"(part));
  allow_cpuid(0);
  if (leaf == 7 && part == 0) {
    b &= ~BITS(16, 17, 21, 26, 27, 28, 30, 31);  // AVX-512 F, DQ, IFMA, PF, ER, CD, BW, VL
    c &= ~BITS(1, 6, 11, 12, 14);                // VBMI, VBMI2, VNNI, BITALG, VPOPCNTDQ
    d &= ~BITS(2, 3, 8, 22, 23, 24, 25);         // 4VNNIW, 4FMAPS, VP2INTERSECT, AMX-BF16, FP16, AMX-TILE, AMX-INT8
  } else if (leaf == 7 && part == 1) {
    a &= ~BITS(5, 21, 23);        // AVX-512 BF16, AMX-FP16, AVX-IFMA
    d &= ~BITS(4, 5, 8, 10, 19);  // AVX-VNNI-INT8, AVX-NE-CONVERT, AMX-COMPLEX, AVX-VNNI-INT16, AVX10
    if (!with_avx_vnni) a &= ~BITS(4);
  }
  registers[REG_RAX] = a, registers[REG_RBX] = b, registers[REG_RCX] = c, registers[REG_RDX] = d;
  registers[REG_RIP] += 2;
}

__attribute__((constructor(101))) static void hide(void) {
  with_avx_vnni = getenv("WITH_AVX_VNNI") != NULL;
  struct sigaction action = {0};
  action.sa_sigaction = answer;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  if (sigaction(SIGSEGV, &action, NULL) != 0 || allow_cpuid(0) != 0) {
    fputs("without_avx512: this processor or its hypervisor does not let CPUID be refused\n", stderr);
    _exit(1);
  }
}
