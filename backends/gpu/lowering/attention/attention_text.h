// SPDX-License-Identifier: Apache-2.0
// What attention and its gradient have in common as texts over fragments: blocks of 64 queries of one head and of 64
// keys, their scores in registers, what hides, bends and drops them, and products of such blocks by what the tokens
// hold.
#pragma once

#include <algorithm>
#include <bit>
#include <limits>
#include <optional>

#include "gpu/lowering/lowering.h"
#include "gpu/source/tile_text.h"

namespace transom::gpu {

inline constexpr int64_t kBlock = 64, kWords = 32;              // queries or keys; words of a step
inline constexpr double kHiddenScore = -3.3895313892515355e38;  // what hides a key: the lowest bf16
inline constexpr int64_t kKept = 3;                             // numbers of a query that its gradient keeps
inline constexpr uint64_t kBlockMemory = 40 << 10;              // of a group, for these texts
inline constexpr int64_t kLargestHead = 256;                    // of queries, keys and values

// Whether attention of these is run whole.
bool claims_attention(const Facts& facts, std::span<const transom_value> inputs, const plugin::Attributes& attributes);

// Whether it computes the node as paged_attention of the same keys, to the bit: causal attention whose rows keep apart.
bool attended_apart(Emitter& emitter, const Work& work);

// As the vendor's library is asked for it: of all keys, or of those up to a query's own place, with a bias of f32 or
// none. Not where a row's bits may not depend on what else is computed, since the library chooses its kernel by the
// lengths.
std::optional<AttentionShape> shape_for_library(const Node& node);

// The text of a kernel over blocks of queries and keys, of attention or of its gradient.
class AttentionText {
 public:
  // `kept`: of the gradient, where its launches keep what they know of the queries; null: of attention itself.
  AttentionText(const Work& work, const Operand* kept)
      : node(work.node),
        q(node.input(0)),
        k(node.input(1)),
        v(node.input(2)),
        B(q.shape.at(0)),
        T(q.shape.at(1)),
        S(k.shape.at(1)),
        H(q.shape.at(2)),
        G(k.shape.at(2)),
        d(q.shape.at(3)),
        e(v.shape.at(3)),
        text(is_wide(q) || is_wide(k) || is_wide(v) || B * H * T >= (int64_t{1} << 30) / std::max<int64_t>(S, 1)),
        kind(fragment_kind(q.dtype)),
        biased(node.integer("biased") != 0),
        dropout(node.number("dropout")),
        cap(node.number("soft_cap")),
        window(node.integer("sliding_window")) {
    causal = node.integer("causal") != 0 && !(T == 1 && window == 0);
    const size_t key = biased ? 4 : 3;
    qs = text.address(work.inputs.at(0), storage_type(q.dtype));
    ks = text.address(work.inputs.at(1), storage_type(q.dtype));
    vs = text.address(work.inputs.at(2), storage_type(q.dtype));
    if (kept) dys = text.address(work.inputs.at(key + (dropout > 0 ? 1 : 0)), storage_type(q.dtype));
    if (biased) biases = text.address(work.inputs.at(3), storage_type(node.input(3).dtype));
    if (dropout > 0) keys = text.address(work.inputs.at(key), "i64");
    if (kept) statistics = text.address(*kept, "float");
    nT = text.number(T), nS = text.number(S), nH = text.number(H), nG = text.number(G), nd = text.number(d);
    ne = text.number(e);
    text.use("fragments");
    declare_tile(text, left), declare_tile(text, right), declare_tile(text, held);
    read_numbers();
  }

  std::string number(double value) {  // as an argument, since it says nothing about the kernel
    return fmt::format("as_float((u32){})", text.bits(std::bit_cast<int32_t>(static_cast<float>(value))));
  }

