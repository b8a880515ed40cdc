// SPDX-License-Identifier: Apache-2.0
// Kernels of one input.
#include "elementwise.h"

#include <limits>

namespace synapse_emulator {

void require_broadcast(const Node& node, const Operand& input, const Operand& output, const char* what) {
  require(input.sizes.rank <= output.sizes.rank, node, what, " has ", input.sizes.rank, " dims, the output ",
          output.sizes.rank);
  for (int dim = 0; dim < input.sizes.rank; ++dim)
    require(input.sizes[dim] == output.sizes[dim] || input.sizes[dim] == 1, node, what, " ", text_of(input.sizes),
            " does not broadcast to ", text_of(output.sizes));
}

namespace {

void check_unary(const Node& node) {
  require_counts(node, 1, 1, 1, 1);
  require_type(node, node.input(0), node.type, "the input");
  require_type(node, node.output(0), node.type, "the output");
  require_sizes(node, node.output(0), node.input(0).sizes, "the output");
}

void check_test(const Node& node) {
  require_counts(node, 1, 1, 1, 1);
  require_type(node, node.input(0), node.type, "the input");
  require_type(node, node.output(0), syn_type_int8, "the output");
  require_sizes(node, node.output(0), node.input(0).sizes, "the output");
}

template <float (*F)(float)>
void run_float(const Node& node) {
  map_elements<float, float, 1>(node.output(0), {&node.input(0)}, [](const auto& in, float* out, int64_t count) {
    for (int64_t i = 0; i < count; ++i) out[i] = F(in[0][i]);
  });
}

template <float (*F)(float), int64_t (*I)(int64_t)>
void run_number(const Node& node) {
  if (is_floating(node.type)) return run_float<F>(node);
  map_elements<int64_t, int64_t, 1>(node.output(0), {&node.input(0)}, [](const auto& in, int64_t* out, int64_t count) {
    for (int64_t i = 0; i < count; ++i) out[i] = I(in[0][i]);
  });
}

float f_neg(float x) { return -x; }
float f_abs(float x) { return std::fabs(x); }
float f_exp(float x) { return std::exp(x); }
float f_exp2(float x) { return std::exp2(x); }
float f_expm1(float x) { return std::expm1(x); }
float f_log(float x) { return std::log(x); }
float f_log2(float x) { return std::log2(x); }
float f_log10(float x) { return std::log10(x); }
float f_log1p(float x) { return std::log1p(x); }
float f_sqrt(float x) { return std::sqrt(x); }
float f_rsqrt(float x) { return static_cast<float>(1 / std::sqrt(static_cast<double>(x))); }
float f_reciprocal(float x) { return 1 / x; }
float f_tanh(float x) { return std::tanh(x); }
float f_sigmoid(float x) { return static_cast<float>(1 / (1 + std::exp(-static_cast<double>(x)))); }
float f_relu(float x) { return x > 0 || std::isnan(x) ? x : 0; }
float f_silu(float x) { return static_cast<float>(x / (1 + std::exp(-static_cast<double>(x)))); }
float f_erf(float x) { return std::erf(x); }
float f_erfc(float x) { return std::erfc(x); }
float f_floor(float x) { return std::floor(x); }
float f_ceil(float x) { return std::ceil(x); }
float f_trunc(float x) { return std::trunc(x); }
float f_even(float x) { return std::nearbyint(x); }
float f_away(float x) { return std::round(x); }
float f_sign(float x) { return x > 0 ? 1.0f : x < 0 ? -1.0f : x; }
float f_sin(float x) { return std::sin(x); }
float f_cos(float x) { return std::cos(x); }
float f_tan(float x) { return std::tan(x); }
float f_asin(float x) { return std::asin(x); }
float f_acos(float x) { return std::acos(x); }
float f_atan(float x) { return std::atan(x); }
float f_sinh(float x) { return std::sinh(x); }
float f_cosh(float x) { return std::cosh(x); }
float f_mish(float x) { return x * std::tanh(std::log1p(std::exp(x))); }
float f_hard_sigmoid(float x) { return std::clamp(x / 6 + 0.5f, 0.0f, 1.0f); }
float f_hard_swish(float x) { return x * std::clamp(x + 3, 0.0f, 6.0f) / 6; }
float f_finite(float x) { return std::isfinite(x) ? 1.0f : 0.0f; }
float f_infinite(float x) { return std::isinf(x) ? 1.0f : 0.0f; }
float f_nan(float x) { return std::isnan(x) ? 1.0f : 0.0f; }
int64_t i_neg(int64_t x) { return -x; }
int64_t i_abs(int64_t x) { return x < 0 ? -x : x; }
int64_t i_relu(int64_t x) { return x > 0 ? x : 0; }
int64_t i_sign(int64_t x) { return (x > 0) - (x < 0); }
int64_t i_same(int64_t x) { return x; }
int64_t i_not(int64_t x) { return x == 0; }
int64_t i_complement(int64_t x) { return ~x; }
float f_not(float x) { return x == 0 ? 1.0f : 0.0f; }

void check_round(const Node& node) {
  check_unary(node);
  if (!node.params.empty()) {
    const auto params = params_of<RoundParams>(node, {4, 8});
    require(params.mode == 0 || params.mode == 1, node, "rounding mode ", params.mode);
  }
}
void run_round(const Node& node) {
  const auto params = params_of<RoundParams>(node, {0, 4, 8});
  if (params.mode == 1) run_number<f_even, i_same>(node);
  else run_number<f_away, i_same>(node);
}

void check_clamp(const Node& node) {
  if (node.in.size() == 1) {
    check_unary(node);
    params_of<ClampParams>(node);
    return;
  }
  require_counts(node, 1, 3, 1, 1);  // bounds as tensors: lower, upper
  require_type(node, node.input(0), node.type, "the input");
  for (size_t i = 1; i < node.in.size(); ++i) {
    if (!node.has_input(i)) continue;
    require_type(node, node.input(i), node.type, "a bound");
    require_broadcast(node, node.input(i), node.output(0), "a bound");
  }
  require_sizes(node, node.output(0), node.input(0).sizes, "the output");
}
void run_clamp(const Node& node) {
  Operand lower = node.input(1), upper = node.input(2);
  float bounds_f[2];
  int32_t bounds_i[2];
  if (node.in.size() == 1) {
    const auto params = params_of<ClampParams>(node);
    bounds_f[0] = params.lowerBound.f;
    bounds_f[1] = params.upperBound.f;
    bounds_i[0] = params.lowerBound.i;
    bounds_i[1] = params.upperBound.i;
  } else {
    bounds_f[0] = -INFINITY;
    bounds_f[1] = INFINITY;
    bounds_i[0] = std::numeric_limits<int32_t>::min();
    bounds_i[1] = std::numeric_limits<int32_t>::max();
  }
  const auto scalar = [&](int which) {
    Operand operand;
    operand.present = true;
    operand.sizes.rank = 1;
    operand.sizes.size[0] = 1;
    operand.type = is_floating(node.type) ? syn_type_single : syn_type_int32;
    operand.data =
        is_floating(node.type) ? reinterpret_cast<char*>(&bounds_f[which]) : reinterpret_cast<char*>(&bounds_i[which]);
    return operand;
  };
  if (!lower.present) lower = scalar(0);
  if (!upper.present) upper = scalar(1);
  const auto clamp = [](const auto& in, auto* out, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      auto value = in[0][i];
      if (value < in[1][i]) value = in[1][i];
      if (value > in[2][i]) value = in[2][i];
      out[i] = value;
    }
  };
  if (is_floating(node.type)) map_elements<float, float, 3>(node.output(0), {&node.input(0), &lower, &upper}, clamp);
  else map_elements<int64_t, int64_t, 3>(node.output(0), {&node.input(0), &lower, &upper}, clamp);
}

double heavy(const Node& node) { return 10.0 * static_cast<double>(node.output(0).elements()); }

}  // namespace

