// SPDX-License-Identifier: Apache-2.0
// transom certify on the devices of the tree, on the example plugin, and on one that is wrong in one way at a time.
#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include "base/files/files.h"
#include "base/json/json.h"
#include "support/command.h"
#include "support/folders.h"
#include "support/temporary_folder.h"
#include "tools/certify/bounds.h"
#include "tools/certify/values.h"
#include "transom/model.h"

namespace transom {
namespace {

const std::string kBinary = test::build_folder(), kProgram = kBinary + "/bin/transom";

class TreeDevices : public testing::TestWithParam<const char*> {};

TEST_P(TreeDevices, AreCertifiedAndTheReportIsSigned) {
  const test::TemporaryFolder folder;
  const test::CommandOutcome outcome =
      test::run_command(kProgram + " certify --seed 1 --device " + GetParam() + " --output " + folder.string());
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  const fs::path file = folder / "certificate.json";
  const Json report = read_json(file);
  EXPECT_EQ(report["verdict"], "pass");
  EXPECT_GT(report["rows"].size(), 300u);
  EXPECT_EQ(report["curves"].size(), 4u);
  EXPECT_EQ(test::run_command(kProgram + " certify --verify " + file.string()).status, 0);
  const std::string page = read_file(folder / "certificate.html");
  EXPECT_NE(page.find("<svg"), std::string::npos);
  EXPECT_EQ(page.find("http"), std::string::npos) << "the page needs something from elsewhere";

  std::string changed = read_file(file);
  changed.replace(changed.find("\"seed\": 1"), 9, "\"seed\": 2");
  write_file(file, changed);
  const test::CommandOutcome refused = test::run_command(kProgram + " certify --verify " + file.string());
  EXPECT_EQ(refused.status, 1);
  EXPECT_NE(refused.output.find("was changed after it was written"), std::string::npos) << refused.output;
}

INSTANTIATE_TEST_SUITE_P(All, TreeDevices, testing::Values("cpu", "reference"),
                         [](const auto& info) { return std::string(info.param); });

TEST(Certify, RefusesTheDeviceThatComputesNothing) {
  const test::CommandOutcome outcome =
      test::run_command(kProgram + " certify --seed 1 --device null --level operations");
  EXPECT_EQ(outcome.status, 1);
  EXPECT_NE(outcome.output.find("expected"), std::string::npos) << outcome.output;
}

TEST(Certify, TriesTheOperationsThatAreNamed) {
  const std::string some = kProgram + " certify --seed 1 --device cpu --level operations --operation ";
  const test::CommandOutcome outcome = test::run_command(some + "softmax add --json");
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  EXPECT_NE(outcome.output.find("\"softmax\""), std::string::npos);
  EXPECT_EQ(outcome.output.find("\"log_softmax\""), std::string::npos);
  const test::CommandOutcome unknown = test::run_command(some + "softmox");
  EXPECT_EQ(unknown.status, 2);
  EXPECT_NE(unknown.output.find("softmox"), std::string::npos) << unknown.output;
  EXPECT_EQ(test::run_command(some + "add --output /tmp").status, 2);
}

// The gradient of the sinks is f32 where queries, keys and values are bf16: it has the bound of its own type.
TEST(Certify, JudgesEachOutputByItsOwnType) {
  const test::CommandOutcome outcome = test::run_command(
      kProgram + " certify --seed 5 --device cpu --level operations --json --operation sink_attention_gradient gelu");
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  double sinks = 0, gelu = 0;
  const Json report = parse_json(outcome.output, "the certificate");
  for (const Json& row : report["rows"]) {
    if (row["variant"] != "bf16") continue;
    if (row["subject"] == "sink_attention_gradient") sinks = row["bound"];
    if (row["subject"] == "gelu") gelu = row["bound"];
  }
  EXPECT_EQ(sinks, 32);
  EXPECT_GT(gelu, 0);
  EXPECT_LT(gelu, 32) << "its outputs are bf16";
}

// As sentence encoders are kept: there is no loss, so a weighted sum of the outputs is differentiated, and nothing
// trained.
TEST(Certify, TakesAModelWithoutAHead) {
  const test::TemporaryFolder folder;
  Model::from_config(R"({"model_type": "bert", "architectures": ["BertModel"], "vocab_size": 40, "hidden_size": 16,
                         "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 24,
                         "max_position_embeddings": 32, "type_vocab_size": 2})",
                     {.seed = 3})
      ->save_pretrained(folder.string());
  const test::CommandOutcome outcome =
      test::run_command(kProgram + " certify --seed 1 --device cpu --level models --json --model " + folder.string());
  ASSERT_EQ(outcome.status, 0) << outcome.output;
  std::vector<std::string> variants;
  const Json report = parse_json(outcome.output, "the certificate");
  for (const Json& row : report["rows"]) variants.push_back(row["variant"]);
  EXPECT_EQ(variants, (std::vector<std::string>{"outputs", "gradients", "outputs in bf16", "gradients in bf16"}));
}

