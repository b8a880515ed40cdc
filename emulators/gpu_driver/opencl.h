// SPDX-License-Identifier: Apache-2.0
// What carries out an emulated GPU's work: the first OpenCL device with shared virtual memory, such as PoCL's.
// Everything here is done at once and in order; when it is done is the emulated stream's matter.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace emulator {

// An argument of a launch: an address, or 64 bits.
struct Argument {
  bool address;
  uint64_t bits;
};

struct Program;

// False where there is no OpenCL device; the emulated driver then has no device either.
bool available();
uint64_t memory_bytes();
std::string device_name();

constexpr size_t kAlignment = 256;  // of allocations, as the vendors promise
void* allocate(size_t bytes);       // null: there is no room
void release(void* memory);
// Builds OpenCL C with one kernel. Null, with the compiler's words in `log`, if it is wrong.
std::shared_ptr<Program> build(const std::string& text, const std::string& kernel, std::string& log);
// Runs a grid of groups and waits. False if OpenCL refuses it.
bool run(const Program& program, size_t groups, size_t threads, const std::vector<Argument>& arguments);

}  // namespace emulator
