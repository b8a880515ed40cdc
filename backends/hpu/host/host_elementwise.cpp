// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "hpu/host/host_array.h"

namespace transom::hpu {
namespace {

using Inputs = std::vector<const HostArray*>;
using Outputs = std::vector<HostArray>;

int64_t wrapping(uint64_t value) { return static_cast<int64_t>(value); }
int64_t no_integer(int64_t) { fail(TRANSOM_INVALID_ARGUMENT, "an operation of floating numbers got integers"); }
double no_real(double, double) { fail(TRANSOM_INVALID_ARGUMENT, "an operation of integers got floating numbers"); }

template <auto real, auto integer = no_integer>
void unary(const Node&, const Inputs& in, Outputs& out) {
  const HostArray& x = *in[0];
  for (size_t i = 0; i < x.real.size(); ++i) out[0].set(i, static_cast<double>(real(x.real[i])));
  for (size_t i = 0; i < x.integer.size(); ++i) out[0].set(i, static_cast<int64_t>(integer(x.integer[i])));
}

template <auto real, auto integer>
void binary(const Node&, const Inputs& in, Outputs& out) {
  const HostArray &x = *in[0], &y = *in[1];
  for (size_t i = 0; i < x.real.size(); ++i) out[0].set(i, static_cast<double>(real(x.real[i], y.real[i])));
  for (size_t i = 0; i < x.integer.size(); ++i)
    out[0].set(i, static_cast<int64_t>(integer(x.integer[i], y.integer[i])));
}

template <auto relation>
void comparison(const Node&, const Inputs& in, Outputs& out) {
  const HostArray &x = *in[0], &y = *in[1];
  for (size_t i = 0; i < x.real.size(); ++i) out[0].integer[i] = relation(x.real[i], y.real[i]);
  for (size_t i = 0; i < x.integer.size(); ++i) out[0].integer[i] = relation(x.integer[i], y.integer[i]);
}

template <typename Number>
Number sign_of(Number x) {
  return x > 0 ? Number(1) : x < 0 ? Number(-1) : x;
}
int64_t negative_of(int64_t x) { return wrapping(0 - static_cast<uint64_t>(x)); }
int64_t magnitude_of(int64_t x) { return x < 0 ? negative_of(x) : x; }
int64_t sum_of(int64_t x, int64_t y) { return wrapping(static_cast<uint64_t>(x) + static_cast<uint64_t>(y)); }
int64_t difference_of(int64_t x, int64_t y) { return wrapping(static_cast<uint64_t>(x) - static_cast<uint64_t>(y)); }
int64_t product_of(int64_t x, int64_t y) { return wrapping(static_cast<uint64_t>(x) * static_cast<uint64_t>(y)); }
int64_t quotient_of(int64_t x, int64_t y) { return y == 0 ? 0 : y == -1 ? negative_of(x) : x / y; }
int64_t remainder_of_integers(int64_t x, int64_t y) {
  if (y == 0 || y == -1) return 0;
  const int64_t r = x % y;
  return r != 0 && (r < 0) != (y < 0) ? r + y : r;
}
double remainder_of(double x, double y) {
  const double r = std::fmod(x, y);
  return r != 0 && (r < 0) != (y < 0) ? r + y : r;
}
int64_t power_of(int64_t x, int64_t y) {
  if (y < 0) return x == 1 ? 1 : x == -1 ? (y % 2 ? -1 : 1) : 0;
  int64_t result = 1;
  for (; y > 0; y >>= 1, x = product_of(x, x))
    if (y & 1) result = product_of(result, x);
  return result;
}
double larger_of(double x, double y) { return std::isnan(x) || std::isnan(y) ? NAN : std::max(x, y); }
double smaller_of(double x, double y) { return std::isnan(x) || std::isnan(y) ? NAN : std::min(x, y); }

void select(const Node&, const Inputs& in, Outputs& out) {
  for (size_t i = 0; i < in[0]->integer.size(); ++i) out[0].take(i, *in[in[0]->integer[i] ? 1 : 2], i);
}

void cast(const Node&, const Inputs& in, Outputs& out) {
  const HostArray& x = *in[0];
  for (size_t i = 0; i < x.real.size(); ++i) out[0].set(i, x.real[i]);
  for (size_t i = 0; i < x.integer.size(); ++i) out[0].set(i, x.integer[i]);
}

}  // namespace

void add_host_elementwise(HostTable& table) {
#define REAL(expression) [](double x) { return expression; }
  table["neg"] = unary<REAL(-x), negative_of>;
  table["abs"] = unary<REAL(std::fabs(x)), magnitude_of>;
  table["sign"] = unary<sign_of<double>, sign_of<int64_t>>;
  table["exp"] = unary<REAL(std::exp(x))>;
  table["expm1"] = unary<REAL(std::expm1(x))>;
  table["log"] = unary<REAL(std::log(x))>;
  table["log1p"] = unary<REAL(std::log1p(x))>;
  table["sqrt"] = unary<REAL(std::sqrt(x))>;
  table["rsqrt"] = unary<REAL(1 / std::sqrt(x))>;
  table["tanh"] = unary<REAL(std::tanh(x))>;
  table["erf"] = unary<REAL(std::erf(x))>;
  table["sin"] = unary<REAL(std::sin(x))>;
  table["cos"] = unary<REAL(std::cos(x))>;
  table["floor"] = unary<REAL(std::floor(x))>;
  table["ceil"] = unary<REAL(std::ceil(x))>;
  table["round"] = unary<REAL(std::nearbyint(x))>;
  table["is_finite"] = unary<REAL(double(std::isfinite(x)))>;
#undef REAL
  table["logical_not"] = unary<[](double x) { return x; }, [](int64_t x) { return int64_t{x == 0}; }>;
  table["add"] = binary<[](double x, double y) { return x + y; }, sum_of>;
  table["sub"] = binary<[](double x, double y) { return x - y; }, difference_of>;
  table["mul"] = binary<[](double x, double y) { return x * y; }, product_of>;
  table["div"] = binary<[](double x, double y) { return x / y; }, quotient_of>;
  table["pow"] = binary<[](double x, double y) { return std::pow(x, y); }, power_of>;
  table["max"] = binary<larger_of, [](int64_t x, int64_t y) { return std::max(x, y); }>;
  table["min"] = binary<smaller_of, [](int64_t x, int64_t y) { return std::min(x, y); }>;
  table["remainder"] = binary<remainder_of, remainder_of_integers>;
  table["logical_and"] = binary<no_real, [](int64_t x, int64_t y) { return x & y; }>;
  table["logical_or"] = binary<no_real, [](int64_t x, int64_t y) { return x | y; }>;
  table["logical_xor"] = binary<no_real, [](int64_t x, int64_t y) { return x ^ y; }>;
  table["equal"] = comparison<std::equal_to<>{}>;
  table["not_equal"] = comparison<std::not_equal_to<>{}>;
  table["less"] = comparison<std::less<>{}>;
  table["less_equal"] = comparison<std::less_equal<>{}>;
  table["greater"] = comparison<std::greater<>{}>;
  table["greater_equal"] = comparison<std::greater_equal<>{}>;
  table["select"] = select;
  table["cast"] = cast;
}

}  // namespace transom::hpu
