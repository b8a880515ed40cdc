// SPDX-License-Identifier: Apache-2.0
// What users of Gaudi set, each in a run of its own: the arguments of Optimum Habana and the variables of the bridge
// change how a run is carried out, not its numbers; a pipeline pads its texts to few lengths.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <set>

#include "hpu_device.h"
#include "testing/files.h"
#include "testing/program.h"
#include "testing/small_model.h"
#include "testing/temporary_folder.h"
#include "transom/pipeline.h"

namespace transom {
namespace {

using test::Json;
using test::Outcome;
using test::Program;
using test::read_file;
using test::read_json;
using test::save_small_model;
using test::write_file;
using test::write_rows;
namespace fs = std::filesystem;

class HpuOptions : public testing::Test {
 protected:
  void SetUp() override {
    if (Program({"devices"}, folder_).wait().output.find("Intel Gaudi") == std::string::npos)
      GTEST_SKIP() << "no Gaudi here";
    set_device("cpu");  // the card is for the programs that are run
    save_small_model(folder_ / "model");
    write_rows(folder_ / "rows.jsonl", 18);
  }
  void TearDown() override {
    for (const char* name : {"PT_HPU_LAZY_MODE", "PT_ENABLE_INT64_SUPPORT"}) ::unsetenv(name);
  }

  struct Run {
    std::string weights;
    Json results;
  };
  // Three updates of four rows, and an evaluation whose last batch is not full.
  Run train(const std::vector<std::string>& flags) const {
    std::vector<std::string> words{"train",
                                   "--model_name_or_path",
                                   (folder_ / "model").string(),
                                   "--train_file",
                                   (folder_ / "rows.jsonl").string(),
                                   "--validation_file",
                                   (folder_ / "rows.jsonl").string(),
                                   "--output_dir",
                                   (folder_ / "out").string(),
                                   "--overwrite_output_dir",
                                   "--max_steps",
                                   "3",
                                   "--per_device_train_batch_size",
                                   "4",
                                   "--learning_rate",
                                   "0.01"};
    words.insert(words.end(), flags.begin(), flags.end());
    fs::remove_all(folder_ / "out");
    const Outcome outcome = Program(words, folder_).wait();
    EXPECT_EQ(outcome.status, 0) << outcome.error;
    if (outcome.status != 0) return {};
    return {read_file(folder_ / "out" / "model.safetensors"), read_json(folder_ / "out" / "all_results.json")};
  }
  static void expect_same(const Run& run, const Run& expected) {
    EXPECT_TRUE(run.weights == expected.weights);
    EXPECT_EQ(run.results["eval_loss"], expected.results["eval_loss"]);
    EXPECT_EQ(run.results["train_loss"], expected.results["train_loss"]);
  }

  test::TemporaryFolder folder_;
};

TEST_F(HpuOptions, ChangeHowARunIsCarriedOutButNotItsNumbers) {
  const Run lazy = train({"--use_habana"});
  for (const std::vector<std::string>& flags :
       {std::vector<std::string>{"--use_habana", "--use_hpu_graphs_for_training"},
        {"--use_habana", "--use_hpu_graphs_for_inference"},
        {"--use_habana", "--use_hpu_graphs_for_training", "--use_hpu_graphs_for_inference"},
        {"--use_habana", "--use_lazy_mode", "false"},
        {"--use_habana", "--use_lazy_mode", "false", "--torch_compile"}}) {
    SCOPED_TRACE(flags.back());
    expect_same(train(flags), lazy);
  }
  for (const auto& [name, value] : {std::pair("PT_HPU_LAZY_MODE", "0"), std::pair("PT_ENABLE_INT64_SUPPORT", "1")}) {
    SCOPED_TRACE(name);
    ::setenv(name, value, 1);
    expect_same(train({"--use_habana"}), lazy);
    ::unsetenv(name);
  }
}

TEST_F(HpuOptions, TakeThePrecisionFromAGaudiConfig) {
  write_file(folder_ / "gaudi_config.json",
             R"({"use_torch_autocast": true, "use_fused_adam": true, "use_fused_clip_norm": true})");
  const Run configured = train({"--use_habana", "--gaudi_config_name", folder_.string()});
  expect_same(configured, train({"--use_habana", "--bf16"}));
  EXPECT_FALSE(configured.weights == train({"--use_habana"}).weights);
}

TEST_F(HpuOptions, LeaveTheFirstStepsOutOfTheRates) {
  const Json results = train({"--use_habana", "--throughput_warmup_steps", "2", "--adjust_throughput"}).results;
  const double steps = results["train_steps_per_second"].get<double>();
  EXPECT_GT(steps, 0);
  EXPECT_NEAR(results["train_samples_per_second"].get<double>(), 4 * steps, 0.01 * (1 + 4 * steps));
}

// Texts of 20 lengths need as many recipes as there are padded lengths and numbers of rows, and score as they do alone.
TEST_F(HpuOptions, PadTheTextsOfAPipeline) {
  std::string words = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n";
  for (char letter = 'a'; letter <= 'z'; ++letter) words += std::string(1, letter) + "\n";
  write_file(folder_ / "model" / "vocab.txt", words);
  Json config = read_json(folder_ / "model" / "config.json");
  config["max_position_embeddings"] = 64;
  Model::from_config(config.dump(), {.seed = 3})->save_pretrained((folder_ / "model").string());
  std::vector<std::string> texts;
  std::string text;
  for (int i = 0; i < 20; ++i) texts.push_back(text += std::string(" ") + static_cast<char>('a' + i * 7 % 26));
  const auto scores = [&] {
    const LoadedPipeline classify = pipeline("text-classification", (folder_ / "model").string());
    std::vector<double> result;
    for (const std::string& line : classify(texts, R"({"top_k": null})"))
      for (const Json& label : Json::parse(line)) result.push_back(label["score"].get<double>());
    return result;
  };
  const std::vector<double> expected = scores();
  test::require_hpu();
  const std::vector<double> found = scores();
  const int64_t first = test::recompilations();
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-5) << i;
  for (std::string& line : texts)
    line = line.substr(0, line.size() / 2 / 2 * 2);  // of other lengths, in the same buckets
  texts[0] = "a";
  scores();
  EXPECT_LE(test::recompilations() - first, 2);
}

}  // namespace
}  // namespace transom
