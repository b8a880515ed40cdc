// SPDX-License-Identifier: Apache-2.0
// A family that is read from a file, share/transom/families/NAME.json or a file of a user: the record of a decoder
// whose mathematics is put together from known options. docs/guide/a-family-as-data.md describes the file.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/json/json_fwd.h"
#include "files/family/family.h"

namespace transom {

// What is missing, unknown or contradictory in a file, one line each; empty: a family can be made of it. Throws where
// it is no JSON object.
std::vector<std::string> findings_of_family(const Json& file);

// The record. Throws the first finding, with `where` before it.
Family described_family(std::shared_ptr<const Json> file, const std::string& where);

// Reads a file: at most 1 MiB.
std::shared_ptr<const Json> read_family_file(const std::filesystem::path& path);

}  // namespace transom
