// SPDX-License-Identifier: Apache-2.0
#include "random_graphs/expectation.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <set>
#include <span>
#include <utility>

#include "base/error.h"
#include "graph/ops/rules.h"

namespace transom::random_graphs {
namespace {

// Operations whose devices sum in an order of their own.
bool accumulates(const Operation& operation) {
  static const std::set<std::string_view> names = {"reduce_sum",
                                                   "channels_last_reduce_sum",
                                                   "cumulative_sum",
                                                   "dot_general",
                                                   "convolution",
                                                   "convolution_input_gradient",
                                                   "convolution_weight_gradient",
                                                   "sum_pool",
                                                   "scatter_add"};
  return names.contains(operation.name);
}

// Whether the value came out without rounding; of f64 nothing but few bits can tell.
bool exact(DType dtype, double value, double rounded) {
  if (!std::isfinite(value)) return true;
  if (dtype != DType::kFloat64) return value == rounded;
  return std::fabs(value) < 0x1p40 && value * 1024 == std::floor(value * 1024);
}

// Functions that are their argument near 0 go through halves and twos on their way: of subnormal numbers bits are lost.
bool rounds_below(const Operation& operation, DType dtype, double value) {
  static const std::set<std::string_view> names = {"expm1", "log1p", "tanh", "erf", "sin"};
  const double normal = dtype == DType::kFloat64 ? 0x1p-1022 : dtype == DType::kFloat16 ? 0x1p-14 : 0x1p-126;
  return value != 0 && std::fabs(value) < normal && names.contains(operation.name);
}

bool few_bits(double x) { return !std::isfinite(x) || (std::fabs(x) < 256 && x * 64 == std::floor(x * 64)); }

class Walk {
 public:
  // `seed` 0: the exact walk; the others know what it found.
  explicit Walk(uint64_t seed, const TensorMap<Array>* exact = nullptr)
      : noisy_(seed != 0), seed_(seed), exact_(exact) {}

  std::vector<Array> graph(const Graph& graph, const std::vector<Array>& inputs, TensorMap<Array>* values) {
    TensorMap<Array> own;
    TensorMap<Array>& known = values ? *values : own;
    for (size_t i = 0; i < inputs.size(); ++i) known.insert_or_assign(graph.inputs[i], inputs[i]);
    uint64_t place = 0;
    for (const std::shared_ptr<Node>& node : graph.nodes) {
      // Errors everywhere hide what follows where there is none, equal numbers that are found to be equal above all.
      if (!in_composite_ && (seed_ % 8 == 3 || seed_ % 8 == 6)) noisy_ = noise(0, ++place) > 0;
      std::vector<Array> arguments;
      for (const Tensor& input : node->inputs) {
        arguments.push_back(known.at(input));
        if (noisy_ && in_composite_) blur(arguments.back());
      }
      std::vector<Array> outputs = node->region ? this->graph(*node->region, arguments, nullptr)
                                                : operation(*node->operation, node->attributes, arguments);
      for (size_t o = 0; o < outputs.size(); ++o) {
        const Tensor tensor(node, static_cast<int>(o));
        if (noisy_ && exact_->contains(tensor)) lose(*node->operation, exact_->at(tensor), outputs[o]);
        known.insert_or_assign(tensor, std::move(outputs[o]));
      }
    }
    std::vector<Array> results;
    for (const Tensor& output : graph.outputs) results.push_back(known.at(output));
    return results;
  }

