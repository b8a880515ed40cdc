// SPDX-License-Identifier: Apache-2.0
#include "gpu/api/driver.h"

#include <algorithm>
#include <memory>
#include <mutex>

namespace transom::gpu {
namespace {

// CUresult and hipError_t agree in these numbers. A device is lost by the faults that its vendor calls sticky: every
// later call of the process gives them again. Other failures are of their call alone.
transom_status status_of(int status) {
  switch (status) {
    case 2:
      return TRANSOM_OUT_OF_MEMORY;
    case 3:    // not initialised
    case 34:   // a stub library
    case 35:   // driver too old
    case 46:   // in exclusive use
    case 100:  // no device
    case 101:
    case 802:
    case 803:
    case 804:
      return TRANSOM_UNAVAILABLE;
    case 98:  // code of another chip
    case 209:
    case 222:
    case 801:
      return TRANSOM_UNSUPPORTED;
    case 214:
    case 220:
    case 226:
    case 700:  // illegal address
    case 702:
    case 709:
    case 710:
    case 714:
    case 715:
    case 716:
    case 717:
    case 718:
    case 719:
    case 721:
    case 911:
    case 999:
      return TRANSOM_DEVICE_LOST;
    default:
      return TRANSOM_INTERNAL;
  }
}

std::string symbol(bool cuda, const char* cuda_prefix, const char* of_cuda, const char* hip_prefix,
                   const char* of_hip) {
  return cuda ? std::string(cuda_prefix) + of_cuda : std::string(hip_prefix) + of_hip;
}

struct DriverKernel final : Kernel {
  const Driver& driver;
  void* module = nullptr;
  void* function = nullptr;
  explicit DriverKernel(const Driver& driver) : driver(driver) {}
  ~DriverKernel() override {
    if (module) driver.call.module_unload(module);
  }
};

struct DriverEvent final : Event {
  const Driver& driver;
  void* event = nullptr;
  bool recorded = false;
  explicit DriverEvent(const Driver& driver) : driver(driver) {}
  ~DriverEvent() override {
    if (event) driver.call.event_destroy(event);
  }
};

struct DriverGraph final : Graph {
  const Driver& driver;
  void* graph = nullptr;
  void* executable = nullptr;
  explicit DriverGraph(const Driver& driver) : driver(driver) {}
  ~DriverGraph() override {
    if (executable) driver.call.graph_exec_destroy(executable);
    if (graph) driver.call.graph_destroy(graph);
  }
};

class DriverQueue final : public Queue {
 public:
  DriverQueue(const Driver& driver, int device) : driver_(driver), call_(driver.call), device_(device) {
    driver_.make_current(device_);
    constexpr unsigned kNonBlocking = 1;  // else it waits for the default stream
    driver_.check(call_.stream_create(&stream_, kNonBlocking), "making a stream");
  }
  ~DriverQueue() override {
    call_.stream_synchronize(stream_);
    call_.stream_destroy(stream_);
  }

