// SPDX-License-Identifier: Apache-2.0
#include "popops/evaluate.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "poplar/exceptions.hpp"
#include "simulator/model.h"
#include "simulator/rounding.h"

namespace ipu_emulator {
namespace {

using poplar::Type;
using namespace popops::expr;
using Id = Type::Id;

constexpr size_t kChunk = 512;

// Calls body with a value of the C++ type that computes the type: float for half.
template <typename Body>
void with_type(Type type, Body&& body) {
  switch (type.id()) {
    case Id::kBool:
    case Id::kUnsignedChar:
      return body(uint8_t{});
    case Id::kChar:
    case Id::kSignedChar:
      return body(int8_t{});
    case Id::kShort:
      return body(int16_t{});
    case Id::kUnsignedShort:
      return body(uint16_t{});
    case Id::kInt:
      return body(int32_t{});
    case Id::kUnsignedInt:
      return body(uint32_t{});
    case Id::kLongLong:
      return body(int64_t{});
    case Id::kUnsignedLongLong:
      return body(uint64_t{});
    case Id::kHalf:
    case Id::kFloat:
      return body(float{});
    default:
      throw poplar::graph_error("expected a type of elements");
  }
}

bool is_floating(Type type) { return type == poplar::HALF || type == poplar::FLOAT; }

// The values of one chunk.
struct Values {
  Type type;
  alignas(64) std::array<std::byte, kChunk * 8> bytes;
  template <typename T>
  T* as() {
    return reinterpret_cast<T*>(bytes.data());
  }
};

class Evaluator {
 public:
  std::span<const MapOperand> operands;
  size_t begin = 0, count = 0;
  Rounding* rounding = nullptr;

  std::unique_ptr<Values> evaluate(const Expr& e) {
    auto result = fresh();
    evaluate(e, *result);
    return result;
  }
  void recycle(std::unique_ptr<Values> values) { pool_.push_back(std::move(values)); }

 private:
  std::unique_ptr<Values> fresh() {
    if (pool_.empty()) return std::make_unique_for_overwrite<Values>();
    auto values = std::move(pool_.back());
    pool_.pop_back();
    return values;
  }

  void round(Values& values) {
    if (values.type != poplar::HALF) return;
    float* x = values.as<float>();
    for (size_t i = 0; i < count; ++i) x[i] = from_half((*rounding)(x[i]));
  }

  void load(const MapOperand& operand, Values& to) {
    to.type = operand.type;
    const size_t size = size_of(operand.type);
    const std::byte* from = operand.data + (operand.scalar ? 0 : begin * size);
    if (operand.type == poplar::HALF) {
      const auto* halves = reinterpret_cast<const uint16_t*>(from);
      for (size_t i = 0; i < count; ++i) to.as<float>()[i] = from_half(halves[operand.scalar ? 0 : i]);
      return;
    }
    if (!operand.scalar) {
      std::memcpy(to.bytes.data(), from, count * size);
      return;
    }
    with_type(operand.type, [&](auto example) {
      decltype(example) value;
      std::memcpy(&value, from, sizeof value);
      std::fill_n(to.as<decltype(example)>(), count, value);
    });
  }

