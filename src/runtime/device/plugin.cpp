// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/plugin.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <set>

#include "base/error.h"
#include "base/files/files.h"
#include "base/files/paths.h"
#include "base/terminal/log.h"
#include "base/threads/threads.h"
#include "graph/ops/plugin_nodes.h"
#include "runtime/device/descriptions/descriptions.h"
#include "runtime/device/exchange.h"
#include "runtime/device/probe.h"

namespace transom {
namespace {

const transom_host& host() {
  static const transom_host value = {
      .struct_size = sizeof(transom_host),
      .major = TRANSOM_PLUGIN_MAJOR,
      .minor = TRANSOM_PLUGIN_MINOR,
      .log =
          [](int32_t level, const char* text) {
            log(static_cast<LogLevel>(std::clamp<int32_t>(level, TRANSOM_LOG_DEBUG, TRANSOM_LOG_WARNING)), text);
          },
      .threads = static_cast<uint32_t>(thread_count()),
      .parallel = [](size_t count, void* context, transom_parallel_body body) { parallel(count, context, body); },
      .release =
          [](const void* data, size_t bytes) {
            release_mapped({static_cast<const std::byte*>(data), bytes});
          },
      .exchange = exchange_of_host,
      .evaluates = evaluates_on_host,
      .evaluate = evaluate_on_host};
  return value;
}

// What a plugin wrote, on one line.
std::string one_line(std::string_view text) {
  std::string line(text);
  for (char& c : line)
    if (static_cast<unsigned char>(c) < ' ' || c == 127) c = ' ';
  while (!line.empty() && line.back() == ' ') line.pop_back();
  return line;
}

}  // namespace

std::string text_of(const char* text, size_t limit) { return one_line({text, strnlen(text, limit)}); }

std::string plugin_name(const fs::path& file) {
  const std::string stem = file.stem().string();
  return stem.starts_with("libtransom_") ? stem.substr(std::strlen("libtransom_")) : stem;
}

void expect_ok(transom_status status, const transom_error& error, std::string_view what) {
  if (status == TRANSOM_OK) return;
  std::string text = text_of(error.text, sizeof error.text);
  if (text.empty()) text = fmt::format("the plugin gave no reason (status {})", static_cast<int>(status));
  switch (status) {
    case TRANSOM_OUT_OF_MEMORY:
      fail(ErrorKind::kOutOfMemory, "{}: out of device memory: {}", what, text);
    case TRANSOM_DEVICE_LOST:
      fail(ErrorKind::kDeviceLost, "{}: the device is lost, and what was on it: {}", what, text);
    case TRANSOM_UNSUPPORTED:
      fail(ErrorKind::kUnsupported, "{}: not supported: {}", what, text);
    default:
      fail(ErrorKind::kDevice, "{}: {}", what, text);
  }
}

namespace {

// One file. What a plugin writes when it is opened, such as its host's table, other threads read while they compute: it
// is opened once, and stays. Another file's trial holds up nobody.
struct PluginFile {
  std::mutex mutex;
  std::shared_ptr<const Plugin> opened;
};

PluginFile& plugin_file(const fs::path& path) {
  static std::mutex mutex;
  static auto& files = *new std::map<fs::path, PluginFile>;  // outlives all that load
  std::error_code none;
  const fs::path file = fs::canonical(path, none);  // one file may have several names
  const std::lock_guard lock(mutex);
  return files[none ? path : file];
}

}  // namespace

std::shared_ptr<const Plugin> Plugin::load(const fs::path& path) {
  PluginFile& file = plugin_file(path);
  const std::lock_guard lock(file.mutex);
  if (file.opened) return file.opened;
  std::shared_ptr<Plugin> plugin(new Plugin);
  plugin->path_ = path;
  if (!loads_no_driver(path)) probe_plugin(path);
  plugin->library_ = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!plugin->library_) fail(ErrorKind::kDevice, "{}: cannot be loaded: {}", path.string(), dlerror());
  const auto open = reinterpret_cast<transom_plugin_open_function>(dlsym(plugin->library_, "transom_plugin_open"));
  if (!open) fail(ErrorKind::kDevice, "{}: is no Transom plugin: it exports no transom_plugin_open", path.string());
  plugin->table_.struct_size = sizeof(transom_plugin);
  transom_error error{};
  expect_ok(open(&host(), &plugin->table_, &error), error, path.string());
  plugin->check();
  plugin->buffer_defer_ =
      reinterpret_cast<transom_buffer_defer_function>(dlsym(plugin->library_, "transom_buffer_defer"));
  plugin->buffer_defer_parts_ =
      reinterpret_cast<transom_buffer_defer_parts_function>(dlsym(plugin->library_, "transom_buffer_defer_parts"));
  file.opened = plugin;
  return plugin;
}

