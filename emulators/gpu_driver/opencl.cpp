// SPDX-License-Identifier: Apache-2.0
#include "opencl.h"

#include <dlfcn.h>

#include <cstdint>
#include <cstdlib>
#include <mutex>

namespace emulator {

struct Program {
  void *program = nullptr, *kernel = nullptr;
};

namespace {

// Functions of libOpenCL.so.1 by their names; handles are pointers, statuses int.
void* symbol(const char* name) {
  static void* const library = [] {
    const char* chosen = std::getenv("TRANSOM_OPENCL_LIBRARY");
    return dlopen(chosen && *chosen ? chosen : "libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL);
  }();
  return library ? dlsym(library, name) : nullptr;
}
template <typename Result, typename... Arguments>
Result call(const char* name, Arguments... arguments) {
  return reinterpret_cast<Result (*)(Arguments...)>(symbol(name))(arguments...);
}

struct Device {
  void *device = nullptr, *context = nullptr, *queue = nullptr;
  std::mutex mutex;  // a kernel's arguments are its own until it is enqueued

  Device() {
    if (!symbol("clSVMAlloc")) return;
    unsigned count = 0;
    void* platforms[16];
    if (call<int>("clGetPlatformIDs", 16u, &platforms[0], &count) != 0) return;
    for (unsigned i = 0; i < count && i < 16 && !device; ++i) {
      void* found = nullptr;
      unsigned devices = 0;
      uint64_t svm = 0;
      constexpr uint64_t kAll = 0xFFFFFFFF;
      if (call<int>("clGetDeviceIDs", platforms[i], kAll, 1u, &found, &devices) != 0) continue;
      constexpr unsigned kSvm = 0x1053;
      call<int>("clGetDeviceInfo", found, kSvm, sizeof svm, static_cast<void*>(&svm), static_cast<size_t*>(nullptr));
      if (svm & 1) device = found;
    }
    if (!device) return;
    int status = 0;
    context =
        call<void*>("clCreateContext", nullptr, 1u, static_cast<void* const*>(&device), nullptr, nullptr, &status);
    queue = call<void*>("clCreateCommandQueueWithProperties", context, device, nullptr, &status);
    if (!queue) device = nullptr;
  }
};

Device& the_device() {
  static Device& device = *new Device;  // never closed: drivers may be gone at the end of the process
  return device;
}

}  // namespace

bool available() { return the_device().device != nullptr; }

uint64_t memory_bytes() {
  uint64_t bytes = 0;
  constexpr unsigned kGlobalMemory = 0x101F;
  call<int>("clGetDeviceInfo", the_device().device, kGlobalMemory, sizeof bytes, static_cast<void*>(&bytes),
            static_cast<size_t*>(nullptr));
  return bytes;
}

std::string device_name() {
  char name[128] = "";
  constexpr unsigned kName = 0x102B;
  call<int>("clGetDeviceInfo", the_device().device, kName, sizeof name - 1, static_cast<void*>(name),
            static_cast<size_t*>(nullptr));
  return name;
}

// OpenCL aligns to the largest of its vectors at most: more is asked for, and what it gave stands before the memory.
void* allocate(size_t bytes) {
  constexpr uint64_t kReadWrite = 1;
  if (bytes > SIZE_MAX - 2 * kAlignment) return nullptr;
  void* const given = call<void*>("clSVMAlloc", the_device().context, kReadWrite, bytes + 2 * kAlignment, 128u);
  if (!given) return nullptr;
  const auto place = (reinterpret_cast<uintptr_t>(given) / kAlignment + 2) * kAlignment;
  auto* const memory = reinterpret_cast<void**>(place);
  memory[-1] = given;
  return memory;
}

void release(void* memory) { call<void>("clSVMFree", the_device().context, static_cast<void**>(memory)[-1]); }

std::shared_ptr<Program> build(const std::string& text, const std::string& kernel, std::string& log) {
  Device& one = the_device();
  const char* source = text.c_str();
  const size_t size = text.size();
  int status = 0;
  auto made = std::make_shared<Program>();
  made->program = call<void*>("clCreateProgramWithSource", one.context, 1u, &source, &size, &status);
  const char* options = "-cl-std=CL1.2 -cl-fp32-correctly-rounded-divide-sqrt";
  status =
      call<int>("clBuildProgram", made->program, 1u, static_cast<void* const*>(&one.device), options, nullptr, nullptr);
  if (status == 0) made->kernel = call<void*>("clCreateKernel", made->program, kernel.c_str(), &status);
  if (made->kernel) return made;
  char words[4096] = "";
  constexpr unsigned kBuildLog = 0x1183;
  call<int>("clGetProgramBuildInfo", made->program, one.device, kBuildLog, sizeof words - 1, static_cast<void*>(words),
            static_cast<size_t*>(nullptr));
  log = words;
  return nullptr;
}

bool run(const Program& program, size_t groups, size_t threads, const std::vector<Argument>& arguments) {
  Device& one = the_device();
  const std::lock_guard lock(one.mutex);
  unsigned index = 0;
  for (const Argument& argument : arguments) {
    const int status = argument.address ? call<int>("clSetKernelArgSVMPointer", program.kernel, index,
                                                    reinterpret_cast<const void*>(argument.bits))
                                        : call<int>("clSetKernelArg", program.kernel, index, sizeof(uint64_t),
                                                    static_cast<const void*>(&argument.bits));
    if (status != 0) return false;
    ++index;
  }
  const size_t global = groups * threads;
  const size_t* const none = nullptr;
  if (call<int>("clEnqueueNDRangeKernel", one.queue, program.kernel, 1u, none, &global, &threads, 0u, nullptr,
                nullptr) != 0)
    return false;
  return call<int>("clFinish", one.queue) == 0;
}

}  // namespace emulator
