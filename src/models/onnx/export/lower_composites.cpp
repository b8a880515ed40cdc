// SPDX-License-Identifier: Apache-2.0
// Composites that ONNX has as one operator.
#include "models/onnx/export/lowering.h"

namespace transom::onnx {
namespace {

using Operands = std::vector<Operand>;

constexpr int64_t kLastAxis = -1;

Operands softmax(const Lowering& l) {
  return {whole(l.builder.node("Softmax", {l.value(0)}, l.type(), {{"axis", kLastAxis}}), l.type())};
}
Operands log_softmax(const Lowering& l) {
  return {whole(l.builder.node("LogSoftmax", {l.value(0)}, l.type(), {{"axis", kLastAxis}}), l.type())};
}

Operands layer_norm(const Lowering& l) {
  return {whole(l.builder.node("LayerNormalization", {l.value(0), l.value(1), l.value(2)}, l.type(),
                               {{"axis", kLastAxis}, {"epsilon", static_cast<float>(l.number("epsilon"))}}),
                l.type())};
}

Operands rms_norm(const Lowering& l) {
  return {whole(l.builder.node("RMSNormalization", {l.value(0), l.value(1)}, l.type(),
                               {{"axis", kLastAxis}, {"epsilon", static_cast<float>(l.number("epsilon"))}}),
                l.type())};
}

// [B, T, H, d] -> [B, T, H d]
ValueId joined_heads(GraphBuilder& b, ValueId x, const Extents& shape) {
  return b.reshape(x, {shape[0], shape[1], product_of({shape[2], shape[3]})});
}

// The halves of a head are its pairs, as in the operator's default.
Operands rotary(const Lowering& l) {
  GraphBuilder& b = l.builder;
  const Extents &x = l.shape(0), angles = l.shape(1);
  const auto table = [&](size_t input) {  // [B or 1, T or 1, 1, p] -> [B, T, p]
    const ValueId narrow = l.value(input);
    const ValueId flat = b.reshape(narrow, {angles[0], angles[1], angles[3]});
    return b.expand(flat, {x[0], x[1], angles[3]});
  };
  const ValueId flat = joined_heads(b, l.value(0), x);
  const ValueId turned =
      b.node("RotaryEmbedding", {flat, table(1), table(2)}, b.type(flat),
             {{"interleaved", int64_t{0}},
              {"num_heads", x[2][0]},
              {"rotary_embedding_dim", 2 * angles[3][0] == x[3][0] ? int64_t{0} : 2 * angles[3][0]}});
  return {whole(b.reshape(turned, x), l.type())};
}

Operands attention(const Lowering& l) {
  GraphBuilder& b = l.builder;
  const Extents &q = l.shape(0), &k = l.shape(1), &v = l.shape(2);
  ValueId bias = kAbsent;
  if (l.integer("biased") != 0) {
    // Runtimes broadcast rows and heads of the mask, not all of them its places.
    bias = l.operand(3).value;
    Extents shape = b.shape(bias);
    while (shape.size() < 4) shape.insert(shape.begin(), constant_extent(1));
    bias = b.reshape(bias, shape);
    shape[2] = q[1], shape[3] = k[1];
    bias = b.cast(b.expand(bias, shape), l.dtype());
  }
  const ValueType flat{l.dtype(), {q[0], q[1], product_of({q[2], v[3]})}};
  const ValueId mixed = b.node(
      "Attention",
      {joined_heads(b, l.value(0), q), joined_heads(b, l.value(1), k), joined_heads(b, l.value(2), v), bias}, flat,
      {{"is_causal", int64_t{l.integer("causal") != 0}},
       {"kv_num_heads", k[2][0]},
       {"q_num_heads", q[2][0]},
       {"scale", static_cast<float>(l.number("scale"))}});
  return {whole(b.reshape(mixed, l.type().shape), l.type())};
}

constexpr LoweringEntry kCompositeEntries[] = {{"softmax", softmax},       {"log_softmax", log_softmax},
                                               {"layer_norm", layer_norm}, {"rms_norm", rms_norm},
                                               {"rotary", rotary},         {"attention", attention}};

}  // namespace

std::span<const LoweringEntry> composite_lowerings() { return kCompositeEntries; }

}  // namespace transom::onnx
