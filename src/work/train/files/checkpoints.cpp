// SPDX-License-Identifier: Apache-2.0
#include "work/train/files/checkpoints.h"

#include <algorithm>
#include <charconv>

#include "base/files/directories.h"
#include "base/files/files.h"
#include "base/files/paths.h"
#include "work/train/files/manifest.h"

namespace transom {
namespace {

constexpr std::string_view kPrefix = "checkpoint-";

}  // namespace

std::string checkpoint_name(int64_t step) { return std::string(kPrefix) + std::to_string(step); }

std::optional<int64_t> checkpoint_step(const std::string& name) {
  if (!name.starts_with(kPrefix) || name.size() == kPrefix.size()) return std::nullopt;
  int64_t step = 0;
  const char* end = name.data() + name.size();
  const auto result = std::from_chars(name.data() + kPrefix.size(), end, step);
  if (result.ec != std::errc() || result.ptr != end || step < 0) return std::nullopt;
  return step;
}

std::vector<std::string> sorted_checkpoints(const std::vector<std::string>& names) {
  std::vector<std::string> result;
  std::copy_if(names.begin(), names.end(), std::back_inserter(result),
               [](const auto& name) { return checkpoint_step(name); });
  std::sort(result.begin(), result.end(),
            [](const auto& a, const auto& b) { return checkpoint_step(a) < checkpoint_step(b); });
  return result;
}

std::vector<std::string> checkpoints_in(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  std::error_code unknown;
  for (const std::filesystem::path& entry : entries_of(folder))
    if (std::filesystem::is_directory(entry, unknown)) names.push_back(entry.filename().string());
  return sorted_checkpoints(names);
}

std::optional<std::string> last_whole_checkpoint(const std::filesystem::path& folder) {
  auto names = checkpoints_in(folder);
  std::error_code none;
  while (!names.empty() && !(std::filesystem::exists(folder / names.back() / "trainer_state.json", none) &&
                             has_all_files(folder / names.back())))
    names.pop_back();
  return last_checkpoint(names);
}

void remove_checkpoints(const std::filesystem::path& folder) {
  for (const std::string& name : checkpoints_in(folder))
    if (file_exists(folder / name / "trainer_state.json")) remove_directory(folder / name);
}

void remove_unfinished_checkpoints(const std::filesystem::path& folder) {
  constexpr std::string_view kRemoved = ".old";
  std::error_code none;
  for (const std::filesystem::path& entry : entries_of(folder)) {
    std::string name = entry.filename().string();
    if (!name.starts_with(kUnfinishedPrefix)) continue;
    name.erase(0, kUnfinishedPrefix.size());
    if (name.ends_with(kRemoved)) name.resize(name.size() - kRemoved.size());
    if (checkpoint_step(name)) std::filesystem::remove_all(entry, none);
  }
}

std::optional<std::string> last_checkpoint(const std::vector<std::string>& names) {
  const auto sorted = sorted_checkpoints(names);
  if (sorted.empty()) return std::nullopt;
  return sorted.back();
}

std::vector<std::string> checkpoints_to_delete(const std::vector<std::string>& names, std::optional<int64_t> limit,
                                               const std::optional<std::string>& best) {
  const auto sorted = sorted_checkpoints(names);
  if (limit.value_or(0) <= 0 || sorted.empty()) return {};
  const auto stays = [&](const std::string& name) { return name == sorted.back() || name == best; };
  const auto kept = std::max<size_t>(static_cast<size_t>(*limit), best && *best != sorted.back() ? 2 : 1);
  std::vector<std::string> result;
  for (const std::string& name : sorted) {
    if (sorted.size() - result.size() <= kept) break;
    if (!stays(name)) result.push_back(name);
  }
  return result;
}

std::vector<std::string> checkpoints_to_delete_at_end(const std::vector<std::string>& names,
                                                      std::optional<int64_t> limit,
                                                      const std::optional<std::string>& best) {
  if (limit != 1 || !best) return {};
  auto result = sorted_checkpoints(names);
  std::erase(result, *best);
  return result;
}

}  // namespace transom
