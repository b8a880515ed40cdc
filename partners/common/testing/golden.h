// SPDX-License-Identifier: Apache-2.0
// A golden case on a device: outputs and gradients within the tolerances of the case, and the same bits in every mode.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "testing/places.h"
#include "testing/safetensors.h"
#include "testing/sampled_values.h"
#include "transom/compile.h"
#include "transom/gradients.h"
#include "transom/ops.h"

namespace transom::test {

struct ModeName {
  Mode mode;
  const char* name;
};
inline constexpr ModeName kModesBesideLazy[] = {
    {Mode::kEager, "eager"}, {Mode::kCompile, "compile"}, {Mode::kGraph, "graph"}};

// Those that are there and have outputs.
inline std::vector<std::string> all_golden_cases() {
  std::vector<std::string> names;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(golden_folder(), none))
    if (fs::exists(entry.path() / "expected.safetensors") && fs::exists(entry.path() / "case.json"))
      names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

// gtest takes letters, digits and underscores.
inline std::string name_of_case(const testing::TestParamInfo<std::string>& info) {
  std::string name = info.param;
  std::replace_if(
      name.begin(), name.end(), [](unsigned char c) { return !std::isalnum(c); }, '_');
  return name;
}

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
    folder_ = fs::path(golden_folder()) / GetParam();
    if (!fs::exists(folder_ / "expected.safetensors")) GTEST_SKIP() << "there is no golden case " << folder_;
    golden_ = read_json(folder_ / "case.json");
    inputs_ = read_safetensors(folder_ / "inputs.safetensors");
  }
  void TearDown() override { set_mode(Mode::kLazy); }

  std::unique_ptr<Model> load() const { return Model::from_pretrained((folder_ / "model").string()); }

  // Outputs by name, and gradients by "gradient of <name>", computed in `type` as Computing::dtype says. The modes that
  // compile do so with the gradients; the second call is returned, which replays what the first captured.
  NamedTensors results(Mode mode, std::optional<DType> type = std::nullopt) const {
    set_mode(mode);
    const std::unique_ptr<Model> model = load();
    if (type) model->set_computing({.dtype = *type});
    const bool differentiates = fs::exists(folder_ / "grads.safetensors");
    std::vector<std::string> names;
    const auto compute = [&](const NamedTensors& given) {
      const ForwardContext context{.return_loss = golden_["forward_kwargs"].value("return_loss", false)};
      const NamedTensors outputs = model->forward(given, context);
      std::vector<Tensor> tensors, values;
      names.clear();
      for (const auto& [name, tensor] : outputs.items()) tensors.push_back(tensor), names.push_back(name);
      if (!differentiates) return tensors;
      for (const auto& parameter : model->parameters()) values.push_back(parameter->value);
      for (const Tensor& gradient : gradients(outputs.at("loss"), values)) tensors.push_back(gradient);
      for (const auto& parameter : model->parameters()) names.push_back("gradient of " + parameter->name);
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

  // What a file of outputs or gradients holds.
  static std::vector<KeptValues> golden_values(const fs::path& file) {
    std::vector<KeptValues> all;
    for (const auto& [name, tensor] : read_safetensors(file).items())
      all.push_back(kept_values(name, tensor.shape(), tensor.to_vector<double>()));
    return all;
  }

  // Which elements count: not the rows of (batch, position) whose mask is 0. Empty: all.
  std::vector<bool> counted(const Tensor& tensor) const {
    const Tensor mask = inputs_.find("attention_mask");
    if (!mask.defined() || mask.rank() != 2 || tensor.rank() < 2 || tensor.dim(0) != mask.dim(0) ||
        tensor.dim(1) != mask.dim(1))
      return {};
    const std::vector<int64_t> kept = mask.to_vector<int64_t>();
    std::vector<bool> counts(static_cast<size_t>(tensor.size()));
    for (size_t i = 0; i < counts.size(); ++i) counts[i] = kept[i * kept.size() / counts.size()] != 0;
    return counts;
  }

  void expect_within_tolerances(const NamedTensors& found) const {
    const auto expect_near = [&](const KeptValues& expected, const Tensor& got, const Json& within, bool masked) {
      ASSERT_EQ(got.shape(), expected.shape) << expected.name;
      EXPECT_EQ(difference(expected, got.to_vector<double>(), within["atol"], within["rtol"],
                           masked ? counted(got) : std::vector<bool>()),
                "")
          << expected.name;
    };
    for (const KeptValues& expected : golden_values(folder_ / "expected.safetensors"))
      expect_near(expected, found.at(expected.name), golden_["tolerance"][expected.name], true);
    if (!fs::exists(folder_ / "grads.safetensors")) return;
    for (const KeptValues& expected : golden_values(folder_ / "grads.safetensors"))
      expect_near(expected, found.at("gradient of " + expected.name), golden_["tolerance"]["grads"], false);
  }

  void expect_same_bits_in_every_mode(const NamedTensors& lazy, std::optional<DType> type = std::nullopt) const {
    for (const auto& [mode, mode_name] : kModesBesideLazy) {
      const NamedTensors other = results(mode, type);
      for (const auto& [name, tensor] : lazy.items())
        EXPECT_EQ(other.at(name).to_bytes(), tensor.to_bytes()) << mode_name << ": " << name;
    }
  }

  fs::path folder_;
  Json golden_;
  NamedTensors inputs_;
};

}  // namespace transom::test
