// SPDX-License-Identifier: Apache-2.0
// The primitives of docs/ops, each in the plainest way. A fast device has its kernels here.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <numeric>

#include "arrays.h"

namespace example {
namespace {

size_t dot(const Shape& a, const Shape& b) { return (std::inner_product(a.begin(), a.end(), b.begin(), int64_t{0})); }

// ---- element by element: floating elements as double, the others as int64, which wraps around

template <auto function>
void unary(const Arrays& in, const Attributes&, Arrays& out) {
  for (size_t i = 0; i < out[0].at.size(); ++i)
    if (in[0].floating()) out[0].at[i] = function(static_cast<double>(in[0].at[i]));
    else out[0].at[i] = static_cast<Number>(function(static_cast<int64_t>(in[0].at[i])));
}
template <auto function>
void binary(const Arrays& in, const Attributes&, Arrays& out) {
  for (size_t i = 0; i < out[0].at.size(); ++i) {
    const Number x = in[0].at[i], y = in[1].at[i];
    if (in[0].floating()) out[0].at[i] = function(static_cast<double>(x), static_cast<double>(y));
    else out[0].at[i] = static_cast<Number>(function(static_cast<int64_t>(x), static_cast<int64_t>(y)));
  }
}

int64_t add(int64_t x, int64_t y) { return static_cast<int64_t>(static_cast<uint64_t>(x) + static_cast<uint64_t>(y)); }
int64_t mul(int64_t x, int64_t y) { return static_cast<int64_t>(static_cast<uint64_t>(x) * static_cast<uint64_t>(y)); }
double add(double x, double y) { return x + y; }
double mul(double x, double y) { return x * y; }
double divide(double x, double y) { return x / y; }
int64_t divide(int64_t x, int64_t y) { return y == 0 ? 0 : y == -1 ? mul(x, -1) : x / y; }
// Of two numbers, or NaN if either is.
auto larger(auto x, auto y) { return x != x || y != y ? x + y : x > y ? x : y; }
auto smaller(auto x, auto y) { return x != x || y != y ? x + y : x < y ? x : y; }
double modulo(double x, double y) { return std::fmod(x, y); }
int64_t modulo(int64_t x, int64_t y) { return y == 0 || y == -1 ? 0 : x % y; }
auto remainder_of(auto x, auto y) {  // with the sign of y
  const auto r = modulo(x, y);
  return r != 0 && (r < 0) != (y < 0) ? r + y : r;
}
double power(double x, double y) { return std::pow(x, y); }
int64_t power(int64_t x, int64_t y) {
  if (y < 0) return x == 1 ? 1 : x == -1 ? (y % 2 ? -1 : 1) : 0;
  int64_t result = 1;
  for (; y > 0; --y) result = mul(result, x);
  return result;
}

void select(const Arrays& in, const Attributes&, Arrays& out) {
  for (size_t i = 0; i < out[0].at.size(); ++i) out[0].at[i] = in[in[0].at[i] != 0 ? 1 : 2].at[i];
}

// The least and the greatest integer of a type.
Number lowest(int32_t dtype) {
  return dtype == TRANSOM_INT8 ? -128 : dtype == TRANSOM_INT32 ? -0x1p31L : dtype == TRANSOM_INT64 ? -0x1p63L : 0;
}
Number highest(int32_t dtype) {
  static const Number ends[] = {1, 255, 127, 0x1p31L - 1, 0x1p63L - 1, 0x1p32L - 1};
  return ends[dtype];
}

void cast(const Arrays& in, const Attributes&, Arrays& out) {
  for (size_t i = 0; i < out[0].at.size(); ++i) {
    const Number x = in[0].at[i];
    if (out[0].dtype == TRANSOM_BOOL) out[0].at[i] = x != 0;
    else if (out[0].floating() || !in[0].floating()) out[0].at[i] = x;
    else if (!std::isnan(x)) out[0].at[i] = std::clamp(std::trunc(x), lowest(out[0].dtype), highest(out[0].dtype));
  }
}

// ---- reductions and lines

template <auto join>
void reduce(const Arrays& in, const Attributes& attributes, Arrays& out, Number empty) {
  std::fill(out[0].at.begin(), out[0].at.end(), empty);
  const Shape& axes = attributes.integers("axes");
  Shape strides(in[0].shape.size(), 0);
  for (int64_t axis = static_cast<int64_t>(strides.size()), stride = 1; axis-- > 0;)
    if (!std::count(axes.begin(), axes.end(), axis)) strides[axis] = stride, stride *= in[0].shape[axis];
  size_t place = 0;
  for_each_index(in[0].shape, [&](const Shape& index) {
    Number& sum = out[0].at[dot(index, strides)];
    const Number x = in[0].at[place++];
    if (out[0].floating()) sum = join(static_cast<double>(sum), static_cast<double>(x));
    else sum = static_cast<Number>(join(static_cast<int64_t>(sum), static_cast<int64_t>(x)));
  });
}
#define JOIN(name) [](auto x, auto y) { return name(x, y); }
void reduce_sum(const Arrays& in, const Attributes& a, Arrays& out) { reduce<JOIN(add)>(in, a, out, 0); }
void reduce_max(const Arrays& in, const Attributes& a, Arrays& out) {
  reduce<JOIN(larger)>(in, a, out, out[0].floating() ? -INFINITY : lowest(out[0].dtype));
}
void reduce_min(const Arrays& in, const Attributes& a, Arrays& out) {
  reduce<JOIN(smaller)>(in, a, out, out[0].floating() ? INFINITY : highest(out[0].dtype));
}

// Calls body(place of the line's first element, distance of its elements) for every line along the axis.
void for_each_line(Shape shape, size_t axis, const auto& body) {
  const Shape strides = strides_of(shape);
  if (shape[axis] == 0) return;
  shape[axis] = 1;
  for_each_index(shape, [&](const Shape& index) { body(dot(index, strides), strides[axis]); });
}

void cumulative_sum(const Arrays& in, const Attributes& attributes, Arrays& out) {
  const auto axis = attributes.integer("axis");
  for_each_line(in[0].shape, axis, [&](size_t start, size_t step) {
    Number sum = 0;
    for (int64_t i = 0; i < in[0].shape[axis]; ++i) out[0].at[start + i * step] = sum += in[0].at[start + i * step];
  });
}

// The places along each line in the order of its values, NaN first or last: visit(line's start, step, places).
void order(const Array& x, size_t axis, bool falling, bool nan_last, const auto& visit) {
  for_each_line(x.shape, axis, [&](size_t start, size_t step) {
    std::vector<size_t> places(x.shape[axis]);
    std::iota(places.begin(), places.end(), size_t{0});
    std::stable_sort(places.begin(), places.end(), [&](size_t a, size_t b) {
      const Number p = x.at[start + a * step], q = x.at[start + b * step];
      if (std::isnan(p) || std::isnan(q)) return std::isnan(nan_last ? q : p) && !std::isnan(nan_last ? p : q);
      return falling ? p > q : p < q;
    });
    visit(start, step, places);
  });
}
void sort(const Arrays& in, const Attributes& attributes, Arrays& out) {
  order(in[0], attributes.integer("axis"), attributes.integer("descending") != 0, true,
        [&](size_t start, size_t step, const std::vector<size_t>& places) {
          for (size_t i = 0; i < places.size(); ++i) {
            out[0].at[start + i * step] = in[0].at[start + places[i] * step];
            out[1].at[start + i * step] = places[i];
          }
        });
}
void top_k(const Arrays& in, const Attributes& attributes, Arrays& out) {
  size_t place = 0;
  order(in[0], in[0].shape.size() - 1, true, false, [&](size_t start, size_t, const std::vector<size_t>& places) {
    for (int64_t i = 0; i < attributes.integer("k"); ++i, ++place) {
      out[0].at[place] = in[0].at[start + places[i]];
      out[1].at[place] = places[i];
    }
  });
}
template <bool largest>
void arg(const Arrays& in, const Attributes& attributes, Arrays& out) {
  size_t line = 0;
  order(in[0], attributes.integer("axis"), largest, false,
        [&](size_t, size_t, const std::vector<size_t>& places) { out[0].at[line++] = places[0]; });
}

// ---- movement

// Between a tensor and a box of elements of another, which is seen with strides of its own.
void read_box(const Array& from, size_t start, const Shape& strides, Array& to) {
  size_t place = 0;
  for_each_index(to.shape, [&](const Shape& index) { to.at[place++] = from.at[start + dot(index, strides)]; });
}
void write_box(const Array& from, Array& to, size_t start) {
  const Shape strides = strides_of(to.shape);
  size_t place = 0;
  for_each_index(from.shape, [&](const Shape& index) { to.at[start + dot(index, strides)] = from.at[place++]; });
}

void reshape(const Arrays& in, const Attributes&, Arrays& out) { out[0].at = in[0].at; }
void permute(const Arrays& in, const Attributes& attributes, Arrays& out) {
  Shape strides;
  for (const int64_t axis : attributes.integers("permutation")) strides.push_back(strides_of(in[0].shape)[axis]);
  read_box(in[0], 0, strides, out[0]);
}
void broadcast(const Arrays& in, const Attributes&, Arrays& out) {
  Shape strides = strides_of(in[0].shape);
  for (size_t i = 0; i < strides.size(); ++i)
    if (in[0].shape[i] != out[0].shape[i]) strides[i] = 0;
  read_box(in[0], 0, strides, out[0]);
}
void slice(const Arrays& in, const Attributes& attributes, Arrays& out) {
  Shape strides = strides_of(in[0].shape);
  const size_t start = dot(attributes.integers("starts"), strides);
  for (size_t i = 0; i < strides.size(); ++i) strides[i] *= attributes.integers("strides")[i];
  read_box(in[0], start, strides, out[0]);
}
void pad(const Arrays& in, const Attributes& attributes, Arrays& out) {
  std::fill(out[0].at.begin(), out[0].at.end(), attributes.number("value"));
  write_box(in[0], out[0], dot(attributes.integers("low"), strides_of(out[0].shape)));
}
void concatenate(const Arrays& in, const Attributes& attributes, Arrays& out) {
  const auto axis = attributes.integer("axis");
  int64_t start = 0;
  for (const Array& part : in) {
    write_box(part, out[0], start);
    start += part.shape[axis] * strides_of(out[0].shape)[axis];
  }
}
void reverse(const Arrays& in, const Attributes& attributes, Arrays& out) {
  Shape strides = strides_of(in[0].shape);
  int64_t start = 0;
  for (const int64_t axis : attributes.integers("axes")) {
    start += (in[0].shape[axis] - 1) * strides[axis];
    strides[axis] *= -1;
  }
  read_box(in[0], start, strides, out[0]);
}

// ---- indexing

// Calls body(place in x, place in the other side) for every element that the indices pick.
void for_each_pick(const Shape& x, const Array& indices, const Attributes& attributes, const auto& body) {
  const int64_t axis = attributes.integer("axis"), extent = x[axis];
  const int64_t outer = count_of(Shape(x.begin(), x.begin() + axis));
  const int64_t inner = count_of(Shape(x.begin() + axis + 1, x.end()));
  size_t place = 0;
  for (int64_t o = 0; o < outer; ++o)
    for (const Number index : indices.at)
      for (int64_t i = 0; i < inner; ++i) body(((o * extent + static_cast<int64_t>(index)) * inner + i), place++);
}
void gather(const Arrays& in, const Attributes& attributes, Arrays& out) {
  for_each_pick(in[0].shape, in[1], attributes, [&](size_t x, size_t y) { out[0].at[y] = in[0].at[x]; });
}
void scatter_add(const Arrays& in, const Attributes& attributes, Arrays& out) {
  out[0].at = in[0].at;
  for_each_pick(in[0].shape, in[1], attributes, [&](size_t x, size_t y) { out[0].at[x] += in[2].at[y]; });
}

// Where a window starts, moved inwards until it fits.
size_t window_start(const Array& starts, const Shape& x, const Shape& window) {
  Shape start;
  for (size_t i = 0; i < x.size(); ++i)
    start.push_back(std::clamp<int64_t>(static_cast<int64_t>(starts.at[i]), 0, x[i] - window[i]));
  return dot(start, strides_of(x));
}
void dynamic_slice(const Arrays& in, const Attributes&, Arrays& out) {
  read_box(in[0], window_start(in[1], in[0].shape, out[0].shape), strides_of(in[0].shape), out[0]);
}
void dynamic_update_slice(const Arrays& in, const Attributes&, Arrays& out) {
  out[0].at = in[0].at;
  write_box(in[1], out[0], window_start(in[2], in[0].shape, in[1].shape));
}

// ---- what has no input, and random numbers

void iota(const Arrays&, const Attributes& attributes, Arrays& out) {
  size_t place = 0;
  const auto axis = attributes.integer("axis");
  for_each_index(out[0].shape, [&](const Shape& index) { out[0].at[place++] = static_cast<Number>(index[axis]); });
}
void constant(const Arrays&, const Attributes& a, Arrays& out) {
  out[0].at[0] = out[0].floating() ? a.number("value") : static_cast<Number>(a.integer("int_value"));
}
void random_bits(const Arrays& in, const Attributes&, Arrays& out) {  // Philox4x32-10 (Salmon et al., 2011)
  const auto seed = static_cast<uint64_t>(static_cast<int64_t>(in[0].at[0]));
  const auto offset = static_cast<uint64_t>(static_cast<int64_t>(in[0].at[1]));
  const auto low = [](uint64_t x) { return static_cast<uint32_t>(x); };
  const auto high = [](uint64_t x) { return static_cast<uint32_t>(x >> 32); };
  for (size_t i = 0; i < out[0].at.size(); i += 4) {
    uint32_t c[4] = {low(i / 4), high(i / 4), low(offset), high(offset)}, key[2] = {low(seed), high(seed)};
    for (int round = 0; round < 10; ++round, key[0] += 0x9E3779B9, key[1] += 0xBB67AE85) {
      const uint64_t p = uint64_t{0xD2511F53} * c[0], q = uint64_t{0xCD9E8D57} * c[2];
      const uint32_t next[4] = {high(q) ^ c[1] ^ key[0], low(q), high(p) ^ c[3] ^ key[1], low(p)};
      std::copy(next, next + 4, c);
    }
    for (size_t k = i; k < std::min(i + 4, out[0].at.size()); ++k) out[0].at[k] = c[k - i];
  }
}

// ---- products

// Places in a tensor of all combinations of the axes, in the order of `axes`.
std::vector<size_t> places_along(const Shape& shape, const Shape& axes) {
  Shape extents, strides;
  for (const int64_t axis : axes) {
    extents.push_back(shape[axis]);
    strides.push_back(strides_of(shape)[axis]);
  }
  std::vector<size_t> places;
  for_each_index(extents, [&](const Shape& index) { places.push_back(dot(index, strides)); });
  return places;
}
void dot_general(const Arrays& in, const Attributes& attributes, Arrays& out) {
  std::vector<size_t> batch[2], sum[2], other[2];
  for (const int side : {0, 1}) {
    const std::string prefix = side ? "y_" : "x_";
    const Shape &batch_axes = attributes.integers((prefix + "batch").c_str()),
                &sum_axes = attributes.integers((prefix + "contract").c_str());
    Shape other_axes;
    for (int64_t axis = 0; axis < static_cast<int64_t>(in[side].shape.size()); ++axis)
      if (!std::count(batch_axes.begin(), batch_axes.end(), axis) &&
          !std::count(sum_axes.begin(), sum_axes.end(), axis))
        other_axes.push_back(axis);
    batch[side] = places_along(in[side].shape, batch_axes);
    sum[side] = places_along(in[side].shape, sum_axes);
    other[side] = places_along(in[side].shape, other_axes);
  }
  size_t place = 0;
  for (size_t b = 0; b < batch[0].size(); ++b)
    for (const size_t row : other[0])
      for (const size_t column : other[1]) {
        Number total = 0;
        for (size_t k = 0; k < sum[0].size(); ++k)
          total += in[0].at[batch[0][b] + row + sum[0][k]] * in[1].at[batch[1][b] + column + sum[1][k]];
        out[0].at[place++] = total;
      }
}

// visit(x, w, y): the places of every product of a convolution.
void convolve(const Shape& x, const Shape& w, const Shape& y, const Attributes& attributes, const auto& visit) {
  const Shape xs = strides_of(x), ws = strides_of(w), ys = strides_of(y);
  const Shape &strides = attributes.integers("strides"), &low = attributes.integers("low");
  const Shape& dilations = attributes.integers("dilations");
  const int64_t outputs_of_group = y[1] / attributes.integer("groups");
  for_each_index(y, [&](const Shape& at) {
    for_each_index(Shape(w.begin() + 1, w.end()), [&](const Shape& tap) {
      int64_t from = at[0] * xs[0] + (at[1] / outputs_of_group * w[1] + tap[0]) * xs[1];
      int64_t weight = at[1] * ws[0] + tap[0] * ws[1];
      for (size_t i = 0; i < strides.size(); ++i) {
        const int64_t position = at[i + 2] * strides[i] - low[i] + tap[i + 1] * dilations[i];
        if (position < 0 || position >= x[i + 2]) return;
        from += position * xs[i + 2], weight += tap[i + 1] * ws[i + 2];
      }
      visit(from, weight, dot(at, ys));
    });
  });
}
void convolution(const Arrays& in, const Attributes& attributes, Arrays& out) {
  convolve(in[0].shape, in[1].shape, out[0].shape, attributes,
           [&](size_t x, size_t w, size_t y) { out[0].at[y] += in[0].at[x] * in[1].at[w]; });
}
void convolution_input_gradient(const Arrays& in, const Attributes& attributes, Arrays& out) {
  convolve(out[0].shape, in[1].shape, in[0].shape, attributes,
           [&](size_t x, size_t w, size_t y) { out[0].at[x] += in[0].at[y] * in[1].at[w]; });
}
void convolution_weight_gradient(const Arrays& in, const Attributes& attributes, Arrays& out) {
  convolve(in[0].shape, out[0].shape, in[1].shape, attributes,
           [&](size_t x, size_t w, size_t y) { out[0].at[w] += in[0].at[x] * in[1].at[y]; });
}

}  // namespace

// clang-format off
#define UNARY(expression) unary<[](auto x) { return (expression); }>
#define BINARY(expression) binary<[](auto x, auto y) { return (expression); }>
#define BITS(op) binary<[](auto x, auto y) { return static_cast<int64_t>(x) op static_cast<int64_t>(y); }>
#define ENTRY(name) {#name, name}

// One pair more on the cheapest path of exchanges, until no row or no column is left (Bellman and Ford's search).
void assign(const Number* cost, const Number* counted, int64_t rows, int64_t columns, Number* row_of) {
  constexpr Number kFar = std::numeric_limits<Number>::infinity();
  const auto at = [&](int64_t r, int64_t c) {
    const Number value = cost[r * columns + c];
    return std::isfinite(value) ? value : Number(std::numeric_limits<float>::max());
  };
  std::fill(row_of, row_of + columns, -1);
  for (std::vector<int64_t> column_of(rows, -1);;) {
    std::vector<Number> to_row(rows, kFar), to_column(columns, kFar);
    std::vector<int64_t> before(rows, -1);
    for (int64_t c = 0; c < columns; ++c)
      if (counted[c] != 0 && row_of[c] < 0) to_column[c] = 0;
    for (bool shorter = true; shorter;) {
      shorter = false;
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t c = 0; c < columns; ++c)
          if (column_of[r] != c && to_column[c] + at(r, c) < to_row[r] - Number(1e-12))
            to_row[r] = to_column[c] + at(r, c), before[r] = c, shorter = true;
      for (int64_t r = 0; r < rows; ++r)
        if (const int64_t c = column_of[r]; c >= 0) to_column[c] = to_row[r] - at(r, c);
    }
    int64_t end = -1;
    for (int64_t r = 0; r < rows; ++r)
      if (column_of[r] < 0 && to_row[r] < kFar && (end < 0 || to_row[r] < to_row[end])) end = r;
    if (end < 0) return;
    for (int64_t r = end; r >= 0;) {
      const int64_t c = before[r], next = row_of[c];
      column_of[r] = c, row_of[c] = r, r = next;
    }
  }
}
void linear_sum_assignment(const Arrays& in, const Attributes&, Arrays& out) {
  const Shape& shape = in[0].shape;
  for (int64_t b = 0; b < shape[0]; ++b)
    assign(in[0].at.data() + b * shape[1] * shape[2], in[1].at.data() + b * shape[2], shape[1], shape[2],
           out[0].at.data() + b * shape[2]);
}

