// SPDX-License-Identifier: Apache-2.0
#include "inputs/data/text/text_pairs.h"

#include "base/error.h"
#include "inputs/data/columns.h"
#include "inputs/data/text/conversation_rows.h"

namespace transom {
namespace {

std::string column_list(const Dataset& data) { return fmt::format("{}", fmt::join(column_names(data), ", ")); }

// The column of this name, or the language's key: de_DE is looked up as de, as the script does.
std::optional<size_t> language(const Dataset& data, const std::string& name) {
  for (const std::string& code : {name, name.substr(0, name.find('_'))})
    for (const std::string& column : {"translation." + code, code})
      if (const auto found = data.find(column)) return found;
  return std::nullopt;
}

// The columns that a pair can be made of where none are named, in the file's order: the languages, or those of text.
// Where a CSV file has two columns, they are text whatever they look like.
std::vector<size_t> texts(const Dataset& data) {
  std::vector<size_t> translations, all;
  for (size_t i = 0; i < data.columns().size(); ++i) {
    if (data.columns()[i].name.starts_with("translation.")) translations.push_back(i);
    if (data.columns()[i].type == ColumnType::kString || (data.is_untyped() && data.columns().size() == 2))
      all.push_back(i);
  }
  return translations.empty() ? all : translations;
}

// Names that say which of two columns is the source.
constexpr std::pair<std::string_view, std::string_view> kPairs[] = {
    {"source", "target"},        {"prompt", "completion"},     {"prompt", "response"},    {"instruction", "output"},
    {"instruction", "response"}, {"question", "answer"},       {"article", "highlights"}, {"article", "summary"},
    {"document", "summary"},     {"dialogue", "summary"},      {"text", "summary"},       {"input", "target"},
    {"inputs", "targets"},       {"input_text", "target_text"}};

}  // namespace

TextPairColumns text_pair_columns(const Dataset& data, const ScriptArguments& arguments) {
  const auto named = [&](const std::optional<std::string>& name, std::string_view argument,
                         auto find) -> std::optional<size_t> {
    if (!name) return std::nullopt;
    const auto found = find(data, *name);
    if (!found)
      fail("{}: expected the column {} (--{}), found {}", data.name(), transom::quoted(*name), argument,
           column_list(data));
    return found;
  };
  const auto column = [](const Dataset& rows, const std::string& name) { return rows.find(name); };
  std::optional<size_t> source = named(arguments.text_column, "text_column", column),
                        target = named(arguments.summary_column, "summary_column", column);
  if (!source) source = named(arguments.source_lang, "source_lang", language);
  if (!target) target = named(arguments.target_lang, "target_lang", language);
  // Instructions may have an input, preferences a second answer: parts that a pair would leave out.
  const std::string form = conversation_form(data);
  if (!source &&
      (form == "chats" || form == "preferences" || (form == "instructions and answers" && data.find("input"))))
    refuse_conversations(data, form, "--text_column and --summary_column");
  if (!source && !target)
    for (const auto& [first, second] : kPairs)
      if (const auto one = data.find(first), other = data.find(second); !source && one && other)
        source = one, target = other;
  if (!source) source = data.find("source");
  if (!target) target = data.find("target");
  std::vector<size_t> others;
  for (const size_t candidate : texts(data))
    if (candidate != source && candidate != target) others.push_back(candidate);
  const size_t open = (source ? 0U : 1U) + (target ? 0U : 1U);
  if (open > 0 && others.size() > open)
    fail(
        "{}: expected two columns of text, found {}; name them with --text_column and --summary_column, or with "
        "--source_lang and --target_lang",
        data.name(), column_list(data));
  for (const size_t candidate : others) {
    if (!source) source = candidate;
    else if (!target) target = candidate;
  }
  if (!source) fail("{}: expected a column of text, found {}", data.name(), column_list(data));
  return {*source, target};
}

}  // namespace transom
