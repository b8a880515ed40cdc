// SPDX-License-Identifier: Apache-2.0
#include "cli/output/vectors.h"

#include <memory>

#include "base/error.h"
#include "base/files/files.h"
#include "base/json/json.h"
#include "io/safetensors.h"

namespace transom {
namespace {

// Nested lists of numbers: their extents along the first of each.
std::vector<int64_t> shape_of(const Json& list) {
  std::vector<int64_t> shape;
  for (const Json* each = &list; each->is_array(); each = &each->front()) {
    shape.push_back(static_cast<int64_t>(each->size()));
    if (each->empty()) break;
  }
  return shape;
}

void add_numbers(const Json& list, size_t axis, const std::vector<int64_t>& shape, std::vector<float>& values) {
  if (axis == shape.size()) {
    values.push_back(list.get<float>());
    return;
  }
  if (!list.is_array() || static_cast<int64_t>(list.size()) != shape[axis])
    fail("--output: expected results of one shape, found others; --pooling auto gives one vector a text");
  for (const Json& each : list) add_numbers(each, axis + 1, shape, values);
}

// The header of NumPy's format 1.0 ends at a multiple of 64 bytes.
std::string npy_header(const std::vector<int64_t>& shape) {
  std::string extents;
  for (const int64_t extent : shape) extents += fmt::format("{}, ", extent);
  std::string fields = fmt::format("{{'descr': '<f4', 'fortran_order': False, 'shape': ({}), }}", extents);
  constexpr size_t kBefore = 10;  // magic, version, length
  fields.append(63 - (kBefore + fields.size()) % 64, ' ');
  fields += '\n';
  std::string header("\x93NUMPY\x01\x00", 8);
  header += static_cast<char>(fields.size() & 0xff);
  header += static_cast<char>(fields.size() >> 8);
  return header + fields;
}

}  // namespace

void expect_vector_file(const std::string& path) {
  if (!path.ends_with(".npy") && !path.ends_with(".safetensors"))
    fail(ErrorKind::kUsage, "--output: expected a file that ends in .npy or .safetensors, found {}", quoted(path));
}

void write_vectors(const std::string& path, const std::vector<Json>& results) {
  const std::vector<int64_t> each = shape_of(results.at(0));
  auto values = std::make_shared<std::vector<float>>();
  for (const Json& result : results) add_numbers(result, 0, each, *values);
  std::vector<int64_t> shape{static_cast<int64_t>(results.size())};
  shape.insert(shape.end(), each.begin(), each.end());
  const auto bytes = std::as_bytes(std::span(*values));
  if (path.ends_with(".safetensors")) {
    write_safetensors(path, {{"embeddings", TensorView{DType::kFloat32, shape, bytes, values}}});
    return;
  }
  AtomicFile file(path);
  file.write(npy_header(shape));
  file.write(bytes);
  file.commit();
}

}  // namespace transom
