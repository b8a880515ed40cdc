// SPDX-License-Identifier: Apache-2.0
// attention without its scores in memory (Dao et al., 2022): a group takes some queries of one head and walks the keys
// tile by tile, with a running maximum and sum for each query. The order of the keys depends on their number alone, so
// a query has the bits that it has alone.
#include <algorithm>
#include <bit>
#include <limits>

#include "gpu/lowering/attention/attention_text.h"

namespace transom::gpu {
namespace {

constexpr int64_t kQueries = 16, kKeys = 64;  // of a tile

// Of 16-bit types, over matrix units. Weights are rounded to 16 bits before they are multiplied by the values.
void lower_by_fragments(Emitter& emitter, const Work& work) {
  AttentionText g(work, nullptr);
  KernelText& text = g.text;
  begin_queries(g);
  g.declare_sums("mixed", g.e);
  text.line("for (idx s0 = begin; s0 < end; s0 += {}) {{", kBlock);
  g.multiply_scores();
  g.draw_dropout();
  write_weights(g);
  text.line("UNROLL for (int chunk = 0; chunk < {}; ++chunk) {{", divided_up(g.e, kBlock));
  for_results(text, {g.kind, "mixed[chunk]", kBlock, kBlock},
              [&](const std::string& value) { text.line("{} *= scaled[row];", value); });
  text.line("}}");
  if (g.dropout > 0) for_results(text, g.scores, [&](const std::string& value) { g.hold(g.dropped(value)); });
  g.multiply_pairs("mixed", g.e, g.values(true), "s0");
  text.line("}}");
  g.store_sums("mixed", work.outputs.at(0), g.e, g.ne, "t0", g.nT, g.nH, "head", " / total[row]");
  text.line("}}");
  emitter.launch(text, std::min<int64_t>(g.B * g.H * divided_up(g.T, kBlock), 1 << 16), "flash attention 64x64");
}

// Whether the vendor's library computes it.
bool attended_by_library(Emitter& emitter, const Work& work) {
  const std::optional<AttentionShape> shape = shape_for_library(work.node);
  if (!shape) return false;
  const std::vector<Operand>& in = work.inputs;
  return emitter.attend(*shape, static_cast<float>(work.node.number("scale")),
                        {in[0], in[1], in[2], work.outputs.at(0)}, shape->biased() ? &in[3] : nullptr);
}

void lower_by_own_kernel(Emitter& emitter, const Work& work) {
  const Node& node = work.node;
  const Type &q = node.input(0), &k = node.input(1), &v = node.input(2), &out = node.output();
  if (backend::is_half(q.dtype) && q.shape.at(3) > 0 && emitter.facts().group_memory >= kBlockMemory)
    return lower_by_fragments(emitter, work);
  const bool biased = node.integer("biased") != 0, causal_asked = node.integer("causal") != 0;
  const double dropout = node.number("dropout"), cap = node.number("soft_cap");
  const int64_t window = node.integer("sliding_window");
  const int64_t T = q.shape.at(1), S = k.shape.at(1), H = q.shape.at(2), G = k.shape.at(2), d = q.shape.at(3),
                e = v.shape.at(3);
  const bool causal = causal_asked && !(T == 1 && window == 0);
  const bool wide = q.dtype == TRANSOM_FLOAT64;
  const char* type = compute_type(q.dtype);
  const transom_dtype exact = wide ? TRANSOM_FLOAT64 : TRANSOM_FLOAT32;

  KernelText text(is_wide(q) || is_wide(k) || is_wide(v) || is_wide(out) ||
                  q.shape[0] * H * T >= (int64_t{1} << 30) / std::max<int64_t>(S, 1));
  const std::string qs = text.address(work.inputs[0], storage_type(q.dtype)),
                    ks = text.address(work.inputs[1], storage_type(k.dtype));
  const std::string vs = text.address(work.inputs[2], storage_type(v.dtype)),
                    to = text.address(work.outputs[0], storage_type(out.dtype));
  const std::string nT = text.number(T), nS = text.number(S), nH = text.number(H), nG = text.number(G),
                    nd = text.number(d), ne = text.number(e);
  const std::string tiles = text.number(divided_up(T, kQueries));
  const int64_t each = divided_up(kQueries * e, kGroup);  // results of a thread; part of the text
  text.local(type, "weights", kQueries * kKeys);
  text.local(type, "largest", kQueries);
  text.local(type, "total", kQueries);
  text.local(type, "scaled", kQueries);
  text.line("for (idx block = GROUP; block < {} * {} * {}; block += GROUPS) {{", text.number(q.shape[0]), nH, tiles);
  text.line("const idx t0 = block % {0} * {1}, head = block / {0} % {2}, batch = block / {0} / {2};", tiles, kQueries,
            nH);
  text.line("const idx shared = head / ({} / {});", nH, nG);
  text.line("{} sum[{}];\nfor (int r = 0; r < {}; ++r) sum[r] = 0;", type, each, each);
  text.line("if (THREAD < {}) {{ largest[THREAD] = {}; total[THREAD] = 0; }}", kQueries,
            literal(text, exact, -std::numeric_limits<double>::infinity()));
  // Where nothing but the order of tokens hides keys, tiles that all queries of the group are before hold nothing.
  if (causal && !biased && S >= T)
    text.line("const idx end = t0 + {0} + {2} - {1} < {2} ? t0 + {0} + {2} - {1} : {2};", kQueries, nT, nS);
  else text.line("const idx end = {};", nS);
  text.line("for (idx s0 = 0; s0 < end; s0 += {}) {{\nBARRIER;", kKeys);
  text.line("for (idx i = THREAD; i < {}; i += {}) {{", kQueries * kKeys, kGroup);
  text.line("const idx t = t0 + i / {0}, s = s0 + i % {0};\n{1} score = {2};", kKeys, type,
            literal(text, exact, -std::numeric_limits<double>::infinity()));
  text.line("if (t < {} && s < {}) {{\nscore = 0;", nT, nS);
  text.line("const idx from_q = ((batch * {} + t) * {} + head) * {}, from_k = ((batch * {} + s) * {} + shared) * {};",
            nT, nH, nd, nS, nG, nd);
  text.line("for (idx c = 0; c < {}; ++c) score = fma({}, {}, score);", nd, load(text, q.dtype, qs, "from_q + c"),
            load(text, k.dtype, ks, "from_k + c"));
  const auto number = [&](double value) {  // as an argument, since it says nothing about the kernel
    return wide ? fmt::format("as_double((u64){})", text.bits(std::bit_cast<int64_t>(value)))
                : fmt::format("as_float((u32){})", text.bits(std::bit_cast<int32_t>(static_cast<float>(value))));
  };
  text.line("score *= {};", number(node.number("scale")));
  if (cap > 0) {
    const std::string limit = number(cap), turned = number(1 / cap);
    text.line("score = {}(score * {}) * {};", wide ? std::string_view("tanh") : text.use("f_tanh"), turned, limit);
  }
  const std::string hidden = literal(text, exact, kHiddenScore);
  if (biased || causal) text.line("{} bias = 0;", type);
  if (biased) {
    const Type& b = node.input(3);
    Shape strides = strides_of(b.shape);
    for (size_t i = 0; i < 4; ++i)
      if (b.shape.at(i) == 1) strides[i] = 0;
    text.line("bias = {};",
              load(text, b.dtype, text.address(work.inputs[3], storage_type(b.dtype)),
                   fmt::format("batch * {} + head * {} + t * {} + s * {}", text.number(strides[0]),
                               text.number(strides[1]), text.number(strides[2]), text.number(strides[3]))));
  }
  if (causal) {
    text.line("const i64 last = (i64)t + {} - {};", nS, nT);
    text.line("const int visible = (i64)s <= last{};",
              window > 0 ? fmt::format(" && (i64)s > last - {}", text.bits(window)) : "");
    text.line("if (!visible) bias += {};", hidden);
    if (biased) text.line("if (bias < {0}) bias = {0};", hidden);
  }
  if (biased || causal) text.line("score += bias;");
  text.line("}}\nweights[i] = score;\n}}\nBARRIER;");
  // One thread a query: the new maximum, and what was summed so far in its terms.
  text.line("if (THREAD < {}) {{\n{} most = largest[THREAD];", kQueries, type);
  text.line(
      "for (int j = 0; j < {0}; ++j) {{ const {1} w = weights[THREAD * {0} + j]; most = most != most || w < most ? "
      "most : w; }}",
      kKeys, type);
  const auto exp = [&](const std::string& x) {
    return wide ? fmt::format("exp({})", x) : fmt::format("{}({})", text.use("f_exp"), x);
  };
  text.line("const {} before = largest[THREAD] == most ? 1 : {};", type, exp("largest[THREAD] - most"));
  text.line("{} all = total[THREAD] * before;\nlargest[THREAD] = most;\nscaled[THREAD] = before;", type);
  text.line("for (int j = 0; j < {0}; ++j) {{ const idx at = THREAD * {0} + j;\n{1} w = s0 + j < {2} ? {3} : 0;", kKeys,
            type, nS, exp("weights[at] - most"));
  text.line("all += w;");
  if (dropout > 0) {
    const std::string key = text.address(work.inputs.at(biased ? 4 : 3), "i64");
    text.line("const u64 place = ((u64)((batch * {} + head) * {}) + (u64)(t0 + THREAD)) * (u64){} + (u64)(s0 + j);", nH,
              nT, nS);
    text.line("w = {}({}[0], {}[1], (i64)place) < (u32){} ? 0 : w / {};", text.use("philox"), key, key,
              text.bits(static_cast<int64_t>(dropout * 0x1p32)), number(1 - dropout));
  }
  text.line("weights[at] = w;\n}}\ntotal[THREAD] = all;\n}}\nBARRIER;");
  text.line("for (int r = 0; r < {}; ++r) {{\nconst idx i = THREAD + r * {};\nif (i < {} * {}) {{", each, kGroup,
            kQueries, ne);
  text.line("const idx row = i / {0}, column = i % {0};\n{1} added = sum[r] * scaled[row];", ne, type);
  text.line("for (idx j = 0; j < {} && s0 + j < {}; ++j)", kKeys, nS);
  text.line("added = fma(weights[row * {}], {}, added);\nsum[r] = added;\n}}\n}}\n}}", fmt::format("{} + j", kKeys),
            load(text, v.dtype, vs, fmt::format("((batch * {} + s0 + j) * {} + shared) * {} + column", nS, nG, ne)));
  text.line("for (int r = 0; r < {}; ++r) {{\nconst idx i = THREAD + r * {};\nif (i < {} * {}) {{", each, kGroup,
            kQueries, ne);
  text.line("const idx row = i / {0}, column = i % {0};", ne);
  text.line("if (t0 + row < {}) {}\n}}\n}}\nBARRIER;\n}}", nT,
            store(text, out.dtype, to, fmt::format("((batch * {} + t0 + row) * {} + head) * {} + column", nT, nH, ne),
                  "sum[r] / total[row]"));
  emitter.launch(text, std::min<int64_t>(q.shape[0] * H * divided_up(T, kQueries), 1 << 16), "flash attention");
}

void lower_attention(Emitter& emitter, const Work& work) {
  if (work.node.output().count() == 0 || attended_apart(emitter, work)) return;
  const bool by_library = attended_by_library(emitter, work);
  const size_t own = emitter.launches.size();
  lower_by_own_kernel(emitter, work);
  if (by_library) emitter.make_otherwise(own);
}

}  // namespace

bool claims_attention(const Facts& facts, std::span<const transom_value> inputs, const plugin::Attributes& attributes) {
  return claims_floats(facts, inputs, attributes) && inputs.size() >= 3 && inputs[2].rank == 4 &&
         inputs[2].shape[3] > 0 && inputs[2].shape[3] <= kLargestHead && inputs[1].shape[1] > 0;
}

std::optional<AttentionShape> shape_for_library(const Node& node) {
  const Type &q = node.input(0), &k = node.input(1), &v = node.input(2);
  const bool causal = node.integer("causal") != 0;
  if (node.number("dropout") > 0 || node.number("soft_cap") > 0 || (causal && node.integer("sliding_window") > 0) ||
      node.integer("batch_invariant", 0) != 0)
    return std::nullopt;
  if (v.shape.at(3) != q.shape.at(3) || is_wide(q) || is_wide(k)) return std::nullopt;
  AttentionShape shape{q.shape[0], q.shape[1], k.shape.at(1), q.shape[2], k.shape.at(2), q.shape[3], causal, q.dtype};
  if (node.integer("biased") == 0) return shape;
  const Type& bias = node.input(3);
  if (bias.dtype != TRANSOM_FLOAT32 || bias.rank() != 4 || bias.shape[3] != shape.keys || is_wide(bias))
    return std::nullopt;
  shape.bias = {bias.shape[0], bias.shape[1], bias.shape[2]};
  return shape;
}

void add_attention_lowerings(LoweringTable& table) { table["attention"] = {lower_attention, claims_attention}; }

}  // namespace transom::gpu
