// SPDX-License-Identifier: Apache-2.0
#include "apps/serve/tools/call_forms.h"

#include <algorithm>
#include <cctype>

#include "apps/serve/tools/json_text.h"
#include "apps/serve/tools/python_calls.h"

namespace transom::serve {
namespace {

#define TRANSOM_BAR "\xef\xbd\x9c"    // U+FF5C
#define TRANSOM_BLANK "\xe2\x96\x81"  // U+2581
constexpr std::string_view kSeparator = "<" TRANSOM_BAR "tool" TRANSOM_BLANK "sep" TRANSOM_BAR ">";
constexpr std::string_view kMessage = "<|message|>";

constexpr CallForm kForms[] = {
    {"<tool_call>", "</tool_call>"},                                    // Hermes, Qwen, GLM
    {"<tool_calls>", "</tool_calls>"},                                  // Hunyuan, Jamba, MiniMax
    {"<TOOLCALL>", "</TOOLCALL>"},                                      // Nemotron
    {"<seed:tool_call>", "</seed:tool_call>"},                          // Seed-OSS
    {"<function_call>", "</function_call>"},                            // Granite 20B
    {"<|tool_call|>", "<|/tool_call|>"},                                // Granite, Phi-4-mini
    {"[TOOL_CALLS]", ""},                                               // Mistral
    {"<|python_tag|>", "<|eom_id|>"},                                   // Llama 3
    {"<|python_start|>", "<|python_end|>"},                             // Llama 4
    {"<|tool_call_start|>", "<|tool_call_end|>"},                       // LFM2
    {"<|tool_call_begin|>", "<|tool_call_end|>"},                       // Kimi
    {"<|START_ACTION|>", "<|END_ACTION|>"},                             // Command R
    {"<|action_start|><|plugin|>", "<|action_end|>"},                   // InternLM
    {"<" TRANSOM_BAR "tool" TRANSOM_BLANK "call" TRANSOM_BLANK "begin"  // DeepSeek
     TRANSOM_BAR ">",
     "<" TRANSOM_BAR "tool" TRANSOM_BLANK "call" TRANSOM_BLANK "end" TRANSOM_BAR ">"},
    {"<function=", "", CallForm::kTagged},                   // Llama, Qwen Coder without the frame
    {"<|channel|>", "<|call|>", CallForm::kHarmony},         // gpt-oss
    {"<|start|>assistant", "<|call|>", CallForm::kHarmony},  // its further messages
};
constexpr std::string_view kBefore[] = {
    "<|tool_calls_section_begin|>",
    "<" TRANSOM_BAR "tool" TRANSOM_BLANK "calls" TRANSOM_BLANK "begin" TRANSOM_BAR ">",
};
constexpr std::string_view kBehind[] = {
    "<|tool_calls_section_end|>",
    "<" TRANSOM_BAR "tool" TRANSOM_BLANK "calls" TRANSOM_BLANK "end" TRANSOM_BAR ">",
};
#undef TRANSOM_BAR
#undef TRANSOM_BLANK

bool is_of_name(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '-' || c == '.' || c == ':';
}

std::string_view stripped_of_blanks(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (first == text.npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1);
}

// Reads what stands behind a mark, to its end.
class FormReader {
 public:
  FormReader(std::string_view text, const CallForm& form, const KnownTools& tools, bool ended)
      : text_(text), form_(form), tools_(tools), ended_(ended) {}

  FoundCalls read() {
    if (form_.kind == CallForm::kTagged) read_tagged();
    else if (form_.kind == CallForm::kHarmony) read_harmony();
    else at_ = form_.open.size(), read_any();
    return result();
  }

  FoundCalls read_bare() {
    skip();
    if (at_ < text_.size()) text_[at_] == '{' ? read_json() : read_list();
    else cut();
    return result();
  }

 private:
  enum class Next { kThere, kNotThere, kUnsure };

