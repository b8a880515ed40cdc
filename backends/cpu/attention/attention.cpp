// SPDX-License-Identifier: Apache-2.0
// attention, and partial_attention, which gives what its softmax is made of. A task is a block of queries of one head.
#include "cpu/attention/apart_attention.h"
#include "cpu/attention/attention_few_queries.h"
#include "cpu/attention/attention_gemm.h"
#include "cpu/attention/ranged_attention.h"
#include "cpu/device/threads.h"
#include "cpu/kernels/wide_operands.h"
#include "cpu/products/apart/panel_product.h"
#include "cpu/vector/attention/partial_rows.h"
#include "cpu/vector/kernels.h"

namespace transom::cpu {
namespace {

struct AttentionProgram {
  AttentionPlan plan;
  std::vector<HeadProducts> products, with_all_keys;  // of each block

  AttentionProgram(const Node& node, transom_dtype dtype) : plan(node, dtype) {
    for (const QueryBlock& block : plan.blocks) {
      products.emplace_back(plan, block);
      with_all_keys.emplace_back(plan, plan.causal ? plan.with_all_keys(block) : block);
    }
  }
  AttentionProgram(const AttentionProgram&) = delete;  // the products refer to the plan

  size_t block_bytes(const QueryBlock& block, const HeadProducts& product) const {
    return Scratch::bytes_of<float>(block.queries * product.row()) + 2 * Scratch::bytes_of<float>(plan.S) +
           product.scratch_bytes();
  }

  const std::byte* keys_of(const AttentionInputs& in, int64_t b, int64_t h, int64_t first) const {
    return in.k + static_cast<size_t>(((b * plan.S + first) * plan.G + h / plan.group()) * plan.d) * plan.element();
  }
  const std::byte* values_of(const AttentionInputs& in, int64_t b, int64_t h, int64_t first) const {
    return in.v + static_cast<size_t>(((b * plan.S + first) * plan.G + h / plan.group()) * plan.e) * plan.element();
  }

  // `largest` and `sum`, of each query, may be null, and so may `packed`: else the head's, and `shared` is memory
  // behind them.
  void run_block(const AttentionInputs& in, int64_t b, int64_t h, size_t index, std::byte* out, float* largest,
                 float* sum, const PackedHead* packed = nullptr, const Scratch* shared = nullptr) const {
    const VectorKernels& kernels = vector_kernels();
    const WeightRows rows(plan, in, b, h);
    const bool all_keys = rows.hides_a_row(plan.blocks[index]);
    const QueryBlock block = all_keys ? plan.with_all_keys(plan.blocks[index]) : plan.blocks[index];
    const HeadProducts& product = (all_keys ? with_all_keys : products)[index];
    const int64_t n = block.keys, row = product.row();
    Scratch scratch = shared ? *shared : Scratch(block_bytes(block, product));
    auto* weights = scratch.take<float>(block.queries * row);  // [queries, keys]
    auto* own = scratch.take<float>(plan.S);
    auto* words = scratch.take<uint32_t>(plan.S);
    const auto offset = [&](int64_t element) { return static_cast<size_t>(element) * plan.element(); };
    const int64_t query = (b * plan.T + block.query) * plan.H + h;
    product.scores(in.q + offset(query * plan.d), keys_of(in, b, h, block.key), weights, scratch, packed);
    for (int64_t i = 0; i < block.queries; ++i) {
      float* x = weights + i * row;
      if (largest) {
        const int64_t place = (b * plan.H + h) * plan.T + block.query + i;
        rows.weigh(block, all_keys, block.query + i, x, own, [&](float* scores, const float* bias, size_t count) {
          partial_rows().statistics(scores, bias, plan.scale, plan.soft_cap, count, largest + place, sum + place);
        });
      } else {
        rows.weigh(block, all_keys, block.query + i, x, own);
      }
      if (!plan.dropped) continue;
      rows.draw(block, block.query + i, words);
      kernels.drop(x, x, words, plan.drop_bound, plan.kept_scale, static_cast<size_t>(n));
    }
    product.mix(weights, values_of(in, b, h, block.key), out + offset(query * plan.e), scratch, packed);
  }

