// SPDX-License-Identifier: Apache-2.0
// OpenCL 1.2 and later. Buffers are plain addresses where the device has shared virtual memory, as on other GPUs; else
// memory objects, which kernels take with an offset. TRANSOM_OPENCL_MEMORY=objects takes them on every device.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <mutex>

#include "gpu/api/api.h"
#include "gpu/api/attentions.h"
#include "gpu/api/convolutions.h"
#include "gpu/api/opencl_devices.h"
#include "gpu/api/opencl_memory.h"
#include "gpu/api/products.h"

namespace transom::gpu {
namespace {

struct OpenclKernel final : Kernel {
  cl::Program program = nullptr;
  cl::Kernel kernel = nullptr;
  mutable std::mutex mutex;  // arguments belong to the kernel until it is enqueued
  ~OpenclKernel() override {
    if (kernel) cl::functions().ReleaseKernel(kernel);
    if (program) cl::functions().ReleaseProgram(program);
  }
};

struct OpenclEvent final : Event {
  cl::Event event = nullptr;
  void reset(cl::Event next) {
    if (event) cl::functions().ReleaseEvent(event);
    event = next;
  }
  ~OpenclEvent() override { reset(nullptr); }
};

class OpenclQueue final : public Queue {
 public:
  // `objects`: what addresses stand for; null where they are addresses.
  OpenclQueue(cl::Queue queue, const cl::MemoryObjects* objects) : queue_(queue), objects_(objects) {}
  ~OpenclQueue() override {
    cl_.Finish(queue_);
    cl_.ReleaseCommandQueue(queue_);
  }

  void launch(const Kernel& kernel, uint64_t groups, const LaunchArguments& arguments) override {
    const auto& mine = static_cast<const OpenclKernel&>(kernel);
    const std::lock_guard lock(mine.mutex);
    cl::Uint index = 0;
    for (size_t i = 0; i < arguments.address_count; ++i) {
      if (!objects_) {
        CL(SetKernelArgSVMPointer, mine.kernel, index++, arguments.addresses[i]);
        continue;
      }
      const cl::MemoryObjects::Place place = objects_->at(arguments.addresses[i]);
      const auto offset = static_cast<int64_t>(place.offset);
      CL(SetKernelArg, mine.kernel, index++, sizeof place.object, &place.object);
      CL(SetKernelArg, mine.kernel, index++, sizeof offset, &offset);
    }
    for (size_t i = 0; i < arguments.number_count; ++i)
      CL(SetKernelArg, mine.kernel, index++, sizeof(int64_t), &arguments.numbers[i]);
    const size_t global = groups * kGroup, local = kGroup;
    CL(EnqueueNDRangeKernel, queue_, mine.kernel, 1, nullptr, &global, &local, 0, nullptr, nullptr);
    if (++launches_ % kLaunchesOfMarker == 0) mark();
  }
  void copy_to_device(void* to, const void* from, size_t bytes) override {
    if (!objects_) return copy(to, from, bytes);
    const auto place = objects_->at(to);
    CL(EnqueueWriteBuffer, queue_, place.object, 0, place.offset, bytes, from, 0, nullptr, nullptr);
    flush();
  }
  void copy_to_host(void* to, const void* from, size_t bytes) override {
    if (!objects_) return copy(to, from, bytes);
    const auto place = objects_->at(from);
    CL(EnqueueReadBuffer, queue_, place.object, 0, place.offset, bytes, to, 0, nullptr, nullptr);
    flush();
  }
  void copy_on_device(void* to, const void* from, size_t bytes) override {
    if (!objects_) return copy(to, from, bytes);
    const auto source = objects_->at(from), target = objects_->at(to);
    CL(EnqueueCopyBuffer, queue_, source.object, target.object, source.offset, target.offset, bytes, 0, nullptr,
       nullptr);
    flush();
  }
  void flush() override { CL(Flush, queue_); }
  void synchronize() override { CL(Finish, queue_); }
  void record(Event& event) override {
    cl::Event marker = nullptr;
    CL(EnqueueMarkerWithWaitList, queue_, 0, nullptr, &marker);
    static_cast<OpenclEvent&>(event).reset(marker);
    flush();
  }
  void wait(Event& event) override {
    const cl::Event marker = static_cast<OpenclEvent&>(event).event;
    if (!marker) return;
    CL(EnqueueBarrierWithWaitList, queue_, 1, &marker, nullptr);
  }

