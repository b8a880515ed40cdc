// SPDX-License-Identifier: Apache-2.0
// paged_attention, keys and values read from their blocks where they lie (Kwon et al., "PagedAttention", 2023). The
// keys of a row are cut into chunks of a fixed size, so that a few rows with many keys fill the chip, and a second
// launch joins what the chunks gave ("Flash-Decoding", 2023). Chunks begin at the first key that a row sees and are
// joined in order: a row has the bits that it has alone, however many keys others have. Causal attention whose bits may
// not depend on company (batch_invariant) goes the same way, with keys where a pass without a cache has them: what is
// trained has the bits of what was sampled.
#include <algorithm>
#include <bit>
#include <functional>
#include <limits>

#include "gpu/lowering/attention/attention_text.h"

namespace transom::gpu {
namespace {

constexpr int64_t kChunk = kGroup;                    // keys: one a thread
constexpr int64_t kMostTogether = 8;                  // heads that share keys and go through them at once
constexpr int64_t kMostPartial = int64_t{128} << 20;  // bytes of what chunks give; more rows take further launches
constexpr uint64_t kPagedMemory = 32 << 10;           // of a group

bool is_paged(const Node& node) { return node.op() == "paged_attention"; }

int64_t block_size_of(const Node& node) { return node.integer("block_size", node.input(1).shape.at(1)); }

// Of the room for keys that a row's blocks have.
int64_t chunks_of(const Node& node) {
  if (!is_paged(node)) return divided_up(node.input(1).shape.at(1), kChunk);
  return divided_up(node.input(3).shape.at(1) * block_size_of(node), kChunk);
}

// What the chunks of a row give: for each head the sums, the largest score and the total.
int64_t partial_bytes(const Node& node) {
  return node.input(0).shape.at(2) * chunks_of(node) * (node.input(2).shape.back() + 2) * 4;
}

class SequenceBlocks {
 public:
  // Of `rows` of the B T queries from `first` on.
  SequenceBlocks(const Work& work, int64_t first, int64_t rows, const Operand& partial)
      : node_(work.node),
        q_(node_.input(0)),
        k_(node_.input(1)),
        v_(node_.input(2)),
        H_(q_.shape.at(2)),
        G_(node_.input(1).shape.at(node_.input(1).rank() - 2)),
        d_(q_.shape.at(3)),
        e_(v_.shape.back()),
        window_(node_.integer("sliding_window")),
        rows_(rows),
        text(true) {
    chunks_ = chunks_of(node_);
    together_ = std::min<int64_t>(static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(H_ / G_))), kMostTogether);
    qs_ = text.address(work.inputs.at(0), storage_type(q_.dtype));
    ks_ = text.address(work.inputs.at(1), storage_type(k_.dtype));
    vs_ = text.address(work.inputs.at(2), storage_type(v_.dtype));
    partial_ = text.address(partial, "float");
    nH_ = text.number(H_), nG_ = text.number(G_);
    nchunks_ = text.number(chunks_), nfirst_ = text.number(first), nrows_ = text.number(rows);
    nT_ = text.number(q_.shape.at(1));
    if (window_ > 0) nwindow_ = text.number(window_);
    if (is_paged(node_)) read_blocks(work);
    else read_rows(work);
  }

  void write_chunks(Emitter& emitter);
  void write_joined(Emitter& emitter, const Operand& out);

 private:
  void read_blocks(const Work& work) {
    const int64_t size = block_size_of(node_);
    table_ = text.address(work.inputs.at(3), storage_type(node_.input(3).dtype));
    lengths_ = text.address(work.inputs.at(4), storage_type(node_.input(4).dtype));
    nsize_ = text.number(size), nM_ = text.number(node_.input(3).shape.at(1));
    nblocks_ = text.number(node_.input(1).shape[0] / (node_.has("block_size") ? size : 1));
  }
  void read_rows(const Work& work) {
    nS_ = text.number(k_.shape.at(1));
    if (node_.integer("biased") == 0) return;
    const Type& bias = node_.input(3);
    Shape strides = strides_of(bias.shape);
    for (size_t i = 0; i < 4; ++i)
      if (bias.shape.at(i) == 1) strides[i] = 0;
    const std::string from = text.address(work.inputs.at(3), storage_type(bias.dtype)),
                      of_batch = text.number(strides[0]), of_query = text.number(strides[2]),
                      of_key = text.number(strides[3]);
    bias_ = [this, &bias, from, of_batch, of_query, of_key](const std::string& key) {
      return load(text, bias.dtype, from,
                  fmt::format("batch * {} + (row % {}) * {} + ({}) * {}", of_batch, nT_, of_query, key, of_key));
    };
  }
  std::string hides(const std::string& key) { return fmt::format("{} <= {}", bias_(key), number(kHiddenScore)); }

