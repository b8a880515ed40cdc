// SPDX-License-Identifier: Apache-2.0
#include "models/sharding/rewrite/reshard.h"

#include <algorithm>
#include <numeric>
#include <string_view>

#include "base/error.h"
#include "graph/ops/movement/collectives.h"
#include "graph/passes/graph_builder.h"
#include "transom/ops.h"

namespace transom {
namespace {

// A dimension of a local tensor as three: what is outside of a cut, its units, and what is inside.
struct Exposed {
  Tensor x;
  int64_t dimension;  // of the units
  Shape before, after;
  Tensor closed(const Tensor& y) const {
    Shape shape = before;
    shape.push_back(y.dim(dimension - 1) * y.dim(dimension) * y.dim(dimension + 1));
    shape.insert(shape.end(), after.begin(), after.end());
    return reshape(y, shape);
  }
};

int64_t local_inner(const ProcessMesh& mesh, const Cuts& cuts, size_t cut) {
  int64_t inner = cuts[cut].inner;
  for (size_t i = cut + 1; i < cuts.size(); ++i) inner /= cuts[i].units;
  for (size_t i = cut + 1; i < cuts.size(); ++i) inner *= local_units(mesh, cuts[i]).size();
  return inner;
}

Exposed expose(const Tensor& local, size_t dimension, int64_t units, int64_t inner) {
  const Shape& shape = local.shape();
  Exposed result{{},
                 static_cast<int64_t>(dimension) + 1,
                 Shape(shape.begin(), shape.begin() + static_cast<long>(dimension)),
                 Shape(shape.begin() + static_cast<long>(dimension) + 1, shape.end())};
  Shape wide = result.before;
  const int64_t extent = shape[dimension];
  wide.insert(wide.end(), {units * inner == 0 ? 0 : extent / (units * inner), units, inner});
  wide.insert(wide.end(), result.after.begin(), result.after.end());
  result.x = reshape(local, wide);
  return result;
}

// Where only dimensions of one element change places nothing moves in memory.
Tensor permuted(const Tensor& x, const Axes& order) {
  Axes moved;
  Shape shape;
  for (const int64_t axis : order) {
    shape.push_back(x.dim(axis));
    if (x.dim(axis) != 1) moved.push_back(axis);
  }
  return std::is_sorted(moved.begin(), moved.end()) ? reshape(x, shape) : permute(x, order);
}

Tensor front(const Tensor& x, int64_t dimension) {  // dimension -> 0
  if (dimension == 0) return x;
  Axes order{dimension};
  for (int64_t i = 0; i < x.rank(); ++i)
    if (i != dimension) order.push_back(i);
  return permuted(x, order);
}
Tensor back(const Tensor& x, int64_t dimension) {  // 0 -> dimension
  if (dimension == 0) return x;
  Axes order;
  for (int64_t i = 1; i < x.rank(); ++i) order.push_back(i);
  order.insert(order.begin() + dimension, 0);
  return permuted(x, order);
}

// Then what is missing stands at the end of all parts together.
bool fills_all_but_the_last(const std::vector<int64_t>& extents, int64_t largest) {
  return extents.back() < largest &&
         std::all_of(extents.begin(), extents.end() - 1, [&](int64_t extent) { return extent == largest; });
}

Tensor padded_rows(const Tensor& x, int64_t rows) {
  if (x.dim(0) == rows) return x;
  Axes low(static_cast<size_t>(x.rank())), high(static_cast<size_t>(x.rank()));
  high[0] = rows - x.dim(0);
  return pad(x, low, high);
}

bool starts_with(const std::vector<MeshAxis>& list, const std::vector<MeshAxis>& prefix) {
  return prefix.size() <= list.size() && std::equal(prefix.begin(), prefix.end(), list.begin());
}

}  // namespace

namespace {

Tensor sliced_at(const Tensor& x, int64_t dimension, int64_t begin, int64_t end, int depth) {
  if (begin == 0 && end == x.dim(dimension)) return x;
  const Node& node = *x.node();
  if (!node.computed(x.output()) && !node.inputs.empty() && depth > 0) {
    Shape shape = x.shape();
    shape[static_cast<size_t>(dimension)] = end - begin;
    if (is_op(node, op::broadcast)) {
      const Tensor& from = node.inputs[0];
      return broadcast_to(from.dim(dimension) == 1 ? from : sliced_at(from, dimension, begin, end, depth - 1), shape);
    }
    if (is_op(node, op::random_bits) && dimension == 0) {  // what comes behind is not drawn
      shape[0] = end;
      return slice(random_bits(node.inputs[0], shape), 0, begin, end);
    }
    if (node.operation->elementwise && node.types.size() == 1) {
      std::vector<Tensor> inputs;
      for (const Tensor& input : node.inputs) inputs.push_back(sliced_at(input, dimension, begin, end, depth - 1));
      return make_tensor(*node.operation, std::move(inputs), node.attributes);
    }
  }
  return slice(x, dimension, begin, end);
}

}  // namespace

Tensor sliced(const Tensor& x, int64_t dimension, int64_t begin, int64_t end) {
  constexpr int kDepth = 4;  // of chains of elements that are made again for the part
  return sliced_at(x, dimension, begin, end, kDepth);
}

Attributes Resharder::attributes_of(MeshAxes axes) {
  const int64_t processes = mesh_.size(axes);
  Attributes attributes{{"order", next_order_++}, {"processes", processes}};
  if (processes < mesh_.ranks()) attributes.set("group", mesh_.group(axes));
  return attributes;
}

void Resharder::record(const char* kind, const Tensor& x, MeshAxes axes) {
  records_.push_back({kind, axes, x.size() * static_cast<int64_t>(size_of(x.dtype())), *current_scope()});
}

Tensor Resharder::collective(const char* kind, const Tensor& x, MeshAxes axes) {
  Attributes attributes = attributes_of(axes);
  // Of what another process owns: nobody in this group has any of it.
  if (x.size() == 0) {
    const int64_t processes = mesh_.size(axes);
    Shape shape = x.shape();
    if (std::string_view(kind) == "all_gather") shape[0] *= processes;
    if (std::string_view(kind) == "reduce_scatter") shape[0] /= processes;
    return zeros(shape, x.dtype());
  }
  if (purpose_ != Purpose::kValues) {
    const bool parameters = purpose_ == Purpose::kParameters;
    CollectiveUnits& units = parameters ? parameter_units_ : gradient_units_;
    const int64_t bytes = x.size() * static_cast<int64_t>(size_of(x.dtype())) * (parameters ? mesh_.size(axes) : 1);
    attributes.set("unit", units.next(*current_scope(), bytes));
    if (parameters) attributes.set("late", attributes.get_int("unit"));
  }
  record(kind, x, axes);
  return make_tensor(find_operation(kind), {x}, attributes);
}

Tensor Resharder::shifted(const Tensor& local, MeshAxis axis, int64_t shift, const Shape& shape, const Tensor& after) {
  const Attributes attributes = attributes_of({axis});
  record("collective_permute", local, {axis});
  const Axes group = attributes.has("group") ? attributes.get_ints("group") : Axes();
  return collective_permute(local, attributes.get_int("processes"), shift, shape, attributes.get_int("order"), group,
                            after);
}

Tensor Resharder::stacked(const Tensor& local, MeshAxes axes) {
  return collective("all_gather", unsqueeze(local, 0), axes);
}

void Resharder::sum(ShardedValue& value, MeshAxes axes) {
  // Collectives sum floats alone.
  value.local = is_floating(value.local.dtype()) ? collective("all_reduce", value.local, axes)
                                                 : reduce_sum(stacked(value.local, axes), {0});
  value.placement.partial = value.placement.partial.without(axes);
}

// Takes the last axis off the cut.
void Resharder::gather_last_axis(ShardedValue& value, size_t dimension, size_t number) {
  Cuts& cuts = value.placement.dimensions[dimension];
  Cut& cut = cuts[number];
  const MeshAxis axis = cut.axes.back();
  std::vector<int64_t> places;
  for (const MeshAxis each : cut.axes) places.push_back(mesh_.coordinate(each));
  std::vector<int64_t> extents;
  for (int64_t i = 0; i < mesh_.size(axis); ++i) {
    places.back() = i;
    extents.push_back(units_of(mesh_, cut, places).size());
  }
  const int64_t largest = *std::max_element(extents.begin(), extents.end());
  const bool even = largest == *std::min_element(extents.begin(), extents.end());
  const Exposed exposed =
      expose(value.local, dimension, local_units(mesh_, cut).size(), local_inner(mesh_, cuts, number));
  const Tensor all = collective("all_gather", padded_rows(front(exposed.x, exposed.dimension), largest), {axis});
  Tensor joined = all;
  if (fills_all_but_the_last(extents, largest)) {
    joined = slice(all, 0, 0, std::accumulate(extents.begin(), extents.end(), int64_t{0}));
  } else if (!even) {
    std::vector<Tensor> parts;
    for (size_t i = 0; i < extents.size(); ++i) {
      const int64_t begin = static_cast<int64_t>(i) * largest;
      parts.push_back(slice(all, 0, begin, begin + extents[i]));
    }
    joined = concatenate(parts, 0);
  }
  value.local = exposed.closed(back(joined, exposed.dimension));
  cut.axes.pop_back();
  if (cut.axes.empty()) cuts.erase(cuts.begin() + static_cast<long>(number));
  else cut = make_cut(mesh_, cut.axes, cut.units, cut.inner);
}

// `cut` has one axis more than the dimension has now, over which the value is partial.
void Resharder::scatter_sum(ShardedValue& value, size_t dimension, const Cut& cut) {
  const MeshAxis axis = cut.axes.back();
  Cut before = cut;
  before.axes.pop_back();
  const Range mine_before = local_units(mesh_, before);
  std::vector<Range> ranges;
  for (int64_t i = 0; i < mesh_.size(axis); ++i) ranges.push_back(part_of(mine_before, i, mesh_.size(axis)));
  int64_t largest = 0;
  for (const Range& range : ranges) largest = std::max(largest, range.size());
  const Exposed exposed = expose(value.local, dimension, mine_before.size(), cut.inner);
  const Tensor rows = front(exposed.x, exposed.dimension);
  Tensor given = rows;
  std::vector<int64_t> extents;
  for (const Range& range : ranges) extents.push_back(range.size());
  if (fills_all_but_the_last(extents, largest)) {
    given = padded_rows(rows, largest * mesh_.size(axis));
  } else if (largest * mesh_.size(axis) != rows.dim(0)) {
    std::vector<Tensor> parts;
    for (const Range& range : ranges)
      parts.push_back(
          padded_rows(slice(rows, 0, range.begin - mine_before.begin, range.end - mine_before.begin), largest));
    given = concatenate(parts, 0);
  }
  const Tensor mine = collective("reduce_scatter", given, {axis});
  const int64_t extent = ranges[static_cast<size_t>(mesh_.coordinate(axis))].size();
  value.local = exposed.closed(back(extent == largest ? mine : slice(mine, 0, 0, extent), exposed.dimension));
  value.placement.partial.remove(axis);
  value.placement.dimensions[dimension] = {make_cut(mesh_, cut.axes, cut.units, cut.inner)};
}

// The dimension is whole, or cut by the first axes of `cut`.
void Resharder::slice_along(ShardedValue& value, size_t dimension, const Cut& cut) {
  Cuts& cuts = value.placement.dimensions[dimension];
  Cut before = cut;
  before.axes = cuts.empty() ? std::vector<MeshAxis>() : cuts[0].axes;
  const Range from = local_units(mesh_, before), to = local_units(mesh_, cut);
  const int64_t begin = to.begin - from.begin, end = to.end - from.begin;
  if (from.size() * cut.inner == value.local.dim(static_cast<int64_t>(dimension))) {
    value.local = sliced(value.local, static_cast<int64_t>(dimension), begin * cut.inner, end * cut.inner);
  } else {
    const Exposed exposed = expose(value.local, dimension, from.size(), cut.inner);
    value.local = exposed.closed(slice(exposed.x, exposed.dimension, begin, end));
  }
  cuts = {cut};
}

// What one process owns is the sum of that and of zeros.
void Resharder::share_owned(ShardedValue& value, size_t dimension) {
  Cuts& cuts = value.placement.dimensions[dimension];
  const auto owned = std::find_if(cuts.begin(), cuts.end(), [](const Cut& cut) { return cut.owner >= 0; });
  const bool mine = local_units(mesh_, *owned).size() > 0;
  for (const MeshAxis axis : owned->axes) value.placement.partial.add(axis);
  cuts.erase(owned);
  if (!mine) value.local = zeros(local_shape(mesh_, value.placement, value.shape), value.local.dtype());
}

// Whether `more` is `less` cut by one axis more, which is `axis`, within the same borders.
bool Resharder::adds_axis(const Cuts& less, const Cuts& more, MeshAxis axis) const {
  if (more.size() != 1 || less.size() > 1 || more[0].axes.back() != axis) return false;
  if (less.empty()) return more[0].axes.size() == 1;
  std::vector<MeshAxis> before = more[0].axes;
  before.pop_back();
  return !before.empty() && less[0] == with_axes(mesh_, more[0], before);
}

// From dimension to dimension in one step: what Ulysses does between places and heads.
bool Resharder::try_all_to_all(ShardedValue& value, const Placement& target) {
  if (owned_dimension(value.placement) < value.shape.size() || owned_dimension(target) < value.shape.size())
    return false;
  if (value.placement.partial != target.partial) return false;
  for (size_t from = 0; from < target.dimensions.size(); ++from)
    for (size_t to = 0; to < target.dimensions.size(); ++to) {
      const Cuts &now = value.placement.dimensions[from], &then = target.dimensions[to];
      if (from == to || now.size() != 1 || then.size() != 1) continue;
      const MeshAxis axis = now[0].axes.back();
      if (!adds_axis(target.dimensions[from], now, axis) || !adds_axis(value.placement.dimensions[to], then, axis))
        continue;
      const auto is_contiguous = [&](const Cut& cut, size_t d) { return cut.units * cut.inner == value.shape[d]; };
      if (has_one_unit_each(now[0]) && has_one_unit_each(then[0]))
        exchange_even(value, from, to, axis, now[0].inner, then[0].inner);
      else if (is_contiguous(now[0], from) && is_contiguous(then[0], to)) exchange(value, from, to, now[0], then[0]);
      else continue;
      value.placement.dimensions[from] = target.dimensions[from];
      value.placement.dimensions[to] = then;
      return true;
    }
  return false;
}

bool Resharder::has_one_unit_each(const Cut& cut) const {
  int64_t parts = 1;
  for (const MeshAxis axis : cut.axes) parts *= mesh_.size(axis);
  return cut.units == parts;
}

// Parts of one size: `inner_from` and `inner_to` elements lie together in a unit.
void Resharder::exchange_even(ShardedValue& value, size_t from, size_t to, MeshAxis axis, int64_t inner_from,
                              int64_t inner_to) {
  const int64_t n = mesh_.size(axis), rank = value.local.rank();
  const Exposed exposed = expose(value.local, to, n, inner_to);
  // [n, ...] of what is for each; then from each, with its place in `from`.
  const Tensor got = collective("all_to_all", front(exposed.x, exposed.dimension), {axis});
  // got: [n] + dims of exposed without the units: before(to), outer, inner, after.
  const auto from_place = static_cast<int64_t>(from < to ? from + 1 : from + 2);
  Shape split = got.shape();
  split[static_cast<size_t>(from_place)] = got.dim(from_place) / inner_from;
  split.insert(split.begin() + from_place + 1, inner_from);
  const Tensor wide = reshape(got, split);
  // Units of `from` are one for each process: [outer, 1 of n, inner].
  Axes order;  // bring the processes in front of what `from` is local of
  for (int64_t i = 1; i < wide.rank(); ++i) {
    order.push_back(i);
    if (i == from_place) order.push_back(0);
  }
  Shape shape;
  for (int64_t d = 0; d < rank; ++d) {
    const auto at = static_cast<size_t>(d);
    shape.push_back(at == from ? value.local.dim(d) * n : at == to ? value.local.dim(d) / n : value.local.dim(d));
  }
  value.local = reshape(permuted(wide, order), shape);
}

// Parts of several sizes, which travel as large as the largest.
void Resharder::exchange(ShardedValue& value, size_t from, size_t to, const Cut& now, const Cut& then) {
  const MeshAxis axis = now.axes.back();
  const int64_t n = mesh_.size(axis);
  struct Pieces {
    std::vector<Range> ranges;  // of elements, in what is there without the axis
    int64_t largest = 0;
  };
  const auto pieces_of = [&](Cut cut) {
    cut.axes.pop_back();
    const Range whole = local_units(mesh_, cut);
    Pieces pieces;
    for (int64_t i = 0; i < n; ++i) {
      const Range part = part_of(whole, i, n);
      pieces.ranges.push_back({(part.begin - whole.begin) * cut.inner, (part.end - whole.begin) * cut.inner});
      pieces.largest = std::max(pieces.largest, pieces.ranges.back().size());
    }
    return pieces;
  };
  const Pieces of_from = pieces_of(now), of_to = pieces_of(then);
  const auto f = static_cast<int64_t>(from), t = static_cast<int64_t>(to);
  std::vector<Tensor> given, joined;
  for (const Range& range : of_to.ranges) {
    Axes low(static_cast<size_t>(value.local.rank())), high = low;
    high[from] = of_from.largest - value.local.dim(f);
    high[to] = of_to.largest - range.size();
    const Tensor part = slice(value.local, t, range.begin, range.end);
    given.push_back(unsqueeze(high[from] + high[to] == 0 ? part : pad(part, low, high), 0));
  }
  const Tensor got = collective("all_to_all", concatenate(given, 0), {axis});
  const int64_t mine = of_to.ranges[static_cast<size_t>(mesh_.coordinate(axis))].size();
  for (int64_t i = 0; i < n; ++i) {
    const Tensor part = squeeze(slice(got, 0, i, i + 1), 0);
    joined.push_back(slice(slice(part, t, 0, mine), f, 0, of_from.ranges[static_cast<size_t>(i)].size()));
  }
  value.local = concatenate(joined, f);
}

ShardedValue Resharder::reshard(const ShardedValue& given, const Placement& target) {
  ShardedValue value = given;
  if (value.placement == target) return value;
  if (target.dimensions.size() != value.shape.size())
    fail(ErrorKind::kInternal, "a placement of {} dimensions for a tensor of {}", target.dimensions.size(),
         to_string(value.shape));
  if (const size_t d = moved_joined_dimension(value.placement, target); d < value.shape.size())
    return reshard_joined(value, target, d);
  if (const size_t d = owned_dimension(value.placement);
      d < value.shape.size() && value.placement.dimensions[d] != target.dimensions[d])
    share_owned(value, d);
  while (try_all_to_all(value, target)) {
  }
  // Sums that are wanted in parts.
  for (size_t d = 0; d < target.dimensions.size(); ++d) {
    const Cuts& then = target.dimensions[d];
    if (then.size() != 1 || then[0].owner >= 0 || !is_floating(value.local.dtype())) continue;
    while (true) {
      const Cuts& now = value.placement.dimensions[d];
      if (now.size() > 1) break;
      const size_t have = now.empty() ? 0 : now[0].axes.size();
      if (have >= then[0].axes.size() || (have > 0 && !starts_with(then[0].axes, now[0].axes))) break;
      const MeshAxis next = then[0].axes[have];
      if (!value.placement.partial.has(next) || target.partial.has(next)) break;
      Cut cut = then[0];
      cut.axes.resize(have + 1);
      scatter_sum(value, d, cut);
      if (have + 1 < then[0].axes.size()) {
        // The form with all axes is what the next step compares with.
        value.placement.dimensions[d] = {Cut{cut.axes, then[0].units, then[0].inner, -1}};
      }
    }
  }
  if (const MeshAxes rest = value.placement.partial.without(target.partial); !rest.empty()) sum(value, rest);
  // Cuts that the target does not have.
  for (size_t d = 0; d < target.dimensions.size(); ++d) {
    const Cuts& then = target.dimensions[d];
    const auto fits = [&] {
      const Cuts& now = value.placement.dimensions[d];
      if (now == then || now.empty()) return true;
      if (now.size() != 1 || then.size() != 1 || !starts_with(then[0].axes, now[0].axes)) return false;
      // The same borders as far as both go.
      return with_axes(mesh_, then[0], now[0].axes) == with_axes(mesh_, now[0], now[0].axes);
    };
    while (!fits()) gather_last_axis(value, d, value.placement.dimensions[d].size() - 1);
  }
  for (size_t d = 0; d < target.dimensions.size(); ++d) {
    const Cuts& then = target.dimensions[d];
    if (value.placement.dimensions[d] == then) continue;
    if (then.size() == 1) {
      slice_along(value, d, then[0]);
      continue;
    }
    // Several cuts of a whole dimension, from the inner one outwards.
    const Tensor whole = value.local;
    Tensor local = whole;
    for (size_t c = then.size(); c-- > 0;) {
      int64_t inner = then[c].inner;
      for (size_t i = c + 1; i < then.size(); ++i) inner = inner / then[i].units * local_units(mesh_, then[i]).size();
      const Exposed exposed = expose(local, d, then[c].units, inner);
      const Range mine = local_units(mesh_, then[c]);
      local = exposed.closed(slice(exposed.x, exposed.dimension, mine.begin, mine.end));
    }
    value.local = local;
    value.placement.dimensions[d] = then;
  }
  // What all have is the sum of what the first has and zeros.
  for (const MeshAxis axis : kAllMeshAxes)
    if (target.partial.has(axis) && !value.placement.partial.has(axis)) {
      // Computed all the same: what it comes from may hold collectives, in which this process must take part.
      if (mesh_.coordinate(axis) != 0) value.local = value.local * 0.0;
      value.placement.partial.add(axis);
    }
  return value;
}

}  // namespace transom
