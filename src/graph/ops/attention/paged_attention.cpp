// SPDX-License-Identifier: Apache-2.0
// Attention to a cache whose keys and values lie in blocks of one pool (Kwon et al., "Efficient memory management for
// large language model serving with PagedAttention", 2023). A device that supports it reads the blocks where they are;
// elsewhere they are gathered and attended to as one stretch.
#include "graph/ops/attention/paged_attention.h"

#include <algorithm>

#include "graph/ops/attention/attention_parts.h"
#include "graph/ops/computing.h"
#include "graph/ops/records.h"
#include "graph/ops/rules.h"

namespace transom {
namespace {

constexpr const char* kBlockSize = "block_size";

bool is_index(DType dtype) { return dtype == DType::kInt64 || dtype == DType::kInt32; }

// [N size, G, d] as [N, size, G, d], where `size` is given.
Shape in_blocks(const Shape& shape, int64_t size) {
  return size > 0 ? Shape{shape[0] / size, size, shape[1], shape[2]} : shape;
}

// The blocks of each row, one behind the other: [N, size, G, d] -> [B, M size, G, d]
Tensor gathered(const Tensor& blocks, const Tensor& block_table) {
  const Tensor taken = gather(blocks, block_table, 0);
  return reshape(taken, {taken.dim(0), taken.dim(1) * taken.dim(2), taken.dim(3), taken.dim(4)});
}

// What is added to the scores of q [B, T, H, d] and S keys: query t stands at lengths - T + t, or at the first token if
// that is negative, and sees what is not behind it: no row is masked as a whole. [B, 1, T, S]
Tensor bias_of(const Tensor& lengths, int64_t T, int64_t S, int64_t sliding_window) {
  const Shape shape = {lengths.dim(0), T, S};
  const Tensor length = broadcast_to(reshape(cast(lengths, DType::kInt64), {-1, 1, 1}), shape);
  const Tensor query = maximum(iota(shape, 1) + (length - static_cast<double>(T)), zeros(shape, DType::kInt64));
  const Tensor key = iota(shape, 2);
  Tensor visible = less_equal(key, query);
  if (sliding_window > 0) visible = logical_and(visible, greater(key, query - static_cast<double>(sliding_window)));
  return reshape(select(visible, zeros(shape), full(shape, kMaskedScore)), {shape[0], 1, T, S});
}

double flops_of_pages(const CostRequest& cost) {
  const Shape &q = cost.inputs[0].shape, &v = cost.inputs[2].shape, &table = cost.inputs[3].shape;
  const int64_t size = v.size() == 4 ? v[1] : cost.attributes.get_int(kBlockSize);
  const double pairs = static_cast<double>(elements(q)) / static_cast<double>(std::max<int64_t>(q[3], 1)) *
                       static_cast<double>(table[1] * size);
  return 2 * pairs * static_cast<double>(q[3] + v.back());
}

// Of all but sinks.
std::vector<Type> infer_pages(const Inference& in) {
  expect_floating(in, 0);
  const int64_t size = in.attributes.get_int(kBlockSize, 0);
  check(in, size >= 0, "expected a block_size above 0, found {}", size);
  for (size_t i = 0; i < 3; ++i)
    check(in, in.rank(i) == (i > 0 && size > 0 ? 3 : 4),
          "expected q, k_blocks and v_blocks of four axes (with block_size, the blocks of three), found {}",
          in.inputs[i]);
  expect_floating(in, 1);
  check(in, in.dtype(1) == in.dtype(2), "expected blocks of one type, found {} and {}", in.inputs[1], in.inputs[2]);
  const Shape& q = in.shape(0);
  check(in, size == 0 || (in.shape(1)[0] % size == 0 && in.shape(2)[0] == in.shape(1)[0]),
        "k_blocks of {} and v_blocks of {} are no blocks of {}", in.shape(1), in.shape(2), size);
  const Shape k = in_blocks(in.shape(1), size), v = in_blocks(in.shape(2), size);
  check(in, k[0] == v[0] && k[1] == v[1] && k[2] == v[2] && q[3] == k[3],
        "q {}, k_blocks {} and v_blocks {} do not fit: expected [B, T, H, d], [N, size, G, d] and [N, size, G, e]", q,
        k, v);
  check(in, k[2] > 0 && q[2] % k[2] == 0, "{} heads of queries do not share {} heads of keys", q[2], k[2]);
  check(in, is_index(in.dtype(3)) && in.rank(3) == 2 && in.shape(3)[0] == q[0],
        "expected a block table of i32 or i64 [{}, M], found {}", q[0], in.inputs[3]);
  check(in, is_index(in.dtype(4)) && in.shape(4) == Shape{q[0]}, "expected lengths of i32 or i64 [{}], found {}", q[0],
        in.inputs[4]);
  check(in, in.attributes.get_int("sliding_window") >= 0 && in.attributes.get_float("soft_cap") >= 0,
        "expected a sliding window and a soft cap of at least 0");
  return {{in.dtype(0), {q[0], q[1], q[2], v[3]}}};
}

struct GatheredPages {
  Tensor k, v, bias;
};

GatheredPages gather_pages(std::span<const Tensor> in, const Attributes& attributes) {
  const Tensor &q = in[0], &block_table = in[3];
  const int64_t size = attributes.get_int(kBlockSize, 0);
  const auto rows = [&](const Tensor& blocks) {
    return cast(gathered(reshape(blocks, in_blocks(blocks.shape(), size)), block_table), q.dtype());
  };
  const Tensor k = rows(in[1]), v = rows(in[2]);
  return {k, v, bias_of(in[4], q.dim(1), k.dim(1), attributes.get_int("sliding_window"))};
}

// Of attention to what was gathered.
Attributes attributes_of_pages(const Attributes& attributes) {
  return {{"scale", attributes.get_float("scale")},       {"causal", int64_t{0}}, {"sliding_window", int64_t{0}},
          {"soft_cap", attributes.get_float("soft_cap")}, {"dropout", 0.0},       {"biased", int64_t{1}}};
}

std::vector<Sample> samples_of_pages(bool with_sinks) {
  std::vector<Sample> samples;
  const auto add = [&](DType dtype, DType kept, Shape q, Shape k, int64_t e, int64_t blocks, int64_t window,
                       double soft_cap) {
    const Shape v = {k[0], k[1], k[2], e};
    std::vector<Type> inputs{
        {dtype, q}, {kept, k}, {kept, v}, {DType::kInt64, {q[0], blocks}}, {DType::kInt32, {q[0]}}};
    if (with_sinks) inputs.push_back({DType::kFloat32, {q[2]}});
    samples.push_back({inputs, {{"scale", 0.5}, {"sliding_window", window}, {"soft_cap", soft_cap}}, -1, 1, k[0]});
  };
  for (const auto& [dtype, kept] :
       {std::pair{DType::kFloat32, DType::kFloat32}, std::pair{DType::kBFloat16, DType::kBFloat16},
        std::pair{DType::kFloat32, DType::kFloat16}}) {
    add(dtype, kept, {2, 1, 4, 3}, {9, 4, 2, 3}, 2, 3, 0, 0);
    add(dtype, kept, {3, 5, 2, 2}, {12, 4, 2, 2}, 2, 4, 0, 0);
    add(dtype, kept, {2, 3, 2, 2}, {8, 3, 1, 2}, 3, 3, 2, 2.0);
  }
  return samples;
}

const Operation kPagedAttention = {
    .name = "paged_attention",
    .kind = OperationKind::kComposite,
    .documentation =
        "(q [B, T, H, d], k_blocks [N, size, G, d], v_blocks [N, size, G, e], block_table [B, M], lengths [B]): "
        "attention of the last T of lengths[b] tokens to those before them and to themselves -> [B, T, H, e]. Token s "
        "of row b stands in block block_table[b, s / size]. `scale`, `sliding_window` and `soft_cap` as in attention. "
        "With `block_size` the blocks lie one behind the other, [N size, G, d] and [N size, G, e]. Blocks may be of "
        "another floating-point type than q, which the result has.",
    .category = Category::kAttention,
    .autocast = AutocastClass::kLow,
    .flops = flops_of_pages,
    .infer = [](const Inference& in) -> std::vector<Type> {
      expect_inputs(in, 5);
      return infer_pages(in);
    },
    .decompose = [](std::span<const Tensor> in, const Attributes& attributes) -> std::vector<Tensor> {
      const GatheredPages pages = gather_pages(in, attributes);
      // Each row is a query of its own, whose bits are those of a pass without a cache that keeps rows apart.
      Attributes apart = attributes_of_pages(attributes);
      apart.set(kBatchInvariant, int64_t{1});
      return {make_tensor(op::attention, {in[0], pages.k, pages.v, pages.bias}, std::move(apart))};
    },
    .samples = [] { return samples_of_pages(false); }};

// An operation of its own, since devices that have a kernel for the other one have none for this.
const Operation kPagedSinkAttention = {
    .name = "paged_sink_attention",
    .kind = OperationKind::kComposite,
    .documentation = "(the inputs of paged_attention, sinks [H]): the same with sinks as sink_attention has them.",
    .category = Category::kAttention,
    .autocast = AutocastClass::kLow,
    .flops = flops_of_pages,
    .infer = [](const Inference& in) -> std::vector<Type> {
      expect_inputs(in, 6);
      std::vector<Type> result = infer_pages(in);
      const Type expected{wide_type(in.dtype(0)), {in.shape(0)[2]}};
      check(in, in.inputs[5] == expected, "expected sinks of {}, found {}", expected, in.inputs[5]);
      return result;
    },
    .decompose = [](std::span<const Tensor> in, const Attributes& attributes) -> std::vector<Tensor> {
      const GatheredPages pages = gather_pages(in, attributes);
      return {make_tensor(find_operation("sink_attention"), {in[0], pages.k, pages.v, pages.bias, in[5]},
                          attributes_of_pages(attributes))};
    },
    .samples = [] { return samples_of_pages(true); }};

}  // namespace

const RegisterOperations kRegisteredPagedAttention{&kPagedAttention, &kPagedSinkAttention};

Tensor paged_attention(const Tensor& q, const Tensor& k_rows, const Tensor& v_rows, int64_t block_size,
                       const Tensor& block_table, const Tensor& lengths, const AttentionOptions& options,
                       const Computing& computing, const Tensor& sinks) {
  if (!options.causal) fail("{}paged_attention: expected causal attention", scope_prefix());
  // The cache stays as it is kept: a cast would read all of it.
  const Tensor queries = autocast_inputs(kPagedAttention, {q}, computing)[0];
  std::vector<Tensor> inputs{queries, k_rows, v_rows, block_table, lengths};
  if (sinks.defined()) inputs.push_back(cast(sinks, wide_type(queries.dtype())));
  return make_tensor(sinks.defined() ? kPagedSinkAttention : kPagedAttention, std::move(inputs),
                     {{"scale", options.scale},
                      {"sliding_window", options.sliding_window},
                      {"soft_cap", options.soft_cap},
                      {kBlockSize, block_size}});
}

Tensor paged_attention(const Tensor& q, const Tensor& k_blocks, const Tensor& v_blocks, const Tensor& block_table,
                       const Tensor& lengths, const AttentionOptions& options, const Computing& computing) {
  if (!options.causal) fail("{}paged_attention: expected causal attention", scope_prefix());
  return make_tensor(
      kPagedAttention, autocast_inputs(kPagedAttention, {q, k_blocks, v_blocks, block_table, lengths}, computing),
      {{"scale", options.scale}, {"sliding_window", options.sliding_window}, {"soft_cap", options.soft_cap}});
}

}  // namespace transom