 private:
  void copy(void* to, const void* from, size_t bytes) {
    CL(EnqueueSVMMemcpy, queue_, 0, to, from, bytes, 0, nullptr, nullptr);
    flush();
  }
  // A queue without an end would hold memory without an end: the host is a few hundred launches ahead at most.
  void mark() {
    static constexpr size_t kMostMarkers = 4;
    markers_.push_back(std::make_unique<OpenclEvent>());
    record(*markers_.back());
    if (markers_.size() <= kMostMarkers) return;
    CL(WaitForEvents, 1, &markers_.front()->event);
    markers_.pop_front();
  }
  static constexpr uint64_t kLaunchesOfMarker = 64;
  const cl::Functions& cl_ = cl::functions();
  cl::Queue queue_;
  const cl::MemoryObjects* objects_;
  uint64_t launches_ = 0;
  std::deque<std::unique_ptr<OpenclEvent>> markers_;
};

class OpenclContext final : public Context {
 public:
  explicit OpenclContext(const cl::Found& found)
      : device_(found.device), facts_(cl::facts_of(found)), shares_memory_(cl::shares_memory(found.device)) {
    context_ = CL_MADE(CreateContext, nullptr, 1, &device_, nullptr, nullptr);
    const bool rounded = cl::info<cl::Bits>(device_, cl::kDeviceSingleConfig) & cl::kCorrectlyRounded;
    options_ = rounded ? "-cl-std=CL1.2 -cl-fp32-correctly-rounded-divide-sqrt" : "-cl-std=CL1.2";
    keeps_code_ = found.platform == "Portable Computing Language";
  }
  ~OpenclContext() override { cl_.ReleaseContext(context_); }

  const Facts& facts() const override { return facts_; }
  Dialect dialect() const override { return shares_memory_ ? Dialect::kOpenCL : Dialect::kOpenCLObjects; }

  void* allocate(size_t bytes) override {
    cl::Int status = cl::kAllocationFailed;
    if (shares_memory_) {
      if (void* memory = cl_.SVMAlloc(context_, cl::kSvmReadWrite, bytes, 128)) return memory;
    } else if (const cl::Memory object = cl_.CreateBuffer(context_, cl::kReadWrite, bytes, nullptr, &status)) {
      return objects_.add(object, bytes);
    }
    fail(TRANSOM_OUT_OF_MEMORY, "out of device memory: {} bytes were asked for, one buffer holds at most {}", bytes,
         facts_.largest_buffer);
  }
  void release(void* memory) override {
    if (shares_memory_) cl_.SVMFree(context_, memory);
    else if (const cl::Memory object = objects_.remove(memory)) cl_.ReleaseMemObject(object);
  }
  void* allocate_host(size_t bytes) override {
    if (shares_memory_) return allocate(bytes);
    if (void* memory = std::malloc(bytes)) return memory;
    throw std::bad_alloc();
  }
  void release_host(void* memory) override {
    if (shares_memory_) release(memory);
    else std::free(memory);
  }

  std::unique_ptr<Queue> make_queue() override {
    const cl::Bits properties[] = {cl::kQueueProperties, cl::kQueueProfiling, 0};
    const cl::Queue queue = CL_MADE(CreateCommandQueueWithProperties, context_, device_, properties);
    return std::make_unique<OpenclQueue>(queue, shares_memory_ ? nullptr : &objects_);
  }
  std::unique_ptr<Event> make_event() override { return std::make_unique<OpenclEvent>(); }
  bool passed(Event& event) override {
    const cl::Event marker = static_cast<OpenclEvent&>(event).event;
    if (!marker) return true;
    cl::Int status = 0;
    CL(GetEventInfo, marker, cl::kEventStatus, sizeof status, &status, nullptr);
    if (status < 0) cl::refuse(status, "work before an event");
    return status == 0;
  }
  void synchronize(Event& event) override {
    const cl::Event marker = static_cast<OpenclEvent&>(event).event;
    if (marker) CL(WaitForEvents, 1, &marker);
  }
  double seconds_between(Event& from, Event& to) override {
    synchronize(from), synchronize(to);
    return static_cast<double>(time_of(to) - time_of(from)) * 1e-9;
  }

