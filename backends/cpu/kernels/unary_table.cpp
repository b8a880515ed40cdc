// SPDX-License-Identifier: Apache-2.0
#include "cpu/kernels/unary_table.h"

#include <algorithm>
#include <numeric>
#include <string>

#include "cpu/device/lru_cache.h"
#include "cpu/tiles/generated_program.h"

namespace transom::cpu {
namespace {

constexpr int64_t kNumbers = 1 << 16;

// A function that takes longer than an access to the first cache.
bool costly(const Instruction& instruction) {
  const Opcode& opcode = instruction.opcode;
  if (opcode.kind == Opcode::kBinary) return opcode.operation == kPow;
  if (opcode.kind != Opcode::kUnary) return false;
  constexpr UnaryOp kCostly[] = {kExp, kExpm1, kLog, kLog1p, kTanh, kErf, kSin, kCos};
  return std::ranges::count(kCostly, opcode.operation) > 0;
}

// The one leaf that is read from memory.
const Leaf* operand_of(const TileProgram& program) {
  const Leaf* operand = nullptr;
  for (const Leaf& leaf : program.leaves) {
    if (leaf.kind == Leaf::kConstant) continue;
    if (operand || leaf.kind != Leaf::kDense || !is_half(leaf.dtype)) return nullptr;
    operand = &leaf;
  }
  return operand;
}

}  // namespace

std::shared_ptr<UnaryTable> UnaryTable::find(const TileProgram& program) {
  const bool one_result = program.results.size() == 1 && is_half(program.results[0].dtype) && program.totals == 0;
  if (program.count < kNumbers || !one_result || !operand_of(program)) return nullptr;
  if (std::ranges::none_of(program.instructions, costly)) return nullptr;
  constexpr size_t kMost = 32;  // of 128 KiB each
  static LruCache<std::string, UnaryTable> made(kMost);
  return made.find(recipe_of(program).key(), [] { return std::make_shared<UnaryTable>(); });
}

void UnaryTable::fill(const TileProgram& program) {
  std::call_once(filled_, [&] {
    TileProgram every = program;
    every.table = nullptr;
    every.count = kNumbers;
    every.shape = {kNumbers};
    for (Leaf& leaf : every.leaves) leaf.offset = 0;
    // What would be written out first is there as it is: every input is the numbers.
    every.inputs += every.materialised.size();
    every.materialised.clear();
    std::vector<uint16_t> numbers(kNumbers), results(kNumbers);
    std::iota(numbers.begin(), numbers.end(), uint16_t{0});
    std::vector<std::byte*> inputs(every.inputs, reinterpret_cast<std::byte*>(numbers.data()));
    std::vector<std::byte*> outputs(program.results[0].output + 1, reinterpret_cast<std::byte*>(results.data()));
    run_program(every, {inputs.data(), outputs.data(), nullptr, nullptr, nullptr});
    results_ = std::move(results);
  });
}

void UnaryTable::look_up(uint16_t* y, const uint16_t* x, int64_t n) const {
  const uint16_t* results = results_.data();
#pragma GCC unroll 8
  for (int64_t i = 0; i < n; ++i) y[i] = results[x[i]];
}

}  // namespace transom::cpu