void Plugin::check() const {
  const std::string file = path_.string();
  if (table_.major != TRANSOM_PLUGIN_MAJOR)
    fail(ErrorKind::kDevice,
         "{}: speaks version {}.{} of the plugin interface, this Transom speaks {}.{}; build the plugin anew", file,
         table_.major, table_.minor, TRANSOM_PLUGIN_MAJOR, TRANSOM_PLUGIN_MINOR);
  // What 1.0 had; a table cannot have written more than it was given room for.
  constexpr size_t kLeast = offsetof(transom_plugin, host_allocate);
  if (table_.struct_size < kLeast || table_.struct_size > sizeof(transom_plugin))
    fail(ErrorKind::kDevice, "{}: the plugin filled in {} bytes of its table, expected {} to {}", file,
         table_.struct_size, kLeast, sizeof(transom_plugin));
  if (!table_.name || !table_.version) fail(ErrorKind::kDevice, "{}: the plugin gives no name or version", file);
  if (plugin_name(path_) != table_.name)
    fail(ErrorKind::kDevice, "{}: the plugin calls itself {}; its file must be libtransom_{}.so", file,
         quoted(table_.name), text_of(table_.name, 64));
#define REQUIRE(function) \
  if (!table_.function)   \
  fail(ErrorKind::kDevice, "{}: the plugin '{}' lacks the function {}", file, table_.name, #function)
  REQUIRE(device_count);
  REQUIRE(device_describe);
  REQUIRE(device_open);
  REQUIRE(device_close);
  REQUIRE(buffer_allocate);
  REQUIRE(buffer_free);
  REQUIRE(copy_to_device);
  REQUIRE(copy_to_host);
  REQUIRE(copy_on_device);
  REQUIRE(stream_create);
  REQUIRE(stream_destroy);
  REQUIRE(stream_synchronize);
  REQUIRE(claims);
  REQUIRE(compile);
  REQUIRE(executable_destroy);
  REQUIRE(run);
#undef REQUIRE
  // Groups of which all or none are there.
  const auto whole = [&](std::string_view group, std::initializer_list<bool> members) {
    const auto there = std::count(members.begin(), members.end(), true);
    if (there != 0 && there != static_cast<std::ptrdiff_t>(members.size()))
      fail(ErrorKind::kDevice, "{}: the plugin '{}' has {} of the {} functions for {}; all or none are expected", file,
           table_.name, there, members.size(), group);
  };
  const transom_plugin& t = table_;
  whole("events", {t.event_create != nullptr, t.event_destroy != nullptr, t.event_record != nullptr,
                   t.event_wait != nullptr, t.event_elapsed != nullptr});
  whole("capture", {t.capture_begin != nullptr, t.capture_end != nullptr, t.capture_replay != nullptr,
                    t.capture_destroy != nullptr});
  whole("collectives",
        {t.communicator_id != nullptr, t.communicator_create != nullptr, t.communicator_destroy != nullptr,
         t.all_reduce != nullptr, t.all_gather != nullptr, t.reduce_scatter != nullptr, t.broadcast != nullptr});
  whole("messages",
        {t.send != nullptr, t.receive != nullptr, t.message_group_begin != nullptr, t.message_group_end != nullptr});
  whole("host memory", {t.host_allocate != nullptr, t.host_free != nullptr});
}

// Libraries stay loaded: a plugin may have threads or handlers that outlive its last device.
Plugin::~Plugin() = default;

fs::path own_plugin_directory() {
  Dl_info info{};
  if (!dladdr(reinterpret_cast<void*>(&plugin_files), &info) || !info.dli_fname) return {};
  std::error_code ignored;
  return fs::canonical(info.dli_fname, ignored).parent_path() / "transom";
}

std::vector<fs::path> plugin_directories() {
  std::vector<fs::path> directories;
  if (const char* path = std::getenv("TRANSOM_PLUGIN_PATH")) {
    std::string_view rest = path;
    while (!rest.empty()) {
      const size_t end = std::min(rest.find(':'), rest.size());
      if (end > 0) directories.emplace_back(rest.substr(0, end));
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
  }
  if (const fs::path own = own_plugin_directory(); !own.empty()) directories.push_back(own);
  return directories;
}

std::vector<fs::path> plugin_files() {
  const std::vector<fs::path> directories = plugin_directories();
  std::vector<fs::path> files;
  std::set<std::string> names;
  for (const fs::path& directory : directories) {
    std::error_code ignored;
    if (!fs::is_directory(directory, ignored))
      log(LogLevel::kWarning, fmt::format("TRANSOM_PLUGIN_PATH: there is no directory {}", directory.string()));
    for (const fs::path& file : entries_of(directory)) {
      const std::string name = file.filename().string();
      if (name.starts_with("libtransom_") && name.ends_with(".so") && names.insert(name).second) files.push_back(file);
    }
  }
  return files;
}

}  // namespace transom