 private:
  std::vector<Array> operation(const Operation& operation, const Attributes& attributes, std::vector<Array>& inputs) {
    std::vector<Type> types;
    for (const Array& input : inputs) types.push_back(input.type);
    if (!operation.evaluate) {
      const CompilerScope compiler;
      std::vector<Tensor> leaves;
      for (const Type& type : types) leaves.push_back(make_input(type));
      const bool outer = std::exchange(in_composite_, true);
      std::vector<Array> outputs = graph(make_graph(operation.decompose(leaves, attributes), leaves), inputs, nullptr);
      in_composite_ = outer;
      for (Array& output : outputs) round_to_dtype(output);
      if (noisy_ && spoiled(operation, attributes, inputs)) forget(outputs);
      return outputs;
    }
    std::vector<Array> outputs;
    for (const Type& type : operation.infer({operation, types, attributes})) outputs.emplace_back(type);
    const bool flushes =
        noisy_ && seed_ % 2 == 0 && accumulates(operation) &&
        std::any_of(inputs.begin(), inputs.end(), [](const Array& x) { return x.type.dtype == DType::kBFloat16; });
    if (flushes)
      for (Array& input : inputs) flush(input, 1);
    operation.evaluate(inputs, attributes, outputs);
    double room = 4;  // units in the last place
    if (noisy_ && accumulates(operation) && undetermined(operation, attributes, inputs, outputs)) {
      forget(outputs);
    } else if (noisy_ && accumulates(operation)) {
      double read = 0, written = 1, contracted = 1;
      if (operation.name == "dot_general")
        for (const int64_t axis : attributes.get_ints("x_contract"))
          contracted *= static_cast<double>(inputs[0].type.shape[static_cast<size_t>(axis)]);
      for (const Array& input : inputs) read = std::max(read, static_cast<double>(elements(input.type.shape)));
      for (const Array& output : outputs) written = std::max(written, static_cast<double>(elements(output.type.shape)));
      const double length = std::max({1.0, contracted, operation.name == "cumulative_sum" ? read : read / written});
      room += std::sqrt(length) / 2;
      std::vector<Array> rounded = outputs;
      // A sum that comes out exact in f64 may have been rounded on a device's way to it, unless all terms have few
      // bits.
      bool any = false;
      for (const Array& input : inputs)
        any |= std::any_of(input.real.begin(), input.real.end(), [](double x) { return !few_bits(x); });
      for (size_t o = 0; o < outputs.size(); ++o) {
        round_to_dtype(rounded[o]);
        for (size_t i = 0; i < outputs[o].real.size(); ++i)
          any |= !exact(outputs[o].type.dtype, outputs[o].real[i], rounded[o].real[i]);
      }
      if (any) {  // again with inputs that are a little off: what cancels in the sum does not do so in its errors
        for (Array& input : inputs) {
          const double unit = input.type.dtype == DType::kFloat64 ? 0x1p-53 : 0x1p-24;
          for (double& x : input.real) x *= 1 + noise(x) * (4 + length / 16) * unit;
        }
        const std::vector<Array> straight = outputs;
        operation.evaluate(inputs, attributes, outputs);
        // What is less than its error may also be lost altogether, and 0 is what no such walk would meet by itself:
        // neither its sign nor a division by it is what numbers on both sides of it give. So are whole numbers, of
        // which alone a negative number has powers.
        for (size_t o = 0; o < outputs.size(); ++o)
          for (size_t i = 0; i < outputs[o].real.size(); ++i) {
            double& x = outputs[o].real[i];
            const double sum = straight[o].real[i], error = std::fabs(x - sum), draw = noise(x, i + 1);
            if (std::fabs(sum) < error && draw > 0.5) x = 0;
            else if (std::fabs(sum - std::nearbyint(sum)) < error && draw < -0.5) x = std::nearbyint(sum);
          }
      }
    }
    if (flushes && seed_ % 4 == 0)  // else what is left of the terms is the sum
      for (Array& output : outputs) flush(output, 1024);
    if (noisy_) turn_zeros(operation, inputs, outputs);
    for (Array& output : outputs) {
      if (!noisy_ || !output.floating()) {
        round_to_dtype(output);
        continue;
      }
      const std::vector<double> before = output.real;
      round_to_dtype(output);
      const DType dtype = output.type.dtype;
      // Equal sums at two places may be rounded in two ways: their terms may stand in another order.
      const bool by_place = accumulates(operation) && seed_ % 2;
      for (size_t i = 0; i < before.size(); ++i)
        if ((!exact(dtype, before[i], output.real[i]) || rounds_below(operation, dtype, before[i])) &&
            std::isfinite(output.real[i]))
          output.real[i] += noise(before[i], by_place ? i + 1 : 0) * room * unit_in_last_place(dtype, output.real[i]);
      round_to_dtype(output);
      // A device that runs a composite whole may hold in f32 what stands between its operations, and add a product that
      // it has not rounded: one that leaves the range may come back.
      if (in_composite_ && seed_ % 2 == 0)
        for (size_t i = 0; i < before.size(); ++i)
          if (size_of(dtype) == 2 || (std::isinf(output.real[i]) && std::isfinite(before[i])))
            output.real[i] = before[i];
    }
    return outputs;
  }

