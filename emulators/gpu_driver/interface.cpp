// SPDX-License-Identifier: Apache-2.0
// The functions of NVIDIA's driver and NVRTC, or, with EMULATED_HIP, those of AMD's HIP and hipRTC: as far as a device
// backend without their headers calls them. Each checks its arguments and the state as the vendor documents it.
#include <algorithm>
#include <cstring>

#include "device.h"
#include "matrix_units.h"

using namespace emulator;

#define EXPORT extern "C" __attribute__((visibility("default")))
#if defined(EMULATED_HIP)
#define DRIVER(cuda, hip) EXPORT int hip
#define COMPILER(cuda, hip) EXPORT int hip
#else
#define DRIVER(cuda, hip) EXPORT int cuda
#define COMPILER(cuda, hip) EXPORT int cuda
#endif

#define ENTER(needs_context)             \
  Gpu& gpu = Gpu::get();                 \
  const std::lock_guard lock(gpu.mutex); \
  if (const int begun = gpu.begin(needs_context)) return begun

// By this a caller knows that no hardware is behind the interface.
EXPORT int transomEmulatedDriver() { return 1; }

// The device is lost after so many further calls, for ever.
EXPORT void transomEmulatedFault(uint64_t calls) {
  Gpu& gpu = Gpu::get();
  const std::lock_guard lock(gpu.mutex);
  gpu.lost_at = gpu.calls + calls;
}

// The last of so many further calls fails with the status, and does nothing; those after it are as before.
EXPORT void transomEmulatedFailure(uint64_t calls, int status) {
  Gpu& gpu = Gpu::get();
  const std::lock_guard lock(gpu.mutex);
  gpu.failing_call = gpu.calls + calls;
  gpu.failure = status;
}

namespace {

// A call that is forbidden while the stream is recorded ends the recording.
int refuse_in_capture(Stream* stream) {
  if (!stream->capturing) return kSuccess;
  stream->invalidated = true;
  return kCaptureUnsupported;
}

bool live_stream(Gpu& gpu, void* stream) { return gpu.streams.contains(static_cast<Stream*>(stream)); }
bool live_event(Gpu& gpu, void* event) { return gpu.events.contains(static_cast<Event*>(event)); }

int copy(void* stream, void* to, const void* from, size_t bytes, bool to_device, bool from_device) {
  ENTER(true);
  const auto inside = [&gpu = gpu, to, from, bytes, to_device, from_device] {
    return (!to_device || gpu.has(to, bytes)) && (!from_device || gpu.has(from, bytes));
  };
  if (bytes == 0) return kSuccess;
  if (!to || !from || !inside()) return kInvalidValue;
  return gpu.enqueue(static_cast<Stream*>(stream), {[=, &gpu = gpu]() -> int {
                       if (!inside()) return kIllegalAddress;  // freed meanwhile
                       std::memmove(to, from, bytes);
                       (void)gpu;
                       return kSuccess;
                     }});
}

}  // namespace

// ---- devices