  // x [B, L, heads, n] of one head: lines of tokens, or, turned, lines of its n elements with tokens as their depth.
  TileSource source(const std::string& base, const std::string& tokens, const std::string& heads,
                    const std::string& head, const std::string& width, bool turned) {
    TileSource from{q.dtype, base, {}, turned ? width : tokens, turned ? tokens : width, !turned, "0"};
    from.place = [=](const std::string& r, const std::string& k) {
      return fmt::format("((batch * {} + {}) * {} + {}) * {} + {}", tokens, turned ? k : r, heads, head, width,
                         turned ? r : k);
    };
    if (!turned) from.fast = fast_condition(q.dtype, base, {width});
    return from;
  }
  TileSource queries(bool turned) { return source(qs, nT, nH, "head", nd, turned); }
  TileSource results(bool turned) { return source(dys, nT, nH, "head", ne, turned); }
  TileSource keys_of(bool turned) { return source(ks, nS, nG, "shared", nd, turned); }
  TileSource values(bool turned) { return source(vs, nS, nG, "shared", ne, turned); }

  // scores = q k and, of the gradient, dweights = dy v, for the block of queries at t0 and of keys at s0.
  void multiply_scores() {
    const auto product = [&](const Results& to, const TileSource& x, const TileSource& y) {
      clear_results(text, to);
      text.line("for (idx k0 = 0; k0 < {}; k0 += {}) {{\nBARRIER;", x.depth, kWords * kind.per_word);
      bring_tile(text, left, x, "t0", "k0"), bring_tile(text, right, y, "s0", "k0");
      text.line("BARRIER;");
      multiply_tiles(text, to, left, right, kWords);
      text.line("}}");
    };
    product(scores, queries(false), keys_of(false));
    if (!dys.empty()) product(dweights, results(false), values(false));
  }

  // Of the result `value` of scores at (row, column): "inside", "score", and "share" where scores are capped.
  void write_score(const std::string& value) {
    text.line("const idx t = t0 + row, s = s0 + column;\nconst int inside = t < {} && s < {};", nT, nS);
    text.line("float score = {} * {};", value, scale);
    if (cap > 0) {
      text.line("const float share = {}(score * {});\nscore = share * {};", text.use("f_tanh"), turned_cap, limit);
    }
    if (biased || causal) text.line("float bias = 0;");
    if (biased) text.line("if (inside) bias = {};", load(text, node.input(3).dtype, biases, bias_place));
    if (causal) {
      text.line("const i64 last = (i64)t + {} - {};", nS, nT);
      text.line("const int visible = (i64)s <= last{};",
                window > 0 ? fmt::format(" && (i64)s > last - {}", nwindow) : "");
      text.line("if (!visible) bias += {};", hidden);
      if (biased) text.line("if (bias < {0}) bias = {0};", hidden);
    }
    if (biased || causal) text.line("score += bias;");
  }
  // "x", which dropout may hide or scale: an expression of it.
  std::string dropped(const std::string& x) {
    return dropout > 0 ? fmt::format("(dropped >> (f * {}_C + e) & 1 ? 0.0f : {} / {})", kind.set, x, kept_share) : x;
  }
  // "dropped", a bit for each result: drawn in a loop of its own, whose text is not repeated for each of them.
  void draw_dropout() {
    if (dropout <= 0) return;
    text.line("u32 dropped = 0;\nfor (int i = 0; i < 2 * {0} * {1}_C; ++i) {{\nconst int f = i / {1}_C, e = i % {1}_C;",
              scores.across(), kind.set);
    write_place(text, scores);
    text.line("const idx t = t0 + row, s = s0 + column;");
    text.line("const u64 place = ((u64)((batch * {} + head) * {}) + (u64)t) * (u64){} + (u64)s;", nH, nT, nS);
    text.line("dropped |= (u32)({}({}[0], {}[1], (i64)place) < (u32){}) << i;\n}}", text.use("philox"), keys, keys,
              bound);
  }
  // "weight" of a pair and "gradient" of its scaled product, from what is kept of the query.
  void write_gradient(const std::string& most, const std::string& inverse, const std::string& shift) {
    text.line("float weight = 0, gradient = 0;\nif (inside) {{");
    text.line("weight = {}(score - {}) * {};", text.use("f_exp"), most, inverse);
    text.line("gradient = weight * ({} - {});", dropped("dweights[f][e]"), shift);
    if (cap > 0) text.line("gradient *= 1.0f - share * share;");
    text.line("gradient *= {};\n}}", scale);
  }