  void evaluate(const Expr& e, Values& to) {
    switch (e.kind()) {
      case Expr::Kind::kConst: {
        const auto& constant = static_cast<const Const&>(e);
        to.type = constant.getType();
        with_type(to.type, [&](auto example) {
          using T = decltype(example);
          std::fill_n(
              to.as<T>(), count,
              std::is_floating_point_v<T> ? static_cast<T>(constant.real()) : static_cast<T>(constant.integer()));
        });
        // A number of the program, which nobody computes.
        if (to.type == poplar::HALF)
          for (float* x = to.as<float>(); x < to.as<float>() + count; ++x) *x = from_half(to_half(*x));
        return;
      }
      case Expr::Kind::kPlaceHolder:
        return load(operands[static_cast<const PlaceHolder&>(e).getIndex() - 1], to);
      case Expr::Kind::kCast: {
        const auto& cast = static_cast<const Cast&>(e);
        auto from = evaluate(cast.getLHS());
        convert(*from, cast.getRHSType(), to);
        return recycle(std::move(from));
      }
      case Expr::Kind::kUnary: {
        const auto& unary = static_cast<const UnaryOp&>(e);
        auto a = evaluate(unary.getArg());
        apply(unary.getOpType(), *a, to);
        return recycle(std::move(a));
      }
      case Expr::Kind::kBinary: {
        const auto& binary = static_cast<const BinaryOp&>(e);
        auto a = evaluate(binary.getLHS()), b = evaluate(binary.getRHS());
        apply(binary.getOpType(), *a, *b, to);
        recycle(std::move(a));
        return recycle(std::move(b));
      }
      case Expr::Kind::kTernary: {
        const auto& ternary = static_cast<const TernaryOp&>(e);
        auto a = evaluate(ternary.getArg0()), b = evaluate(ternary.getArg1()), c = evaluate(ternary.getArg2());
        to.type = a->type;
        with_type(a->type, [&](auto example) {
          using T = decltype(example);
          const T *x = a->as<T>(), *y = b->as<T>();
          T* z = to.as<T>();
          if (ternary.getOpType() == TernaryOpType::SELECT) {
            const uint8_t* where = c->as<uint8_t>();
            for (size_t i = 0; i < count; ++i) z[i] = where[i] ? x[i] : y[i];
          } else {
            const T* high = c->as<T>();
            for (size_t i = 0; i < count; ++i) z[i] = x[i] < y[i] ? y[i] : x[i] > high[i] ? high[i] : x[i];
          }
        });
        recycle(std::move(a));
        recycle(std::move(b));
        return recycle(std::move(c));
      }
    }
  }

  void convert(Values& from, Type type, Values& to) {
    to.type = type;
    with_type(from.type, [&](auto example_from) {
      with_type(type, [&](auto example_to) {
        using F = decltype(example_from);
        using T = decltype(example_to);
        const F* x = from.as<F>();
        T* y = to.as<T>();
        for (size_t i = 0; i < count; ++i) {
          if (type == poplar::BOOL) {
            y[i] = static_cast<T>(x[i] != F{});
          } else if constexpr (std::is_floating_point_v<F> && std::is_integral_v<T>) {
            // Truncated, and held within what the type has.
            const double value = std::trunc(static_cast<double>(x[i]));
            if (std::isnan(value)) y[i] = 0;
            else if (value >= static_cast<double>(std::numeric_limits<T>::max())) y[i] = std::numeric_limits<T>::max();
            else if (value <= static_cast<double>(std::numeric_limits<T>::min())) y[i] = std::numeric_limits<T>::min();
            else y[i] = static_cast<T>(value);
          } else {
            y[i] = static_cast<T>(x[i]);
          }
        }
      });
    });
    round(to);
  }

  template <typename T, typename Function>
  void each(Values& a, Values& to, Function function) {
    const T* x = a.as<T>();
    T* y = to.as<T>();
    for (size_t i = 0; i < count; ++i) y[i] = function(x[i]);
  }

  template <typename Test>
  void test(Values& a, Values& to, Test holds) {
    to.type = poplar::BOOL;
    uint8_t* y = to.as<uint8_t>();
    if (!is_floating(a.type)) {
      std::fill_n(y, count, static_cast<uint8_t>(holds(0.0f)));
      return;
    }
    const float* x = a.as<float>();
    for (size_t i = 0; i < count; ++i) y[i] = holds(x[i]);
  }

  void apply(UnaryOpType op, Values& a, Values& to) {
    to.type = a.type;
    switch (op) {
      case UnaryOpType::IS_FINITE:
        return test(a, to, [](float x) { return std::isfinite(x); });
      case UnaryOpType::IS_NAN:
        return test(a, to, [](float x) { return std::isnan(x); });
      case UnaryOpType::IS_INF:
        return test(a, to, [](float x) { return std::isinf(x); });
      case UnaryOpType::LOGICAL_NOT:
        return each<uint8_t>(a, to, [](uint8_t x) { return static_cast<uint8_t>(!x); });
      default:
        break;
    }
    if (is_floating(a.type)) {
      apply_float(op, a, to);
      return round(to);
    }
    with_type(a.type, [&](auto example) {
      using T = decltype(example);
      if constexpr (std::is_integral_v<T>) {
        using U = std::make_unsigned_t<T>;
        switch (op) {
          case UnaryOpType::NEGATE:
            return each<T>(a, to, [](T x) { return static_cast<T>(U{0} - static_cast<U>(x)); });
          case UnaryOpType::ABSOLUTE:
            return each<T>(a, to, [](T x) { return x < T{} ? static_cast<T>(U{0} - static_cast<U>(x)) : x; });
          case UnaryOpType::SIGNUM:
            return each<T>(a, to, [](T x) { return static_cast<T>((x > T{}) - (x < T{})); });
          case UnaryOpType::BITWISE_NOT:
            return each<T>(a, to, [](T x) { return static_cast<T>(~x); });
          case UnaryOpType::SQUARE:
            return each<T>(a, to, [](T x) { return static_cast<T>(static_cast<U>(x) * static_cast<U>(x)); });
          default:
            throw poplar::graph_error("popops::map: expected floating numbers for this operation, found " +
                                      a.type.toString());
        }
      }
    });
  }

