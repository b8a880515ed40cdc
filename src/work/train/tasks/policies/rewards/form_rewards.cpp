// SPDX-License-Identifier: Apache-2.0
// Rewards of the form of completions: a regular expression, JSON, a schema, thoughts in front of an answer.
#include <functional>
#include <memory>

#include "base/error.h"
#include "base/files/files.h"
#include "base/json/json.h"
#include "work/generation/constraint/constraint.h"
#include "work/generation/constraint/grammar/patterns.h"
#include "work/train/tasks/policies/rewards/rewards.h"

namespace transom {
namespace {

// The language of a schema, read byte by byte: 256 tokens of one byte each, and one that ends a text.
class SchemaCheck {
 public:
  explicit SchemaCheck(const std::string& schema) {
    std::vector<std::string> bytes;
    for (int byte = 0; byte < 256; ++byte) bytes.emplace_back(1, static_cast<char>(byte));
    bytes.emplace_back();
    start_ =
        constraint::make_constraint(std::make_shared<const constraint::Vocabulary>(bytes, std::vector<int64_t>{kEnd}),
                                    constraint::Kind::kJsonSchema, schema);
  }
  bool allows(std::string_view text) const {
    const std::unique_ptr<TokenConstraint> state = start_->clone();
    std::vector<uint32_t> mask(kEnd / 32 + 1);
    const auto may = [&](int64_t token) { return (mask[static_cast<size_t>(token) / 32] >> (token % 32) & 1) != 0; };
    for (const char c : text) {
      const auto byte = static_cast<int64_t>(static_cast<unsigned char>(c));
      state->allowed(mask);
      if (!may(byte)) return false;
      state->accept(byte);
    }
    state->allowed(mask);
    return may(kEnd);
  }

 private:
  static constexpr int64_t kEnd = 256;
  std::shared_ptr<const TokenConstraint> start_;
};

std::string_view without_space(std::string_view text) {
  const auto first = text.find_first_not_of(" \t\r\n");
  return first == text.npos ? "" : text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1);
}

bool is_json_text(const std::string& text) {
  try {
    return !parse_json(std::string(without_space(text)), "a completion").is_discarded();
  } catch (const Error&) {
    return false;
  }
}

// TRL's: <think> begins the text, comes once, and is closed.
bool thinks_first(std::string_view text) {
  constexpr std::string_view kOpen = "<think>", kClose = "</think>";
  if (!text.starts_with(kOpen)) return false;
  const std::string_view rest = text.substr(kOpen.size());
  return rest.find(kOpen) == rest.npos && rest.find(kClose) != rest.npos;
}

RewardFunction each_text(std::function<bool(const std::string&)> holds) {
  return [holds = std::move(holds)](const RewardRequest& request) {
    std::vector<std::optional<double>> rewards;
    for (const std::string& text : request.completions) rewards.emplace_back(holds(text) ? 1.0 : 0.0);
    return rewards;
  };
}

}  // namespace

Reward form_reward(const std::string& kind, const std::string& argument) {
  if (kind == "json") return {kind, each_text(is_json_text)};
  if (kind == "think_format_reward") return {kind, each_text(thinks_first)};
  if (kind == "json_schema") {
    const auto schema = std::make_shared<const SchemaCheck>(read_file(argument, uint64_t{1} << 18));
    return {kind, each_text([schema](const std::string& text) { return schema->allows(without_space(text)); })};
  }
  try {
    static_cast<void>(constraint::matches_pattern(argument, ""));
  } catch (const Error& error) {
    fail(ErrorKind::kUsage, "--reward_funcs: pattern: {}", error.what());
  }
  return {kind, each_text([argument](const std::string& text) { return constraint::matches_pattern(argument, text); })};
}

}  // namespace transom
