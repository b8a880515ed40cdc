// SPDX-License-Identifier: Apache-2.0
// Rows that list objects, each with the name or the number of its class, and the classes that a model needs for them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/json/json.h"
#include "files/family/heads.h"
#include "transom/dataset.h"

namespace transom {

constexpr const char* kObjectClassColumn = "objects.category";

// A list of a row, as JSON.
Json list_of_objects(const Value& value, const std::string& where);
// The names of the classes of a row; of numbers their digits.
std::vector<std::string> object_names(const Value& value, const std::string& where);
// The names of classes that these objects need: none where `known` are enough.
std::vector<std::string> new_object_classes(std::vector<std::string> names, const std::vector<std::string>& known);
// The number of a class by its name or digits.
int64_t object_class(const std::string& name, const std::vector<std::string>& classes, const std::string& where);
// The classes of a checkpoint that has a head for the task already; none of others.
std::vector<std::string> classes_of_checkpoint(const std::filesystem::path& directory, HeadTask task);

}  // namespace transom
