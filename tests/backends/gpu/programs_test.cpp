// SPDX-License-Identifier: Apache-2.0
// The program on the emulated drivers of NVIDIA and AMD beside itself on the cpu: what it generates are the same
// tokens, and a training run of several evaluations has the same losses, but for the rounding of sums in another order.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <iterator>
#include <sstream>

#include "base/files/files.h"
#include "base/json/json.h"
#include "gpu_device.h"
#include "support/golden.h"
#include "support/program.h"
#include "support/temporary_folder.h"

namespace transom {
namespace {

class GpuPrograms : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    backend_test::use_emulated_drivers();
    if (run("devices --json").output.find(fmt::format("\"{}", GetParam())) == std::string::npos)
      GTEST_SKIP() << "no device " << GetParam();
  }
  // `line`: words without spaces in them.
  test::Outcome run(const std::string& line) const {
    std::istringstream words(line);
    return test::Program({std::istream_iterator<std::string>(words), {}}, folder_.path()).wait();
  }

  // The lines that `transom generate` writes.
  std::string generated(const std::string& model, const std::string& device, const std::string& prompts,
                        const std::string& flags) const {
    const std::string out = (folder_ / (device + ".jsonl")).string();
    const test::Outcome outcome =
        run(fmt::format("generate --device {} --model {} --inputs {} --outputs {} --max_new_tokens 12 {}", device,
                        model, prompts, out, flags));
    EXPECT_EQ(outcome.status, 0) << outcome.error;
    return outcome.status == 0 ? read_file(out) : "";
  }
  test::TemporaryFolder folder_;
};

TEST_P(GpuPrograms, GenerateTheTokensOfTheCpu) {
  const std::filesystem::path golden = test::golden_folder();
  const std::string rows = "[[2, 2, 2, 2, 1, 302, 422, 381, 421], [1, 450, 420, 382, 386, 424, 357, 460, 335]]",
                    mask = "[[0, 0, 0, 0, 1, 1, 1, 1, 1], [1, 1, 1, 1, 1, 1, 1, 1, 1]]";
  const std::string prompts =
      folder_.write("prompts.jsonl", fmt::format("{{\"input_ids\": {}, \"attention_mask\": {}}}\n", rows, mask))
          .string();
  const std::string model = (golden / "llama-lm/model").string();
  for (const char* flags : {"--do_sample false", "--do_sample true --temperature 0.8 --top_k 40 --top_p 0.9 --seed 5",
                            "--num_beams 4 --do_sample false --length_penalty 0.5"}) {
    const std::string expected = generated(model, "cpu", prompts, flags);
    EXPECT_NE(expected.find("sequences"), std::string::npos) << expected;
    EXPECT_EQ(generated(model, GetParam(), prompts, flags), expected) << flags;
  }
}

TEST_P(GpuPrograms, TrainWithTheLossesOfTheCpu) {
  const std::filesystem::path data = test::golden_folder() / "trainer/data-gpt2";
  const auto history = [&](const std::string& device) {
    const test::Outcome outcome = run(fmt::format(
        "train --device {} --model_name_or_path {} --task text-generation --train_file {} --validation_file {} "
        "--per_device_train_batch_size 2 --gradient_accumulation_steps 2 --learning_rate 0.0005 --max_steps 4 "
        "--logging_steps 1 --eval_strategy steps --eval_steps 2 --save_strategy no --output_dir {}",
        device, (data / "model").string(), (data / "train.jsonl").string(), (data / "validation.jsonl").string(),
        (folder_ / device).string()));
    EXPECT_EQ(outcome.status, 0) << outcome.error;
    return outcome.status == 0 ? read_json(folder_ / device / "trainer_state.json")["log_history"] : Json::array();
  };
  const Json expected = history("cpu"), found = history(GetParam());
  ASSERT_EQ(found.size(), expected.size());
  ASSERT_GE(expected.size(), 6u);
  int compared = 0;
  for (size_t i = 0; i < expected.size(); ++i)
    for (const char* name : {"loss", "grad_norm", "eval_loss"})
      if (expected[i].contains(name)) {
        const double loss = expected[i][name];
        EXPECT_NEAR(found[i].at(name).get<double>(), loss, 2e-5 * std::abs(loss)) << name << " of record " << i;
        ++compared;
      }
  EXPECT_GE(compared, 10);
}

INSTANTIATE_TEST_SUITE_P(Emulated, GpuPrograms, testing::Values("cuda", "rocm"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace transom
