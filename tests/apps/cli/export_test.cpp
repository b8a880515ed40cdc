// SPDX-License-Identifier: Apache-2.0
// transom export and transom convert, as users call them: what is written, what is said, what is refused.
#include <gtest/gtest.h>

#include <filesystem>

#include "apps/cli/program.h"
#include "work/train/tiny_model.h"

namespace transom {
namespace {

namespace fs = std::filesystem;

const std::string kClassifier = R"(, "architectures": ["BertForSequenceClassification"])";

class ExportProgram : public testing::Test {
 protected:
  std::string in(const std::string& name) const { return (model_.path() / name).string(); }
  test::CommandOutcome call(const std::string& command, const std::string& rest) const {
    return run(command + " " + model_.path().string() + " " + rest);
  }
  TinyModel model_;
};

TEST_F(ExportProgram, RefusesInOneLine) {
  expect_one_line(call("export", in("out") + " --format tensorrt"), 2, "--format: expected onnx, found 'tensorrt'");
  expect_one_line(call("export", in("out") + " --opset 12"), 2, "opset: expected 18 to 23, found 12");
  expect_one_line(run("export " + in("missing") + " " + in("out")), 1, "missing");
  EXPECT_FALSE(fs::exists(in("out")));
}

// A directory called q4.gguf is never what is meant.
TEST_F(ExportProgram, TheEndingOfTheOutputChoosesTheFormatOrIsRefused) {
  for (const auto& [command, name] : {std::pair{"convert", "out.gguf"},
                                      {"export", "out.onnx"},
                                      {"prune", "out.GGUF"},
                                      {"convert", "out.safetensors"},
                                      {"export", "out.gguf"},
                                      {"prune", "out.bin"}}) {
    expect_one_line(call(command, in(name)), 2, "writes a directory, and this is the name of a file");
    EXPECT_FALSE(fs::exists(in(name))) << name;
  }
  expect_one_line(run("merge " + model_.path().string() + " " + in("out.gguf")), 2, "writes a directory");
  expect_one_line(call("quantize", in("out.gguf") + " --format gptq"), 2, "--format gptq writes a directory");
  for (const char* name : {"out.onnx", "out.safetensors", "out.pt"})
    expect_one_line(call("quantize", in(name)), 2, "expected a directory or the name of a .gguf file for this model");
  EXPECT_EQ(call("quantize", in("out.gguf")).status, 0);
  EXPECT_TRUE(fs::is_regular_file(in("out.gguf")));
  EXPECT_EQ(call("quantize", in("typed") + " --type q8_0").status, 0);
  EXPECT_TRUE(fs::is_regular_file(in("typed/model.gguf")));
}

// Every command takes its model at its place, by --model and by -m.
TEST_F(ExportProgram, TakesTheModelInAnyForm) {
  const std::string model = model_.path().string();
  int number = 0;
  for (const std::string& form : {model, "--model " + model, "-m " + model, "--model=" + model})
    for (const char* command : {"convert ", "quantize --type f16 "}) {
      const std::string out = in("out" + std::to_string(++number));
      EXPECT_EQ(run(command + form + " " + out).status, 0) << command << form;
      EXPECT_TRUE(fs::exists(out)) << command << form;
    }
  for (const char* command : {"run feature-extraction", "tokenize"})
    EXPECT_EQ(run(std::string(command) + " -m " + model + " ann").status, 0) << command;
  EXPECT_NE(run("serve -m " + in("nowhere") + " --port 0").output.find("nowhere"), std::string::npos);
  expect_one_line(run("evaluate -m " + model + " --task text-classification"), 2, "--validation_file");
}

TEST_F(ExportProgram, ConvertsIntoACheckpointThatAnswersTheSame) {
  const test::CommandOutcome outcome = call("convert", in("converted"));
  ASSERT_EQ(outcome.status, 0) << outcome.output;
  for (const char* name : {"converted/model.safetensors", "converted/config.json", "converted/vocab.txt"})
    EXPECT_TRUE(fs::exists(in(name))) << name;
  const auto features = [&](const std::string& model) {
    return run("run feature-extraction --model " + model + " 'ann went to rome' --json").output;
  };
  EXPECT_EQ(features(in("converted")), features(model_.path().string()));
}

TEST_F(ExportProgram, ConvertsForTensorFlowAndFlaxAndBack) {
  const auto features = [&](const std::string& model) {
    return run("run feature-extraction --model " + model + " 'ann went to rome' --json").output;
  };
  for (const std::string format : {"tf", "flax"}) {
    const test::CommandOutcome outcome = call("convert", in(format) + " --format " + format);
    ASSERT_EQ(outcome.status, 0) << outcome.output;
    EXPECT_FALSE(fs::exists(in(format + "/model.safetensors")));
    EXPECT_EQ(features(in(format)), features(model_.path().string())) << format;
  }
  expect_one_line(call("convert", in("out") + " --format keras"), 2, "--format: expected safetensors, tf or flax");
  EXPECT_FALSE(fs::exists(in("out")));
}

TEST_F(ExportProgram, ConvertRefusesItsOwnDirectory) {
  expect_one_line(call("convert", model_.path().string()), 2, "is the model itself");
  expect_one_line(call("convert", in("out") + " --max_shard_size 0"), 2, "--max_shard_size: expected at least 1");
  expect_one_line(run("convert " + in("missing") + " " + in("out")), 1, "missing");
}

TEST_F(ExportProgram, QuantizesAnOnnxFile) {
  ASSERT_EQ(call("export", in("onnx") + " --opset 18").status, 0);
  model_.write("lines.txt", "ann went to rome\nbob lives in rome\n");
  const std::string file = in("onnx/model.onnx"), texts = " --calibration_file " + in("lines.txt");
  const test::CommandOutcome outcome = run("quantize " + file + " " + in("integers") + texts);
  ASSERT_EQ(outcome.status, 0) << outcome.output;
  EXPECT_NE(outcome.output.find("a8w8: in integers: "), std::string::npos) << outcome.output;
  const test::CommandOutcome answer =
      run("run feature-extraction --model " + in("integers") + " 'ann went to rome' --json");
  EXPECT_EQ(answer.status, 0) << answer.output;
  EXPECT_NE(answer.output, run("run feature-extraction --model " + in("onnx") + " 'ann went to rome' --json").output);
  EXPECT_NE(model_.read("integers/model.onnx").find("DequantizeLinear"), std::string::npos);
  expect_one_line(run("quantize " + file + " " + in("none")), 2, "--format a8w8 needs --calibration_file");
  expect_one_line(run("quantize " + file + " " + in("none") + " --bits 4" + texts), 2, "integers of 8 bits");
  expect_one_line(run("quantize " + file + " " + in("onnx") + texts), 2, "is the model itself");
  EXPECT_FALSE(fs::exists(in("none")));
}

}  // namespace
}  // namespace transom