  void launch(const Kernel& kernel, uint64_t groups, const LaunchArguments& arguments) override {
    driver_.make_current(device_);
    std::vector<void*> pointers;
    for (size_t i = 0; i < arguments.address_count; ++i)
      pointers.push_back(const_cast<void*>(static_cast<const void*>(&arguments.addresses[i])));
    for (size_t i = 0; i < arguments.number_count; ++i)
      pointers.push_back(const_cast<void*>(static_cast<const void*>(&arguments.numbers[i])));
    driver_.check(call_.launch(static_cast<const DriverKernel&>(kernel).function, static_cast<unsigned>(groups), 1, 1,
                               kGroup, 1, 1, 0, stream_, pointers.data(), nullptr),
                  "launching a kernel");
  }
  void copy_to_device(void* to, const void* from, size_t bytes) override {
    driver_.make_current(device_);
    driver_.check(call_.to_device(to, from, bytes, stream_), "copying to the device");
  }
  void copy_to_host(void* to, const void* from, size_t bytes) override {
    driver_.make_current(device_);
    driver_.check(call_.to_host(to, const_cast<void*>(from), bytes, stream_), "copying to the host");
  }
  void copy_on_device(void* to, const void* from, size_t bytes) override {
    driver_.make_current(device_);
    driver_.check(call_.on_device(to, const_cast<void*>(from), bytes, stream_), "copying on the device");
  }
  void synchronize() override {
    driver_.make_current(device_);
    driver_.check(call_.stream_synchronize(stream_), "waiting for a stream");
  }
  void record(Event& event) override {
    driver_.make_current(device_);
    auto& mine = static_cast<DriverEvent&>(event);
    driver_.check(call_.event_record(mine.event, stream_), "recording an event");
    mine.recorded = true;
  }
  void wait(Event& event) override {
    auto& mine = static_cast<DriverEvent&>(event);
    if (!mine.recorded) return;
    driver_.make_current(device_);
    driver_.check(call_.stream_wait(stream_, mine.event, 0), "waiting for an event");
  }
  void capture_begin() override {
    driver_.make_current(device_);
    constexpr int kRelaxed = 2;  // other work of the process, such as allocating, does not end it
    driver_.check(call_.capture_begin(stream_, kRelaxed), "beginning to record");
  }
  std::unique_ptr<Graph> capture_end() override {
    driver_.make_current(device_);
    auto made = std::make_unique<DriverGraph>(driver_);
    driver_.check(call_.capture_end(stream_, &made->graph), "recording");
    driver_.check(call_.graph_instantiate(&made->executable, made->graph, 0), "preparing what was recorded");
    return made;
  }
  void replay(Graph& graph) override {
    driver_.make_current(device_);
    driver_.check(call_.graph_launch(static_cast<DriverGraph&>(graph).executable, stream_), "replaying");
  }
  void* native() {
    driver_.make_current(device_);
    return stream_;
  }

 private:
  const Driver& driver_;
  const DriverFunctions& call_;
  int device_;
  void* stream_ = nullptr;
};

class DriverContext final : public Context {
 public:
  DriverContext(const Driver& driver, int device) : driver_(driver), device_(device), facts_(driver.facts(device)) {
    driver_.make_current(device_);
  }
  const Facts& facts() const override { return facts_; }
  Dialect dialect() const override { return driver_.vendor.dialect; }
  const Driver& driver() const { return driver_; }
  void make_current() const { driver_.make_current(device_); }

  void* allocate(size_t bytes) override {
    driver_.make_current(device_);
    void* memory = nullptr;
    const int status = driver_.call.allocate(&memory, bytes);
    if (status == 2) fail(TRANSOM_OUT_OF_MEMORY, "out of device memory: {} bytes were asked for", bytes);
    driver_.check(status, "allocating device memory");
    return memory;
  }
  void release(void* memory) override {
    if (driver_.made_current(device_)) driver_.call.release(memory);
  }
  void* allocate_host(size_t bytes) override {
    driver_.make_current(device_);
    void* memory = nullptr;
    constexpr unsigned kPortable = 1;
    driver_.check(driver_.call.allocate_host(&memory, bytes, kPortable), "allocating host memory");
    return memory;
  }
  void release_host(void* memory) override {
    if (driver_.made_current(device_)) driver_.call.release_host(memory);
  }

