// SPDX-License-Identifier: Apache-2.0
#include "train/text_classification.h"

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "base/threads.h"
#include "data/padding.h"
#include "io/config.h"
#include "transom/tokenizer.h"

namespace transom {
namespace {

constexpr int64_t kDefaultLength = 128;  // run_classification's max_seq_length

std::string text_of(const Value& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  return std::holds_alternative<std::monostate>(value) ? "" : label_name(value);
}

// All rows, tokenised once on all threads; rows are short beside the text they came from.
struct TokenisedText {
  std::vector<Features> rows;
};

TrainingData tokenise(const Dataset& data, const Tokenizer& tokenizer, const std::optional<Labels>& labels,
                      const TrainArguments& arguments, int64_t max_length) {
  const ScriptArguments& script = arguments.script;
  const ClassificationColumns columns = classification_columns(data, script);
  EncodeOptions options{.truncation = Truncation::kLongestFirst, .max_length = max_length};
  const auto tokenised = std::make_shared<TokenisedText>();
  tokenised->rows.resize(static_cast<size_t>(data.size()));
  const bool takes_types =
      std::count(tokenizer.model_input_names().begin(), tokenizer.model_input_names().end(), "token_type_ids") > 0;
  constexpr int64_t kRowsAtOnce = 64;
  parallel_for(static_cast<size_t>((data.size() + kRowsAtOnce - 1) / kRowsAtOnce), [&](size_t chunk) {
    const int64_t begin = static_cast<int64_t>(chunk) * kRowsAtOnce;
    for (int64_t i = begin; i < std::min(data.size(), begin + kRowsAtOnce); ++i) {
      const Row row = data.row(i);
      std::string first = text_of(row[columns.text[0]]);
      std::optional<std::string> second;
      if (columns.joined) {
        for (size_t k = 1; k < columns.text.size(); ++k)
          first += script.text_column_delimiter + text_of(row[columns.text[k]]);
      } else if (columns.text.size() > 1) {
        second = text_of(row[columns.text[1]]);
      }
      Encoding encoding =
          tokenizer.encode(first, second ? std::optional<std::string_view>(*second) : std::nullopt, options);
      Features& features = tokenised->rows[static_cast<size_t>(i)];
      features.sequences["input_ids"] = std::move(encoding.ids);
      features.sequences["attention_mask"] = std::move(encoding.attention_mask);
      if (takes_types) features.sequences["token_type_ids"] = std::move(encoding.type_ids);
      if (!columns.label || !labels) continue;
      const Value& label = row[*columns.label];
      const std::string where = data.where(i);
      if (labels->kind() == LabelKind::kClasses) features.label = labels->id(label, where);
      else if (labels->kind() == LabelKind::kMultiLabel) features.label_values = labels->indicators(label, where);
      else if (const auto* real = std::get_if<double>(&label)) features.label_values = {static_cast<float>(*real)};
      else if (const auto* whole = std::get_if<int64_t>(&label)) features.label_values = {static_cast<float>(*whole)};
      else fail("{}: expected a number as the label", where);
    }
  });
  PaddingOptions padding{.pad_token_id = tokenizer.pad_token_id().value_or(0),
                         .left = tokenizer.padding_side() == Side::kLeft};
  padding.multiple_of = script.pad_to_multiple_of;
  if (script.pad_to_max_length) padding.max_length = max_length;
  TrainingData result;
  result.rows = data.size();
  for (const Features& row : tokenised->rows)
    result.lengths.push_back(static_cast<int64_t>(row.sequences.at("input_ids").size()));
  result.batch = [tokenised, padding](const std::vector<int64_t>& indices) {
    std::vector<Features> rows;
    for (const int64_t index : indices) rows.push_back(tokenised->rows[static_cast<size_t>(index)]);
    return collate(rows, padding);
  };
  return result;
}

}  // namespace

void prepare_text_classification(const TrainArguments& arguments, const std::optional<Dataset>& train,
                                 const std::optional<Dataset>& validation, TaskSetup& setup) {
  const ScriptArguments& script = arguments.script;
  const Tokenizer tokenizer = Tokenizer::from_pretrained(script.tokenizer_name.value_or(script.model_name_or_path));
  const Dataset& any = train ? *train : *validation;
  const ClassificationColumns columns = classification_columns(any, script);

  LoadOptions options{.task = "text-classification",
                      .ignore_mismatched_sizes = script.ignore_mismatched_sizes,
                      .seed = static_cast<uint64_t>(arguments.training.seed)};
  std::optional<Labels> labels;
  if (columns.label) labels = Labels::of(any, *columns.label, script.do_regression);
  const Config config = Config::read(std::filesystem::path(script.model_name_or_path) / "config.json");
  if (labels && labels->kind() == LabelKind::kRegression) {
    options.num_labels = 1;
    options.problem_type = "regression";
  } else if (labels) {
    // A checkpoint that was trained on the same classes keeps its order of them.
    std::vector<std::string> known;
    for (const auto& [id, name] : config.get_map("id2label")) known.push_back(name);
    const bool numbered =
        std::all_of(known.begin(), known.end(), [](const std::string& name) { return name.starts_with("LABEL_"); });
    if (!labels->reorder(known) && !(known.size() == labels->names().size() && !train))
      options.labels = labels->names();
    else if (numbered && train) options.labels = labels->names();
    if (labels->kind() == LabelKind::kMultiLabel) options.problem_type = "multi_label_classification";
    else if (train) options.problem_type = "single_label_classification";
  }
  setup.model = Model::from_pretrained(script.model_name_or_path, options);
  const int64_t positions =
      setup.model->config().get_int("max_position_embeddings", std::numeric_limits<int64_t>::max());
  const int64_t length = std::min(
      {script.max_seq_length.value_or(kDefaultLength), tokenizer.model_max_length().value_or(positions), positions});
  if (train) setup.train = tokenise(*train, tokenizer, labels, arguments, length);
  if (validation) setup.validation = tokenise(*validation, tokenizer, labels, arguments, length);
  setup.save_tokenizer = [tokenizer](const std::string& directory) { tokenizer.save_pretrained(directory); };
}

}  // namespace transom
