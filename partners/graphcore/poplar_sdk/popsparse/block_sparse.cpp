// SPDX-License-Identifier: Apache-2.0
// Products of blocks: what is zero is not stored, sent or multiplied. Sums are those of the dense product, without the
// terms that are zero.
#include <algorithm>
#include <cstdlib>

#include "poplar/exceptions.hpp"
#include "poplin/mat_mul_plan.h"
#include "poplin/operands.h"
#include "popsparse/codelets.hpp"
#include "popsparse/experimental/BlockSparseMatMul.hpp"
#include "poputil/TileMapping.hpp"
#include "simulator/kernels.h"

namespace popsparse::experimental {

// The right matrix, transposed or not: block rows along the sum, block columns along the result.
class BSMatMulImpl {
 public:
  size_t rows = 0, inner = 0, columns = 0;                  // elements
  size_t row_block = 0, inner_block = 0, column_block = 0;  // elements of a block
  std::vector<unsigned char> mask;                          // as the caller has it
  bool transposed = false;
  poplar::Type in, out, partials;

  size_t inner_blocks() const { return inner / inner_block; }
  size_t column_blocks() const { return columns / column_block; }
  bool keeps(size_t inner_index, size_t column_index) const {
    return mask[transposed ? column_index * inner_blocks() + inner_index
                           : inner_index * column_blocks() + column_index] != 0;
  }
  size_t kept() const {
    return static_cast<size_t>(std::count_if(mask.begin(), mask.end(), [](auto m) { return m; }));
  }
};

}  // namespace popsparse::experimental

namespace ipu_emulator {
namespace {

using popsparse::experimental::BSMatMulImpl;

// `a` [rows, inner], `blocks` [kept, block].
void multiply_blocks(const BSMatMulImpl& p, const float* a, const float* blocks, float* c) {
  const size_t k_size = p.inner_block, n_size = p.column_block, area = k_size * n_size;
  // The place of each block among those that are kept.
  std::vector<size_t> places(p.mask.size());
  for (size_t i = 0, next = 0; i < places.size(); ++i) places[i] = p.mask[i] ? next++ : SIZE_MAX;
  std::vector<float> left, right, out(p.rows * n_size);
  for (size_t n = 0; n < p.column_blocks(); ++n) {
    std::vector<size_t> kept;
    for (size_t k = 0; k < p.inner_blocks(); ++k)
      if (p.keeps(k, n)) kept.push_back(k);
    const size_t depth = kept.size() * k_size;
    left.resize(p.rows * depth);
    right.resize(depth * n_size);
    for (size_t i = 0; i < kept.size(); ++i) {
      const size_t k = kept[i];
      for (size_t row = 0; row < p.rows; ++row)
        std::copy_n(a + row * p.inner + k * k_size, k_size, left.data() + row * depth + i * k_size);
      const size_t at = p.transposed ? n * p.inner_blocks() + k : k * p.column_blocks() + n;
      const float* block = blocks + places[at] * area;
      for (size_t x = 0; x < k_size; ++x)
        for (size_t y = 0; y < n_size; ++y)
          right[(i * k_size + x) * n_size + y] = p.transposed ? block[y * k_size + x] : block[x * n_size + y];
    }
    multiply(left.data(), right.data(), out.data(), p.rows, depth, n_size);
    for (size_t row = 0; row < p.rows; ++row)
      std::copy_n(out.data() + row * n_size, n_size, c + row * p.columns + n * n_size);
  }
}

const RegisterKernel kBlocksKernel("bsMatMul", [](const Step& step, Reader& from) -> std::function<void(Memory&)> {
  expect_tensors(step, 2, 1);
  const poplar::Tensor left = step.reads[0], right = step.reads[1], out = step.writes[0];
  BSMatMulImpl p;
  for (size_t* value : {&p.inner_block, &p.column_block}) *value = from.number(1 << 20);
  p.transposed = from.number(1) != 0;
  const std::string mask = from.text();
  p.mask.assign(mask.begin(), mask.end());
  Reader::expect(left.rank() == 2 && out.rank() == 2 && right.rank() == 2 && left.dim(0) == out.dim(0),
                 "a product of matrices");
  p.rows = left.dim(0), p.inner = left.dim(1), p.columns = out.dim(1);
  Reader::expect(p.inner_block > 0 && p.column_block > 0 && p.inner % p.inner_block == 0 &&
                     p.columns % p.column_block == 0 && p.mask.size() == p.inner_blocks() * p.column_blocks() &&
                     right.dim(0) == p.kept() && right.dim(1) == p.inner_block * p.column_block,
                 "the blocks of a matrix");
  for (const poplar::Tensor& tensor : {left, right, out})
    Reader::expect(tensor.elementType() == poplar::FLOAT || tensor.elementType() == poplar::HALF,
                   "a product of float or half");
  return [=](Memory& memory) {
    const std::vector<float> a = load_floats(memory, left), blocks = load_floats(memory, right);
    std::vector<float> c(out.numElements());
    multiply_blocks(p, a.data(), blocks.data(), c.data());
    store_floats(memory, c, out);
  };
});

void expect_blocks(bool condition, const std::string& text) {
  if (!condition) throw poplar::graph_error("bsMatMul: expected " + text);
}

}  // namespace
}  // namespace ipu_emulator

namespace popsparse {

void addCodelets(poplar::Graph& graph) { graph.state()->libraries["popsparse"] = true; }

}  // namespace popsparse