  // "row" of the queries, and the keys that it sees: from "begin" to "last".
  void write_seen() {
    text.line("const idx row = {} + own, batch = row / {};", nfirst_, nT_);
    if (is_paged(node_)) {
      text.line("i64 last = (i64){}[batch] - {} + row % {};\nif (last < 0) last = 0;", lengths_, nT_, nT_);
      text.line("if (last >= {0} * {1}) last = {0} * {1} - 1;", nM_, nsize_);
    } else {
      text.line("i64 last = (i64){} - {} + row % {};\nif (last < 0) last = 0;", nS_, nT_, nT_);
    }
    if (window_ > 0) text.line("i64 begin = last - {0} + 1 > 0 ? last - {0} + 1 : 0;", nwindow_);
    else text.line("i64 begin = 0;");
    if (!bias_) return;
    // Who sees nothing sees one key, so that its numbers are finite.
    text.line("while (begin < last && {}) --last;", hides("last"));
    text.line("while (begin < last && {}) ++begin;", hides("begin"));
  }
  std::string infinity() { return literal(text, TRANSOM_FLOAT32, -std::numeric_limits<double>::infinity()); }
  std::string number(double value) { return argument(text, TRANSOM_FLOAT32, value); }
  void write_scores();
  void write_weights();
  void write_values();
  // Joins the values of the `per` threads of a head, in a fixed order.
  void write_tree(const char* joined, int64_t per) {
    text.line("BARRIER;\nfor (int span = {}; span > 0; span >>= 1) {{", per / 2);
    text.line("if (lane < span) {{ const float a = memory[THREAD], b = memory[THREAD + span]; memory[THREAD] = {}; }}",
              joined);
    text.line("BARRIER;\n}}");
  }

  const Node& node_;
  const Type &q_, &k_, &v_;
  const int64_t H_, G_, d_, e_, window_, rows_;
  int64_t chunks_, together_;
  KernelText text;
  std::string qs_, ks_, vs_, table_, lengths_, partial_;
  std::string nH_, nG_, nS_, nsize_, nM_, nblocks_, nchunks_, nfirst_, nrows_, nT_, nwindow_;
  std::function<std::string(const std::string& key)> bias_;  // its number; none: nothing is added
};

// score[r] of this thread's key and the heads from "head" on.
void SequenceBlocks::write_scores() {
  text.line("for (idx i = THREAD; i < {}; i += {}) {{\nconst idx r = i / {}, c = i % {};", together_ * d_, kGroup, d_,
            d_);
  text.line("queries[i] = first + r < heads ? {} : 0;\n}}",
            load(text, q_.dtype, qs_, fmt::format("(row * {} + head + r) * {} + c", nH_, d_)));
  text.line("BARRIER;\nfloat score[{0}];\nUNROLL for (int r = 0; r < {0}; ++r) score[r] = 0;", together_);
  text.line("if (seen) {{\nconst idx from = (tokens[THREAD] * {} + shared) * {};", nG_, d_);
  const auto add = [&](const std::string& value, const std::string& at) {
    text.line("{{ const float x = {};", value);
    text.line("UNROLL for (int r = 0; r < {}; ++r) score[r] = fma(queries[r * {} + {}], x, score[r]); }}", together_,
              d_, at);
  };
  const int64_t lanes = 16 / size_of(storage_type(k_.dtype));
  if (d_ % lanes == 0) {
    const std::string type = text.vector_type(storage_type(k_.dtype), lanes);
    text.line("if (((u64)({}) & 15) == 0) {{", ks_);
    text.line("for (int c = 0; c < {0}; c += {1}) {{\nconst {2} got = VECTOR({2}, {3} + from + c);", d_, lanes, type,
              ks_);
    text.line("UNROLL for (int l = 0; l < {}; ++l)", lanes);
    add(load(text, k_.dtype, "got.at", "l"), "c + l");
    text.line("}}\n}} else");
  }
  text.line("for (int c = 0; c < {}; ++c)", d_);
  add(load(text, k_.dtype, ks_, "from + c"), "c");
  text.line("}}");
}

