// SPDX-License-Identifier: Apache-2.0
// Which devices there are, and which one is used.
#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <map>
#include <mutex>
#include <tuple>

#include "base/error.h"
#include "runtime/device/descriptions/descriptions.h"
#include "runtime/device/descriptions/vendor_names.h"
#include "runtime/device/device.h"
#include "runtime/device/device_in_use.h"

namespace transom {
namespace {

// A device that was asked for. Its lock is held while it is opened, which may take long; others are not held up.
struct Opened {
  std::mutex mutex;
  std::shared_ptr<Device> device;
};

// Of the innermost DeviceScope.
thread_local std::shared_ptr<Device> device_of_thread;

// Never destroyed: at the end of the process a driver may be gone before its devices, and closing them then crashes.
struct Devices {
  std::mutex mutex;                                       // of what follows; never held while a plugin is called
  std::map<std::string, std::shared_ptr<Opened>> opened;  // by the name asked for
  std::shared_ptr<Device> chosen;
};
Devices& devices() {
  static Devices& instance = *new Devices;
  return instance;
}

// A plugin passes on what its driver says of itself; one that emulates the hardware says so there.
bool is_emulated(const transom_device_properties& properties) {
  return (properties.flags & TRANSOM_DEVICE_EMULATED) ||
         std::string_view(properties.driver).find("emulat") != std::string_view::npos;
}

void describe(const transom_device_properties& properties, DeviceInfo& info) {
  info.description = text_of(properties.name, sizeof properties.name);
  info.architecture = text_of(properties.architecture, sizeof properties.architecture);
  info.driver = text_of(properties.driver, sizeof properties.driver);
  info.memory_bytes = properties.memory_bytes;
  info.compute_units = properties.compute_units;
  info.emulated = is_emulated(properties);
  info.computes_nothing = properties.flags & TRANSOM_DEVICE_COMPUTES_NOTHING;
  for (int32_t dtype = 0; dtype <= TRANSOM_FLOAT64; ++dtype)
    if (properties.fast_dtypes >> dtype & 1) info.fast_dtypes.push_back(static_cast<DType>(dtype));
}

// "cuda" of "cuda:1".
std::string_view plugin_of(const DeviceInfo& info) {
  return std::string_view(info.name).substr(0, info.name.find(':'));
}

// Devices of one plugin, or one entry that says why there is none.
std::vector<DeviceInfo> ask(const fs::path& file) {
  DeviceInfo base;
  base.plugin = file.string();
  base.name = plugin_name(file);
  try {
    const auto plugin = Plugin::load(file);
    base.name = plugin->table().name;
    base.priority = plugin->table().priority;
    uint32_t count = 0;
    transom_error error{};
    expect_ok(plugin->table().device_count(&count, &error), error, base.name);
    constexpr uint32_t kMost = 4096;
    if (count > kMost) fail(ErrorKind::kDevice, "{}: the plugin tells of {} devices", file.string(), count);
    std::vector<DeviceInfo> devices;
    for (uint32_t i = 0; i < count; ++i) {
      transom_device_properties properties{.struct_size = sizeof(transom_device_properties)};
      expect_ok(plugin->table().device_describe(i, &properties, &error), error, base.name);
      DeviceInfo info = base;
      if (count > 1) info.name += ":" + std::to_string(i);
      describe(properties, info);
      devices.push_back(std::move(info));
    }
    if (devices.empty()) {
      base.reason = "the plugin found no device";
      devices.push_back(base);
    }
    return devices;
  } catch (const std::exception& error) {
    base.reason = error.what();
    return {base};
  }
}

// Asks plugins in the order of their priorities: a driver whose devices would not be chosen is left alone, since it may
// take long to start.
std::string best_name(std::string_view but = "") {
  struct Candidate {
    fs::path file;
    std::string name;
    uint32_t priority;
  };
  std::vector<Candidate> candidates;
  for (const fs::path& file : plugin_files()) try {
      const auto plugin = Plugin::load(file);
      candidates.push_back({file, plugin->table().name, plugin->table().priority});
    } catch (const Error&) {  // list_devices() says why
    }
  std::stable_sort(candidates.begin(), candidates.end(), [](const Candidate& a, const Candidate& b) {
    return std::tie(b.priority, a.name) < std::tie(a.priority, b.name);
  });
  for (const Candidate& candidate : candidates) {
    if (candidate.priority == 0 || (!but.empty() && candidate.name == but)) continue;
    for (const DeviceInfo& info : ask(candidate.file))
      if (info.reason.empty()) return info.name;
  }
  std::string reasons;
  for (const DeviceInfo& info : list_devices()) {
    if (!but.empty() && plugin_of(info) == but) continue;
    reasons +=
        (reasons.empty() ? "" : "; ") + (info.reason.empty() ? info.name + " is never chosen by itself" : info.reason);
  }
  fail(ErrorKind::kDevice, "no device was found: {}",
       reasons.empty() ? "no plugin is in the library directory or in TRANSOM_PLUGIN_PATH" : reasons);
}

// A plugin of the name asked for is loaded alone: asking all of them costs time at the start.
fs::path file_of(const std::string& name) {
  std::vector<std::string> names;
  for (const fs::path& file : plugin_files()) {
    names.push_back(plugin_name(file));
    if (names.back() == name) return file;
  }
  const std::string advice = advice_for_vendor_name(name);
  fail(ErrorKind::kDevice, "there is no device {}{} Plugins found: {}", quoted(name),
       advice.empty() ? did_you_mean(name, names) : advice, fmt::join(names, ", "));
}

}  // namespace

std::vector<DeviceInfo> list_devices() {
  std::vector<DeviceInfo> all;
  for (const fs::path& file : plugin_files()) {
    const std::vector<DeviceInfo> found = ask(file);
    all.insert(all.end(), found.begin(), found.end());
  }
  std::vector<std::string> directories;
  for (const fs::path& directory : plugin_directories()) directories.push_back(directory.string());
  for (const auto& description : device_descriptions()) {
    if (!description->library.empty()) continue;
    DeviceInfo missing;
    missing.name = description->device;
    missing.description = description->title;
    missing.reason =
        fmt::format("there is no plugin libtransom_{}.so in {}", missing.name, fmt::join(directories, ", "));
    all.push_back(std::move(missing));
  }
  // Devices of one plugin stay in its order.
  std::stable_sort(all.begin(), all.end(), [](const DeviceInfo& a, const DeviceInfo& b) {
    return std::tuple(!a.reason.empty(), ~a.priority, plugin_of(a)) <
           std::tuple(!b.reason.empty(), ~b.priority, plugin_of(b));
  });
  return all;
}

std::shared_ptr<Device> Device::open(const std::string& asked) {
  const char* environment = std::getenv("TRANSOM_DEVICE");
  const std::string name = !asked.empty() ? asked : environment && *environment ? environment : best_name();
  const std::shared_ptr<Opened> place = [&] {
    const std::lock_guard lock(devices().mutex);
    std::shared_ptr<Opened>& found = devices().opened[name];
    if (!found) found = std::make_shared<Opened>();
    return found;
  }();
  const std::lock_guard lock(place->mutex);
  // What was lost is opened anew; tensors on the old one stay lost.
  if (place->device && !place->device->lost()) return place->device;
  place->device.reset();

  const size_t colon = name.find(':');
  uint32_t index = 0;
  if (colon != name.npos) {
    const auto [end, error] = std::from_chars(name.data() + colon + 1, name.data() + name.size(), index);
    if (error != std::errc() || end != name.data() + name.size())
      fail(ErrorKind::kUsage, "device {}: expected a name and perhaps a number, such as cpu or cuda:1", quoted(name));
  }
  std::shared_ptr<Device> device(new Device);
  device->plugin_ = Plugin::load(file_of(name.substr(0, colon)));
  device->name_ = name;
  const transom_plugin& table = device->table();
  transom_error error{};
  uint32_t count = 0;
  device->expect_ok(table.device_count(&count, &error), error);
  if (index >= count) fail(ErrorKind::kDevice, "device {}: there are only {}", name, count);
  device->properties_.struct_size = sizeof(transom_device_properties);
  device->expect_ok(table.device_describe(index, &device->properties_, &error), error);
  if (is_emulated(device->properties_)) device->properties_.flags |= TRANSOM_DEVICE_EMULATED;
  device->expect_ok(table.device_open(index, &device->handle_, &error), error);
  device->expect_ok(table.stream_create(device->handle_, &device->stream_, &error), error);
  place->device = device;
  return device;
}

DeviceInfo describe_device(const Device& device) {
  DeviceInfo info;
  info.name = device.name();
  info.plugin = device.plugin_file().string();
  info.priority = device.table().priority;
  describe(device.properties(), info);
  return info;
}

void set_device(const std::string& name) {
  std::shared_ptr<Device> device = Device::open(name);
  const std::lock_guard lock(devices().mutex);
  devices().chosen = std::move(device);
}

void use_device(const std::string& name) {
  std::shared_ptr<Device> device = Device::open(name);
  const std::lock_guard lock(devices().mutex);
  std::shared_ptr<Device>& used = device_of_thread ? device_of_thread : devices().chosen;
  if (!used) used = device;
  if (used != device)
    fail(ErrorKind::kUsage, "device: expected {}, the device in use, found {}; pipelines of a process share one device",
         used->name(), quoted(name));
}

DeviceScope::DeviceScope(const std::string& name) : device_(Device::open(name)), before_(device_of_thread) {
  device_of_thread = device_;
}

DeviceScope::~DeviceScope() { device_of_thread = before_; }

std::shared_ptr<Device> default_device() {
  if (device_of_thread) return device_of_thread;
  {
    const std::lock_guard lock(devices().mutex);
    if (devices().chosen) return devices().chosen;
  }
  std::shared_ptr<Device> device = Device::open("");
  const std::lock_guard lock(devices().mutex);
  if (!devices().chosen) devices().chosen = std::move(device);
  return devices().chosen;
}

std::string device_name() { return default_device()->name(); }
std::string best_device_but(const std::string& name) { return best_name(name); }

std::string device_report() {
  const std::shared_ptr<Device> device = default_device();
  const char* text = device->table().device_report ? device->table().device_report(device->handle()) : nullptr;
  return text ? text : "{}";
}

MemoryUse memory_use() { return default_device()->memory_use(); }

}  // namespace transom