  std::unique_ptr<Queue> make_queue() override { return std::make_unique<DriverQueue>(driver_, device_); }
  std::unique_ptr<Event> make_event() override {
    driver_.make_current(device_);
    auto made = std::make_unique<DriverEvent>(driver_);
    driver_.check(driver_.call.event_create(&made->event, 0), "making an event");
    return made;
  }
  bool passed(Event& event) override {
    auto& mine = static_cast<DriverEvent&>(event);
    if (!mine.recorded) return true;
    driver_.make_current(device_);
    constexpr int kNotReady = 600;
    const int status = driver_.call.event_query(mine.event);
    if (status == kNotReady) return false;
    driver_.check(status, "work before an event");
    return true;
  }
  void synchronize(Event& event) override {
    auto& mine = static_cast<DriverEvent&>(event);
    if (!mine.recorded) return;
    driver_.make_current(device_);
    driver_.check(driver_.call.event_synchronize(mine.event), "waiting for an event");
  }
  double seconds_between(Event& from, Event& to) override {
    synchronize(from), synchronize(to);
    float milliseconds = 0;
    driver_.check(driver_.call.event_elapsed(&milliseconds, static_cast<DriverEvent&>(from).event,
                                             static_cast<DriverEvent&>(to).event),
                  "timing events");
    return static_cast<double>(milliseconds) * 1e-3;
  }

  std::string target() const override {
    return fmt::format("{} {} {}", driver_.vendor.name, driver_.architecture(device_), driver_.compiler_version());
  }
  std::string compile(const std::string& text) override {
    // A product and a sum are rounded apart; divisions and roots are IEEE 754's by default.
    if (driver_.vendor.cuda)
      return driver_.compile(text,
                             {"--gpu-architecture=" + driver_.architecture(device_), "--fmad=false", "--std=c++17"});
    return driver_.compile(text,
                           {"--offload-arch=" + driver_.architecture(device_), "-ffp-contract=off", "-std=c++17"});
  }
  std::unique_ptr<Kernel> load(const std::string& code) override {
    driver_.make_current(device_);
    auto made = std::make_unique<DriverKernel>(driver_);
    driver_.check(driver_.call.module_load(&made->module, code.data()), "loading a kernel");
    driver_.check(driver_.call.module_function(&made->function, made->module, kKernelName), "finding a kernel");
    return made;
  }

