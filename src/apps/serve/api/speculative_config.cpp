// SPDX-License-Identifier: Apache-2.0
#include "apps/serve/api/speculative_config.h"

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "base/json/json.h"

namespace transom::serve {
namespace {

constexpr const char* kWhere = "--speculative_config";
constexpr int64_t kMostTokens = 1024;  // of a draft or a match

class Fields {
 public:
  explicit Fields(Json json) : json_(std::move(json)) {}
  std::string text(const char* name, const char* otherwise = "") {
    const Json value = take(name);
    if (value.is_null()) return otherwise;
    if (!value.is_string()) refuse(name, "a text", value);
    return value.get<std::string>();
  }
  std::optional<int64_t> count(const char* name, int64_t least, int64_t most = kMostTokens) {
    const Json value = take(name);
    if (value.is_null()) return std::nullopt;
    if (!value.is_number_integer() || value < least || value > most)
      refuse(name, fmt::format("a whole number from {} to {}", least, most).c_str(), value);
    return value.get<int64_t>();
  }
  double number(const char* name, double otherwise, double least, double most) {
    const Json value = take(name);
    if (value.is_null()) return otherwise;
    if (!value.is_number() || value < least || value > most)
      refuse(name, fmt::format("a number from {} to {}", least, most).c_str(), value);
    return value.get<double>();
  }
  // What nobody has asked for is not of this method, or unknown.
  void expect_empty(const std::string& method) const {
    if (json_.empty()) return;
    fail(ErrorKind::kUsage, "{}: {} is not a field of the method {} here; leave it out", kWhere,
         quoted(json_.begin().key()), quoted(method));
  }

 private:
  Json take(const char* name) {
    const auto found = json_.find(name);
    if (found == json_.end()) return nullptr;
    Json value = *found;
    json_.erase(found);
    return value;
  }
  [[noreturn]] static void refuse(const char* name, const char* expected, const Json& found) {
    fail(ErrorKind::kUsage, "{}: {}: expected {}, found {}", kWhere, quoted(name), expected, dump_json(found));
  }
  Json json_;
};

void read_lookup(Fields& fields, DraftOptions& drafts) {
  drafts.method = DraftOptions::Method::kLookup;
  const std::optional<int64_t> most = fields.count("prompt_lookup_max", 1),
                               least = fields.count("prompt_lookup_min", 1);
  // As vLLM: of one that is given the other is the same.
  drafts.lookup_most = most ? *most : least.value_or(drafts.lookup_most);
  drafts.lookup_least = least ? *least : most.value_or(drafts.lookup_most);
  if (drafts.lookup_least > drafts.lookup_most)
    fail(ErrorKind::kUsage, "{}: prompt_lookup_min = {} is more than prompt_lookup_max = {}", kWhere,
         drafts.lookup_least, drafts.lookup_most);
}

void read_suffix(Fields& fields, DraftOptions& drafts, std::optional<int64_t> tokens) {
  drafts.method = DraftOptions::Method::kSuffix;
  drafts.suffix_depth = fields.count("suffix_decoding_max_tree_depth", 2).value_or(drafts.suffix_depth);
  drafts.suffix_factor = fields.number("suffix_decoding_max_spec_factor", drafts.suffix_factor, 1e-3, 1e3);
  drafts.suffix_least = fields.number("suffix_decoding_min_token_prob", drafts.suffix_least, 0, 1);
  // Answers are bounded by their memory, and not counted.
  if (const auto answers = fields.count("suffix_decoding_max_cached_requests", 0, std::numeric_limits<int64_t>::max());
      answers == 0)
    drafts.suffix_bytes = 0;
  else if (answers)
    fail(
        ErrorKind::kUsage,
        "{}: \"suffix_decoding_max_cached_requests\": expected 0, or nothing: earlier answers have {} MiB, and are not "
        "counted; found {}",
        kWhere, drafts.suffix_bytes >> 20, *answers);
  drafts.tokens = tokens.value_or(drafts.suffix_depth);
}

}  // namespace

void read_speculative_config(const std::string& text, ServeOptions& options) {
  const Json json = parse_json(text, kWhere);
  if (!json.is_object()) fail(ErrorKind::kUsage, "{}: expected a JSON object, found {}", kWhere, quoted(text));
  if (!options.assistant_model.empty())
    fail(ErrorKind::kUsage, "{}: not with --assistant_model, which is the method draft_model", kWhere);
  Fields fields(json);
  const std::string model = fields.text("model"), method = fields.text("method", model.empty() ? "" : "draft_model");
  const std::optional<int64_t> tokens = fields.count("num_speculative_tokens", 1);
  DraftOptions& drafts = options.drafts;
  if (tokens) drafts.tokens = *tokens;
  if (method == "draft_model") {
    if (model.empty()) fail(ErrorKind::kUsage, "{}: \"model\" is missing", kWhere);
    options.assistant_model = model;
    options.num_assistant_tokens = tokens.value_or(options.num_assistant_tokens);
  } else if (method == "ngram") {
    read_lookup(fields, drafts);
  } else if (method == "suffix") {
    read_suffix(fields, drafts, tokens);
  } else if (method == "eagle3") {
    if (model.empty()) fail(ErrorKind::kUsage, "{}: \"model\" is missing: the directory of the head", kWhere);
    drafts.method = DraftOptions::Method::kHead;
    options.draft_head = model;
  } else if (method == "mtp" || method.ends_with("_mtp")) {  // vLLM's other names say of which family
    drafts.method = DraftOptions::Method::kHead;
  } else {
    fail(ErrorKind::kUsage, "{}: \"method\": expected draft_model, ngram, suffix, eagle3 or mtp, found {}", kWhere,
         quoted(method));
  }
  if (!model.empty() && method != "draft_model" && method != "eagle3")
    fail(ErrorKind::kUsage, "{}: the method {} has no \"model\"; leave it out", kWhere, quoted(method));
  fields.expect_empty(method);
}

}  // namespace transom::serve
