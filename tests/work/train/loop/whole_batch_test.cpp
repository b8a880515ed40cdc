// SPDX-License-Identifier: Apache-2.0
// The loss and the gradients of a batch that is cut into parts are those of the whole: every class with a golden case.
#include "work/train/step/whole_batch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <set>

#include "base/json/json.h"
#include "support/golden_cases.h"
#include "transom/gradients.h"
#include "transom/ops.h"
#include "work/train/loop/model_inputs.h"

namespace transom {
namespace {

// Rows [begin, end) of what has a row for each of the batch.
NamedTensors rows_of(const NamedTensors& batch, int64_t rows, int64_t begin, int64_t end) {
  NamedTensors part;
  for (const auto& [name, tensor] : batch.items())
    part.set(name, tensor.rank() > 0 && tensor.dim(0) == rows ? slice(tensor, 0, begin, end) : tensor);
  for (const auto& [name, tensor] : part.items()) eval({tensor});
  return part;
}

// As the batch, with fewer labels in its last row, so that parts have means over different numbers of tokens.
NamedTensors with_uneven_labels(const NamedTensors& batch, int64_t rows) {
  NamedTensors result;
  for (const auto& [name, tensor] : batch.items()) {
    if (name != "labels" || tensor.dtype() != DType::kInt64 || tensor.rank() != 2 || tensor.dim(1) < 4) {
      result.set(name, tensor);
      continue;
    }
    std::vector<int64_t> labels = tensor.to_vector<int64_t>();
    const auto length = static_cast<size_t>(tensor.dim(1));
    for (size_t i = 0; i < length / 2; ++i) labels[(static_cast<size_t>(rows) - 1) * length + i] = -100;
    result.set(name, Tensor::from(labels, tensor.shape()));
  }
  return result;
}

struct LossAndGradients {
  double loss = 0;
  std::vector<std::vector<double>> gradients;
};

LossAndGradients computed(const Model& model, const std::vector<NamedTensors>& parts) {
  const WholeBatch whole =
      whole_batch_of({.micro_batches = parts,
                      .group = nullptr,
                      .count_items = [](const NamedTensors&) { return Tensor(); },
                      .trace = [&](const NamedTensors& part,
                                   LossDivisors& divisors) { model.forward(part, {.loss_divisors = &divisors}); }});
  std::vector<Tensor> values;
  for (const auto& parameter : model.parameters()) values.push_back(parameter->value);
  LossAndGradients total;
  for (const NamedTensors& part : parts) {
    ForwardContext context;
    LossDivisors divisors;
    whole.prepare(context, divisors);
    const Tensor loss = model.forward(part, context).at("loss") * whole.scale;
    const std::vector<Tensor> found = gradients(loss, values);
    std::vector<Tensor> all{loss};  // by one program
    std::copy_if(found.begin(), found.end(), std::back_inserter(all),
                 [](const Tensor& each) { return each.defined(); });
    eval(all);
    total.loss += loss.item<double>();
    total.gradients.resize(found.size());
    for (size_t k = 0; k < found.size(); ++k) {
      if (!found[k].defined()) continue;
      const auto numbers = found[k].to_vector<double>();
      total.gradients[k].resize(numbers.size());
      for (size_t i = 0; i < numbers.size(); ++i) total.gradients[k][i] += numbers[i];
    }
  }
  return total;
}

class WholeBatchOfGoldenCase : public testing::TestWithParam<std::string> {};

TEST_P(WholeBatchOfGoldenCase, HasTheLossAndTheGradientsOfItsParts) {
  const std::filesystem::path folder = test::folder_of_case(GetParam());
  const auto model = Model::from_pretrained((folder / "model").string());
  const NamedTensors inputs = load_inputs(folder / "inputs.safetensors");
  const Tensor first = inputs.items().front().second;
  const int64_t rows = first.rank() > 0 ? first.dim(0) : 0;
  if (rows < 2) GTEST_SKIP() << "one row";
  if (inputs.find("image_grid_thw").defined()) GTEST_SKIP() << "the patches of all pictures are one list";
  if (const Tensor pixels = inputs.find("pixel_values"); pixels.defined() && pixels.dim(0) != rows)
    GTEST_SKIP() << "pictures are not as many as rows, and are not cut with them";
  const NamedTensors batch = with_uneven_labels(inputs, rows);
  const LossAndGradients whole = computed(*model, {batch});
  const LossAndGradients cut =
      computed(*model, {rows_of(batch, rows, 0, rows - 1), rows_of(batch, rows, rows - 1, rows)});
  // Sums in another order: a few units of f32 of the largest terms.
  EXPECT_NEAR(cut.loss, whole.loss, 2e-6 * std::max(1.0, std::abs(whole.loss)));
  double largest = 0;
  for (const auto& gradient : whole.gradients)
    for (const double number : gradient) largest = std::max(largest, std::abs(number));
  for (size_t k = 0; k < whole.gradients.size(); ++k)
    for (size_t i = 0; i < whole.gradients[k].size(); ++i)
      ASSERT_NEAR(cut.gradients[k][i], whole.gradients[k][i], 2e-5 * largest)
          << model->parameters()[k]->name << " at " << i;
}

// Main cases (which say what is special about them) that have a loss, and one that is a sum over rows, not contrasts
// between the rows of a batch or the balance of its experts, and whose inputs have a row for each: not DLRM's bags, of
// which tests/work/train/tasks/click_prediction_test.cpp has its own.
std::vector<std::string> cases_of_rows() {
  std::vector<std::string> names;
  std::set<std::string> classes;  // one case of each
  for (const std::string& name : test::golden_cases_with("grads.safetensors")) {
    const Json about = read_json(test::folder_of_case(name) / "case.json");
    if (!about["special"].get<std::string>().empty() && !about["forward_kwargs"].value("return_loss", false) &&
        about["tolerance"].contains("loss") && !about["tolerance"].contains("aux_loss") &&
        test::bare_name(name) != "dlrm" && classes.insert(about["class"].get<std::string>()).second)
      names.push_back(name);
  }
  return names;
}

INSTANTIATE_TEST_SUITE_P(Cases, WholeBatchOfGoldenCase, testing::ValuesIn(cases_of_rows()), test::NameOfCase());

TEST(LossDivisors, ALossOfOtherTermsThanTheWholeIsRefused) {
  LossDivisors divisors({Tensor::from(std::vector<float>{4}, {})});
  const Tensor own = Tensor::from(std::vector<float>{2}, {});
  EXPECT_EQ(divisors.divisor(own).item<float>(), 4);
  EXPECT_THROW(divisors.divisor(own), Error);
}

}  // namespace
}  // namespace transom
