// SPDX-License-Identifier: Apache-2.0
// What the tasks on texts share.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json/json_fwd.h"
#include "models/sentences/text_limit.h"
#include "runtime/device/static_shapes.h"
#include "transom/model.h"
#include "transom/tokenizer.h"
#include "work/pipelines/pipeline.h"

namespace transom {

struct TextModel {
  std::unique_ptr<Model> model;
  Tokenizer tokenizer;
  // The tokenizer is read while the model is.
  static TextModel load(const std::string& directory, const LoadOptions& options,
                        const TokenizerOptions& tokenizer = {});

  // What the model gave for an encoding: of each output that was asked for its own row [C], or [T, C] for its T tokens.
  struct Row {
    Encoding encoding;
    std::vector<std::vector<float>> outputs;
  };
  enum class Unit { kText, kToken };  // what an output has values for
  // The named outputs for the encodings of the inputs 0 to count - 1. So many encodings as `batch_size` says go through
  // the model at once, whether they are of one input or of several. encode(i) is called by a thread of its own, in the
  // order of the inputs, while the model computes with those before.
  std::vector<std::vector<Row>> rows(size_t count, const std::function<std::vector<Encoding>(size_t)>& encode,
                                     const std::vector<std::string>& outputs, Unit unit, int64_t batch_size) const;

  // Batches of encodings, padded to the longest on the side of the tokenizer or the given one.
  NamedTensors inputs_of(const std::vector<const Encoding*>& batch, std::optional<Side> side = std::nullopt) const;
  Tensor mask_of(const std::vector<const Encoding*>& batch, std::optional<Side> side = std::nullopt) const;
  // The part that truncation leaves. That there is more is said once.
  Encoding first_part(std::string_view text, std::optional<std::string_view> pair, EncodeOptions options,
                      const char* remedy) const;
  void warn_of_rest(Encoding& encoding, const char* remedy) const;
  std::optional<int64_t> max_length() const { return longest_input(*model, tokenizer); }
  LengthBuckets buckets() const;  // of devices that ask for few shapes: batches have more than their own

  std::shared_ptr<std::atomic<bool>> told_ = std::make_shared<std::atomic<bool>>(false);
};

// An encoding, and behind it those of what truncation cut off.
std::vector<Encoding> windows_of(Encoding&& first);

// `truncation`, `truncation_side`, `max_length` and `padding` as a tokenizer of Transformers takes them: nothing is cut
// that nobody asks for. What would have no effect is refused.
EncodeOptions encode_options(const TaskOptions& options, const TextModel& model);
// The same of an object among the options, tokenizer_kwargs for instance, with `add_special_tokens`; null: none is
// given.
EncodeOptions encode_options_of_object(const Json& given, const char* name, const TextModel& model);
// The loader of a task that is made of such a model.
template <typename Task>
std::unique_ptr<Pipeline> load_text_task(const std::string& directory, const LoadOptions& options,
                                         const std::string& /*task*/) {
  return std::make_unique<Task>(TextModel::load(directory, options));
}

// Refuses what is longer than the model has positions for; `remedy` says what else to do than to shorten it.
void expect_positions(const Encoding& encoding, const TextModel& model, const char* remedy);

}  // namespace transom
