// SPDX-License-Identifier: Apache-2.0
// NVIDIA's driver interface and AMD's HIP have the same shape under other names. This is that shape: a table of
// functions, and the Context that is made of them. api_cuda.cpp and api_rocm.cpp fill the table in.
//
// The functions are declared here with plain types (handles and device addresses are pointers, statuses int), which is
// what the vendors' own types are on every platform that they support; so no header of theirs is needed.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "gpu/api/api.h"
#include "gpu/api/shared_library.h"

namespace transom::gpu {

// clang-format off
// Name here, name of CUDA (behind "cu"), name of HIP (behind "hip"), parameters. All return a status, 0 for success.
#define TRANSOM_DRIVER_FUNCTIONS(X) \
  X(init, "Init", "Init", (unsigned)) \
  X(driver_version, "DriverGetVersion", "RuntimeGetVersion", (int*)) \
  X(device_count, "DeviceGetCount", "GetDeviceCount", (int*)) \
  X(device_get, "DeviceGet", "DeviceGet", (int*, int)) \
  X(device_name, "DeviceGetName", "DeviceGetName", (char*, int, int)) \
  X(device_memory, "DeviceTotalMem_v2", "DeviceTotalMem", (size_t*, int)) \
  X(device_attribute, "DeviceGetAttribute", "DeviceGetAttribute", (int*, int, int)) \
  X(allocate, "MemAlloc_v2", "Malloc", (void**, size_t)) \
  X(release, "MemFree_v2", "Free", (void*)) \
  X(allocate_host, "MemHostAlloc", "HostMalloc", (void**, size_t, unsigned)) \
  X(release_host, "MemFreeHost", "HostFree", (void*)) \
  X(to_device, "MemcpyHtoDAsync_v2", "MemcpyHtoDAsync", (void*, const void*, size_t, void*)) \
  X(to_host, "MemcpyDtoHAsync_v2", "MemcpyDtoHAsync", (void*, void*, size_t, void*)) \
  X(on_device, "MemcpyDtoDAsync_v2", "MemcpyDtoDAsync", (void*, void*, size_t, void*)) \
  X(stream_create, "StreamCreate", "StreamCreateWithFlags", (void**, unsigned)) \
  X(stream_destroy, "StreamDestroy_v2", "StreamDestroy", (void*)) \
  X(stream_synchronize, "StreamSynchronize", "StreamSynchronize", (void*)) \
  X(stream_wait, "StreamWaitEvent", "StreamWaitEvent", (void*, void*, unsigned)) \
  X(event_create, "EventCreate", "EventCreateWithFlags", (void**, unsigned)) \
  X(event_destroy, "EventDestroy_v2", "EventDestroy", (void*)) \
  X(event_record, "EventRecord", "EventRecord", (void*, void*)) \
  X(event_query, "EventQuery", "EventQuery", (void*)) \
  X(event_synchronize, "EventSynchronize", "EventSynchronize", (void*)) \
  X(event_elapsed, "EventElapsedTime", "EventElapsedTime", (float*, void*, void*)) \
  X(module_load, "ModuleLoadData", "ModuleLoadData", (void**, const void*)) \
  X(module_unload, "ModuleUnload", "ModuleUnload", (void*)) \
  X(module_function, "ModuleGetFunction", "ModuleGetFunction", (void**, void*, const char*)) \
  X(launch, "LaunchKernel", "ModuleLaunchKernel", \
    (void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*, void**, void**)) \
  X(capture_begin, "StreamBeginCapture_v2", "StreamBeginCapture", (void*, int)) \
  X(capture_end, "StreamEndCapture", "StreamEndCapture", (void*, void**)) \
  X(graph_instantiate, "GraphInstantiateWithFlags", "GraphInstantiateWithFlags", (void**, void*, unsigned long long)) \
  X(graph_destroy, "GraphDestroy", "GraphDestroy", (void*)) \
  X(graph_exec_destroy, "GraphExecDestroy", "GraphExecDestroy", (void*)) \
  X(graph_launch, "GraphLaunch", "GraphLaunch", (void*, void*))

// The compiler's functions: NVRTC (behind "nvrtc") and hipRTC (behind "hiprtc").
#define TRANSOM_COMPILER_FUNCTIONS(X) \
  X(create, "CreateProgram", "CreateProgram", (void**, const char*, const char*, int, const char* const*, const char* const*)) \
  X(destroy, "DestroyProgram", "DestroyProgram", (void**)) \
  X(compile, "CompileProgram", "CompileProgram", (void*, int, const char* const*)) \
  X(log_size, "GetProgramLogSize", "GetProgramLogSize", (void*, size_t*)) \
  X(log, "GetProgramLog", "GetProgramLog", (void*, char*)) \
  X(code_size, "GetCUBINSize", "GetCodeSize", (void*, size_t*)) \
  X(code, "GetCUBIN", "GetCode", (void*, char*)) \
  X(version, "Version", "Version", (int*, int*))
// clang-format on

struct DriverFunctions {
#define X(name, of_cuda, of_hip, parameters) int(*name) parameters = nullptr;
  TRANSOM_DRIVER_FUNCTIONS(X)
#undef X
};

struct CompilerFunctions {
#define X(name, of_cuda, of_hip, parameters) int(*name) parameters = nullptr;
  TRANSOM_COMPILER_FUNCTIONS(X)
#undef X
};

// What one vendor's file says about itself.
struct Vendor {
  const char* name;    // of the plugin
  const char* prefix;  // of status texts: "CUDA"
  Dialect dialect;
  bool cuda;  // which column of the tables
  std::vector<std::string> driver_files, compiler_files, products_files;
  const char* driver_variable;  // environment variables that name a library
  const char* compiler_variable;
  const char* products_variable;
  const char* cure;
  LibraryPlaces collectives, convolutions;                    // cuDNN computes attention as well
  int attribute_units, attribute_wave, attribute_integrated;  // numbers of device attributes
  bool (*emulated)(const SharedLibrary& driver);
};

// The opened libraries of a vendor.
class Driver {
 public:
  explicit Driver(Vendor vendor);

