// SPDX-License-Identifier: Apache-2.0
// The state of an emulated GPU and the rules of its driver's interface, which CUDA's driver and HIP share. Work is done
// as late as the rules allow: when somebody waits for it. So memory that is freed, or read on the host, before its
// stream has passed shows.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "opencl.h"

namespace emulator {

// Numbers that CUresult and hipError_t have in common.
enum Status {
  kSuccess = 0,
  kInvalidValue = 1,
  kOutOfMemory = 2,
  kNotInitialised = 3,
  kNoDevice = 100,
  kInvalidDevice = 101,
  kInvalidImage = 200,
  kInvalidContext = 201,
  kInvalidHandle = 400,
  kNotFound = 500,
  kNotReady = 600,
  kIllegalAddress = 700,
  kLaunchFailed = 719,
  kCaptureUnsupported = 900,
  kCaptureInvalidated = 901,
  kCaptureUnmatched = 903
};

struct Work {
  std::function<int()> run;  // gives a status
  struct Event* marker = nullptr;
};

struct Stream {
  std::deque<Work> queued;
  bool capturing = false;
  bool invalidated = false;
  std::vector<Work> captured;
};

struct Event {
  bool recorded = false, passed = true;
  bool captured = false;
  Stream* stream = nullptr;
  double seconds = 0;
};

struct Graph {
  std::vector<Work> work;
};

struct Function {
  std::shared_ptr<Program> program;
  std::vector<bool> addresses;  // of the parameters: an address, or 64 bits
  size_t threads = 0;           // of a group, as __launch_bounds__ says
};
struct Module {
  Function function;
};

class Gpu {
 public:
  // The device of this thread; the first, where none was chosen.
  static Gpu& get();
  static Gpu& of(int device);  // below count()
  static int count();          // TRANSOM_EMULATED_GPU_DEVICES; 1 without it

  std::recursive_mutex mutex;
  static std::atomic<bool> initialised;
  uint64_t calls = 0;
  uint64_t lost_at = UINT64_MAX;  // the call at which the device is lost, as after a fault of its hardware

  uint64_t failing_call = 0;  // the call that fails once, with failure
  int failure = 0;

  // The status with which every call begins: of a device that is not started, or lost. `needs_context`: whether a
  // device must be current on this thread.
  int begin(bool needs_context = true);
  bool has(const void* memory, size_t bytes) const;  // inside of one live allocation

  int allocate(void** memory, size_t bytes);
  int release(void* memory);
  int enqueue(Stream* stream, Work work);
  int drain(Stream* stream, const Event* until = nullptr);
  int drain_all();
  int lose(int status, const std::string& why);

  std::map<const std::byte*, size_t> allocations;
  std::set<void*> host_allocations;
  std::set<Stream*> streams;
  std::set<Event*> events;
  std::set<Module*> modules;
  std::set<Graph*> graphs, executables;
  uint64_t in_use = 0, limit = 0;
  int lost = 0;
};

extern thread_local Gpu* current;  // the device of this thread; null: none was chosen

// To standard error, where TRANSOM_EMULATED_GPU_LOG is set.
void say(const std::string& why);

// The OpenCL text of CUDA's or HIP's: the same but for the macros before the kernel. Empty, and a line in `log`, if it
// is not such a text.
std::string translated(const std::string& text, std::string& log);
// Reads the parameters of the kernel and the size of its groups.
bool read_signature(const std::string& text, const std::string& kernel, Function& function);

}  // namespace emulator
