// SPDX-License-Identifier: Apache-2.0
// Options that have one of a few values. Each is given as its enumerator or by its name, as on command lines and in
// files: {.quantization = Quantization::kInt8} and {.quantization = "int8"} are the same.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace transom {

// Names of an enumeration. Of several with one value the first is what it is called, the others are read as well.
template <typename E>
struct OptionNames {
  struct Name {
    std::string_view name;
    E value;
  };
  std::string_view option;  // "dtype"
  std::span<const Name> names;
};

// Throws Error of kUsage: "WHERE: expected none, int8 ..., found 'int7'".
[[noreturn]] void refuse_option(std::string_view where, std::span<const std::string_view> known,
                                std::string_view found);

// A value of E, for which `const OptionNames<E>& option_names(E)` is declared beside it.
template <typename E>
class OneOf {
 public:
  constexpr OneOf(E value) : value_(value) {}
  // Throws Error of kUsage that lists the names.
  OneOf(std::string_view name) : OneOf(parse(name, option_names(E()).option)) {}
  OneOf(const char* name) : OneOf(std::string_view(name)) {}
  OneOf(const std::string& name) : OneOf(std::string_view(name)) {}

  // The same, with an error that begins with `where`, as "--dtype".
  static E parse(std::string_view name, std::string_view where) {
    const OptionNames<E>& all = option_names(E());
    for (const auto& each : all.names)
      if (each.name == name) return each.value;
    std::string_view known[32];
    size_t count = 0;
    for (const auto& each : all.names)
      if (count < 32 && called(each.value) == each.name) known[count++] = each.name;
    refuse_option(where, {known, count}, name);
  }

  constexpr operator E() const { return value_; }
  std::string_view name() const { return called(value_); }

 private:
  static std::string_view called(E value) {
    for (const auto& each : option_names(E()).names)
      if (each.value == value) return each.name;
    return "";
  }
  E value_;
};

}  // namespace transom
