// SPDX-License-Identifier: Apache-2.0
#include "serve/tools/tool_calls.h"

#include <algorithm>
#include <cstdlib>

#include "serve/api/request_json.h"

namespace transom::serve {
namespace {

// What begins a call, by family.
constexpr std::string_view kMarkers[] = {
    "<tool_call>",                   // Hermes, Qwen, GLM
    "[TOOL_CALLS]",                  // Mistral
    "<|python_tag|>",                // Llama 3
    "<|tool_call_start|>",           // LFM2
    "<|tool_calls_section_begin|>",  // Kimi
    "<\xef\xbd\x9ctool\xe2\x96\x81"
    "calls\xe2\x96\x81"
    "begin\xef\xbd\x9c>",  // DeepSeek
    "<function=",          // Llama, Qwen Coder without the frame
};

std::string_view trimmed_text(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (first == text.npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1);
}

std::string_view without_end_blanks(std::string_view text) {
  return text.substr(0, text.find_last_not_of(" \t\r\n") + 1);
}

const Json* function_of(const Json& tools, std::string_view name) {
  if (!tools.is_array()) return nullptr;
  for (const Json& tool : tools) {
    const auto function = tool.find("function");
    if (function != tool.end() && function->is_object() && function->value("name", std::string()) == name)
      return &*function;
  }
  return nullptr;
}

std::optional<Json> parsed(std::string_view text) {
  try {
    return parse_request_json(text);
  } catch (const Error&) {
    return std::nullopt;
  }
}

// {"name", "arguments" | "parameters"}, where the arguments may be a text of JSON.
bool add_json_call(const Json& json, const Json& tools, std::vector<ToolCall>& calls) {
  if (!json.is_object() || !json.contains("name") || !json["name"].is_string()) return false;
  const auto name = json["name"].get<std::string>();
  if (!function_of(tools, name)) return false;
  Json arguments = json.contains("arguments") ? json["arguments"] : json.value("parameters", Json());
  if (arguments.is_string())
    if (const auto inner = parsed(arguments.get<std::string>())) arguments = *inner;
  if (arguments.is_null()) arguments = Json::object();
  if (!arguments.is_object()) return false;
  calls.push_back({name, compact(arguments)});
  return true;
}

// The length of the JSON value at the front, by its brackets and strings; 0 if it does not end.
size_t json_length(std::string_view text) {
  int depth = 0;
  bool quoted_text = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted_text) {
      if (c == '\\') ++i;
      else if (c == '"') quoted_text = false;
    } else if (c == '"') quoted_text = true;
    else if (c == '{' || c == '[') ++depth;
    else if (c == '}' || c == ']') {
      if (--depth == 0) return i + 1;
    }
  }
  return 0;
}

// One value, or several with ; , or white space between, or a list of them.
bool add_json_calls(std::string_view text, const Json& tools, std::vector<ToolCall>& calls) {
  size_t found = 0;
  while (true) {
    text = text.substr(std::min(text.find_first_not_of(" \t\r\n;,"), text.size()));
    if (text.empty()) return found > 0;
    const size_t length = text[0] == '{' || text[0] == '[' ? json_length(text) : 0;
    if (length == 0) return false;
    const auto json = parsed(text.substr(0, length));
    if (!json) return false;
    if (json->is_array()) {
      for (const Json& each : *json)
        if (!add_json_call(each, tools, calls)) return false;
    } else if (!add_json_call(*json, tools, calls)) {
      return false;
    }
    ++found;
    text.remove_prefix(length);
  }
}

// A text as the type that the tool's schema gives the parameter.
Json typed(std::string_view text, const Json* function, const std::string& parameter) {
  std::string type;
  if (function && function->contains("parameters") && (*function)["parameters"].is_object()) {
    const Json properties = (*function)["parameters"].value("properties", Json());
    if (properties.is_object() && properties.contains(parameter) && properties[parameter].is_object()) {
      const Json kind = properties[parameter].value("type", Json());
      if (kind.is_string()) type = kind.get<std::string>();
    }
  }
  if (type == "string") return std::string(text);
  if (const auto json = parsed(text); json && (type.empty() ? !json->is_string() : true)) return *json;
  return std::string(text);
}

