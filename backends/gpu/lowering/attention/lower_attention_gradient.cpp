// SPDX-License-Identifier: Apache-2.0
// attention's gradient without its scores in memory (Dao et al., 2022), with the same bits at every run: two launches,
// neither of which adds to memory that another group writes. The first takes queries block by block, walks the keys
// once for each query's largest score, sum and shift, which it keeps, and once more for dq. The second takes keys block
// by block and walks the queries of all heads that share them for dk and dv.
#include "gpu/lowering/attention/attention_text.h"

namespace transom::gpu {
namespace {

void lower_query_gradient(Emitter& emitter, const Work& work, const Operand& kept) {
  AttentionText g(work, &kept);
  KernelText& text = g.text;
  begin_queries(g);
  declare_results(text, g.dweights);
  g.declare_sums("dq", g.d);
  text.line("for (int pass = 0; pass < 2; ++pass) {{\nfor (idx s0 = begin; s0 < end; s0 += {}) {{", kBlock);
  g.multiply_scores();
  g.draw_dropout();
  text.line("if (pass == 0) {{");
  write_weights(g);
  for_results(text, g.scores,
              [&](const std::string& value) { g.hold(fmt::format("{} * {}", value, g.dropped("dweights[f][e]"))); });
  write_row_totals(text, g.held, "0", "all += one", "shift[THREAD] = shift[THREAD] * scaled[THREAD] + all;");
  text.line("}} else {{");
  for_results(text, g.scores, [&](const std::string& value) {
    g.write_score(value);
    g.write_gradient("most[row]", "total[row]", "shift[row]");
    g.hold("gradient");
  });
  g.multiply_pairs("dq", g.d, g.keys_of(true), "s0");
  text.line("}}\n}}");
  // From here on `total` is what weights are multiplied by.
  text.line("BARRIER;\nif (pass == 0 && THREAD < {}) {{", kBlock);
  text.line("total[THREAD] = 1.0f / total[THREAD];\nshift[THREAD] *= total[THREAD];\nif (t0 + THREAD < {}) {{", g.nT);
  text.line("const idx at = ((batch * {} + head) * {} + t0 + THREAD) * {};", g.nH, g.nT, kKept);
  text.line("{0}[at] = most[THREAD]; {0}[at + 1] = total[THREAD]; {0}[at + 2] = shift[THREAD];\n}}\n}}\nBARRIER;\n}}",
            g.statistics);
  g.store_sums("dq", work.outputs.at(0), g.d, g.nd, "t0", g.nT, g.nH, "head");
  text.line("}}");
  emitter.launch(text, std::min<int64_t>(g.B * g.H * divided_up(g.T, kBlock), 1 << 16), "flash attention dq");
}

void lower_key_gradient(Emitter& emitter, const Work& work, const Operand& kept) {
  AttentionText g(work, &kept);
  KernelText& text = g.text;
  const std::string tiles = text.number(divided_up(g.S, kBlock));
  text.line("for (idx block = GROUP; block < {} * {} * {}; block += GROUPS) {{", text.number(g.B), g.nG, tiles);
  text.line("const idx s0 = block % {0} * {1}, shared = block / {0} % {2}, batch = block / {0} / {2};", tiles, kBlock,
            g.nG);
  declare_waves(text, g.kind);
  declare_results(text, g.scores), declare_results(text, g.dweights);
  g.declare_sums("dk", g.d), g.declare_sums("dv", g.e);
  if (g.skips()) {
    text.line("const i64 first = (i64)s0 + {} - {};\nconst idx begin = first > 0 ? (idx)(first / {}) * {} : 0;", g.nT,
              g.nS, kBlock, kBlock);
    if (g.window > 0)
      text.line("const i64 past = first + {} + {};\nconst idx end = past < (i64){} ? (idx)past : {};", kBlock - 1,
                g.nwindow, g.nT, g.nT);
    else text.line("const idx end = {};", g.nT);
  } else {
    text.line("const idx begin = 0, end = {};", g.nT);
  }
  text.line("for (idx head = shared * ({0} / {1}); head < (shared + 1) * ({0} / {1}); ++head)", g.nH, g.nG);
  text.line("for (idx t0 = begin; t0 < end; t0 += {}) {{", kBlock);
  g.multiply_scores();
  g.draw_dropout();
  const auto hold = [&](const std::string& value) {
    text.line("held[column * {} + row] = as_uint({});", g.held.stride(), value);
  };
  for_results(text, g.scores, [&](const std::string& value) {
    g.write_score(value);
    text.line("const idx at = ((batch * {} + head) * {} + (inside ? t : 0)) * {};", g.nH, g.nT, kKept);
    g.write_gradient(g.statistics + "[at]", g.statistics + "[at + 1]", g.statistics + "[at + 2]");
    hold(g.dropped("weight"));
    text.line("{} = gradient;", value);
  });
  g.multiply_pairs("dv", g.e, g.results(true), "t0");
  text.line("BARRIER;");
  for_results(text, g.scores, [&](const std::string& value) { hold(value); });
  g.multiply_pairs("dk", g.d, g.queries(true), "t0");
  text.line("}}");
  g.store_sums("dk", work.outputs.at(1), g.d, g.nd, "s0", g.nS, g.nG, "shared");
  g.store_sums("dv", work.outputs.at(2), g.e, g.ne, "s0", g.nS, g.nG, "shared");
  text.line("}}");
  emitter.launch(text, std::min<int64_t>(g.B * g.G * divided_up(g.S, kBlock), 1 << 16), "flash attention dk dv");
}

// The gradient of a bias that is learned: of each pair, the sum over the batches and heads that share it, in order.
void lower_bias_gradient(Emitter& emitter, const Work& work, const Operand& kept) {
  AttentionText g(work, &kept);
  KernelText& text = g.text;
  const Type& bias = work.node.input(3);
  const int64_t batches = bias.shape.at(0), heads = bias.shape.at(1);
  const std::string query_tiles = text.number(divided_up(g.T, kBlock)),
                    key_tiles = text.number(divided_up(g.S, kBlock));
  const std::string nB = text.number(g.B), of_heads = text.number(heads), of_batches = text.number(batches);
  const std::string to = text.address(work.outputs.at(3), storage_type(bias.dtype));
  const Results sums{g.kind, "sums", kBlock, kBlock};
  text.line("for (idx block = GROUP; block < {} * {} * {} * {}; block += GROUPS) {{", of_batches, of_heads, query_tiles,
            key_tiles);
  text.line("const idx s0 = block % {0} * {2}, t0 = block / {0} % {1} * {2}, shares = block / {0} / {1};", key_tiles,
            query_tiles, kBlock);
  text.line("const idx own_head = shares % {0}, own_batch = shares / {0};", of_heads);
  declare_waves(text, g.kind);
  declare_results(text, g.scores), declare_results(text, g.dweights);
  declare_results(text, sums), clear_results(text, sums);
  text.line("for (idx batch = own_batch; batch < {}; batch += {})", nB, of_batches);
  text.line("for (idx head = own_head; head < {}; head += {}) {{", g.nH, of_heads);
  text.line("const idx shared = head / ({} / {});", g.nH, g.nG);
  g.multiply_scores();
  g.draw_dropout();
  for_results(text, g.scores, [&](const std::string& value) {
    g.write_score(value);
    text.line("if (inside) {{\nconst idx at = ((batch * {} + head) * {} + t) * {};", g.nH, g.nT, kKept);
    text.line("sums[f][e] += {0}(score - {1}[at]) * {1}[at + 1] * ({2} - {1}[at + 2]);\n}}", text.use("f_exp"),
              g.statistics, g.dropped("dweights[f][e]"));
  });
  text.line("}}");
  for_results(text, sums, [&](const std::string& value) {
    text.line("const idx t = t0 + row, s = s0 + column;\nif (t < {} && s < {}) {}", g.nT, g.nS,
              store(text, bias.dtype, to, fmt::format("(shares * {} + t) * {} + s", g.nT, g.nS), value));
  });
  text.line("}}");
  emitter.launch(text, std::min<int64_t>(batches * heads * divided_up(g.T, kBlock) * divided_up(g.S, kBlock), 1 << 16),
                 "flash attention dbias");
}

void lower_by_own_kernels(Emitter& emitter, const Work& work) {
  const Type& q = work.node.input(0);
  const Operand kept = emitter.scratch(q.shape.at(0) * q.shape.at(1) * q.shape.at(2) * kKept * 4);
  lower_query_gradient(emitter, work, kept);
  lower_key_gradient(emitter, work, kept);
  if (work.outputs.size() > 3) lower_bias_gradient(emitter, work, kept);
}

// Whether the vendor's library computes it; a bias that is learned has its gradient by the own kernels alone.
bool differentiated_by_library(Emitter& emitter, const Work& work) {
  std::optional<AttentionShape> shape = shape_for_library(work.node);
  if (!shape || work.outputs.size() > 3) return false;
  shape->gradient = true;
  const std::vector<Operand>&in = work.inputs, &out = work.outputs;
  return emitter.attend(*shape, static_cast<float>(work.node.number("scale")),
                        {in[0], in[1], in[2], in.back(), out[0], out[1], out[2]}, shape->biased() ? &in[3] : nullptr);
}

void lower_attention_gradient(Emitter& emitter, const Work& work) {
  if (work.node.output(1).count() == 0 || work.node.input(0).count() == 0) return;
  const bool by_library = differentiated_by_library(emitter, work);
  const size_t own = emitter.launches.size();
  lower_by_own_kernels(emitter, work);
  if (by_library) emitter.make_otherwise(own);
}

bool claims_gradient(const Facts& facts, std::span<const transom_value> inputs, const plugin::Attributes& attributes) {
  return facts.group_memory >= kBlockMemory && claims_attention(facts, inputs, attributes) &&
         inputs[0].dtype != TRANSOM_FLOAT64 && inputs[0].shape[1] > 0 && inputs[0].shape[3] > 0 &&
         inputs[0].shape[3] <= kLargestHead;
}

// Biases of all queries and keys, which batches or heads may share.
bool claims_biased_gradient(const Facts& facts, std::span<const transom_value> inputs,
                            const plugin::Attributes& attributes) {
  return inputs.size() >= 5 && claims_gradient(facts, inputs, attributes) && inputs[3].rank == 4 &&
         inputs[3].shape[2] == inputs[0].shape[1] && inputs[3].shape[3] == inputs[1].shape[1] &&
         inputs[3].dtype != TRANSOM_FLOAT64;
}

}  // namespace

void add_attention_gradient_lowerings(LoweringTable& table) {
  table["attention_gradient"] = {lower_attention_gradient, claims_gradient};
  table["biased_attention_gradient"] = {lower_attention_gradient, claims_biased_gradient};
}

}  // namespace transom::gpu