  FoundCalls result() {
    found_.visited += at_;
    const bool any = std::any_of(found_.parts.begin(), found_.parts.end(), [](const auto& part) { return part.call; });
    if (cut_ && !ended_) found_.state = FoundCalls::kMore;
    else if (any) found_.state = FoundCalls::kCalls, found_.length = end_;
    return std::move(found_);
  }

  void skip() {
    while (at_ < text_.size() && std::string_view(" \t\r\n").find(text_[at_]) != std::string_view::npos) ++at_;
  }
  // The text ends where something is missing.
  void cut() {
    cut_ = true;
    at_ = text_.size();
  }
  Next sees(std::string_view mark) const {
    const std::string_view there = text_.substr(at_, mark.size());
    if (there == mark) return Next::kThere;
    return !ended_ && at_ + there.size() == text_.size() && mark.starts_with(there) ? Next::kUnsure : Next::kNotThere;
  }
  bool take(std::string_view mark) {
    const Next next = sees(mark);
    if (next == Next::kThere) at_ += mark.size();
    if (next == Next::kUnsure) cut();
    return next == Next::kThere;
  }
  bool is_cut_or_over() {
    if (at_ >= text_.size()) cut();
    return cut_;
  }

  void add(std::optional<ToolCall> call, size_t begin) {
    found_.parts.push_back({std::move(call), begin, at_});
    end_ = at_;
  }
  // Behind the last call of a mark.
  void take_close() {
    if (form_.close.empty()) return;
    skip();
    if (take(form_.close)) end_ = at_;
  }

  void read_any() {
    skip();
    if (is_cut_or_over()) return;
    if (text_[at_] == '{') return read_json();
    if (text_[at_] == '[') return read_list();
    if (text_[at_] == '<' && sees("<function=") != Next::kNotThere) return read_tagged();
    if (is_of_name(text_[at_])) read_named();
  }

  // [{...}] or [f(), g()].
  void read_list() {
    size_t next = at_ + 1;
    while (next < text_.size() && std::string_view(" \t\r\n").find(text_[next]) != std::string_view::npos) ++next;
    if (next >= text_.size()) return cut();
    if (text_[next] == '{') return read_json();
    if (std::isalpha(static_cast<unsigned char>(text_[next])) || text_[next] == '_') read_python();
  }

  // One call, or several with ; , or white space between, or lists of them.
  void read_json() {
    while (true) {
      if (!(text_[at_] == '[' ? read_json_list() : read_json_call())) return;
      const size_t behind = at_;
      while (at_ < text_.size() && std::string_view(" \t\r\n;,").find(text_[at_]) != std::string_view::npos) ++at_;
      if (at_ >= text_.size() && !ended_) return cut();
      const Next mark = sees("[TOOL_CALLS]");
      if (mark == Next::kUnsure) return cut();
      if (at_ < text_.size() && (text_[at_] == '{' || text_[at_] == '[') && mark == Next::kNotThere) continue;
      at_ = behind;
      return take_close();
    }
  }

  // False where no more can be read.
  bool read_json_call() {
    const size_t begin = at_;
    const JsonSpan span = scan_json(text_.substr(at_));
    if (span.state == JsonSpan::kCut) cut();
    else at_ += span.length;
    if (span.state == JsonSpan::kWhole) add(call_of(text_.substr(begin, span.length)), begin);
    return span.state == JsonSpan::kWhole;
  }

  // One by one, so that those before a broken one are there. A list without a call is none of calls.
  bool read_json_list() {
    const size_t parts = found_.parts.size(), end = end_;
    ++at_;
    for (skip(); !take("]"); skip()) {
      if (is_cut_or_over() || !read_json_call()) return false;
      skip();
      if (take(",") || sees("]") == Next::kThere) continue;
      if (at_ >= text_.size()) cut();
      return false;
    }
    const auto is_call = [](const FoundCalls::Part& part) { return part.call.has_value(); };
    if (std::any_of(found_.parts.begin() + static_cast<ptrdiff_t>(parts), found_.parts.end(), is_call)) {
      end_ = at_;
      return true;
    }
    found_.parts.resize(parts);
    end_ = end;
    return false;
  }

