// SPDX-License-Identifier: Apache-2.0
#include "popops/stored_tree.h"

namespace ipu_emulator {
namespace {

using namespace popops::expr;
using Kind = Expr::Kind;

constexpr int kDeepestTree = 1000;

std::unique_ptr<const Expr> read_subtree(Reader& from, int depth) {
  Reader::expect(depth < kDeepestTree, "a tree of fewer levels");
  const auto below = [&] { return read_subtree(from, depth + 1); };
  switch (static_cast<Kind>(from.number(static_cast<uint64_t>(Kind::kTernary)))) {
    case Kind::kConst: {
      const poplar::Type type = from.type();
      const double real = from.real();
      return std::make_unique<Const>(type, real, from.signed_number());
    }
    case Kind::kPlaceHolder:
      return std::make_unique<PlaceHolder>(static_cast<unsigned>(from.number(UINT32_MAX)));
    case Kind::kCast: {
      const poplar::Type type = from.type();
      return std::make_unique<Cast>(*below(), type);
    }
    case Kind::kUnary: {
      const auto op = static_cast<UnaryOpType>(from.number(static_cast<uint64_t>(UnaryOpType::TRUNC)));
      return std::make_unique<UnaryOp>(op, *below());
    }
    case Kind::kBinary: {
      const auto op = static_cast<BinaryOpType>(from.number(static_cast<uint64_t>(BinaryOpType::SUBTRACT)));
      const auto left = below();
      return std::make_unique<BinaryOp>(op, *left, *below());
    }
    case Kind::kTernary: {
      const auto op = static_cast<TernaryOpType>(from.number(static_cast<uint64_t>(TernaryOpType::SELECT)));
      const auto first = below(), second = below();
      return std::make_unique<TernaryOp>(op, *first, *second, *below());
    }
  }
  Reader::refuse("a tree");
}

}  // namespace

void write_tree(const Expr& tree, Writer& to) {
  to.number(static_cast<uint64_t>(tree.kind()));
  const auto op_of = [&](auto op) { to.number(static_cast<uint64_t>(op)); };
  switch (tree.kind()) {
    case Kind::kConst: {
      const auto& constant = static_cast<const Const&>(tree);
      to.type(constant.getType());
      to.real(constant.real());
      return to.signed_number(constant.integer());
    }
    case Kind::kPlaceHolder:
      return to.number(static_cast<const PlaceHolder&>(tree).getIndex());
    case Kind::kCast: {
      const auto& cast = static_cast<const Cast&>(tree);
      to.type(cast.getRHSType());
      return write_tree(cast.getLHS(), to);
    }
    case Kind::kUnary: {
      const auto& unary = static_cast<const UnaryOp&>(tree);
      op_of(unary.getOpType());
      return write_tree(unary.getArg(), to);
    }
    case Kind::kBinary: {
      const auto& binary = static_cast<const BinaryOp&>(tree);
      op_of(binary.getOpType());
      write_tree(binary.getLHS(), to);
      return write_tree(binary.getRHS(), to);
    }
    case Kind::kTernary: {
      const auto& ternary = static_cast<const TernaryOp&>(tree);
      op_of(ternary.getOpType());
      write_tree(ternary.getArg0(), to);
      write_tree(ternary.getArg1(), to);
      return write_tree(ternary.getArg2(), to);
    }
  }
}

std::unique_ptr<const Expr> read_tree(Reader& from) { return read_subtree(from, 0); }

}  // namespace ipu_emulator
