// SPDX-License-Identifier: Apache-2.0
// Ten updates of each way to train diffusion against the loops of diffusers' scripts (tests/golden/diffusion/training).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/files/directories.h"
#include "base/files/files.h"
#include "base/json/json.h"
#include "files/checkpoint/safetensors.h"
#include "support/golden.h"
#include "support/kept_log.h"
#include "support/temporary_folder.h"
#include "support/test_names.h"
#include "work/train/tasks/task_data.h"

namespace transom {
namespace {

fs::path recorded_folder() { return test::golden_folder() / "diffusion" / "training"; }

std::vector<std::string> recorded_runs() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(recorded_folder()))
    if (entry.path().extension() == ".json") names.push_back(entry.path().stem().string());
  std::sort(names.begin(), names.end());
  return names;
}

// A file or folder of the cases by its whole path, anything else as it is.
std::string as_path(const std::string& value) {
  for (const fs::path& root : {recorded_folder(), recorded_folder().parent_path()})
    if (path_exists(root / value)) return (root / value).string();
  return value;
}

std::vector<std::string> flags_of(const Json& about, const fs::path& output) {
  std::vector<std::string> flags{"--task", about["task"].get<std::string>(), "--model_name_or_path",
                                 as_path(about["model"].get<std::string>())};
  for (const Json& flag : about["flags"]) flags.push_back(as_path(flag.get<std::string>()));
  for (const char* usual : {"--max_train_steps", "10", "--train_batch_size", "2", "--learning_rate", "1e-3", "--seed",
                            "5", "--train_sampling_strategy", "sequential", "--logging_steps", "1", "--save_strategy",
                            "no", "--report_to", "none"})
    flags.emplace_back(usual);
  flags.insert(flags.end(), {"--output_dir", output.string()});
  return flags;
}

void begin_adapters_at(Model& model, const SafetensorsFile& start) {
  size_t found = 0;
  for (const auto& parameter : model.parameters())
    for (const auto& [name, view] : start.tensors())
      if (("." + parameter->name).ends_with("." + name)) {
        ASSERT_EQ(parameter->value.shape(), view.shape) << name;
        parameter->value = Tensor::from_bytes(view.bytes, parameter->value.type()).set_requires_grad();
        ++found;
      }
  ASSERT_EQ(found, start.tensors().size());
  ASSERT_EQ(found, model.parameters().size());
}

// The name of a weight in the files of diffusers, which have PEFT's names of the factors of a transformer.
std::string written_name(const std::string& name, const std::string& part, bool of_lora) {
  if (!of_lora) return name;
  std::string written = part + "." + name;
  if (part == "transformer") return written;
  for (const auto& [from, to] :
       {std::pair<std::string, std::string>{".lora_A.", ".lora.down."}, {".lora_B.", ".lora.up."}})
    if (const size_t place = written.find(from); place != written.npos) written.replace(place, from.size(), to);
  return written;
}

void expect_weights_near(const fs::path& file, const SafetensorsFile& expected, double atol, const std::string& part,
                         bool of_lora) {
  const SafetensorsFile found = SafetensorsFile::open(file);
  for (const auto& [name, view] : expected.tensors()) {
    const TensorView* own = found.find(written_name(name, part, of_lora));
    ASSERT_TRUE(own) << name;
    ASSERT_EQ(own->bytes.size(), view.bytes.size()) << name;
    const auto* of_own = reinterpret_cast<const float*>(own->bytes.data());
    const auto* right = reinterpret_cast<const float*>(view.bytes.data());
    for (size_t i = 0; i < view.bytes.size() / sizeof(float); ++i) ASSERT_NEAR(of_own[i], right[i], atol) << name;
  }
}

class RecordedTraining : public testing::TestWithParam<std::string> {};

TEST_P(RecordedTraining, TenUpdatesAreThoseOfTheScript) {
  const Json about = read_json(recorded_folder() / (GetParam() + ".json"));
  const test::TemporaryFolder work;
  const fs::path output = work.path() / "out";
  const test::KeptLog quiet;
  TrainArguments arguments = parse_train_arguments(flags_of(about, output));
  arguments.training.resolve();
  TaskSetup task = prepare_task(arguments);
  const fs::path start = recorded_folder() / (GetParam() + "-start.safetensors");
  const bool of_lora = path_exists(start);
  if (of_lora) begin_adapters_at(*task.model, SafetensorsFile::open(start));
  Trainer trainer(std::move(task.model), task.training);
  configure_trainer(trainer, task);
  std::vector<double> losses;
  trainer.set_step_reports([&](const StepReport& report) { losses.push_back(report.loss); });
  trainer.train();
  const Json &right = about["loss"], &rtol = about["loss_rtol"];
  ASSERT_EQ(losses.size(), right.size());
  for (size_t i = 0; i < losses.size(); ++i) {
    const double loss = right[i];
    EXPECT_NEAR(losses[i], loss, std::abs(loss) * rtol[i].get<double>()) << "update " << i + 1;
  }
  trainer.save_model();
  const bool of_flow = path_exists(fs::path(arguments.script.model_name_or_path) / "transformer");
  const std::string part = path_exists(output / "controlnet") ? "controlnet" : of_flow ? "transformer" : "unet";
  const fs::path learned = output / "learned_embeds.safetensors";
  const fs::path weights = path_exists(learned) ? learned
                           : of_lora            ? output / "pytorch_lora_weights.safetensors"
                                                : output / part / "diffusion_pytorch_model.safetensors";
  expect_weights_near(weights, SafetensorsFile::open(recorded_folder() / (GetParam() + ".safetensors")),
                      about["weights_atol"], part, of_lora);
}

INSTANTIATE_TEST_SUITE_P(Scripts, RecordedTraining, testing::ValuesIn(recorded_runs()), test::NameOfCase());

}  // namespace
}  // namespace transom
