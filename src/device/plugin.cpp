// SPDX-License-Identifier: Apache-2.0
#include "device/plugin.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <set>

#include "base/error.h"
#include "base/log.h"
#include "base/threads.h"

namespace transom {
namespace {

const transom_host& host() {
  static const transom_host value = {
      .struct_size = sizeof(transom_host),
      .major = TRANSOM_PLUGIN_MAJOR,
      .minor = TRANSOM_PLUGIN_MINOR,
      .log = [](int32_t level, const char* text) { log(static_cast<LogLevel>(level), text); },
      .threads = static_cast<uint32_t>(thread_count()),
      .parallel = [](size_t count, void* context, transom_parallel_body body) { parallel(count, context, body); }};
  return value;
}

}  // namespace

void expect_ok(transom_status status, const transom_error& error, std::string_view what) {
  if (status == TRANSOM_OK) return;
  const size_t length = strnlen(error.text, sizeof error.text);
  fail(ErrorKind::kDevice, "{}: {}", what, length ? std::string_view(error.text, length) : "the plugin gave no reason");
}

std::shared_ptr<const Plugin> Plugin::load(const fs::path& path) {
  std::shared_ptr<Plugin> plugin(new Plugin);
  plugin->path_ = path;
  plugin->library_ = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!plugin->library_) fail(ErrorKind::kDevice, "{}: cannot be loaded: {}", path.string(), dlerror());
  const auto open = reinterpret_cast<transom_plugin_open_function>(dlsym(plugin->library_, "transom_plugin_open"));
  if (!open) fail(ErrorKind::kDevice, "{}: is no Transom plugin: it exports no transom_plugin_open", path.string());
  plugin->table_.struct_size = sizeof(transom_plugin);
  transom_error error{};
  expect_ok(open(&host(), &plugin->table_, &error), error, path.string());
  plugin->check();
  return plugin;
}

void Plugin::check() const {
  const std::string file = path_.string();
  if (table_.major != TRANSOM_PLUGIN_MAJOR)
    fail(ErrorKind::kDevice,
         "{}: speaks version {}.{} of the plugin interface, this Transom speaks {}.{}; build the plugin anew", file,
         table_.major, table_.minor, TRANSOM_PLUGIN_MAJOR, TRANSOM_PLUGIN_MINOR);
  if (!table_.name || !table_.version) fail(ErrorKind::kDevice, "{}: the plugin gives no name or version", file);
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
}

// Libraries stay loaded: a plugin may have threads or handlers that outlive its last device.
Plugin::~Plugin() = default;

std::vector<fs::path> plugin_files() {
  std::vector<fs::path> directories;
  if (const char* path = std::getenv("TRANSOM_PLUGIN_PATH")) {
    std::string_view rest = path;
    while (!rest.empty()) {
      const size_t end = std::min(rest.find(':'), rest.size());
      if (end > 0) directories.emplace_back(rest.substr(0, end));
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
  }
  Dl_info info{};
  if (dladdr(reinterpret_cast<void*>(&plugin_files), &info) && info.dli_fname)
    directories.push_back(fs::canonical(info.dli_fname).parent_path() / "transom");

  std::vector<fs::path> files;
  std::set<std::string> names;
  for (const fs::path& directory : directories) {
    std::error_code ignored;
    std::vector<fs::path> found;
    for (const auto& entry : fs::directory_iterator(directory, ignored)) {
      const std::string name = entry.path().filename().string();
      if (name.starts_with("libtransom_") && name.ends_with(".so")) found.push_back(entry.path());
    }
    std::sort(found.begin(), found.end());
    for (const fs::path& file : found)
      if (names.insert(file.filename().string()).second) files.push_back(file);
  }
  return files;
}

}  // namespace transom
