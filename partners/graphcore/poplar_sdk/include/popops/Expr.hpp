// SPDX-License-Identifier: Apache-2.0
// Trees of element-wise operations over the tensors of a call: _1 is the first.
#pragma once

#include <cstdint>
#include <memory>
#include <type_traits>
#include <vector>

#include "poplar/Type.hpp"
#include "popops/ExprOp.hpp"

namespace popops::expr {

class Expr {
 public:
  enum class Kind { kConst, kCast, kPlaceHolder, kUnary, kBinary, kTernary };
  virtual ~Expr() = default;
  virtual std::unique_ptr<Expr> clone() const = 0;
  virtual Kind kind() const = 0;
};

class Any {
 public:
  Any(const Expr& expr) : expr_(expr.clone()) {}
  Any(const Any& other) : expr_(other.expr_->clone()) {}
  Any(Any&&) = default;
  Any& operator=(const Any& other) {
    expr_ = other.expr_->clone();
    return *this;
  }
  Any& operator=(Any&&) = default;
  operator Expr&() { return *expr_; }
  operator const Expr&() const { return *expr_; }

 private:
  std::unique_ptr<Expr> expr_;
};

class Const : public Expr {
 public:
  template <typename T, typename = std::enable_if_t<std::is_arithmetic_v<T>>>
  Const(T value)
      : type_(poplar::equivalent_device_type<T>::value),
        real_(static_cast<double>(value)),
        integer_(static_cast<int64_t>(value)) {}
  Const(const poplar::Type& type, double real, int64_t integer) : type_(type), real_(real), integer_(integer) {}
  const poplar::Type& getType() const { return type_; }
  double real() const { return real_; }
  int64_t integer() const { return integer_; }
  std::unique_ptr<Expr> clone() const override { return std::make_unique<Const>(*this); }
  Kind kind() const override { return Kind::kConst; }

 protected:
  poplar::Type type_;
  double real_;
  int64_t integer_;
};

class ConstHalf : public Const {
 public:
  ConstHalf(float value) : Const(value) { type_ = poplar::HALF; }
  std::unique_ptr<Expr> clone() const override { return std::make_unique<ConstHalf>(*this); }
};

class PlaceHolder : public Expr {
 public:
  explicit PlaceHolder(unsigned index) : index_(index) {}
  unsigned getIndex() const { return index_; }  // from 1
  std::unique_ptr<Expr> clone() const override { return std::make_unique<PlaceHolder>(*this); }
  Kind kind() const override { return Kind::kPlaceHolder; }

 private:
  unsigned index_;
};

inline const PlaceHolder _1(1), _2(2), _3(3), _4(4);

class Cast : public Expr {
 public:
  Cast(const Expr& a, poplar::Type type) : a_(a.clone()), type_(type) {}
  Cast(const Cast& other) : a_(other.a_->clone()), type_(other.type_) {}
  const Expr& getLHS() const { return *a_; }
  const poplar::Type& getRHSType() const { return type_; }
  std::unique_ptr<Expr> clone() const override { return std::make_unique<Cast>(*this); }
  Kind kind() const override { return Kind::kCast; }

 private:
  std::unique_ptr<Expr> a_;
  poplar::Type type_;
};

class UnaryOp : public Expr {
 public:
  UnaryOp(UnaryOpType type, const Expr& a) : type_(type), a_(a.clone()) {}
  UnaryOp(const UnaryOp& other) : type_(other.type_), a_(other.a_->clone()) {}
  UnaryOpType getOpType() const { return type_; }
  const Expr& getArg() const { return *a_; }
  std::unique_ptr<Expr> clone() const override { return std::make_unique<UnaryOp>(*this); }
  Kind kind() const override { return Kind::kUnary; }

 private:
  UnaryOpType type_;
  std::unique_ptr<Expr> a_;
};

class BinaryOp : public Expr {
 public:
  BinaryOp(BinaryOpType type, const Expr& a, const Expr& b) : type_(type), a_(a.clone()), b_(b.clone()) {}
  BinaryOp(const BinaryOp& other) : type_(other.type_), a_(other.a_->clone()), b_(other.b_->clone()) {}
  BinaryOpType getOpType() const { return type_; }
  const Expr& getLHS() const { return *a_; }
  const Expr& getRHS() const { return *b_; }
  std::unique_ptr<Expr> clone() const override { return std::make_unique<BinaryOp>(*this); }
  Kind kind() const override { return Kind::kBinary; }

 private:
  BinaryOpType type_;
  std::unique_ptr<Expr> a_, b_;
};

class TernaryOp : public Expr {
 public:
  // SELECT: a where c holds, else b. CLAMP: a within [b, c].
  TernaryOp(TernaryOpType type, const Expr& a, const Expr& b, const Expr& c)
      : type_(type), a_(a.clone()), b_(b.clone()), c_(c.clone()) {}
  TernaryOp(const TernaryOp& other) : TernaryOp(other.type_, *other.a_, *other.b_, *other.c_) {}
  TernaryOpType getOpType() const { return type_; }
  const Expr& getArg0() const { return *a_; }
  const Expr& getArg1() const { return *b_; }
  const Expr& getArg2() const { return *c_; }
  std::unique_ptr<Expr> clone() const override { return std::make_unique<TernaryOp>(*this); }
  Kind kind() const override { return Kind::kTernary; }

 private:
  TernaryOpType type_;
  std::unique_ptr<Expr> a_, b_, c_;
};

}  // namespace popops::expr