  void apply_float(UnaryOpType op, Values& a, Values& to) {
    const auto by = [&](auto function) { each<float>(a, to, function); };
    switch (op) {
      case UnaryOpType::NEGATE:
        return by([](float x) { return -x; });
      case UnaryOpType::ABSOLUTE:
        return by([](float x) { return std::fabs(x); });
      case UnaryOpType::SIGNUM:
        return by([](float x) { return std::isnan(x) ? x : static_cast<float>((x > 0) - (x < 0)); });
      case UnaryOpType::EXPONENT:
        return by([](float x) { return std::exp(x); });
      case UnaryOpType::EXPONENT_MINUS_ONE:
        return by([](float x) { return std::expm1(x); });
      case UnaryOpType::LOGARITHM:
        return by([](float x) { return std::log(x); });
      case UnaryOpType::LOGARITHM_ONE_PLUS:
        return by([](float x) { return std::log1p(x); });
      case UnaryOpType::SQRT:
        return by([](float x) { return std::sqrt(x); });
      case UnaryOpType::RSQRT:
        return by([](float x) { return static_cast<float>(1 / std::sqrt(static_cast<double>(x))); });
      case UnaryOpType::INVERSE:
        return by([](float x) { return 1 / x; });
      case UnaryOpType::TANH:
        return by([](float x) { return std::tanh(x); });
      case UnaryOpType::SIGMOID:
        return by([](float x) { return 1 / (1 + std::exp(-x)); });
      case UnaryOpType::ERF:
        return by([](float x) { return std::erf(x); });
      case UnaryOpType::SIN:
        return by([](float x) { return std::sin(x); });
      case UnaryOpType::COS:
        return by([](float x) { return std::cos(x); });
      case UnaryOpType::FLOOR:
        return by([](float x) { return std::floor(x); });
      case UnaryOpType::CEIL:
        return by([](float x) { return std::ceil(x); });
      case UnaryOpType::NEARBY_INT:
        return by([](float x) { return std::nearbyint(x); });
      case UnaryOpType::TRUNC:
        return by([](float x) { return std::trunc(x); });
      case UnaryOpType::SQUARE:
        return by([](float x) { return x * x; });
      default:
        throw poplar::graph_error("popops::map: expected integers for this operation");
    }
  }

  template <typename T, typename R, typename Function>
  void each(Values& a, Values& b, Values& to, Function function) {
    const T *x = a.as<T>(), *y = b.as<T>();
    R* z = to.as<R>();
    for (size_t i = 0; i < count; ++i) z[i] = static_cast<R>(function(x[i], y[i]));
  }

