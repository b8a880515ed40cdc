// SPDX-License-Identifier: Apache-2.0
// Names of TensorFlow and Flax, as those libraries' classes give them, and what PyTorch's classes call the same.
#include "files/foreign/parameter_names.h"

#include <gtest/gtest.h>

namespace transom {
namespace {

struct Case {
  std::string from, to;
  bool transposed;
};

template <typename Name>
void expect_names(std::initializer_list<Case> cases, const Name& name) {
  for (const Case& one : cases) {
    const ParameterName found = name(one.from);
    EXPECT_EQ(found.name, one.to) << one.from;
    EXPECT_EQ(found.transposed, one.transposed) << one.from;
  }
}

TEST(KerasNames, LoseLayerAndModel) {
  expect_names(
      {{"bert/tf_bert_for_sequence_classification/bert/encoder/layer_._0/attention/self/query/kernel:0",
        "bert.encoder.layer.0.attention.self.query.weight", true},
       {"bert/tf_bert_model/bert/embeddings/word_embeddings/weight:0", "bert.embeddings.word_embeddings.weight", false},
       {"bert/tf_bert_model/bert/embeddings/LayerNorm/gamma:0", "bert.embeddings.LayerNorm.weight", false},
       {"nsp___cls/tf_bert_for_pre_training/nsp___cls/seq_relationship/kernel:0", "cls.seq_relationship.weight", true},
       {"transformer/tfgpt2lm_head_model/transformer/h_._11/attn/c_attn/weight:0",
        "transformer.h.11.attn.c_attn.weight", false},
       {"model/tf_bart/model/encoder/layers.0/self_attn/k_proj/kernel:0",
        "model.encoder.layers.0.self_attn.k_proj.weight", true},
       {"shared/shared/shared/embeddings:0", "shared.weight", false},
       {"final_logits_bias/final_logits_bias:0", "final_logits_bias", false},
       {"resnet/tf_resnet/resnet/embedder/normalization/moving_variance:0", "resnet.embedder.normalization.running_var",
        false}},
      [](const std::string& path) { return name_of_keras_weight(path, false); });
}

TEST(KerasNames, OfShardsAreWhole) {
  expect_names({{"bert/encoder/layer_._0/output/dense/kernel:0", "bert.encoder.layer.0.output.dense.weight", true},
                {"classifier/bias:0", "classifier.bias", false}},
               [](const std::string& path) { return name_of_keras_weight(path, true); });
}

TEST(FlaxNames, AreThePathsOfTheTree) {
  const auto plain = [](const std::string& path) { return name_of_flax_parameter(path, false); };
  expect_names(
      {{"roberta/encoder/layer/0/output/LayerNorm/scale", "roberta.encoder.layer.0.output.LayerNorm.weight", false},
       {"transformer/h/0/mlp/c_fc/kernel", "transformer.h.0.mlp.c_fc.weight", true},
       {"shared/embedding", "shared.weight", false}},
      plain);
  const auto with_statistics = [](const std::string& path) { return name_of_flax_parameter(path, true); };
  expect_names(
      {{"params/resnet/embedder/convolution/kernel", "resnet.embedder.convolution.weight", true},
       {"batch_stats/resnet/embedder/normalization/mean", "resnet.embedder.normalization.running_mean", false}},
      with_statistics);
}

TEST(GoogleNames, OfBertAlbertElectraAndT5) {
  const auto named = [](GoogleModel model) {
    return [model](const std::string& name) {
      return name_of_google_variable(name, model).value_or(ParameterName{"", false});
    };
  };
  expect_names(
      {{"bert/encoder/layer_11/output/LayerNorm/gamma", "bert.encoder.layer.11.output.LayerNorm.weight", false},
       {"bert/embeddings/token_type_embeddings", "bert.embeddings.token_type_embeddings.weight", false},
       {"cls/predictions/output_bias", "cls.predictions.bias", false},
       {"cls/seq_relationship/output_weights", "cls.seq_relationship.weight", false},
       {"output_weights", "classifier.weight", false},
       {"cls/squad/output_bias", "qa_outputs.bias", false},
       {"bert/pooler/dense/kernel/adam_v", "", false},
       {"global_step", "", false}},
      named(GoogleModel::kBert));
  const std::string inner = "bert/encoder/transformer/group_0/inner_group_0/";
  const std::string layer = "albert.encoder.albert_layer_groups.0.albert_layers.0.";
  expect_names(
      {{inner + "attention_1/self/query/kernel", layer + "attention.query.weight", true},
       {inner + "attention_1/output/dense/bias", layer + "attention.dense.bias", false},
       {inner + "LayerNorm/beta", layer + "attention.LayerNorm.bias", false},
       {inner + "LayerNorm_1/gamma", layer + "full_layer_layer_norm.weight", false},
       {inner + "ffn_1/intermediate/dense/kernel", layer + "ffn.weight", true},
       {inner + "ffn_1/intermediate/output/dense/kernel", layer + "ffn_output.weight", true},
       {"bert/encoder/embedding_hidden_mapping_in/kernel", "albert.encoder.embedding_hidden_mapping_in.weight", true},
       {"bert/embeddings/LayerNorm/gamma", "albert.embeddings.LayerNorm.weight", false},
       {"bert/pooler/dense/kernel", "albert.pooler.weight", true},
       {"cls/predictions/transform/dense/kernel", "predictions.dense.weight", true},
       {"cls/predictions/transform/LayerNorm/beta", "predictions.LayerNorm.bias", false},
       {"cls/seq_relationship/output_weights", "sop_classifier.classifier.weight", false}},
      named(GoogleModel::kAlbert));
  expect_names(
      {{"electra/encoder/layer_0/intermediate/dense/kernel", "electra.encoder.layer.0.intermediate.dense.weight", true},
       {"electra/embeddings_project/kernel", "electra.embeddings_project.weight", true},
       {"discriminator_predictions/dense_1/kernel", "discriminator_predictions.dense_prediction.weight", true}},
      named(GoogleModel::kElectra));
  expect_names({{"encoder/block_000/layer_000/SelfAttention/q", "encoder.block.0.layer.0.SelfAttention.q.weight", true},
                {"encoder/block_000/layer_000/SelfAttention/relative_attention_bias",
                 "encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight", true},
                {"decoder/block_011/layer_002/DenseReluDense/wi_0/kernel",
                 "decoder.block.11.layer.2.DenseReluDense.wi_0.weight", true},
                {"decoder/final_layer_norm/scale", "decoder.final_layer_norm.weight", false},
                {"shared/embedding", "shared.weight", false},
                {"encoder/block_000/layer_000/layer_norm/scale_slot_v", "", false}},
               named(GoogleModel::kMeshT5));
}

}  // namespace
}  // namespace transom
