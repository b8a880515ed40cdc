// SPDX-License-Identifier: Apache-2.0
#include "random_graphs/generator.h"

#include <cmath>
#include <limits>

#include "base/error.h"
#include "graph/ops/rules.h"
#include "transom/gradients.h"

namespace transom::random_graphs {
namespace {

constexpr double kSpecial[] = {0.0,      -0.0,  1.0,   -1.0,     INFINITY, -INFINITY, NAN,    1e30,
                               -1e-30,   88.0,  -88.0, 65504.,   1e-7,     2.5,       -1e-42, 16777217.,
                               0x1p-149, -3e38, 3e38,  0x1p-126, 0x1p-24,  0x1p-14};

int64_t lowest_of(DType dtype) {
  if (dtype == DType::kInt8) return -128;
  if (dtype == DType::kInt32) return std::numeric_limits<int32_t>::min();
  return dtype == DType::kInt64 ? std::numeric_limits<int64_t>::min() : 0;
}
int64_t highest_of(DType dtype) {
  if (dtype == DType::kUInt8) return 255;
  if (dtype == DType::kUInt32) return std::numeric_limits<uint32_t>::max();
  return -1 - lowest_of(dtype);
}

}  // namespace

Generator::Generator(uint64_t seed) : random(seed) {
  if (random.chance(0.02)) largest = 300'000;
}

DType Generator::floating_type() {
  constexpr DType kTypes[] = {DType::kFloat32,  DType::kFloat32, DType::kFloat32, DType::kFloat32,
                              DType::kBFloat16, DType::kFloat16, DType::kFloat64};
  return random.one_of(kTypes);
}

DType Generator::any_type() {
  constexpr DType kTypes[] = {DType::kBool,  DType::kUInt8, DType::kInt8,  DType::kInt32,
                              DType::kInt64, DType::kInt64, DType::kUInt32};
  return random.chance(0.65) ? floating_type() : random.one_of(kTypes);
}

int64_t Generator::extent() {
  constexpr int64_t kSmall[] = {1, 1, 2, 3, 4, 5, 7, 8, 13, 16, 17, 31};
  constexpr int64_t kLarge[] = {1, 3, 16, 33, 64, 97, 128, 257, 512};
  if (random.chance(0.03)) return 0;
  return largest > 4096 ? random.one_of(kLarge) : random.one_of(kSmall);
}

Shape Generator::shape(int64_t low_rank, int64_t high_rank) {
  const int64_t rank = random.between(low_rank, low_rank == 0 && random.chance(0.1) ? 0 : high_rank);
  Shape result(static_cast<size_t>(rank));
  for (int64_t& extent_of_axis : result) extent_of_axis = extent();
  while (elements(result) > largest) {
    int64_t& longest = *std::max_element(result.begin(), result.end());
    longest = std::max<int64_t>(1, longest / 3);
  }
  return result;
}

Tensor Generator::input(const Type& type, double low, double high, int64_t limit) {
  Array array(type);
  for (double& x : array.real) x = low + random.unit() * (high - low);
  for (int64_t& x : array.integer) x = random.below(type.dtype == DType::kBool ? 2 : std::max<int64_t>(limit, 1));
  round_to_dtype(array);
  inputs_.push_back(make_input(type));
  values_.push_back(std::move(array));
  keep(inputs_.back());
  return inputs_.back();
}

Tensor Generator::input(const Type& type) {
  const int64_t kind = random.below(10);
  if (!is_floating(type.dtype)) {
    const Tensor result = input(type, 0, 0, 20);
    for (int64_t& x : values_.back().integer) {
      if (type.dtype == DType::kBool) break;
      if (kind < 3) x -= lowest_of(type.dtype) < 0 ? 10 : 0;
      else if (kind == 3) x = random.chance(0.5) ? static_cast<int64_t>(random.bits()) : lowest_of(type.dtype);
      else if (kind == 4 && random.chance(0.4))
        x = random.chance(0.5) ? highest_of(type.dtype) : lowest_of(type.dtype) + random.below(2);
    }
    round_to_dtype(values_.back());
    return result;
  }
  const Tensor result = kind < 5 ? input(type, -2, 2, 0) : kind < 7 ? input(type, 0.05, 3, 0) : input(type, -4, 4, 0);
  if (kind >= 7)
    for (double& x : values_.back().real) x = std::nearbyint(x);
  if (kind == 9 && random.chance(0.6))
    for (double& x : values_.back().real)
      if (random.chance(0.3)) x = random.one_of(kSpecial);
  round_to_dtype(values_.back());
  return result;
}

Tensor Generator::pooled(const std::function<bool(const Tensor&)>& fits) {
  // Late values more often, so that graphs grow deep.
  for (int attempt = 0; attempt < 12 && !pool_.empty(); ++attempt) {
    const int64_t size = static_cast<int64_t>(pool_.size());
    const int64_t place = std::max(random.below(size), random.below(size));
    if (fits(pool_[static_cast<size_t>(place)])) return pool_[static_cast<size_t>(place)];
  }
  return {};
}

Tensor Generator::any() {
  if (random.chance(0.1)) return input({any_type(), shape(0, 4)});
  const Tensor found = pooled([](const Tensor&) { return true; });
  return found.defined() ? found : input({any_type(), shape(0, 4)});
}
Tensor Generator::floating() {
  const Tensor found = pooled([](const Tensor& x) { return is_floating(x.dtype()); });
  return found.defined() && !random.chance(0.1) ? found : input({floating_type(), shape(0, 4)});
}
Tensor Generator::number() {
  const Tensor found = pooled([](const Tensor& x) { return x.dtype() != DType::kBool; });
  return found.defined() && !random.chance(0.1) ? found : input({floating_type(), shape(0, 4)});
}
Tensor Generator::integer() {
  const Tensor found = pooled([](const Tensor& x) { return is_integer(x.dtype()); });
  constexpr DType kTypes[] = {DType::kUInt8, DType::kInt8, DType::kInt32, DType::kInt64, DType::kUInt32};
  return found.defined() && !random.chance(0.1) ? found : input({random.one_of(kTypes), shape(0, 4)});
}
Tensor Generator::boolean() {
  const Tensor found = pooled([](const Tensor& x) { return x.dtype() == DType::kBool; });
  return found.defined() ? found : input({DType::kBool, shape(0, 4)});
}
Tensor Generator::of_type(const Type& type) {
  const Tensor found = pooled([&](const Tensor& x) { return x.type() == type; });
  return found.defined() && !random.chance(0.2) ? found : input(type);
}

Tensor Generator::with_rank(const std::function<Tensor()>& source, int64_t low, int64_t high) {
  for (int attempt = 0; attempt < 8; ++attempt)
    if (const Tensor x = source(); x.rank() >= low && x.rank() <= high) return x;
  return input({source().dtype(), shape(low, high)});
}

Tensor Generator::partner_of(const Tensor& x) {
  if (random.chance(0.5)) {
    const Tensor found = pooled([&](const Tensor& y) {
      if (y.dtype() != x.dtype() || y.same_as(x)) return false;
      for (int64_t i = 1; i <= std::min(x.rank(), y.rank()); ++i)
        if (x.dim(-i) != y.dim(-i) && x.dim(-i) != 1 && y.dim(-i) != 1) return false;
      return true;
    });
    if (found.defined()) return found;
  }
  Shape partner = x.shape();
  while (!partner.empty() && random.chance(0.25)) partner.erase(partner.begin());
  for (int64_t& extent_of_axis : partner)
    if (random.chance(0.2)) extent_of_axis = 1;
  return input({x.dtype(), partner});
}

Tensor Generator::indices(Shape shape_of_indices, int64_t limit) {
  return input({random.chance(0.5) ? DType::kInt64 : DType::kInt32, std::move(shape_of_indices)}, 0, 0, limit);
}

Axes Generator::axes_of(const Tensor& x) {
  Axes axes;
  for (int64_t axis = 0; axis < x.rank(); ++axis)
    if (random.chance(0.5)) axes.push_back(axis);
  return axes;
}

void Generator::keep(const Tensor& tensor) {
  if (tensor.size() <= largest) pool_.push_back(tensor);
}

void Generator::add_gradients(std::vector<Tensor>& outputs) {
  std::vector<Tensor> losses, cotangents, sources;
  for (const Tensor& output : outputs)
    if (is_floating(output.dtype()) && !is_input(*output.node()) && losses.size() < 2) {
      losses.push_back(output);
      cotangents.push_back(input(output.type(), -1, 1, 0));
    }
  for (const Tensor& source : inputs_)
    if (is_floating(source.dtype()) && sources.size() < 4) sources.push_back(source);
  if (losses.empty() || sources.empty()) return;
  for (const Tensor& gradient : gradients(losses, cotangents, sources)) outputs.push_back(gradient);
}

GraphCase Generator::make() {
  const NoGradient no_gradient;
  std::vector<Step> steps;
  int64_t total = 0;
  for (const auto& group : {element_steps(), movement_steps(), contraction_steps(), composite_steps()})
    for (const Step& step : group) steps.push_back(step), total += step.weight;
  const int64_t count = random.between(1, random.chance(0.5) ? 8 : 24);
  for (int64_t i = 0; i < count; ++i) {
    int64_t place = random.below(total);
    const Step* chosen = steps.data();
    while (place >= chosen->weight) place -= (chosen++)->weight;
    try {
      chosen->run(*this);
    } catch (const Error& error) {  // what was chosen did not fit
      if (error.kind() == ErrorKind::kInternal) throw;
    }
  }
  std::vector<Tensor> outputs;
  TensorSet used;
  for (const Tensor& x : pool_)
    for (const Tensor& y : x.node()->inputs) used.insert(y);
  for (auto x = pool_.rbegin(); x != pool_.rend() && outputs.size() < 5; ++x)
    if (!is_input(*x->node()) && (!used.contains(*x) || random.chance(0.15))) outputs.push_back(*x);
  if (random.chance(0.4)) add_gradients(outputs);
  if (outputs.empty()) outputs.push_back(neg(input({DType::kFloat32, {3}})));
  GraphCase result;
  result.graph = make_graph(std::move(outputs));
  TensorMap<size_t> places;
  for (size_t i = 0; i < inputs_.size(); ++i) places.emplace(inputs_[i], i);
  for (const Tensor& leaf : result.graph.inputs) result.inputs.push_back(values_[places.at(leaf)]);
  return result;
}

GraphCase random_case(uint64_t seed) {
  const Mode before = mode();
  set_mode(Mode::kLazy);
  GraphCase result = Generator(seed).make();
  set_mode(before);
  return result;
}

}  // namespace transom::random_graphs