// <function=NAME><parameter=KEY>VALUE</parameter>...</function>
bool add_tagged_call(std::string_view text, const Json& tools, std::vector<ToolCall>& calls) {
  const size_t close = text.find('>');
  if (!text.starts_with("<function=") || close == text.npos) return false;
  const std::string name(trimmed_text(text.substr(10, close - 10)));
  const Json* function = function_of(tools, name);
  if (!function) return false;
  std::string_view rest = text.substr(close + 1);
  // Llama writes JSON between the tags.
  const std::string_view inside = trimmed_text(rest.substr(0, rest.find("</function>")));
  if (inside.starts_with("{")) {
    const auto json = parsed(inside);
    if (!json || !json->is_object()) return false;
    calls.push_back({name, compact(*json)});
    return true;
  }
  Json arguments = Json::object();
  while (true) {
    const size_t begin = rest.find("<parameter=");
    if (begin == rest.npos) break;
    const size_t named = rest.find('>', begin);
    if (named == rest.npos) return false;
    const std::string key(trimmed_text(rest.substr(begin + 11, named - begin - 11)));
    const size_t end = rest.find("</parameter>", named);
    if (end == rest.npos) return false;
    std::string_view value = rest.substr(named + 1, end - named - 1);
    if (value.starts_with("\n")) value.remove_prefix(1);
    if (value.ends_with("\n")) value.remove_suffix(1);
    arguments[key] = typed(value, function, key);
    rest.remove_prefix(end + 12);
  }
  calls.push_back({name, compact(arguments)});
  return true;
}

// NAME <arg_key>K</arg_key><arg_value>V</arg_value>..., of GLM.
bool add_keyed_call(std::string_view text, const Json& tools, std::vector<ToolCall>& calls) {
  const size_t first = std::min(text.find("<arg_key>"), text.size());
  const std::string name(trimmed_text(text.substr(0, first)));
  const Json* function = function_of(tools, name);
  if (!function) return false;
  Json arguments = Json::object();
  std::string_view rest = text.substr(first);
  while (rest.starts_with("<arg_key>")) {
    const size_t key_end = rest.find("</arg_key>"), value = rest.find("<arg_value>"), end = rest.find("</arg_value>");
    if (key_end == rest.npos || value == rest.npos || end == rest.npos || value < key_end || end < value) return false;
    const std::string key(trimmed_text(rest.substr(9, key_end - 9)));
    arguments[key] = typed(rest.substr(value + 11, end - value - 11), function, key);
    rest = rest.substr(end + 12);
    rest = rest.substr(std::min(rest.find_first_not_of(" \t\r\n"), rest.size()));
  }
  calls.push_back({name, compact(arguments)});
  return true;
}

// Literals of Python, read by hand.
class PythonCalls {
 public:
  PythonCalls(std::string_view text, const Json& tools) : text_(text), tools_(tools) {}

  // [f(a=1, b="x"), g()]
  bool add(std::vector<ToolCall>& calls) {
    if (!take('[')) return false;
    do {
      const std::string name = word();
      if (!function_of(tools_, name) || !take('(')) return false;
      Json arguments = Json::object();
      if (!take(')')) {
        do {
          const std::string key = word();
          Json value;
          if (key.empty() || !take('=') || !literal(value, 0)) return false;
          arguments[key] = std::move(value);
        } while (take(','));
        if (!take(')')) return false;
      }
      calls.push_back({name, compact(arguments)});
    } while (take(','));
    return take(']') && (skip(), at_ == text_.size());
  }

