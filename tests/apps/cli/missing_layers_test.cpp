// SPDX-License-Identifier: Apache-2.0
// One rule in all commands: a checkpoint without a layer is refused in one line that names it, and nothing is written.
#include <gtest/gtest.h>

#include <filesystem>

#include "apps/cli/program.h"
#include "files/checkpoint/checkpoint.h"
#include "files/checkpoint/safetensors.h"
#include "support/folders.h"
#include "support/temporary_folder.h"
#include "transom/model.h"

namespace transom {
namespace {

namespace fs = std::filesystem;

class MissingLayers : public testing::Test {
 protected:
  MissingLayers() {
    // A BERT classifier of other people, of which layer 1 is missing.
    const fs::path wild = fs::path(test::source_folder()) / "tests/wild/files/convert-missing-layer";
    fs::create_directory(classifier_);
    for (const auto& entry : fs::directory_iterator(wild))
      fs::copy(entry.path(), classifier_ / entry.path().filename());
    fs::copy(wild.parent_path() / "bert-mlm-decoder-bias-only/in.safetensors", folder_ / "in.safetensors");
    folder_.write("rows.csv", "text,label\nt1 t2,LABEL_0\nt3 t2,LABEL_1\nt1 t4,LABEL_2\n");
    folder_.write("text.txt", "t1 t2 t3 t4 t1 t2 t3 t4\nt3 t4 t1\n");
    // A decoder without its last layer.
    Model::from_config(R"({"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "vocab_size": 50, "n_embd": 32,
        "n_layer": 2, "n_head": 2, "n_positions": 32})")
        ->save_pretrained(decoder_.string());
    NamedViews kept;
    for (const auto& [name, view] : SafetensorsFile::open(decoder_ / "model.safetensors").tensors())
      if (name.find(".h.1.") == name.npos) kept.emplace_back(name, view);
    save_checkpoint(decoder_, kept, 1 << 30);
    for (const char* name : {"tokenizer.json", "tokenizer_config.json"}) fs::copy(wild / name, decoder_ / name);
    folder_.write("prompts.jsonl", "{\"input_ids\": [[1, 2, 3]]}\n");
  }
  std::string in(const std::string& name) const { return (folder_ / name).string(); }
  void expect_refused(const std::string& command, const std::string& part) {
    const test::CommandOutcome outcome = run(command);
    EXPECT_EQ(outcome.status, 1) << command << ": " << outcome.output;
    EXPECT_NE(outcome.output.find(part), std::string::npos) << command << ": " << outcome.output;
    EXPECT_EQ(std::count(outcome.output.begin(), outcome.output.end(), '\n'), 1) << command << ": " << outcome.output;
    EXPECT_FALSE(fs::exists(in("out") + "/model.safetensors")) << command;
  }

  test::TemporaryFolder folder_;
  const fs::path classifier_ = folder_ / "classifier", decoder_ = folder_ / "decoder";
};

TEST_F(MissingLayers, AreRefusedByAllThatAnswersScoresWritesOrTrains) {
  const std::string model = classifier_.string(), out = in("out"), rows = in("rows.csv");
  const std::string missing = "bert.encoder.layer.1.";
  expect_refused("forward --model " + model + " --inputs " + in("in.safetensors") + " --outputs " + out, missing);
  expect_refused("run text-classification --model " + model + " 't1 t2'", missing);
  expect_refused("convert " + model + " " + out, missing);
  expect_refused("convert " + model + " " + out + " --format flax", missing);
  expect_refused("export " + model + " " + out + " --format onnx", missing);
  expect_refused("prune " + model + " " + out + " --sparsity 0.5", missing);
  expect_refused("quantize " + model + " " + out + " --bits 8 --group_size 8", missing);
  expect_refused("evaluate --task text-classification --model_name_or_path " + model + " --validation_file " + rows +
                     " --output_dir " + out,
                 missing);
  expect_refused("train --task text-classification --model_name_or_path " + model + " --train_file " + rows +
                     " --max_steps 1 --output_dir " + out,
                 missing);
  expect_refused("train --model_name_or_path " + model + " --overfit_batch " + in("in.safetensors") + " --max_steps 1",
                 missing);
  expect_refused("serve " + model + " --port 0", missing);
}

TEST_F(MissingLayers, OfDecodersToo) {
  const std::string model = decoder_.string(), out = in("out"), missing = "transformer.h.1.";
  expect_refused("generate --model " + model + " --inputs " + in("prompts.jsonl") + " --outputs " + out, missing);
  expect_refused("run text-generation --model " + model + " t1", missing);
  expect_refused("serve " + model + " --port 0", missing);
  expect_refused("quantize " + model + " " + out + "/x.gguf --format gguf --type q8_0", missing);
  expect_refused("train --task text-generation --model_name_or_path " + model + " --train_file " + in("text.txt") +
                     " --max_steps 1 --output_dir " + out,
                 missing);
}

// Another prefix than the family's hides all of the body.
TEST_F(MissingLayers, ABodyUnderAnotherNameIsMissing) {
  NamedViews renamed = SafetensorsFile::open(classifier_ / "model.safetensors").tensors();
  for (auto& [name, view] : renamed)
    if (name.starts_with("bert.")) name = "my_" + name;
  save_checkpoint(classifier_, renamed, 1 << 30);
  const std::string model = classifier_.string(), missing = "bert.embeddings.";
  expect_refused("convert " + model + " " + in("out"), missing);
  expect_refused("train --task text-classification --model_name_or_path " + model + " --train_file " + in("rows.csv") +
                     " --max_steps 1 --output_dir " + in("out"),
                 missing);
}

}  // namespace
}  // namespace transom
