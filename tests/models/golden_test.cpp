// SPDX-License-Identifier: Apache-2.0
// Every golden case whose architecture is known: outputs, and the gradient of every parameter, against Transformers.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>
#include <span>
#include <sstream>
#include <string>

#include "base/json/json.h"
#include "models/family.h"
#include "models/shared/mixtures/fused_experts.h"
#include "support/golden_cases.h"
#include "support/golden_values.h"
#include "transom/gradients.h"
#include "transom/model.h"
#include "transom/ops.h"
#include "work/train/loop/model_inputs.h"

namespace transom {
namespace {

// The loss. Where Transformers has none, the gradients are those of the sum of the means of some outputs.
Tensor objective_of(const Json& golden, const NamedTensors& outputs) {
  if (!golden.contains("objective")) return outputs.at("loss");
  std::istringstream names(golden["objective"].get<std::string>());
  Tensor all = constant(0);
  for (std::string name; names >> name;) all = all + mean(outputs.at(name));
  return all;
}

class GoldenModel : public testing::TestWithParam<std::string> {};

TEST_P(GoldenModel, OutputsAndGradients) {
  const std::filesystem::path folder = test::folder_of_case(GetParam());
  const Json golden = read_json(folder / "case.json");
  const Json& tolerance = golden["tolerance"];
  LoadReport report;
  const std::unique_ptr<Model> model = Model::from_pretrained((folder / "model").string(), {}, &report);
  EXPECT_EQ(report.missing, std::vector<std::string>{});
  EXPECT_EQ(report.unexpected, std::vector<std::string>{});

  const NamedTensors inputs = load_inputs(folder / "inputs.safetensors");
  const ForwardContext context{.return_loss = golden["forward_kwargs"].value("return_loss", false)};
  const NamedTensors outputs = model->forward(inputs, context);
  for (const test::KeptValues& expected : test::golden_values(folder / "expected.safetensors"))
    EXPECT_EQ(test::golden_difference(expected, outputs.at(expected.name), tolerance[expected.name],
                                      inputs.find("attention_mask")),
              "")
        << expected.name;

  if (!std::filesystem::exists(folder / "grads.safetensors")) return;
  std::vector<Tensor> values;
  for (const auto& parameter : model->parameters()) values.push_back(parameter->value);
  const std::vector<Tensor> computed = gradients(objective_of(golden, outputs), values);
  eval(computed);
  NamedTensors by_name;
  NamedTensors::Items named;
  for (size_t i = 0; i < values.size(); ++i) named.emplace_back(model->parameters()[i]->name, computed[i]);
  for (const auto& [name, tensor] : with_joined_experts(std::move(named))) by_name.set(name, tensor);
  for (const test::KeptValues& expected : test::golden_values(folder / "grads.safetensors"))
    EXPECT_EQ(test::golden_difference(expected, by_name.at(expected.name), tolerance["grads"]), "") << expected.name;
}

double relative_error(std::span<const double> found, std::span<const double> expected) {
  double error = 0, size = 0;
  for (size_t i = 0; i < expected.size(); ++i)
    error += (found[i] - expected[i]) * (found[i] - expected[i]), size += expected[i] * expected[i];
  return std::sqrt(error / size);
}

// The median of the errors of the rows. Where experts, or places to look at, are nearly as good as others, rounding
// chooses others: then a row has other numbers, and those around it have not.
double middle_error(const std::vector<double>& found, const std::vector<double>& expected, int64_t width) {
  std::vector<double> errors;
  const auto columns = static_cast<size_t>(width);
  for (size_t begin = 0; begin < expected.size(); begin += columns)
    errors.push_back(
        relative_error(std::span(found).subspan(begin, columns), std::span(expected).subspan(begin, columns)));
  std::nth_element(errors.begin(), errors.begin() + static_cast<ptrdiff_t>(errors.size() / 2), errors.end());
  return errors[errors.size() / 2];
}

// Outputs of the model with weights that are rounded, and nothing else: how much the network amplifies a rounding.
NamedTensors with_rounded_weights(const std::string& directory, DType dtype, const NamedTensors& inputs,
                                  const ForwardContext& context) {
  const auto model = Model::from_pretrained(directory);
  for (const auto& parameter : model->parameters())
    parameter->value = cast(cast(parameter->value, dtype), parameter->value.dtype());
  return model->forward(inputs, context);
}

// Where the queries of a decoder are the places of highest score, rounding may choose others, and all that comes behind
// the choice is of those. Boxes of two places may be near each other, and their logarithms are not.
bool chooses_other_places(const NamedTensors& outputs, const NamedTensors& expected) {
  for (const char* chosen : {"enc_topk_bboxes", "init_reference_points"})
    if (expected.find("enc_topk_bboxes").defined() && expected.find(chosen).defined() &&
        relative_error(outputs.at(chosen).to_vector<double>(), expected.at(chosen).to_vector<double>()) > 0.05)
      return true;
  return false;
}

// In 16 bits every architecture gives what it gives in f32, but for rounding. A device that rounds the result of each
// operation does so some ten times for each weight, and as many errors of random signs are three times one; where a
// network amplifies them, six times what rounded weights alone make is allowed.
TEST_P(GoldenModel, OutputsOf16Bits) {
  const std::filesystem::path folder = test::folder_of_case(GetParam());
  const NamedTensors inputs = load_inputs(folder / "inputs.safetensors");
  const Json golden = read_json(folder / "case.json");
  const ForwardContext context{.return_loss = golden["forward_kwargs"].value("return_loss", false)};
  const NoGradient inference;
  const NamedTensors expected = Model::from_pretrained((folder / "model").string())->forward(inputs, context);
  for (const char* dtype : {"bfloat16", "float16"}) {
    const auto model = Model::from_pretrained((folder / "model").string(), {.dtype = dtype});
    const NamedTensors outputs = model->forward(inputs, context);
    const bool chooses_others = chooses_other_places(outputs, expected);
    for (const auto& [name, tensor] : expected.items()) {
      if (chooses_others && !name.starts_with("enc_outputs_")) continue;
      const auto a = outputs.at(name).to_vector<double>(), b = tensor.to_vector<double>();
      // Queries that look where their masks are above 0 look elsewhere where a mask is nearly 0.
      const bool masked = expected.find("masks_queries_logits").defined();
      const bool mixture = (masked || model->config().has("num_experts_per_tok")) && tensor.rank() > 1;
      const auto error_of = [&, width = tensor.rank() > 0 ? tensor.dim(-1) : 1](const std::vector<double>& found) {
        return mixture ? middle_error(found, b, width) : relative_error(found, b);
      };
      double bound = dtype == std::string("bfloat16") ? 0.05 : 0.01;
      const double error = error_of(a);
      if (error > bound)
        bound = 6 * error_of(with_rounded_weights((folder / "model").string(), model->dtype(), inputs, context)
                                 .at(name)
                                 .to_vector<double>());
      EXPECT_LE(error, bound) << dtype << " " << name;
    }
  }
}

TEST(GoldenModels, EveryArchitectureHasACase) {
  std::set<std::string> covered;
  for (const std::string& name : test::golden_cases_with("expected.safetensors"))
    if (!test::is_shared_case(name)) covered.insert(read_json(test::folder_of_case(name) / "case.json")["class"]);
  for (const Family& family : families())
    for (const Architecture& architecture : family.architectures)
      EXPECT_TRUE(covered.contains(architecture.name))
          << architecture.name << ": add it to tests/golden/make/architectures.py";
}

INSTANTIATE_TEST_SUITE_P(Cases, GoldenModel, testing::ValuesIn(test::golden_cases_with("expected.safetensors")),
                         test::NameOfCase());

}  // namespace
}  // namespace transom
