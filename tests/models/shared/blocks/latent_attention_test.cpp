// SPDX-License-Identifier: Apache-2.0
// Latent keys and values: what is absorbed with a cache gives what is written out without one, and the cache is small.
#include "models/shared/blocks/latent_attention.h"

#include <gtest/gtest.h>

#include "models/generative.h"
#include "models/nn/attention/paged_cache.h"
#include "transom/gradients.h"
#include "transom/model.h"

namespace transom {
namespace {

constexpr const char* kModel = R"({"model_type": "deepseek_v3", "architectures": ["DeepseekV3ForCausalLM"],
  "vocab_size": 31, "hidden_size": 12, "num_hidden_layers": 2, "num_attention_heads": 3, "num_key_value_heads": 3,
  "intermediate_size": 16, "moe_intermediate_size": 7, "n_routed_experts": 6, "n_group": 3, "topk_group": 2,
  "num_experts_per_tok": 3, "n_shared_experts": 1, "first_k_dense_replace": 1, "q_lora_rank": 8, "kv_lora_rank": 9,
  "qk_nope_head_dim": 5, "qk_rope_head_dim": 4, "v_head_dim": 6, "max_position_embeddings": 32,
  "initializer_range": 0.4})";

Tensor ids(const std::vector<int64_t>& all) { return Tensor::from(all, {1, static_cast<int64_t>(all.size())}); }

std::vector<float> last_logits(const Model& model, const std::vector<int64_t>& text) {
  const Tensor logits = model.forward({{"input_ids", ids(text)}}).at("logits");
  return slice(logits, 1, logits.dim(1) - 1, logits.dim(1)).to_vector<float>();
}

TEST(LatentAttention, WithACacheGivesTheSame) {
  const NoGradient inference;
  const auto model = Model::from_config(kModel, {.seed = 5});
  const auto& writes = dynamic_cast<const GenerativeModel&>(*model);
  std::vector<int64_t> text{3, 9, 27, 1, 14};
  KeyValueCache cache(1, std::vector<int64_t>(text.size(), 1));
  for (const int64_t next : {7, 22, 30}) {
    const auto before = static_cast<double>(cache.length());
    const auto count = static_cast<int64_t>(text.size()) - cache.length();
    const std::vector<int64_t> fresh(text.end() - count, text.end());
    ForwardContext context{.cache = &cache};
    cache.begin(count);
    const Tensor logits =
        writes.next_logits({.input_ids = ids(fresh), .position_ids = iota({1, count}, 1) + before}, context);
    const std::vector<float> found = logits.to_vector<float>(), expected = last_logits(*model, text);
    std::vector<Tensor> held = cache.tensors();
    eval(held);
    cache.end();
    ASSERT_EQ(found.size(), expected.size());
    for (size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 2e-5) << i;
    text.push_back(next);
  }
}

TEST(LatentAttention, KeepsOneLatentVectorOfAToken) {
  const NoGradient inference;
  const auto model = Model::from_config(kModel, {.seed = 5});
  PagedCache probe;
  ForwardContext context{.cache = &probe};
  dynamic_cast<const GenerativeModel&>(*model).next_logits({.input_ids = ids({3, 9}), .position_ids = iota({1, 2}, 1)},
                                                           context);
  ASSERT_EQ(probe.shapes().size(), 2);
  for (const KeyValueShape& shape : probe.shapes()) {
    EXPECT_EQ(shape.heads, 1);
    EXPECT_EQ(shape.key_width, 9 + 4);
    EXPECT_EQ(shape.value_width, 9);
  }
}

}  // namespace
}  // namespace transom