// Of scores: weights, their largest score and their sum, which the chunk gives.
void SequenceBlocks::write_weights() {
  const double cap = node_.number("soft_cap");
  text.line("UNROLL for (int r = 0; r < {}; ++r) {{\nfloat value = score[r] * {};", together_,
            number(node_.number("scale")));
  if (cap > 0) text.line("value = {}(value * {}) * {};", text.use("f_tanh"), number(1 / cap), number(cap));
  if (bias_) text.line("if (seen && !({})) value += {};", hides("s0 + THREAD"), bias_("s0 + THREAD"));
  text.line("weights[r * {} + THREAD] = seen ? value : {};\n}}\nBARRIER;", kChunk, infinity());
  // As many threads for each head, each with as many keys as there are heads.
  const int64_t per = kGroup / together_;
  text.line("const int own_head = THREAD / {0}, lane = THREAD % {0};", per);
  text.line("const int mine = own_head * {} + lane * {};", kChunk, together_);
  text.line("float most = weights[mine];");
  text.line("for (int i = 1; i < {}; ++i) most = most != most || weights[mine + i] < most ? most : weights[mine + i];",
            together_);
  text.line("memory[THREAD] = most;");
  write_tree("a != a || b < a ? a : b", per);
  text.line("most = memory[own_head * {}];\nBARRIER;\nfloat total = 0;", per);
  text.line("for (int i = 0; i < {}; ++i) {{", together_);
  text.line(
      "const float w = weights[mine + i] == {} ? 0 : {}(weights[mine + i] - most);\nweights[mine + i] = w;\ntotal += "
      "w;\n}}",
      infinity(), text.use("f_exp"));
  text.line("memory[THREAD] = total;");
  write_tree("a + b", per);
  text.line("if (lane == 0 && first + own_head < heads) {{");
  text.line("GLOBAL float* const to = {} + ((own * {} + head + own_head) * {} + chunk) * {};", partial_, nH_, nchunks_,
            e_ + 2);
  text.line("to[{}] = most;\nto[{}] = memory[THREAD];\n}}\nBARRIER;", e_, e_ + 1);
}

// The sums of values by weight, in as many parts as there are threads for a column.
void SequenceBlocks::write_values() {
  const int64_t columns = std::min<int64_t>(static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(e_))), kGroup);
  const int64_t parts = kGroup / columns, keys = kChunk / parts;
  text.line("{{\nconst int column = THREAD % {0}, part = THREAD / {0};", columns);
  text.line("float sum[{0}];\nUNROLL for (int r = 0; r < {0}; ++r) sum[r] = 0;", together_);
  text.line("int from = part * {0}, to = from + {0};\nif (from < low) from = low;\nif (to > high) to = high;", keys);
  text.line("if (column < {}) for (int j = from; j < to; ++j) {{", e_);
  text.line("const float x = {};",
            load(text, v_.dtype, vs_, fmt::format("(tokens[j] * {} + shared) * {} + column", nG_, e_)));
  text.line("UNROLL for (int r = 0; r < {0}; ++r) sum[r] = fma(weights[r * {1} + j], x, sum[r]);\n}}", together_,
            kChunk);
  text.line("UNROLL for (int r = 0; r < {}; ++r) sums[r * {} + THREAD] = sum[r];\n}}\nBARRIER;", together_, kGroup);
  text.line("for (idx i = THREAD; i < {}; i += {}) {{\nconst idx r = i / {}, c = i % {};", together_ * e_, kGroup, e_,
            e_);
  text.line("if (first + r >= heads) continue;\nfloat all = sums[r * {} + c];", kGroup);
  text.line("for (int part = 1; part < {}; ++part) all += sums[r * {} + part * {} + c];", parts, kGroup, columns);
  text.line("{}[((own * {} + head + r) * {} + chunk) * {} + c] = all;\n}}\nBARRIER;", partial_, nH_, nchunks_, e_ + 2);
}

void SequenceBlocks::write_chunks(Emitter& emitter) {
  text.local("float", "queries", together_ * d_), text.local("float", "weights", together_ * kChunk);
  text.local("float", "sums", together_ * kGroup), text.local("float", "memory", kGroup);
  text.local("idx", "tokens", kChunk);
  text.line("for (idx block = GROUP; block < {} * {} * {}; block += GROUPS) {{", nrows_, nG_, nchunks_);
  text.line("const idx chunk = block % {0}, shared = block / {0} % {1}, own = block / {0} / {1};", nchunks_, nG_);
  write_seen();
  text.line("const i64 s0 = begin + (i64)chunk * {};", kChunk);
  // A chunk that the row does not see goes through no heads: not by `continue`, which some compilers of OpenCL do not
  // bring together with the barriers behind it.
  text.line("const idx heads = s0 > last ? 0 : {} / {};", nH_, nG_);
  text.line("const int low = 0, high = last - s0 < {0} ? (int)(last - s0) + 1 : {0};", kChunk);
  text.line("int seen = heads > 0 && THREAD < high;\nif (seen) {{\nconst i64 s = s0 + THREAD;");
  if (is_paged(node_)) {
    text.line("i64 in = (i64){0}[batch * {1} + s / {2}];\nin = in < 0 ? 0 : in >= {3} ? {3} - 1 : in;", table_, nM_,
              nsize_, nblocks_);
    text.line("tokens[THREAD] = (idx)(in * {0} + s % {0});", nsize_);
  } else {
    text.line("tokens[THREAD] = (idx)(batch * {} + s);", nS_);
  }
  if (bias_) text.line("seen = s == begin || !({});", hides("s"));
  text.line("}}");
  text.line("for (idx first = 0; first < heads; first += {}) {{\nconst idx head = shared * heads + first;", together_);
  write_scores();
  write_weights();
  write_values();
  text.line("}}\n}}");
  emitter.launch(text, std::min<int64_t>(rows_ * G_ * chunks_, 1 << 16), "paged attention");
}

