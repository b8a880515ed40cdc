// SPDX-License-Identifier: Apache-2.0
#include "work/train/tasks/sentences/sentence_data.h"

#include <algorithm>
#include <map>
#include <unordered_map>

#include "base/error.h"
#include "base/json/json.h"
#include "inputs/data/text/padding.h"
#include "work/train/tasks/sentences/sentence_objective.h"
#include "work/train/tasks/text/text_features.h"

namespace transom {

SentencePrompts::SentencePrompts(const std::optional<std::string>& text, const std::vector<std::string>& sets) {
  if (!text) return;
  if (!text->starts_with('{')) {
    everywhere_ = *text;
    return;
  }
  const auto expect_text = [](const std::string& name, const Json& value) {
    if (!value.is_string())
      fail(ErrorKind::kUsage, "--prompts: {}: expected a text, found {}", name, quoted(dump_json(value)));
    return value.get<std::string>();
  };
  const Json object = parse_json(*text, "--prompts");
  for (const auto& [name, value] : object.items()) {
    const bool is_set = std::find(sets.begin(), sets.end(), name) != sets.end();
    if (value.is_object()) {
      if (!is_set)
        fail(ErrorKind::kUsage, "--prompts: {}: expected the name of a set of --train_file, found none of {}",
             quoted(name), sets.empty() ? "them" : fmt::format("{}", fmt::join(sets, ", ")));
      for (const auto& [column, prompt] : value.items()) by_set_and_column_[name][column] = expect_text(column, prompt);
    } else if (is_set) {
      by_set_[name] = expect_text(name, value);
    } else {
      by_column_[name] = expect_text(name, value);
    }
  }
}

const std::string& SentencePrompts::of(const std::string& set, const std::string& column) const {
  if (const auto in_set = by_set_and_column_.find(set); in_set != by_set_and_column_.end())
    if (const auto found = in_set->second.find(column); found != in_set->second.end()) return found->second;
  if (const auto found = by_set_.find(set); found != by_set_.end()) return found->second;
  if (const auto found = by_column_.find(column); found != by_column_.end()) return found->second;
  return everywhere_;
}

void SentencePrompts::expect_columns(const std::vector<std::string>& columns) const {
  const auto expect = [&](const std::string& name) {
    if (std::find(columns.begin(), columns.end(), name) == columns.end())
      fail(ErrorKind::kUsage, "--prompts: expected names of columns ({}), found {}{}", fmt::join(columns, ", "),
           quoted(name), did_you_mean(name, columns));
  };
  for (const auto& [name, prompt] : by_column_) expect(name);
  for (const auto& [set, prompts] : by_set_and_column_)
    for (const auto& [name, prompt] : prompts) expect(name);
}

namespace {

EncodeOptions cut_at(const std::optional<int64_t>& length) {
  return {.truncation = length ? Truncation::kLongestFirst : Truncation::kNone, .max_length = length};
}

// The tokens of the prompt alone but for a special one at the end, as sentence-transformers counts them.
int64_t prompt_tokens(const SentenceTokens& tokens, const std::string& prompt) {
  if (prompt.empty() || tokens.include_prompt) return 0;
  const std::vector<int64_t> ids = tokens.tokenizer.encode(prompt, std::nullopt, cut_at(tokens.max_length)).ids;
  const std::vector<int64_t> special = tokens.tokenizer.all_special_ids();
  const bool ends = !ids.empty() && std::find(special.begin(), special.end(), ids.back()) != special.end();
  return static_cast<int64_t>(ids.size()) - (ends ? 1 : 0);
}

}  // namespace

SentenceSet::SentenceSet(std::string name, const SentenceRows& rows, const SentenceTokens& tokens,
                         const SentencePrompts& prompts)
    : tokens_(tokens), whole_labels_(rows.has_classes()) {
  struct Made {
    std::vector<std::vector<int64_t>> ids;
    SentenceRows::SentenceRow row;
  };
  std::vector<std::string> before;
  for (size_t i = 0; i < rows.columns(); ++i) {
    before.push_back(prompts.of(name, rows.column_name(i)));
    columns_.emplace_back().left_out = prompt_tokens(tokens, before[i]);
  }
  std::vector<Made> made = map_rows(rows.data().size(), [&](int64_t index) {
    Made one{{}, rows.row(index)};
    for (size_t i = 0; i < before.size(); ++i) {
      one.ids.push_back(
          tokens.tokenizer.encode(before[i] + one.row.texts[i], std::nullopt, cut_at(tokens.max_length)).ids);
      if (one.ids.back().empty())
        fail("{}: column {}: expected a text with tokens, found none", rows.data().where(index), rows.column_name(i));
      const int64_t most = *std::max_element(one.ids.back().begin(), one.ids.back().end());
      if (tokens.vocabulary > 0 && most >= tokens.vocabulary)
        fail("{}: column {}: the tokenizer gives the token {}, and the model has {}: expected those of one model",
             rows.data().where(index), rows.column_name(i), most, tokens.vocabulary);
    }
    return one;
  });
  std::unordered_map<std::string, uint64_t> numbers;
  for (Made& one : made) {
    for (size_t i = 0; i < columns_.size(); ++i) {
      columns_[i].ids.push_back(std::move(one.ids[i]));
      columns_[i].texts.push_back(numbers.emplace(one.row.texts[i], numbers.size()).first->second);
    }
    labels_.push_back(std::move(one.row.labels));
  }
}

Batch SentenceSet::batch(size_t number, const std::vector<int64_t>& indices) const {
  Batch batch;
  for (size_t column = 0; column < columns_.size(); ++column) {
    std::vector<const std::vector<int64_t>*> rows;
    std::vector<std::vector<int64_t>> masks, counts;
    int64_t longest = 0;
    for (const int64_t index : indices) {
      const std::vector<int64_t>& ids = columns_[column].ids[static_cast<size_t>(index)];
      rows.push_back(&ids);
      masks.emplace_back(ids.size(), 1);
      counts.emplace_back(masks.back());
      std::fill_n(counts.back().begin(), std::min<size_t>(ids.size(), static_cast<size_t>(columns_[column].left_out)),
                  0);
      longest = std::max(longest, static_cast<int64_t>(ids.size()));
    }
    const int64_t length = padded_length(longest, {.multiple_of = tokens_.multiple_of});
    const auto padded = [&](const std::vector<std::vector<int64_t>>& values) {
      std::vector<const std::vector<int64_t>*> each;
      for (const std::vector<int64_t>& row : values) each.push_back(&row);
      return pad(each, length, 0, /*left=*/false);
    };
    batch.sequences[sentence_input(number, column, "input_ids")] =
        pad(rows, length, tokens_.tokenizer.pad_token_id().value_or(0), /*left=*/false);
    batch.sequences[sentence_input(number, column, "attention_mask")] = padded(masks);
    if (columns_[column].left_out > 0) batch.sequences[sentence_input(number, column, "counted")] = padded(counts);
  }
  for (const int64_t index : indices)
    for (const float value : labels_[static_cast<size_t>(index)])
      if (whole_labels_) batch.labels.push_back(static_cast<int64_t>(value));
      else batch.label_values.push_back(value);
  return batch;
}

std::vector<uint64_t> SentenceSet::texts_of(int64_t row) const {
  std::vector<uint64_t> texts;
  for (const Column& column : columns_) texts.push_back(column.texts[static_cast<size_t>(row)]);
  return texts;
}

std::vector<int64_t> SentenceSet::classes() const {
  std::vector<int64_t> classes;
  for (const std::vector<float>& labels : labels_)
    classes.push_back(labels.empty() ? 0 : static_cast<int64_t>(labels[0]));
  return classes;
}

std::vector<int64_t> SentenceSet::distinct_texts(size_t column) const {
  std::unordered_map<uint64_t, int64_t> seen;
  std::vector<int64_t> result;
  for (const uint64_t text : columns_[column].texts)
    result.push_back(seen.emplace(text, static_cast<int64_t>(seen.size())).first->second);
  return result;
}

TrainingData training_data(std::shared_ptr<const std::vector<SentenceSet>> sets, const BatchSampling& sampling) {
  TrainingData data;
  std::vector<int64_t> begins;
  for (const SentenceSet& set : *sets) {
    begins.push_back(data.rows);
    data.rows += set.rows();
  }
  data.batch = [sets, begins](const std::vector<int64_t>& indices) {
    const auto behind = std::upper_bound(begins.begin(), begins.end(), indices.at(0));
    const auto number = static_cast<size_t>(behind - begins.begin()) - 1;
    std::vector<int64_t> own;
    for (const int64_t index : indices) own.push_back(index - begins[number]);
    return (*sets)[number].batch(number, own);
  };
  data.epoch_batches = [sets, sampling](int64_t epoch, int64_t batch_size) {
    std::vector<SampledSet> sampled;
    for (const SentenceSet& set : *sets)
      sampled.push_back(
          {.rows = set.rows(), .texts = [&set](int64_t row) { return set.texts_of(row); }, .labels = set.classes()});
    return sampled_batches(sampled, sampling, epoch, batch_size);
  };
  return data;
}

}  // namespace transom