  // Throws a Failure unless the status is 0.
  void check(int status, const char* what) const;
  // The device is the current one of this thread. Said at each entry: other libraries of the process, and its other
  // devices, choose theirs on the same thread.
  void make_current(int device) const;
  // The same without a throw, for what ends: a lost device answers every call with its fault.
  bool made_current(int device) const noexcept;
  // Those of a list of libraries that this driver can carry: CUDA 13's neither start on an older one, nor is their code
  // loaded by it.
  std::vector<std::string> fitting(std::vector<std::string> files) const;
  Facts facts(int device) const;
  std::string compile(const std::string& text, const std::vector<std::string>& options) const;
  // "sm_90", "gfx942"
  std::string architecture(int device) const;
  std::string compiler_version() const;

  const Vendor vendor;
  DriverFunctions call;

 private:
  const CompilerFunctions& compiler() const;
  int choose(int device) const noexcept;  // gives a status
  SharedLibrary library_;
  int (*choose_)(int) = nullptr;          // HIP: a device
  int (*retain_)(void**, int) = nullptr;  // CUDA: its primary context, which libraries of the vendor use as well
  int (*set_context_)(void*) = nullptr;
  mutable std::mutex mutex_;  // held while a context is made; they are kept until the process ends
  mutable std::array<std::atomic<void*>, 64> contexts_{};
};

// The runtime of a vendor whose libraries are opened at its first use.
class DriverRuntime final : public Runtime {
 public:
  explicit DriverRuntime(Vendor vendor) : vendor_(std::move(vendor)) {}
  const char* name() const override { return vendor_.name; }
  uint32_t priority() const override { return 100; }
  bool records() const override { return true; }
  uint32_t device_count() override;
  Facts facts(uint32_t index) override;
  std::unique_ptr<Context> open(uint32_t index) override;
  const LibraryPlaces* collectives() const override { return &vendor_.collectives; }
  void add_collectives(transom_plugin& table) const override;  // in collectives/collectives.cpp

 private:
  const Driver& driver();
  Vendor vendor_;
};

// Of a context and a queue that a DriverRuntime made, for libraries of the vendor: its driver, its device as that of
// this thread, the handle of the stream.
const Driver& driver_of(Context& context);
void make_current(Context& context);
void* native_stream(Queue& queue);
// The vendor's library of convolutions; none where it is not found. Beside an emulated driver only where its variable
// names it: a real one would look for more in the driver than an emulated one has.
std::optional<SharedLibrary> library_of_convolutions(Context& context);

}  // namespace transom::gpu