  void read_python() {
    const size_t begin = at_;
    const PythonSpan span = scan_python_calls(text_.substr(at_));
    if (span.state == JsonSpan::kBroken && form_.open.empty()) return;  // of an answer without marks
    for (const PythonCall& call : span.calls) {
      std::string name = call.name;
      if (!tools_.has(name) && name.ends_with(".call")) name.resize(name.size() - 5);  // Llama's built-in tools
      const bool good = tools_.has(name) && !call.arguments.empty();
      found_.parts.push_back({good ? std::optional(ToolCall{name, call.arguments, ""}) : std::nullopt,
                              begin + call.begin, begin + call.end});
      end_ = begin + call.end;
    }
    if (span.state == JsonSpan::kCut) return cut();
    if (span.state == JsonSpan::kBroken) return void(at_ = end_);
    end_ = at_ = begin + span.length;
    take_close();
  }

  // NAME, and what each family has behind it.
  void read_named() {
    const size_t begin = at_;
    while (at_ < text_.size() && is_of_name(text_[at_])) ++at_;
    const std::string_view name = text_.substr(begin, at_ - begin);
    skip();
    if (is_cut_or_over()) return;
    if (text_[at_] == '(') {
      at_ = begin;
      return read_python();
    }
    if (text_[at_] == '{') return read_object(function_name(name), "", begin);
    if (take(kSeparator)) return read_deepseek(name, begin);
    if (take("<|tool_call_argument_begin|>")) return read_object(function_name(name), std::string(name), begin);
    if (!form_.close.empty() && (sees("<arg_key>") != Next::kNotThere || sees(form_.close) != Next::kNotThere))
      return read_keyed(name, begin);
    std::string id;
    if (!cut_ && take("[CALL_ID]")) {
      const size_t from = at_, to = std::min(text_.find('[', at_), text_.size());
      id = stripped_of_blanks(text_.substr(from, to - from));
      at_ = to;
    }
    if (!cut_ && take("[ARGS]")) read_object(std::string(name), id, begin);
  }

  // Kimi's functions.NAME:0, where it is no name of its own.
  std::string function_name(std::string_view name) const {
    if (tools_.has(name)) return std::string(name);
    if (const size_t number = name.rfind(':'); number != name.npos) name = name.substr(0, number);
    if (!tools_.has(name) && name.starts_with("functions.")) name.remove_prefix(10);
    return std::string(name);
  }

  // function<sep>NAME, a fence of JSON; or NAME<sep> and JSON.
  void read_deepseek(std::string_view name, size_t begin) {
    std::string function(name);
    if (name == "function" && at_ < text_.size() && is_of_name(text_[at_])) {
      const size_t from = at_;
      while (at_ < text_.size() && is_of_name(text_[at_])) ++at_;
      function = text_.substr(from, at_ - from);
    }
    skip();
    const bool fence = take("```json");
    if (cut_) return;
    read_object(function, "", begin, fence ? "```" : "");
  }

  // The arguments, as an object or as the text of one.
  void read_object(const std::string& name, const std::string& id, size_t begin, std::string_view behind = "") {
    skip();
    if (is_cut_or_over()) return;
    const JsonSpan span = scan_json(text_.substr(at_));
    if (span.state == JsonSpan::kCut) return cut();
    const std::string_view value = text_.substr(at_, span.length);
    at_ += span.length;
    if (span.state == JsonSpan::kBroken || !tools_.has(name)) return;
    const auto arguments = object_of(value);
    if (!arguments) return;
    add(ToolCall{name, *arguments, id}, begin);
    if (!behind.empty()) {
      skip();
      if (take(behind)) end_ = at_;
    }
    if (!cut_) take_close();
  }

