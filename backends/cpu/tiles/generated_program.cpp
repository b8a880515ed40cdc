// SPDX-License-Identifier: Apache-2.0
#include "cpu/tiles/generated_program.h"

namespace transom::cpu {
namespace {

// One instruction over memory runs at the speed of memory either way.
bool pays(const TileProgram& program) {
  size_t steps = program.instructions.size();
  for (const Leaf& leaf : program.leaves) steps += is_half(leaf.dtype) && leaf.kind != Leaf::kConstant;
  return steps > 1;
}

}  // namespace

codegen::Recipe recipe_of(const TileProgram& program) {
  using Kind = codegen::Recipe::Leaf::Kind;
  codegen::Recipe recipe;
  for (const Leaf& leaf : program.leaves) {
    const Access access = leaf.access;
    const bool repeated = access == Access::kScalar || access == Access::kRowRepeated;
    const Kind kind = access == Access::kConstant ? Kind::kConstant : repeated ? Kind::kRepeated : Kind::kMemory;
    // What counts is made as its lane holds it.
    const transom_dtype dtype = leaf.kind == Leaf::kIota && is_half(leaf.dtype) ? TRANSOM_FLOAT32 : leaf.dtype;
    recipe.leaves.push_back({kind, dtype, leaf.slot, kind == Kind::kConstant ? leaf.constant : 0});
  }
  for (const Instruction& made : program.instructions)
    recipe.instructions.push_back({made.opcode, made.y, made.a, made.b, made.c});
  for (const Result& result : program.results) recipe.results.push_back({result.dtype, result.slot});
  return recipe;
}

std::shared_ptr<codegen::GeneratedKernel> find_generated(const TileProgram& program) {
  const codegen::Mode mode = codegen::mode();
  if (mode == codegen::Mode::kOff || (mode == codegen::Mode::kBackground && !pays(program))) return nullptr;
  return codegen::find_kernel(recipe_of(program));
}

}  // namespace transom::cpu
