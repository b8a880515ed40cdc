// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "base/json/json.h"
#include "work/pipelines/pipeline.h"
#include "work/pipelines/text/text_model.h"

namespace transom {
namespace {

class FillMask : public Pipeline {
 public:
  explicit FillMask(TextModel model) : model_(std::move(model)) {}
  Model* model() const override { return model_.model.get(); }
  const TextModel* text_model() const override { return &model_; }

  // For each mask the likeliest tokens.
  std::vector<TaskResult> run(const std::vector<TaskInput>& inputs, const TaskOptions& options) const override {
    const EncodeOptions encoding =
        encode_options_of_object(json_option(options, "tokenizer_kwargs"), "tokenizer_kwargs", model_);
    const auto encode = [&](size_t i) -> std::vector<Encoding> {
      std::vector<Encoding> encodings{model_.tokenizer.encode(text_input(inputs[i]).text, std::nullopt, encoding)};
      expect_positions(encodings[0], model_, ", or have it cut: tokenizer_kwargs {\"truncation\": true}");
      return encodings;
    };
    std::vector<TaskResult> results;
    for (const auto& rows :
         model_.rows(inputs.size(), encode, {"logits"}, TextModel::Unit::kToken, batch_size_of(options)))
      results.emplace_back(filled(rows[0].encoding.ids, rows[0].outputs[0], options));
    return results;
  }

 private:
  // logits of [T, V].
  std::vector<std::vector<FilledMask>> filled(const std::vector<int64_t>& ids, const std::vector<float>& logits,
                                              const TaskOptions& options) const {
    const Tokenizer& tokenizer = model_.tokenizer;
    const auto mask = tokenizer.special_token_id("mask");
    if (!mask) fail("fill-mask: the tokenizer has no mask token");
    const auto V = static_cast<ptrdiff_t>(logits.size() / std::max<size_t>(1, ids.size()));
    // With several masks the other ones stay to be seen, and so all special tokens, as in Transformers.
    const bool single = std::count(ids.begin(), ids.end(), *mask) == 1;
    std::vector<std::vector<FilledMask>> lists;
    for (size_t place = 0; place < ids.size(); ++place) {
      if (ids[place] != *mask) continue;
      const auto row = logits.begin() + static_cast<ptrdiff_t>(place) * V;
      const std::vector<double> scores = softmax_of(std::vector<float>(row, row + V));
      std::vector<FilledMask>& list = lists.emplace_back();
      for (const int64_t id : candidates(scores, options)) {
        std::vector<int64_t> whole = ids;
        whole[place] = id;
        list.push_back({tokenizer.decode({id}), id, scores[static_cast<size_t>(id)], tokenizer.decode(whole, single)});
      }
    }
    if (lists.empty())
      fail("fill-mask: expected {} among the {} tokens of the text that the model reads, found none",
           *tokenizer.special_token("mask"), ids.size());
    return lists;
  }

  // The ids to show, by falling score.
  std::vector<int64_t> candidates(const std::vector<double>& scores, const TaskOptions& options) const {
    std::vector<int64_t> ids;
    if (const auto targets = texts_option(options, "targets")) {
      for (const std::string& word : *targets) {
        auto id = model_.tokenizer.token_to_id(word);
        if (!id) {
          const Encoding encoding = model_.tokenizer.encode(word, std::nullopt, {.add_special_tokens = false});
          if (encoding.ids.empty()) fail("targets: {} has no token", quoted(word));
          id = encoding.ids[0];
        }
        if (std::find(ids.begin(), ids.end(), *id) == ids.end()) ids.push_back(*id);
      }
    } else {
      ids.resize(scores.size());
      std::iota(ids.begin(), ids.end(), int64_t{0});
    }
    const auto count = std::min(ids.size(), static_cast<size_t>(std::max<int64_t>(1, int_option(options, "top_k", 5))));
    std::partial_sort(ids.begin(), ids.begin() + static_cast<ptrdiff_t>(count), ids.end(), [&](int64_t a, int64_t b) {
      const double x = scores[static_cast<size_t>(a)], y = scores[static_cast<size_t>(b)];
      return x != y ? x > y : a < b;
    });
    ids.resize(count);
    return ids;
  }

  TextModel model_;
};

TaskParameters fill_mask_parameters() {
  return {
      {"top_k", TaskParameter::Type::kInteger, "number of tokens to return for each mask", "5"},
      {"targets", TaskParameter::Type::kTexts, "only these words are scored"},
      {"tokenizer_kwargs", TaskParameter::Type::kJson,
       "options of the tokenizer: truncation, truncation_side, max_length, padding, add_special_tokens"},
  };
}

// As in Transformers, with one mask its list stands alone, and a list of one text gives what the text alone would.
constexpr TaskRecord kFillMask{
    .name = "fill-mask",
    .example = "\"Paris is the [MASK] of France.\" --top_k 3",
    .result = ResultKind::kFilledMasks,
    .json = {.unwraps = [](const TaskOptions&, const CallForm&) { return true; }, .joins_one = true},
    .parameters = fill_mask_parameters,
    .load = load_text_task<FillMask>};
const RegisterTask kRegisterFillMask(kFillMask);

}  // namespace
}  // namespace transom