void add_elementwise(KernelTable& table) {
  const auto add = [&](const char* name, const Types& types, void (*run)(const Node&), double (*flops)(const Node&)) {
    table.add({name, Engine::kTpc, types, check_unary, run, flops, true});
  };
  const Types signed_numbers = {syn_type_single, syn_type_bf16,  syn_type_fp16, syn_type_int8,
                                syn_type_int16,  syn_type_int32, syn_type_int64};
  add("neg_fwd", signed_numbers, run_number<f_neg, i_neg>, nullptr);
  add("abs_fwd", signed_numbers, run_number<f_abs, i_abs>, nullptr);
  add("sign_fwd", signed_numbers, run_number<f_sign, i_sign>, nullptr);
  add("relu_fwd", signed_numbers, run_number<f_relu, i_relu>, nullptr);
  add("floor_fwd", kFloats, run_float<f_floor>, nullptr);
  add("ceil_fwd", kFloats, run_float<f_ceil>, nullptr);
  add("trunc_fwd", kFloats, run_float<f_trunc>, nullptr);
  add("exp_fwd", kFloats, run_float<f_exp>, heavy);
  add("exp_fast_math_fwd", kFloats, run_float<f_exp>, heavy);
  add("pow2_fwd", kFloats, run_float<f_exp2>, heavy);
  add("expm1_fwd", kFloats, run_float<f_expm1>, heavy);
  add("log_fwd", kFloats, run_float<f_log>, heavy);
  add("log2_fwd", kFloats, run_float<f_log2>, heavy);
  add("log10_fwd", kFloats, run_float<f_log10>, heavy);
  add("log1p_fwd", kFloats, run_float<f_log1p>, heavy);
  add("sqrt_fwd", kFloats, run_float<f_sqrt>, heavy);
  add("sqrt_fast_math_fwd", kFloats, run_float<f_sqrt>, heavy);
  add("rsqrt_fwd", kFloats, run_float<f_rsqrt>, heavy);
  add("rsqrt_fast_math_fwd", kFloats, run_float<f_rsqrt>, heavy);
  add("reciprocal_fwd", kFloats, run_float<f_reciprocal>, heavy);
  add("tanh_fwd", kFloats, run_float<f_tanh>, heavy);
  add("sigmoid_fwd", kFloats, run_float<f_sigmoid>, heavy);
  add("silu_fwd", kFloats, run_float<f_silu>, heavy);
  add("mish_fwd", kFloats, run_float<f_mish>, heavy);
  add("hard_sigmoid_fwd", kFloats, run_float<f_hard_sigmoid>, heavy);
  add("hard_swish_fwd", kFloats, run_float<f_hard_swish>, heavy);
  add("erf_fwd", kFloats, run_float<f_erf>, heavy);
  add("erfc_fwd", kFloats, run_float<f_erfc>, heavy);
  add("sin_fwd", kFloats, run_float<f_sin>, heavy);
  add("cos_fwd", kFloats, run_float<f_cos>, heavy);
  add("tan_fwd", kFloats, run_float<f_tan>, heavy);
  add("asin_fwd", kFloats, run_float<f_asin>, heavy);
  add("acos_fwd", kFloats, run_float<f_acos>, heavy);
  add("atan_fwd", kFloats, run_float<f_atan>, heavy);
  add("sinh_fwd", kFloats, run_float<f_sinh>, heavy);
  add("cosh_fwd", kFloats, run_float<f_cosh>, heavy);
  add("not", {syn_type_int8, syn_type_uint8, syn_type_int32}, run_number<f_not, i_not>, nullptr);
  add("not_fwd", {syn_type_int8, syn_type_uint8, syn_type_int32}, run_number<f_not, i_not>, nullptr);
  add("bitwise_not_fwd", kIntegers, run_number<f_neg, i_complement>, nullptr);
  table.add({"round_fwd", Engine::kTpc, kFloats, check_round, run_round, nullptr, true});
  table.add({"clamp_fwd", Engine::kTpc, kNumbers, check_clamp, run_clamp, nullptr, true});
  table.add({"clamp_pt_fwd", Engine::kTpc, kNumbers, check_clamp, run_clamp, nullptr, true});
  const auto add_test = [&](const char* name, void (*run)(const Node&)) {
    table.add({name, Engine::kTpc, kFloats, check_test, run, nullptr, false});
  };
  add_test("isfinite_fwd", run_float<f_finite>);
  add_test("isinf_fwd", run_float<f_infinite>);
  add_test("isnan_fwd", run_float<f_nan>);
}

}  // namespace synapse_emulator
