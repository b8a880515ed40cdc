// SPDX-License-Identifier: Apache-2.0
// Arguments declared once, as rows of a table: parsing of flags and of JSON, --help, checks and writing follow from it.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/json/json_fwd.h"
#include "base/terminal/command_line.h"
#include "transom/training_arguments.h"

namespace transom {

using Field = std::variant<bool*, std::optional<bool>*, int64_t*, std::optional<int64_t>*, double*,
                           std::optional<double>*, std::vector<double>*, std::string*, std::optional<std::string>*,
                           std::vector<std::string>*, std::optional<std::vector<std::string>>*, JsonText*>;

// One row: a field of the record; a heading; another name of a field; or a name that is known and has no field, because
// it means nothing here or needs what is not there.
struct Argument {
  enum class Kind { kField, kSection, kAlias, kIgnored, kOnlyDefault, kUnavailable };
  Kind kind = Kind::kField;
  std::string_view name;
  std::string_view doc;  // kIgnored, kOnlyDefault, kUnavailable: why; kAlias: the name it stands for
  std::function<Field(void* record)> field = {};  // kField
  std::vector<std::string_view> choices;  // kField: the allowed strings; kOnlyDefault: the values that are accepted
  double minimum = std::numeric_limits<double>::lowest();
  double maximum = std::numeric_limits<double>::max();
  bool above_minimum = false;  // the minimum itself is refused
  std::string_view alone;      // kField of text: the value where the flag stands without one; empty: refused
  bool takes_objects = false;  // kField of text: an object of JSON is taken as its text

  Argument alone_means(std::string_view value) &&;
  Argument one_of(std::vector<std::string_view> values) &&;
  Argument at_least(double value) &&;
  Argument above(double value) &&;
  Argument at_most(double value) &&;
  Argument or_object() &&;
};

template <typename Record, typename Type>
Record record_of(Type Record::*);

// A row for the field `member`: field<&TrainingArguments::seed>("seed", "what it does").
template <auto member>
Argument field(std::string_view name, std::string_view doc) {
  using Record = decltype(record_of(member));
  Argument argument{.name = name, .doc = doc};
  argument.field = [](void* record) -> Field { return &(static_cast<Record*>(record)->*member); };
  return argument;
}
Argument section(std::string_view title);
Argument alias(std::string_view name, std::string_view of);
Argument ignored(std::string_view name, std::string_view why);
Argument unavailable(std::string_view name, std::string_view what);  // refused, since it is "an argument of ..."
Argument only_default(std::string_view name, std::vector<std::string_view> accepted, std::string_view why);

using ArgumentTable = std::span<const Argument>;

// A table and the record that its fields are in.
struct BoundTable {
  ArgumentTable table;
  void* record;
  std::vector<std::string>* given = nullptr;  // receives the names of the fields that are set
};

// The row of this name (of what it stands for, if it is an alias) and its record; null where there is none.
struct FoundArgument {
  const Argument* argument = nullptr;
  void* record = nullptr;
  std::vector<std::string>* given = nullptr;
};
FoundArgument find_argument(std::span<const BoundTable> tables, std::string_view name);
// All names, each with `prefix` before it.
std::vector<std::string> argument_names(std::span<const BoundTable> tables, std::string_view prefix);

// Sets the field `name` of whichever table has it. `where` comes before the name in errors ("--" or "args.json: ").
// A name without a field adds a sentence to `notes` where that is worth saying.
void assign(std::span<const BoundTable> tables, std::string_view name, const Json& value, std::string_view where,
            std::vector<std::string>& notes);
void assign_all(std::span<const BoundTable> tables, const Json& object, std::string_view where,
                std::vector<std::string>& notes);
// Reads flags into the fields, and those of `own` into what these point at. True where --help is among them.
bool assign_flags(std::span<const BoundTable> tables, const std::vector<std::string>& flags, std::vector<Option> own,
                  std::vector<std::string>& notes);

// "name=value,name=value" (optim_args, config_overrides) as pairs; `where` names the argument in errors.
std::vector<std::pair<std::string, std::string>> name_values(std::string_view text, std::string_view where);

// The fields by name, in the table's order.
Json write_fields(const BoundTable& bound);
// A few lines an argument, with its type, choices and default (the value in the record).
std::string describe(const BoundTable& bound);

}  // namespace transom