  // <function=NAME><parameter=KEY>VALUE</parameter>...</function>, or JSON between the tags.
  void read_tagged() {
    const size_t begin = at_;
    if (!take("<function=")) return;
    const auto name = word_to('>');
    if (!name || !tools_.has(*name)) return;
    skip();
    if (is_cut_or_over()) return;
    std::string arguments = "{";
    if (text_[at_] == '{') {
      const JsonSpan span = scan_json(text_.substr(at_));
      if (span.state == JsonSpan::kCut) return cut();
      const auto object = object_of(text_.substr(at_, span.length));
      at_ += span.length;
      if (span.state == JsonSpan::kBroken || !object) return;
      arguments = *object;
      skip();
    } else {
      while (take("<parameter=")) {
        const auto key = word_to('>');
        if (!key) return;
        auto value = value_to("</parameter>", {"<parameter=", "</function>", form_.close});
        if (!value || value->find(form_.open) != value->npos) return;  // that of the next call
        if (value->starts_with("\n")) value->remove_prefix(1);
        if (value->ends_with("\n")) value->remove_suffix(1);
        append_member(arguments, *name, *key, *value);
        skip();
      }
      arguments += '}';
    }
    if (cut_) return;
    if (take("</function>") || (!cut_ && !form_.close.empty() && sees(form_.close) == Next::kThere)) {
      add(ToolCall{*name, arguments, ""}, begin);
      return take_close();
    }
    if (at_ >= text_.size()) cut();
  }

  // NAME <arg_key>K</arg_key><arg_value>V</arg_value>..., of GLM.
  void read_keyed(std::string_view name, size_t begin) {
    if (!tools_.has(name)) return;
    std::string arguments = "{";
    while (take("<arg_key>")) {
      const auto key = value_to("</arg_key>", {"<arg_value>"});
      if (!key || !take("<arg_value>")) return;
      const auto value = value_to("</arg_value>", {"<arg_key>", form_.close});
      if (!value || value->find(form_.open) != value->npos) return;
      append_member(arguments, name, std::string(stripped_of_blanks(*key)), *value);
      skip();
    }
    if (cut_ || !take(form_.close)) {
      if (at_ >= text_.size()) cut();
      return;
    }
    add(ToolCall{std::string(name), arguments + "}", ""}, begin);
  }

  // Words of a header, <|message|>, and the arguments where the words say to=functions.NAME.
  void read_harmony() {
    constexpr size_t kLongestHeader = 512;
    const size_t message = text_.substr(0, kLongestHeader).find(kMessage);
    if (message == text_.npos) {
      if (text_.size() < kLongestHeader) cut();
      return;
    }
    const std::string_view header = text_.substr(0, message);
    at_ = message + kMessage.size();
    const size_t to = header.find("to=");
    std::string name;
    if (to != header.npos) {
      size_t end = to + 3;
      while (end < header.size() && is_of_name(header[end])) ++end;
      name = function_name(header.substr(to + 3, end - to - 3));
    }
    if (tools_.has(name)) return read_object(name, "", 0);
    if (to != header.npos) return;
    found_.state = FoundCalls::kHeader;
    found_.length = at_;
  }

  // {"name", "arguments" | "parameters"}, {"tool_name", ...}, or with both in "function".
  std::optional<ToolCall> call_of(std::string_view value) const {
    ToolCall call;
    std::optional<std::string> arguments = "{}";
    for (const auto& [key, member] : members_of(value)) {
      if (key == "name" || key == "tool_name") call.name = text_of_json(member).value_or("");
      else if (key == "arguments" || key == "parameters") arguments = member == "null" ? "{}" : object_of(member);
      else if (key == "id" || key == "tool_call_id") call.id = text_of_json(member).value_or("");
      else if (key == "function" && member.starts_with('{')) return call_of(member);
    }
    if (!tools_.has(call.name) || !arguments) return std::nullopt;
    call.arguments = *arguments;
    return call;
  }

  static std::optional<std::string> object_of(std::string_view value) {
    if (value.starts_with('{')) return without_blanks(value);
    const std::optional<std::string> inner = text_of_json(value);
    if (!inner) return std::nullopt;
    const std::string_view text = stripped_of_blanks(*inner);
    if (text.empty()) return "{}";
    const JsonSpan span = scan_json(text);
    if (!text.starts_with('{') || span.state != JsonSpan::kWhole || span.length != text.size()) return std::nullopt;
    return without_blanks(text);
  }