 private:
  const Driver& driver_;
  int device_;
  Facts facts_;
};

}  // namespace

const Driver& driver_of(Context& context) { return static_cast<DriverContext&>(context).driver(); }
void make_current(Context& context) { static_cast<DriverContext&>(context).make_current(); }
void* native_stream(Queue& queue) { return static_cast<DriverQueue&>(queue).native(); }

std::optional<SharedLibrary> library_of_convolutions(Context& context) {
  const Driver& driver = driver_of(context);
  const LibraryPlaces& places = driver.vendor.convolutions;
  if (context.facts().emulated && !std::getenv(places.variable)) return std::nullopt;
  try {
    return SharedLibrary::open(driver.fitting(places.files), places.variable, places.cure);
  } catch (const backend::Failure&) {
    return std::nullopt;
  }
}

Driver::Driver(Vendor of)
    : vendor(std::move(of)), library_(SharedLibrary::open(vendor.driver_files, vendor.driver_variable, vendor.cure)) {
#define X(name, of_cuda, of_hip, parameters)         \
  call.name = reinterpret_cast<decltype(call.name)>( \
      library_.expect(symbol(vendor.cuda, "cu", of_cuda, "hip", of_hip).c_str()));
  TRANSOM_DRIVER_FUNCTIONS(X)
#undef X
  const auto expect = [&]<typename Function>(Function& function, const char* name) {
    function = reinterpret_cast<Function>(library_.expect(name));
  };
  if (vendor.cuda) expect(retain_, "cuDevicePrimaryCtxRetain"), expect(set_context_, "cuCtxSetCurrent");
  else expect(choose_, "hipSetDevice");
  try {
    check(call.init(0), "starting the driver");
  } catch (const backend::Failure& failure) {  // nothing is lost where nothing began
    fail(TRANSOM_UNAVAILABLE, "{}; {}", failure.what(), vendor.cure);
  }
}

void Driver::check(int status, const char* what) const {
  if (status == 0) return;
  std::string text;
  if (vendor.cuda) {
    const auto describe = reinterpret_cast<int (*)(int, const char**)>(library_.find("cuGetErrorString"));
    const char* found = nullptr;
    if (describe && describe(status, &found) == 0 && found) text = found;
  } else if (const auto describe = reinterpret_cast<const char* (*)(int)>(library_.find("hipGetErrorString"))) {
    text = describe(status);
  }
  const transom_status kind = status_of(status);
  fail(kind, "{}{} failed: {} ({} status {})", kind == TRANSOM_OUT_OF_MEMORY ? "out of device memory: " : "", what,
       text.empty() ? "no text" : text, vendor.prefix, status);
}

int Driver::choose(int device) const noexcept {
  constexpr int kInvalidDevice = 101;
  if (!vendor.cuda) return choose_(device);
  if (static_cast<size_t>(device) >= contexts_.size()) return kInvalidDevice;
  std::atomic<void*>& context = contexts_[static_cast<size_t>(device)];
  if (!context) {
    const std::lock_guard lock(mutex_);
    int handle = 0;
    void* made = nullptr;
    if (!context) {
      if (const int status = call.device_get(&handle, device)) return status;
      if (const int status = retain_(&made, handle)) return status;
      context = made;
    }
  }
  return set_context_(context);
}

void Driver::make_current(int device) const { check(choose(device), "choosing a device"); }
bool Driver::made_current(int device) const noexcept { return choose(device) == 0; }

std::vector<std::string> Driver::fitting(std::vector<std::string> files) const {
  int version = 0;
  check(call.driver_version(&version), "reading the version of the driver");
  if (vendor.cuda && version < 13000)
    std::erase_if(files, [](const std::string& file) { return file.ends_with(".so.13"); });
  return files;
}

std::string Driver::architecture(int device) const {
  if (vendor.cuda) {
    int major = 0, minor = 0;
    check(call.device_attribute(&major, 75, device), "reading the capability of a device");
    check(call.device_attribute(&minor, 76, device), "reading the capability of a device");
    return fmt::format("sm_{}{}", major, minor);
  }
  // The properties have no fixed layout over versions, but the name of the chip is in them.
  std::vector<char> properties(8192, '\0');
  void* read = library_.find("hipGetDevicePropertiesR0600");
  if (!read) read = library_.expect("hipGetDeviceProperties");
  check(reinterpret_cast<int (*)(void*, int)>(read)(properties.data(), device), "reading the properties of a device");
  constexpr std::string_view kName = "gfx";
  const auto found = std::search(properties.begin(), properties.end(), kName.begin(), kName.end());
  if (found == properties.end())
    fail(TRANSOM_UNAVAILABLE, "expected the name of a chip that begins with gfx, found none");
  const auto end =
      std::find_if(found, properties.end(), [](char c) { return !std::isalnum(static_cast<unsigned char>(c)); });
  return {found, end};
}

Facts Driver::facts(int device) const {
  Facts facts;
  char name[256] = "";
  int handle = 0, version = 0, units = 0, wave = 0, integrated = 0;
  size_t memory = 0;
  check(call.device_get(&handle, device), "finding a device");
  check(call.device_name(name, sizeof name - 1, handle), "reading the name of a device");
  check(call.device_memory(&memory, handle), "reading the memory of a device");
  check(call.driver_version(&version), "reading the version of the driver");
  check(call.device_attribute(&units, vendor.attribute_units, handle), "reading the units of a device");
  check(call.device_attribute(&wave, vendor.attribute_wave, handle), "reading the waves of a device");
  check(call.device_attribute(&integrated, vendor.attribute_integrated, handle), "reading whose memory a device has");
  facts.name = name;
  facts.architecture = architecture(device);
  facts.driver = fmt::format("{} {}", vendor.prefix, version);
  facts.memory_bytes = memory;
  facts.compute_units = static_cast<uint32_t>(std::max(units, 0));
  facts.wave = static_cast<uint32_t>(std::max(wave, 1));
  facts.host_memory = integrated != 0;
  facts.argument_bytes = 4096;
  facts.emulated = vendor.emulated(library_);
  return facts;
}

const CompilerFunctions& Driver::compiler() const {
  static std::mutex mutex;
  static CompilerFunctions functions;
  const std::lock_guard lock(mutex);
  if (!functions.create) {
    const SharedLibrary library =
        SharedLibrary::open(fitting(vendor.compiler_files), vendor.compiler_variable, vendor.cure);
#define X(name, of_cuda, of_hip, parameters)                   \
  functions.name = reinterpret_cast<decltype(functions.name)>( \
      library.expect(symbol(vendor.cuda, "nvrtc", of_cuda, "hiprtc", of_hip).c_str()));
    TRANSOM_COMPILER_FUNCTIONS(X)
#undef X
  }
  return functions;
}

std::string Driver::compiler_version() const {
  int major = 0, minor = 0;
  compiler().version(&major, &minor);
  return fmt::format("{}.{}", major, minor);
}

std::string Driver::compile(const std::string& text, const std::vector<std::string>& options) const {
  const CompilerFunctions& rtc = compiler();
  void* program = nullptr;
  if (rtc.create(&program, text.c_str(), "kernel.cu", 0, nullptr, nullptr) != 0)
    fail(TRANSOM_INTERNAL, "{}: the run-time compiler takes no program", vendor.prefix);
  struct Destroyer {
    const CompilerFunctions& rtc;
    void** program;
    ~Destroyer() { rtc.destroy(program); }
  } const destroyer{rtc, &program};
  std::vector<const char*> words;
  for (const std::string& option : options) words.push_back(option.c_str());
  size_t size = 0;
  if (const int status = rtc.compile(program, static_cast<int>(words.size()), words.data()); status != 0) {
    std::string log;
    if (rtc.log_size(program, &size) == 0 && size > 0 && size < (1 << 20)) {
      log.resize(size);
      if (rtc.log(program, log.data()) != 0) log.clear();
    }
    std::replace_if(
        log.begin(), log.end(), [](char c) { return c == '\n' || c == '\0'; }, ' ');
    fail(TRANSOM_INTERNAL, "a kernel does not compile (status {}): {}", status, log.substr(0, 800));
  }
  if (rtc.code_size(program, &size) != 0 || size == 0)
    fail(TRANSOM_INTERNAL, "{}: the run-time compiler gave no code", vendor.prefix);
  std::string code(size, '\0');
  if (rtc.code(program, code.data()) != 0)
    fail(TRANSOM_INTERNAL, "{}: the run-time compiler gave no code", vendor.prefix);
  return code;
}

// Under a lock of its own: a static whose constructor throws is begun again by the next thread, and the thread
// sanitizer does not see that one waits for the other.
const Driver& DriverRuntime::driver() {
  static std::mutex opening;
  static std::unique_ptr<const Driver> opened;
  const std::lock_guard lock(opening);
  if (!opened) opened = std::make_unique<const Driver>(vendor_);
  return *opened;
}

uint32_t DriverRuntime::device_count() {
  int count = 0;
  driver().check(driver().call.device_count(&count), "counting devices");
  if (count <= 0) fail(TRANSOM_UNAVAILABLE, "expected a device of {}, found none", vendor_.prefix);
  return static_cast<uint32_t>(count);
}

Facts DriverRuntime::facts(uint32_t index) {
  if (index >= device_count())
    fail(TRANSOM_INVALID_ARGUMENT, "expected a device below {}, found {}", device_count(), index);
  return driver().facts(static_cast<int>(index));
}

std::unique_ptr<Context> DriverRuntime::open(uint32_t index) {
  if (index >= device_count())
    fail(TRANSOM_INVALID_ARGUMENT, "expected a device below {}, found {}", device_count(), index);
  return std::make_unique<DriverContext>(driver(), static_cast<int>(index));
}

}  // namespace transom::gpu
