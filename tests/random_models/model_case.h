// SPDX-License-Identifier: Apache-2.0
// ONNX files with the values that ONNX Runtime and onnx's reference evaluator give for them. make/ makes them, at
// random; recorded/ holds those that the tests run. The format of the files is described in make/__main__.py.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/files/files.h"
#include "models/onnx/import/run/imported_graph.h"

namespace transom::random_models {

struct ExpectedOutput {
  std::string name;
  onnx::Value value;
  bool exact = false;                // equal to the bit, but for the bits of NaN and the signs of zeros
  std::optional<onnx::Value> other;  // what is right as well
};

struct ModelCase {
  std::string name;
  std::shared_ptr<const std::string> model;  // the bytes of the ONNX file
  onnx::NamedValues inputs;
  std::vector<ExpectedOutput> outputs;
};

std::vector<ModelCase> read_cases(const fs::path& file);

struct Verdict {
  bool refused = false;    // in one line that holds "not supported"
  std::string difference;  // empty where all modes give the right values
};

// Runs the case in the modes lazy, eager, compile and graph.
Verdict check_case(const ModelCase& model_case);

}  // namespace transom::random_models
