// SPDX-License-Identifier: Apache-2.0
// Exported files are run by our own importer at sizes that were not traced, and those that are wrong are named.
#include "models/onnx/export/check_export.h"

#include <gtest/gtest.h>

#include "models/onnx/export/export_model.h"
#include "support/message.h"
#include "support/temporary_folder.h"

namespace transom::onnx {
namespace {

std::unique_ptr<transom::Model> bert_of_seed(uint64_t seed) {
  return transom::Model::from_config(R"({"model_type": "bert", "architectures": ["BertForSequenceClassification"],
      "vocab_size": 40, "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 24,
      "max_position_embeddings": 32, "type_vocab_size": 2})",
                                     {.seed = seed});
}

std::vector<std::string> checked_files(const transom::Model& model, bool with_past) {
  const test::TemporaryFolder folder;
  std::vector<std::string> files;
  for (const int64_t opset : {18, 23}) {
    files.clear();
    export_model(model, folder.path(), {.opset = opset, .with_past = with_past, .check = [&](const ExportCheck& check) {
                                          files.push_back(check.file);
                                          EXPECT_EQ(check.passes, 3);
                                          EXPECT_LT(check.difference, 1e-4) << check.file << " " << check.output;
                                        }});
  }
  return files;
}

TEST(CheckExport, TakesFilesThatAreRight) {
  EXPECT_EQ(checked_files(*bert_of_seed(1), false), std::vector<std::string>{"model.onnx"});
  const auto llama = transom::Model::from_config(R"({"model_type": "llama", "architectures": ["LlamaForCausalLM"],
      "vocab_size": 40, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
      "intermediate_size": 24, "max_position_embeddings": 64})");
  EXPECT_EQ(checked_files(*llama, true), std::vector<std::string>{"model.onnx"});
  const auto t5 = transom::Model::from_config(R"({"model_type": "t5", "architectures": ["T5ForConditionalGeneration"],
      "vocab_size": 40, "d_model": 16, "d_kv": 8, "d_ff": 24, "num_layers": 2, "num_decoder_layers": 2, "num_heads": 2,
      "relative_attention_num_buckets": 8, "relative_attention_max_distance": 16, "decoder_start_token_id": 0,
      "pad_token_id": 0})");
  EXPECT_EQ(checked_files(*t5, false), (std::vector<std::string>{"encoder_model.onnx", "decoder_model.onnx"}));
}

TEST(CheckExport, NamesTheOutputOfAFileThatIsAnothers) {
  const test::TemporaryFolder folder;
  const auto one = bert_of_seed(1), two = bert_of_seed(2);
  const fs::path file = export_model(*one, folder.path()).at(0);
  const ExportedFile described = exported_files(*one, false).at(0);
  EXPECT_LT(check_file(*one, described, file).difference, 1e-5);
  const std::string message = test::message_of([&] { check_file(*two, described, file); });
  EXPECT_NE(message.find("'logits' differs"), message.npos) << message;
  EXPECT_NE(message.find("batch_size"), message.npos) << message;
}

}  // namespace
}  // namespace transom::onnx
