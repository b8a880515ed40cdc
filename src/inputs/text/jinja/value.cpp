// SPDX-License-Identifier: Apache-2.0
#include "inputs/text/jinja/value.h"

#include <algorithm>

#include "base/error.h"
#include "base/json/json.h"
#include "inputs/text/unicode/unicode.h"

namespace transom::jinja {
namespace {

constexpr size_t kMaximumSteps = 5'000'000;
constexpr int kMaximumNesting = 100;
constexpr size_t kMaximumText = size_t{1} << 26;

thread_local Meter* meter = nullptr;

void check(const std::string& out, int depth) {
  spend(1);
  require(depth < kMaximumNesting, "a value is nested deeper than {} levels", kMaximumNesting);
  require(out.size() < kMaximumText, "a value is longer than {} bytes as text", kMaximumText);
}

void append_representation(const Value& value, std::string& out, int depth);

void append_quoted(const std::string& text, std::string& out) {
  const bool doubled = text.find('\'') != text.npos && text.find('"') == text.npos;
  const char quote = doubled ? '"' : '\'';
  out += quote;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '\n') out += "\\n";
    else if (c == '\r') out += "\\r";
    else if (c == '\t') out += "\\t";
    else if (c == '\\' || c == quote) out += '\\', out += c;
    else if (byte < 0x20 || byte == 0x7F) out += fmt::format("\\x{:02x}", byte);
    else out += c;
  }
  out += quote;
}

void append_representation(const Value& value, std::string& out, int depth) {
  check(out, depth);
  if (const auto* text = value.text()) return append_quoted(*text, out);
  if (const auto* sequence = value.sequence()) {
    out += sequence->tuple ? '(' : '[';
    for (size_t i = 0; i < sequence->items.size(); ++i) {
      if (i > 0) out += ", ";
      append_representation(sequence->items[i], out, depth + 1);
    }
    if (sequence->tuple && sequence->items.size() == 1) out += ',';
    out += sequence->tuple ? ')' : ']';
    return;
  }
  if (const auto* dictionary = value.dictionary()) {
    if (dictionary->name_space) out += "<Namespace ";
    out += '{';
    for (size_t i = 0; i < dictionary->items.size(); ++i) {
      if (i > 0) out += ", ";
      append_representation(dictionary->items[i].first, out, depth + 1);
      out += ": ";
      append_representation(dictionary->items[i].second, out, depth + 1);
    }
    out += '}';
    if (dictionary->name_space) out += '>';
    return;
  }
  if (value.undefined()) out += "Undefined";
  else if (value.none()) out += "None";
  else if (const bool* boolean = value.boolean()) out += *boolean ? "True" : "False";
  else if (const int64_t* integer = value.integer()) out += std::to_string(*integer);
  else if (const double* real = value.real()) {
    if (*real != *real) out += "nan";
    else if (*real - *real != 0) out += *real > 0 ? "inf" : "-inf";
    else out += python_float(*real);
  } else {
    out += "<function>";
  }
}

void append_json(const Value& value, const JsonStyle& style, std::string& out, int depth) {
  check(out, depth);
  const auto new_line = [&](int level) {
    if (!style.lines) return;
    out += '\n';
    for (int i = 0; i < level; ++i) out += style.indent;
  };
  if (const auto* text = value.text()) {
    out += Json(text::well_formed(*text)).dump(-1, ' ', style.ascii);
  } else if (const auto* sequence = value.sequence()) {
    if (sequence->items.empty()) return void(out += "[]");
    out += '[';
    for (size_t i = 0; i < sequence->items.size(); ++i) {
      if (i > 0) out += style.item_separator;
      new_line(depth + 1);
      append_json(sequence->items[i], style, out, depth + 1);
    }
    new_line(depth);
    out += ']';
  } else if (const auto* dictionary = value.dictionary()) {
    auto items = dictionary->items;
    if (items.empty()) return void(out += "{}");
    if (style.sort_keys)
      std::stable_sort(items.begin(), items.end(),
                       [](const auto& a, const auto& b) { return compare(a.first, b.first) < 0; });
    out += '{';
    for (size_t i = 0; i < items.size(); ++i) {
      if (i > 0) out += style.item_separator;
      new_line(depth + 1);
      std::string key;
      if (const auto* name = items[i].first.text()) key = *name;
      else append_json(items[i].first, style, key, depth + 1);
      append_json(Value(key), style, out, depth + 1);
      out += style.key_separator;
      append_json(items[i].second, style, out, depth + 1);
    }
    new_line(depth);
    out += '}';
  } else if (value.none()) {
    out += "null";
  } else if (const bool* boolean = value.boolean()) {
    out += *boolean ? "true" : "false";
  } else if (const double* real = value.real(); real != nullptr && *real - *real != 0) {
    out += *real != *real ? "NaN" : *real > 0 ? "Infinity" : "-Infinity";
  } else {
    require(value.number(), "tojson: a value of type {} has no JSON form", value.type_name());
    append_representation(value, out, depth);
  }
}

}  // namespace

Meter::Meter() : outer_(meter) { meter = this; }
Meter::~Meter() { meter = outer_; }

void spend(size_t steps) {
  if (meter == nullptr) return;
  meter->steps_ += steps;
  require(meter->steps_ < kMaximumSteps, "the template takes more than {} steps", kMaximumSteps);
}

double Value::as_double() const {
  if (const bool* value = boolean()) return *value ? 1 : 0;
  if (const int64_t* value = integer()) return static_cast<double>(*value);
  return real() != nullptr ? *real() : 0;
}

bool Value::as_integer(int64_t& value) const {
  if (const bool* found = boolean()) return value = *found ? 1 : 0, true;
  if (const int64_t* found = integer()) return value = *found, true;
  return false;
}

