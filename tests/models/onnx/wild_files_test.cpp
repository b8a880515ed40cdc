// SPDX-License-Identifier: Apache-2.0
// Files of public bug reports (tests/wild/files, with where the right values come from), in all modes.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "models/onnx/export/check_export.h"
#include "models/onnx/export/export_model.h"
#include "models/onnx/import/run/named_values.h"
#include "runtime/tensor/mode_scope.h"
#include "support/folders.h"
#include "support/temporary_folder.h"
#include "transom/model.h"

namespace transom::onnx {
namespace {

using Numbers = std::vector<double>;

fs::path wild(const std::string& name) { return fs::path(test::source_folder()) / "tests/wild/files" / name; }

void expect_near(const Numbers& found, const Numbers& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    if (std::isnan(expected[i])) {
      EXPECT_TRUE(std::isnan(found[i])) << i << ": " << found[i];
    } else {
      EXPECT_NEAR(found[i], expected[i], 1e-5 * (1 + std::abs(expected[i]))) << i;
    }
  }
}

void in_all_modes(const std::function<void()>& body) {
  for (const Mode mode : {Mode::kLazy, Mode::kEager, Mode::kCompile, Mode::kGraph}) {
    const ModeScope scope(mode);
    body();
  }
}

struct WildFile {
  std::string model, inputs;
  Shape shape;
  Numbers expected;  // of the first output
};

TEST(WildFiles, GiveTheRightValues) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const WildFile files[] = {
      {"onnx-scalar-mul-crash/model.onnx", "onnx-scalar-mul-crash/in.safetensors", {}, {7.5}},
      {"onnx-scalar-mul-crash/plain.onnx", "onnx-scalar-mul-crash/plain_in.safetensors", {}, {8.75}},
      {"onnx-scalar-mul-crash/sigmoid.onnx", "onnx-scalar-mul-crash/sigmoid_in.safetensors", {}, {3.02207}},
      {"onnx-nms-int64max/model.onnx", "onnx-nms-int64max/in.safetensors", {3, 3}, {0, 0, 3, 0, 0, 0, 0, 0, 5}},
      {"relu-nan/model.onnx", "relu-nan/in.safetensors", {4}, {nan, 0, 2, 0}}};
  for (const WildFile& file : files)
    in_all_modes([&] {
      SCOPED_TRACE(file.model);
      const Value y = ImportedGraph::open(wild(file.model))->run(read_values(wild(file.inputs)))[0].second;
      EXPECT_EQ(y.tensor.shape(), file.shape);
      expect_near(y.tensor.to_vector<double>(), file.expected);
    });
}

TEST(WildFiles, EinsumWithoutAnArrowSumsRepeatedIndices) {
  in_all_modes([] {
    const NamedValues inputs = read_values(wild("einsum-implicit-diagonal/ii_in.safetensors"));
    const Numbers x = inputs[0].second.tensor.to_vector<double>();
    const Value y = ImportedGraph::open(wild("einsum-implicit-diagonal/ii.onnx"))->run(inputs)[0].second;
    EXPECT_EQ(y.tensor.shape(), Shape());
    expect_near(y.tensor.to_vector<double>(), {x[0] + x[5] + x[10] + x[15]});
    const Value vector = ImportedGraph::open(wild("einsum-implicit-diagonal/iij.onnx"))
                             ->run(read_values(wild("einsum-implicit-diagonal/iij_in.safetensors")))[0]
                             .second;
    EXPECT_EQ(vector.tensor.shape(), Shape({2}));
  });
}

TEST(WildFiles, DebertaAsTorchExportsIt) {
  const fs::path folder = wild("onnx-scalar-mul-crash");
  const NamedValues expected = read_values(folder / "deberta_expected.safetensors");
  in_all_modes([&] {
    const auto graph = ImportedGraph::open(folder / "deberta_torch_export.onnx");
    for (const auto& [name, value] : graph->run(read_values(folder / "deberta_in.safetensors"))) {
      const auto found = std::find_if(expected.begin(), expected.end(),
                                      [&, &name = name](const auto& one) { return one.first == name; });
      ASSERT_NE(found, expected.end()) << name;
      expect_near(value.tensor.to_vector<double>(), found->second.tensor.to_vector<double>());
    }
  });
}

TEST(WildFiles, AnExportedModelWithDynamicRopeIsChecked) {
  const test::TemporaryFolder folder;
  const auto model = transom::Model::from_pretrained(wild("onnx-scalar-mul-crash/llama_dynamic").string());
  size_t checked = 0;
  ExportOptions options;
  options.check = [&](const ExportCheck&) { ++checked; };
  export_model(*model, folder.path(), options);
  EXPECT_EQ(checked, 1u);
}

TEST(WildFiles, ANaNInAWeightIsSeenInAllLogits) {
  const auto model = transom::Model::from_pretrained(wild("relu-nan/opt").string());
  NamedTensors inputs;
  for (const auto& [name, value] : read_values(wild("relu-nan/opt/in.safetensors"))) inputs.set(name, value.tensor);
  for (const double logit : model->forward(inputs).at("logits").to_vector<double>()) EXPECT_TRUE(std::isnan(logit));
}

}  // namespace
}  // namespace transom::onnx
