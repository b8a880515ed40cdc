// SPDX-License-Identifier: Apache-2.0
// Layer norm and RMS norm over the fastest dim, with the operand orders of the TPC library; statistics in f32.
#include <algorithm>

#include "elementwise.h"
#include "rows.h"

namespace synapse_emulator {
namespace {

float epsilon_of(const Node& node) {
  const auto params = params_of<LayerNormParams>(node, {8, 16, 20, 24});
  require(params.eps >= 0, node, "epsilon ", params.eps);
  return params.epsValid ? params.eps : 1e-5f;
}

Sizes one_dim(int64_t size) {
  Sizes sizes;
  sizes.rank = 1;
  sizes.size[0] = size;
  return sizes;
}
Sizes statistics_of(const Sizes& sizes) {
  Sizes result = sizes;
  result.size[0] = 1;
  return result;
}

std::vector<float> floats(const Operand& operand) {
  std::vector<float> result(static_cast<size_t>(operand.elements()));
  load<float>(operand.type, operand.data, 0, 1, operand.elements(), result.data());
  return result;
}

struct Rows {
  int64_t count, width;
};
Rows rows_of(const Operand& x) { return {x.sizes[0] ? x.elements() / x.sizes[0] : 0, x.sizes[0]}; }

void check_parameter(const Node& node, const Operand& parameter, const char* what) {
  require_type(node, parameter, syn_type_single, what);
  require_sizes(node, parameter, one_dim(node.input(0).sizes[0]), what);
}
void check_layer_view(const Node& node) {
  const Sizes& sizes = node.input(0).sizes;
  require(sizes.rank == 4 && sizes[2] == 1 && sizes[3] == 1, node, "x is viewed as [n, m, 1, 1], found ",
          text_of(sizes));
}
void check_axes(const Node& node) {
  if (node.params.size() < sizeof(LayerNormAxesParams)) return;
  const auto params = params_of<LayerNormAxesParams>(node, {16, 20, 24});
  require(params.NormAxisBmp == 1, node, "only the fastest dim is normalised here, the mask is ", params.NormAxisBmp);
}

// {x, bias, weight} -> {y, mean, 1 / deviation}
void check_layer_norm(const Node& node) {
  require_counts(node, 3, 3, 3, 3);
  require_type(node, node.input(0), node.type, "x");
  require_type(node, node.output(0), node.type, "y");
  check_layer_view(node);
  check_parameter(node, node.input(1), "the bias");
  check_parameter(node, node.input(2), "the weight");
  require_sizes(node, node.output(0), node.input(0).sizes, "y");
  for (const size_t i : {1, 2}) {
    require_type(node, node.output(i), syn_type_single, "a statistic");
    require_sizes(node, node.output(i), statistics_of(node.input(0).sizes), "a statistic");
  }
  epsilon_of(node);
  check_axes(node);
}
void run_layer_norm(const Node& node) {
  const Operand& x = node.input(0);
  const Rows rows = rows_of(x);
  const std::vector<float> bias = floats(node.input(1)), weight = floats(node.input(2));
  const float epsilon = epsilon_of(node);
  parallel_for(rows.count, std::max<int64_t>(1, 8192 / rows.width), [&](int64_t from, int64_t to) {
    std::vector<float> row(static_cast<size_t>(rows.width));
    for (int64_t i = from; i < to; ++i) {
      load<float>(x.type, x.data, i * rows.width, 1, rows.width, row.data());
      float sum = 0, squares = 0;
      for (const float value : row) sum += value;
      const float mean = sum / static_cast<float>(rows.width);
      for (const float value : row) squares += (value - mean) * (value - mean);
      const float scale = 1 / std::sqrt(squares / static_cast<float>(rows.width) + epsilon);
      for (size_t j = 0; j < row.size(); ++j) row[j] = (row[j] - mean) * scale * weight[j] + bias[j];
      store<float>(node.output(0).type, node.output(0).data, i * rows.width, 1, rows.width, row.data());
      store<float>(syn_type_single, node.output(1).data, i, 1, 1, &mean);
      store<float>(syn_type_single, node.output(2).data, i, 1, 1, &scale);
    }
  });
}

// {x, dy, mean, 1 / deviation, weight} -> {dx, dbias, dweight}
void check_layer_norm_gradient(const Node& node) {
  require_counts(node, 5, 5, 3, 3);
  for (const size_t i : {0, 1}) {
    require_type(node, node.input(i), node.type, "x or dy");
    require_sizes(node, node.input(i), node.output(0).sizes, "x or dy");
  }
  require_type(node, node.output(0), node.type, "dx");
  check_layer_view(node);
  for (const size_t i : {2, 3}) {
    require_type(node, node.input(i), syn_type_single, "a statistic");
    require_sizes(node, node.input(i), statistics_of(node.input(0).sizes), "a statistic");
  }
  check_parameter(node, node.input(4), "the weight");
  check_parameter(node, node.output(1), "dbias");
  check_parameter(node, node.output(2), "dweight");
  epsilon_of(node);
}
void run_layer_norm_gradient(const Node& node) {
  const Rows rows = rows_of(node.input(0));
  const auto width = static_cast<size_t>(rows.width);
  const std::vector<float> mean = floats(node.input(2)), scale = floats(node.input(3)), weight = floats(node.input(4));
  std::vector<float> x(width), dy(width), dx(width), bias(width, 0), gain(width, 0);
  for (int64_t i = 0; i < rows.count; ++i) {
    load<float>(node.input(0).type, node.input(0).data, i * rows.width, 1, rows.width, x.data());
    load<float>(node.input(1).type, node.input(1).data, i * rows.width, 1, rows.width, dy.data());
    const float m = mean[static_cast<size_t>(i)], s = scale[static_cast<size_t>(i)];
    float sum = 0, along = 0;
    for (size_t j = 0; j < width; ++j) {
      const float normal = (x[j] - m) * s;
      bias[j] += dy[j];
      gain[j] += dy[j] * normal;
      sum += dy[j] * weight[j];
      along += dy[j] * weight[j] * normal;
      x[j] = normal;
    }
    const float n = static_cast<float>(rows.width);
    for (size_t j = 0; j < width; ++j) dx[j] = s * (dy[j] * weight[j] - sum / n - x[j] * along / n);
    store<float>(node.output(0).type, node.output(0).data, i * rows.width, 1, rows.width, dx.data());
  }
  store<float>(syn_type_single, node.output(1).data, 0, 1, rows.width, bias.data());
  store<float>(syn_type_single, node.output(2).data, 0, 1, rows.width, gain.data());
}

// {x, weight} -> {y, 1 / root mean square}
void check_rms_norm(const Node& node) {
  require_counts(node, 2, 2, 2, 2);
  require_type(node, node.input(0), node.type, "x");
  require_type(node, node.output(0), node.type, "y");
  require(is_floating(node.input(1).type), node, "the weight has type ", name_of(node.input(1).type));
  require_sizes(node, node.input(1), one_dim(node.input(0).sizes[0]), "the weight");
  require_sizes(node, node.output(0), node.input(0).sizes, "y");
  require_sizes(node, node.output(1), statistics_of(node.input(0).sizes), "the inverse root mean square");
  require(is_floating(node.output(1).type), node, "the second output is floating");
  epsilon_of(node);
  check_axes(node);
}
void run_rms_norm(const Node& node) {
  const Operand& x = node.input(0);
  const Rows rows = rows_of(x);
  const std::vector<float> weight = floats(node.input(1));
  const float epsilon = epsilon_of(node);
  parallel_for(rows.count, std::max<int64_t>(1, 8192 / rows.width), [&](int64_t from, int64_t to) {
    std::vector<float> row(static_cast<size_t>(rows.width));
    for (int64_t i = from; i < to; ++i) {
      load<float>(x.type, x.data, i * rows.width, 1, rows.width, row.data());
      float squares = 0;
      for (const float value : row) squares += value * value;
      const float scale = 1 / std::sqrt(squares / static_cast<float>(rows.width) + epsilon);
      for (size_t j = 0; j < row.size(); ++j) row[j] = row[j] * scale * weight[j];
      store<float>(node.output(0).type, node.output(0).data, i * rows.width, 1, rows.width, row.data());
      store<float>(node.output(1).type, node.output(1).data, i, 1, 1, &scale);
    }
  });
}

// {dy, x, weight, 1 / root mean square} -> {dx, dweight}
void check_rms_norm_gradient(const Node& node) {
  require_counts(node, 4, 4, 2, 2);
  for (const size_t i : {0, 1}) {
    require_type(node, node.input(i), node.type, "dy or x");
    require_sizes(node, node.input(i), node.output(0).sizes, "dy or x");
  }
  require_type(node, node.output(0), node.type, "dx");
  for (const Operand* operand : {&node.input(2), &node.output(1)}) {
    require(is_floating(operand->type), node, "the weight and its gradient are floating");
    require_sizes(node, *operand, one_dim(node.input(0).sizes[0]), "the weight or its gradient");
  }
  require_sizes(node, node.input(3), statistics_of(node.input(0).sizes), "the inverse root mean square");
  params_of<RmsNormBackwardParams>(node, {4, 8, 12, 16});
}
void run_rms_norm_gradient(const Node& node) {
  const Rows rows = rows_of(node.input(0));
  const auto width = static_cast<size_t>(rows.width);
  const std::vector<float> weight = floats(node.input(2)), scale = floats(node.input(3));
  std::vector<float> x(width), dy(width), gain(width, 0);
  for (int64_t i = 0; i < rows.count; ++i) {
    load<float>(node.input(0).type, node.input(0).data, i * rows.width, 1, rows.width, dy.data());
    load<float>(node.input(1).type, node.input(1).data, i * rows.width, 1, rows.width, x.data());
    const float s = scale[static_cast<size_t>(i)];
    float along = 0;
    for (size_t j = 0; j < width; ++j) {
      gain[j] += dy[j] * x[j] * s;
      along += dy[j] * weight[j] * x[j];
    }
    const float factor = s * s * s * along / static_cast<float>(rows.width);
    for (size_t j = 0; j < width; ++j) dy[j] = dy[j] * weight[j] * s - x[j] * factor;
    store<float>(node.output(0).type, node.output(0).data, i * rows.width, 1, rows.width, dy.data());
  }
  store<float>(node.output(1).type, node.output(1).data, 0, 1, rows.width, gain.data());
}

double norm_flops(const Node& node) { return 8.0 * static_cast<double>(node.input(0).elements()); }

}  // namespace

void add_norms(KernelTable& table) {
  const auto add = [&](const char* name, void (*check)(const Node&), void (*run)(const Node&)) {
    table.add({name, Engine::kTpc, kFloats, check, run, norm_flops, false});
  };
  add("layer_norm_fwd", check_layer_norm, run_layer_norm);
  add("layer_norm_bwd", check_layer_norm_gradient, run_layer_norm_gradient);
  for (const char* name : {"rms_norm_ex_fwd", "rms_norm_fast_fwd"}) add(name, check_rms_norm, run_rms_norm);
  for (const char* name : {"rms_norm_ex_bwd", "rms_norm_fast_bwd"})
    add(name, check_rms_norm_gradient, run_rms_norm_gradient);
}

}  // namespace synapse_emulator
