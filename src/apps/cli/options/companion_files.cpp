// SPDX-License-Identifier: Apache-2.0
#include "apps/cli/options/companion_files.h"

#include "base/files/directories.h"
#include "files/hub/adapters.h"
#include "files/hub/model_files.h"

namespace transom {
namespace {

constexpr uint64_t kMaximumFile = uint64_t{1} << 30;

void copy_absent(const fs::path& from, const fs::path& to) {
  if (!path_exists(to)) write_file(to, read_file(from, kMaximumFile));
}

void copy_files_of(const fs::path& model, const fs::path& output) {
  for (const std::string_view name : description_files())
    if (name != "config.json" && path_exists(model / name)) copy_absent(model / name, output / name);
  // 1_Pooling/config.json, 2_Dense/model.safetensors and the like, which modules.json names.
  if (!path_exists(model / "modules.json")) return;
  for (const fs::path& module : list_directory(model)) {
    if (!directory_exists(module) || !path_exists(module / "config.json")) continue;
    make_directories(output / module.filename());
    for (const char* name : {"config.json", "model.safetensors", "pytorch_model.bin"})
      if (path_exists(module / name)) copy_absent(module / name, output / module.filename() / name);
  }
}

}  // namespace

void copy_companion_files(const fs::path& model, const fs::path& output) {
  make_directories(output);
  copy_files_of(model, output);
  if (const fs::path base = base_of_adapters(model); base != model) copy_files_of(base, output);
}

}  // namespace transom
