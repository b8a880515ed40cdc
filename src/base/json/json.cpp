// SPDX-License-Identifier: Apache-2.0
#include "base/json/json.h"

#include <simdjson.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/files/files.h"
#include "base/json/json_errors.h"

namespace transom {
namespace {

constexpr int kMaximumDepth = 200;
constexpr int64_t kMaximumKeys = 50'000;

// A text that was changed, and where its places lie in the one that was given.
struct ChangedText {
  std::string text;
  std::vector<std::pair<size_t, size_t>> behind;  // each change: the places behind it in this text and in the given one

  size_t given_place(size_t place) const {
    const auto next = std::upper_bound(behind.begin(), behind.end(), std::pair(place, SIZE_MAX));
    if (next == behind.begin()) return place;
    return std::prev(next)->second + (place - std::prev(next)->first);
  }
};

// Python's json module reads and writes NaN, Infinity and -Infinity, which JSON does not have. Outside of strings they
// become numbers that overflow or strings that the readers of numbers know.
ChangedText without_python_numbers(std::string_view text) {
  ChangedText changed;
  std::string& result = changed.text;
  result.reserve(text.size());
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      result += c;
      if (c == '\\' && i + 1 < text.size()) result += text[++i];
      else if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
      result += c;
    } else if (text.substr(i, 3) == "NaN") {
      result += "null";
      i += 2;
      changed.behind.emplace_back(result.size(), i + 1);
    } else if (text.substr(i, 8) == "Infinity") {
      result += "1.7976931348623157e308";
      i += 7;
      changed.behind.emplace_back(result.size(), i + 1);
    } else {
      result += c;
    }
  }
  return changed;
}

// Refuses what would take more time or stack than its size explains: depth, and for documents that look keys up from
// the front (Json) objects of very many keys.
template <typename Document>
class Limits {
 public:
  explicit Limits(std::string_view where) : where_(where) {}
  bool operator()(int depth, typename Document::parse_event_t event, Document&) {
    using Event = typename Document::parse_event_t;
    if (event != Event::key && depth > kMaximumDepth)
      fail("{}: is nested deeper than {} levels", where_, kMaximumDepth);
    if (event == Event::object_start) keys_.push_back(0);
    else if (event == Event::object_end) keys_.pop_back();
    else if (event == Event::key && ++keys_.back() > kMaximumKeys && std::is_same_v<Document, Json>)
      fail("{}: has an object of more than {} keys", where_, kMaximumKeys);
    return true;
  }

 private:
  std::string_view where_;
  std::vector<int64_t> keys_;  // of the objects that are open
};

// What needs no escapes, as nearly all of a vocabulary does, is there already.
void dump_text(const std::string& text, bool ascii, std::string& out) {
  const auto stands_for_itself = [ascii](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte >= 0x20 && c != '"' && c != '\\' && (byte < 0x7F || (byte > 0x7F && !ascii));
  };
  if (std::all_of(text.begin(), text.end(), stands_for_itself) && simdjson::validate_utf8(text.data(), text.size()))
    out.append(1, '"').append(text).append(1, '"');
  else out += Json(text).dump(-1, ' ', ascii, Json::error_handler_t::replace);
}

void dump(const Json& json, int indent, bool ascii, int level, std::string& out) {
  const auto new_line = [&](int at) {
    if (indent >= 0) out += '\n', out.append(static_cast<size_t>(indent * at), ' ');
  };
  const std::string_view separator = indent >= 0 ? "," : ", ";
  if (json.is_number_float()) {
    const double value = json.get<double>();
    if (std::isnan(value)) out += "NaN";
    else if (std::isinf(value)) out += value > 0 ? "Infinity" : "-Infinity";
    else out += python_float(value);
  } else if (json.is_object() && !json.empty()) {
    out += '{';
    bool first = true;
    for (const auto& [key, value] : json.items()) {
      if (!first) out += separator;
      first = false;
      new_line(level + 1);
      dump_text(key, ascii, out);
      out += ": ";
      dump(value, indent, ascii, level + 1, out);
    }
    new_line(level);
    out += '}';
  } else if (json.is_array() && !json.empty()) {
    out += '[';
    bool first = true;
    for (const Json& value : json) {
      if (!first) out += separator;
      first = false;
      new_line(level + 1);
      dump(value, indent, ascii, level + 1, out);
    }
    new_line(level);
    out += ']';
  } else if (json.is_string()) {
    dump_text(json.get_ref<const std::string&>(), ascii, out);
  } else {
    out += json.dump(-1, ' ', ascii, Json::error_handler_t::replace);
  }
}

}  // namespace

std::string python_float(double value) {
  char text[40];
  // The shortest digits that read back the same; Python switches to an exponent outside [1e-4, 1e16).
  const double size = std::fabs(value);
  const bool exponent = size != 0 && (size < 1e-4 || size >= 1e16);
  const auto format = exponent ? std::chars_format::scientific : std::chars_format::fixed;
  const auto end = std::to_chars(text, text + sizeof text, value, format).ptr;
  std::string result(text, end);
  if (!exponent && result.find('.') == std::string::npos) result += ".0";
  return result;
}

namespace {

template <typename Document>
Document parse(std::string_view text, std::string_view where) {
  ChangedText changed;
  const bool changes = text.find("NaN") != text.npos || text.find("Infinity") != text.npos;
  if (changes) changed = without_python_numbers(text);
  try {
    return Document::parse(changes ? changed.text : text, Limits<Document>(where));
  } catch (const nlohmann::detail::parse_error& error) {
    // Counted from 1.
    const size_t byte = error.byte == 0 ? 0 : changed.given_place(error.byte - 1) + 1;
    fail("{}: {}", where, json_syntax_error(text, byte));
  } catch (const nlohmann::detail::exception&) {  // out_of_range: all that a parser throws beside
    fail("{}: is not valid JSON: a number is larger than 64 bits can hold", where);
  }
}

}  // namespace

Json parse_json(std::string_view text, std::string_view where) { return parse<Json>(text, where); }
nlohmann::json parse_large_json(std::string_view text, std::string_view where) {
  return parse<nlohmann::json>(text, where);
}

Json read_json(const std::filesystem::path& path) { return parse_json(read_file(path), path.string()); }

std::string dump_json(const Json& json, int indent, bool ascii) {
  std::string out;
  dump(json, indent, ascii, 0, out);
  return out;
}

}  // namespace transom