void SequenceBlocks::write_joined(Emitter& emitter, const Operand& out) {
  const std::string to = text.address(out, storage_type(q_.dtype));
  text.line("{} {{", loop_over("i", fmt::format("({} * {} * {})", nrows_, nH_, e_)));
  text.line("const idx c = i % {0}, head = i / {0} % {1}, own = i / {0} / {1};", e_, nH_);
  write_seen();
  text.line("GLOBAL const float* const of = {} + (own * {} + head) * {} * {};", partial_, nH_, nchunks_, e_ + 2);
  text.line("const idx from = 0, to_chunk = (idx)((last - begin) / {0});\nfloat most = of[{1}];", kChunk, e_);
  text.line("for (idx k = from + 1; k <= to_chunk; ++k) {{ const float one = of[k * {} + {}];", e_ + 2, e_);
  text.line("most = most != most || one < most ? most : one; }}\nfloat total = 0, sum = 0;");
  text.line("for (idx k = from; k <= to_chunk; ++k) {{\nGLOBAL const float* const one = of + k * {};", e_ + 2);
  text.line("const float share = one[{0}] == most ? 1 : {1}(one[{0}] - most);", e_, text.use("f_exp"));
  text.line("total = fma(one[{}], share, total);\nsum = fma(one[c], share, sum);\n}}", e_ + 1);
  text.line("{}\n}}", store(text, q_.dtype, to, fmt::format("(row * {} + head) * {} + c", nH_, e_), "sum / total"));
  emitter.launch(text, groups_for(rows_ * H_ * e_, 1), "paged attention, chunks joined");
}

void lower_by_chunks(Emitter& emitter, const Work& work) {
  if (work.node.output().count() == 0) return;
  const Shape& q = work.node.input(0).shape;
  const int64_t all = q[0] * q[1], row_bytes = partial_bytes(work.node);
  const int64_t rows = std::clamp<int64_t>(kMostPartial / row_bytes, 1, all);
  const Operand partial = emitter.scratch(rows * row_bytes);
  for (int64_t first = 0; first < all; first += rows) {
    const int64_t count = std::min(rows, all - first);
    SequenceBlocks(work, first, count, partial).write_chunks(emitter);
    SequenceBlocks(work, first, count, partial).write_joined(emitter, work.outputs.at(0));
  }
}

bool claims_paged_attention(const Facts& facts, std::span<const transom_value> inputs,
                            const plugin::Attributes& attributes) {
  if (!claims_floats(facts, inputs, attributes) || inputs.size() != 5 || inputs[0].dtype == TRANSOM_FLOAT64 ||
      inputs[1].dtype == TRANSOM_FLOAT64)
    return false;
  const int64_t head = inputs[0].shape[3], width = inputs[2].shape[inputs[2].rank - 1];
  return facts.group_memory >= kPagedMemory && head > 0 && head <= kLargestHead && width > 0 && width <= kLargestHead &&
         inputs[1].shape[0] > 0 && inputs[3].shape[1] > 0;
}

}  // namespace

bool attended_apart(Emitter& emitter, const Work& work) {
  const Node& node = work.node;
  const Type &q = node.input(0), &k = node.input(1), &v = node.input(2);
  // A bias of its own for each head is of models that no pages hold.
  const bool of_heads = node.integer("biased") != 0 && (node.input(3).rank() != 4 || node.input(3).shape[1] != 1);
  if (node.integer("batch_invariant", 0) == 0 || node.integer("causal") == 0 || node.number("dropout") > 0 ||
      of_heads || q.dtype == TRANSOM_FLOAT64 || k.dtype == TRANSOM_FLOAT64 || q.shape.at(3) == 0 ||
      q.shape[3] > kLargestHead || v.shape.at(3) > kLargestHead || k.shape.at(1) < q.shape.at(1) ||
      emitter.facts().group_memory < kPagedMemory)
    return false;
  lower_by_chunks(emitter, work);
  return true;
}

void add_paged_attention_lowerings(LoweringTable& table) {
  table["paged_attention"] = {lower_by_chunks, claims_paged_attention};
}

}  // namespace transom::gpu
