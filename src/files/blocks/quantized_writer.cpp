// SPDX-License-Identifier: Apache-2.0
#include "files/blocks/quantized_writer.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/json/json.h"
#include "base/numbers/half.h"

namespace transom {
namespace {

// A tensor of its own memory, filled in afterwards.
template <typename T>
std::pair<TensorView, T*> make_tensor(DType dtype, std::vector<int64_t> shape) {
  size_t count = 1;
  for (const int64_t extent : shape) count *= static_cast<size_t>(extent);
  const std::shared_ptr<T[]> values(new T[count]());
  return {TensorView{dtype, std::move(shape), std::as_bytes(std::span(values.get(), count)), values}, values.get()};
}

struct Rows {
  std::vector<uint8_t> codes;  // [rows, depth], counted from 0, in the order of the inputs
  std::vector<float> scales;   // [rows, groups]
};

Rows rows_to_write(const BlockMatrix& matrix) {
  const BlockLayout& l = matrix.layout();
  Rows rows{std::vector<uint8_t>(static_cast<size_t>(l.rows * l.depth)),
            std::vector<float>(static_cast<size_t>(l.rows * l.groups()))};
  std::vector<uint8_t> sorted(static_cast<size_t>(l.depth));
  for (int64_t r = 0; r < l.rows; ++r) {
    uint8_t* codes = rows.codes.data() + r * l.depth;
    matrix.read_row(r, codes, rows.scales.data() + r * l.groups(), nullptr);
    if (l.order.empty()) continue;
    std::copy_n(codes, l.depth, sorted.begin());
    for (size_t k = 0; k < l.order.size(); ++k) codes[l.order[k]] = sorted[k];
  }
  return rows;
}

void write_gptq(const BlockLayout& l, const Rows& rows, const std::string& module, NamedViews& tensors) {
  const int64_t per_word = 32 / l.bits, groups = l.groups();
  auto [words, word] = make_tensor<uint32_t>(DType::kInt32, {l.depth / per_word, l.rows});
  for (int64_t r = 0; r < l.rows; ++r)
    for (int64_t k = 0; k < l.depth; ++k)
      word[k / per_word * l.rows + r] |= uint32_t{rows.codes[static_cast<size_t>(r * l.depth + k)]}
                                         << (l.bits * (k % per_word));
  auto [zeros, zero] = make_tensor<uint32_t>(DType::kInt32, {groups, l.rows / per_word});
  const uint32_t one_less = (1u << (l.bits - 1)) - 1;  // as version 1 stores zero points
  for (int64_t i = 0; i < groups * (l.rows / per_word); ++i)
    for (int64_t j = 0; j < per_word; ++j) zero[i] |= one_less << (l.bits * j);
  auto [scales, scale] = make_tensor<Float16>(DType::kFloat16, {groups, l.rows});
  for (int64_t r = 0; r < l.rows; ++r)
    for (int64_t g = 0; g < groups; ++g)
      scale[g * l.rows + r] = Float16(rows.scales[static_cast<size_t>(r * groups + g)]);
  auto [order, place] = make_tensor<int32_t>(DType::kInt32, {l.depth});
  for (int64_t k = 0; k < l.depth; ++k)
    place[l.order.empty() ? k : l.order[static_cast<size_t>(k)]] = static_cast<int32_t>(k / l.group);
  tensors.emplace_back(module + ".qweight", words);
  tensors.emplace_back(module + ".qzeros", zeros);
  tensors.emplace_back(module + ".scales", scales);
  tensors.emplace_back(module + ".g_idx", order);
}

void write_awq(const BlockLayout& l, const Rows& rows, const std::string& module, NamedViews& tensors) {
  static constexpr int kNibble[8] = {0, 4, 1, 5, 2, 6, 3, 7};
  const int64_t row = l.rows / 8, groups = l.groups();
  auto [words, word] = make_tensor<uint32_t>(DType::kInt32, {l.depth, row});
  for (int64_t r = 0; r < l.rows; ++r)
    for (int64_t k = 0; k < l.depth; ++k)
      word[k * row + r / 8] |= uint32_t{rows.codes[static_cast<size_t>(r * l.depth + k)]} << (4 * kNibble[r % 8]);
  auto [zeros, zero] = make_tensor<uint32_t>(DType::kInt32, {groups, row});
  for (int64_t i = 0; i < groups * row; ++i) zero[i] = 0x88888888u;
  auto [scales, scale] = make_tensor<Float16>(DType::kFloat16, {groups, l.rows});
  for (int64_t r = 0; r < l.rows; ++r)
    for (int64_t g = 0; g < groups; ++g)
      scale[g * l.rows + r] = Float16(rows.scales[static_cast<size_t>(r * groups + g)]);
  tensors.emplace_back(module + ".qweight", words);
  tensors.emplace_back(module + ".qzeros", zeros);
  tensors.emplace_back(module + ".scales", scales);
}

void write_compressed(const BlockLayout& l, const Rows& rows, const std::string& module, NamedViews& tensors) {
  const int64_t per_word = 32 / l.bits, row = (l.depth + per_word - 1) / per_word;
  auto [words, word] = make_tensor<uint32_t>(DType::kInt32, {l.rows, row});
  for (int64_t r = 0; r < l.rows; ++r)
    for (int64_t k = 0; k < l.depth; ++k)
      word[r * row + k / per_word] |= uint32_t{rows.codes[static_cast<size_t>(r * l.depth + k)]}
                                      << (l.bits * (k % per_word));
  auto [scales, scale] = make_tensor<Float16>(DType::kFloat16, {l.rows, l.groups()});
  for (size_t i = 0; i < rows.scales.size(); ++i) scale[i] = Float16(rows.scales[i]);
  auto [shape, extent] = make_tensor<int64_t>(DType::kInt64, {2});
  extent[0] = l.rows, extent[1] = l.depth;
  tensors.emplace_back(module + ".weight_packed", words);
  tensors.emplace_back(module + ".weight_scale", scales);
  tensors.emplace_back(module + ".weight_shape", shape);
}

// Products in 8-bit integers: inputs by token (int-quantized of compressed-tensors).
void write_bytes(const BlockLayout& l, const Rows& rows, const std::string& module, NamedViews& tensors) {
  auto [weight, code] = make_tensor<int8_t>(DType::kInt8, {l.rows, l.depth});
  for (size_t i = 0; i < rows.codes.size(); ++i) code[i] = static_cast<int8_t>(rows.codes[i] - 128);
  auto [scales, scale] = make_tensor<float>(DType::kFloat32, {l.rows, 1});
  std::copy(rows.scales.begin(), rows.scales.end(), scale);
  tensors.emplace_back(module + ".weight", weight);
  tensors.emplace_back(module + ".weight_scale", scales);
}

// How compressed-tensors packs these modules (or all of the class Linear).
Json scheme_of(const std::vector<std::string>& targets, int bits, int64_t group) {
  Json weights{{"type", "int"}, {"num_bits", bits}, {"symmetric", true}, {"dynamic", false}, {"observer", "minmax"}};
  weights["strategy"] = group > 0 ? "group" : "channel";
  weights["group_size"] = group > 0 ? Json(group) : Json(nullptr);
  Json scheme{{"targets", targets}, {"weights", weights}};
  scheme["input_activations"] = nullptr;
  scheme["output_activations"] = nullptr;
  return scheme;
}

Json packed_config(const Json& groups, const std::vector<std::string>& ignored) {
  Json config{{"quant_method", "compressed-tensors"},
              {"format", "pack-quantized"},
              {"quantization_status", "compressed"},
              {"ignore", ignored}};
  config["config_groups"] = groups;
  config["kv_cache_scheme"] = nullptr;
  return config;
}

}  // namespace

QuantizedFormat parse_quantized_format(const std::string& name, const std::string& where) {
  if (name == "gptq") return QuantizedFormat::kGptq;
  if (name == "awq") return QuantizedFormat::kAwq;
  if (name == "compressed-tensors") return QuantizedFormat::kCompressedTensors;
  fail(ErrorKind::kUsage, "{}: expected gptq, awq or compressed-tensors, found {}", where, quoted(name));
}

bool can_write_codes(const BlockLayout& l, QuantizedFormat format) {
  if (l.has_minima || !l.values.empty() || (!l.order.empty() && format != QuantizedFormat::kGptq)) return false;
  if (format == QuantizedFormat::kAwq) return l.bits == 4 && l.rows % 8 == 0 && l.depth % l.group == 0;
  const int64_t per_word = 32 / l.bits;
  if (format == QuantizedFormat::kGptq)
    return l.depth % per_word == 0 && l.rows % per_word == 0 && l.depth % l.group == 0;
  return l.depth % l.group == 0;
}

void write_codes(const BlockMatrix& matrix, QuantizedFormat format, const std::string& module, NamedViews& tensors) {
  const BlockLayout& l = matrix.layout();
  if (!can_write_codes(l, format))
    fail("{}: [{}, {}] in groups of {} does not fit the format", module, l.rows, l.depth, l.group);
  const Rows rows = rows_to_write(matrix);
  if (format == QuantizedFormat::kGptq) write_gptq(l, rows, module, tensors);
  else if (format == QuantizedFormat::kAwq) write_awq(l, rows, module, tensors);
  else if (l.inputs_by_token) write_bytes(l, rows, module, tensors);
  else write_compressed(l, rows, module, tensors);
}

void write_integers(const IntegerCodes& codes, const std::string& module, NamedViews& tensors) {
  std::vector<int64_t> by_output(codes.codes.shape.size(), 1);
  by_output[0] = codes.codes.shape[0];
  auto [scales, scale] = make_tensor<float>(DType::kFloat32, by_output);
  std::copy(codes.scales.begin(), codes.scales.end(), scale);
  auto [input, input_scale] = make_tensor<float>(DType::kFloat32, {1});
  *input_scale = codes.input_scale;
  auto [zero, input_zero] = make_tensor<int8_t>(DType::kInt8, {1});
  *input_zero = static_cast<int8_t>(codes.input_zero_point);
  tensors.emplace_back(module + ".weight", codes.codes);
  tensors.emplace_back(module + ".weight_scale", scales);
  tensors.emplace_back(module + ".input_scale", input);
  tensors.emplace_back(module + ".input_zero_point", zero);
}

Json static_config_of(const std::vector<std::string>& ignored, bool convolutions) {
  const auto form = [](const char* strategy, bool symmetric) {
    return Json{{"type", "int"}, {"num_bits", 8}, {"symmetric", symmetric}, {"dynamic", false}, {"strategy", strategy}};
  };
  Json scheme{{"targets", Json::array({"Linear"})},
              {"weights", form("channel", true)},
              {"input_activations", form("tensor", false)}};
  if (convolutions) scheme["targets"].push_back("Conv2d");
  Json config{{"quant_method", "compressed-tensors"},
              {"format", "int-quantized"},
              {"quantization_status", "compressed"},
              {"ignore", ignored}};
  config["config_groups"] = {{"group_0", scheme}};
  return config;
}

Json w8a8_config_of(const std::vector<std::string>& ignored) {
  const auto form = [](const char* strategy, bool dynamic) {
    return Json{{"type", "int"}, {"num_bits", 8}, {"symmetric", true}, {"dynamic", dynamic}, {"strategy", strategy}};
  };
  Json scheme{{"targets", Json::array({"Linear"})},
              {"weights", form("channel", false)},
              {"input_activations", form("token", true)}};
  Json config{{"quant_method", "compressed-tensors"},
              {"format", "int-quantized"},
              {"quantization_status", "compressed"},
              {"ignore", ignored}};
  config["config_groups"] = {{"group_0", scheme}};
  return config;
}

Json quantization_config_of(QuantizedFormat format, int bits, int64_t group, const std::vector<std::string>& ignored) {
  if (format == QuantizedFormat::kAwq) {
    Json config{{"quant_method", "awq"},
                {"bits", bits},
                {"group_size", group > 0 ? group : -1},
                {"version", "gemm"},
                {"zero_point", true}};
    config["modules_to_not_convert"] = ignored.empty() ? Json(nullptr) : Json(ignored);
    return config;
  }
  return packed_config({{"group_0", scheme_of({"Linear"}, bits, group)}}, ignored);
}

Json mixed_config_of(const std::map<std::string, int>& bits, int64_t group, const std::vector<std::string>& ignored) {
  std::map<int, std::vector<std::string>> modules;
  for (const auto& [module, count] : bits) modules[count].push_back(module);
  Json groups = Json::object();
  for (const auto& [count, names] : modules)
    groups[fmt::format("group_{}", groups.size())] = scheme_of(names, count, group);
  return packed_config(groups, ignored);
}

}  // namespace transom
