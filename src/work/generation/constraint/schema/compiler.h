// SPDX-License-Identifier: Apache-2.0
// The making of a grammar from a JSON schema. An object is used for one schema. What is refused throws Error with the
// place in the schema; what allows no text is a part that matches nothing.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/json/json.h"
#include "work/generation/constraint/grammar/grammar.h"
#include "work/generation/constraint/grammar/text_set.h"

namespace transom::constraint {

class SchemaCompiler {
 public:
  // `writes_others`: properties that are not named and nothing is said of, too.
  explicit SchemaCompiler(const Json& root, bool writes_others = false);
  Grammar grammar(bool object_only);

 private:
  using Part = GrammarBuilder::Part;
  static constexpr int64_t kMostCount = 20'000;  // of rules for items and properties that differ

  // ---- pieces, any_json.cpp

  Part space();
  Part comma();
  Part colon();
  Part quoted_part(Part inside);
  Part literal_value(const Json& value);
  uint32_t rule(const char* name, Part (SchemaCompiler::*make)());
  Part any_string();
  Part any_value();
  Part any_object();
  Part any_array();
  Part string_of_length(int64_t least, int64_t most);
  Part make_string();
  Part make_value();
  Part make_object();
  Part make_array();

  // ---- schemas, json_schema.cpp

  template <class... Arguments>
  Part nothing(fmt::format_string<Arguments...> why, Arguments&&... arguments) {
    if (why_nothing_.empty()) why_nothing_ = fmt::format(why, std::forward<Arguments>(arguments)...);
    return builder_.either({});
  }
  void expect_keywords(const Json& schema, const std::string& where, std::initializer_list<std::string_view> known);
  Part value(const Json& schema, const std::string& where, int depth);
  // Of a schema without $ref and, but beside anyOf and oneOf, without allOf.
  Part plain(const Json& schema, const std::string& where, int depth);
  Part merged(const Json& schema, const std::string& where, int depth);
  std::vector<std::string> types_of(const Json& schema, const std::string& where);
  Part of_type(const std::string& type, const Json& schema, const std::string& where, int depth);
  Part enumeration(const Json& schema, const std::string& where);
  Part reference(const Json& schema, const std::string& where);
  bool may_be_written(const Json& value, const Json& schema, const std::string& where);
  Part combination(const Json& schema, const std::string& name, const std::string& where, int depth);
  void leave_one(const Json& list, const Json& beside, const std::string& where, std::vector<Json>& each);
  const Json& kept(Json schema);
  int64_t count_of(const Json& schema, const char* name, int64_t otherwise, const std::string& where);

  // ---- objects, objects.cpp

  struct ObjectShape {
    std::vector<std::pair<std::string, const Json*>> named;
    std::set<std::string> required;
    std::optional<uint32_t> free;  // rule of a member that is not named
    int64_t least = 0, most = -1;
  };
  Part object(const Json& schema, const std::string& where, int depth);
  std::optional<uint32_t> free_member(const Json& schema, const std::set<std::string>& names, const Json* others,
                                      const std::string& where, int depth);
  Part members(const ObjectShape& shape, const std::string& where, int depth);
  Part free_members(const ObjectShape& shape, int64_t written, const std::string& where);

  // ---- arrays, arrays.cpp

  struct ArrayShape {
    std::vector<uint32_t> first;  // rules of the items of prefixItems
    std::optional<uint32_t> item, wanted;
    int64_t least = 0, most = -1;
  };
  Part array(const Json& schema, const std::string& where, int depth);
  Part items(const ArrayShape& shape);
  Part items_with(const ArrayShape& shape);
  Part different_items(const Json& item, const ArrayShape& shape, const std::string& where);

  // ---- strings and numbers, scalars.cpp

  Part string(const Json& schema, const std::string& where);
  // What stands between the quotes; none where it is any string.
  std::optional<TextSet> text_set(const Json& schema, const std::string& where, bool with_lengths);
  Part number(const Json& schema, const std::string& where, bool whole);

  const Json& root_;
  bool writes_others_;
  GrammarBuilder builder_;
  std::map<std::string, uint32_t> named_, references_;
  std::vector<std::unique_ptr<Json>> kept_;
  std::string current_type_, why_nothing_;
  size_t nested_references_ = 0;
  int64_t work_ = 2'000'000;  // comparisons of values and schemas, so that none takes long
};

// One character of a JSON string.
GrammarBuilder::Part json_character(GrammarBuilder& builder);
std::string schema_text(const Json& json);

}  // namespace transom::constraint
