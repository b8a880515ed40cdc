// SPDX-License-Identifier: Apache-2.0
// The functions of libOpenCL.so.1 that the GPU backend calls, over one device. Work is done when it is enqueued.
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "access_checker.h"
#include "processor.h"

#define EXPORTED extern "C" __attribute__((visibility("default")))

namespace {

using Handle = void*;
constexpr int kSuccess = 0, kAllocationFailed = -4, kBuildFailed = -11, kInvalidValue = -30, kInvalidArguments = -52;
constexpr const char* kName = "emulated OpenCL device of the processor (tcc)";
constexpr size_t kLargest = size_t{8} << 30;

struct Program {
  std::string text, log;
  std::shared_ptr<emulator::Kernel> kernel;
};
struct BoundKernel {
  std::shared_ptr<emulator::Kernel> kernel;
  std::vector<uint64_t> arguments;
};
struct Event {
  uint64_t end;
};

char nothing;  // what handles of things without state point to
std::mutex objects_mutex;
std::map<void*, size_t> objects;  // memory objects: their handle is their memory

uint64_t now() { return static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count()); }
int answer(const void* value, size_t bytes, size_t room, void* to, size_t* used) {
  if (used) *used = bytes;
  if (!to) return kSuccess;
  if (room < bytes) return kInvalidValue;
  std::memcpy(to, value, bytes);
  return kSuccess;
}
int answer(const char* text, size_t room, void* to, size_t* used) {
  return answer(text, std::strlen(text) + 1, room, to, used);
}
template <typename T>
int number(T value, size_t room, void* to, size_t* used) {
  return answer(&value, sizeof value, room, to, used);
}
void give(Handle* event) {
  if (event) *event = new Event{now()};
}
void* filled(size_t bytes) {
  void* memory = bytes <= kLargest ? std::aligned_alloc(256, (bytes + 255) / 256 * 256) : nullptr;
  if (!memory) return nullptr;
  std::memset(memory, 0xFF, bytes);  // as the emulated drivers do: nobody may count on zeros
  emulator::memory_is_given_out(memory, bytes);
  return memory;
}
void release(void* memory) {
  emulator::memory_is_taken_back(memory);
  std::free(memory);
}
char* at(Handle memory, size_t offset) { return static_cast<char*>(memory) + offset; }

}  // namespace

EXPORTED int clGetPlatformIDs(unsigned, Handle* platform, unsigned* count) {
  if (platform) *platform = &nothing;
  if (count) *count = 1;
  return kSuccess;
}
EXPORTED int clGetPlatformInfo(Handle, unsigned, size_t room, void* to, size_t* used) {
  return answer("Transom's emulator", room, to, used);
}
EXPORTED int clGetDeviceIDs(Handle, uint64_t, unsigned, Handle* device, unsigned* count) {
  if (device) *device = &nothing;
  if (count) *count = 1;
  return kSuccess;
}
EXPORTED int clGetDeviceInfo(Handle, unsigned key, size_t room, void* to, size_t* used) {
  switch (key) {
    case 0x1000:
      return number<uint64_t>(2, room, to, used);  // a processor
    case 0x1002:
      return number<uint32_t>(1, room, to, used);
    case 0x1004:
      return number<size_t>(4096, room, to, used);
    case 0x1010:
    case 0x101F:
      return number<uint64_t>(kLargest, room, to, used);
    case 0x1017:
      return number<size_t>(1024, room, to, used);
    case 0x101B:
      return number<uint64_t>(0xBF, room, to, used);  // divisions and roots are rounded correctly
    case 0x1023:
      return number<uint64_t>(48 << 10, room, to, used);
    case 0x1030:
      return answer("cl_khr_fp64", room, to, used);
    case 0x1035:
      return number<uint32_t>(1, room, to, used);  // its memory is the host's
    case 0x1053:
      return number<uint64_t>(1, room, to, used);  // coarse-grained shared memory
    case 0x102B:
      return answer(kName, room, to, used);
    default:
      return answer("1.0", room, to, used);
  }
}
EXPORTED Handle clCreateContext(const intptr_t*, unsigned, const Handle*, Handle, Handle, int* status) {
  if (status) *status = kSuccess;
  return &nothing;
}
EXPORTED int clReleaseContext(Handle) { return kSuccess; }
EXPORTED Handle clCreateCommandQueueWithProperties(Handle, Handle, const uint64_t*, int* status) {
  if (status) *status = kSuccess;
  return &nothing;
}
EXPORTED int clReleaseCommandQueue(Handle) { return kSuccess; }

