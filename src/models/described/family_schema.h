// SPDX-License-Identifier: Apache-2.0
// What a family file may say of its decoder: sections, their options, and what holds where it says nothing.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "models/described/option_values.h"

namespace transom {

struct SchemaOption {
  enum class Kind { kNumber, kFlag, kText };
  std::string_view name;
  Kind kind;
  std::string_view otherwise;     // JSON; empty: it has to be said
  bool by_layer = false;          // whether layers may have values of their own
  std::string_view choices = {};  // of kText: what there is, with spaces between
};

struct SchemaSection {
  std::string_view path;  // "decoder.attention"
  std::span<const SchemaOption> options;
  bool by_default;  // whether it holds where the file does not have it
};

std::span<const SchemaSection> family_schema();
const SchemaSection& schema_section(std::string_view path);

// One section of a file for one configuration, and of one layer where it has options by layer.
class OptionSection {
 public:
  OptionSection(const Json& file, const OptionValues& values, std::string_view path, std::optional<int64_t> layer = {});
  // Whether it is there, and its option "when" does not say otherwise.
  bool holds() const;
  bool flag(std::string_view name) const;
  int64_t whole(std::string_view name) const;
  double real(std::string_view name) const;
  std::string text(std::string_view name) const;  // empty: null. Refuses what is not among the choices.
  bool is_null(std::string_view name) const;

 private:
  const Json& option(std::string_view name) const;
  OptionPlace place(std::string_view name) const;
  const SchemaSection& schema_;
  const OptionValues& values_;
  const Json* own_;  // null: the file does not have the section
  std::optional<int64_t> layer_;
};

// Unknown sections and options, constants of a wrong type, unknown names within options.
void check_sections(const Json& file, std::vector<std::string>& findings);

}  // namespace transom
