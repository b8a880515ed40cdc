// SPDX-License-Identifier: Apache-2.0
// What Transformers' TensorFlow and Flax classes are given: the names that these classes print, the layout of their
// kernels, and that our own readers find the same values again.
#include "files/foreign/foreign_writer.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <numeric>

#include "base/error.h"
#include "base/files/directories.h"
#include "files/foreign/foreign_checkpoint.h"
#include "files/foreign/tensorflow/hdf5_file.h"
#include "support/message.h"
#include "support/temporary_folder.h"

namespace transom {
namespace {

using Extents = std::vector<int64_t>;

TensorView numbers(const Extents& shape, DType dtype = DType::kFloat32) {
  size_t count = size_of(dtype);
  for (const int64_t extent : shape) count *= static_cast<size_t>(extent);
  const auto bytes = std::make_shared<std::vector<std::byte>>(count);
  for (size_t i = 0; i < count; ++i) (*bytes)[i] = static_cast<std::byte>(i * 37 % 61);
  return {dtype, shape, *bytes, bytes};
}

std::vector<std::string> names_of(const std::vector<ForeignWeight>& weights) {
  std::vector<std::string> names;
  for (const ForeignWeight& weight : weights) names.push_back(weight.name);
  return names;
}

NamedViews bert() {
  return {{"bert.embeddings.word_embeddings.weight", numbers({5, 2})},
          {"bert.embeddings.position_embeddings.weight", numbers({3, 2})},
          {"bert.embeddings.LayerNorm.weight", numbers({2})},
          {"bert.embeddings.LayerNorm.bias", numbers({2})},
          {"bert.encoder.layer.0.attention.self.query.weight", numbers({2, 3})},
          {"bert.encoder.layer.0.attention.self.query.bias", numbers({2})},
          {"cls.predictions.bias", numbers({5})},
          {"cls.seq_relationship.weight", numbers({2, 2})}};
}
const ForeignModel kBert{"bert", "BertForPreTraining"};

TEST(KerasLayout, GivesTheNamesOfBert) {
  const auto weights = keras_weights(bert(), kBert);
  const std::string model = "tf_bert_for_pre_training/";
  EXPECT_EQ(names_of(weights), (std::vector<std::string>{
                                   "bert/" + model + "bert/embeddings/word_embeddings/weight:0",
                                   "bert/" + model + "bert/embeddings/position_embeddings/embeddings:0",
                                   "bert/" + model + "bert/embeddings/LayerNorm/gamma:0",
                                   "bert/" + model + "bert/embeddings/LayerNorm/beta:0",
                                   "bert/" + model + "bert/encoder/layer_._0/attention/self/query/kernel:0",
                                   "bert/" + model + "bert/encoder/layer_._0/attention/self/query/bias:0",
                                   "mlm___cls/" + model + "mlm___cls/predictions/bias:0",
                                   "nsp___cls/" + model + "nsp___cls/seq_relationship/kernel:0",
                               }));
  EXPECT_EQ(weights[4].shape, (Extents{3, 2}));
}

TEST(KerasLayout, GivesTheNamesOfOtherFamilies) {
  const auto name = [](const std::string& of, const Extents& shape, const ForeignModel& model) {
    return keras_weights({{of, numbers(shape)}}, model)[0].name;
  };
  EXPECT_EQ(name("transformer.h.1.attn.c_attn.weight", {2, 6}, {"gpt2", "GPT2LMHeadModel"}),
            "transformer/tfgpt2lm_head_model/transformer/h_._1/attn/c_attn/weight:0");
  EXPECT_EQ(name("model.encoder.layers.0.fc1.weight", {2, 6}, {"bart", "BartForConditionalGeneration"}),
            "model/tf_bart_for_conditional_generation/model/encoder/layers.0/fc1/kernel:0");
  EXPECT_EQ(name("model.shared.weight", {6, 2}, {"bart", "BartForConditionalGeneration"}),
            "model/model.shared/model.shared/embeddings:0");
  EXPECT_EQ(name("shared.weight", {6, 2}, {"t5", "T5Model"}), "shared/shared/shared/embeddings:0");
  EXPECT_EQ(keras_weights({{"model.shared.weight", numbers({6, 2})}, {"final_logits_bias", numbers({1, 6})}},
                          {"marian", "MarianMTModel"})[1]
                .name,
            "final_logits_bias/final_logits_bias:0");
  EXPECT_EQ(name("encoder.rel_embeddings.weight", {6, 2}, {"deberta-v2", "DebertaV2Model"}),
            "deberta/tf_deberta_v2_model/deberta/encoder/rel_embeddings.weight:0");
  EXPECT_EQ(name("wav2vec2.encoder.pos_conv_embed.conv.parametrizations.weight.original0", {1, 1, 4},
                 {"wav2vec2", "Wav2Vec2ForCTC"}),
            "wav2vec2/tf_wav2_vec2_for_ctc/wav2vec2/encoder/pos_conv_embed/conv/weight_g:0");
  EXPECT_EQ(name("encoder.stages.0.layers.1.layer.0.normalization.running_var", {6}, {"resnet", "ResNetModel"}),
            "resnet/tf_res_net_model/resnet/encoder/stages.0/layers.1/layer.0/normalization/moving_variance:0");
}

TEST(KerasLayout, RefusesWhatTransformersHasNoClassFor) {
  EXPECT_EQ(test::message_of([] {
              keras_weights({}, {"bart", "BartForQuestionAnswering"});
            }),
            "BartForQuestionAnswering: Transformers has no such class in TensorFlow; expected safetensors");
  EXPECT_NE(test::message_of([] {
              keras_weights({}, {"qwen3", "Qwen3Model"});
            }).find("no such model in TensorFlow"),
            std::string::npos);
  EXPECT_NE(test::message_of([] {
              flax_weights({}, {"swin", "SwinModel"});
            }).find("no such model in Flax"),
            std::string::npos);
}

TEST(FlaxLayout, PutsStatisticsApart) {
  EXPECT_EQ(names_of(flax_weights({{"resnet.embedder.normalization.weight", numbers({4})},
                                   {"resnet.embedder.normalization.running_mean", numbers({4})},
                                   {"resnet.embedder.normalization.num_batches_tracked", numbers({}, DType::kInt64)},
                                   {"classifier.1.weight", numbers({2, 4})}},
                                  {"resnet", "ResNetForImageClassification"})),
            (std::vector<std::string>{"params/resnet/embedder/normalization/scale",
                                      "batch_stats/resnet/embedder/normalization/mean", "params/classifier/1/kernel"}));
}

class ForeignWriter : public testing::TestWithParam<ForeignFormat> {
 protected:
  // What is read back, by name.
  std::map<std::string, TensorView> written(const NamedViews& tensors, const ForeignModel& model, uint64_t shard) {
    write_foreign_checkpoint(folder_, tensors, model, GetParam(), shard);
    std::map<std::string, TensorView> found;
    const auto checkpoint = open_foreign_checkpoint(folder_);
    for (const auto& [name, view] : checkpoint->tensors) found.emplace(name, view);
    return found;
  }
  void expect_same(const NamedViews& tensors, const std::map<std::string, TensorView>& found) {
    EXPECT_EQ(found.size(), tensors.size());
    for (const auto& [name, view] : tensors) {
      ASSERT_TRUE(found.contains(name)) << name;
      const TensorView& other = found.at(name);
      EXPECT_EQ(other.shape, view.shape) << name;
      EXPECT_EQ(other.dtype, view.dtype) << name;
      EXPECT_TRUE(std::equal(view.bytes.begin(), view.bytes.end(), other.bytes.begin(), other.bytes.end())) << name;
    }
  }
  test::TemporaryFolder folder_;
};

TEST_P(ForeignWriter, IsReadBackWithTheSameBits) { expect_same(bert(), written(bert(), kBert, 1 << 20)); }

TEST_P(ForeignWriter, CutsIntoShardsAndBack) {
  expect_same(bert(), written(bert(), kBert, 50));
  EXPECT_FALSE(path_exists(fs::path(folder_) / (GetParam() == ForeignFormat::kKeras ? kKerasWeights : kFlaxWeights)));
  expect_same(bert(), written(bert(), kBert, 1 << 20));
  EXPECT_EQ(list_directory(folder_).size(), 1u) << "shards of the save before are gone";
}

TEST_P(ForeignWriter, TakesManyMembersOfAGroup) {
  NamedViews tensors;
  for (int i = 0; i < 700; ++i) tensors.emplace_back(fmt::format("bert.encoder.layer.{}.dense.bias", i), numbers({1}));
  expect_same(tensors, written(tensors, {"bert", "BertForMaskedLM"}, 1 << 20));
}

INSTANTIATE_TEST_SUITE_P(Formats, ForeignWriter, testing::Values(ForeignFormat::kKeras, ForeignFormat::kFlax),
                         [](const auto& info) { return info.param == ForeignFormat::kKeras ? "tf" : "flax"; });

TEST(KerasWriter, WidensBfloat16) {
  const test::TemporaryFolder folder;
  const uint16_t half = 0x3fc0;  // 1.5
  TensorView view = numbers({1}, DType::kBFloat16);
  view.bytes = std::as_bytes(std::span(&half, 1));
  write_foreign_checkpoint(folder, {{"bert.pooler.dense.bias", view}}, {"bert", "BertModel"}, ForeignFormat::kKeras, 1);
  const auto found = open_foreign_checkpoint(folder)->tensors;
  float value = 0;
  ASSERT_EQ(found.at(0).second.bytes.size(), sizeof value);
  std::memcpy(&value, found[0].second.bytes.data(), sizeof value);
  EXPECT_EQ(value, 1.5f);
}

// Keras looks for shared tables in each layer that reads them; the file holds them once.
TEST(KerasWriter, NamesSharedTablesTwice) {
  const test::TemporaryFolder folder;
  write_foreign_checkpoint(folder, bert(), kBert, ForeignFormat::kKeras, 1 << 20);
  const std::string text = read_file(fs::path(folder) / kKerasWeights);
  EXPECT_NE(text.find("layer_names"), std::string::npos);
  const std::string name = "tf_bert_for_pre_training/bert/embeddings/position_embeddings/embeddings:0";
  const size_t first = text.find(name);
  ASSERT_NE(first, std::string::npos);
  EXPECT_NE(text.find(name, first + 1), std::string::npos) << "in the list of each of two layers";
  EXPECT_EQ(read_hdf5(fs::path(folder) / kKerasWeights).size(), bert().size());
}

}  // namespace
}  // namespace transom