const char* Value::type_name() const {
  constexpr const char* kNames[] = {"undefined", "NoneType", "bool", "int", "float", "str", "list", "dict", "function"};
  if (const auto* items = sequence(); items != nullptr && items->tuple) return "tuple";
  return kNames[data_.index()];
}

bool Value::truth() const {
  if (undefined() || none()) return false;
  if (number()) return as_double() != 0;
  if (const auto* found = text()) return !found->empty();
  if (const auto* found = sequence()) return !found->items.empty();
  if (const auto* found = dictionary()) return found->name_space || !found->items.empty();
  return true;
}

// Equal keys of different types, 1 and 1.0 and True, are one key.
static std::string key_of(const Value& key) {
  require(key.text() != nullptr || key.number() || key.none() || key.sequence() != nullptr, "a {} cannot be a key",
          key.type_name());
  int64_t integer = 0;
  if (key.as_integer(integer)) return std::to_string(integer);
  if (const double* real = key.real();
      real != nullptr && *real == static_cast<double>(static_cast<int64_t>(std::clamp(*real, -9e15, 9e15))))
    return std::to_string(static_cast<int64_t>(*real));
  if (const auto* text = key.text()) return "'" + *text;
  return representation(key);
}

const Value* Dictionary::find(const Value& key) const {
  if (key.undefined() || key.dictionary() != nullptr || key.function() != nullptr) return nullptr;
  const auto found = index.find(key_of(key));
  return found == index.end() ? nullptr : &items[found->second].second;
}

void Dictionary::set(const Value& key, Value value) {
  const auto [place, added] = index.emplace(key_of(key), items.size());
  if (added) items.emplace_back(key, std::move(value));
  else items[place->second].second = std::move(value);
}

bool equal(const Value& a, const Value& b, int depth) {
  spend(1);
  require(depth < kMaximumNesting, "a value is nested deeper than {} levels", kMaximumNesting);
  if (a.number() && b.number()) {
    int64_t x = 0, y = 0;
    return a.as_integer(x) && b.as_integer(y) ? x == y : a.as_double() == b.as_double();
  }
  if (a.text() != nullptr && b.text() != nullptr) {
    spend(a.text()->size() / 64);
    return *a.text() == *b.text();
  }
  if (a.undefined() || a.none()) return a.undefined() == b.undefined() && a.none() == b.none();
  if (const auto* x = a.sequence(), *y = b.sequence(); x != nullptr && y != nullptr) {
    return x->tuple == y->tuple &&
           std::equal(x->items.begin(), x->items.end(), y->items.begin(), y->items.end(),
                      [&](const Value& one, const Value& other) { return equal(one, other, depth + 1); });
  }
  if (const auto* x = a.dictionary(), *y = b.dictionary(); x != nullptr && y != nullptr) {
    if (x == y) return true;
    return x->items.size() == y->items.size() && std::all_of(x->items.begin(), x->items.end(), [&](const auto& item) {
             const Value* other = y->find(item.first);
             return other != nullptr && equal(item.second, *other, depth + 1);
           });
  }
  return a.function() != nullptr && a.function() == b.function();
}

int compare(const Value& a, const Value& b, int depth) {
  spend(1);
  require(depth < kMaximumNesting, "a value is nested deeper than {} levels", kMaximumNesting);
  if (a.number() && b.number()) {
    int64_t x = 0, y = 0;
    if (a.as_integer(x) && b.as_integer(y)) return x < y ? -1 : x > y;
    return a.as_double() < b.as_double() ? -1 : a.as_double() > b.as_double();
  }
  if (a.text() != nullptr && b.text() != nullptr) return a.text()->compare(*b.text());
  if (const auto* x = a.sequence(), *y = b.sequence(); x != nullptr && y != nullptr && x->tuple == y->tuple) {
    for (size_t i = 0; i < std::min(x->items.size(), y->items.size()); ++i) {
      if (equal(x->items[i], y->items[i], depth + 1)) continue;
      return compare(x->items[i], y->items[i], depth + 1);
    }
    return x->items.size() < y->items.size() ? -1 : x->items.size() > y->items.size();
  }
  fail("'<' not supported between instances of '{}' and '{}'", a.type_name(), b.type_name());
}

std::string to_text(const Value& value) {
  if (const auto* text = value.text()) return *text;
  if (value.undefined()) return "";
  return representation(value);
}

std::string representation(const Value& value) {
  std::string out;
  append_representation(value, out, 0);
  return out;
}

Value from_json(const Json& json) {
  switch (json.type()) {
    case Json::value_t::null:
    case Json::value_t::discarded:
    case Json::value_t::binary:
      return None{};
    case Json::value_t::boolean:
      return json.get<bool>();
    case Json::value_t::number_integer:
      return json.get<int64_t>();
    case Json::value_t::number_unsigned:
      if (json.get<uint64_t>() <= INT64_MAX) return json.get<int64_t>();
      return json.get<double>();
    case Json::value_t::number_float:
      return json.get<double>();
    case Json::value_t::string:
      return json.get<std::string>();
    case Json::value_t::array: {
      List items;
      for (const Json& item : json) items.push_back(from_json(item));
      return items;
    }
    case Json::value_t::object:
      break;
  }
  auto dictionary = std::make_shared<Dictionary>();
  for (const auto& [key, value] : json.items()) dictionary->set(Value(key), from_json(value));
  return dictionary;
}

std::string json_text(const Value& value, const JsonStyle& style) {
  std::string out;
  append_json(value, style, out, 0);
  return out;
}

}  // namespace transom::jinja