  // Processors' instructions for products of bf16 take subnormal numbers for zeros, and give zeros for them: terms of a
  // sum too.
  static void flush(Array& array, double terms) {
    if (array.type.dtype != DType::kBFloat16 && array.type.dtype != DType::kFloat32) return;
    for (double& x : array.real)
      if (std::fabs(x) < 0x1p-126 * terms) x = 0;
  }

  // A sum on both sides of 0 may be 0, which walks hardly ever meet by themselves.
  void lose(const Operation& operation, const Array& exact, Array& sum) const {
    if (operation.name != "add" && operation.name != "sub") return;
    for (size_t i = 0; i < sum.real.size(); ++i)
      if (sum.real[i] * exact.real[i] < 0 && noise(sum.real[i], i + 1) > 0) sum.real[i] = 0;
  }

  // Zeros are equal: which of two with different signs is the larger one, and whether -0 + 0 is still added, is
  // promised nowhere. Where all zeros have one sign, the larger one has it too.
  void turn_zeros(const Operation& operation, const std::vector<Array>& inputs, std::vector<Array>& outputs) const {
    static const std::set<std::string_view> by_element = {"add", "sub", "max", "min"};
    static const std::set<std::string_view> of_many = {"reduce_max", "reduce_min"};
    const bool elementwise = by_element.contains(operation.name);
    if (!elementwise && !of_many.contains(operation.name) && !accumulates(operation)) return;
    if (of_many.contains(operation.name) && !zeros_of_both_signs(inputs[0].real)) return;
    const double sign = operation.name == "sub" ? -1 : 1;
    for (Array& output : outputs)
      for (size_t i = 0; i < output.real.size(); ++i) {
        if (output.real[i] != 0 || noise(0, i + 1) <= 0) continue;
        if (elementwise && !zeros_of_both_signs(std::array{inputs[0].real[i], sign * inputs[1].real[i]})) continue;
        output.real[i] = -output.real[i];
      }
  }

  static bool zeros_of_both_signs(std::span<const double> values) {
    const auto has_zero = [&](bool negative) {
      return std::any_of(values.begin(), values.end(), [&](double x) { return x == 0 && std::signbit(x) == negative; });
    };
    return has_zero(true) && has_zero(false);
  }

  // Anything may come out, in any order: no number, numbers of both signs, small, large and infinite (what is made of
  // small ones may be finite where nothing else is), or no number at some places alone.
  void forget(std::vector<Array>& outputs) const {
    const bool small = seed_ / 6 % 2 == 0;  // of even seeds and odd ones: other things hang on that
    for (Array& output : outputs)
      for (size_t i = 0; i < output.real.size(); ++i) {
        const double draw = noise(0, i + 1);
        if (seed_ % 3 == 0 || (seed_ % 3 == 1 && draw > 0)) output.real[i] = NAN;
        else if (seed_ % 3 == 2 && small) output.real[i] = draw;
        else if (seed_ % 3 == 2) output.real[i] = std::fabs(draw) > 0.75 ? draw * INFINITY : 1e30 * draw;
      }
  }