DRIVER(cuInit, hipInit)(unsigned flags) {
  Gpu& gpu = Gpu::get();
  const std::lock_guard lock(gpu.mutex);
  if (flags) return kInvalidValue;
  if (!available()) return kNoDevice;
  gpu.initialised = true;
  return kSuccess;
}
DRIVER(cuDriverGetVersion, hipRuntimeGetVersion)(int* version) {
#if defined(EMULATED_HIP)
  *version = 60300000;
#else
  *version = 13000;
#endif
  return kSuccess;
}
DRIVER(cuDeviceGetCount, hipGetDeviceCount)(int* count) {
  ENTER(false);
  *count = Gpu::count();
  return kSuccess;
}
DRIVER(cuDeviceGet, hipDeviceGet)(int* device, int index) {
  ENTER(false);
  if (index < 0 || index >= Gpu::count()) return kInvalidDevice;
  *device = index;
  return kSuccess;
}
DRIVER(cuDeviceGetName, hipDeviceGetName)(char* name, int size, int device) {
  ENTER(false);
  if (device < 0 || device >= Gpu::count()) return kInvalidDevice;
  std::snprintf(name, static_cast<size_t>(size), "emulated GPU on %s", device_name().c_str());
  return kSuccess;
}
DRIVER(cuDeviceTotalMem_v2, hipDeviceTotalMem)(size_t* bytes, int device) {
  ENTER(false);
  if (device < 0 || device >= Gpu::count()) return kInvalidDevice;
  const char* text = std::getenv("TRANSOM_EMULATED_GPU_MEMORY");
  *bytes = text ? std::strtoull(text, nullptr, 10) << 20 : memory_bytes();
  return kSuccess;
}
DRIVER(cuDeviceGetAttribute, hipDeviceGetAttribute)(int* value, int attribute, int device) {
  ENTER(false);
  if (device < 0 || device >= Gpu::count()) return kInvalidDevice;
#if defined(EMULATED_HIP)
  const std::map<int, int> values = {{63, 2}, {87, wave_of_chip()}, {23, 9}, {61, 0}, {56, 1024}, {74, 65536}, {16, 1}};
#else
  const std::map<int, int> values = {{16, 2}, {10, 32}, {75, 9}, {76, 0}, {1, 1024}, {8, 49152}, {18, 1}};
#endif
  const auto found = values.find(attribute);
  if (found == values.end()) return kInvalidValue;
  *value = found->second;
  return kSuccess;
}
#if defined(EMULATED_HIP)
EXPORT int hipSetDevice(int device) {
  ENTER(false);
  if (device < 0 || device >= Gpu::count()) return kInvalidDevice;
  current = &Gpu::of(device);
  return kSuccess;
}
EXPORT int hipGetDevicePropertiesR0600(void* properties, int device) {
  ENTER(false);
  if (device < 0 || device >= Gpu::count()) return kInvalidDevice;
  const std::string name = chip() + (wave_of_chip() == 64 ? ":sramecc+:xnack-" : "");
  std::memcpy(static_cast<char*>(properties) + 1160, name.c_str(), name.size() + 1);
  return kSuccess;
}
EXPORT const char* hipGetErrorString(int) { return "an error of the emulated device"; }
#else
EXPORT int cuDevicePrimaryCtxRetain(void** context, int device) {
  ENTER(false);
  if (device < 0 || device >= Gpu::count()) return kInvalidDevice;
  *context = &Gpu::of(device);
  return kSuccess;
}
EXPORT int cuCtxSetCurrent(void* context) {
  ENTER(false);
  for (int i = 0; i < Gpu::count(); ++i)
    if (context == &Gpu::of(i)) return current = &Gpu::of(i), kSuccess;
  if (!context) current = nullptr;
  return context ? kInvalidContext : kSuccess;
}
EXPORT int cuGetErrorString(int, const char** text) {
  *text = "an error of the emulated device";
  return kSuccess;
}
#endif

// ---- memory

DRIVER(cuMemAlloc_v2, hipMalloc)(void** memory, size_t bytes) {
  ENTER(true);
  return gpu.allocate(memory, bytes);
}
DRIVER(cuMemFree_v2, hipFree)(void* memory) {
  ENTER(true);
  return gpu.release(memory);
}
DRIVER(cuMemHostAlloc, hipHostMalloc)(void** memory, size_t bytes, unsigned) {
  ENTER(true);
  if (!memory || bytes == 0) return kInvalidValue;
  *memory = std::malloc(bytes);
  if (!*memory) return kOutOfMemory;
  gpu.host_allocations.insert(*memory);
  return kSuccess;
}
DRIVER(cuMemFreeHost, hipHostFree)(void* memory) {
  ENTER(true);
  if (gpu.host_allocations.erase(memory) == 0) return kInvalidValue;
  if (const int status = gpu.drain_all()) return status;
  std::free(memory);
  return kSuccess;
}
DRIVER(cuMemcpyHtoDAsync_v2, hipMemcpyHtoDAsync)(void* to, const void* from, size_t bytes, void* stream) {
  return copy(stream, to, from, bytes, true, false);
}
DRIVER(cuMemcpyDtoHAsync_v2, hipMemcpyDtoHAsync)(void* to, void* from, size_t bytes, void* stream) {
  return copy(stream, to, from, bytes, false, true);
}
DRIVER(cuMemcpyDtoDAsync_v2, hipMemcpyDtoDAsync)(void* to, void* from, size_t bytes, void* stream) {
  return copy(stream, to, from, bytes, true, true);
}

