// SPDX-License-Identifier: Apache-2.0
// What the GPU backend needs of a vendor's runtime: devices, memory, queues, kernels made from text. One file a vendor
// fills it in (api_opencl.cpp, api_cuda.cpp, api_rocm.cpp); everything else of backends/gpu is the same for all.
//
// Failures are thrown as backend::Failure with the status of the plugin interface. Functions may be called from any
// thread, those of one queue by one thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "transom/plugin/error.h"

namespace transom::gpu {

using backend::fail;

// The language of the kernel text, see source/prelude.h. kOpenCLObjects: kernels take a memory object and an offset in
// the place of an address.
enum class Dialect { kOpenCL, kOpenCLObjects, kCuda, kHip };

// What `transom devices` prints, and what lowering must know.
struct Facts {
  std::string name, architecture, driver;
  uint64_t memory_bytes = 0;    // 0: not known
  uint64_t largest_buffer = 0;  // bytes of one allocation; 0: as much as there is
  uint32_t compute_units = 0;
  uint32_t fast_dtypes = 0;  // as transom_device_properties
  uint32_t wave = 1;         // threads that exchange registers; 1: none do
  uint64_t argument_bytes = 1024;
  uint64_t group_memory = 48 << 10;  // bytes that a kernel may declare
  bool float64 = true;
  bool host_memory = false;  // its memory is the host's, as that of processors and of graphics inside of them
  bool emulated = false;
};

// A kernel that can be launched. It lives as long as its context.
class Kernel {
 public:
  virtual ~Kernel() = default;
};

// One launch: a grid of `groups` groups of kGroup threads each. Arguments are the addresses first, then the numbers, in
// the order of the kernel's parameters.
inline constexpr uint32_t kGroup = 256;
struct LaunchArguments {
  const void* const* addresses;
  size_t address_count;
  const int64_t* numbers;
  size_t number_count;
};

class Event {
 public:
  virtual ~Event() = default;
};

// Recorded launches with fixed addresses.
class Graph {
 public:
  virtual ~Graph() = default;
};

// Work in order. Destroying a queue waits for its work.
class Queue {
 public:
  virtual ~Queue() = default;
  virtual void launch(const Kernel& kernel, uint64_t groups, const LaunchArguments& arguments) = 0;
  // The host's memory stays as it is until the queue has passed the copy.
  virtual void copy_to_device(void* to, const void* from, size_t bytes) = 0;
  virtual void copy_to_host(void* to, const void* from, size_t bytes) = 0;
  virtual void copy_on_device(void* to, const void* from, size_t bytes) = 0;
  virtual void flush() {}  // begins the work, without waiting for it
  virtual void synchronize() = 0;
  virtual void record(Event& event) = 0;
  virtual void wait(Event& event) = 0;
  // Where Runtime::records(): launches and copies between begin and end are recorded, not run.
  virtual void capture_begin() { fail(TRANSOM_UNSUPPORTED, "this runtime records no launches"); }
  virtual std::unique_ptr<Graph> capture_end() { fail(TRANSOM_UNSUPPORTED, "this runtime records no launches"); }
  virtual void replay(Graph&) { fail(TRANSOM_UNSUPPORTED, "this runtime records no launches"); }
};

// An opened device.
class Context {
 public:
  virtual ~Context() = default;
  virtual const Facts& facts() const = 0;
  virtual Dialect dialect() const = 0;

  // At a multiple of 256 bytes; throws TRANSOM_OUT_OF_MEMORY. `bytes` is above 0. No kernel reads memory after release.
  virtual void* allocate(size_t bytes) = 0;
  virtual void release(void* memory) = 0;
  // Host memory from which the device copies without a detour.
  virtual void* allocate_host(size_t bytes) = 0;
  virtual void release_host(void* memory) = 0;

  virtual std::unique_ptr<Queue> make_queue() = 0;
  virtual std::unique_ptr<Event> make_event() = 0;
  virtual bool passed(Event& event) = 0;
  virtual void synchronize(Event& event) = 0;
  virtual double seconds_between(Event& from, Event& to) = 0;

  // What names the compiler, the chip and the options in the key of a compiled kernel on disk.
  virtual std::string target() const = 0;
  // The device's code of a text with one kernel of the name kKernelName. Throws with the compiler's log.
  virtual std::string compile(const std::string& text) = 0;
  virtual std::unique_ptr<Kernel> load(const std::string& code) = 0;
};

// Where a library of a vendor is looked for, see SharedLibrary::open.
struct LibraryPlaces {
  std::vector<std::string> files;
  const char* variable = nullptr;  // of the environment
  std::string cure;
};

inline constexpr const char* kKernelName = "transom_kernel";

// A vendor's runtime. Its library is opened at the first call and stays open.
class Runtime {
 public:
  virtual ~Runtime() = default;
  virtual const char* name() const = 0;  // "opencl", "cuda", "rocm": the word after --device
  virtual uint32_t priority() const = 0;
  virtual bool records() const { return false; }  // whether its queues can capture
  // Throws TRANSOM_UNAVAILABLE with what was looked for and where.
  virtual uint32_t device_count() = 0;
  virtual Facts facts(uint32_t index) = 0;
  virtual std::unique_ptr<Context> open(uint32_t index) = 0;
  // Its library of collectives, and the functions of the table that use it; null, and none, where it has no such.
  virtual const LibraryPlaces* collectives() const { return nullptr; }
  virtual void add_collectives(transom_plugin&) const {}
};

// Of the plugin that this is linked into; defined by the vendor's file.
Runtime& runtime();

}  // namespace transom::gpu
