// SPDX-License-Identifier: Apache-2.0
// Fourier transforms by products with matrices of cosines and sines, and the windows that go before them.
#include <cmath>
#include <numbers>

#include "base/error.h"
#include "models/onnx/import/elementwise/element_values.h"
#include "models/onnx/import/run/operators.h"
#include "models/onnx/import/run/precision.h"

namespace transom::onnx {
namespace {

constexpr int64_t kMostPlaces = 8192;  // of a transform: its matrix has their square

// x [..., n, 1 or 2] (real, or real and imaginary) -> [..., kept, 2]
Tensor transform(const Call& call, const Tensor& x, int64_t kept, bool inverse) {
  const int64_t n = x.dim(-2), parts = x.dim(-1);
  // Rows (place, part), columns (frequency, part).
  std::vector<double> matrix(static_cast<size_t>(n * parts * kept * 2));
  for (int64_t t = 0; t < n; ++t)
    for (int64_t k = 0; k < kept; ++k) {
      const double angle =
          (inverse ? 2 : -2) * std::numbers::pi * static_cast<double>(t * k % n) / static_cast<double>(n);
      const double scale = inverse ? 1 / static_cast<double>(n) : 1;
      const double c = scale * std::cos(angle), s = scale * std::sin(angle);
      double* real = matrix.data() + (t * parts * kept + k) * 2;
      real[0] = c, real[1] = s;
      if (parts == 2) real[kept * 2] = -s, real[kept * 2 + 1] = c;
    }
  Shape flat(x.shape().begin(), x.shape().end() - 2), result = flat;
  flat.push_back(n * parts);
  result.insert(result.end(), {kept, 2});
  const Tensor weights = numbers(matrix, {n * parts, kept * 2}, x.dtype());
  const Tensor rows = reshape(x, {x.size() / std::max<int64_t>(n * parts, 1), n * parts});
  return reshape(matmul(rows, weights, call.computing()), result);
}

// Cut or filled up with zeros.
Tensor of_length(const Tensor& x, int64_t axis, int64_t length) {
  if (x.dim(axis) >= length) return slice(x, axis, 0, length);
  Axes none(static_cast<size_t>(x.rank()), 0), behind = none;
  behind[static_cast<size_t>(axis)] = length - x.dim(axis);
  return pad(x, none, behind);
}

Results dft(Call& call) {
  Tensor x = wide(call.tensor(0));
  const bool inverse = call.integer("inverse", 0) != 0, one_sided = call.integer("onesided", 0) != 0;
  call.require(x.rank() >= 2 && (x.dim(-1) == 1 || x.dim(-1) == 2),
               "expected real or complex numbers in the last axis");
  int64_t axis = call.version() < 20 ? call.integer("axis", 1) : call.has(2) ? call.integer_of(call.tensor(2)) : -2;
  axis = call.axis(axis, x.rank());
  call.require(axis < x.rank() - 1, "the axis is that of real and imaginary parts");
  const int64_t length = call.has(1) ? call.integer_of(call.tensor(1)) : x.dim(axis);
  call.require(length >= 1, "the length is impossible");
  if (length > kMostPlaces) call.not_supported(fmt::format("more than {} places", kMostPlaces));
  if (inverse && one_sided) {  // half of a spectrum, whose other half is its mirror; the result is real
    call.require(x.dim(-1) == 2, "expected complex numbers");
    const int64_t half = length / 2 + 1;
    const int64_t whole = call.has(1) ? length : 2 * (x.dim(axis) - 1);
    call.require(whole >= 1, "the length is impossible");
    const Tensor head = of_length(x, axis, call.has(1) ? half : x.dim(axis));
    const int64_t mirrored = whole - head.dim(axis);
    Tensor tail = reverse(slice(head, axis, 1, 1 + mirrored), {axis});
    const Tensor signs = numbers({1, -1}, {2}, x.dtype());
    x = concatenate({head, mul(tail, signs)}, axis);
    const Tensor y = transform(call, transpose(x, axis, -2), whole, true);
    return {call.like(0, cast(transpose(slice(y, -1, 0, 1), axis, -2), call.tensor(0).dtype()))};
  }
  x = transpose(of_length(x, axis, length), axis, -2);
  const int64_t kept = one_sided ? length / 2 + 1 : length;
  return {call.like(0, cast(transpose(transform(call, x, kept, inverse), axis, -2), call.tensor(0).dtype()))};
}

Results stft(Call& call) {
  Tensor x = wide(call.tensor(0));  // [B, T, 1 or 2] or [B, T]
  if (x.rank() == 2) x = unsqueeze(x, 2);
  call.require(x.rank() == 3, "expected a signal [B, T, 1 or 2]");
  const int64_t step = call.integer_of(call.tensor(1));
  const int64_t length = call.has(3) ? call.integer_of(call.tensor(3)) : call.has(2) ? call.tensor(2).size() : x.dim(1);
  call.require(step >= 1 && length >= 1 && length <= x.dim(1), "the frames do not fit the signal");
  if (length > kMostPlaces) call.not_supported(fmt::format("frames of more than {} places", kMostPlaces));
  const int64_t frames = (x.dim(1) - length) / step + 1;
  const Tensor places = add(mul(iota({frames, length}, 0), integer(step)), iota({frames, length}, 1));
  Tensor parts = gather(x, places, 1);  // [B, frames, length, 1 or 2]
  if (call.has(2)) {
    call.require(call.tensor(2).size() == length, "the window does not have the length of a frame");
    parts = mul(parts, reshape(cast(call.tensor(2), x.dtype()), {length, 1}));
  }
  const int64_t kept = call.integer("onesided", 1) != 0 ? length / 2 + 1 : length;
  return {call.like(0, cast(transform(call, parts, kept, false), call.tensor(0).dtype()))};
}

// a + b cos + c cos of twice the angle
Results window(Call& call, double a, double b, double c) {
  const int64_t size = call.integer_of(call.tensor(0));
  call.require(size >= 0 && size < int64_t{1} << 28, "the size is impossible");
  const auto period = static_cast<double>(call.integer("periodic", 1) != 0 ? size : size - 1);
  std::vector<double> values;
  for (int64_t i = 0; i < size; ++i) {
    const double angle = period > 0 ? 2 * std::numbers::pi * static_cast<double>(i) / period : 0;
    values.push_back(a + b * std::cos(angle) + c * std::cos(2 * angle));
  }
  const ElementTypeInfo* type = find_element_type(call.integer("output_datatype", 1));
  if (!type || !type->carrier) call.not_supported("this output_datatype");
  return {cast_value(value_of(numbers(values, {size}, DType::kFloat64)), type->type)};
}
Results hann(Call& call) { return window(call, 0.5, -0.5, 0); }
Results hamming(Call& call) { return window(call, 25.0 / 46, -21.0 / 46, 0); }
Results blackman(Call& call) { return window(call, 0.42, -0.5, 0.08); }

}  // namespace

const RegisterOperators kSpectra = {{"DFT", dft, 17},
                                    {"STFT", stft, 17},
                                    {"HannWindow", hann, 17},
                                    {"HammingWindow", hamming, 17},
                                    {"BlackmanWindow", blackman, 17}};

}  // namespace transom::onnx