  // The value of (row, column) in `held`, whose lines are queries.
  void hold(const std::string& value) { text.line("held[row * {} + column] = as_uint({});", held.stride(), value); }
  // What `held` has, lines of f32, as the left operand of the next product. All wrote to it, none reads `left`.
  Tile pack() {
    text.line("BARRIER;");
    if (kind.per_word == 1) return held;
    const std::string_view to = text.use(q.dtype == TRANSOM_FLOAT16 ? "to_f16" : "to_bf16");
    text.line("for (int i = THREAD; i < {}; i += {}) {{", kBlock * kBlock / 2, kGroup);
    text.line("const int at = i / {0} * {1} + i % {0} * 2;", kBlock / 2, held.stride());
    text.line(
        "left[i / {0} * {1} + i % {0}] = (u32){2}(as_float(held[at])) | (u32){2}(as_float(held[at + 1])) << 16;\n}}",
        kBlock / 2, left.stride(), to);
    return left;
  }
  // results[chunk] += pairs by the lines of `from`, whose depth begins at k0.
  void multiply_pairs(const char* name, int64_t width, const TileSource& from, const std::string& k0) {
    const Tile pairs = pack();
    const Results to{kind, fmt::format("{}[chunk]", name), kBlock, kBlock};
    text.line("UNROLL for (int chunk = 0; chunk < {}; ++chunk)", divided_up(width, kBlock));
    text.line("for (int piece = 0; piece < {}; piece += {}) {{\nBARRIER;", kBlock / kind.per_word, kWords);
    bring_tile(text, right, from, fmt::format("(idx)chunk * {}", kBlock),
               fmt::format("({} + piece * {})", k0, kind.per_word));
    text.line("BARRIER;");
    multiply_tiles(text, to, pairs, right, kWords, "piece");
    text.line("}}");
  }
  void declare_sums(const char* name, int64_t width) {
    text.line("float {}[{}][2 * {}][{}_C];", name, divided_up(width, kBlock), scores.across(), kind.set);
    text.line("UNROLL for (int chunk = 0; chunk < {}; ++chunk) {{", divided_up(width, kBlock));
    clear_results(text, {kind, fmt::format("{}[chunk]", name), kBlock, kBlock});
    text.line("}}");
  }
  void store_sums(const char* name, const Operand& to, int64_t width, const std::string& nwidth,
                  const std::string& first, const std::string& tokens, const std::string& heads,
                  const std::string& head, const char* divided = "") {
    const std::string base = text.address(to, storage_type(q.dtype));
    text.line("UNROLL for (int chunk = 0; chunk < {}; ++chunk) {{", divided_up(width, kBlock));
    for_results(text, {kind, fmt::format("{}[chunk]", name), kBlock, kBlock}, [&](const std::string& value) {
      text.line("const idx at = {} + row, c = chunk * {} + column;", first, kBlock);
      text.line(
          "if (at < {} && c < {}) {}", tokens, nwidth,
          store(text, q.dtype, base, fmt::format("((batch * {} + at) * {} + {}) * {} + c", tokens, heads, head, nwidth),
                value + divided));
    });
    text.line("}}");
  }

  void read_numbers() {
    scale = number(node.number("scale"));
    hidden = literal(text, TRANSOM_FLOAT32, kHiddenScore);
    infinity = literal(text, TRANSOM_FLOAT32, -std::numeric_limits<double>::infinity());
    if (cap > 0) limit = number(cap), turned_cap = number(1 / cap);
    if (window > 0) nwindow = text.bits(window);
    if (dropout > 0) {
      bound = text.bits(static_cast<int64_t>(dropout * 0x1p32));
      kept_share = number(1 - dropout);
    }
    if (biased) {
      const Type& b = node.input(3);
      Shape strides = strides_of(b.shape);
      for (size_t i = 0; i < 4; ++i)
        if (b.shape.at(i) == 1) strides[i] = 0;
      bias_place = fmt::format("batch * {} + head * {} + t * {} + s * {}", text.number(strides[0]),
                               text.number(strides[1]), text.number(strides[2]), text.number(strides[3]));
    }
  }
  // Whether only the order of tokens hides keys, and hides none of all keys of a query: then blocks can be passed over.
  bool skips() const { return causal && !biased && S >= T; }

