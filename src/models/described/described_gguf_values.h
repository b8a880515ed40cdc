// SPDX-License-Identifier: Apache-2.0
// What a family file's section "gguf" computes of a configuration or of a file's metadata.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json/json_fwd.h"
#include "files/family/gguf.h"

namespace transom {

// Whether a key of the section is among those that its place knows.
bool is_gguf_word(std::span<const std::string_view> words, std::string_view word);

// "written", "read", "values", "told" and "architecture" of the section, and the names of the family file's own options
// in them.
void check_gguf_values(const Json& file, std::vector<std::string>& findings);
// Sets what they say; of a file without findings.
void add_gguf_values(GgufFamily& gguf, std::shared_ptr<const Json> file);

// A name's rule: a module, or an object of "module", "change", "ending", "when", "rows", "columns" and "parts".
void check_gguf_rule(const Json& file, const Json& rule, const std::string& path, std::vector<std::string>& findings);
GgufName gguf_rule(const std::string& gguf, const Json& rule, std::shared_ptr<const Json> file);

}  // namespace transom
