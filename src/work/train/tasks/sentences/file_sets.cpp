// SPDX-License-Identifier: Apache-2.0
#include "work/train/tasks/sentences/file_sets.h"

#include "base/error.h"
#include "inputs/data/columns.h"

namespace transom {
namespace {

Json files_of(const std::string& given, const std::string& argument) {
  const Json object = parse_json(given, argument);
  if (object.empty()) fail(ErrorKind::kUsage, "{}: expected a file for each set, found none", argument);
  for (const auto& [name, path] : object.items())
    if (!path.is_string() || name.empty())
      fail(ErrorKind::kUsage, "{}: expected names with a file each, found {}", argument, quoted(dump_json(object)));
  return object;
}

}  // namespace

std::vector<FileSet> file_sets(const std::optional<std::string>& given, const std::string& argument,
                               const ScriptArguments& script, std::optional<int64_t> limit) {
  std::vector<FileSet> sets;
  if (!given) return sets;
  const auto load = [&](const std::string& name, const std::string& path) {
    const Dataset data = Dataset::load(path, dataset_options(script));
    sets.push_back({name, limit ? data.first(std::min(*limit, data.size())) : data});
    if (sets.back().data.size() == 0) fail("{}: expected rows, found none", path);
  };
  if (!given->starts_with('{')) {
    load("", *given);
    return sets;
  }
  const Json files = files_of(*given, argument);
  for (const auto& [name, path] : files.items()) load(name, path.get<std::string>());
  return sets;
}

std::string first_file(const std::string& given) {
  return given.starts_with('{') ? files_of(given, "--train_file").begin()->get<std::string>() : given;
}

std::string of_set(const std::string& text, const std::string& set, const std::string& argument) {
  if (!text.starts_with('{')) return text;
  const Json object = parse_json(text, argument);
  const auto found = object.find(set);
  if (set.empty() || found == object.end() || !found->is_string())
    fail(ErrorKind::kUsage, "{}: expected one for each set of --train_file{}, found {}", argument,
         set.empty() ? ", which is to be an object too" : fmt::format(" ({} among them)", set), quoted(text));
  return found->get<std::string>();
}

}  // namespace transom
