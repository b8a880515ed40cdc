// SPDX-License-Identifier: Apache-2.0
// A loaded plugin, checked: versions, sizes, and that every function that is not optional is there.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/files/files.h"
#include "transom/deferred_memory.h"
#include "transom/device_plugin.h"

namespace transom {

class Plugin {
 public:
  // Throws an Error of kind kDevice that names the file and what is wrong with it.
  static std::shared_ptr<const Plugin> load(const fs::path& path);
  ~Plugin();
  Plugin(const Plugin&) = delete;
  Plugin& operator=(const Plugin&) = delete;

  const transom_plugin& table() const { return table_; }
  // Null where the plugin has no such symbol.
  transom_buffer_defer_function buffer_defer() const { return buffer_defer_; }
  transom_buffer_defer_parts_function buffer_defer_parts() const { return buffer_defer_parts_; }
  const fs::path& path() const { return path_; }

 private:
  Plugin() = default;
  void check() const;
  void* library_ = nullptr;
  transom_plugin table_{};
  transom_buffer_defer_function buffer_defer_ = nullptr;
  transom_buffer_defer_parts_function buffer_defer_parts_ = nullptr;
  fs::path path_;
};

// The libraries libtransom_<name>.so in TRANSOM_PLUGIN_PATH, then in the directory `transom` beside the library itself;
// the first of each name.
std::vector<fs::path> plugin_files();
fs::path own_plugin_directory();                // `transom` beside the library
std::vector<fs::path> plugin_directories();     // where those are looked for
std::string plugin_name(const fs::path& file);  // "cuda" of .../libtransom_cuda.so

// Text of a plugin, zero-terminated or `limit` bytes long, on one line.
std::string text_of(const char* text, size_t limit);

// Throws an Error with the plugin's text unless the status is TRANSOM_OK: of kind kOutOfMemory, kDeviceLost or
// kUnsupported where the status is one of these, else kDevice.
void expect_ok(transom_status status, const transom_error& error, std::string_view what);

}  // namespace transom