Compute find_operation(const std::string& name) {
  static const std::map<std::string, Compute> table = {
      {"neg", UNARY(-x)}, {"abs", UNARY(x < 0 ? -x : x == 0 ? 0 : x)}, {"sign", UNARY(x > 0 ? 1 : x < 0 ? -1 : x)},
      {"exp", UNARY(std::exp(x))}, {"expm1", UNARY(std::expm1(x))}, {"log", UNARY(std::log(x))},
      {"log1p", UNARY(std::log1p(x))}, {"sqrt", UNARY(std::sqrt(x))}, {"rsqrt", UNARY(1 / std::sqrt(x))},
      {"tanh", UNARY(std::tanh(x))}, {"erf", UNARY(std::erf(x))}, {"sin", UNARY(std::sin(x))},
      {"cos", UNARY(std::cos(x))}, {"floor", UNARY(std::floor(x))}, {"ceil", UNARY(std::ceil(x))},
      {"round", UNARY(std::nearbyint(x))}, {"logical_not", UNARY(x == 0)}, {"is_finite", UNARY(std::isfinite(x))},
      {"add", BINARY(add(x, y))}, {"sub", BINARY(add(x, -y))}, {"mul", BINARY(mul(x, y))},
      {"div", BINARY(divide(x, y))}, {"pow", BINARY(power(x, y))}, {"remainder", BINARY(remainder_of(x, y))},
      {"max", BINARY(larger(x, y))}, {"min", BINARY(smaller(x, y))},
      {"logical_and", BITS(&)}, {"logical_or", BITS(|)}, {"logical_xor", BITS(^)},
      {"equal", BINARY(x == y)}, {"not_equal", BINARY(x != y)}, {"less", BINARY(x < y)},
      {"less_equal", BINARY(x <= y)}, {"greater", BINARY(x > y)}, {"greater_equal", BINARY(x >= y)},
      ENTRY(select), ENTRY(cast), ENTRY(reduce_sum), ENTRY(reduce_max), ENTRY(reduce_min), ENTRY(cumulative_sum),
      ENTRY(sort), ENTRY(top_k), ENTRY(linear_sum_assignment), {"arg_max", arg<true>}, {"arg_min", arg<false>}, ENTRY(reshape), ENTRY(permute),
      ENTRY(broadcast), ENTRY(slice), ENTRY(pad), ENTRY(concatenate), ENTRY(reverse), ENTRY(gather),
      ENTRY(scatter_add), ENTRY(dynamic_slice), ENTRY(dynamic_update_slice), ENTRY(iota), ENTRY(constant),
      ENTRY(random_bits), ENTRY(dot_general), ENTRY(convolution), ENTRY(convolution_input_gradient),
      ENTRY(convolution_weight_gradient)};
  // clang-format on
  const auto found = table.find(name);
  return found == table.end() ? nullptr : found->second;
}

// ---- elements

Array load(const void* bytes, int32_t dtype, const Shape& shape) {
  Array array{dtype, shape, std::vector<Number>(count_of(shape))};
  with_element(dtype, [&](auto element) {
    const char* place = static_cast<const char*>(bytes);
    for (Number& value : array.at) {
      std::memcpy(&element, place, sizeof element);  // imported memory may be unaligned
      value = static_cast<Number>(element);
      place += sizeof element;
    }
  });
  return array;
}

void store(const Array& array, void* bytes) {
  with_element(array.dtype, [&](auto element) {
    char* place = static_cast<char*>(bytes);
    for (const Number value : array.at) {
      if (array.floating()) element = static_cast<decltype(element)>(value);
      else element = static_cast<decltype(element)>(static_cast<int64_t>(value));  // integers wrap around
      std::memcpy(place, &element, sizeof element);
      place += sizeof element;
    }
  });
}

}  // namespace example
