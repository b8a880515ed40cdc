// SPDX-License-Identifier: Apache-2.0
// Reading and writing at places that other tensors name.
#include <algorithm>
#include <limits>
#include <numeric>

#include "graph/ops/rules.h"
#include "models/onnx/import/elementwise/element_values.h"
#include "models/onnx/import/run/operators.h"
#include "models/onnx/import/run/precision.h"

namespace transom::onnx {
namespace {

// Indices as i64, negative ones counted from the end.
Tensor from_front(const Tensor& indices, int64_t extent) {
  const Tensor wide = cast(indices, DType::kInt64);
  return select(less(wide, integer(0)), add(wide, integer(extent)), wide);
}

Results gather_operator(Call& call) {
  const Tensor& x = call.tensor(0);
  const int64_t axis = call.axis(call.integer("axis", 0), x.rank());
  return {{call.type(0), gather(x, from_front(call.tensor(1), x.dim(axis)), axis)}};
}

Results gather_elements(Call& call) {
  const Tensor& x = call.tensor(0);
  const int64_t axis = call.axis(call.integer("axis", 0), x.rank());
  return {{call.type(0), take_along_axis(x, from_front(call.tensor(1), x.dim(axis)), axis)}};
}

// Index tuples [..., n] of the axes `first` to first + n - 1 as places in these axes joined: [...]. The last axis is
// the tuple.
Tensor joined_places(const Tensor& indices, const Shape& shape, size_t first) {
  const int64_t n = indices.dim(-1);
  Tensor places;
  int64_t stride = 1;
  for (int64_t i = n - 1; i >= 0; --i) {
    const int64_t extent = shape[first + static_cast<size_t>(i)];
    Tensor part = squeeze(slice(indices, -1, i, i + 1), -1);
    part = mul(from_front(part, extent), integer(stride));
    places = places.defined() ? add(places, part) : part;
    stride *= extent;
  }
  if (places.defined()) return places;
  Shape none = indices.shape();
  none.pop_back();
  return zeros(none, DType::kInt64);
}

Results gather_nd(Call& call) {
  const Tensor &x = call.tensor(0), &indices = call.tensor(1);
  const int64_t batch = call.integer("batch_dims", 0);
  call.require(batch >= 0 && batch < indices.rank() && batch <= x.rank() && indices.dim(-1) <= x.rank() - batch,
               "the indices do not fit the data");
  const Shape& shape = x.shape();
  const int64_t batches = elements(Shape(shape.begin(), shape.begin() + batch));
  const int64_t rows = elements(Shape(shape.begin() + batch, shape.begin() + batch + indices.dim(-1)));
  const Shape rest(shape.begin() + batch + indices.dim(-1), shape.end());
  Tensor places = joined_places(indices, shape, static_cast<size_t>(batch));  // [batch..., ...]
  Shape result = places.shape();
  if (batch > 0) {
    const int64_t each = batches == 0 ? 0 : places.size() / batches;
    places = add(reshape(places, {batches, each}), mul(iota({batches, 1}, 0), integer(rows)));
  }
  Shape flat{batches * rows};
  flat.insert(flat.end(), rest.begin(), rest.end());
  result.insert(result.end(), rest.begin(), rest.end());
  return {{call.type(0), reshape(gather(reshape(x, flat), reshape(places, {places.size()}), 0), result)}};
}

// ---- scattering

enum class Join { kSet, kAdd, kMul, kMax, kMin };

Join join_of(const Call& call) {
  const std::string name = call.text("reduction", "none");
  if (name == "none") return Join::kSet;
  if (name == "add") return Join::kAdd;
  if (name == "mul") return Join::kMul;
  if (name == "max") return Join::kMax;
  if (name == "min") return Join::kMin;
  call.invalid("reduction must be none, add, mul, max or min");
}

// x [n, ...] with rows places[i] joined with updates[i], in order.
Tensor scattered(const Call& call, const Tensor& x, const Tensor& places, const Tensor& updates, Join join) {
  if (places.size() == 0) return x;
  if (join == Join::kSet) return scatter(x, places, updates);
  if (join == Join::kAdd) {
    // In a type that scatter_add offers for every element type.
    const DType dtype = is_integer(x.dtype()) ? DType::kInt64 : wide_type(x.dtype());
    return cast(scatter_add(cast(x, dtype), places, cast(updates, dtype), 0), x.dtype());
  }
  // Products and extremes one update after the other: places may repeat.
  if (places.size() > 1024) call.not_supported("more than 1024 updates that are multiplied or compared");
  Tensor result = x;
  for (int64_t i = 0; i < places.size(); ++i) {
    const Tensor place = slice(places, 0, i, i + 1), update = slice(updates, 0, i, i + 1);
    const Tensor now = gather(result, place, 0);
    const Tensor joined = join == Join::kMul   ? mul(now, update)
                          : join == Join::kMax ? maximum(now, update)
                                               : minimum(now, update);
    result = scatter(result, place, joined);
  }
  return result;
}

Results scatter_elements(Call& call) {
  const Tensor &x = call.tensor(0), &indices = call.tensor(1), &updates = call.tensor(2);
  const int64_t axis = call.axis(call.integer("axis", 0), x.rank());
  call.require(indices.shape() == updates.shape() && indices.rank() == x.rank(), "indices and updates do not fit");
  const Axes strides = strides_of(x.shape());
  Tensor places = mul(from_front(indices, x.dim(axis)), integer(strides[static_cast<size_t>(axis)]));
  for (int64_t other = 0; other < x.rank(); ++other)
    if (other != axis) {
      call.require(indices.dim(other) <= x.dim(other), "indices do not fit the data");
      places = add(places, mul(iota(indices.shape(), other), integer(strides[static_cast<size_t>(other)])));
    }
  const int64_t count = indices.size();
  const Tensor flat =
      scattered(call, reshape(x, {x.size()}), reshape(places, {count}), reshape(updates, {count}), join_of(call));
  return {call.like(0, reshape(flat, x.shape()))};
}

Results scatter_nd(Call& call) {
  const Tensor &x = call.tensor(0), &indices = call.tensor(1), &updates = call.tensor(2);
  call.require(indices.rank() >= 1 && indices.dim(-1) <= x.rank(), "the indices do not fit the data");
  const Shape& shape = x.shape();
  const auto n = indices.dim(-1);
  const Shape rest(shape.begin() + n, shape.end());
  const int64_t rows = elements(Shape(shape.begin(), shape.begin() + n));
  const Tensor places = joined_places(indices, shape, 0);
  Shape flat{rows}, flat_updates{places.size()};
  flat.insert(flat.end(), rest.begin(), rest.end());
  flat_updates.insert(flat_updates.end(), rest.begin(), rest.end());
  call.require(updates.size() == elements(flat_updates), "the updates do not fit the indices");
  const Tensor result = scattered(call, reshape(x, flat), reshape(places, {places.size()}),
                                  reshape(updates, flat_updates), join_of(call));
  return {call.like(0, reshape(result, shape))};
}

// A cache [B, ..., S, d] with T new rows from each batch's place on; circular ones wrap around.
Results tensor_scatter(Call& call) {
  const Tensor &cache = call.tensor(0), &update = call.tensor(1);
  const int64_t axis = call.axis(call.integer("axis", -2), cache.rank());
  call.require(axis > 0, "the axis is that of the batch");
  const std::string mode = call.text("mode", "linear");
  const int64_t B = cache.dim(0), S = cache.dim(axis), T = update.dim(axis);
  const Tensor starts = call.has(2) ? cast(call.tensor(2), DType::kInt64) : zeros({B}, DType::kInt64);
  Tensor places = add(reshape(starts, {B, 1}), iota({1, T}, 1));  // [B, T]
  if (mode == "circular") places = remainder(places, integer(S));
  places = add(places, mul(iota({B, 1}, 0), integer(S)));
  // The axis goes behind the batch, so that rows of [B * S] are set.
  Axes order{0, axis}, back(static_cast<size_t>(cache.rank()));
  for (int64_t i = 1; i < cache.rank(); ++i)
    if (i != axis) order.push_back(i);
  for (size_t i = 0; i < order.size(); ++i) back[static_cast<size_t>(order[i])] = static_cast<int64_t>(i);
  const Tensor moved = permute(cache, order), moved_update = permute(update, order);
  const Shape rest(moved.shape().begin() + 2, moved.shape().end());
  Shape rows{B * S}, new_rows{B * T};
  rows.insert(rows.end(), rest.begin(), rest.end());
  new_rows.insert(new_rows.end(), rest.begin(), rest.end());
  const Tensor result = scatter(reshape(moved, rows), reshape(places, {B * T}), reshape(moved_update, new_rows));
  return {{call.type(0), permute(reshape(result, moved.shape()), back)}};
}

Results one_hot(Call& call) {
  const Tensor& indices = call.tensor(0);
  const double given = call.number_of(call.tensor(1));
  call.require(given >= 0 && given < static_cast<double>(int64_t{1} << 32), "the depth is impossible");
  const auto depth = static_cast<int64_t>(given);
  const int64_t axis = call.axis(call.integer("axis", -1), indices.rank() + 1);
  const Tensor places = unsqueeze(from_front(indices, depth), axis);
  Shape shape = indices.shape();
  shape.insert(shape.begin() + axis, depth);
  const Tensor on = equal(places, iota(shape, axis));
  const Tensor& values = call.tensor(2);
  call.require(values.size() == 2, "expected two values");
  return {{call.type(2), select(on, reshape(slice(values, 0, 1, 2), {}), reshape(slice(values, 0, 0, 1), {}))}};
}

Results top_k_operator(Call& call) {
  const Tensor& given = call.tensor(0);
  const int64_t axis = call.axis(call.integer("axis", -1), given.rank());
  const int64_t k = call.version() < 10 ? call.integer("k") : call.integer_of(call.tensor(1));
  call.require(k >= 0 && k <= given.dim(axis), "k does not fit the axis");
  const bool largest = call.integer("largest", 1) != 0;
  const bool is_u64 = call.type(0) == ElementType::kUInt64;
  const Tensor top = integer(std::numeric_limits<int64_t>::min());
  Tensor x = is_u64 ? add(given, top) : given;
  if (is_integer(x.dtype()) && x.dtype() != DType::kInt64) x = cast(x, DType::kInt64);
  // NaN is greater than all numbers, as for NumPy and PyTorch: top_k puts it first, an ascending sort last.
  Tensor values, places;
  if (largest) {
    const int64_t last = x.rank() - 1;
    std::tie(values, places) = top_k(transpose(x, axis, last), k);
    values = transpose(values, axis, last), places = transpose(places, axis, last);
  } else {
    std::tie(values, places) = sort(x, axis, false);
    values = slice(values, axis, 0, k), places = slice(places, axis, 0, k);
  }
  values = is_u64 ? add(values, top) : cast(values, given.dtype());
  return {{call.type(0), values}, {ElementType::kInt64, places}};
}

}  // namespace

const RegisterOperators kIndexing = {{"Gather", gather_operator},
                                     {"GatherElements", gather_elements, 11},
                                     {"GatherND", gather_nd, 11},
                                     {"Scatter", scatter_elements, 9},
                                     {"ScatterElements", scatter_elements, 11},
                                     {"ScatterND", scatter_nd, 11},
                                     {"TensorScatter", tensor_scatter, 24},
                                     {"OneHot", one_hot, 9},
                                     {"TopK", top_k_operator}};

}  // namespace transom::onnx
