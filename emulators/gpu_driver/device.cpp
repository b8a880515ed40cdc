// SPDX-License-Identifier: Apache-2.0
#include "device.h"

#include "matrix_units.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <sstream>

namespace emulator {

thread_local Gpu* current = nullptr;
std::atomic<bool> Gpu::initialised = false;

void say(const std::string& why) {
  if (std::getenv("TRANSOM_EMULATED_GPU_LOG")) std::fprintf(stderr, "emulated GPU: %s\n", why.c_str());
}

int Gpu::count() {
  static const int devices = [] {
    const char* text = std::getenv("TRANSOM_EMULATED_GPU_DEVICES");
    return std::clamp(text ? std::atoi(text) : 1, 1, 16);
  }();
  return devices;
}

Gpu& Gpu::of(int device) {
  static Gpu* const all = new Gpu[16];  // outlives the threads that call at the end of the process
  return all[device];
}

Gpu& Gpu::get() { return current ? *current : of(0); }

int Gpu::begin(bool needs_context) {
  if (++calls >= lost_at && !lost) lose(kLaunchFailed, "as was asked for");
  if (!initialised) return kNotInitialised;
  if (lost) return lost;
  if (calls == failing_call) return failure;
  return needs_context && !current ? kInvalidContext : kSuccess;
}

bool Gpu::has(const void* memory, size_t bytes) const {
  const auto* place = static_cast<const std::byte*>(memory);
  auto after = allocations.upper_bound(place);
  if (after == allocations.begin()) return false;
  const auto& [start, size] = *std::prev(after);
  const auto offset = static_cast<size_t>(place - start);
  return offset < size && bytes <= size - offset;
}

// TRANSOM_EMULATED_GPU_MEMORY limits the memory, in MiB.
int Gpu::allocate(void** memory, size_t bytes) {
  if (bytes == 0 || !memory) return kInvalidValue;
  if (limit == 0) {
    const char* text = std::getenv("TRANSOM_EMULATED_GPU_MEMORY");
    limit = text ? std::strtoull(text, nullptr, 10) << 20 : memory_bytes();
  }
  if (bytes > limit || in_use > limit - bytes) return kOutOfMemory;
  void* made = emulator::allocate(bytes);
  if (!made) return kOutOfMemory;
  // What was never written should show.
  auto* begin = static_cast<unsigned char*>(made);
  std::fill(begin, begin + bytes, static_cast<unsigned char>(0xFF));
  allocations[static_cast<const std::byte*>(made)] = bytes;
  in_use += bytes;
  *memory = made;
  return kSuccess;
}

int Gpu::release(void* memory) {
  if (!memory) return kSuccess;
  const auto found = allocations.find(static_cast<const std::byte*>(memory));
  if (found == allocations.end()) return kInvalidValue;
  if (const int status = drain_all()) return status;  // freeing waits for the device
  in_use -= found->second;
  allocations.erase(found);
  emulator::release(memory);
  return kSuccess;
}

int Gpu::enqueue(Stream* stream, Work work) {
  if (!streams.contains(stream)) return kInvalidHandle;
  if (stream->invalidated) return kCaptureInvalidated;
  if (stream->capturing) stream->captured.push_back(std::move(work));
  else stream->queued.push_back(std::move(work));
  return kSuccess;
}

int Gpu::drain(Stream* stream, const Event* until) {
  while (!stream->queued.empty()) {
    Work work = std::move(stream->queued.front());
    stream->queued.pop_front();
    if (work.run)
      if (const int status = work.run()) return lost ? lost : lose(status, "work of a stream failed");
    if (work.marker && events.contains(work.marker)) {
      work.marker->passed = true;
      work.marker->seconds = std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
      if (work.marker == until) return kSuccess;
    }
  }
  return kSuccess;
}

int Gpu::drain_all() {
  for (Stream* stream : streams)
    if (const int status = drain(stream)) return status;
  return kSuccess;
}

// As after a fault of a kernel: every later call gives the same status.
int Gpu::lose(int status, const std::string& why) {
  if (!lost) say(why);
  lost = status;
  return status;
}

namespace {

// The macros and types whose definitions differ, as OpenCL has them.
constexpr const char* kPrelude = R"(
#pragma OPENCL FP_CONTRACT OFF
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#define KERNEL(n) __kernel __attribute__((reqd_work_group_size(n, 1, 1))) void
#define FUNCTION
#define GLOBAL __global
#define LOCAL __local
#define THREAD ((idx)get_local_id(0))
#define GROUP ((idx)get_group_id(0))
#define GROUPS ((idx)get_num_groups(0))
#define BARRIER barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE)
#define ALIGNED(n) __attribute__((aligned(n)))
#if defined(EMULATED_OPENCL)
#define VECTOR(type, place) (*(GLOBAL type*)emulated_vector((ulong)(place), sizeof(type)))
#else
#define VECTOR(type, place) (*(GLOBAL type*)(place))
#endif
typedef char i8;
typedef uchar u8;
typedef ushort u16;
typedef int i32;
typedef uint u32;
typedef long i64;
typedef ulong u64;
)";

}  // namespace

std::string translated(const std::string& text, std::string& log) {
  // What stands before the type of indices is the dialect's; which type that is, is the kernel's own.
  const size_t idx = text.find(" idx;\n"), begin = idx == text.npos ? 0 : text.rfind('\n', idx) + 1;
  size_t macros = 0;
  for (size_t at = text.find("#define "); at < begin; at = text.find("#define ", at + 1)) ++macros;
  if (macros < 8) {
    log = "expected a text that begins with the macros of its dialect";
    return "";
  }
  return kPrelude + matrix_instructions() + text.substr(begin);
}

bool read_signature(const std::string& text, const std::string& kernel, Function& function) {
  const size_t end_of_name = text.find(" " + kernel + "(");
  const size_t begin = text.rfind("KERNEL(", end_of_name);
  if (end_of_name == text.npos || begin == text.npos) return false;
  function.threads = std::strtoull(text.c_str() + begin + 7, nullptr, 10);
  const size_t open = text.find('(', end_of_name), close = text.find(')', open);
  if (close == text.npos) return false;
  std::istringstream parameters(text.substr(open + 1, close - open - 1));
  std::string parameter;
  while (std::getline(parameters, parameter, ',')) function.addresses.push_back(parameter.find('*') != parameter.npos);
  return function.threads > 0;
}

}  // namespace emulator
