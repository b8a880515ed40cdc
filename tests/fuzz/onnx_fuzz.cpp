// SPDX-License-Identifier: Apache-2.0
// Any bytes as an ONNX file: read, its operators looked up, and traced with small inputs, without computing anything
// large. Shapes, axes and counts of the file reach the operators' functions.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "models/onnx/import/elementwise/element_values.h"
#include "models/onnx/import/run/graph_run.h"
#include "models/onnx/import/run/imported_graph.h"
#include "models/onnx/proto/read_model.h"
#include "transom/error.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace transom;
  using namespace transom::onnx;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  try {
    const ImportedGraph graph(parse_model(bytes, "fuzz.onnx", nullptr));
    GraphRun::Constants constants;
    GraphRun run(graph.model(), constants, {});
    std::unordered_map<std::string, Value> inputs;
    for (const ValueInfo* input : graph.required_inputs()) {
      Shape shape;
      if (input->shape)
        for (const auto& extent : *input->shape) shape.push_back(std::clamp<int64_t>(extent.value, 1, 4));
      const ElementTypeInfo* type = find_element_type(static_cast<int64_t>(input->type));
      if (shape.size() > 6 || !type || !type->carrier) return 0;
      inputs.emplace(input->name, Value(type->type, zeros(shape, *type->carrier)));
    }
    run.run(inputs);
  } catch (const Error&) {
  } catch (const DependsOnArguments&) {
  }
  return 0;
}