  // Of attention: a score that is infinite spoils its row, and devices do not look at all places that are masked there.
  // -infinity in a bias (the input behind q, k, v) is a mask. Of recurrences, whose definition has masked products too:
  // in what order factors are multiplied shows where numbers leave the range.
  static bool spoiled(const Operation& operation, const Attributes& attributes, const std::vector<Array>& inputs) {
    const auto has = [&](std::string_view part) { return operation.name.find(part) != operation.name.npos; };
    const bool attention = has("attention"), recurrence = has("gated_delta") || has("selective_scan");
    if (!attention && !recurrence) return false;
    const bool biased = attention && attributes.get_int("biased", 0) != 0;
    for (size_t i = 0; i < inputs.size(); ++i)
      for (const double x : inputs[i].real)
        if ((!std::isfinite(x) && !(biased && i == 3 && x < 0)) || (recurrence && std::fabs(x) > 1e12)) return true;
    return false;
  }

  // A device that runs a composite whole may round what it uses twice in two ways.
  void blur(Array& array) {
    const DType dtype = array.type.dtype;
    for (double& x : array.real)
      if (std::isfinite(x) && x * 1024 != std::floor(x * 1024)) x += noise(x) * unit_in_last_place(dtype, x);
  }

  // Whether sums may leave the range of f32 on the way, and whether infinities meet the zeros of padding.
  static bool undetermined(const Operation& operation, const Attributes& attributes, const std::vector<Array>& inputs,
                           std::vector<Array> outputs) {
    double largest = 0;
    bool finite = true;
    std::vector<Array> magnitudes = inputs;
    for (Array& input : magnitudes)
      for (double& x : input.real) {
        finite &= std::isfinite(x);
        x = std::isfinite(x) ? std::fabs(x) : 0;
        largest = std::max(largest, x);
      }
    if (!finite && operation.name.starts_with("convolution")) return true;
    if (largest < 1e15) return false;
    operation.evaluate(magnitudes, attributes, outputs);
    for (const Array& output : outputs)
      for (const double x : output.real)
        if (x > 1e38) return true;
    return false;
  }

  // The same for equal numbers: a device rounds them alike, and a sum over many of them gathers the error. What only
  // rounds to the same number may be rounded in several ways.
  double noise(double x, uint64_t place = 0) const {  // the last step of splitmix64
    uint64_t z =
        std::bit_cast<uint64_t>(x) * 0x9E3779B97F4A7C15u ^ seed_ * 0x9FB21C651E98DF25u ^ place * 0xD6E8FEB86659FD93u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return static_cast<double>(static_cast<int64_t>(z ^ (z >> 31))) * 0x1p-63;
  }

