// SPDX-License-Identifier: Apache-2.0
// In compile and graph mode a pass answers the question of its own context, not that of the first one.
#include <gtest/gtest.h>

#include <future>

#include "models/nn/lora.h"
#include "models/nn/weight.h"
#include "runtime/tensor/mode_scope.h"
#include "transom/device.h"
#include "transom/model.h"
#include "transom/ops.h"

namespace transom {
namespace {

class CompiledContexts : public testing::TestWithParam<Mode> {
 protected:
  void SetUp() override {
    set_device("cpu");
    set_mode(GetParam());
  }
  void TearDown() override { set_mode(Mode::kLazy); }

  static std::unique_ptr<Model> gpt2() {
    return Model::from_config(R"({"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "vocab_size": 11,
      "n_positions": 16, "n_embd": 8, "n_layer": 1, "n_head": 2})");
  }
  static NamedTensors rows() {
    const std::vector<int64_t> ids{1, 2, 3, 4, 5, 6, 7, 8};
    return {{"input_ids", Tensor::from(ids, {2, 4})}, {"labels", Tensor::from(ids, {2, 4})}};
  }
  // What the model gives without being compiled.
  static NamedTensors plainly(const Model& model, const NamedTensors& inputs, const ForwardContext& context) {
    set_mode(Mode::kLazy);
    NamedTensors outputs = model.forward(inputs, context);
    for (const auto& [name, tensor] : outputs.items()) eval({tensor});
    set_mode(GetParam());
    return outputs;
  }
  static void expect_equal(const NamedTensors& got, const NamedTensors& expected) {
    ASSERT_EQ(got.items().size(), expected.items().size());
    for (const auto& [name, tensor] : expected.items()) EXPECT_EQ(got.at(name).to_bytes(), tensor.to_bytes()) << name;
  }
};

TEST_P(CompiledContexts, TensorsOfTheContextAreArguments) {
  const auto model = gpt2();
  const NoGradient no_gradient;
  for (const float items : {6.F, 1.F, 3.F}) {
    const ForwardContext context{.num_items_in_batch = Tensor::from(std::vector<float>{items}, {})};
    expect_equal(model->forward(rows(), context), plainly(*model, rows(), context));
  }
  expect_equal(model->forward(rows()), plainly(*model, rows(), {}));
}

TEST_P(CompiledContexts, FlagsOfTheContextMakeAnotherPass) {
  const auto model = gpt2();
  const NoGradient no_gradient;
  const NamedTensors inputs{{"input_ids", rows().at("input_ids")}};
  for (int round = 0; round < 2; ++round)
    for (const ForwardContext& context : {ForwardContext{}, ForwardContext{.output_hidden_states = true},
                                          ForwardContext{.logits_to_keep = 1}, ForwardContext{.logits_to_keep = 2}})
      expect_equal(model->forward(inputs, context), plainly(*model, inputs, context));
  EXPECT_EQ(model->forward(inputs, {.logits_to_keep = 1}).at("logits").dim(1), 1);
}

// A model that tells how often it was traced.
class TracedModel : public Model {
 public:
  int traces() const { return traces_; }

 protected:
  NamedTensors run(const NamedTensors& inputs, ForwardContext&) const override {
    ++traces_;
    const Tensor& x = inputs.at("x");
    return {{"y", dot_general(x, x, {{}, {}, {1}, {0}})}};
  }
  std::vector<std::string> input_names() const override { return {"x"}; }

 private:
  mutable int traces_ = 0;
};

// Products that were traced where TF32 is allowed carry that as an attribute.
TEST_P(CompiledContexts, APassUnderTf32IsAnother) {
  const TracedModel model;
  const NoGradient no_gradient;
  const NamedTensors inputs{{"x", Tensor::from(std::vector<float>{1, 2, 3, 4}, {2, 2})}};
  for (int round = 0; round < 2; ++round) {
    model.forward(inputs);
    model.forward(inputs, {.computing = {.tf32 = true}});
  }
  EXPECT_EQ(model.traces(), 2);
}

// A model of one linear layer.
class OneLayer : public Model {
 public:
  const Parameter& weight() const { return *weight_; }

 protected:
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    return {{"y", linear(inputs.at("x"), *weight_, {}, context)}};
  }
  std::vector<std::string> input_names() const override { return {"x"}; }

 private:
  std::shared_ptr<Parameter> weight_ = std::make_shared<Parameter>(
      Parameter{"weight", Tensor::from(std::vector<float>{1, 2, 3, 4}, {2, 2}), false, Parameter::Use::kLinear});
};

// Two askers of one model, at once, each with adapters of its own, and one with none.
TEST_P(CompiledContexts, APassUnderAdaptersIsForItsAskerAlone) {
  const OneLayer model;
  const auto adapter_with = [](float value) {
    const auto parameter = [&](const char* name, Shape shape) {
      return std::make_shared<Parameter>(Parameter{name, Tensor::from(std::vector<float>{value, value}, shape)});
    };
    const auto adapter = std::make_shared<LowRankAdapter>();
    adapter->a = parameter("a", {1, 2});
    adapter->b = parameter("b", {2, 1});
    return adapter;
  };
  const std::vector<AdapterSet> sets{{}, {{&model.weight(), adapter_with(1)}}, {{&model.weight(), adapter_with(2)}}};
  const std::vector<std::vector<float>> expected{{3, 7}, {5, 9}, {11, 15}};
  const auto ask = [&](size_t set) {
    const ModeScope mode_of_asker(GetParam());
    const NoGradient no_gradient;
    const NamedTensors inputs{{"x", Tensor::from(std::vector<float>{1, 1}, {1, 2})}};
    EXPECT_EQ(model.forward(inputs).at("y").to_vector<float>(), expected[0]);
    for (int round = 0; round < 8; ++round)
      EXPECT_EQ(model.forward(inputs, {.computing = {.adapters = &sets[set]}}).at("y").to_vector<float>(),
                expected[set]);
  };
  std::vector<std::future<void>> askers;
  for (size_t set = 0; set < sets.size(); ++set) askers.push_back(std::async(std::launch::async, ask, set));
  for (std::future<void>& asker : askers) asker.get();
}

INSTANTIATE_TEST_SUITE_P(Modes, CompiledContexts, testing::Values(Mode::kCompile, Mode::kGraph),
                         [](const auto& mode) { return mode.param == Mode::kCompile ? "compile" : "graph"; });

}  // namespace
}  // namespace transom
