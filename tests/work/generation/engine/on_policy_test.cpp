// SPDX-License-Identifier: Apache-2.0
// The log probabilities that the engine gives of a text are those of a pass without a cache whose rows are apart, to
// the bit: in f32 and under autocast, of prompts and of what was written, beside others in padded and packed rows.
#include <gtest/gtest.h>

#include <map>

#include "models/generative.h"
#include "transom/engine.h"
#include "transom/gradients.h"
#include "transom/ops.h"

namespace transom {
namespace {

constexpr const char* kOnPolicyLlama =
    R"({"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 61,
  "max_position_embeddings": 120, "hidden_size": 40, "num_hidden_layers": 2, "num_attention_heads": 4,
  "num_key_value_heads": 2, "intermediate_size": 52, "initializer_range": 0.4})";
constexpr const char* kOnPolicyGpt2 = R"({"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "vocab_size": 61,
  "n_positions": 120, "n_embd": 36, "n_layer": 2, "n_head": 3, "initializer_range": 0.4})";
constexpr const char* kOnPolicyMistral = R"({"model_type": "mistral", "architectures": ["MistralForCausalLM"],
  "vocab_size": 61, "max_position_embeddings": 120, "hidden_size": 40, "num_hidden_layers": 2, "sliding_window": 9,
  "num_attention_heads": 4, "num_key_value_heads": 1, "intermediate_size": 52, "initializer_range": 0.4})";

struct WrittenText {
  TokenIds tokens;
  std::vector<float> logprobs;  // of all tokens but the first
};

std::vector<WrittenText> written_texts(const Model& model, size_t count) {
  Engine engine(model, {.block_size = 4, .max_batched_tokens = 19});
  std::map<uint64_t, WrittenText> texts;
  for (size_t i = 0; i < count; ++i) {
    EngineRequest request;
    for (size_t k = 0; k < 2 + 5 * i; ++k) request.prompt.tokens.push_back(static_cast<int64_t>((7 * k + i / 2) % 61));
    request.config.do_sample = true, request.config.top_k = 0, request.config.seed = i;
    request.config.max_new_tokens = 3 + static_cast<int64_t>(i);
    request.logprobs = 0, request.prompt_logprobs = 0;
    texts[engine.add(request)].tokens = request.prompt.tokens;
  }
  const auto collect = [&] {
    for (const EngineEvent& event : engine.take()) {
      EXPECT_EQ(event.error, "");
      WrittenText& text = texts.at(event.request);
      for (const auto* each : {&event.prompt, &event.logprobs})
        for (const TokenLogprobs& at : *each) text.logprobs.push_back(at.logprob);
      text.tokens.insert(text.tokens.end(), event.tokens.begin(), event.tokens.end());
    }
  };
  while (engine.step()) collect();
  collect();
  std::vector<WrittenText> result;
  for (auto& [number, text] : texts) result.push_back(std::move(text));
  return result;
}

// Of tokens [rows, length] what the pass says of each but the first: [rows, length - 1].
std::vector<float> passed_logprobs(const Model& model, NamedTensors inputs, const Computing& computing) {
  const Tensor ids = inputs.at("input_ids");
  const Tensor logits = model.forward(inputs, {.computing = computing}).at("logits");
  const int64_t T = ids.dim(1);
  const Tensor rows = reshape(cast(slice(logits, 1, 0, T - 1), DType::kFloat32), {ids.dim(0) * (T - 1), 61});
  const Tensor logs = -cross_entropy(rows, reshape(slice(ids, 1, 1, T), {-1}), -100, kAsGiven);
  std::vector<Tensor> weights;
  for (const auto& parameter : model.parameters())
    if (parameter->value.requires_grad()) weights.push_back(parameter->value);
  std::vector<Tensor> all = gradients(sum(logs), weights);
  all.push_back(logs);
  eval(all);
  return logs.to_vector<float>();
}

struct OnPolicyCase {
  const char* name;
  const char* config;
  DType computed = DType::kFloat32;  // of products, by autocast
};

class OnPolicy : public testing::TestWithParam<OnPolicyCase> {
 protected:
  OnPolicy() : model_(Model::from_config(GetParam().config, {.seed = 5})) {
    model_->set_computing({.dtype = GetParam().computed});
    for (const auto& parameter : model_->parameters()) parameter->value.set_requires_grad();
    texts_ = written_texts(*model_, 6);
  }
  static constexpr Computing kApart{.batch_invariant = true};
  std::unique_ptr<Model> model_;
  std::vector<WrittenText> texts_;
};

TEST_P(OnPolicy, RowsThatArePadded) {
  size_t T = 0;
  for (const WrittenText& text : texts_) T = std::max(T, text.tokens.size() + 3);
  std::vector<int64_t> ids(texts_.size() * T, 0), mask(ids);
  for (size_t row = 0; row < texts_.size(); ++row)
    for (size_t i = 0; i < texts_[row].tokens.size(); ++i)
      ids[row * T + i] = texts_[row].tokens[i], mask[row * T + i] = 1;
  const Shape shape{static_cast<int64_t>(texts_.size()), static_cast<int64_t>(T)};
  const std::vector<float> logs = passed_logprobs(
      *model_, {{"input_ids", Tensor::from(ids, shape)}, {"attention_mask", Tensor::from(mask, shape)}}, kApart);
  for (size_t row = 0; row < texts_.size(); ++row) {
    ASSERT_EQ(texts_[row].logprobs.size() + 1, texts_[row].tokens.size());
    for (size_t i = 0; i < texts_[row].logprobs.size(); ++i)
      ASSERT_EQ(texts_[row].logprobs[i], logs[row * (T - 1) + i]) << "text " << row << ", token " << i + 1;
  }
}

TEST_P(OnPolicy, TextsOfOneRow) {
  if (!model_->takes_texts_in_rows()) GTEST_SKIP() << "one text a row";
  std::vector<int64_t> ids, numbers;
  for (size_t k = 0; k < texts_.size(); ++k)
    for (const int64_t token : texts_[k].tokens) ids.push_back(token), numbers.push_back(static_cast<int64_t>(k));
  const Shape shape{1, static_cast<int64_t>(ids.size())};
  const std::vector<float> logs = passed_logprobs(
      *model_, {{"input_ids", Tensor::from(ids, shape)}, {"seq_idx", Tensor::from(numbers, shape)}}, kApart);
  size_t begin = 0;
  for (size_t k = 0; k < texts_.size(); ++k) {
    for (size_t i = 0; i < texts_[k].logprobs.size(); ++i)
      ASSERT_EQ(texts_[k].logprobs[i], logs[begin + i]) << "text " << k << ", token " << i + 1;
    begin += texts_[k].tokens.size();
  }
}

TEST_P(OnPolicy, OneTextAlone) {
  for (const WrittenText& text : texts_) {
    const Shape shape{1, static_cast<int64_t>(text.tokens.size())};
    ASSERT_EQ(passed_logprobs(*model_, {{"input_ids", Tensor::from(text.tokens, shape)}}, kApart), text.logprobs);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, OnPolicy,
                         testing::Values(OnPolicyCase{"Llama", kOnPolicyLlama}, OnPolicyCase{"Gpt2", kOnPolicyGpt2},
                                         OnPolicyCase{"SlidingWindow", kOnPolicyMistral},
                                         OnPolicyCase{"LlamaInBfloat16", kOnPolicyLlama, DType::kBFloat16},
                                         OnPolicyCase{"Gpt2InBfloat16", kOnPolicyGpt2, DType::kBFloat16}),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace transom