  // Whether the blocks of a head read the same keys in panels, so that it pays to make these once.
  bool share_keys() const {
    return !plan.causal && plan.blocks.size() > 1 &&
           std::all_of(products.begin(), products.end(),
                       [&](const HeadProducts& product) { return product.packs_as(products[0]); });
  }

  // Some blocks of one head.
  void run_blocks(const AttentionInputs& in, int64_t b, int64_t h, size_t begin, size_t end, std::byte* out,
                  float* largest, float* sum) const {
    size_t bytes = 0;
    for (size_t i = begin; i < end; ++i) bytes = std::max(bytes, block_bytes(plan.blocks[i], products[i]));
    Scratch scratch(products[begin].packed_bytes() + bytes);
    const PackedHead packed = products[begin].pack(keys_of(in, b, h, 0), values_of(in, b, h, 0), scratch);
    for (size_t i = begin; i < end; ++i) run_block(in, b, h, i, out, largest, sum, &packed, &scratch);
  }

  void run(const Arguments& arguments, float* largest = nullptr, float* sum = nullptr) const {
    const AttentionInputs in(plan, arguments);
    const auto blocks = static_cast<int64_t>(plan.blocks.size());
    if (share_keys()) {
      // In as many parts as keep the threads busy.
      const int64_t heads = plan.B * plan.H,
                    wanted = thread_count() == 1 ? 1 : 4 * static_cast<int64_t>(thread_count());
      const int64_t parts = std::min(blocks, (wanted + heads - 1) / heads);
      return parallel_for(static_cast<size_t>(heads * parts), [&](size_t task) {
        const int64_t head = static_cast<int64_t>(task) / parts, part = static_cast<int64_t>(task) % parts;
        run_blocks(in, head / plan.H, head % plan.H, static_cast<size_t>(blocks * part / parts),
                   static_cast<size_t>(blocks * (part + 1) / parts), arguments.outputs[0], largest, sum);
      });
    }
    parallel_for(static_cast<size_t>(plan.B * plan.H * blocks), [&](size_t task) {
      const auto i = static_cast<int64_t>(task);
      // The last blocks of a causal mask see the most: they come first.
      run_block(in, i / plan.H % plan.B, i % plan.H, static_cast<size_t>(blocks - 1 - i / plan.H / plan.B),
                arguments.outputs[0], largest, sum);
    });
  }
};

Kernel make_attention(const Node& node) {
  node.output();
  if (is_batch_invariant(node)) return make_apart_attention(node);
  if (has_few_queries(node)) return make_attention_of_few_queries(node);
  const WideOperands wide(node, {0, 1, 2}, 1);
  auto program = std::make_shared<const AttentionProgram>(node, wide.dtype());
  return {fmt::format("attention in {} blocks {}", program->plan.blocks.size(), vector_kernels().name),
          [program, wide](const Arguments& arguments) {
            wide.run(arguments, [&](const Arguments& computed) { program->run(computed); });
          },
          wide.scratch_bytes()};
}

Kernel make_partial_attention(const Node& node) {
  node.output(2);
  const WideOperands wide(node, {0, 1, 2}, 1);
  auto program = std::make_shared<const AttentionProgram>(node, wide.dtype());
  return {fmt::format("attention in {} blocks {}", program->plan.blocks.size(), vector_kernels().name),
          [program, wide](const Arguments& arguments) {
            auto *largest = reinterpret_cast<float*>(arguments.outputs[1]),
                 *sum = reinterpret_cast<float*>(arguments.outputs[2]);
            wide.run(arguments, [&](const Arguments& computed) { program->run(computed, largest, sum); });
          },
          wide.scratch_bytes()};
}

}  // namespace

void add_attention_kernels(KernelTable& table) {
  table["attention"] = {make_attention, claims_attention};
  table["partial_attention"] = {make_partial_attention, claims_attention};
  table["ranged_attention"] = {make_ranged_attention, claims_attention};
  table["ranged_attention_gradient"] = {make_ranged_attention_gradient, claims_attention_gradient};
}

}  // namespace transom::cpu