// ---- memory

EXPORTED void* clSVMAlloc(Handle, uint64_t, size_t bytes, unsigned) { return filled(bytes); }
EXPORTED void clSVMFree(Handle, void* memory) { release(memory); }
EXPORTED int clEnqueueSVMMemcpy(Handle, unsigned, void* to, const void* from, size_t bytes, unsigned, const Handle*,
                                Handle* event) {
  std::memmove(to, from, bytes);
  give(event);
  return kSuccess;
}
EXPORTED Handle clCreateBuffer(Handle, uint64_t, size_t bytes, void*, int* status) {
  void* memory = filled(bytes);
  *status = memory ? kSuccess : kAllocationFailed;
  const std::lock_guard lock(objects_mutex);
  if (memory) objects[memory] = bytes;
  return memory;
}
EXPORTED int clReleaseMemObject(Handle memory) {
  const std::lock_guard lock(objects_mutex);
  objects.erase(memory);
  release(memory);
  return kSuccess;
}
EXPORTED int clEnqueueWriteBuffer(Handle, Handle to, unsigned, size_t offset, size_t bytes, const void* from, unsigned,
                                  const Handle*, Handle* event) {
  std::memcpy(at(to, offset), from, bytes);
  give(event);
  return kSuccess;
}
EXPORTED int clEnqueueReadBuffer(Handle, Handle from, unsigned, size_t offset, size_t bytes, void* to, unsigned,
                                 const Handle*, Handle* event) {
  std::memcpy(to, at(from, offset), bytes);
  give(event);
  return kSuccess;
}
EXPORTED int clEnqueueCopyBuffer(Handle, Handle from, Handle to, size_t offset, size_t to_offset, size_t bytes,
                                 unsigned, const Handle*, Handle* event) {
  std::memmove(at(to, to_offset), at(from, offset), bytes);
  give(event);
  return kSuccess;
}

// ---- programs

