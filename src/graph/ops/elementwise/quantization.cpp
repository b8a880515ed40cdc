// SPDX-License-Identifier: Apache-2.0
// Linear layers in 8-bit integers: weights by output, inputs by row, both at once when they are met (dynamic
// quantisation as of torch.ao.quantization.quantize_dynamic, with a scale for each row).
#include "graph/ops/elementwise/quantization.h"
#include "graph/ops/computing.h"
#include "graph/ops/products/integer_products.h"
#include "graph/ops/records.h"
#include "graph/ops/rules.h"

namespace transom {
namespace {

constexpr double kLargest = 127;

struct Quantized {
  Tensor values;  // in [-127, 127]
  Tensor scale;   // [..., 1]
};

// Rows by their largest magnitude; a row of zeros has the scale 0.
Quantized quantized(const Tensor& x, DType type) {
  const Tensor scale = reduce_max(abs(x), {-1}, true) * (1 / kLargest);
  const Tensor zero = equal(scale, constant(0, scale.dtype()));
  const Tensor divisor = select(zero, full(scale.shape(), 1, scale.dtype()), scale);
  return {cast(round(x / divisor), type), scale};
}

// The sums of products of integers in `wide`. By integer_linear, which devices compute over their units for bytes,
// where it holds them all; f64 beside it is the reference.
Tensor sums_of(const Tensor& x, const Tensor& w, DType wide) {
  if (x.dtype() == DType::kInt8) return integer_linear(x, w, 0);
  const Tensor sums = make_tensor(find_operation("dot_general"), {x, w},
                                  {{"x_batch", Axes{}},
                                   {"y_batch", Axes{}},
                                   {"x_contract", Axes{x.rank() - 1}},
                                   {"y_contract", Axes{1}},
                                   {"dtype", static_cast<int64_t>(x.dtype())}});
  return cast(sums, wide);
}

const Operation kQuantizedLinear = {
    .name = "quantized_linear",
    .kind = OperationKind::kComposite,
    .documentation =
        "x [..., K], w [N, K] (or [K, N] where `transposed` is 1), b [N]: x w^T + b, where each row of x and each "
        "output's row of w is rounded to 255 equal steps between minus and plus its largest magnitude.",
    .stops_gradient = true,
    .category = Category::kProducts,
    // A value between two of the 255 steps may be rounded to either.
    .error = ErrorBounds{{ErrorScale::kTensor, 16384}, {ErrorScale::kTensor, 8}},
    .infer = [](const Inference& in) -> std::vector<Type> {
      check(in, in.inputs.size() == 2 || in.inputs.size() == 3, "expected x, w and perhaps b");
      expect_floating(in, 0);
      expect_same_types(in, 0, 1);
      check(in, in.rank(0) >= 1 && in.rank(1) == 2, "expected x of some axes and w of two");
      const bool transposed = in.attributes.get_int("transposed") != 0;
      const int64_t depth = in.shape(1)[transposed ? 0 : 1], outputs = in.shape(1)[transposed ? 1 : 0];
      check(in, in.shape(0).back() == depth && depth > 0, "x of {} and a weight of {} do not fit", in.shape(0),
            in.shape(1));
      if (in.inputs.size() == 3)
        check(in, in.shape(2) == Shape{outputs} && in.dtype(2) == in.dtype(0), "expected a bias of [{}], found {}",
              outputs, in.inputs[2]);
      Shape shape = in.shape(0);
      shape.back() = outputs;
      return {{in.dtype(0), shape}};
    },
    .decompose = [](std::span<const Tensor> in, const Attributes& attributes) -> std::vector<Tensor> {
      const DType dtype = in[0].dtype();
      const DType wide = dtype == DType::kFloat64 ? dtype : DType::kFloat32;
      const Tensor w = cast(attributes.get_int("transposed") ? permute(in[1], {1, 0}) : in[1], wide);
      const DType codes = wide == DType::kFloat32 && w.dim(1) <= kMostIntegerDepth ? DType::kInt8 : DType::kInt32;
      const Quantized x = quantized(cast(in[0], wide), codes), weight = quantized(w, codes);
      const Tensor product = sums_of(x.values, weight.values, wide) * x.scale * reshape(weight.scale, {w.dim(0)});
      return {cast(in.size() == 3 ? product + cast(in[2], wide) : product, dtype)};
    },
    .samples = []() -> std::vector<Sample> {
      std::vector<Sample> samples;
      for (const int64_t transposed : {0, 1})
        for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
          const auto add = [&](Shape x, int64_t outputs, bool bias) {
            const int64_t depth = x.back();
            const Shape w = transposed ? Shape{depth, outputs} : Shape{outputs, depth};
            samples.push_back({{{dtype, x}, {dtype, w}}, {{"transposed", transposed}}, -1, 1});
            if (bias) samples.back().inputs.push_back({dtype, {outputs}});
          };
          add({2, 5, 8}, 3, true);
          add({33, 65}, 17, false);
          add({1, 19}, 48, true);
          add({300, 96}, 200, true);
        }
      return samples;
    }};

}  // namespace

const RegisterOperations kRegisteredQuantization{&kQuantizedLinear};

namespace op {
const Operation& quantized_linear = kQuantizedLinear;
}  // namespace op

Tensor quantized_linear(const Tensor& x, const Tensor& weight, const Tensor& bias, const Computing& computing,
                        bool transposed) {
  // A weight of f32 gives an output of f32; one of 16 bits an output of its type.
  const Tensor wide = autocast_full(x, computing);
  std::vector<Tensor> inputs{is_floating(wide.dtype()) ? cast(wide, weight.dtype()) : wide, weight};
  if (bias.defined()) inputs.push_back(cast(bias, weight.dtype()));
  return make_tensor(kQuantizedLinear, std::move(inputs), {{"transposed", static_cast<int64_t>(transposed)}});
}

}  // namespace transom
