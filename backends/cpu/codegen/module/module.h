// SPDX-License-Identifier: Apache-2.0
// The C interface of libtransom_cpu_codegen.so, the only part of the cpu device that knows LLVM. It is opened when the
// first kernel has to be compiled; kernels of the cache need nothing of it.
#pragma once

#include <stddef.h>

extern "C" {

struct transom_codegen_result {
  // Called at most once each, with memory that is valid during the call.
  void* user;
  // Position-independent machine code without anything to relocate; `entry` is the offset of the kernel in it.
  void (*code)(void* user, const void* bytes, size_t count, size_t entry);
  void (*assembly)(void* user, const char* text, size_t count);  // may be null: is not wanted
};

// Compiles a module of LLVM IR text that defines `kernel` for the processor that this runs on. Any thread may call it.
// Returns 0, or writes one line into `error`.
typedef int (*transom_codegen_compile_function)(const char* text, size_t count, const transom_codegen_result* result,
                                                char* error, size_t error_size);
}

#define TRANSOM_CODEGEN_SYMBOL "transom_codegen_compile"
