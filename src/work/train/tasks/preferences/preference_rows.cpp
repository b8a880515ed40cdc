// SPDX-License-Identifier: Apache-2.0
#include "work/train/tasks/preferences/preference_rows.h"

#include <algorithm>

#include "base/error.h"
#include "inputs/data/columns.h"
#include "work/train/tasks/chats/messages.h"

namespace transom {
namespace {

constexpr int64_t kUnpairedAtOnce = 1000;  // rows that datasets.map is given at once

void refuse_pictures(const Dataset& data) {
  for (const char* name : {"images", "image"})
    if (data.find(name))
      fail(ErrorKind::kUnsupported, "{}: column {}: preferences about pictures are not trained; leave the column out",
           data.name(), name);
}

bool says_nothing(const Json& answer) {
  if (answer.is_string()) return answer.get_ref<const std::string&>().find_first_not_of(" \t\r\n") == std::string::npos;
  return std::all_of(answer.begin(), answer.end(), [](const Json& message) {
    if (message["role"] != "assistant") return true;
    const bool calls = message.contains("tool_calls") && !message["tool_calls"].empty();
    const Json& content = message["content"];
    return !calls && (content.is_null() || content.empty() || content == "");
  });
}

// An answer of a cell: a text, or messages in plain form.
Json answer_of(const Dataset& data, const Row& row, size_t column, int64_t index) {
  Json value = json_of_cell(data, row, column, index);
  const std::string where = data.where(index) + ", " + data.columns()[column].name;
  if (value.is_array()) return plain_messages(value, where);
  require(value.is_string(), "{}: expected a text or a list of messages, found {}", where, value.type_name());
  return value;
}

void expect_answer(const Json& answer, const std::string& where, std::string_view which) {
  require(!answer.is_array() || has_assistant_turn(answer), "{}: {}: expected a message of the assistant, found none",
          where, which);
}

// Where the bytes of two texts differ, at the beginning of a character.
size_t common_beginning(const std::string& a, const std::string& b) {
  const auto length = static_cast<size_t>(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin());
  const auto within = [](const std::string& text, size_t at) {
    return at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80;
  };
  size_t at = length;
  while (at > 0 && (within(a, at) || within(b, at))) --at;
  // A text that the other one begins with keeps its last character.
  if (at == std::min(a.size(), b.size()) && at > 0) do
      --at;
    while (at > 0 && within(a.size() < b.size() ? a : b, at));
  return at;
}

}  // namespace

void extract_prompt(PreferenceRow& row, const std::string& where) {
  if (!row.is_chat()) {
    const std::string chosen = row.chosen.get<std::string>(), rejected = row.rejected.get<std::string>();
    size_t at = common_beginning(chosen, rejected);
    if (at > 0 && chosen[at - 1] == ' ') --at;
    require(at > 0, "{}: expected a prompt, or answers that begin with the same one; found neither", where);
    row.prompt = chosen.substr(0, at), row.chosen = chosen.substr(at), row.rejected = rejected.substr(at);
    return;
  }
  const Json::array_t chosen = row.chosen.get<Json::array_t>(), rejected = row.rejected.get<Json::array_t>();
  auto at = std::mismatch(chosen.begin(), chosen.end(), rejected.begin(), rejected.end()).first - chosen.begin();
  at = std::min(at, static_cast<std::ptrdiff_t>(std::min(chosen.size(), rejected.size())) - 1);
  require(at > 0, "{}: expected a prompt, or answers that begin with the same messages; found neither", where);
  row.prompt = Json(Json::array_t(chosen.begin(), chosen.begin() + at));
  row.chosen = Json(Json::array_t(chosen.begin() + at, chosen.end()));
  row.rejected = Json(Json::array_t(rejected.begin() + at, rejected.end()));
}

PreferenceRows::PreferenceRows(Dataset data, bool finds_prompts)
    : data_(with_texts_as_written(std::move(data), {"prompt", "chosen", "rejected", "system"})),
      finds_prompts_(finds_prompts),
      prompt_(data_.find("prompt")),
      margin_(data_.find("margin")),
      template_columns_(data_) {
  const auto chosen = data_.find("chosen"), rejected = data_.find("rejected");
  if (!chosen || !rejected)
    fail("{}: expected columns chosen and rejected (and prompt), found {}", data_.name(),
         fmt::join(column_names(data_), ", "));
  chosen_ = *chosen, rejected_ = *rejected;
  refuse_pictures(data_);
}

std::string PreferenceRows::reads() const {
  return fmt::format("preferences: columns {}chosen and rejected{}", prompt_ ? "prompt, " : "",
                     margin_ ? ", with margin" : "");
}

PreferenceRow PreferenceRows::row(int64_t index) const {
  const Row cells = data_.row(index);
  const std::string where = data_.where(index);
  PreferenceRow row;
  row.chosen = answer_of(data_, cells, chosen_, index);
  row.rejected = answer_of(data_, cells, rejected_, index);
  require(row.chosen.is_array() == row.rejected.is_array(),
          "{}: expected chosen and rejected that are both texts or both lists of messages, found {} and {}", where,
          row.chosen.type_name(), row.rejected.type_name());
  require(row.chosen != row.rejected, "{}: chosen and rejected are the same: there is nothing to prefer", where);
  if (prompt_) row.prompt = answer_of(data_, cells, *prompt_, index);
  // Some files give the text of a prompt beside chats that begin with it.
  if (row.is_chat() && row.prompt.is_string()) row.prompt = Json();
  require(row.prompt.is_null() || row.prompt.is_array() == row.is_chat(),
          "{}: expected a prompt and answers that are all texts or all lists of messages, found {} and {}", where,
          row.prompt.type_name(), row.chosen.type_name());
  if (const std::string system = text_beside(data_, cells, "system", index); !row.prompt.is_null()) {
    put_system_text(row.prompt, system, where);
  } else {
    put_system_text(row.chosen, system, where);
    put_system_text(row.rejected, system, where);
  }
  if (row.prompt.is_null() && finds_prompts_) extract_prompt(row, where);
  expect_answer(row.chosen, where, "chosen");
  expect_answer(row.rejected, where, "rejected");
  require(!says_nothing(row.chosen), "{}: chosen is empty: there is nothing to learn", where);
  if (margin_) {
    const Json margin = json_of(cells[*margin_], where);
    require(margin.is_number(), "{}, column margin: expected a number, found {}", where, quoted(dump_json(margin)));
    row.margin = margin.get<double>();
  }
  row.tools = template_columns_.tools(cells, where);
  row.variables = template_columns_.variables(cells, where);
  return row;
}

AnswerRows::AnswerRows(Dataset data)
    : data_(with_texts_as_written(std::move(data), {"prompt", "completion", "system"})), template_columns_(data_) {
  if (data_.find("chosen") && data_.find("rejected")) {
    pairs_.emplace(data_, /*finds_prompts=*/true);
    return;
  }
  const auto prompt = data_.find("prompt"), completion = data_.find("completion"), label = data_.find("label");
  if (!prompt || !completion || !label)
    fail("{}: expected columns prompt, completion and label, or chosen and rejected; found {}", data_.name(),
         fmt::join(column_names(data_), ", "));
  prompt_ = *prompt, completion_ = *completion, label_ = *label;
  refuse_pictures(data_);
}

int64_t AnswerRows::size() const { return pairs_ ? 2 * data_.size() : data_.size(); }

std::string AnswerRows::reads() const {
  return pairs_ ? pairs_->reads() + ", each as two answers"
                : "answers: columns prompt and completion; good: column label";
}

namespace {

// Which pair an answer is of, and whether it is the better one.
std::pair<int64_t, bool> place_in_pairs(int64_t index, int64_t pairs) {
  const int64_t begin = index / (2 * kUnpairedAtOnce) * kUnpairedAtOnce;
  const int64_t here = std::min(kUnpairedAtOnce, pairs - begin), within = index - 2 * begin;
  return {begin + within % here, within < here};
}

bool truth_of(const Json& label, const std::string& where) {
  if (label.is_boolean()) return label.get<bool>();
  if (label.is_number() && (label == 0 || label == 1)) return label == 1;
  const std::string text = label.is_string() ? label.get<std::string>() : "";
  if (text == "true" || text == "True" || text == "1") return true;
  if (text == "false" || text == "False" || text == "0") return false;
  fail("{}, column label: expected true or false, found {}", where, quoted(dump_json(label)));
}

}  // namespace

std::string AnswerRows::where(int64_t index) const {
  return data_.where(pairs_ ? place_in_pairs(index, data_.size()).first : index);
}

AnswerRow AnswerRows::row(int64_t index) const {
  if (pairs_) {
    const auto [place, good] = place_in_pairs(index, data_.size());
    PreferenceRow pair = pairs_->row(place);
    return {.prompt = std::move(pair.prompt),
            .completion = std::move(good ? pair.chosen : pair.rejected),
            .good = good,
            .tools = std::move(pair.tools),
            .variables = std::move(pair.variables)};
  }
  const Row cells = data_.row(index);
  const std::string at = data_.where(index);
  AnswerRow row;
  row.prompt = answer_of(data_, cells, prompt_, index);
  row.completion = answer_of(data_, cells, completion_, index);
  require(row.prompt.is_array() == row.is_chat(),
          "{}: expected a prompt and a completion that are both texts or both lists of messages, found {} and {}", at,
          row.prompt.type_name(), row.completion.type_name());
  put_system_text(row.prompt, text_beside(data_, cells, "system", index), at);
  expect_answer(row.completion, at, "completion");
  row.good = truth_of(json_of(cells[label_], at), at);
  require(!row.good || !says_nothing(row.completion), "{}: completion is empty: there is nothing to learn", at);
  row.tools = template_columns_.tools(cells, at);
  row.variables = template_columns_.variables(cells, at);
  return row;
}

}  // namespace transom