// ---- streams and events

DRIVER(cuStreamCreate, hipStreamCreateWithFlags)(void** stream, unsigned flags) {
  ENTER(true);
  if (!stream || flags > 1) return kInvalidValue;
  *stream = *gpu.streams.insert(new Stream).first;
  return kSuccess;
}
DRIVER(cuStreamDestroy_v2, hipStreamDestroy)(void* stream) {
  ENTER(true);
  if (!live_stream(gpu, stream)) return kInvalidHandle;
  auto* mine = static_cast<Stream*>(stream);
  const int status = gpu.drain(mine);
  for (Event* event : gpu.events)
    if (event->stream == mine) event->stream = nullptr;
  gpu.streams.erase(mine);
  delete mine;
  return status;
}
DRIVER(cuStreamSynchronize, hipStreamSynchronize)(void* stream) {
  ENTER(true);
  if (!live_stream(gpu, stream)) return kInvalidHandle;
  if (const int refused = refuse_in_capture(static_cast<Stream*>(stream))) return refused;
  return gpu.drain(static_cast<Stream*>(stream));
}
DRIVER(cuEventCreate, hipEventCreateWithFlags)(void** event, unsigned flags) {
  ENTER(true);
  if (!event || flags > 7) return kInvalidValue;
  *event = *gpu.events.insert(new Event).first;
  return kSuccess;
}
DRIVER(cuEventDestroy_v2, hipEventDestroy)(void* event) {
  ENTER(true);
  if (!live_event(gpu, event)) return kInvalidHandle;
  gpu.events.erase(static_cast<Event*>(event));
  delete static_cast<Event*>(event);
  return kSuccess;
}
DRIVER(cuEventRecord, hipEventRecord)(void* event, void* stream) {
  ENTER(true);
  if (!live_event(gpu, event) || !live_stream(gpu, stream)) return kInvalidHandle;
  auto* mine = static_cast<Event*>(event);
  auto* of = static_cast<Stream*>(stream);
  mine->captured = of->capturing;
  mine->recorded = true, mine->passed = false, mine->stream = of;
  return gpu.enqueue(of, {nullptr, mine});
}
DRIVER(cuEventQuery, hipEventQuery)(void* event) {
  ENTER(true);
  if (!live_event(gpu, event)) return kInvalidHandle;
  auto* mine = static_cast<Event*>(event);
  if (mine->captured) return kCaptureUnsupported;
  if (mine->passed || !mine->stream) return kSuccess;
  // Whoever asks again and again gets there at last.
  if (!mine->stream->queued.empty()) {
    Stream one;
    one.queued.push_back(std::move(mine->stream->queued.front()));
    mine->stream->queued.pop_front();
    if (const int status = gpu.drain(&one)) return status;
  }
  return mine->passed ? kSuccess : kNotReady;
}
DRIVER(cuEventSynchronize, hipEventSynchronize)(void* event) {
  ENTER(true);
  if (!live_event(gpu, event)) return kInvalidHandle;
  auto* mine = static_cast<Event*>(event);
  if (mine->captured) return kCaptureUnsupported;
  return mine->passed || !mine->stream ? kSuccess : gpu.drain(mine->stream, mine);
}
DRIVER(cuEventElapsedTime, hipEventElapsedTime)(float* milliseconds, void* from, void* to) {
  ENTER(true);
  if (!live_event(gpu, from) || !live_event(gpu, to)) return kInvalidHandle;
  const auto *begin = static_cast<Event*>(from), *end = static_cast<Event*>(to);
  if (!begin->recorded || !end->recorded) return kInvalidHandle;
  if (!begin->passed || !end->passed) return kNotReady;
  *milliseconds = static_cast<float>((end->seconds - begin->seconds) * 1e3);
  return kSuccess;
}
DRIVER(cuStreamWaitEvent, hipStreamWaitEvent)(void* stream, void* event, unsigned) {
  ENTER(true);
  if (!live_stream(gpu, stream) || !live_event(gpu, event)) return kInvalidHandle;
  auto* waits_for = static_cast<Event*>(event);
  return gpu.enqueue(static_cast<Stream*>(stream), {[&gpu = gpu, waits_for]() -> int {
                       if (!gpu.events.contains(waits_for) || waits_for->passed || !waits_for->stream) return kSuccess;
                       return gpu.drain(waits_for->stream, waits_for);
                     }});
}

