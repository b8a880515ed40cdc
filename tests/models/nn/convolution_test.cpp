// SPDX-License-Identifier: Apache-2.0
#include "models/nn/vision/convolution.h"

#include <gtest/gtest.h>

#include "transom/error.h"
#include "transom/gradients.h"
#include "transom/scope.h"

namespace transom {
namespace {

Tensor image_of(std::vector<float> values, Shape shape) { return Tensor::from(values, std::move(shape)); }

// Gives each parameter the values that the test sets, else the initial constant.
class Source : public ParameterSource {
 public:
  std::shared_ptr<Parameter> parameter(const std::string& name, const Shape& shape, const Initial& initial) override {
    auto made = buffer(name, {DType::kFloat32, shape}, initial);
    made->value.set_requires_grad();
    return made;
  }
  std::shared_ptr<Parameter> buffer(const std::string& name, const Type& type, const Initial& initial) override {
    const float value = initial.kind == Initial::Kind::kOnes ? 1 : 0;
    const std::vector<float> values(static_cast<size_t>(elements(type.shape)), value);
    const Tensor tensor = cast(Tensor::from(values, type.shape), type.dtype);
    eval({tensor});
    tensors.push_back(std::make_shared<Parameter>(Parameter{name, tensor}));
    return tensors.back();
  }
  void tied(const std::string&, const std::shared_ptr<Parameter>&, Tie) override {}
  void derived(const std::string&) override {}
  bool holds(const std::string&) const override { return false; }
  std::shared_ptr<Parameter> find(const std::string& name) const {
    for (const auto& tensor : tensors)
      if (tensor->name == name) return tensor;
    return nullptr;
  }
  std::vector<std::shared_ptr<Parameter>> tensors;
};

void expect_near(const Tensor& got, const std::vector<float>& expected, float tolerance = 1e-5f) {
  const auto values = got.to_vector<float>();
  ASSERT_EQ(values.size(), expected.size());
  for (size_t i = 0; i < values.size(); ++i) EXPECT_NEAR(values[i], expected[i], tolerance) << "at " << i;
}

TEST(BatchNorm, UsesRunningStatisticsOutsideOfTraining) {
  Source source;
  const BatchNorm norm(Scope(source, "bn"), 1, 0.0, 0.1);
  source.find("bn.running_mean")->value = image_of({3}, {1});
  source.find("bn.running_var")->value = image_of({4}, {1});
  source.find("bn.bias")->value = image_of({1}, {1});
  ForwardContext context;
  expect_near(norm(image_of({3, 7}, {2, 1, 1, 1}), context), {1, 3});
}

// The batch 1, 3: mean 2, variance 1, without bias 2.
TEST(BatchNorm, TrainsOnTheBatchAndGivesNewRunningStatistics) {
  Source source;
  const BatchNorm norm(Scope(source, "bn"), 1, 0.0, 0.1);
  std::vector<BufferUpdate> updates;
  ForwardContext context{.training = true, .buffer_updates = &updates};
  expect_near(norm(image_of({1, 3}, {2, 1, 1, 1}), context), {-1, 1});
  ASSERT_EQ(updates.size(), 3u);
  EXPECT_EQ(updates[0].buffer->name, "bn.running_mean");
  expect_near(updates[0].value, {0.2f});
  EXPECT_EQ(updates[1].buffer->name, "bn.running_var");
  expect_near(updates[1].value, {0.9f + 0.2f});
  EXPECT_EQ(updates[2].value.item<int64_t>(), 1);
  EXPECT_EQ(source.find("bn.running_mean")->value.item<float>(), 0) << "the pass itself changes nothing";
}

TEST(BatchNorm, RefusesOneValueAChannelInTraining) {
  Source source;
  const BatchNorm norm(Scope(source, "bn"), 1);
  ForwardContext context{.training = true};
  EXPECT_THROW(norm(image_of({1}, {1, 1, 1, 1}), context), Error);
}

// Of equal values the first takes the gradient, in both modes: ReLU leaves many zeros.
TEST(MaxPool, TheFirstOfEqualValuesTakesTheGradient) {
  for (const Mode how : {Mode::kLazy, Mode::kEager}) {
    set_mode(how);
    Tensor x = image_of({0, 0, 5, 0, 0, 5, 0, 0, 0}, {1, 1, 3, 3});
    x.set_requires_grad();
    const Tensor y = max_pool(x, {.window = {2, 2}, .strides = {1, 1}});
    const Tensor loss = sum(y * image_of({1, 2, 4, 8}, {1, 1, 2, 2}));
    const std::vector<Tensor> gradient = gradients(loss, {x});
    set_mode(Mode::kLazy);
    expect_near(y, {0, 5, 0, 5});
    expect_near(gradient[0], {1, 0, 2, 4, 0, 8, 0, 0, 0});
  }
}

TEST(AveragePool, PaddingDoesNotCount) {
  const Tensor x = image_of({1, 2, 3, 4, 5, 6, 7, 8, 9}, {1, 1, 3, 3});
  expect_near(average_pool(x, {.window = {2, 2}, .high = {1, 1}}), {3, 4.5f, 7.5f, 9});
}

// torch.nn.functional.interpolate(mode="bicubic") of 1, 2, 4 to four.
TEST(ResizeBicubic, FollowsPyTorch) {
  expect_near(resize_bicubic(image_of({1, 2, 4}, {1, 3, 1}), 1, 4, {}), {0.9282227f, 1.419922f, 2.830566f, 4.143555f},
              1e-5f);
  expect_near(resize_bicubic(image_of({1, 2, 4}, {3, 1, 1}), 2, 1, {}), {1.15625f, 3.582031f}, 1e-5f);
}

TEST(Convolution, SamePaddingKeepsTheSize) {
  Source source;
  const Convolution odd(Scope(source, "a"), 1, 1, {3, 3}, Convolution::same(3));
  const Convolution even(Scope(source, "b"), 1, 1, {2, 2}, Convolution::same(2));
  const Tensor x = image_of(std::vector<float>(20, 1), {1, 1, 4, 5});
  const ForwardContext context;
  EXPECT_EQ(odd(x, context).shape(), x.shape());
  EXPECT_EQ(even(x, context).shape(), x.shape());
  EXPECT_THROW(Convolution(Scope(source, "c"), 3, 4, {1, 1}, {.groups = 2}), Error);
}

}  // namespace
}  // namespace transom
