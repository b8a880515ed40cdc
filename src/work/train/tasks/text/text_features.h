// SPDX-License-Identifier: Apache-2.0
// What the tasks that are trained on text share: from rows of text to batches of tokens.
#pragma once

#include <algorithm>
#include <functional>
#include <vector>

#include "base/threads/threads.h"
#include "inputs/data/columns.h"
#include "inputs/data/text/padding.h"
#include "transom/tokenizer.h"
#include "work/train/files/trainer_state.h"
#include "work/train/tasks/task_data.h"

namespace transom {

// The tokenizer, and how its tokens become rows of a model.
class TextEncoder {
 public:
  // `otherwise` is the example script's max_seq_length where none is given; nothing: the tokenizer's own, at most 1024.
  TextEncoder(const TrainArguments& arguments, const Model& model, std::optional<int64_t> otherwise,
              const TokenizerOptions& options = {});

  const Tokenizer& tokenizer() const { return tokenizer_; }
  int64_t max_length() const { return max_length_; }
  // A text, or a pair of texts, of which each may be empty.
  Encoding encode(const std::string& first, const std::optional<std::string>& second,
                  const EncodeOptions& options) const;
  // input_ids, attention_mask, and token_type_ids where the model takes them.
  Features features(Encoding&& encoding) const;
  // To the longest row of a batch, or to max_length with `to_max_length`.
  PaddingOptions padding(bool to_max_length) const;
  PaddingOptions padding() const { return padding(arguments_.pad_to_max_length.value_or(false)); }
  // What is saved beside the model, whose special tokens become the tokenizer's.
  void save_into(TaskSetup& setup) const;

 private:
  ScriptArguments arguments_;
  Tokenizer tokenizer_;
  int64_t max_length_;
  bool takes_types_;
};

// make(i) for every i below `count`, in order, made on all threads.
template <typename Make>
auto map_rows(int64_t count, const Make& make) {
  constexpr int64_t kRowsAtOnce = 64;
  std::vector<decltype(make(int64_t{0}))> result(static_cast<size_t>(count));
  parallel_for(static_cast<size_t>((count + kRowsAtOnce - 1) / kRowsAtOnce), [&](size_t chunk) {
    const int64_t begin = static_cast<int64_t>(chunk) * kRowsAtOnce;
    for (int64_t i = begin; i < std::min(count, begin + kRowsAtOnce); ++i) result[static_cast<size_t>(i)] = make(i);
  });
  return result;
}

// Rows that are tokenised already.
TrainingData held_rows(std::vector<Features> rows, const PaddingOptions& padding);
// One row of features for each of `data`. They are made once and kept where the data set is in memory, else again for
// each batch.
TrainingData text_rows(const Dataset& data, const TrainArguments& arguments, const PaddingOptions& padding,
                       std::function<Features(int64_t row)> make);

// How a model is loaded for a task.
LoadOptions load_options(const TrainArguments& arguments, const std::string& task);
// The model, with a word about weights that its checkpoint lacks unless a resumed run is about to set them.
// Refuses a model that lacks weights which training does not make, or of which evaluation has need.
void expect_weights(const TrainArguments& arguments, const Model& model, const LoadReport& report,
                    const std::string& where, const std::string& task);
std::unique_ptr<Model> load_model(const TrainArguments& arguments, const std::string& directory,
                                  const LoadOptions& options);

// The output of this name; null where there is none.
const Predictions::Array* find_output(const Predictions& predictions, std::string_view name);
// The index of the largest of each row of `width` numbers.
std::vector<int64_t> largest(const std::vector<float>& values, int64_t width);
// logits [..., C] -> predictions [...]: what metrics of large sets of classes need.
NamedTensors predicted_classes(const NamedTensors& outputs);
// The numbers of a record of the log.
Metrics as_metrics(const LogRecord& record);

}  // namespace transom