// ---- kernels

DRIVER(cuModuleLoadData, hipModuleLoadData)(void** module, const void* image) {
  ENTER(true);
  constexpr std::string_view kMagic = "emulated code\n";
  const auto* text = static_cast<const char*>(image);
  if (!module || !text || std::strncmp(text, kMagic.data(), kMagic.size()) != 0) return kInvalidImage;
  auto made = std::make_unique<Module>();
  const std::string source = text + kMagic.size();
  std::string log;
  if (!read_signature(source, "transom_kernel", made->function)) return kInvalidImage;
  made->function.program = build(source, "transom_kernel", log);
  if (!made->function.program) {
    say("a kernel does not compile: " + log);
    return kInvalidImage;
  }
  gpu.modules.insert(made.get());
  *module = made.release();
  return kSuccess;
}
DRIVER(cuModuleUnload, hipModuleUnload)(void* module) {
  ENTER(true);
  if (gpu.modules.erase(static_cast<Module*>(module)) == 0) return kInvalidHandle;
  const int status = gpu.drain_all();
  delete static_cast<Module*>(module);
  return status;
}
DRIVER(cuModuleGetFunction, hipModuleGetFunction)(void** function, void* module, const char* name) {
  ENTER(true);
  if (!gpu.modules.contains(static_cast<Module*>(module))) return kInvalidHandle;
  if (std::string_view(name) != "transom_kernel") return kNotFound;
  *function = &static_cast<Module*>(module)->function;
  return kSuccess;
}
DRIVER(cuLaunchKernel, hipModuleLaunchKernel)
(void* function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,
 void* stream, void** parameters, void** extra) {
  ENTER(true);
  if (!live_stream(gpu, stream)) return kInvalidHandle;
  const bool known =
      std::any_of(gpu.modules.begin(), gpu.modules.end(), [&](Module* one) { return &one->function == function; });
  if (!known) return kInvalidHandle;
  const Function& kernel = *static_cast<Function*>(function);
  if (gx == 0 || gx > 0x7FFFFFFF || gy != 1 || gz != 1 || by != 1 || bz != 1 || bx != kernel.threads || shared ||
      extra || !parameters)
    return kInvalidValue;
  std::vector<Argument> arguments;
  for (size_t i = 0; i < kernel.addresses.size(); ++i) {
    uint64_t bits = 0;
    std::memcpy(&bits, parameters[i], sizeof bits);
    arguments.push_back({kernel.addresses[i], bits});
  }
  return gpu.enqueue(static_cast<Stream*>(stream), {[&gpu = gpu, program = kernel.program, gx, bx, arguments]() -> int {
                       for (const Argument& argument : arguments)
                         if (argument.address && !gpu.has(reinterpret_cast<void*>(argument.bits), 1))
                           return kIllegalAddress;
                       return run(*program, gx, bx, arguments) ? kSuccess : kLaunchFailed;
                     }});
}

// ---- recorded launches

