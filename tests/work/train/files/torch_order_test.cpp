// SPDX-License-Identifier: Apache-2.0
#include "work/train/files/torch_order.h"

#include <gtest/gtest.h>

namespace transom {
namespace {

using Names = std::vector<std::string>;

Names ordered(const Names& names, std::string_view type, bool body_first = false) {
  Names result;
  for (const size_t i : torch_order(names, type, body_first)) result.push_back(names[i]);
  return result;
}

TEST(TorchOrder, AModulesOwnParametersStandBeforeThoseOfItsParts) {
  EXPECT_EQ(ordered({"bert.words.weight", "cls.predictions.transform.dense.weight", "cls.predictions.bias"}, "bert"),
            (Names{"bert.words.weight", "cls.predictions.bias", "cls.predictions.transform.dense.weight"}));
}

TEST(TorchOrder, PartsStandAsTransformersMakesThem) {
  EXPECT_EQ(ordered({"roberta.embeddings.word_embeddings.weight", "roberta.embeddings.position_embeddings.weight",
                     "roberta.embeddings.LayerNorm.weight", "classifier.weight"},
                    "roberta"),
            (Names{"roberta.embeddings.word_embeddings.weight", "roberta.embeddings.LayerNorm.weight",
                   "roberta.embeddings.position_embeddings.weight", "classifier.weight"}));
  EXPECT_EQ(ordered({"mpnet.encoder.relative_attention_bias.weight", "mpnet.encoder.layer.0.q.weight"}, "mpnet"),
            (Names{"mpnet.encoder.layer.0.q.weight", "mpnet.encoder.relative_attention_bias.weight"}));
}

TEST(TorchOrder, HeadsBeforeTheBodyTakeATiedTensorWithThem) {
  const Names names = {"roberta.embeddings.word_embeddings.weight", "roberta.embeddings.LayerNorm.weight",
                       "lm_head.dense.weight", "lm_head.bias"};
  EXPECT_EQ(ordered(names, "xlm-roberta"),
            (Names{"lm_head.bias", "lm_head.dense.weight", "roberta.embeddings.word_embeddings.weight",
                   "roberta.embeddings.LayerNorm.weight"}));
  EXPECT_EQ(ordered(names, "xlm-roberta", true),
            (Names{"roberta.embeddings.word_embeddings.weight", "roberta.embeddings.LayerNorm.weight", "lm_head.bias",
                   "lm_head.dense.weight"}));
}

}  // namespace
}  // namespace transom