TEST(Certify, RefusesUnknownLevels) {
  const test::CommandOutcome outcome = test::run_command(kProgram + " certify --device cpu --level speed");
  EXPECT_EQ(outcome.status, 2);
  EXPECT_NE(outcome.output.find("expected operations, models, behaviour or on-policy"), std::string::npos)
      << outcome.output;
}

// What the engine samples is what a training pass computes, to the bit: plain and with LoRA, in f32 and bf16, after
// updates.
TEST(Certify, SamplesAreOnPolicy) {
  const test::CommandOutcome outcome =
      test::run_command(kProgram + " certify --seed 1 --device cpu --level on-policy --prompts 24 --json");
  ASSERT_EQ(outcome.status, 0) << outcome.output;
  const Json report = parse_json(outcome.output, "the certificate");
  ASSERT_EQ(report["rows"].size(), 12u);
  for (const Json& row : report["rows"]) {
    EXPECT_EQ(row["verdict"], "pass") << row.dump();
    EXPECT_GE(row["cases"], 24) << row.dump();
  }
}

TEST(Certify, OnPolicyTakesModelsThatWrite) {
  const test::TemporaryFolder folder;
  Model::from_config(R"({"model_type": "bert", "architectures": ["BertModel"], "vocab_size": 40, "hidden_size": 16,
                         "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 24,
                         "max_position_embeddings": 32, "type_vocab_size": 2})",
                     {.seed = 3})
      ->save_pretrained(folder.string());
  const test::CommandOutcome outcome =
      test::run_command(kProgram + " certify --device cpu --level on-policy " + folder.string());
  EXPECT_EQ(outcome.status, 2) << outcome.output;
  EXPECT_NE(outcome.output.find("expected a causal language model"), std::string::npos) << outcome.output;
}

// Built as a project of its own that knows one header.
TEST(ExamplePlugin, IsBuiltOutsideOfTheTreeAndCertified) {
  const test::TemporaryFolder folder;
  const test::CommandOutcome built = test::run_command(
      "cmake -S " + test::source_folder() + "/examples/plugin -B " + folder.string() +
      " -DTRANSOM_INCLUDE_DIR=" + test::source_folder() + "/include && cmake --build " + folder.string());
  ASSERT_EQ(built.status, 0) << built.output;
  const test::CommandOutcome outcome = test::run_command("TRANSOM_PLUGIN_PATH=" + folder.string() + " " + kProgram +
                                                         " certify --seed 1 --device example");
  EXPECT_EQ(outcome.status, 0) << outcome.output;
}

TEST(ExamplePlugin, EveryMistakeIsFoundAndNamed) {
  const std::string folder = kBinary + "/mutants";
  const auto certify = [&](const std::string& mutation) {
    return test::run_command("MUTATION=" + mutation + " TRANSOM_PLUGIN_PATH=" + folder + " " + kProgram +
                             " certify --seed 1 --device example --level operations,behaviour --stop_at_first_failure");
  };
  const test::CommandOutcome right = certify("none");
  EXPECT_EQ(right.status, 0) << right.output;
  std::ifstream names(folder + "/mutations");
  size_t count = 0;
  for (std::string name; std::getline(names, name); ++count) {
    const test::CommandOutcome outcome = certify(name);
    EXPECT_EQ(outcome.status, 1) << name << " was not found:\n" << outcome.output;
    EXPECT_NE(outcome.output.find("transom: example: "), std::string::npos) << name << ":\n" << outcome.output;
  }
  EXPECT_GE(count, 30u);
}

TEST(Bounds, UnitsInTheLastPlace) {
  EXPECT_EQ(certify::ulp(1, DType::kFloat32), 0x1p-23);
  EXPECT_EQ(certify::ulp(-1.5, DType::kBFloat16), 0x1p-7);
  EXPECT_EQ(certify::ulp(0, DType::kFloat16), 0x1p-24);
  EXPECT_EQ(certify::ulp(2, DType::kFloat64), 0x1p-51);
}

TEST(Bounds, OneUnitTooManyIsFound) {
  Array expected({DType::kFloat32, {2}}), found = expected;
  expected.real = {1, 2};
  found.real = {1, 2 + 0x1p-22};
  const certify::Bound one{certify::Scale::kElement, 1}, half{certify::Scale::kElement, 0.5};
  EXPECT_LE(certify::compare(expected, found, one, nullptr, nullptr).ratio, 1);
  const certify::Difference difference = certify::compare(expected, found, half, nullptr, nullptr);
  EXPECT_GT(difference.ratio, 1);
  EXPECT_EQ(difference.place, 1);
  found.real[0] = NAN;
  EXPECT_EQ(certify::compare(expected, found, one, nullptr, nullptr).place, 0);
}

}  // namespace
}  // namespace transom