  std::optional<std::string> word_to(char close) {
    constexpr size_t kLongestWord = 256;
    const size_t end = text_.substr(0, at_ + kLongestWord).find(close, at_);
    if (end == text_.npos) {
      if (text_.size() < at_ + kLongestWord) cut();
      return std::nullopt;
    }
    const std::string word(stripped_of_blanks(text_.substr(at_, end - at_)));
    at_ = end + 1;
    return word;
  }

  // The text before the first closing tag behind which one of `next` stands: a value may hold the tag itself.
  std::optional<std::string_view> value_to(std::string_view close, std::initializer_list<std::string_view> next) {
    const size_t begin = at_;
    for (size_t place = begin; (place = text_.find(close, place)) != text_.npos; place += close.size()) {
      at_ = place + close.size();
      skip();
      for (const std::string_view each : next) {
        if (each.empty() || sees(each) == Next::kNotThere) continue;
        if (sees(each) == Next::kUnsure) {
          cut();
          return std::nullopt;
        }
        return text_.substr(begin, place - begin);
      }
    }
    cut();
    return std::nullopt;
  }

  // As the type that the schema gives the parameter.
  void append_member(std::string& object, std::string_view name, const std::string& key, std::string_view value) const {
    object += (object.size() > 1 ? "," : "") + json_of_text(key) + ":";
    const std::string type = tools_.type_of(name, key);
    const std::string_view bare = stripped_of_blanks(value);
    std::string lower(bare.substr(0, 8));
    std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) { return std::tolower(c); });
    if (type == "boolean" && (lower == "true" || lower == "false")) return void(object += lower);  // Python's True
    if (!type.empty() && type != "string" && lower == "none") return void(object += "null");
    const JsonSpan span = scan_json(bare);
    const bool json = span.state == JsonSpan::kWhole && span.length == bare.size() && !bare.empty();
    if (type != "string" && json && !(type.empty() && bare[0] == '"')) object += without_blanks(bare);
    else object += json_of_text(value);
  }

  std::string_view text_;
  const CallForm& form_;
  const KnownTools& tools_;
  const bool ended_;
  bool cut_ = false;
  size_t at_ = 0, end_ = 0;  // where it reads; behind the last part, its mark with it
  FoundCalls found_;
};

}  // namespace

KnownTools::KnownTools(const Json& tools) : tools_(tools) {
  if (!tools_.is_array()) return;
  for (const Json& tool : tools_) {
    const auto function = tool.find("function");
    if (function != tool.end() && function->is_object() && function->contains("name") &&
        (*function)["name"].is_string())
      functions_.emplace((*function)["name"].get<std::string>(), &*function);
  }
}

std::string KnownTools::type_of(std::string_view name, const std::string& parameter) const {
  const auto found = functions_.find(name);
  if (found == functions_.end()) return "";
  const Json* schema = found->second;
  for (const std::string& key :
       {std::string("parameters"), std::string("properties"), parameter, std::string("type")}) {
    const auto member = schema->is_object() ? schema->find(key) : schema->end();
    if (!schema->is_object() || member == schema->end()) return "";
    schema = &*member;
  }
  return schema->is_string() ? schema->get<std::string>() : "";
}

std::span<const CallForm> call_forms() { return kForms; }
std::span<const std::string_view> frames_before_calls() { return kBefore; }
std::span<const std::string_view> frames_behind_calls() { return kBehind; }

FoundCalls calls_at(std::string_view text, const CallForm& form, const KnownTools& tools, bool ended) {
  return FormReader(text, form, tools, ended).read();
}

FoundCalls bare_calls_at(std::string_view text, const KnownTools& tools, bool ended) {
  static constexpr CallForm kNone{"", ""};
  return FormReader(text, kNone, tools, ended).read_bare();
}

}  // namespace transom::serve