  std::string target() const override {
    return facts_.driver + "|" + facts_.name + "|" + facts_.architecture + "|" + options_;
  }
  std::string compile(const std::string& text) override {
    if (keeps_code_) return text;
    OpenclKernel made;
    made.program = program_of(text);
    build(made.program);
    size_t bytes = 0;
    CL(GetProgramInfo, made.program, cl::kBinarySizes, sizeof bytes, &bytes, nullptr);
    std::string binary(bytes, '\0');
    auto* place = reinterpret_cast<unsigned char*>(binary.data());
    CL(GetProgramInfo, made.program, cl::kBinaries, sizeof place, &place, nullptr);
    return binary;
  }
  std::unique_ptr<Kernel> load(const std::string& code) override {
    auto made = std::make_unique<OpenclKernel>();
    const size_t size = code.size();
    const auto* bytes = reinterpret_cast<const unsigned char*>(code.data());
    cl::Int of_binary = 0;
    made->program = keeps_code_ ? program_of(code)
                                : CL_MADE(CreateProgramWithBinary, context_, 1, &device_, &size, &bytes, &of_binary);
    build(made->program);
    made->kernel = CL_MADE(CreateKernel, made->program, kKernelName);
    return made;
  }

 private:
  static uint64_t time_of(Event& event) {
    uint64_t time = 0;
    const cl::Event marker = static_cast<OpenclEvent&>(event).event;
    if (!marker) fail(TRANSOM_INVALID_ARGUMENT, "an event was never recorded");
    CL(GetEventProfilingInfo, marker, cl::kProfilingEnd, sizeof time, &time, nullptr);
    return time;
  }
  cl::Program program_of(const std::string& text) const {
    const char* source = text.c_str();
    const size_t size = text.size();
    return CL_MADE(CreateProgramWithSource, context_, 1, &source, &size);
  }
  void build(cl::Program program) const {
    if (cl_.BuildProgram(program, 1, &device_, options_.c_str(), nullptr, nullptr) == cl::kSuccess) return;
    std::string log =
        cl::text_of([&](auto... to) { return cl_.GetProgramBuildInfo(program, device_, cl::kBuildLog, to...); });
    std::replace(log.begin(), log.end(), '\n', ' ');
    fail(TRANSOM_INTERNAL, "a kernel does not compile: {}", log.substr(0, 800));
  }

  const cl::Functions& cl_ = cl::functions();
  cl::Device device_;
  cl::Context context_ = nullptr;
  Facts facts_;
  bool shares_memory_;
  cl::MemoryObjects objects_;
  std::string options_;
  // PoCL keeps what it compiles on disk by itself, and compiles a second form of each kernel where binaries are asked
  // for; so its code is the text.
  bool keeps_code_ = false;
};

class OpenclRuntime final : public Runtime {
 public:
  const char* name() const override { return "opencl"; }
  // Below the cpu device: most machines whose only OpenCL device is the processor have a faster way to use it, and a
  // plugin says what it is preferred to before it may look for its devices.
  uint32_t priority() const override { return 5; }
  uint32_t device_count() override {
    const std::lock_guard lock(mutex_);
    std::string left_out;
    const size_t count = cl::find_devices(left_out).size();
    if (count == 0) fail(TRANSOM_UNAVAILABLE, "expected an OpenCL device, found none{}", left_out);
    return static_cast<uint32_t>(count);
  }
  Facts facts(uint32_t index) override {
    const std::lock_guard lock(mutex_);
    return cl::facts_of(device(index));
  }
  std::unique_ptr<Context> open(uint32_t index) override {
    const std::lock_guard lock(mutex_);
    return std::make_unique<OpenclContext>(device(index));
  }

 private:
  std::mutex mutex_;  // PoCL starts at the first question, and two threads that ask at once break it
  static cl::Found device(uint32_t index) {
    std::string left_out;
    const std::vector<cl::Found> found = cl::find_devices(left_out);
    if (index >= found.size())
      fail(TRANSOM_INVALID_ARGUMENT, "expected an OpenCL device below {}, found {}", found.size(), index);
    return found[index];
  }
};

}  // namespace

Runtime& runtime() {
  static OpenclRuntime opencl;
  return opencl;
}

std::unique_ptr<Products> open_products(Context&) { return nullptr; }
std::unique_ptr<Convolutions> open_convolutions(Context&) { return nullptr; }
std::unique_ptr<Attentions> open_attentions(Context&, std::function<void(const std::string&)>) { return nullptr; }

}  // namespace transom::gpu