  bool noisy_, in_composite_ = false;
  uint64_t seed_;
  const TensorMap<Array>* exact_;
};

// Of a value, as bits of a set.
enum Kind : uint8_t { kFinite = 1, kInfinite = 2, kNegativeInfinite = 4, kNotANumber = 8 };
Kind kind_of(double x) {
  if (std::isnan(x)) return kNotANumber;
  return std::isfinite(x) ? kFinite : x > 0 ? kInfinite : kNegativeInfinite;
}

// Which outputs come from integers that say where something stands: of those that walks give, none is between others.
std::vector<bool> that_come_from_places(const Graph& graph) {
  static const std::set<std::string_view> orders = {"sort", "top_k", "arg_max", "arg_min"};
  std::set<const Node*> found;
  const auto comes = [&](const Tensor& tensor) {
    const bool of_order = tensor.node() && orders.contains(tensor.node()->operation->name);
    return found.contains(tensor.node().get()) || (of_order && !is_floating(tensor.dtype()));
  };
  for (const std::shared_ptr<Node>& node : graph.nodes)
    if (std::any_of(node->inputs.begin(), node->inputs.end(), comes)) found.insert(node.get());
  std::vector<bool> result;
  for (const Tensor& output : graph.outputs) result.push_back(comes(output));
  return result;
}

}  // namespace

double unit_in_last_place(DType dtype, double value) {
  int digits = 52, lowest = -1074;
  if (dtype == DType::kFloat32) digits = 23, lowest = -149;
  if (dtype == DType::kBFloat16) digits = 7, lowest = -133;
  if (dtype == DType::kFloat16) digits = 10, lowest = -24;
  const auto exponent = static_cast<int>(std::bit_cast<uint64_t>(value) >> 52 & 0x7FF) - 1023;  // of subnormals: least
  const int power = std::max(exponent - digits, lowest);
  return power < -1022 ? std::ldexp(1.0, power) : std::bit_cast<double>(static_cast<uint64_t>(power + 1023) << 52);
}

Expectation::Expectation(const GraphCase& graph_case)
    : case_(graph_case), from_places_(that_come_from_places(graph_case.graph)) {
  outputs_ = Walk(0).graph(case_.graph, case_.inputs, &values_);
  for (const Array& output : outputs_) {
    Spread spread;
    for (int64_t i = 0; i < elements(output.type.shape); ++i) spread.low.push_back(output.get(i));
    spread.high = spread.low;
    for (const double x : spread.low) spread.kinds.push_back(kind_of(x));
    spreads_.push_back(std::move(spread));
  }
}

void Expectation::add_walks(int count) {
  for (int k = 0; k < count; ++k) {
    const std::vector<Array> outputs = Walk(++walks_, &values_).graph(case_.graph, case_.inputs, nullptr);
    for (size_t o = 0; o < outputs.size(); ++o) {
      Spread& spread = spreads_[o];
      for (size_t i = 0; i < spread.low.size(); ++i) {
        const double value = outputs[o].get(static_cast<int64_t>(i));
        spread.kinds[i] |= kind_of(value);
        if (spread.kinds[i] != kFinite) continue;
        spread.low[i] = std::min(spread.low[i], value);
        spread.high[i] = std::max(spread.high[i], value);
      }
    }
  }
}

int64_t Expectation::first_wrong(size_t i, const Array& found) const {
  const Array& expected = outputs_[i];
  const Spread& spread = spreads_[i];
  for (int64_t k = 0; k < elements(expected.type.shape); ++k) {
    const auto place = static_cast<size_t>(k);
    if (const uint8_t kinds = spread.kinds[place]; std::popcount(kinds) > 1) {
      if ((kinds & kFinite) || (kinds & kind_of(found.get(k)))) continue;
      return k;
    }
    if (!expected.floating()) {
      if (found.integer[place] == expected.integer[place]) continue;
      const double value = found.get(k);
      // Several walks agree: any difference is wrong. Else all between them may be, and of places all.
      const bool agree = spread.low[place] == spread.high[place];
      if (agree || (!from_places_[i] && (value < spread.low[place] || value > spread.high[place]))) return k;
      continue;
    }
    const double x = found.real[place], y = expected.real[place];
    if (x == y || (std::isnan(x) && std::isnan(y))) continue;
    if (!std::isfinite(x) || !std::isfinite(y)) {
      // Next to the largest number, rounding decides.
      const double largest = expected.type.dtype == DType::kFloat16 ? 65504 : 0;
      if (largest > 0 && std::isinf(x) && std::fabs(y) >= largest * 0.98 && (x < 0) == (y < 0)) continue;
      if (largest > 0 && std::isinf(y) && std::fabs(x) >= largest * 0.98 && (x < 0) == (y < 0)) continue;
      return k;
    }
    const double room =
        3 * std::max(y - spread.low[place], spread.high[place] - y) + 2 * unit_in_last_place(expected.type.dtype, y);
    if (std::fabs(x - y) > room) return k;
  }
  return -1;
}

}  // namespace transom::random_graphs
