// SPDX-License-Identifier: Apache-2.0
#include "files/blocks/quantized_parts.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "base/error.h"
#include "files/checkpoint/converted_view.h"

namespace transom {
namespace {

std::string extents(const std::vector<int64_t>& shape) {
  std::vector<std::string> words;
  for (const int64_t extent : shape) words.push_back(extent < 0 ? "any" : std::to_string(extent));
  return fmt::format("[{}]", fmt::join(words, ", "));
}

template <typename T>
std::vector<T> values_of(const TensorView& view) {
  std::vector<T> values(view.bytes.size() / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), view.bytes.data(), values.size() * sizeof(T));
  return values;
}

}  // namespace

std::vector<std::string> modules_with(const Checkpoint& checkpoint, std::string_view ending) {
  std::vector<std::string> names;
  for (const auto& [name, view] : checkpoint.tensors())
    if (name.ends_with(ending)) names.push_back(name.substr(0, name.size() - ending.size()));
  std::sort(names.begin(), names.end());
  return names;
}

TensorView take_part(Checkpoint& checkpoint, const std::string& name) {
  std::optional<TensorView> view = checkpoint.take(name);
  if (!view) fail("{}: the tensor {} of a quantised weight is missing", checkpoint.where(), quoted(name));
  return *std::move(view);
}

void expect_codes(const Checkpoint& checkpoint, std::initializer_list<std::string_view> endings,
                  const std::string& codes) {
  for (const std::string_view ending : endings)
    for (const std::string& module : modules_with(checkpoint, ending))
      if (!checkpoint.find(module + codes))
        fail("{}: the tensor {} of a quantised weight is missing, {} is there", checkpoint.where(),
             quoted(module + codes), quoted(module + std::string(ending)));
}

void expect_part(const Checkpoint& checkpoint, const std::string& name, const TensorView& view, DType dtype,
                 const std::vector<int64_t>& shape) {
  bool fits = view.dtype == dtype && view.shape.size() == shape.size();
  for (size_t i = 0; fits && i < shape.size(); ++i) fits = shape[i] < 0 || shape[i] == view.shape[i];
  if (!fits)
    fail("{}: tensor {}: expected {} {}, found {} {}", checkpoint.where(), quoted(name), name_of(dtype), extents(shape),
         name_of(view.dtype), extents(view.shape));
}

std::vector<float> floats_of(const TensorView& view, const std::string& where) {
  if (view.dtype == DType::kFloat32) return values_of<float>(view);
  const std::optional<TensorView> wide = converted_view(view, DType::kFloat32);
  if (!wide) fail("{}: expected floating-point numbers, found {}", where, name_of(view.dtype));
  return values_of<float>(*wide);
}

std::vector<int64_t> integers_of(const TensorView& view, const std::string& where) {
  if (view.dtype == DType::kInt64) return values_of<int64_t>(view);
  if (view.dtype != DType::kInt32) fail("{}: expected i32 or i64, found {}", where, name_of(view.dtype));
  const auto narrow = values_of<int32_t>(view);
  return {narrow.begin(), narrow.end()};
}

std::vector<uint32_t> words_of(const TensorView& view) { return values_of<uint32_t>(view); }

std::vector<int64_t> order_of_groups(const std::vector<int64_t>& g_idx, int64_t group, const std::string& where) {
  const auto depth = static_cast<int64_t>(g_idx.size()), groups = (depth + group - 1) / group;
  std::vector<int64_t> sizes(static_cast<size_t>(groups));
  bool sorted = true, zeros = true;
  for (size_t i = 0; i < g_idx.size(); ++i) {
    if (g_idx[i] < 0 || g_idx[i] >= groups) fail("{}: input {} belongs to group {}, of {}", where, i, g_idx[i], groups);
    ++sizes[static_cast<size_t>(g_idx[i])];
    sorted &= g_idx[i] == static_cast<int64_t>(i) / group;
    zeros &= g_idx[i] == 0;
  }
  if (sorted || zeros) return {};  // zeros: never filled in
  for (int64_t g = 0; g < groups; ++g)
    if (const int64_t expected = std::min(group, depth - g * group); sizes[static_cast<size_t>(g)] != expected)
      fail("{}: expected {} inputs of group {}, found {}", where, expected, g, sizes[static_cast<size_t>(g)]);
  std::vector<int64_t> order(g_idx.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t a, int64_t b) { return g_idx[static_cast<size_t>(a)] < g_idx[static_cast<size_t>(b)]; });
  return order;
}

}  // namespace transom
