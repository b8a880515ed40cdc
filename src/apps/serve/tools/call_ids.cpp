// SPDX-License-Identifier: Apache-2.0
#include "apps/serve/tools/call_ids.h"

#include <algorithm>
#include <cctype>
#include <deque>
#include <map>
#include <set>

#include "apps/serve/api/request_json.h"
#include "apps/serve/openai/identifiers.h"
#include "base/numbers/fnv.h"
#include "transom/error.h"

namespace transom::serve {
namespace {

constexpr size_t kMistralLength = 9;

bool is_of_nine(const std::string& id) {
  return id.size() == kMistralLength &&
         std::all_of(id.begin(), id.end(), [](unsigned char c) { return std::isalnum(c) && c < 0x80; });
}

// What the template makes of a conversation with one call; nothing where it refuses.
std::optional<std::string> rendered_with(const std::string& id, const Tokenizer& tokenizer,
                                         const ChatOptions& options) {
  const Json call{
      {"id", id}, {"type", "function"}, {"function", {{"name", "probe"}, {"arguments", Json::object({{"a", "b"}})}}}};
  const Json messages{{{"role", "user"}, {"content", "a"}},
                      {{"role", "assistant"}, {"content", ""}, {"tool_calls", Json::array({call})}},
                      {{"role", "tool"}, {"tool_call_id", id}, {"name", "probe"}, {"content", "c"}}};
  try {
    return tokenizer.apply_chat_template(compact(messages), options);
  } catch (const Error&) {
    return std::nullopt;
  }
}

// The same nine characters for the same id.
std::string nine_of(const std::string& id, uint64_t salt) {
  constexpr std::string_view kLetters = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
  uint64_t hash = fnv1a(id, kFnvOffset + salt);
  std::string text;
  for (size_t i = 0; i < kMistralLength; ++i, hash /= kLetters.size()) text += kLetters[hash % kLetters.size()];
  return text;
}

std::string text_field(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

class IdMap {
 public:
  explicit IdMap(CallIds::Form form) : form_(form) {}

  void fit_call(Json& call) {
    const std::string given = text_field(call, "id");
    const std::string name = call.contains("function") ? text_field(call["function"], "name") : "";
    std::string fitting = form_ == CallIds::kFunctionAndNumber ? fmt::format("functions.{}:{}", name, count_)
                          : is_of_nine(given)                  ? given
                                                               : nine_of(given.empty() ? name : given, 0);
    for (uint64_t salt = 1; form_ == CallIds::kNineCharacters && !given_out_.insert(fitting).second; ++salt) {
      if (!given.empty() && known_.contains(given)) break;  // the same id again
      fitting = nine_of(given + name, salt + static_cast<uint64_t>(count_));
    }
    ++count_;
    call["id"] = fitting;
    if (!given.empty()) known_[given] = fitting;
    open_.emplace_back(given, fitting);
  }

  // The result of the call of its id; without one, of the first call that has none yet.
  void fit_result(Json& message) {
    const std::string given = text_field(message, "tool_call_id");
    if (const auto known = known_.find(given); known != known_.end()) message["tool_call_id"] = known->second;
    else if (given.empty() && !open_.empty()) message["tool_call_id"] = open_.front().second;
    else if (form_ == CallIds::kNineCharacters && !is_of_nine(given)) message["tool_call_id"] = nine_of(given, 0);
    const std::string fitting = text_field(message, "tool_call_id");
    const auto answered =
        std::find_if(open_.begin(), open_.end(), [&](const auto& each) { return each.second == fitting; });
    if (answered != open_.end()) open_.erase(answered);
  }

  int64_t count() const { return count_; }

 private:
  CallIds::Form form_;
  std::map<std::string, std::string> known_;
  std::deque<std::pair<std::string, std::string>> open_;  // calls without a result
  std::set<std::string> given_out_;
  int64_t count_ = 0;
};

}  // namespace

std::string CallIds::make(const std::string& function, int64_t number, const std::string& written) const {
  if (form == kNineCharacters) return is_of_nine(written) ? written : new_identifier("", kMistralLength);
  if (form == kFunctionAndNumber)
    return written.starts_with("functions.") ? written : fmt::format("functions.{}:{}", function, known + number);
  return new_identifier("call_");
}

CallIds::Form call_id_form(const Tokenizer& tokenizer, const ChatOptions& options) {
  ChatOptions asked = options;
  asked.continue_final_message = false;
  const std::string usual = "call_" + std::string(24, 'x');
  const std::optional<std::string> text = rendered_with(usual, tokenizer, asked);
  if (!text) return rendered_with("abcdefghi", tokenizer, asked) ? CallIds::kNineCharacters : CallIds::kAny;
  if (text->find("<|tool_call_begin|>" + usual) != text->npos) return CallIds::kFunctionAndNumber;
  return text->find("[CALL_ID]" + usual) != text->npos ? CallIds::kNineCharacters : CallIds::kAny;
}

CallIds fit_call_ids(Json& messages, CallIds::Form form) {
  IdMap ids(form);
  for (Json& message : messages) {
    if (message.contains("tool_calls"))
      for (Json& call : message["tool_calls"])
        if (form != CallIds::kAny) ids.fit_call(call);
    if (form != CallIds::kAny && message["role"] == "tool") ids.fit_result(message);
  }
  return {form, ids.count()};
}

}  // namespace transom::serve