EXPORTED Handle clCreateProgramWithSource(Handle, unsigned count, const char** texts, const size_t* sizes,
                                          int* status) {
  auto program = std::make_unique<Program>();
  for (unsigned i = 0; i < count; ++i)
    program->text += sizes && sizes[i] ? std::string(texts[i], sizes[i]) : std::string(texts[i]);
  *status = kSuccess;
  return program.release();
}
// The binary of a program is its text.
EXPORTED Handle clCreateProgramWithBinary(Handle context, unsigned count, const Handle*, const size_t* sizes,
                                          const unsigned char** codes, int* of_binary, int* status) {
  if (of_binary) *of_binary = kSuccess;
  const char* text = reinterpret_cast<const char*>(codes[0]);
  return clCreateProgramWithSource(context, count, &text, sizes, status);
}
// Compiles the kernel of the text, of which there is one, so that errors show here.
EXPORTED int clBuildProgram(Handle program, unsigned, const Handle*, const char*, Handle, void*) {
  auto& mine = *static_cast<Program*>(program);
  try {
    mine.kernel = std::make_shared<emulator::Kernel>(mine.text);
    return kSuccess;
  } catch (const std::exception& error) {
    mine.log = error.what();
    return kBuildFailed;
  }
}
EXPORTED int clGetProgramBuildInfo(Handle program, Handle, unsigned, size_t room, void* to, size_t* used) {
  return answer(static_cast<Program*>(program)->log.c_str(), room, to, used);
}
EXPORTED int clGetProgramInfo(Handle program, unsigned key, size_t room, void* to, size_t* used) {
  constexpr unsigned kBinarySizes = 0x1165, kBinaries = 0x1166;
  const std::string& text = static_cast<Program*>(program)->text;
  if (key == kBinarySizes) return number<size_t>(text.size(), room, to, used);
  if (key != kBinaries || room < sizeof(char*)) return kInvalidValue;
  std::memcpy(*static_cast<char**>(to), text.data(), text.size());
  return kSuccess;
}
EXPORTED int clReleaseProgram(Handle program) {
  delete static_cast<Program*>(program);
  return kSuccess;
}
EXPORTED Handle clCreateKernel(Handle program, const char* name, int* status) {
  constexpr int kInvalidName = -46, kInvalidProgram = -45;
  const auto& mine = *static_cast<Program*>(program);
  *status = !mine.kernel ? kInvalidProgram : mine.kernel->name() != name ? kInvalidName : kSuccess;
  if (*status != kSuccess) return nullptr;
  return new BoundKernel{mine.kernel, std::vector<uint64_t>(mine.kernel->argument_count())};
}
EXPORTED int clReleaseKernel(Handle kernel) {
  delete static_cast<BoundKernel*>(kernel);
  return kSuccess;
}
EXPORTED int clSetKernelArg(Handle kernel, unsigned index, size_t bytes, const void* value) {
  auto& arguments = static_cast<BoundKernel*>(kernel)->arguments;
  if (index >= arguments.size() || bytes != sizeof(uint64_t)) return kInvalidArguments;
  std::memcpy(&arguments[index], value, bytes);
  return kSuccess;
}
EXPORTED int clSetKernelArgSVMPointer(Handle kernel, unsigned index, const void* value) {
  return clSetKernelArg(kernel, index, sizeof value, &value);
}
EXPORTED int clEnqueueNDRangeKernel(Handle, Handle kernel, unsigned, const size_t*, const size_t* global,
                                    const size_t* local, unsigned, const Handle*, Handle* event) {
  const auto& mine = *static_cast<BoundKernel*>(kernel);
  if (!local || *local == 0 || *global % *local != 0) return kInvalidValue;
  try {
    mine.kernel->run(*global / *local, *local, mine.arguments);
  } catch (const std::exception& error) {
    if (emulator::checks_accesses())
      std::fprintf(stderr, "emulated OpenCL: kernel %s: %s\n", mine.kernel->name().c_str(), error.what());
    constexpr int kOutOfResources = -5;  // what drivers answer when a kernel breaks off
    return kOutOfResources;
  }
  give(event);
  return kSuccess;
}

// ---- events

EXPORTED int clEnqueueMarkerWithWaitList(Handle, unsigned, const Handle*, Handle* event) {
  give(event);
  return kSuccess;
}
EXPORTED int clEnqueueBarrierWithWaitList(Handle, unsigned, const Handle*, Handle* event) {
  give(event);
  return kSuccess;
}
EXPORTED int clGetEventInfo(Handle, unsigned, size_t room, void* to, size_t* used) {
  return number<int>(0, room, to, used);  // complete
}
EXPORTED int clGetEventProfilingInfo(Handle event, unsigned, size_t room, void* to, size_t* used) {
  return number<uint64_t>(static_cast<Event*>(event)->end, room, to, used);
}
EXPORTED int clWaitForEvents(unsigned, const Handle*) { return kSuccess; }
EXPORTED int clReleaseEvent(Handle event) {
  delete static_cast<Event*>(event);
  return kSuccess;
}
EXPORTED int clFlush(Handle) { return kSuccess; }
EXPORTED int clFinish(Handle) { return kSuccess; }
