// SPDX-License-Identifier: Apache-2.0
// Operations without inputs: inputs of the graph, constants, iota.
#include "graph/ops/records.h"
#include "graph/ops/rules.h"

namespace transom {
namespace {

const Operation kInput = {
    .name = "input", .documentation = "An input of the graph.", .infer = [](const Inference& in) -> std::vector<Type> {
      fail(ErrorKind::kInternal, "{}: inputs are not inferred", in.operation.name);
    }};

const Operation kConstant = {.name = "constant",
                             .documentation = "A scalar: `value`, or `int_value` for integers and bool.",
                             .elementwise = false,
                             .moves_only = true,
                             .category = Category::kOther,
                             .infer = [](const Inference& in) -> std::vector<Type> {
                               expect_inputs(in, 0);
                               return {{expect_dtype(in), {}}};
                             },
                             .evaluate =
                                 [](std::span<const Array>, const Attributes& attributes, std::span<Array> outputs) {
                                   if (outputs[0].floating()) outputs[0].real[0] = attributes.get_float("value");
                                   else outputs[0].integer[0] = attributes.get_int("int_value");
                                 },
                             .samples = []() -> std::vector<Sample> {
                               return {
                                   {{}, {{"dtype", static_cast<int64_t>(DType::kFloat32)}, {"value", 0.1}}},
                                   {{}, {{"dtype", static_cast<int64_t>(DType::kInt64)}, {"int_value", int64_t{-7}}}},
                                   {{}, {{"dtype", static_cast<int64_t>(DType::kBFloat16)}, {"value", 0.1}}},
                                   {{}, {{"dtype", static_cast<int64_t>(DType::kBool)}, {"int_value", int64_t{1}}}}};
                             }};

const Operation kIota = {
    .name = "iota",
    .documentation = "The index along `axis`.",
    .moves_only = true,
    .category = Category::kOther,
    .infer = [](const Inference& in) -> std::vector<Type> {
      expect_inputs(in, 0);
      const Shape& shape = in.attributes.get_ints("shape");
      expect_axis(in, in.attributes.get_int("axis"), static_cast<int64_t>(shape.size()));
      return {{expect_dtype(in), shape}};
    },
    .evaluate =
        [](std::span<const Array>, const Attributes& attributes, std::span<Array> outputs) {
          const auto axis = static_cast<size_t>(attributes.get_int("axis"));
          int64_t i = 0;
          for_each_index(outputs[0].type.shape,
                         [&](const Axes& index) { outputs[0].set(i++, static_cast<double>(index[axis])); });
        },
    .samples = []() -> std::vector<Sample> {
      const auto sample = [](Shape shape, int64_t axis, DType dtype) {
        return Sample{{}, {{"shape", shape}, {"axis", axis}, {"dtype", static_cast<int64_t>(dtype)}}};
      };
      return {sample({5}, 0, DType::kInt64), sample({3, 4}, 0, DType::kFloat32), sample({3, 4}, 1, DType::kInt32),
              sample({0, 2}, 1, DType::kInt64)};
    }};

}  // namespace

const RegisterOperations kRegisteredLeaf{&kInput, &kConstant, &kIota};

namespace op {
const Operation &constant = kConstant, &iota = kIota;
}  // namespace op

Tensor constant(double value, DType dtype) {
  Attributes attributes{{"dtype", static_cast<int64_t>(dtype)}};
  if (is_floating(dtype)) attributes.set("value", value);
  else if (value == std::trunc(value) && std::fabs(value) < 0x1p63)
    attributes.set("int_value", static_cast<int64_t>(value));
  else
    fail("{}constant: {} is no {}; cast the tensor that it meets to a floating type", scope_prefix(), value,
         name_of(dtype));
  return make_tensor(kConstant, {}, std::move(attributes));
}

Tensor full(const Shape& shape, double value, DType dtype) { return broadcast_to(constant(value, dtype), shape); }
Tensor zeros(const Shape& shape, DType dtype) { return full(shape, 0, dtype); }

Tensor iota(const Shape& shape, int64_t axis, DType dtype) {
  return make_tensor(kIota, {},
                     {{"shape", shape},
                      {"axis", normal_axis(axis, static_cast<int64_t>(shape.size()), "iota")},
                      {"dtype", static_cast<int64_t>(dtype)}});
}

}  // namespace transom
