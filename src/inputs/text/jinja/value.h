// SPDX-License-Identifier: Apache-2.0
// Values of templates, as Python has them. Lists and dictionaries cannot be changed by a template.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "base/json/json_fwd.h"

namespace transom::jinja {

// Counts the steps of one rendering, on this thread, while it lives.
class Meter {
 public:
  Meter();
  ~Meter();
  Meter(const Meter&) = delete;
  Meter& operator=(const Meter&) = delete;

 private:
  Meter* outer_;
  size_t steps_ = 0;
  friend void spend(size_t steps);
};
// An error once there have been too many.
void spend(size_t steps);

class Value;
using List = std::vector<Value>;

struct Sequence {
  List items;
  bool tuple = false;
};

// Arguments of a call: those by position, those by name.
struct Arguments {
  List positional;
  std::vector<std::pair<std::string, Value>> named;
};

using Function = std::function<Value(Arguments&)>;
struct Dictionary;

struct Undefined {
  std::string name;  // what was looked for, or a sentence that says why there is nothing
};
struct None {};

class Value {
 public:
  Value() : data_(Undefined{}) {}
  Value(None) : data_(None{}) {}
  Value(Undefined undefined) : data_(std::move(undefined)) {}
  Value(bool value) : data_(value) {}
  Value(int64_t value) : data_(value) {}
  Value(int value) : data_(int64_t{value}) {}
  Value(double value) : data_(value) {}
  Value(std::string value) : data_(std::make_shared<const std::string>(std::move(value))) {}
  Value(std::string_view value) : Value(std::string(value)) {}
  Value(const char* value) : Value(std::string(value)) {}
  Value(List items, bool tuple = false) : data_(std::make_shared<const Sequence>(Sequence{std::move(items), tuple})) {}
  Value(std::shared_ptr<Dictionary> dictionary) : data_(std::move(dictionary)) {}
  Value(Function function) : data_(std::make_shared<const Function>(std::move(function))) {}

  bool undefined() const { return std::holds_alternative<Undefined>(data_); }
  bool none() const { return std::holds_alternative<None>(data_); }
  const bool* boolean() const { return std::get_if<bool>(&data_); }
  const int64_t* integer() const { return std::get_if<int64_t>(&data_); }
  const double* real() const { return std::get_if<double>(&data_); }
  const std::string* text() const { return pointed<const std::string>(); }
  const Sequence* sequence() const { return pointed<const Sequence>(); }
  const Dictionary* dictionary() const { return pointed<Dictionary>(); }
  Dictionary* mutable_dictionary() const {
    const auto* found = std::get_if<std::shared_ptr<Dictionary>>(&data_);
    return found != nullptr ? found->get() : nullptr;
  }
  const Function* function() const { return pointed<const Function>(); }
  bool number() const { return boolean() != nullptr || integer() != nullptr || real() != nullptr; }
  double as_double() const;  // of a number
  // True where Python's int() of a bool or an int.
  bool as_integer(int64_t& value) const;
  const std::string& undefined_name() const { return std::get<Undefined>(data_).name; }

  const char* type_name() const;  // as Python names it
  bool truth() const;

 private:
  template <typename T>
  const T* pointed() const {
    const auto* found = std::get_if<std::shared_ptr<T>>(&data_);
    return found != nullptr ? found->get() : nullptr;
  }
  std::variant<Undefined, None, bool, int64_t, double, std::shared_ptr<const std::string>,
               std::shared_ptr<const Sequence>, std::shared_ptr<Dictionary>, std::shared_ptr<const Function>>
      data_;
};

// Keeps the order of insertion. Keys are texts, numbers, booleans or None.
struct Dictionary {
  std::vector<std::pair<Value, Value>> items;
  std::unordered_map<std::string, size_t> index;  // by the representation of the key
  bool name_space = false;                        // namespace(): its attributes can be set

  const Value* find(const Value& key) const;
  void set(const Value& key, Value value);
};

bool equal(const Value& a, const Value& b, int depth = 0);
// Less than zero, zero, more; an error for values that Python does not order.
int compare(const Value& a, const Value& b, int depth = 0);

std::string to_text(const Value& value);         // str()
std::string representation(const Value& value);  // repr()
Value from_json(const Json& json);
// As Python's json.dumps; negative `indent`: one line.
struct JsonStyle {
  bool ascii = false, sort_keys = false;
  std::string indent;  // of one level; empty with `lines` false
  bool lines = false;
  std::string item_separator = ", ", key_separator = ": ";
};
std::string json_text(const Value& value, const JsonStyle& style);

}  // namespace transom::jinja
