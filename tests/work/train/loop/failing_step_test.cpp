// SPDX-License-Identifier: Apache-2.0
// A step that fails leaves the weights, the optimizer's state and the number of steps as they were, and the next one
// goes on as if it had never been.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cmath>
#include <fstream>
#include <unordered_map>

#include "runtime/programs/compilation.h"
#include "runtime/tensor/evaluate.h"
#include "support/message.h"
#include "transom/device.h"
#include "transom/error.h"
#include "work/train/step/train_step.h"

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

  static constexpr const char* kBert =
      R"({"model_type": "bert", "architectures": ["BertForSequenceClassification"], "vocab_size": 50,
      "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32,
      "max_position_embeddings": 16})";
  static constexpr const char* kResNet =
      R"({"model_type": "resnet", "architectures": ["ResNetForImageClassification"], "embedding_size": 8,
      "hidden_sizes": [8], "depths": [1], "layer_type": "basic"})";

  // The program of the step itself, not what is made of constants beside it; null where nothing was compiled.
  static std::shared_ptr<const Compilation> largest(const std::vector<std::shared_ptr<const Compilation>>& all) {
    std::shared_ptr<const Compilation> found;
    for (const auto& each : all)
      if (!found || each->graph.nodes.size() > found->graph.nodes.size()) found = each;
    return found;
  }

  struct Run {
    explicit Run(const TrainingArguments& arguments, const char* config = kBert)
        : model(Model::from_config(config)), step(*model, arguments) {}
    std::unique_ptr<Model> model;
    TrainStep step;

    std::vector<std::vector<std::byte>> state() {
      std::vector<std::vector<std::byte>> all;
      for (const auto& parameter : model->parameters()) all.push_back(parameter->value.to_bytes());
      for (const auto& buffer : model->buffers()) all.push_back(buffer->value.to_bytes());
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
  static NamedTensors images(float first, int64_t label = 1) {
    std::vector<float> pixels(4 * 3 * 8 * 8);
    for (size_t i = 0; i < pixels.size(); ++i) pixels[i] = first + 0.25F * static_cast<float>(i % 11);
    return {{"pixel_values", Tensor::from(pixels, {4, 3, 8, 8})},
            {"labels", Tensor::from(std::vector<int64_t>{0, 1, 0, label}, {4})}};
  }
  // Three steps, with one that fails before each but the first.
  void expect_nothing_changed(const std::vector<NamedTensors>& failing, size_t memory, const char* config = kBert) {
    Run unbroken(arguments(), config), broken(arguments(), config);
    for (int64_t i = 0; i < 3; ++i) {
      const NamedTensors good = config == kBert ? rows(3, i + 1) : images(static_cast<float>(i));
      for (Run* run : {&unbroken, &broken}) run->step({good}, 1e-2, i);
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

// The loss names the row before anything is computed.
TEST_P(FailingStep, OfALabelThatIsNoClassIsNotApplied) {
  NamedTensors wrong = rows(3, 4);
  wrong.set("labels", Tensor::from(std::vector<int64_t>{0, 1, 1000}, {3}));
  Run run(arguments());
  run.step.refuse_updates_that_are_not_finite(false);
  run.step({rows(3, 1)}, 1e-2, 0);
  const auto before = run.state();
  EXPECT_EQ(test::message_of([&] { run.step({wrong}, 1e-2, 1); }),
            "labels: row 2: 1000 is no class: expected numbers in [0, 2), or -100 for what is not counted");
  EXPECT_TRUE(run.state() == before);
}

TEST_P(FailingStep, InItsSecondMicroBatchChangesNothing) { expect_nothing_changed({rows(3, 4), rows(3, 1000)}, 0); }

// The running statistics of the batch norms are known long before the loss.
TEST_P(FailingStep, WritesNothingBeforeTheLossAndTheNormAreKnown) {
  for (const double max_grad_norm : {1.0, 0.0}) {
    TrainingArguments asked = arguments();
    asked.max_grad_norm = max_grad_norm;
    Run run(asked, kResNet);
    for (int64_t i = 0; i < 2; ++i) {
      const RecordCompilations recorded;
      const TrainStep::Result result = run.step({images(static_cast<float>(i + 3), i)}, 1e-2, i);
      const std::shared_ptr<const Compilation> step = largest(recorded.compilations());
      if (!step || step->graph.outputs.size() < run.model->parameters().size()) continue;  // compiled before
      std::unordered_map<const Node*, size_t> place;
      for (size_t n = 0; n < step->graph.nodes.size(); ++n) place[step->graph.nodes[n].get()] = n;
      size_t known = 0, first_write = SIZE_MAX, updates = 0;
      for (size_t o = 0; o < step->graph.outputs.size(); ++o) {
        const Tensor& output = step->graph.outputs[o];
        const size_t made = place.at(output.node().get());
        if (output.rank() == 0 && output.dtype() == DType::kFloat32) known = std::max(known, made);
        if (step->plan.donor[o] < 0 || output.rank() == 0)
          continue;  // scalars of the step may be given away at any time
        first_write = std::min(first_write, made);
        ++updates;
      }
      EXPECT_GT(first_write, known);
      EXPECT_GE(updates, run.model->parameters().size());
    }
  }
}

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

class NonFiniteStep : public FailingStep {
 protected:
  // Three steps with and without refusals, and between them, where they are refused, a NaN step with finite ones behind
  // it, which are refused until the host knows.
  void expect_refused(const TrainingArguments& arguments, const std::vector<NamedTensors>& broken_rows) {
    Run plain(arguments, kResNet), careful(arguments, kResNet);
    careful.step.refuse_updates_that_are_not_finite(false);
    for (int64_t i = 0; i < 3; ++i) {
      const std::vector<NamedTensors> good{images(static_cast<float>(i)), images(static_cast<float>(i) + 0.5F)};
      for (Run* run : {&plain, &careful}) {
        const TrainStep::Result result = run->step(good, 1e-2, i);
        EXPECT_FALSE(careful.step.refuses(result.loss.item<float>(), result.gradient_norm.item<float>()));
      }
      const auto expected = plain.state();
      EXPECT_EQ(careful.state(), expected) << i;
      const TrainStep::Result result = careful.step(broken_rows, 1e-2, i + 1);
      EXPECT_TRUE(careful.step.refuses(result.loss.item<float>(), result.gradient_norm.item<float>()));
      for (int64_t k = 0; k < i; ++k) careful.step(good, 1e-2, i + k + 2);
      EXPECT_EQ(careful.state(), expected) << i;
      careful.step.take_back(i + 1);
      EXPECT_EQ(careful.state(), expected) << i;
      EXPECT_EQ(careful.step.optimizer().steps(), i + 1);
    }
  }
};

TEST_P(NonFiniteStep, ChangesNothingWithAnyOptimizer) {
  for (const char* name : {"adamw_torch", "sgd", "adafactor", "adagrad", "lion_32bit"}) {
    TrainingArguments asked = arguments();
    asked.optim = name;
    expect_refused(asked, {images(std::nanf(""))});
    expect_refused(asked, {images(1), images(std::nanf(""))});
  }
}

TEST_P(NonFiniteStep, ChangesNothingWithoutClipping) {
  TrainingArguments asked = arguments();
  asked.max_grad_norm = 0;
  expect_refused(asked, {images(INFINITY)});
}

// Else a replayed step would find it held, and be run in new memory each time.
TEST_P(NonFiniteStep, HandsItsFlagOnInPlace) {
  const RecordCompilations recorded;
  Run run(arguments());
  run.step.refuse_updates_that_are_not_finite(true);
  for (int64_t i = 0; i < 3; ++i) run.step({rows(5, 1 + i)}, 1e-2, i);
  const std::shared_ptr<const Compilation> step = largest(recorded.compilations());
  if (!step) return;  // compiled before
  for (size_t o = 0; o < step->graph.outputs.size(); ++o)
    if (step->graph.outputs[o].dtype() == DType::kBool) {
      EXPECT_GE(step->plan.donor[o], 0) << o;
    }
}

TEST_P(NonFiniteStep, IsAppliedWhereNobodyRefusesIt) {
  Run run(arguments(), kResNet);
  run.step({images(std::nanf(""))}, 1e-2, 0);
  EXPECT_FALSE(run.step.refuses(NAN, NAN));
  EXPECT_EQ(run.step.optimizer().steps(), 1);
  EXPECT_TRUE(std::isnan(run.model->parameters()[0]->value.to_vector<float>()[0]));
}

constexpr auto kModeName = [](const auto& mode) { return mode.param == Mode::kLazy ? "lazy" : "graph"; };
INSTANTIATE_TEST_SUITE_P(Modes, NonFiniteStep, testing::Values(Mode::kLazy, Mode::kGraph), kModeName);

INSTANTIATE_TEST_SUITE_P(Modes, FailingStep, testing::Values(Mode::kLazy, Mode::kGraph), kModeName);

}  // namespace
}  // namespace transom