 private:
  void skip() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t' || text_[at_] == '\r'))
      ++at_;
  }
  bool take(char c) {
    skip();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  std::string word() {
    skip();
    const size_t begin = at_;
    while (at_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[at_])) || text_[at_] == '_' ||
                                  text_[at_] == '.' || text_[at_] == '-'))
      ++at_;
    return std::string(text_.substr(begin, at_ - begin));
  }
  bool literal(Json& value, int depth) {
    skip();
    if (at_ >= text_.size() || depth > 32) return false;
    const char c = text_[at_];
    if (c == '"' || c == '\'') return string(value);
    if (c == '[' || c == '(') {
      ++at_;
      value = Json::array();
      const char close = c == '[' ? ']' : ')';
      while (!take(close)) {
        Json item;
        if (!literal(item, depth + 1)) return false;
        value.push_back(std::move(item));
        if (!take(',') && !(skip(), at_ < text_.size() && text_[at_] == close)) return false;
      }
      return true;
    }
    if (c == '{') {
      ++at_;
      value = Json::object();
      while (!take('}')) {
        Json key, item;
        if (!literal(key, depth + 1) || !key.is_string() || !take(':') || !literal(item, depth + 1)) return false;
        value[key.get<std::string>()] = std::move(item);
        if (!take(',') && !(skip(), at_ < text_.size() && text_[at_] == '}')) return false;
      }
      return true;
    }
    const size_t begin = at_;
    while (at_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[at_])) || text_[at_] == '+' ||
                                  text_[at_] == '-' || text_[at_] == '.'))
      ++at_;
    const std::string_view token = text_.substr(begin, at_ - begin);
    if (token == "True" || token == "true") value = true;
    else if (token == "False" || token == "false") value = false;
    else if (token == "None" || token == "null") value = nullptr;
    else {
      const auto number = parsed(token);
      if (!number || !number->is_number()) return false;
      value = *number;
    }
    return true;
  }
  bool string(Json& value) {
    const char close = text_[at_++];
    std::string result;
    while (at_ < text_.size() && text_[at_] != close) {
      char c = text_[at_++];
      if (c == '\\' && at_ < text_.size()) {
        c = text_[at_++];
        if (c == 'n') c = '\n';
        else if (c == 't') c = '\t';
        else if (c == 'r') c = '\r';
      }
      result += c;
    }
    if (at_ >= text_.size()) return false;
    ++at_;
    value = result;
    return true;
  }
  std::string_view text_;
  const Json& tools_;
  size_t at_ = 0;
};

// [TOOL_CALLS] [{...}], or [TOOL_CALLS]name[ARGS]{...} for each call.
bool add_mistral_calls(std::string_view text, const Json& tools, std::vector<ToolCall>& calls) {
  if (text.find("[ARGS]") == text.npos) return add_json_calls(text, tools, calls);
  while (!text.empty()) {
    const size_t arguments = text.find("[ARGS]");
    if (arguments == text.npos) return false;
    std::string_view name = trimmed_text(text.substr(0, arguments));
    if (const size_t id = name.find("[CALL_ID]"); id != name.npos) name = trimmed_text(name.substr(0, id));
    if (!function_of(tools, name)) return false;
    text.remove_prefix(arguments + 6);
    text = trimmed_text(text);
    const size_t length = json_length(text);
    const auto json = length > 0 ? parsed(text.substr(0, length)) : std::nullopt;
    if (!json || !json->is_object()) return false;
    calls.push_back({std::string(name), compact(*json)});
    text = trimmed_text(text.substr(length));
    if (text.starts_with("[TOOL_CALLS]")) text = trimmed_text(text.substr(12));
  }
  return true;
}

// Blocks between two marks; what each holds is given to `add`.
template <typename Add>
bool for_each_block(std::string_view text, std::string_view open, std::string_view close, const Add& add) {
  bool any = false;
  while (true) {
    const size_t begin = text.find(open);
    if (begin == text.npos) return any;
    text.remove_prefix(begin + open.size());
    const size_t end = std::min(text.find(close), text.size());  // the end may be cut off by a limit
    if (!add(trimmed_text(text.substr(0, end)))) return false;
    any = true;
    text.remove_prefix(std::min(end + close.size(), text.size()));
  }
}

