// SPDX-License-Identifier: Apache-2.0
// What the commands share about models that are named by an id of the Hugging Face Hub.
#include <memory>

#include "apps/cli/command.h"
#include "base/terminal/progress.h"

namespace transom {

void ModelOptions::add_to(Command& command) {
  const auto add = [&](const char* name, auto* value, const char* help) {
    command.options.push_back({.name = name, .value = value, .help = help, .group = kModelGroup});
  };
  add("--revision", &revision, "branch, tag or commit of a model of the Hub");
  add("--token", &token, "for private models (default: HF_TOKEN)");
  add("--cache_dir", &cache_dir, "where models are kept (default: HF_HUB_CACHE)");
  add("--local_files_only", &local_files_only, "download nothing, as with HF_HUB_OFFLINE=1");
}

HubOptions ModelOptions::hub() const {
  return {.revision = revision,
          .token = token,
          .cache_dir = cache_dir,
          .local_files_only = local_files_only,
          .progress = download_bars()};
}

std::function<void(const std::string& file, int64_t done, int64_t total)> download_bars() {
  struct Bar {
    std::string file;
    std::unique_ptr<Progress> progress;
  };
  return [bar = std::make_shared<Bar>()](const std::string& file, int64_t done, int64_t total) {
    if (!bar->progress || bar->file != file) {
      bar->progress.reset();  // ends the line of the file before
      bar->progress = std::make_unique<Progress>(stderr, file, total, "B", done);
      bar->file = file;
    }
    bar->progress->update(done);
    if (done == total) bar->progress.reset();
  };
}

}  // namespace transom