  void apply(BinaryOpType op, Values& a, Values& b, Values& to) {
    with_type(a.type, [&](auto example) {
      using T = decltype(example);
      const auto compare = [&](auto function) {
        to.type = poplar::BOOL;
        each<T, uint8_t>(a, b, to, function);
      };
      const auto by = [&](auto function) {
        to.type = a.type;
        each<T, T>(a, b, to, function);
      };
      switch (op) {
        case BinaryOpType::EQUAL:
          return compare([](T x, T y) { return x == y; });
        case BinaryOpType::NOT_EQUAL:
          return compare([](T x, T y) { return x != y; });
        case BinaryOpType::LESS_THAN:
          return compare([](T x, T y) { return x < y; });
        case BinaryOpType::LESS_THAN_EQUAL:
          return compare([](T x, T y) { return x <= y; });
        case BinaryOpType::GREATER_THAN:
          return compare([](T x, T y) { return x > y; });
        case BinaryOpType::GREATER_THAN_EQUAL:
          return compare([](T x, T y) { return x >= y; });
        case BinaryOpType::MAXIMUM:
          return by([](T x, T y) { return x > y ? x : y; });
        case BinaryOpType::MINIMUM:
          return by([](T x, T y) { return x < y ? x : y; });
        case BinaryOpType::LOGICAL_AND:
          return by([](T x, T y) { return static_cast<T>(x && y); });
        case BinaryOpType::LOGICAL_OR:
          return by([](T x, T y) { return static_cast<T>(x || y); });
        default:
          break;
      }
      if constexpr (std::is_floating_point_v<T>) {
        switch (op) {
          case BinaryOpType::ADD:
            return by([](T x, T y) { return x + y; });
          case BinaryOpType::SUBTRACT:
            return by([](T x, T y) { return x - y; });
          case BinaryOpType::MULTIPLY:
            return by([](T x, T y) { return x * y; });
          case BinaryOpType::DIVIDE:
            return by([](T x, T y) { return x / y; });
          case BinaryOpType::POWER:
            return by([](T x, T y) { return std::pow(x, y); });
          case BinaryOpType::REMAINDER:
            return by([](T x, T y) { return std::fmod(x, y); });
          default:
            throw poplar::graph_error("popops::map: expected integers for this operation");
        }
      } else {
        using U = std::make_unsigned_t<T>;
        switch (op) {
          case BinaryOpType::ADD:
            return by([](T x, T y) { return static_cast<T>(static_cast<U>(x) + static_cast<U>(y)); });
          case BinaryOpType::SUBTRACT:
            return by([](T x, T y) { return static_cast<T>(static_cast<U>(x) - static_cast<U>(y)); });
          case BinaryOpType::MULTIPLY:
            return by([](T x, T y) {
              return static_cast<T>(static_cast<uint64_t>(static_cast<U>(x)) *
                                    static_cast<uint64_t>(static_cast<U>(y)));
            });
          case BinaryOpType::DIVIDE:  // what has no quotient is 0
            return by([](T x, T y) {
              return y == T{}                                         ? T{}
                     : std::is_signed_v<T> && y == static_cast<T>(-1) ? static_cast<T>(U{0} - static_cast<U>(x))
                                                                      : static_cast<T>(x / y);
            });
          case BinaryOpType::REMAINDER:
            return by([](T x, T y) {
              return y == T{} || (std::is_signed_v<T> && y == static_cast<T>(-1)) ? T{} : static_cast<T>(x % y);
            });
          case BinaryOpType::BITWISE_AND:
            return by([](T x, T y) { return static_cast<T>(x & y); });
          case BinaryOpType::BITWISE_OR:
            return by([](T x, T y) { return static_cast<T>(x | y); });
          case BinaryOpType::BITWISE_XOR:
            return by([](T x, T y) { return static_cast<T>(x ^ y); });
          case BinaryOpType::SHIFT_LEFT:
            return by([](T x, T y) { return static_cast<T>(static_cast<U>(x) << y); });
          case BinaryOpType::SHIFT_RIGHT:
            return by([](T x, T y) { return static_cast<T>(static_cast<U>(x) >> y); });
          default:
            throw poplar::graph_error("popops::map: expected floating numbers for this operation, found " +
                                      a.type.toString());
        }
      }
    });
    round(to);
  }

  std::vector<std::unique_ptr<Values>> pool_;
};

}  // namespace

void evaluate(const Expr& tree, std::span<const MapOperand> operands, Type type, size_t elements, std::byte* result,
              Rounding& rounding) {
  Evaluator evaluator;
  evaluator.rounding = &rounding;
  evaluator.operands = operands;
  const size_t size = size_of(type);
  for (size_t begin = 0; begin < elements; begin += kChunk) {
    evaluator.begin = begin;
    evaluator.count = std::min(kChunk, elements - begin);
    auto values = evaluator.evaluate(tree);
    std::byte* to = result + begin * size;
    if (type == poplar::HALF) {
      const float* x = values->as<float>();
      for (size_t i = 0; i < evaluator.count; ++i) reinterpret_cast<uint16_t*>(to)[i] = to_half(x[i]);
    } else {
      std::memcpy(to, values->bytes.data(), evaluator.count * size);
    }
    evaluator.recycle(std::move(values));
  }
}

}  // namespace ipu_emulator
