// SPDX-License-Identifier: Apache-2.0
#include "work/pipelines/text/sparse_embedding.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/files/files.h"
#include "base/json/json.h"
#include "support/golden.h"
#include "support/message.h"
#include "support/word_models.h"
#include "work/pipelines/pipeline.h"

namespace transom {
namespace {

std::string modules(const char* type) {
  return std::string(R"([{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
      {"idx": 1, "name": "1", "path": "1_SpladePooling", "type": ")") +
         type + "\"}]";
}

TEST(SparseEmbedding, IsThePooledLogOfTheScores) {
  test::TemporaryFolder folder;
  test::save_word_model(folder, test::kWordBert, "BertForMaskedLM");
  LoadOptions options;
  options.task = "fill-mask";
  const TextModel model = TextModel::load(folder.string(), options);
  const std::vector<Encoding> encodings = model.tokenizer.encode_batch(std::vector<std::string>{"w1 w2 w3", "w5"});
  std::vector<std::vector<double>> greatest, sums, of_twice;
  for (const Encoding& encoding : encodings) {
    const Tensor logits = model.model->forward(model.inputs_of({&encoding})).at("logits");
    const std::vector<float> scores = logits.to_vector<float>();
    const auto V = static_cast<size_t>(logits.dim(2));
    greatest.emplace_back(V, 0.0), sums.emplace_back(V, 0.0), of_twice.emplace_back(V, 0.0);
    for (size_t i = 0; i < scores.size(); ++i) {
      const double value = std::log1p(std::max(scores[i], 0.0f));
      greatest.back()[i % V] = std::max(greatest.back()[i % V], value);
      sums.back()[i % V] += value;
      of_twice.back()[i % V] = std::max(of_twice.back()[i % V], std::log1p(value));
    }
  }
  // Both go through the model together, the shorter one with padding.
  for (const auto& [pooling, expected] :
       {std::pair(SparsePooling{}, greatest), std::pair(SparsePooling{.sum = true}, sums),
        std::pair(SparsePooling{.log_twice = true}, of_twice)}) {
    const std::vector<std::vector<float>> vectors = sparse_embeddings(model, encodings, pooling);
    ASSERT_EQ(vectors.size(), 2u);
    for (size_t row = 0; row < 2; ++row)
      for (size_t i = 0; i < expected[row].size(); ++i) EXPECT_NEAR(vectors[row][i], expected[row][i], 1e-5) << i;
  }
}

TEST(SparsePooling, IsWhatModulesSay) {
  test::TemporaryFolder folder;
  EXPECT_FALSE(sparse_pooling_of(folder).sum);
  write_file(folder / "modules.json", modules("sentence_transformers.models.Pooling"));
  write_file(folder / "modules.json", modules("sentence_transformers.sparse_encoder.models.SpladePooling"));
  std::filesystem::create_directory(folder / "1_SpladePooling");
  const auto file = folder / "1_SpladePooling" / "config.json";
  write_file(file, R"({"pooling_strategy": "sum", "activation_function": "log1p_relu"})");
  EXPECT_TRUE(sparse_pooling_of(folder).sum);
  EXPECT_TRUE(sparse_pooling_of(folder).log_twice);
  write_file(file, R"({"pooling_strategy": "mean"})");
  const std::string message = test::message_of([&] { return sparse_pooling_of(folder); });
  EXPECT_NE(message.find("pooling_strategy: expected max or sum, found 'mean'"), message.npos) << message;
}

TEST(SparseEmbedding, IsThatOfSparseEncoder) {
  const fs::path folder = test::golden_folder() / "sentences";
  const Json expected = read_json(folder / "splade-vectors.json");
  const auto texts = expected["texts"].get<std::vector<std::string>>();
  const std::string model = (folder / "models" / "splade").string();
  const auto vectors = [&](const TaskOptions& options) {
    const auto pipeline = make_pipeline("feature-extraction", model);
    std::vector<std::vector<float>> found;
    for (const TaskResult& result : run_pipeline(*pipeline, {texts.begin(), texts.end()}, options))
      found.push_back(std::get<FeatureArray>(result).values);
    return found;
  };
  const auto all = vectors({}), few = vectors({{"max_active_dims", expected["max_active_dims"].get<int64_t>()}});
  for (size_t row = 0; row < texts.size(); ++row) {
    const auto right = expected["vectors"][row].get<std::vector<float>>();
    ASSERT_EQ(all[row].size(), right.size());
    // Sums of a model of 16 numbers in f32.
    for (size_t i = 0; i < right.size(); ++i) EXPECT_NEAR(all[row][i], right[i], 1e-5) << i;
    size_t kept = 0;
    for (size_t i = 0; i < few[row].size(); ++i)
      if (few[row][i] > 0) {
        ++kept;
        EXPECT_NEAR(few[row][i], expected["few"][row].value(std::to_string(i), -1.0f), 1e-5) << i;
      }
    EXPECT_EQ(kept, expected["few"][row].size());
  }
  const auto similarity = make_pipeline("sentence-similarity", model);
  const TaskResult close = run_pipeline(*similarity, {SentencesInput(texts[0], {texts[1]})}, {}).at(0);
  EXPECT_NEAR(std::get<std::vector<double>>(close).at(0), expected["similarity"].get<double>(), 0.01);  // of 5 digits
  EXPECT_NE(test::message_of([&] {
              vectors({{"pooling", std::string("mean")}});
            }).find("weights of tokens"),
            std::string::npos);
  EXPECT_NE(test::message_of([&] {
              vectors({{"truncate_dim", int64_t{4}}});
            }).find("max_active_dims"),
            std::string::npos);
}

}  // namespace
}  // namespace transom
