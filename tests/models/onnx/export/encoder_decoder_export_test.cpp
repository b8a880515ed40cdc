// SPDX-License-Identifier: Apache-2.0
// Encoder-decoders as files: with pasts, merged, and checked by our own importer at sizes that were not traced.
#include <gtest/gtest.h>

#include "models/onnx/export/check_export.h"
#include "models/onnx/export/export_model.h"
#include "models/onnx/export/file_pass.h"
#include "models/onnx/import/run/imported_graph.h"
#include "support/message.h"
#include "support/temporary_folder.h"
#include "transom/ops.h"

namespace transom::onnx {
namespace {

struct Case {
  const char *name, *config;
};

class EncoderDecoderExport : public testing::TestWithParam<Case> {
 protected:
  static std::unique_ptr<transom::Model> model() { return transom::Model::from_config(GetParam().config, {.seed = 3}); }
};

std::vector<std::string> names_of(const std::vector<ValueInfo>& values) {
  std::vector<std::string> names;
  for (const ValueInfo& value : values) names.push_back(value.name);
  return names;
}

TEST_P(EncoderDecoderExport, FilesGiveTheModelsAnswersAtOtherSizes) {
  const test::TemporaryFolder folder;
  for (const int64_t opset : {18, 23}) {
    std::vector<std::string> checked;
    const auto written = export_model(*model(), folder.path(),
                                      {.opset = opset, .with_past = true, .check = [&](const ExportCheck& check) {
                                         checked.push_back(check.file);
                                         EXPECT_LT(check.difference, 1e-4) << check.file << " " << check.output;
                                       }});
    EXPECT_EQ(checked,
              (std::vector<std::string>{"encoder_model.onnx", "decoder_model.onnx", "decoder_with_past_model.onnx"}));
    ASSERT_EQ(written.size(), 4u);
    EXPECT_EQ(written[3].filename(), "decoder_model_merged.onnx");
  }
}

TEST_P(EncoderDecoderExport, TheMergedFileTakesBothWays) {
  const test::TemporaryFolder folder;
  const NoGradient inference;
  const auto one = model();
  const auto written = export_model(*one, folder.path(), {.with_past = true});
  const auto first = ImportedGraph::open(written.at(1)), next = ImportedGraph::open(written.at(2)),
             merged = ImportedGraph::open(written.at(3));
  // As optimum's names have it.
  const std::vector<std::string> inputs = names_of(merged->model().graph.inputs);
  for (const char* name : {"input_ids", "encoder_hidden_states", "use_cache_branch", "past_key_values.0.decoder.key",
                           "past_key_values.1.encoder.value"})
    EXPECT_NE(std::find(inputs.begin(), inputs.end(), name), inputs.end()) << name;
  EXPECT_EQ(names_of(merged->model().graph.outputs), names_of(first->model().graph.outputs));
  EXPECT_EQ(names_of(next->model().graph.outputs).size(), 5u);  // logits, and two a layer

  const int64_t B = 2, S = 6;
  NamedValues given;
  for (const ValueInfo& input : first->model().graph.inputs) {
    if (input.name == "input_ids")
      given.emplace_back(input.name, value_of(Tensor::from(std::vector<int64_t>{3, 4, 5, 6, 7, 8}, {B, 3})));
    else if (input.name == "encoder_attention_mask")
      given.emplace_back(input.name,
                         value_of(Tensor::from(std::vector<int64_t>(static_cast<size_t>(B * S), 1), {B, S})));
    else {
      const int64_t length = input.shape->at(1).value > 0 ? input.shape->at(1).value : S;
      const int64_t width = input.shape->at(2).value;
      std::vector<float> states(static_cast<size_t>(B * length * width));
      for (size_t i = 0; i < states.size(); ++i) states[i] = static_cast<float>(i % 13) / 13 - 0.4f;
      given.emplace_back(input.name, value_of(Tensor::from(states, {B, length, width})));
    }
  }
  const NamedValues seen = first->run(given);
  const auto expect_same = [](const NamedValues& found, const NamedValues& expected) {
    for (const auto& [name, value] : expected) {
      const auto same =
          std::find_if(found.begin(), found.end(), [&, &name = name](const auto& f) { return f.first == name; });
      ASSERT_NE(same, found.end()) << name;
      EXPECT_EQ(same->second.tensor.shape(), value.tensor.shape()) << name;
      const std::vector<float> a = same->second.tensor.to_vector<float>(), b = value.tensor.to_vector<float>();
      for (size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], 1e-5) << name;
    }
  };
  const auto through_merged = [&](NamedValues values, bool cached) {
    for (const ValueInfo& input : merged->model().graph.inputs) {
      const auto known =
          std::find_if(values.begin(), values.end(), [&](const auto& v) { return v.first == input.name; });
      if (known != values.end()) continue;
      if (input.name == "use_cache_branch") {
        values.emplace_back(input.name, value_of(cast(Tensor::from(std::vector<int64_t>{cached}, {1}), DType::kBool)));
      } else if (input.name == "encoder_hidden_states") {
        values.push_back(*std::find_if(given.begin(), given.end(),
                                       [](const auto& v) { return v.first == "encoder_hidden_states"; }));
      } else {
        values.emplace_back(
            input.name, value_of(zeros({B, input.shape->at(1).value, 1, input.shape->at(3).value}, DType::kFloat32)));
      }
    }
    return merged->run(values);
  };
  expect_same(through_merged(given, false), seen);

