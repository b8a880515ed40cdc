// SPDX-License-Identifier: Apache-2.0
// The gradients of attention and of partial_attention. A task is the heads that share keys: their sums over queries
// then need no other thread.
#include "cpu/attention/attention_gemm.h"
#include "cpu/device/threads.h"
#include "cpu/kernels/wide_operands.h"
#include "cpu/vector/attention/partial_rows.h"
#include "cpu/vector/kernels.h"

namespace transom::cpu {
namespace {

struct GradientProducts {
  std::shared_ptr<const MatrixProduct> scores, dweights, dv, dq, dk;
};

GradientProducts gradient_products(const AttentionPlan& plan, const QueryBlock& block) {
  const int64_t m = block.queries, n = block.keys, d = plan.d, e = plan.e, H = plan.H, G = plan.G;
  const transom_dtype narrow = plan.dtype, wide = TRANSOM_FLOAT32;
  return {.scores = plan.scores_product(block),
          .dweights = MatrixProduct::find({m, n, e, H * e, 1, 1, G * e, n, narrow, wide, false, false}),  // dy v'
          .dv = MatrixProduct::find({n, e, m, 1, n, H * e, 1, e, narrow, wide, false, false}),            // weights' dy
          .dq = MatrixProduct::find({m, d, n, n, 1, G * d, 1, H * d, narrow, narrow, false, false}),      // dscores k
          .dk = MatrixProduct::find({n, d, m, 1, n, H * d, 1, d, narrow, wide, false, false})};           // dscores' q
}

struct GradientProgram {
  AttentionPlan plan;
  std::vector<GradientProducts> products, with_all_keys;
  bool partial;  // the statistics of the softmax, and the shifts of the scores' gradients, are inputs
  size_t dy_input;

  GradientProgram(const Node& node, transom_dtype dtype) : plan(node, dtype), partial(node.has("offset")) {
    dy_input = plan.key_input + (plan.dropped ? 1 : 0) + (partial ? 3 : 0);
    for (const QueryBlock& block : plan.blocks) {
      products.push_back(gradient_products(plan, block));
      with_all_keys.push_back(plan.causal ? gradient_products(plan, plan.with_all_keys(block)) : products.back());
    }
  }

  // What a thread works with.
  struct Memory {
    float *weights, *kept, *dweights;  // [queries, keys]; kept: after dropout
    uint16_t* narrow;                  // [queries, keys]
    float *own, *product;              // [S], [S, max(d, e)]
    uint32_t* words;                   // [S]
    float *dk, *dv;                    // [S, d], [S, e]
  };

  size_t scratch_bytes() const {
    const int64_t scores = plan.most_queries() * plan.most_keys();
    return (plan.dropped ? 3 : 2) * Scratch::bytes_of<float>(scores) +
           Scratch::bytes_of<uint16_t>(plan.narrow() ? scores : 0) + 2 * Scratch::bytes_of<float>(plan.S) +
           Scratch::bytes_of<float>(plan.S * std::max(plan.d, plan.e)) + Scratch::bytes_of<float>(plan.S * plan.d) +
           Scratch::bytes_of<float>(plan.S * plan.e);
  }

  Memory memory() const {
    Scratch scratch(scratch_bytes());
    const int64_t scores = plan.most_queries() * plan.most_keys();
    Memory m{};
    m.weights = scratch.take<float>(scores);
    m.kept = plan.dropped ? scratch.take<float>(scores) : m.weights;
    m.dweights = scratch.take<float>(scores);
    m.narrow = scratch.take<uint16_t>(plan.narrow() ? scores : 0);
    m.own = scratch.take<float>(plan.S);
    m.words = scratch.take<uint32_t>(plan.S);
    m.product = scratch.take<float>(plan.S * std::max(plan.d, plan.e));
    m.dk = scratch.take<float>(plan.S * plan.d);
    m.dv = scratch.take<float>(plan.S * plan.e);
    return m;
  }

  static void add(float* to, const float* from, int64_t n) {
    vector_kernels().binary[kAdd][kF32](to, to, from, nullptr, static_cast<size_t>(n));
  }

  // Of each query; null where they are not given.
  struct Given {
    const float *largest = nullptr, *sum = nullptr, *shift = nullptr;
  };

