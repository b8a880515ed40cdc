// SPDX-License-Identifier: Apache-2.0
#include "poplin/MatMul.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "poplin/codelets.hpp"
#include "poplin/mat_mul_plan.h"
#include "poplin/operands.h"
#include "poputil/TileMapping.hpp"
#include "simulator/kernels.h"
#include "simulator/rounding.h"

namespace ipu_emulator {
namespace {

// c[m][n] = sum of a[m][k] b[k][n], sums in float in the order of k.
[[gnu::always_inline]] inline void multiply_tiles(const float* a, const float* b, float* c, size_t rows, size_t inner,
                                                  size_t columns) {
  constexpr size_t kRows = 4, kColumns = 32;
  for (size_t column = 0; column < columns; column += kColumns) {
    const size_t width = std::min(kColumns, columns - column);
    for (size_t row = 0; row < rows; row += kRows) {
      const size_t height = std::min(kRows, rows - row);
      float sum[kRows][kColumns] = {};
      if (width == kColumns && height == kRows) {
        for (size_t k = 0; k < inner; ++k) {
          const float* line = b + k * columns + column;
          for (size_t i = 0; i < kRows; ++i) {
            const float factor = a[(row + i) * inner + k];
            for (size_t j = 0; j < kColumns; ++j) sum[i][j] += factor * line[j];
          }
        }
      } else {
        for (size_t k = 0; k < inner; ++k)
          for (size_t i = 0; i < height; ++i)
            for (size_t j = 0; j < width; ++j) sum[i][j] += a[(row + i) * inner + k] * b[k * columns + column + j];
      }
      for (size_t i = 0; i < height; ++i) std::copy(sum[i], sum[i] + width, c + (row + i) * columns + column);
    }
  }
}

using Multiply = void (*)(const float*, const float*, float*, size_t, size_t, size_t);
void multiply_plain(const float* a, const float* b, float* c, size_t rows, size_t inner, size_t columns) {
  multiply_tiles(a, b, c, rows, inner, columns);
}
#if defined(__x86_64__)
[[gnu::target("avx2,fma")]] void multiply_avx2(const float* a, const float* b, float* c, size_t rows, size_t inner,
                                               size_t columns) {
  multiply_tiles(a, b, c, rows, inner, columns);
}
#endif
Multiply widest() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return multiply_avx2;
#endif
  return multiply_plain;
}

// fp16.16: the unit adds up 16 inputs at a time, and what it has is half between them.
void multiply_in_half(const float* a, const float* b, float* c, size_t rows, size_t inner, size_t columns,
                      Rounding& rounding) {
  constexpr size_t kInputs = 16;
  std::vector<float> block(rows * kInputs), sums(rows * columns);
  std::fill_n(c, rows * columns, 0.0f);
  for (size_t k = 0; k < inner; k += kInputs) {
    const size_t width = std::min(kInputs, inner - k);
    for (size_t i = 0; i < rows; ++i) std::copy_n(a + i * inner + k, width, block.data() + i * width);
    multiply(block.data(), b + k * columns, sums.data(), rows, width, columns);
    for (size_t i = 0; i < sums.size(); ++i) c[i] = from_half(rounding(c[i] + sums[i]));
  }
}

bool is_real(poplar::Type type) { return type == poplar::FLOAT || type == poplar::HALF; }

const RegisterKernel kMatMulKernel("matMul", [](const Step& step, Reader& parameters) -> std::function<void(Memory&)> {
  expect_tensors(step, 2, 1);
  const poplar::Tensor A = step.reads[0], B = step.reads[1], out = step.writes[0];
  Reader::expect(A.rank() == 3 && B.rank() == 3 && out.rank() == 3 && A.dim(0) == B.dim(0) && A.dim(2) == B.dim(1) &&
                     out.dim(0) == A.dim(0) && out.dim(1) == A.dim(1) && out.dim(2) == B.dim(2) &&
                     is_real(A.elementType()) && is_real(B.elementType()) && is_real(out.elementType()),
                 "a product of [G, M, K] and [G, K, N]");
  const size_t groups = A.dim(0), rows = A.dim(1), inner = A.dim(2), columns = B.dim(2);
  const bool half_partials = parameters.number(1) != 0;
  return [=](Memory& memory) {
    const std::vector<float> a = load_floats(memory, A), b = load_floats(memory, B);
    std::vector<float> c(out.numElements());
    Rounding rounding(memory);
    for (size_t g = 0; g < groups; ++g) {
      const float *left = a.data() + g * rows * inner, *right = b.data() + g * inner * columns;
      float* result = c.data() + g * rows * columns;
      if (half_partials) multiply_in_half(left, right, result, rows, inner, columns, rounding);
      else multiply(left, right, result, rows, inner, columns);
    }
    store_floats(memory, c, out);
  };
});

}  // namespace

