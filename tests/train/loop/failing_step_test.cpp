// SPDX-License-Identifier: Apache-2.0
// A step that fails leaves the weights, the optimizer's state and the number of steps as they were, and the next one
// goes on as if it had never been.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <fstream>

#include "support/message.h"
#include "tensor/evaluate.h"
#include "train/loop/train_step.h"
#include "transom/device.h"
#include "transom/error.h"

namespace transom {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kLimitsMemory = false;  // sanitizers reserve most of the address space
#else
constexpr bool kLimitsMemory = true;
#endif

// No more address space than now and `more` bytes.
class AddressSpace {
 public:
  explicit AddressSpace(size_t more) {
    getrlimit(RLIMIT_AS, &before_);
    std::ifstream file("/proc/self/statm");
    size_t pages = 0;
    file >> pages;
    const rlimit limit{pages * 4096 + more, before_.rlim_max};
    setrlimit(RLIMIT_AS, &limit);
  }
  ~AddressSpace() { setrlimit(RLIMIT_AS, &before_); }

 private:
  rlimit before_{};
};

class FailingStep : public testing::TestWithParam<Mode> {
 protected:
  void SetUp() override {
    set_device("cpu");
    set_mode(GetParam());
  }
  void TearDown() override { set_mode(Mode::kLazy); }

  struct Run {
    explicit Run(const TrainingArguments& arguments)
        : model(Model::from_config(
              R"({"model_type": "bert", "architectures": ["BertForSequenceClassification"], "vocab_size": 50,
              "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32,
              "max_position_embeddings": 16})")),
          step(*model, arguments) {}
    std::unique_ptr<Model> model;
    TrainStep step;

    std::vector<std::vector<std::byte>> state() {
      std::vector<std::vector<std::byte>> all;
      for (const auto& parameter : model->parameters()) all.push_back(parameter->value.to_bytes());
      for (const auto& [name, tensor] : step.optimizer().state()) all.push_back(tensor.to_bytes());
      return all;
    }
  };
  static TrainingArguments arguments() {
    TrainingArguments arguments;
    arguments.output_dir = "unused";
    arguments.resolve();
    return arguments;
  }
  static NamedTensors rows(int64_t count, int64_t id) {
    std::vector<int64_t> ids(static_cast<size_t>(count * 8), id), labels(static_cast<size_t>(count), 1);
    return {{"input_ids", Tensor::from(ids, {count, 8})}, {"labels", Tensor::from(labels, {count})}};
  }
  // Three steps, with one that fails before each but the first.
  void expect_nothing_changed(const std::vector<NamedTensors>& failing, size_t memory) {
    Run unbroken(arguments()), broken(arguments());
    for (int64_t i = 0; i < 3; ++i) {
      for (Run* run : {&unbroken, &broken}) run->step({rows(3, i + 1)}, 1e-2, i);
      const auto expected = unbroken.state();
      EXPECT_EQ(broken.state(), expected) << i;
      {
        std::optional<AddressSpace> space;
        if (memory) space.emplace(memory);
        EXPECT_THROW(broken.step(failing, 1e-2, i + 1), Error);
      }
      EXPECT_EQ(broken.state(), expected) << i;
      EXPECT_EQ(broken.step.optimizer().steps(), i + 1);
    }
  }
};

TEST_P(FailingStep, OfAnUnknownTokenChangesNothing) { expect_nothing_changed({rows(3, 1000)}, 0); }

TEST_P(FailingStep, InItsSecondMicroBatchChangesNothing) { expect_nothing_changed({rows(3, 4), rows(3, 1000)}, 0); }

TEST_P(FailingStep, ForWantOfMemoryChangesNothing) {
  if (!kLimitsMemory) GTEST_SKIP() << "a sanitizer needs the address space";
  expect_nothing_changed({rows(30'000, 1)}, size_t{96} << 20);
}

TEST_P(FailingStep, ThatIsTheFirstChangesNothing) {
  Run unbroken(arguments()), broken(arguments());
  EXPECT_THROW(broken.step({rows(3, 1000)}, 1e-2, 0), Error);
  EXPECT_EQ(broken.step.optimizer().steps(), 0);
  for (Run* run : {&unbroken, &broken}) run->step({rows(3, 1)}, 1e-2, 0);
  EXPECT_EQ(broken.state(), unbroken.state());
}

// What is held for a failure does not keep a step from updating in place.
TEST_P(FailingStep, ThatDoesNotHappenCostsNoMemory) {
  Run run(arguments());
  run.step({rows(3, 1)}, 1e-2, 0);
  std::vector<std::shared_ptr<Buffer>> before;
  for (const auto& parameter : run.model->parameters()) before.push_back(buffer_of(parameter->value));
  const std::vector<const Buffer*> places = [&] {
    std::vector<const Buffer*> result;
    for (const auto& buffer : std::exchange(before, {})) result.push_back(buffer.get());
    return result;
  }();
  run.step({rows(3, 2)}, 1e-2, 1);
  for (size_t i = 0; i < places.size(); ++i)
    EXPECT_EQ(buffer_of(run.model->parameters()[i]->value).get(), places[i]) << run.model->parameters()[i]->name;
}

INSTANTIATE_TEST_SUITE_P(Modes, FailingStep, testing::Values(Mode::kLazy, Mode::kGraph),
                         [](const auto& mode) { return mode.param == Mode::kLazy ? "lazy" : "graph"; });

}  // namespace
}  // namespace transom
