// SPDX-License-Identifier: Apache-2.0
// The fields of GenerationConfig by their names, for who reads them from words: command lines, requests.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/json/json_fwd.h"
#include "transom/generation.h"

namespace transom {

struct GenerationField {
  std::string_view name;
  std::string_view help;  // empty: known to Transformers, but refused here, or without a meaning
  bool is_flag = false;   // true or false
};

std::vector<GenerationField> generation_fields();

// The file that says how a model generates: generation_config.json, else config.json. Adapters may have one of their
// own beside that of their base.
std::filesystem::path generation_file(const std::filesystem::path& directory);

// What a word on a command line stands for in that field: "4", "true", "None", "never", "[1, 2]", "1,2".
Json generation_value(const std::string& name, const std::string& word);
// Takes over a field that is written so. Refuses what does not fit.
void set_generation_field(GenerationConfig& config, const std::string& name, const std::string& word);

// What is to be said of a field that was given and changes nothing beside the others, "has no effect without
// do_sample"; empty: it changes something, or says what is so anyway.
std::string_view why_without_effect(const GenerationConfig& config, std::string_view name);

}  // namespace transom
