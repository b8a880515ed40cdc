// SPDX-License-Identifier: Apache-2.0
// transom pull, list and rm: the models of the Hugging Face Hub that are on this machine.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <ctime>

#include "apps/cli/command.h"
#include "base/error.h"
#include "base/json/json.h"
#include "files/hub/listing/cached_models.h"
#include "files/hub/names.h"

namespace transom {
namespace {

struct CachedModelArguments {
  std::vector<std::string> ids;
  ModelOptions source;
  std::optional<std::string> cache_dir;
  bool json = false;
};

std::string shown_size(int64_t bytes) {
  constexpr const char* kUnits[] = {"B", "KB", "MB", "GB", "TB"};
  auto size = static_cast<double>(bytes);
  size_t unit = 0;
  while (size >= 1000 && unit + 1 < std::size(kUnits)) size /= 1000, ++unit;
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.1f} {}", size, kUnits[unit]);
}

std::string shown_time(fs::file_time_type changed) {
  const auto system = std::chrono::time_point_cast<std::chrono::system_clock::duration>(
      changed - fs::file_time_type::clock::now() + std::chrono::system_clock::now());
  const std::time_t seconds = std::chrono::system_clock::to_time_t(system);
  std::tm parts{};
  ::localtime_r(&seconds, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%d %H:%M", &parts);
  return text;
}

int pull_models(const CachedModelArguments& o) {
  for (const std::string& id : o.ids)
    if (!is_model_id(id)) fail(ErrorKind::kUsage, "{}: expected an id of the Hugging Face Hub: owner/name", quoted(id));
  for (const std::string& id : o.ids) std::puts(resolve_model(id, o.source.hub()).c_str());
  return 0;
}

int list_cached(const CachedModelArguments& o) {
  const std::vector<CachedModel> models = cached_models({.cache_dir = o.cache_dir});
  if (o.json) {
    Json all = Json::array();
    for (const CachedModel& model : models)
      all.push_back({{"id", model.id}, {"bytes", model.bytes}, {"commits", model.commits}});
    std::puts(dump_json(all).c_str());
    return 0;
  }
  size_t width = 4;
  for (const CachedModel& model : models) width = std::max(width, model.id.size());
  if (!models.empty())
    std::puts(fmt::format("{:<{}}  {:>9}  {:<16}  revisions", "id", width, "size", "changed").c_str());
  for (const CachedModel& model : models) {
    std::string revisions;
    for (const std::string& commit : model.commits) revisions += (revisions.empty() ? "" : " ") + commit.substr(0, 8);
    std::puts(fmt::format("{:<{}}  {:>9}  {:<16}  {}", model.id, width, shown_size(model.bytes),
                          shown_time(model.changed), revisions)
                  .c_str());
  }
  return 0;
}

int remove_cached(const CachedModelArguments& o) {
  for (const std::string& id : o.ids)
    std::puts(fmt::format("{}: {} less", id, shown_size(remove_cached_model(id, {.cache_dir = o.cache_dir}))).c_str());
  return 0;
}

constexpr const char* kCacheHelp = "where models are kept (default: HF_HUB_CACHE)";

}  // namespace

Command pull_command() {
  static CachedModelArguments o;
  Command command{.name = "pull",
                  .help = "Download models of the Hugging Face Hub, so that they are there when they are needed",
                  .examples = "  transom pull HuggingFaceTB/SmolLM2-135M-Instruct\n"};
  command.options = {{"ID", &o.ids, "ids of models; prints the directory of each", true}};
  o.source.add_to(command);
  command.run = [] { return pull_models(o); };
  return command;
}

Command list_command() {
  static CachedModelArguments o;
  Command command{.name = "list",
                  .help = "List the models of the Hugging Face Hub that are on this machine",
                  .examples = "  transom list\n  transom list --json\n"};
  command.options = {{"--cache_dir", &o.cache_dir, kCacheHelp}, {"--json", &o.json, "JSON in place of a table"}};
  command.run = [] { return list_cached(o); };
  return command;
}

Command remove_command() {
  static CachedModelArguments o;
  Command command{.name = "rm",
                  .help = "Remove models of the Hugging Face Hub from this machine, with all their revisions",
                  .examples = "  transom rm HuggingFaceTB/SmolLM2-135M-Instruct\n"};
  command.options = {{"ID", &o.ids, "ids of models", true}, {"--cache_dir", &o.cache_dir, kCacheHelp}};
  command.run = [] { return remove_cached(o); };
  return command;
}

}  // namespace transom