DRIVER(cuStreamBeginCapture_v2, hipStreamBeginCapture)(void* stream, int mode) {
  ENTER(true);
  if (!live_stream(gpu, stream)) return kInvalidHandle;
  auto* mine = static_cast<Stream*>(stream);
  if (mode < 0 || mode > 2 || mine->capturing) return kInvalidValue;
  mine->capturing = true, mine->invalidated = false;
  mine->captured.clear();
  return kSuccess;
}
DRIVER(cuStreamEndCapture, hipStreamEndCapture)(void* stream, void** graph) {
  ENTER(true);
  if (!live_stream(gpu, stream)) return kInvalidHandle;
  auto* mine = static_cast<Stream*>(stream);
  if (!mine->capturing) return kCaptureUnmatched;
  mine->capturing = false;
  if (mine->invalidated) {
    mine->invalidated = false;
    *graph = nullptr;
    return kCaptureInvalidated;
  }
  auto* made = new Graph{std::move(mine->captured)};
  gpu.graphs.insert(made);
  *graph = made;
  return kSuccess;
}
DRIVER(cuGraphInstantiateWithFlags, hipGraphInstantiateWithFlags)(void** executable, void* graph, unsigned long long) {
  ENTER(true);
  if (!gpu.graphs.contains(static_cast<Graph*>(graph))) return kInvalidHandle;
  auto* made = new Graph(*static_cast<Graph*>(graph));
  gpu.executables.insert(made);
  *executable = made;
  return kSuccess;
}
DRIVER(cuGraphLaunch, hipGraphLaunch)(void* executable, void* stream) {
  ENTER(true);
  if (!live_stream(gpu, stream) || !gpu.executables.contains(static_cast<Graph*>(executable))) return kInvalidHandle;
  for (const Work& work : static_cast<Graph*>(executable)->work)
    if (const int status = gpu.enqueue(static_cast<Stream*>(stream), work)) return status;
  return kSuccess;
}
DRIVER(cuGraphDestroy, hipGraphDestroy)(void* graph) {
  ENTER(true);
  if (gpu.graphs.erase(static_cast<Graph*>(graph)) == 0) return kInvalidHandle;
  delete static_cast<Graph*>(graph);
  return kSuccess;
}
DRIVER(cuGraphExecDestroy, hipGraphExecDestroy)(void* executable) {
  ENTER(true);
  if (gpu.executables.erase(static_cast<Graph*>(executable)) == 0) return kInvalidHandle;
  delete static_cast<Graph*>(executable);
  return kSuccess;
}

// ---- the compiler: its code is the text, which the OpenCL device compiles when it is loaded

namespace {
struct Source {
  std::string text, code, log;
};
enum { kCompilation = 6, kInvalidProgram = 4, kInvalidOption = 5 };
}  // namespace

COMPILER(nvrtcVersion, hiprtcVersion)(int* major, int* minor) {
  *major = 0, *minor = 1;
  return 0;
}
COMPILER(nvrtcCreateProgram, hiprtcCreateProgram)
(void** program, const char* text, const char*, int headers, const char* const*, const char* const*) {
  if (!program || !text || headers) return kInvalidProgram;
  *program = new Source{text, "", ""};
  return 0;
}
COMPILER(nvrtcDestroyProgram, hiprtcDestroyProgram)(void** program) {
  delete static_cast<Source*>(*program);
  *program = nullptr;
  return 0;
}
COMPILER(nvrtcCompileProgram, hiprtcCompileProgram)(void* program, int count, const char* const* options) {
  auto* source = static_cast<Source*>(program);
#if defined(EMULATED_HIP)
  const std::vector<std::string> known = {"--offload-arch=" + chip(), "-ffp-contract=off", "-std=c++17"};
#else
  const std::vector<std::string> known = {"--gpu-architecture=sm_90", "--fmad=false", "--std=c++17"};
#endif
  for (int i = 0; i < count; ++i)
    if (std::find(known.begin(), known.end(), options[i]) == known.end()) {
      source->log = std::string("unknown option ") + options[i];
      return kInvalidOption;
    }
  const std::string text = translated(source->text, source->log);
  if (text.empty()) return kCompilation;
  source->code = "emulated code\n" + text + '\0';
  return 0;
}
COMPILER(nvrtcGetProgramLogSize, hiprtcGetProgramLogSize)(void* program, size_t* size) {
  *size = static_cast<Source*>(program)->log.size() + 1;
  return 0;
}
COMPILER(nvrtcGetProgramLog, hiprtcGetProgramLog)(void* program, char* log) {
  std::strcpy(log, static_cast<Source*>(program)->log.c_str());
  return 0;
}
COMPILER(nvrtcGetCUBINSize, hiprtcGetCodeSize)(void* program, size_t* size) {
  *size = static_cast<Source*>(program)->code.size();
  return 0;
}
COMPILER(nvrtcGetCUBIN, hiprtcGetCode)(void* program, char* code) {
  const std::string& made = static_cast<Source*>(program)->code;
  std::memcpy(code, made.data(), made.size());
  return 0;
}
