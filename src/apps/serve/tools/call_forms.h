// SPDX-License-Identifier: Apache-2.0
// The forms in which families of models write calls of tools: what begins and ends a call, and what stands between.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json/json.h"

namespace transom::serve {

struct ToolCall {
  std::string name;
  std::string arguments;      // a JSON object as text; the numbers have the digits that the model wrote
  std::string id;             // as the model wrote it, where its form has one; else empty
  size_t content_before = 0;  // bytes of the answer's content that stand before it
};

// The tools of a request, by name; the parameters that their schemas know.
class KnownTools {
 public:
  explicit KnownTools(const Json& tools);
  KnownTools(const KnownTools&) = delete;
  KnownTools& operator=(const KnownTools&) = delete;
  bool has(std::string_view name) const { return functions_.find(name) != functions_.end(); }
  // The type that the schema gives a parameter: "string" ...; empty where it says none, or several.
  std::string type_of(std::string_view name, const std::string& parameter) const;

 private:
  Json tools_;
  std::map<std::string, const Json*, std::less<>> functions_;
};

struct CallForm {
  std::string_view open, close;  // the marks; a mark at the end may be missing
  enum Kind { kAny, kTagged, kHarmony } kind = kAny;
};

// All forms; where one mark begins with another, the longer one comes first.
std::span<const CallForm> call_forms();
// Marks around several calls, which say nothing of their own.
std::span<const std::string_view> frames_before_calls();
std::span<const std::string_view> frames_behind_calls();

// What stands at a mark.
struct FoundCalls {
  enum State {
    kCalls,
    kNoCall,
    kMore,   // what follows decides
    kHeader  // no call; harmony's words before a message, which are not shown
  } state = kNoCall;
  size_t length = 0;   // with the marks
  size_t visited = 0;  // bytes that were looked at: the work
  struct Part {
    std::optional<ToolCall> call;  // none: what stands beside calls and is none
    size_t begin = 0, end = 0;     // where it stands
  };
  std::vector<Part> parts;  // of kCalls, of which one at least is a call
};

// `text` begins with the open mark of the form; `ended`: nothing follows it.
FoundCalls calls_at(std::string_view text, const CallForm& form, const KnownTools& tools, bool ended);
// The same where an answer without marks begins with { or [.
FoundCalls bare_calls_at(std::string_view text, const KnownTools& tools, bool ended);

}  // namespace transom::serve