  // The next token behind those, with what the first pass gave.
  NamedValues behind;
  for (const ValueInfo& input : next->model().graph.inputs) {
    if (input.name == "input_ids")
      behind.emplace_back(input.name, value_of(Tensor::from(std::vector<int64_t>{9, 10}, {B, 1})));
    else if (input.name.starts_with("past_key_values"))
      behind.emplace_back(input.name, std::find_if(seen.begin(), seen.end(), [&](const auto& s) {
                                        return s.first == "present" + input.name.substr(15);
                                      })->second);
    else
      behind.push_back(*std::find_if(given.begin(), given.end(), [&](const auto& v) { return v.first == input.name; }));
  }
  const NamedValues later = next->run(behind);
  expect_same(through_merged(behind, true), later);
  // And it is what all four tokens at once give.
  NamedValues all = given;
  for (auto& [name, value] : all)
    if (name == "input_ids") value = value_of(Tensor::from(std::vector<int64_t>{3, 4, 5, 9, 6, 7, 8, 10}, {B, 4}));
  const Tensor whole = first->run(all)[0].second.tensor;
  expect_same({later[0]}, {{"logits", value_of(slice(whole, 1, 3, 4))}});
}

INSTANTIATE_TEST_SUITE_P(
    Families, EncoderDecoderExport,
    testing::Values(
        Case{"T5",
             R"({"model_type": "t5", "architectures": ["T5ForConditionalGeneration"], "vocab_size": 40, "d_model": 16,
                         "d_kv": 8, "d_ff": 24, "num_layers": 2, "num_decoder_layers": 2, "num_heads": 2,
                         "relative_attention_num_buckets": 8, "relative_attention_max_distance": 16,
                         "decoder_start_token_id": 0, "pad_token_id": 0})"},
        Case{"Bart", R"({"model_type": "bart", "architectures": ["BartForConditionalGeneration"], "vocab_size": 40,
                         "d_model": 16, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 2,
                         "decoder_attention_heads": 2, "encoder_ffn_dim": 24, "decoder_ffn_dim": 24,
                         "max_position_embeddings": 64})"},
        Case{"Whisper", R"({"model_type": "whisper", "architectures": ["WhisperForConditionalGeneration"],
                         "vocab_size": 40, "d_model": 16, "encoder_layers": 2, "decoder_layers": 2,
                         "encoder_attention_heads": 2, "decoder_attention_heads": 2, "encoder_ffn_dim": 24,
                         "decoder_ffn_dim": 24, "max_source_positions": 10, "max_target_positions": 64,
                         "num_mel_bins": 8, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
                         "decoder_start_token_id": 3})"},
        Case{"TwoHalves", R"({"model_type": "encoder-decoder", "architectures": ["EncoderDecoderModel"],
                         "decoder_start_token_id": 2, "pad_token_id": 0,
                         "encoder": {"model_type": "bert", "vocab_size": 40, "hidden_size": 12, "num_hidden_layers": 1,
                           "num_attention_heads": 3, "intermediate_size": 14, "max_position_embeddings": 64},
                         "decoder": {"model_type": "bert", "vocab_size": 40, "hidden_size": 16, "num_hidden_layers": 2,
                           "num_attention_heads": 2, "intermediate_size": 18, "max_position_embeddings": 64,
                           "is_decoder": true, "add_cross_attention": true}})"}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace transom::onnx
