// SPDX-License-Identifier: Apache-2.0
// Training on a device that works in the background ("distant", tests/runtime/device): the host does not wait for it
// between logs, and the numbers, and the end of a run that is not finite, are those of the host's device.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>

#include "base/json/json.h"
#include "runtime/device/device.h"
#include "runtime/tensor/mode_scope.h"
#include "support/folders.h"
#include "support/message.h"
#include "support/temporary_folder.h"
#include "transom/device.h"
#include "transom/trainer.h"
#include "work/train/log/loss_log.h"
#include "work/train/step/train_step.h"

namespace transom {
namespace {

constexpr const char* kResNet =
    R"({"model_type": "resnet", "architectures": ["ResNetForImageClassification"], "embedding_size": 8,
    "hidden_sizes": [8], "depths": [1], "layer_type": "basic"})";
constexpr const char* kGpt2 = R"({"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "vocab_size": 11,
    "n_positions": 16, "n_embd": 8, "n_layer": 1, "n_head": 2, "resid_pdrop": 0, "embd_pdrop": 0, "attn_pdrop": 0})";

class BackgroundDevice : public testing::Test {
 protected:
  void SetUp() override { setenv("TRANSOM_PLUGIN_PATH", (test::build_folder() + "/partial_plugins").c_str(), 1); }
  void TearDown() override { set_device("cpu"); }

  // How often the host has waited for the device.
  static int64_t waits() {
    const auto device = default_device();
    const Json report = parse_json(device->table().device_report(device->handle()), "the report");
    return report.at("reads").get<int64_t>() + report.at("synchronizations").get<int64_t>();
  }
  static NamedTensors tokens(int64_t first) {
    std::vector<int64_t> ids(16), labels(16);
    for (int64_t i = 0; i < 16; ++i) {
      ids[static_cast<size_t>(i)] = (first + i * i) % 11;
      labels[static_cast<size_t>(i)] = i % 5 == first % 5 ? -100 : ids[static_cast<size_t>(i)];
    }
    return {{"input_ids", Tensor::from(ids, {2, 8})}, {"labels", Tensor::from(labels, {2, 8})}};
  }
  TrainingArguments arguments() {
    TrainingArguments arguments;
    arguments.output_dir = folder_.path().string();
    arguments.per_device_train_batch_size = 2;
    arguments.lr_scheduler_type = "constant";
    arguments.learning_rate = 1e-2;
    arguments.save_strategy = "no";
    arguments.logging_steps = 5;
    arguments.max_steps = 7;
    arguments.resolve();
    return arguments;
  }
  // Images of which one batch is not finite.
  static TrainingData images(int64_t broken) {
    TrainingData data;
    data.rows = 14;
    data.batch = [broken, calls = std::make_shared<int64_t>(0)](const std::vector<int64_t>& rows) {
      ++*calls;
      Batch batch;
      FloatRows& pixels = batch.arrays["pixel_values"];
      pixels.shape = {static_cast<int64_t>(rows.size()), 3, 8, 8};
      for (const int64_t row : rows) {
        for (int64_t i = 0; i < 3 * 8 * 8; ++i)
          pixels.values.push_back(*calls == broken ? NAN : 0.25F * static_cast<float>((row + i) % 11));
        batch.labels.push_back(row % 2);
      }
      return batch;
    };
    return data;
  }
  static std::vector<std::vector<std::byte>> state_of(Trainer& trainer) {
    std::vector<std::vector<std::byte>> all;
    for (const auto& parameter : trainer.model().parameters()) all.push_back(parameter->value.to_bytes());
    for (const auto& buffer : trainer.model().buffers()) all.push_back(buffer->value.to_bytes());
    return all;
  }
  test::TemporaryFolder folder_;
};

// Also where the loss is divided by a count of labels, over micro-batches or not.
TEST_F(BackgroundDevice, IsNotWaitedForBetweenUpdates) {
  for (const size_t parts : {1u, 2u}) {
    const auto losses = [&](const char* device) {
      set_device(device);
      const auto model = Model::from_config(kGpt2);
      TrainStep step(*model, arguments());
      step.refuse_updates_that_are_not_finite(true);
      std::vector<TrainStep::Result> results;
      int64_t before = 0;
      for (int64_t i = 0; i < 6; ++i) {
        if (i == 2 && device == std::string("distant")) before = waits();  // by now all is compiled
        results.push_back(step(parts == 1 ? std::vector{tokens(i)} : std::vector{tokens(i), tokens(i + 1)}, 1e-2, i));
      }
      if (device == std::string("distant")) {
        EXPECT_EQ(waits(), before) << parts;
      }
      std::vector<float> numbers;
      for (const TrainStep::Result& result : results) {
        numbers.push_back(result.loss.item<float>());
        numbers.push_back(result.gradient_norm.item<float>());
      }
      return numbers;
    };
    EXPECT_EQ(losses("distant"), losses("cpu")) << parts;
  }
}

// The results of replays lie in the same memory each time: the log copies them on the device.
TEST_F(BackgroundDevice, IsNotWaitedForBetweenReplays) {
  const auto total = [&](const char* device) {
    set_device(device);
    const ModeScope graph(Mode::kGraph);
    const auto model = Model::from_config(kGpt2);
    TrainStep step(*model, arguments());
    step.refuse_updates_that_are_not_finite(true);
    LossLog log;
    log.begin(0, {}, {});
    int64_t before = 0;
    for (int64_t i = 0; i < 8; ++i) {
      if (i == 3 && device == std::string("distant")) before = waits();  // by now all is captured
      log.add(step({tokens(i)}, 1e-2, i), i + 1, 1e-2);
    }
    if (device == std::string("distant")) {
      EXPECT_EQ(waits(), before);
    }
    EXPECT_EQ(log.waiting(), device == std::string("distant") ? 8u : 0u);
    log.read();
    return std::pair(log.total(), log.last_norm());
  };
  EXPECT_EQ(total("distant"), total("cpu"));
}

TEST_F(BackgroundDevice, EndsARunThatIsNotFiniteAsTheHostsDoes) {
  for (const char* device : {"cpu", "distant"}) {
    set_device(device);
    TrainingArguments two = arguments();
    two.max_steps = 2;
    Trainer expected(Model::from_config(kResNet), two), broken(Model::from_config(kResNet), arguments());
    expected.set_train_data(images(-1));
    expected.train();
    broken.set_train_data(images(3));
    const std::string message = test::message_of([&] { broken.train(); });
    EXPECT_NE(message.find("the gradient norm nan at step 3"), std::string::npos) << message;
    EXPECT_NE(message.find("the weights are those of before it"), std::string::npos) << message;
    EXPECT_EQ(broken.state().global_step, 2) << device;
    EXPECT_TRUE(state_of(broken) == state_of(expected)) << device;
  }
}

}  // namespace
}  // namespace transom
