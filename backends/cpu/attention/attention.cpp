// SPDX-License-Identifier: Apache-2.0
// attention, and partial_attention, which gives what its softmax is made of. A task is a block of queries of one head.
#include "cpu/attention/attention_few_queries.h"
#include "cpu/attention/attention_gemm.h"
#include "cpu/device/threads.h"
#include "cpu/kernels/wide_operands.h"
#include "cpu/vector/kernels.h"
#include "cpu/vector/partial_rows.h"

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

  // `largest` and `sum`, of each query, may be null.
  void run_block(const AttentionInputs& in, int64_t b, int64_t h, size_t index, std::byte* out, float* largest,
                 float* sum) const {
    const VectorKernels& kernels = vector_kernels();
    const WeightRows rows(plan, in, b, h);
    const bool all_keys = rows.hides_a_row(plan.blocks[index]);
    const QueryBlock block = all_keys ? plan.with_all_keys(plan.blocks[index]) : plan.blocks[index];
    const HeadProducts& product = (all_keys ? with_all_keys : products)[index];
    const int64_t n = block.keys, g = h / plan.group(), row = product.row();
    Scratch scratch(Scratch::bytes_of<float>(block.queries * row) + 2 * Scratch::bytes_of<float>(plan.S) +
                    product.scratch_bytes());
    auto* weights = scratch.take<float>(block.queries * row);  // [queries, keys]
    auto* own = scratch.take<float>(plan.S);
    auto* words = scratch.take<uint32_t>(plan.S);
    const auto offset = [&](int64_t element) { return static_cast<size_t>(element) * plan.element(); };
    const int64_t query = (b * plan.T + block.query) * plan.H + h, key = (b * plan.S + block.key) * plan.G + g;
    product.scores(in.q + offset(query * plan.d), in.k + offset(key * plan.d), weights, scratch);
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
    product.mix(weights, in.v + offset(key * plan.e), out + offset(query * plan.e), scratch);
  }

  void run(const Arguments& arguments, float* largest = nullptr, float* sum = nullptr) const {
    const AttentionInputs in(plan, arguments);
    const auto blocks = static_cast<int64_t>(plan.blocks.size());
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
}

}  // namespace transom::cpu