namespace popsparse::experimental {

using namespace ipu_emulator;

BSMatMulParams::BSMatMulParams(const std::array<int, 3>& dim, const std::array<int, 3>& blockSize,
                               const std::vector<unsigned char>& rhsSparsity, bool rhsNeedTranspose,
                               poplar::Type inDataType, poplar::Type outDataType, poplar::Type partialDataType,
                               unsigned numGroupsIn)
    : impl(std::make_unique<BSMatMulImpl>()) {
  const auto real = [](poplar::Type type) { return type == poplar::FLOAT || type == poplar::HALF; };
  expect_blocks(numGroupsIn == 1, "one group: more are not emulated");
  expect_blocks(real(inDataType) && real(outDataType) && real(partialDataType), "types of float or half");
  const int grain = inDataType == poplar::HALF ? 16 : 8;
  for (size_t i = 0; i < 3; ++i)
    expect_blocks(dim[i] > 0 && blockSize[i] > 0 && dim[i] % blockSize[i] == 0, "blocks that divide the extents");
  expect_blocks(blockSize[1] % grain == 0 && blockSize[2] % grain == 0,
                "blocks of a multiple of " + std::to_string(grain));
  BSMatMulImpl& p = *impl;
  p.rows = static_cast<size_t>(dim[0]), p.inner = static_cast<size_t>(dim[1]), p.columns = static_cast<size_t>(dim[2]);
  p.row_block = static_cast<size_t>(blockSize[0]), p.inner_block = static_cast<size_t>(blockSize[1]),
  p.column_block = static_cast<size_t>(blockSize[2]);
  p.mask = rhsSparsity;
  p.transposed = rhsNeedTranspose;
  p.in = inDataType, p.out = outDataType, p.partials = partialDataType;
  expect_blocks(p.mask.size() == p.inner_blocks() * p.column_blocks(), "a mask with each block of the right matrix");
}

BSMatMulParams::BSMatMulParams(BSMatMulParams&& other) = default;
BSMatMulParams::~BSMatMulParams() = default;

poplar::Tensor createBSMatMulInputLHS(poplar::Graph& graph, const BSMatMulParams& bsMatMul, const std::string& name) {
  const BSMatMulImpl& p = *bsMatMul.impl;
  poplar::Tensor made = graph.addVariable(p.in, {p.rows, p.inner}, name);
  poputil::mapTensorLinearly(graph, made);
  return made;
}

poplar::Tensor createBSMatMulInputRHS(poplar::Graph& graph, const BSMatMulParams& bsMatMul, const std::string& name) {
  const BSMatMulImpl& p = *bsMatMul.impl;
  poplar::Tensor made = graph.addVariable(p.in, {p.kept(), p.inner_block * p.column_block}, name);
  poputil::mapTensorLinearly(graph, made);
  return made;
}

poplar::Tensor bsMatMul(poplar::Graph& graph, const BSMatMulParams& bsMatMul, poplar::program::Sequence& prog,
                        const poplar::Tensor& lhsMatrix, const poplar::Tensor& rhsMatrix,
                        const poplar::OptionFlags& options, const std::string& debugPrefix) {
  expect_blocks(graph.state()->libraries.count("popsparse"), "popsparse::addCodelets first");
  const BSMatMulImpl& p = *bsMatMul.impl;
  expect_blocks(lhsMatrix.shape() == std::vector<size_t>{p.rows, p.inner} &&
                    rhsMatrix.shape() == std::vector<size_t>{p.kept(), p.inner_block * p.column_block} &&
                    lhsMatrix.elementType() == p.in && rhsMatrix.elementType() == p.in,
                "operands of the parameters' shapes and type, found " + lhsMatrix.shapeToString() + " and " +
                    rhsMatrix.shapeToString());
  poplar::Tensor out = graph.addVariable(p.out, {p.rows, p.columns}, debugPrefix);
  poputil::mapTensorLinearly(graph, out);
  size_t strips = 0;  // of the result that have blocks
  for (size_t n = 0; n < p.column_blocks(); ++n)
    for (size_t k = 0; k < p.inner_blocks(); ++k)
      if (p.keeps(k, n)) {
        ++strips;
        break;
      }
  const MatMulPlan plan =
      plan_block_products(graph.getTarget(), graph.tiles(), {p.rows, p.inner_block, p.column_block, p.kept(), strips},
                          size_of(p.in), p.partials == poplar::HALF && p.in == poplar::HALF,
                          std::strtod(options.at("availableMemoryProportion", "0.6").c_str(), nullptr));
  Operation operation;
  operation.name = debugPrefix + "/bsMatMul";
  operation.writes = {out};
  operation.flops = 2 * p.rows * p.kept() * p.inner_block * p.column_block;
  operation.cycles = [](uint64_t) { return uint64_t{0}; };
  operation.kernel = "bsMatMul";
  Writer parameters;
  parameters.number(p.inner_block);
  parameters.number(p.column_block);
  parameters.number(p.transposed);
  parameters.text({reinterpret_cast<const char*>(p.mask.data()), p.mask.size()});
  operation.parameters = std::move(parameters.bytes);
  add_operation(graph, prog, std::move(operation));
  Step& step = *prog.step()->children.back();
  step.reads = {lhsMatrix, rhsMatrix};
  step.work.clear();
  // Each tile has a list of its own blocks: two words for each.
  step.codelet = "bsMatMul " + p.in.toString();
  for (unsigned tile = 0; tile < plan.tiles; ++tile)
    step.work.push_back({graph.firstTile() + tile, plan.cycles, plan.received, plan.temporary, 6});
  return out;
}

}  // namespace popsparse::experimental
