// SPDX-License-Identifier: Apache-2.0
#include "models/onnx/export/check_export.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <utility>

#include "base/error.h"
#include "files/config/config.h"
#include "models/onnx/export/file_pass.h"
#include "models/onnx/import/run/imported_graph.h"

namespace transom::onnx {
namespace {

constexpr double kTolerance = 1e-3, kTolerance16 = 5e-2;
constexpr int kPasses = 3;

// Extents that no trace had, of each axis by its name; a name that is a sum of others is their sum. The last pass has
// batches of one row, which runtimes broadcast where a graph is wrong.
class Sizes {
 public:
  Sizes(const ExportedFile& file, int pass) {
    for (const FileInput& input : file.inputs)
      for (const InputAxis& axis : input.axes)
        if (!is_constant(axis.extent) && axis.name.find(" + ") == axis.name.npos)
          extents_[axis.name] = untraced(axis, pass);
  }
  int64_t of(const InputAxis& axis) const {
    if (is_constant(axis.extent)) return axis.extent[0];
    int64_t sum = 0;
    for (size_t begin = 0; begin <= axis.name.size();) {
      const size_t end = std::min(axis.name.find(" + ", begin), axis.name.size());
      sum += extents_.at(axis.name.substr(begin, end - begin));
      begin = end + 3;
    }
    return sum;
  }
  std::string text() const {
    std::string text;
    for (const auto& [name, extent] : extents_) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name, extent);
    return text.empty() ? "the one size" : text;
  }

 private:
  static int64_t untraced(const InputAxis& axis, int pass) {
    if (pass == 2 && axis.name.ends_with("batch_size")) return 1;
    const int64_t step = pass == 0 ? 1 : -1;
    int64_t extent = *(pass == 0 ? std::min_element(axis.extent.begin(), axis.extent.end())
                                 : std::max_element(axis.extent.begin(), axis.extent.end()));
    while (std::find(axis.extent.begin(), axis.extent.end(), extent) != axis.extent.end()) extent += step;
    return std::max<int64_t>(extent, 1);
  }
  std::map<std::string, int64_t> extents_;
};

int64_t vocabulary_of(const transom::Model& model) {
  const Config& config = model.config();
  if (config.has("vocab_size")) return config.get_int("vocab_size");
  if (config.has("text_config")) return config.get_object("text_config").get_int("vocab_size", 49408);
  return 2;
}

Tensor random_input(const transom::Model& model, const FileInput& input, const Shape& shape, std::mt19937& random) {
  const int64_t count = elements(shape);
  if (is_floating(input.dtype)) {
    std::vector<float> values(static_cast<size_t>(count));
    // The sum of four uniform numbers is near enough to a normal one.
    for (float& value : values) {
      value = -2;
      for (int i = 0; i < 4; ++i) value += static_cast<float>(random() >> 8) * 0x1p-24f;
    }
    return cast(Tensor::from(values, shape), input.dtype);
  }
  std::vector<int64_t> values(static_cast<size_t>(count), 1);
  const int64_t last = shape.back();
  if (input.name.ends_with("attention_mask")) {
    // The last row is a third shorter, of a longer text on its left where it begins with past tokens.
    if (count > last)
      for (int64_t i = 0; i < last / 3; ++i) values[static_cast<size_t>(count - 1 - i)] = 0;
  } else if (input.name == "position_ids") {
    for (int64_t i = 0; i < count; ++i) values[static_cast<size_t>(i)] = i % last;
  } else if (input.name == "bbox") {  // (x0, y0, x1, y1): the second corner is not before the first
    const auto limit =
        static_cast<uint64_t>(std::max<int64_t>(model.config().get_int("max_2d_position_embeddings", 1024), 1));
    for (int64_t& value : values) value = static_cast<int64_t>(random() % limit);
    for (size_t i = 0; i + 3 < values.size(); i += 4)
      for (const size_t edge : {i, i + 1})
        if (values[edge] > values[edge + 2]) std::swap(values[edge], values[edge + 2]);
  } else {
    const int64_t limit =
        input.name == "token_type_ids" ? model.config().get_int("type_vocab_size", 2) : vocabulary_of(model);
    for (int64_t& value : values)
      value = static_cast<int64_t>(random() % static_cast<uint64_t>(std::max<int64_t>(limit, 1)));
  }
  return cast(Tensor::from(values, shape), input.dtype);
}

struct Difference {
  double part = 0;  // of the largest value
  bool comparable = false;
};

Difference difference_of(const Tensor& expected, const Tensor& found) {
  if (!found.defined() || expected.shape() != found.shape()) return {};
  const std::vector<float> a = cast(expected, DType::kFloat32).to_vector<float>(),
                           b = cast(found, DType::kFloat32).to_vector<float>();
  double largest = 0, most = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::isnan(a[i]) && std::isnan(b[i])) continue;
    if (a[i] != b[i] && !(std::isfinite(a[i]) && std::isfinite(b[i]))) return {INFINITY, true};
    if (!std::isfinite(a[i])) continue;  // the same infinity
    largest = std::max(largest, std::abs(static_cast<double>(a[i])));
    most = std::max(most, std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i])));
  }
  return {most / std::max(largest, 1e-6), true};
}

}  // namespace

ExportCheck check_file(const transom::Model& model, const ExportedFile& file, const fs::path& path) {
  const NoGradient inference;
  const auto graph = ImportedGraph::open(path);
  ExportCheck check{.file = path.filename().string()};
  const double tolerance = model.dtype() == DType::kFloat32 ? kTolerance : kTolerance16;
  std::mt19937 random(20);
  for (int pass = 0; pass < kPasses; ++pass) {
    const Sizes sizes(file, pass);
    NamedTensors inputs;
    NamedValues values;
    for (const FileInput& input : file.inputs) {
      Shape shape;
      for (const InputAxis& axis : input.axes) shape.push_back(sizes.of(axis));
      inputs.set(input.name, random_input(model, input, shape, random));
      values.emplace_back(input.name, value_of(inputs.at(input.name)));
    }
    const NamedTensors expected = run_file(model, file, inputs);
    NamedTensors found;
    for (auto& [name, value] : graph->run(values, kAsGiven)) found.set(name, value.tensor);
    for (const auto& [name, tensor] : expected.items()) {
      const Difference difference = difference_of(tensor, found.find(name));
      if (!difference.comparable)
        fail("export: {} gives no {} of shape {} at {}; it is kept, and is wrong", path.string(), quoted(name),
             to_string(tensor.shape()), sizes.text());
      if (difference.part > tolerance)
        fail(
            "export: {} is wrong: {} differs from the model's by {:.2g} of its largest value at {}; expected at most "
            "{}",
            path.string(), quoted(name), difference.part, sizes.text(), tolerance);
      if (difference.part >= check.difference)
        check.difference = difference.part, check.output = name, check.sizes = sizes.text();
    }
    ++check.passes;
    if (sizes.text() == "the one size") break;
  }
  return check;
}

}  // namespace transom::onnx
