// SPDX-License-Identifier: Apache-2.0
// embedding_bags: the sparse features of a recommendation model, all tables in one operation (table-batched embedding
// bags). A device that supports it adds the rows where the result has them, without the rows and the bags in between.
#include "graph/ops/movement/embedding_bags.h"

#include "graph/ops/costs.h"
#include "graph/ops/rules.h"

namespace transom {
namespace {

// Inputs: dense, offsets, the tables, their indices.
size_t tables_of(size_t inputs) { return (inputs - 2) / 2; }

std::vector<Type> infer_embedding_bags(const Inference& in) {
  check(in, in.inputs.size() >= 4 && in.inputs.size() % 2 == 0,
        "expected (dense, offsets, tables..., indices...), found {} tensors", in.inputs.size());
  const size_t tables = tables_of(in.inputs.size());
  expect_floating(in, 0);
  check(in, in.rank(0) == 2, "expected dense [samples, width], found {}", in.inputs[0]);
  const int64_t samples = in.shape(0)[0], width = in.shape(0)[1];
  check(in, in.dtype(1) == DType::kInt64 && in.shape(1) == Shape{static_cast<int64_t>(tables), samples},
        "expected offsets i64 [{}, {}], found {}", tables, samples, in.inputs[1]);
  for (size_t i = 2; i < 2 + tables; ++i) {
    check(in, in.dtype(i) == in.dtype(0) && in.rank(i) == 2 && in.shape(i)[1] == width,
          "expected a table of vectors as {}, found {}", in.inputs[0], in.inputs[i]);
    const Type& indices = in.inputs[i + tables];
    check(in, (indices.dtype == DType::kInt64 || indices.dtype == DType::kInt32) && indices.shape.size() == 1,
          "expected i32 or i64 indices of one axis, found {}", indices);
  }
  return {{in.dtype(0), {samples, 1 + static_cast<int64_t>(tables), width}}};
}

std::vector<Tensor> decompose_embedding_bags(std::span<const Tensor> in, const Attributes&) {
  const size_t tables = tables_of(in.size());
  std::vector<Tensor> vectors{unsqueeze(in[0], 1)};
  for (size_t i = 0; i < tables; ++i) {
    const auto table = static_cast<int64_t>(i);
    const Tensor rows = gather(in[2 + i], in[2 + tables + i], 0);
    vectors.push_back(unsqueeze(bag_sums(rows, squeeze(slice(in[1], 0, table, table + 1), 0)), 1));
  }
  return {concatenate(vectors, 1)};
}

// The tables are as large as memory; what is read of them is a row an index.
double bytes_of_bags(const CostRequest& cost) {
  const size_t tables = tables_of(cost.inputs.size());
  double rows = 0;
  for (size_t i = 2 + tables; i < cost.inputs.size(); ++i) rows += static_cast<double>(elements(cost.inputs[i].shape));
  const Type& result = cost.outputs[0];
  const double vectors = static_cast<double>(result.shape[0] * result.shape[1]) + rows;
  return vectors * static_cast<double>(result.shape[2]) * static_cast<double>(size_of(result.dtype));
}

const Operation kEmbeddingBags = {
    .name = "embedding_bags",
    .kind = OperationKind::kComposite,
    .documentation =
        "(dense [B, D], offsets i64 [n, B], n tables [rows, D], the indices [K] of each): [B, 1 + n, D], dense and "
        "behind it the sums of the rows of each bag. Bag b of a table begins at its offset b and ends before the next.",
    .category = Category::kMovement,
    .flops = no_flops,
    .bytes = bytes_of_bags,
    .error = kSumError,
    .infer = infer_embedding_bags,
    .decompose = decompose_embedding_bags,
    .samples = []() -> std::vector<Sample> {
      std::vector<Sample> samples;
      for (const DType dtype : {DType::kFloat32, DType::kBFloat16})
        samples.push_back({{{dtype, {9, 5}},
                            {DType::kInt64, {2, 9}},
                            {dtype, {2, 5}},
                            {dtype, {4, 5}},
                            {DType::kInt64, {6}},
                            {DType::kInt32, {0}}},
                           {}});
      return samples;
    }};

}  // namespace

const RegisterOperations kRegisteredEmbeddingBags{&kEmbeddingBags};

// Bags are found by counting their beginnings, in steps of K + B: to compare each vector with each bag took K B.
Tensor bag_sums(const Tensor& vectors, const Tensor& offsets) {
  const int64_t K = vectors.dim(0), B = offsets.dim(0);
  // Bags that begin behind the last vector are empty.
  const Tensor within = minimum(offsets, full({B}, static_cast<double>(K), DType::kInt64));
  const Tensor begun =
      cumulative_sum(scatter_add(zeros({K + 1}, DType::kInt64), within, full({B}, 1, DType::kInt64), 0), 0);
  const Tensor bag = slice(begun, 0, 0, K) - 1.0;
  return scatter_add(zeros({B, vectors.dim(1)}, vectors.dtype()), bag, vectors, 0);
}

Tensor embedding_bags(const Tensor& dense, const Tensor& offsets, const std::vector<Tensor>& tables,
                      const std::vector<Tensor>& indices) {
  std::vector<Tensor> inputs{dense, offsets};
  inputs.insert(inputs.end(), tables.begin(), tables.end());
  inputs.insert(inputs.end(), indices.begin(), indices.end());
  return make_tensor(kEmbeddingBags, inputs);
}

}  // namespace transom
