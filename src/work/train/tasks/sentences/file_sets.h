// SPDX-License-Identifier: Apache-2.0
// The sets of rows of a run: one file, or several by their names.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/json/json.h"
#include "transom/dataset.h"
#include "transom/training_arguments.h"

namespace transom {

struct FileSet {
  std::string name;  // empty where there is one file
  Dataset data;
};

// Of --train_file or --validation_file: a path, or an object of paths. Cut to `limit` rows each.
std::vector<FileSet> file_sets(const std::optional<std::string>& given, const std::string& argument,
                               const ScriptArguments& script, std::optional<int64_t> limit);
// The first of them, or the file itself: what --task is found by.
std::string first_file(const std::string& given);

// What an argument says for a set: a text for all of them, or an object with one for each.
std::string of_set(const std::string& text, const std::string& set, const std::string& argument);

}  // namespace transom
