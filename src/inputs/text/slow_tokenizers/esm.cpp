// SPDX-License-Identifier: Apache-2.0
#include "inputs/text/slow_tokenizers/esm.h"

#include <algorithm>

#include "inputs/text/components/fields.h"
#include "inputs/text/slow_tokenizers/tokenizer_class_components.h"

namespace transom::text {
namespace {

std::string_view without_spaces(std::string_view line) {
  constexpr std::string_view kSpaces = " \t\r\f\v";
  const size_t first = line.find_first_not_of(kSpaces);
  if (first == line.npos) return {};
  return line.substr(first, line.find_last_not_of(kSpaces) - first + 1);
}

}  // namespace

TokenizerFile read_esm_vocabulary(std::string_view lines, const Json& config, const std::string& where) {
  TokenizerFile file;
  const auto role = [&](const char* key) {
    const Json& token = field(config, key, where);
    if (token.is_null()) return std::string();
    return token.is_string() ? token.get<std::string>() : string_field(token, "content", where + ": " + key);
  };
  const std::string unk = role("unk_token"), cls = role("cls_token"), eos = role("eos_token");
  const std::string special[] = {unk, cls, eos, role("pad_token"), role("mask_token")};
  Json added = Json::array();
  int64_t id = 0;
  for (size_t begin = 0; begin < lines.size(); ++id) {
    const size_t end = std::min(lines.find('\n', begin), lines.size());
    const std::string token(without_spaces(lines.substr(begin, end - begin)));
    begin = end + 1;
    if (token.empty()) continue;
    file.vocabulary->insert(token, id);
    const bool is_special = std::find(std::begin(special), std::end(special), token) != std::end(special);
    added.push_back({{"id", id}, {"content", token}, {"special", is_special}, {"normalized", false}});
  }
  *file.rest = {{"added_tokens", std::move(added)},
                {"pre_tokenizer", {{"type", "WhitespaceSplit"}}},
                {"model", {{"type", "WordLevel"}, {"unk_token", unk}}}};
  if (eos.empty()) {
    (*file.rest)["post_processor"] = template_of({cls}, {}, false, *file.vocabulary, where);
    return file;
  }
  (*file.rest)["post_processor"] = {{"type", "BertProcessing"},
                                    {"cls", pair_of("cls_token", config, *file.vocabulary, where)},
                                    {"sep", pair_of("eos_token", config, *file.vocabulary, where)}};
  return file;
}

}  // namespace transom::text