void multiply(const float* a, const float* b, float* c, size_t rows, size_t inner, size_t columns) {
  static const Multiply best = widest();
  best(a, b, c, rows, inner, columns);
}

}  // namespace ipu_emulator

namespace poplin {

using namespace ipu_emulator;

void addCodelets(poplar::Graph& graph) { graph.state()->libraries["poplin"] = true; }

poplar::Tensor matMulGrouped(poplar::Graph& graph, const poplar::Tensor& A, const poplar::Tensor& B,
                             poplar::program::Sequence& prog, const poplar::Type& outputType,
                             const poplar::DebugContext& debugContext, const poplar::OptionFlags& options) {
  if (!graph.state()->libraries.count("poplin")) throw poplar::graph_error("expected poplin::addCodelets first");
  const poplar::Type type = A.elementType();
  if (A.rank() != 3 || B.rank() != 3 || A.dim(0) != B.dim(0) || A.dim(2) != B.dim(1))
    throw poplar::graph_error("matMulGrouped: expected [G, M, K] and [G, K, N], found " + A.shapeToString() + " and " +
                              B.shapeToString());
  if ((type != poplar::FLOAT && type != poplar::HALF) || B.elementType() != type ||
      (outputType != type && outputType != poplar::FLOAT))
    throw poplar::graph_error("matMulGrouped: expected operands of float or half, found " + type.toString() + " and " +
                              B.elementType().toString());
  const size_t groups = A.dim(0), rows = A.dim(1), inner = A.dim(2), columns = B.dim(2);
  poplar::Tensor out = graph.addVariable(outputType, {groups, rows, columns}, debugContext);
  poputil::mapTensorLinearly(graph, out);
  if (out.numElements() == 0) return out;
  const bool half_partials = options.at("partialsType", "float") == "half" && type == poplar::HALF;
  const MatMulPlan plan =
      plan_mat_mul(graph.getTarget(), graph.tiles(), {groups, rows, inner, columns}, size_of(type), half_partials,
                   std::strtod(options.at("availableMemoryProportion", "0.6").c_str(), nullptr));
  ::ipu_emulator::Operation operation;
  operation.name = debugContext.getPathName() + "/matMul";
  operation.codelet = "";
  operation.writes = {out};
  operation.flops = 2 * groups * rows * inner * columns;
  operation.cycles = [](uint64_t) { return uint64_t{0}; };
  operation.kernel = "matMul";
  operation.parameters = std::string(1, half_partials ? 1 : 0);
  add_operation(graph, prog, std::move(operation));
  // The plan says what tiles do, wherever the operands lie.
  Step& step = *prog.step()->children.back();
  step.reads = {A, B};
  step.work.clear();
  step.codelet = "matMul " + type.toString();
  for (unsigned tile = 0; tile < plan.tiles; ++tile)
    step.work.push_back({graph.firstTile() + tile, plan.cycles, plan.received, plan.temporary, 6});
  return out;
}

poplar::Tensor matMul(poplar::Graph& graph, const poplar::Tensor& A, const poplar::Tensor& B,
                      poplar::program::Sequence& prog, const poplar::Type& outputType,
                      const poplar::DebugContext& debugContext, const poplar::OptionFlags& options) {
  return matMulGrouped(graph, A.expand({0}), B.expand({0}), prog, outputType, debugContext, options)[0];
}

poplar::Tensor createMatMulInputRHS(poplar::Graph& graph, const poplar::Type& dataType, const std::vector<std::size_t>&,
                                    const std::vector<std::size_t>& bShape, const poplar::DebugContext& debugContext,
                                    const poplar::OptionFlags&) {
  poplar::Tensor made = graph.addVariable(dataType, bShape, debugContext);
  poputil::mapTensorLinearly(graph, made);
  return made;
}

}  // namespace poplin