bool add_section_calls(std::string_view text, std::string_view open, std::string_view separator, std::string_view close,
                       const Json& tools, std::vector<ToolCall>& calls) {
  return for_each_block(text, open, close, [&](std::string_view block) {
    const size_t at = block.find(separator);
    if (at == block.npos) return false;
    std::string_view name = trimmed_text(block.substr(0, at));
    if (name.starts_with("functions.")) name.remove_prefix(10);
    if (name == "function") {  // DeepSeek: function<sep>NAME\n```json\n{...}\n```
      block.remove_prefix(at + separator.size());
      const size_t line = std::min(block.find('\n'), block.size());
      name = trimmed_text(block.substr(0, line));
      block.remove_prefix(line);
    } else {
      block.remove_prefix(at + separator.size());
    }
    if (const size_t number = name.rfind(':'); number != name.npos) name = name.substr(0, number);
    const size_t brace = block.find('{');
    if (brace == block.npos || !function_of(tools, name)) return false;
    block.remove_prefix(brace);
    const auto json = parsed(block.substr(0, json_length(block)));
    if (!json || !json->is_object()) return false;
    calls.push_back({std::string(name), compact(*json)});
    return true;
  });
}

}  // namespace

ParsedAnswer parse_tool_calls(std::string_view text, const Json& tools) {
  ParsedAnswer answer;
  answer.content = std::string(text);
  const auto take = [&](size_t begin, bool found) {
    if (!found || answer.calls.empty()) {
      answer.calls.clear();
      return;
    }
    answer.content = std::string(without_end_blanks(text.substr(0, begin)));
  };
  size_t begin = text.npos;
  std::string_view marker;
  for (const std::string_view each : kMarkers)
    if (const size_t at = text.find(each); at < begin) begin = at, marker = each;
  std::vector<ToolCall>& calls = answer.calls;
  if (begin == text.npos) {
    const std::string_view bare = trimmed_text(text);
    if (bare.starts_with("{") || bare.starts_with("[{")) take(0, add_json_calls(bare, tools, calls));
    else if (bare.starts_with("[")) take(0, PythonCalls(bare, tools).add(calls));
    return answer;
  }
  const std::string_view rest = text.substr(begin);
  const std::string_view behind = trimmed_text(rest.substr(marker.size()));
  if (marker == "<tool_call>") {
    take(begin, for_each_block(rest, "<tool_call>", "</tool_call>", [&](std::string_view block) {
           if (block.starts_with("{") || block.starts_with("[")) return add_json_calls(block, tools, calls);
           if (block.starts_with("<function=")) return add_tagged_call(block, tools, calls);
           return add_keyed_call(block, tools, calls);
         }));
  } else if (marker == "[TOOL_CALLS]") {
    take(begin, add_mistral_calls(behind, tools, calls));
  } else if (marker == "<|python_tag|>") {
    take(begin, add_json_calls(behind, tools, calls));
  } else if (marker == "<|tool_call_start|>") {
    take(begin, for_each_block(rest, "<|tool_call_start|>", "<|tool_call_end|>",
                               [&](std::string_view block) { return PythonCalls(block, tools).add(calls); }));
  } else if (marker == "<|tool_calls_section_begin|>") {
    take(begin, add_section_calls(rest, "<|tool_call_begin|>", "<|tool_call_argument_begin|>", "<|tool_call_end|>",
                                  tools, calls));
  } else if (marker == "<function=") {
    take(begin, add_tagged_call(rest, tools, calls));
  } else {
    const std::string bar = "\xef\xbd\x9c", blank = "\xe2\x96\x81";
    const auto mark = [&](const char* middle, const char* last) {
      return "<" + bar + "tool" + blank + middle + (*last ? blank + last : "") + bar + ">";
    };
    take(begin, add_section_calls(rest, mark("call", "begin"), mark("sep", ""), mark("call", "end"), tools, calls));
  }
  return answer;
}

size_t certain_content(std::string_view text, bool at_start) {
  if (at_start) {
    const size_t first = text.find_first_not_of(" \t\r\n");
    if (first == text.npos) return 0;
    if (text[first] == '{' || text[first] == '[') return 0;
  }
  size_t certain = text.size();
  for (const std::string_view marker : kMarkers) {
    certain = std::min(certain, text.find(marker));
    // The longest end of the text that a marker begins with.
    for (size_t length = std::min(marker.size() - 1, text.size()); length > 0; --length)
      if (text.substr(text.size() - length) == marker.substr(0, length)) {
        certain = std::min(certain, text.size() - length);
        break;
      }
  }
  return without_end_blanks(text.substr(0, certain)).size();  // a call may follow, before which they go
}

}  // namespace transom::serve
