// SPDX-License-Identifier: Apache-2.0
// Reading of convolution nodes, and plain loops for the types that the library does not compute on.
#include <algorithm>
#include <array>
#include <cstring>

#include "cpu/convolution/convolution_shape.h"
#include "cpu/device/threads.h"
#include "cpu/kernels/movement/views.h"
#include "cpu/products/apart/panel_product.h"

namespace transom::cpu {
namespace {

int64_t count_of(const Shape& shape) { return product(shape, 0, shape.size()); }

// Three spatial axes, the missing ones of extent 1 in front.
struct Loops {
  std::array<int64_t, 3> in{1, 1, 1}, out{1, 1, 1}, window{1, 1, 1}, stride{1, 1, 1}, low{0, 0, 0}, dilation{1, 1, 1};
  int64_t batch, channels, results, groups;

  explicit Loops(const ConvolutionShape& s) : batch(s.x[0]), channels(s.x[1]), results(s.y[1]), groups(s.groups) {
    const size_t axes = s.strides.size();
    for (size_t i = 0; i < axes; ++i) {
      const size_t to = 3 - axes + i;
      in[to] = s.x[2 + i];
      out[to] = s.y[2 + i];
      window[to] = s.w[2 + i];
      stride[to] = s.strides[i];
      low[to] = s.low[i];
      dilation[to] = s.dilations[i];
    }
  }
};

int64_t volume(const std::array<int64_t, 3>& extents) { return extents[0] * extents[1] * extents[2]; }

std::array<int64_t, 3> unflatten(int64_t index, const std::array<int64_t, 3>& extents) {
  return {index / extents[2] / extents[1], index / extents[2] % extents[1], index % extents[2]};
}

// The place in x that window place k of output place p reads; -1 in the padding.
int64_t place_in(const Loops& l, const std::array<int64_t, 3>& p, const std::array<int64_t, 3>& k) {
  int64_t at = 0;
  for (size_t i = 0; i < 3; ++i) {
    const int64_t q = p[i] * l.stride[i] + k[i] * l.dilation[i] - l.low[i];
    if (q < 0 || q >= l.in[i]) return -1;
    at = at * l.in[i] + q;
  }
  return at;
}

// Calls add(x index, w index, y index) for every product that one pair of an image and a result channel needs.
template <typename Add>
void for_each_product(const Loops& l, int64_t image, int64_t result, Add&& add) {
  const int64_t each = l.channels / l.groups, first = result / (l.results / l.groups) * each;
  const int64_t in = volume(l.in), out = volume(l.out), window = volume(l.window);
  for (int64_t c = 0; c < each; ++c)
    for (int64_t p = 0; p < out; ++p)
      for (int64_t k = 0; k < window; ++k)
        if (const int64_t q = place_in(l, unflatten(p, l.out), unflatten(k, l.window)); q >= 0)
          add((image * l.channels + first + c) * in + q, (result * each + c) * window + k,
              (image * l.results + result) * out + p);
}

template <typename T>
T plain_sum(T x, T y, T z) {
  if constexpr (std::is_integral_v<T>)
    return static_cast<T>(static_cast<uint64_t>(x) + static_cast<uint64_t>(y) * static_cast<uint64_t>(z));
  else return x + y * z;
}

// One task owns all results that it adds to: a result channel of an image, an image, or a result channel.
template <typename T>
void run_plain(const ConvolutionShape& s, const Arguments& arguments) {
  const Loops l(s);
  const T* a = arguments.input<T>(0);
  const T* b = arguments.input<T>(1);
  T* c = arguments.output<T>();
  std::memset(static_cast<void*>(c), 0, static_cast<size_t>(count_of(s.result())) * sizeof(T));
  const auto add = [&](int64_t x, int64_t w, int64_t y) {
    if (s.kind == ConvolutionKind::kForward) c[y] = plain_sum(c[y], a[x], b[w]);
    else if (s.kind == ConvolutionKind::kInputGradient) c[x] = plain_sum(c[x], a[y], b[w]);
    else c[w] = plain_sum(c[w], a[x], b[y]);
  };
  if (s.kind == ConvolutionKind::kWeightGradient) {
    parallel_for(static_cast<size_t>(l.results), [&](size_t result) {
      for (int64_t image = 0; image < l.batch; ++image) for_each_product(l, image, static_cast<int64_t>(result), add);
    });
  } else {
    parallel_for(static_cast<size_t>(l.batch), [&](size_t image) {
      for (int64_t result = 0; result < l.results; ++result)
        for_each_product(l, static_cast<int64_t>(image), result, add);
    });
  }
}

// Windows that see a whole image are matrices, and images their rows, of which there may be many.
bool sees_all(const ConvolutionShape& s) {
  const auto nothing = [](int64_t padding) { return padding == 0; };
  return std::equal(s.x.begin() + 2, s.x.end(), s.w.begin() + 2) && std::all_of(s.low.begin(), s.low.end(), nothing) &&
         std::all_of(s.high.begin(), s.high.end(), nothing);
}

template <ConvolutionKind kind>
Kernel make_convolution(const Node& node) {
  const transom_dtype dtype = node.input(0).dtype;
  if (dtype != node.input(1).dtype || dtype != node.output().dtype)
    fail(TRANSOM_INVALID_ARGUMENT, "expected tensors of one type, found {}, {} and {}", to_string(node.input(0)),
         to_string(node.input(1)), to_string(node.output()));
  const ConvolutionShape shape = convolution_shape(node, kind);
  if (count_of(shape.x) == 0 || count_of(shape.w) == 0 || count_of(shape.y) == 0) {
    const size_t bytes = node.output().bytes();
    return {"fill", [bytes](const Arguments& arguments) { std::memset(arguments.outputs[0], 0, bytes); }};
  }
  const bool plain = shape.dtype == TRANSOM_FLOAT64 || !is_floating(shape.dtype);
  if (plain && shape.channels_last) fail(TRANSOM_UNSUPPORTED, "channels last of {}", dtype_name(shape.dtype));
  if (plain) return plain_convolution(shape);
  const bool forward = kind == ConvolutionKind::kForward;
  return library_convolution(shape, forward && node.frozen(1), forward && is_batch_invariant(node) && !sees_all(shape));
}

}  // namespace

ConvolutionShape convolution_shape(const Node& node, ConvolutionKind kind) {
  const Type &first = node.input(0), &second = node.input(1), &result = node.output();
  ConvolutionShape s{
      kind, first.dtype, {}, {}, {}, {}, {}, {}, {}, node.integer("groups"), node.op().starts_with("channels_last")};
  s.x = kind == ConvolutionKind::kInputGradient ? result.shape : first.shape;
  s.w = kind == ConvolutionKind::kWeightGradient ? result.shape : second.shape;
  s.y = kind == ConvolutionKind::kForward         ? result.shape
        : kind == ConvolutionKind::kInputGradient ? first.shape
                                                  : second.shape;
  if (s.channels_last)
    for (Shape* image : {&s.x, &s.y})
      if (image->size() > 2) std::rotate(image->begin() + 1, image->end() - 1, image->end());
  s.strides = node.integers("strides");
  s.low = node.integers("low");
  s.high = node.integers("high");
  s.dilations = node.integers("dilations");
  const size_t axes = s.strides.size();
  bool good = axes >= 1 && axes <= 3 && s.low.size() == axes && s.high.size() == axes && s.dilations.size() == axes &&
              s.x.size() == axes + 2 && s.w.size() == axes + 2 && s.y.size() == axes + 2;
  good = good && s.groups >= 1 && s.x[0] == s.y[0] && s.w[0] == s.y[1] && s.x[1] == s.w[1] * s.groups &&
         s.y[1] % s.groups == 0;
  for (size_t i = 0; good && i < axes; ++i) {
    good = s.strides[i] >= 1 && s.dilations[i] >= 1 && s.low[i] >= 0 && s.high[i] >= 0;
    if (!good) break;
    const int64_t reach = s.x[i + 2] + s.low[i] + s.high[i] - (s.w[i + 2] - 1) * s.dilations[i] - 1;
    good = s.y[i + 2] == (reach < 0 ? 0 : reach / s.strides[i] + 1);
  }
  if (!good)
    fail(TRANSOM_INVALID_ARGUMENT, "the extents of {}, {} and {} are not those of one convolution", to_string(first),
         to_string(second), to_string(result));
  return s;
}

Kernel plain_convolution(const ConvolutionShape& shape) {
  return {"plain loops", [shape](const Arguments& arguments) {
            dispatch(shape.dtype, [&]<typename T>() {
              if constexpr (std::is_same_v<T, Compute<T>>) run_plain<T>(shape, arguments);
            });
          }};
}

void add_convolution_kernels(KernelTable& table) {
  table["convolution"] = make_convolution<ConvolutionKind::kForward>;
  table["convolution_input_gradient"] = make_convolution<ConvolutionKind::kInputGradient>;
  table["convolution_weight_gradient"] = make_convolution<ConvolutionKind::kWeightGradient>;
  for (const char* name : {"integer_convolution", "channels_last_integer_convolution"})
    table[name] = {integer_convolution, claims_always};
  for (const auto& [name, primitive] : {std::pair{"channels_last_convolution", "convolution"},
                                        {"channels_last_convolution_input_gradient", "convolution_input_gradient"},
                                        {"channels_last_convolution_weight_gradient", "convolution_weight_gradient"}})
    table[name] = {table[primitive].make, claims_equal_floats};
}

}  // namespace transom::cpu
