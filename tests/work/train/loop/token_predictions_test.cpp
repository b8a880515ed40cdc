// SPDX-License-Identifier: Apache-2.0
// Outputs of tokens that Trainer::predict gives, with padding among what the model reads and without.
#include <gtest/gtest.h>

#include "inputs/data/text/padding.h"
#include "support/temporary_folder.h"
#include "transom/trainer.h"

namespace transom {
namespace {

constexpr const char* kTinyTagger =
    R"({"model_type": "bert", "architectures": ["BertForTokenClassification"], "vocab_size": 50, "hidden_size": 16,
  "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32, "max_position_embeddings": 16,
  "id2label": {"0": "a", "1": "b", "2": "c"}})";

// Padding is taken out of batches, and rows of whole labels are made wider; a value of each token has the place of its
// token all the same.
TEST(TokenPredictions, HaveThePlacesOfTheirTokens) {
  const test::TemporaryFolder folder;
  const auto logits_of = [&](bool padding_free) {
    TrainingArguments arguments;
    arguments.output_dir = folder.path().string();
    arguments.padding_free = padding_free;
    arguments.per_device_eval_batch_size = 23;
    Trainer trainer(Model::from_config(kTinyTagger, {.seed = 1}), arguments);
    TrainingData data;
    data.rows = 23;
    data.batch = [](const std::vector<int64_t>& rows) {
      std::vector<Features> features(rows.size());
      for (size_t i = 0; i < rows.size(); ++i)
        for (int64_t t = 0; t < 5 + rows[i] % 5; ++t) {  // nine tokens at most, which is none of the few lengths
          features[i].sequences["input_ids"].push_back((rows[i] * 7 + t * 3) % 30 + 1);
          features[i].sequences["labels"].push_back(t % 3);
        }
      return collate(features, {});
    };
    return trainer.predict(data).outputs.at(0);
  };
  const Predictions::Array free = logits_of(true), padded = logits_of(false);
  EXPECT_EQ(free.shape, (Shape{23, 9, 3}));
  ASSERT_EQ(free.shape, padded.shape);
  for (int64_t row = 0; row < 23; ++row)
    for (int64_t i = 0; i < (5 + row % 5) * 3; ++i) {
      const auto at = static_cast<size_t>(row * 27 + i);
      EXPECT_NEAR(free.values[at], padded.values[at], 1e-6) << row << " " << i;
    }
}

}  // namespace
}  // namespace transom