  void run_block(const AttentionInputs& in, const Given& given, const std::byte* dy, int64_t b, int64_t h, size_t index,
                 const Memory& m, std::byte* dq) const {
    const VectorKernels& kernels = vector_kernels();
    const WeightRows rows(plan, in, b, h);
    const bool all_keys = rows.hides_a_row(plan.blocks[index]);
    const QueryBlock block = all_keys ? plan.with_all_keys(plan.blocks[index]) : plan.blocks[index];
    const GradientProducts& product = (all_keys ? with_all_keys : products)[index];
    const int64_t n = block.keys, g = h / plan.group(), d = plan.d, e = plan.e;
    const auto at = [&](const std::byte* base, int64_t element) {
      return base + static_cast<size_t>(element) * plan.element();
    };
    const int64_t query = (b * plan.T + block.query) * plan.H + h, key = (b * plan.S + block.key) * plan.G + g;
    product.scores->run(at(in.q, query * d), at(in.k, key * d), nullptr, m.weights);
    product.dweights->run(at(dy, query * e), at(in.v, key * e), nullptr, m.dweights);
    for (int64_t i = 0; i < block.queries; ++i) {
      float *weights = m.weights + i * n, *dweights = m.dweights + i * n;
      if (partial) {
        const int64_t place = (b * plan.H + h) * plan.T + block.query + i;
        rows.weigh(block, all_keys, block.query + i, weights, m.own, [&](float* x, const float* bias, size_t count) {
          partial_rows().weights(x, bias, plan.scale, plan.soft_cap, count, given.largest[place], given.sum[place]);
        });
      } else {
        rows.weigh(block, all_keys, block.query + i, weights, m.own);
      }
      if (plan.dropped) {
        rows.draw(block, block.query + i, m.words);
        kernels.drop(m.kept + i * n, weights, m.words, plan.drop_bound, plan.kept_scale, static_cast<size_t>(n));
        kernels.drop(dweights, dweights, m.words, plan.drop_bound, plan.kept_scale, static_cast<size_t>(n));
      }
    }
    product.dv->run(as_operand(plan, m.kept, block.queries * n, m.narrow), at(dy, query * e), nullptr, m.product);
    add(m.dv + block.key * e, m.product, n * e);
    for (int64_t i = 0; i < block.queries; ++i) {
      float *weights = m.weights + i * n, *dweights = m.dweights + i * n;
      const float shift = partial ? given.shift[(b * plan.H + h) * plan.T + block.query + i]
                                  : kernels.dot(weights, dweights, static_cast<size_t>(n));
      kernels.score_gradient(dweights, weights, shift, plan.scale, static_cast<size_t>(n));
    }
    const void* dscores = as_operand(plan, m.dweights, block.queries * n, m.narrow);
    product.dq->run(dscores, at(in.k, key * d), nullptr, dq + static_cast<size_t>(query * d) * plan.element());
    product.dk->run(dscores, at(in.q, query * d), nullptr, m.product);
    add(m.dk + block.key * d, m.product, n * d);
  }

  // [S, width] of one head into [B, S, G, width].
  void store(const float* from, int64_t b, int64_t g, int64_t width, std::byte* to) const {
    for (int64_t s = 0; s < plan.S; ++s) {
      std::byte* row = to + static_cast<size_t>(((b * plan.S + s) * plan.G + g) * width) * plan.element();
      if (plan.narrow()) as_operand(plan, from + s * width, width, reinterpret_cast<uint16_t*>(row));
      else std::copy_n(from + s * width, width, reinterpret_cast<float*>(row));
    }
  }

  void run(const Arguments& arguments) const {
    const AttentionInputs in(plan, arguments);
    const std::byte* dy = arguments.inputs[dy_input];
    Given given;
    if (partial)
      given = {arguments.input<float>(dy_input - 3), arguments.input<float>(dy_input - 2),
               arguments.input<float>(dy_input - 1)};
    parallel_for(static_cast<size_t>(plan.B * plan.G), [&](size_t task) {
      const auto i = static_cast<int64_t>(task);
      const int64_t b = i / plan.G, g = i % plan.G;
      const Memory m = memory();
      std::fill_n(m.dk, plan.S * plan.d, 0.0f);
      std::fill_n(m.dv, plan.S * plan.e, 0.0f);
      for (int64_t h = g * plan.group(); h < (g + 1) * plan.group(); ++h)
        for (size_t block = 0; block < plan.blocks.size(); ++block)
          run_block(in, given, dy, b, h, block, m, arguments.outputs[0]);
      store(m.dk, b, g, plan.d, arguments.outputs[1]);
      store(m.dv, b, g, plan.e, arguments.outputs[2]);
    });
  }
};

Kernel make_attention_gradient(const Node& node) {
  node.output(2);
  const WideOperands wide(node, {0, 1, 2, node.input_count() - 1}, 3);  // the last one is dy
  auto program = std::make_shared<const GradientProgram>(node, wide.dtype());
  return {fmt::format("attention in {} blocks {}", program->plan.blocks.size(), vector_kernels().name),
          [program, wide](const Arguments& arguments) {
            wide.run(arguments, [&](const Arguments& computed) { program->run(computed); });
          },
          wide.scratch_bytes()};
}

}  // namespace

bool claims_attention_gradient(std::span<const transom_value> inputs, std::span<const transom_attribute> attributes) {
  return claims_attention(inputs, attributes) &&
         std::none_of(attributes.begin(), attributes.end(), [](const transom_attribute& attribute) {
           return std::string_view(attribute.name) == "soft_cap" && attribute.float_value > 0;
         });
}

void add_attention_gradient_kernels(KernelTable& table) {
  table["attention_gradient"] = {make_attention_gradient, claims_attention_gradient};
  table["partial_attention_gradient"] = {make_attention_gradient, claims_attention_gradient};
}

}  // namespace transom::cpu
