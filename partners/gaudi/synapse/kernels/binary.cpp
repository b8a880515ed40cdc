// SPDX-License-Identifier: Apache-2.0
// Kernels of two and three inputs with broadcasting.
#include "elementwise.h"

namespace synapse_emulator {
namespace {

void check_output(const Node& node, size_t inputs) {
  Sizes widest;  // the output has the sizes that the inputs broadcast to
  for (size_t i = 0; i < inputs; ++i) {
    require_broadcast(node, node.input(i), node.output(0), "an input");
    widest.rank = std::max(widest.rank, node.input(i).sizes.rank);
  }
  for (int dim = 0; dim < widest.rank; ++dim) {
    widest.size[static_cast<size_t>(dim)] = 1;
    for (size_t i = 0; i < inputs; ++i)
      if (node.input(i).sizes[dim] != 1) widest.size[static_cast<size_t>(dim)] = node.input(i).sizes[dim];
  }
  require_sizes(node, node.output(0), widest, "the output");
}

void check_binary(const Node& node) {
  require_counts(node, 2, 2, 1, 1);
  require_type(node, node.input(0), node.type, "the first input");
  require_type(node, node.input(1), node.type, "the second input");
  require_type(node, node.output(0), node.type, "the output");
  check_output(node, 2);
}

void check_comparison(const Node& node) {
  require_counts(node, 2, 2, 1, 1);
  require_type(node, node.input(0), node.type, "the first input");
  require_type(node, node.input(1), node.type, "the second input");
  require(node.output(0).type == syn_type_int8 || node.output(0).type == syn_type_uint8, node,
          "the output of a comparison is i8, found ", name_of(node.output(0).type));
  check_output(node, 2);
}

void check_where(const Node& node) {
  require_counts(node, 3, 3, 1, 1);
  require(node.input(0).type == syn_type_int8 || node.input(0).type == syn_type_uint8, node,
          "the condition is i8, found ", name_of(node.input(0).type));
  require_type(node, node.input(1), node.type, "the first value");
  require_type(node, node.input(2), node.type, "the second value");
  require_type(node, node.output(0), node.type, "the output");
  check_output(node, 3);
}

template <typename Op>
void run_float(const Node& node) {
  map_elements<float, float, 2>(node.output(0), {&node.input(0), &node.input(1)},
                                [](const auto& in, float* out, int64_t count) {
                                  const float* a = in[0];
                                  const float* b = in[1];
                                  for (int64_t i = 0; i < count; ++i)
                                    out[i] = static_cast<float>(Op::apply(a[i], b[i]));
                                });
}
template <typename Op>
void run_integer(const Node& node) {
  map_elements<int64_t, int64_t, 2>(node.output(0), {&node.input(0), &node.input(1)},
                                    [](const auto& in, int64_t* out, int64_t count) {
                                      for (int64_t i = 0; i < count; ++i)
                                        out[i] = static_cast<int64_t>(Op::apply(in[0][i], in[1][i]));
                                    });
}
template <typename Op>
void run_both(const Node& node) {
  if (is_floating(node.type)) run_float<Op>(node);
  else run_integer<Op>(node);
}

int64_t wrap(uint64_t value) { return static_cast<int64_t>(value); }

struct Add {
  static float apply(float a, float b) { return a + b; }
  static int64_t apply(int64_t a, int64_t b) { return wrap(static_cast<uint64_t>(a) + static_cast<uint64_t>(b)); }
};
struct Subtract {
  static float apply(float a, float b) { return a - b; }
  static int64_t apply(int64_t a, int64_t b) { return wrap(static_cast<uint64_t>(a) - static_cast<uint64_t>(b)); }
};
struct Multiply {
  static float apply(float a, float b) { return a * b; }
  static int64_t apply(int64_t a, int64_t b) { return wrap(static_cast<uint64_t>(a) * static_cast<uint64_t>(b)); }
};
struct Divide {
  static float apply(float a, float b) { return a / b; }
  static int64_t apply(int64_t a, int64_t b) {
    return b == 0 ? 0 : b == -1 ? wrap(0 - static_cast<uint64_t>(a)) : a / b;
  }
};
struct FloorDivide {
  static float apply(float a, float b) { return std::floor(a / b); }
  static int64_t apply(int64_t a, int64_t b) {
    const int64_t quotient = Divide::apply(a, b);
    return b != 0 && b != -1 && a % b != 0 && ((a < 0) != (b < 0)) ? quotient - 1 : quotient;
  }
};
struct Power {
  static float apply(float a, float b) { return std::pow(a, b); }
  static int64_t apply(int64_t a, int64_t b) {
    if (b < 0) return a == 1 ? 1 : a == -1 ? (b % 2 ? -1 : 1) : 0;
    uint64_t result = 1, base = static_cast<uint64_t>(a);
    for (; b > 0; b >>= 1, base *= base)
      if (b & 1) result *= base;
    return wrap(result);
  }
};
struct Maximum {
  static float apply(float a, float b) { return std::isnan(a) || a > b ? a : b; }
  static int64_t apply(int64_t a, int64_t b) { return std::max(a, b); }
};
struct Minimum {
  static float apply(float a, float b) { return std::isnan(a) || a < b ? a : b; }
  static int64_t apply(int64_t a, int64_t b) { return std::min(a, b); }
};
struct Modulo {  // the sign of the dividend
  static float apply(float a, float b) { return std::fmod(a, b); }
  static int64_t apply(int64_t a, int64_t b) { return b == 0 || b == -1 ? 0 : a % b; }
};
struct Remainder {  // the sign of the divisor
  static float apply(float a, float b) {
    const float rest = std::fmod(a, b);
    return rest != 0 && ((rest < 0) != (b < 0)) ? rest + b : rest;
  }
  static int64_t apply(int64_t a, int64_t b) {
    const int64_t rest = Modulo::apply(a, b);
    return rest != 0 && ((rest < 0) != (b < 0)) ? rest + b : rest;
  }
};
struct ArcTangent2 {
  static float apply(float a, float b) { return std::atan2(a, b); }
};
struct Hypotenuse {
  static float apply(float a, float b) { return std::hypot(a, b); }
};
struct And {
  static int64_t apply(int64_t a, int64_t b) { return a != 0 && b != 0; }
};
struct Or {
  static int64_t apply(int64_t a, int64_t b) { return a != 0 || b != 0; }
};
struct Xor {
  static int64_t apply(int64_t a, int64_t b) { return (a != 0) != (b != 0); }
};
struct BitAnd {
  static int64_t apply(int64_t a, int64_t b) { return a & b; }
};
struct BitOr {
  static int64_t apply(int64_t a, int64_t b) { return a | b; }
};
struct BitXor {
  static int64_t apply(int64_t a, int64_t b) { return a ^ b; }
};

#define SYNAPSE_COMPARISON(NAME, SIGN) \
  struct NAME {                        \
    template <typename T>              \
    static int64_t apply(T a, T b) {   \
      return (a SIGN b) ? 1 : 0;       \
    }                                  \
  }
SYNAPSE_COMPARISON(Equal, ==);
SYNAPSE_COMPARISON(Less, <);
SYNAPSE_COMPARISON(LessEqual, <=);
SYNAPSE_COMPARISON(Greater, >);
SYNAPSE_COMPARISON(GreaterEqual, >=);
#undef SYNAPSE_COMPARISON

void run_where(const Node& node) {
  const auto choose = [](const auto& in, auto* out, int64_t count) {
    for (int64_t i = 0; i < count; ++i) out[i] = in[0][i] != 0 ? in[1][i] : in[2][i];
  };
  if (is_floating(node.type))
    map_elements<float, float, 3>(node.output(0), {&node.input(0), &node.input(1), &node.input(2)}, choose);
  else map_elements<int64_t, int64_t, 3>(node.output(0), {&node.input(0), &node.input(1), &node.input(2)}, choose);
}

void check_alpha(const Node& node) {
  check_binary(node);
  const auto params = params_of<AlphaParams>(node);
  require(params.mode >= 0 && params.mode <= 2, node, "mode ", params.mode, "; add, sub and rsub are known");
}
void run_alpha(const Node& node) {
  const auto params = params_of<AlphaParams>(node);
  const auto run = [&](auto alpha) {
    using Value = decltype(alpha);
    map_elements<Value, Value, 2>(node.output(0), {&node.input(0), &node.input(1)},
                                  [&](const auto& in, Value* out, int64_t count) {
                                    for (int64_t i = 0; i < count; ++i)
                                      out[i] = params.mode == 0   ? in[0][i] + alpha * in[1][i]
                                               : params.mode == 1 ? in[0][i] - alpha * in[1][i]
                                                                  : in[1][i] - alpha * in[0][i];
                                  });
  };
  if (is_floating(node.type)) run(params.alpha.f);
  else run(int64_t{params.alpha.i});
}

double heavy(const Node& node) { return 20.0 * static_cast<double>(node.output(0).elements()); }

}  // namespace

void add_binary(KernelTable& table) {
  const auto add = [&](const char* name, const Types& types, void (*run)(const Node&), double (*flops)(const Node&)) {
    table.add({name, Engine::kTpc, types, check_binary, run, flops, true});
  };
  add("add_fwd", kNumbers, run_both<Add>, nullptr);
  add("sub_fwd", kNumbers, run_both<Subtract>, nullptr);
  add("mult_fwd", kNumbers, run_both<Multiply>, nullptr);
  add("div_fwd", kNumbers, run_both<Divide>, heavy);
  add("floor_divide_fwd", kNumbers, run_both<FloorDivide>, heavy);
  add("pow_fwd", kNumbers, run_both<Power>, heavy);
  add("max_fwd", kNumbers, run_both<Maximum>, nullptr);
  add("min_fwd", kNumbers, run_both<Minimum>, nullptr);
  add("mod_fwd", kNumbers, run_both<Modulo>, heavy);
  add("rem_fwd", kNumbers, run_both<Remainder>, heavy);
  add("atan2_fwd", kFloats, run_float<ArcTangent2>, heavy);
  add("hypot_fwd", kFloats, run_float<Hypotenuse>, heavy);
  const Types logical = {syn_type_int8, syn_type_uint8, syn_type_int16, syn_type_int32};
  add("and", logical, run_integer<And>, nullptr);
  add("or", logical, run_integer<Or>, nullptr);
  add("xor", logical, run_integer<Xor>, nullptr);
  add("bitwise_and_fwd", kIntegers, run_integer<BitAnd>, nullptr);
  add("bitwise_or_fwd", kIntegers, run_integer<BitOr>, nullptr);
  add("bitwise_xor_fwd", kIntegers, run_integer<BitXor>, nullptr);
  const auto compare = [&](const char* name, void (*run)(const Node&)) {
    table.add({name, Engine::kTpc, kNumbers, check_comparison, run, nullptr, false});
  };
  compare("equal_fwd", run_both<Equal>);
  compare("less_fwd", run_both<Less>);
  compare("less_equal_fwd", run_both<LessEqual>);
  compare("greater_fwd", run_both<Greater>);
  compare("greater_equal_fwd", run_both<GreaterEqual>);
  table.add({"where_fwd", Engine::kTpc, kNumbers, check_where, run_where, nullptr, false});
  table.add({"binary_with_alpha_fwd", Engine::kTpc, kNumbers, check_alpha, run_alpha, nullptr, true});
}

}  // namespace synapse_emulator