  const Node& node;
  const Type &q, &k, &v;
  int64_t B, T, S, H, G, d, e;
  KernelText text;
  FragmentKind kind;
  bool biased, causal = false;
  double dropout, cap;
  int64_t window;
  std::string qs, ks, vs, dys, biases, keys, statistics, nT, nS, nH, nG, nd, ne;
  std::string scale, hidden, infinity, limit, turned_cap, nwindow, bound, kept_share, bias_place;
  const Tile left{"left", kBlock, kWords}, right{"right", kBlock, kWords}, held{"held", kBlock, kBlock};
  const Results scores{kind, "scores", kBlock, kBlock}, dweights{kind, "dweights", kBlock, kBlock};
};

// Of each row of `held`, by four threads: `combine` is of "all" and "one", `finish` sees "all" on the thread of the
// row.
inline void write_row_totals(KernelText& text, const Tile& held, const std::string& start, const char* combine,
                             const std::string& finish) {
  text.line("BARRIER;\n{{\nfloat all = {};", start);
  text.line("for (int i = 0; i < {}; ++i) {{ const float one = as_float(held[THREAD / 4 * {} + THREAD % 4 * {} + i]);",
            kBlock / 4, held.stride(), kBlock / 4);
  text.line("{}; }}\npart[THREAD] = all;\n}}\nBARRIER;", combine);
  text.line("if (THREAD < {}) {{\nfloat all = part[THREAD * 4];", kBlock);
  text.line("for (int i = 1; i < 4; ++i) {{ const float one = part[THREAD * 4 + i]; {}; }}\n{}\n}}\nBARRIER;", combine,
            finish);
}

// A block of queries of one head: "t0", "head", "batch", "shared", and memory of its rows: the largest score "most",
// the sum "total", "shift" of the gradient, by what a new largest score scales those before it, "scaled".
inline void begin_queries(AttentionText& g) {
  KernelText& text = g.text;
  const std::string tiles = text.number(divided_up(g.T, kBlock));
  for (const char* name : {"most", "total", "shift", "scaled"}) text.local("float", name, kBlock);
  text.local("float", "part", kGroup);
  text.line("for (idx block = GROUP; block < {} * {} * {}; block += GROUPS) {{", text.number(g.B), g.nH, tiles);
  text.line("const idx t0 = block % {0} * {1}, head = block / {0} % {2}, batch = block / {0} / {2};", tiles, kBlock,
            g.nH);
  text.line("const idx shared = head / ({} / {});", g.nH, g.nG);
  declare_waves(text, g.kind);
  declare_results(text, g.scores);
  text.line("BARRIER;\nif (THREAD < {}) {{ most[THREAD] = {}; total[THREAD] = 0; shift[THREAD] = 0; }}", kBlock,
            g.infinity);
  // "begin" and "end" of the keys that some query of the block sees.
  if (g.skips()) {
    text.line("const idx past = t0 + {0} + {2} - {1}, end = past < {2} ? past : {2};", kBlock, g.nT, g.nS);
    if (g.window > 0)
      text.line(
          "const i64 first = (i64)t0 + {} - {} - {} + 1;\nconst idx begin = first > 0 ? (idx)(first / {}) * {} : 0;",
          g.nS, g.nT, g.nwindow, kBlock, kBlock);
    else text.line("const idx begin = 0;");
  } else {
    text.line("const idx begin = 0, end = {};", g.nS);
  }
}

// The scores of a block become weights that are not yet divided by their sum; "most", "scaled" and "total" follow.
inline void write_weights(AttentionText& g) {
  KernelText& text = g.text;
  for_results(text, g.scores, [&](const std::string& value) {
    g.write_score(value);
    text.line("if (!inside) score = {};\n{} = score;", g.infinity, value);
    g.hold("score");
  });
  write_row_totals(text, g.held, g.infinity, "all = all != all || one < all ? all : one",
                   fmt::format("const float before = most[THREAD];\nall = before != before || all < before ? before : "
                               "all;\nscaled[THREAD] = before == all ? 1.0f : {}(before - all);\nmost[THREAD] = all;",
                               text.use("f_exp")));
  for_results(text, g.scores, [&](const std::string& value) {
    text.line("{0} = {0} == {1} ? 0.0f : {2}({0} - most[row]);", value, g.infinity, text.use("f_exp"));
    g.hold(value);
  });
  write_row_totals(text, g.held, "0", "all += one", "total[THREAD] = total[THREAD] * scaled[THREAD] + all;");
}

}  // namespace transom::gpu
