// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "base/json/json.h"
#include "pipelines/pipeline.h"
#include "pipelines/text/text_model.h"

namespace transom {
namespace {

class FillMask : public Pipeline {
 public:
  explicit FillMask(TextModel model) : model_(std::move(model)) {}
  TaskParameters parameters() const override { return fill_mask_parameters(); }
  Model* model() const override { return model_.model.get(); }
  const TextModel* text_model() const override { return &model_; }

  // For each mask the likeliest tokens; with one mask, its list alone.
  Json run(const Json& input, const Json& parameters) const override { return run_all({input}, parameters)[0]; }

  std::vector<Json> run_all(const std::vector<Json>& inputs, const Json& parameters) const override {
    const EncodeOptions options = encode_options_of_object(parameters, "tokenizer_kwargs", model_);
    const auto encode = [&](size_t i) -> std::vector<Encoding> {
      std::vector<Encoding> encodings{model_.tokenizer.encode(text_input(inputs[i]), std::nullopt, options)};
      expect_positions(encodings[0], model_, ", or have it cut: tokenizer_kwargs {\"truncation\": true}");
      return encodings;
    };
    std::vector<Json> results;
    for (const auto& rows :
         model_.rows(inputs.size(), encode, {"logits"}, TextModel::Unit::kToken, batch_size_of(parameters)))
      results.push_back(filled(rows[0].encoding.ids, rows[0].outputs[0], parameters));
    return results;
  }

  // As in Transformers, a list of one text gives what the text alone would.
  Json joined(std::vector<Json> results) const override { return results.size() == 1 ? results[0] : Json(results); }

 private:
  // logits of [T, V].
  Json filled(const std::vector<int64_t>& ids, const std::vector<float>& logits, const Json& parameters) const {
    const Tokenizer& tokenizer = model_.tokenizer;
    const auto mask = tokenizer.special_token_id("mask");
    if (!mask) fail("fill-mask: the tokenizer has no mask token");
    const auto V = static_cast<ptrdiff_t>(logits.size() / std::max<size_t>(1, ids.size()));
    // With several masks the other ones stay to be seen, and so all special tokens, as in Transformers.
    const bool single = std::count(ids.begin(), ids.end(), *mask) == 1;
    Json lists = Json::array();
    for (size_t place = 0; place < ids.size(); ++place) {
      if (ids[place] != *mask) continue;
      const auto row = logits.begin() + static_cast<ptrdiff_t>(place) * V;
      const std::vector<double> scores = softmax_of(std::vector<float>(row, row + V));
      Json list = Json::array();
      for (const int64_t id : candidates(scores, parameters)) {
        std::vector<int64_t> whole = ids;
        whole[place] = id;
        list.push_back({{"score", scores[static_cast<size_t>(id)]},
                        {"token", id},
                        {"token_str", tokenizer.decode({id})},
                        {"sequence", tokenizer.decode(whole, single)}});
      }
      lists.push_back(std::move(list));
    }
    if (lists.empty())
      fail("fill-mask: expected {} among the {} tokens of the text that the model reads, found none",
           *tokenizer.special_token("mask"), ids.size());
    return lists.size() == 1 ? lists[0] : lists;
  }

  // The ids to show, by falling score.
  std::vector<int64_t> candidates(const std::vector<double>& scores, const Json& parameters) const {
    std::vector<int64_t> ids;
    if (parameters.contains("targets")) {
      const Json& targets = parameters["targets"];
      for (const Json& target : targets.is_array() ? targets : Json::array({targets})) {
        if (!target.is_string()) fail("targets: expected words");
        const std::string word = target.get<std::string>();
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
    const auto count =
        std::min(ids.size(), static_cast<size_t>(std::max<int64_t>(1, int_parameter(parameters, "top_k", 5))));
    std::partial_sort(ids.begin(), ids.begin() + static_cast<ptrdiff_t>(count), ids.end(), [&](int64_t a, int64_t b) {
      const double x = scores[static_cast<size_t>(a)], y = scores[static_cast<size_t>(b)];
      return x != y ? x > y : a < b;
    });
    ids.resize(count);
    return ids;
  }

  TextModel model_;
};

}  // namespace

TaskParameters fill_mask_parameters() {
  return {
      {"top_k", TaskParameter::Type::kInteger, "number of tokens to return for each mask", "5"},
      {"targets", TaskParameter::Type::kTexts, "only these words are scored"},
      {"tokenizer_kwargs", TaskParameter::Type::kJson,
       "options of the tokenizer: truncation, truncation_side, max_length, padding, add_special_tokens"},
  };
}

std::unique_ptr<Pipeline> make_fill_mask(TextModel model) { return std::make_unique<FillMask>(std::move(model)); }

}  // namespace transom
