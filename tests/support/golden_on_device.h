// SPDX-License-Identifier: Apache-2.0
// A golden case on a device: outputs and gradients within the tolerances of the case, and the same bits in every mode.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/json/json.h"
#include "models/shared/mixtures/fused_experts.h"
#include "support/golden_cases.h"
#include "support/golden_values.h"
#include "transom/compile.h"
#include "transom/gradients.h"
#include "transom/model.h"
#include "transom/ops.h"
#include "transom/tensor.h"
#include "work/train/loop/model_inputs.h"

namespace transom::test {

// Of the tree's cases with outputs, those of these names.
inline std::vector<std::string> golden_cases_named(std::initializer_list<const char*> names) {
  const std::vector<std::string> all = golden_cases_with("expected.safetensors");
  std::vector<std::string> found;
  for (const char* name : names)
    if (std::count(all.begin(), all.end(), name)) found.emplace_back(name);
  return found;
}

struct ModeName {
  Mode mode;
  const char* name;
};
inline constexpr ModeName kModesBesideLazy[] = {
    {Mode::kEager, "eager"}, {Mode::kCompile, "compile"}, {Mode::kGraph, "graph"}};

// The parameter is the name of the case.
class GoldenOnDevice : public testing::TestWithParam<std::string> {
 protected:
  // Every case takes minutes: suites whose names begin with Whole run on request.
  static bool is_asked_for() {
    const std::string suite = testing::UnitTest::GetInstance()->current_test_info()->test_suite_name();
    return !suite.starts_with("Whole") || std::getenv("TRANSOM_GOLDEN_WHOLE");
  }
  // After the device is chosen.
  void read_case() {
    folder_ = folder_of_case(GetParam());
    golden_ = read_json(folder_ / "case.json");
    inputs_ = load_inputs(folder_ / "inputs.safetensors");
  }
  void TearDown() override { set_mode(Mode::kLazy); }

  std::unique_ptr<Model> load() const { return Model::from_pretrained((folder_ / "model").string()); }

  // Outputs by name, and gradients by "gradient of <name>", computed in `type` as Computing::dtype says. The modes that
  // compile do so with the gradients; the second call is returned, which replays what the first captured.
  NamedTensors results(Mode mode, std::optional<DType> type = std::nullopt) const {
    set_mode(mode);
    const std::unique_ptr<Model> model = load();
    if (type) model->set_computing({.dtype = *type});
    const bool differentiates = std::filesystem::exists(folder_ / "grads.safetensors");
    std::vector<std::string> names;
    const auto compute = [&](const NamedTensors& given) {
      const ForwardContext context{.return_loss = golden_["forward_kwargs"].value("return_loss", false)};
      const NamedTensors outputs = model->forward(given, context);
      std::vector<Tensor> tensors, values;
      names.clear();
      for (const auto& [name, tensor] : outputs.items()) tensors.push_back(tensor), names.push_back(name);
      if (!differentiates) return tensors;
      for (const auto& parameter : model->parameters()) values.push_back(parameter->value);
      const std::vector<Tensor> computed = gradients(outputs.at("loss"), values);
      NamedTensors::Items named;
      for (size_t i = 0; i < values.size(); ++i) named.emplace_back(model->parameters()[i]->name, computed[i]);
      for (auto& [name, gradient] : with_joined_experts(std::move(named)))
        tensors.push_back(gradient), names.push_back("gradient of " + name);
      return tensors;
    };
    std::vector<Tensor> tensors;
    if (mode == Mode::kCompile || mode == Mode::kGraph) {
      const CompiledFunction function = compile(
          [&](const std::vector<Tensor>& arguments) {
            NamedTensors named;
            for (size_t i = 0; i < arguments.size(); ++i) named.set(inputs_.items()[i].first, arguments[i]);
            return compute(named);
          },
          {.name = GetParam(), .capture = mode == Mode::kGraph, .donated = {}});
      std::vector<Tensor> arguments;
      for (const auto& [name, tensor] : inputs_.items()) arguments.push_back(tensor);
      function(arguments);
      tensors = function(arguments);
    } else {
      tensors = compute(inputs_);
    }
    eval(tensors);
    NamedTensors result;
    for (size_t i = 0; i < tensors.size(); ++i) result.set(names[i], tensors[i]);
    return result;
  }

  void expect_within_tolerances(const NamedTensors& found) const {
    for (const KeptValues& expected : golden_values(folder_ / "expected.safetensors"))
      EXPECT_EQ(golden_difference(expected, found.at(expected.name), golden_["tolerance"][expected.name],
                                  inputs_.find("attention_mask")),
                "")
          << expected.name;
    if (!std::filesystem::exists(folder_ / "grads.safetensors")) return;
    for (const KeptValues& expected : golden_values(folder_ / "grads.safetensors"))
      EXPECT_EQ(golden_difference(expected, found.at("gradient of " + expected.name), golden_["tolerance"]["grads"]),
                "")
          << expected.name;
  }

  void expect_same_bits_in_every_mode(const NamedTensors& lazy, std::optional<DType> type = std::nullopt) const {
    for (const auto& [mode, mode_name] : kModesBesideLazy) {
      const NamedTensors other = results(mode, type);
      for (const auto& [name, tensor] : lazy.items())
        EXPECT_EQ(other.at(name).to_bytes(), tensor.to_bytes()) << mode_name << ": " << name;
    }
  }

  std::filesystem::path folder_;
  Json golden_;
  NamedTensors inputs_;
};

}  // namespace transom::test
