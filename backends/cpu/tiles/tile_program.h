// SPDX-License-Identifier: Apache-2.0
// A region of element-wise operations as a program of vector instructions, executed tile by tile: a tile of every value
// stays in the first cache, so that memory is read and written once however many operations there are.
#pragma once

#include <memory>
#include <vector>

#include "cpu/codegen/kernels.h"
#include "cpu/kernels/kernel.h"
#include "cpu/kernels/movement/views.h"
#include "cpu/tiles/tile_instructions.h"
#include "cpu/vector/kernels.h"

namespace transom::cpu {

constexpr int64_t kLargestTile = 512;
constexpr int64_t kTotalRun = kSumPiece;  // elements of a total that are added in one go

// An operand is an index into a table of addresses: those of the slots (tiles in the thread's scratch memory) are
// fixed; those of values that are read or written in place in memory move from tile to tile.
using Operand = uint16_t;
constexpr Operand kNone = 0xFFFF;

struct Instruction {
  Opcode opcode;
  TileFunction function;
  Operand y, a, b, c;
};

// How a leaf stands in memory when a tile of generated code begins.
enum class Access {
  kConstant,     // in the code
  kDirect,       // contiguous over the whole program
  kScalar,       // one element for all
  kRow,          // contiguous up to the end of the innermost row
  kRowRepeated,  // one element up to the end of the innermost row
  kStaged        // brought together in the thread's memory first, at most kLargestTile elements
};

// A value that comes from outside of the program.
struct Leaf {
  enum Kind { kDense, kScalar, kStrided, kConstant, kRandomBits, kIota } kind;
  Operand slot;      // where its tile is
  size_t input = 0;  // of the node, or input_count + i for the value materialised by copy i
  transom_dtype dtype = TRANSOM_FLOAT32;
  bool in_place = false;  // read where it lies in memory, when its tile is contiguous there
  int64_t repeats = 0;    // kStrided: a short row is the same in so many elements, and stays in its slot; 0: in one row
  Shape strides = {};     // kStrided: over the loop nest of the program
  int64_t offset = 0;
  uint64_t constant = 0;                     // kConstant: the bytes of one lane
  int64_t axis_extent = 1, axis_stride = 1;  // kIota: value = index / stride % extent
  Operand staging = kNone;                   // 16-bit elements that are not contiguous are brought together here first
  Access access = Access::kStaged;
  size_t bytes = 0;  // of an element in memory
};

struct Result {
  Operand slot;
  size_t output;  // of the node
  transom_dtype dtype;
  bool in_place;  // the last instruction writes it to memory itself
  bool total;     // the sum of the operand over all tiles, f32
};

// A broadcast that no strides express is written out before the program runs.
struct Materialised {
  size_t input;
  size_t element;
  View view;
};

inline size_t materialised_bytes(const Materialised& copy) {
  return (static_cast<size_t>(product(copy.view.shape, 0, copy.view.shape.size())) * copy.element + 63) / 64 * 64;
}

class UnaryTable;

struct TileProgram {
  int64_t count = 0;  // elements of each result
  int64_t tile = kLargestTile;
  Shape shape;  // the loop nest of the strided leaves
  std::vector<Leaf> leaves;
  std::vector<Instruction> instructions;
  std::vector<Result> results;
  std::vector<Materialised> materialised;
  std::vector<size_t> slot_offsets;  // of each operand in the thread's scratch memory
  size_t scratch_bytes = 0;
  size_t inputs = 0;
  size_t totals = 0;  // results that are totals; they stand behind the others
  // Short rows that all stretches of the result share (numbers of channels, say) are written several times behind each
  // other for generated code, so that a call of it does not end with each of them. How many elements that makes; 0:
  // rows are long, or not the same everywhere.
  int64_t repeated = 0;
  // The same as machine code, for leaves where they lie; null if there is none. See generated_program.h.
  std::shared_ptr<codegen::GeneratedKernel> generated;
  std::shared_ptr<UnaryTable> table;  // instead of computing; null if there is none
  int64_t pieces = 1;                 // parts whose totals are added one after the other, as reduce_sum does
};

// Whether a primitive can stand in a region.
bool is_elementwise(std::string_view op);

inline size_t lane_size(Lane lane) {
  constexpr size_t kSizes[kLanes] = {1, 1, 4, 8, 4, 4, 8};
  return kSizes[lane];
}

// Whether an output of the program may have the memory of an input, place on place.
enum class Outputs { kMayLieOnInputs, kApart };
TileProgram build_program(const transom_graph& region, Outputs outputs = Outputs::kMayLieOnInputs);
void run_program(const TileProgram& program, const Arguments& arguments);

// For those who run a program (without totals, and without a table, which must be filled first) range by range: its
// code, null if it is interpreted; the addresses that its leaves read from, which are the inputs and what must be
// written out first, at `scratch`, which moves on; a range.
codegen::GeneratedKernel::Entry code_of(const TileProgram& program);
std::vector<std::byte*> leaf_inputs(const TileProgram& program, std::byte* const* inputs, std::byte*& scratch);
void run_range(const TileProgram& program, const Arguments& arguments, std::byte* const* leaves,
               codegen::GeneratedKernel::Entry code, int64_t begin, int64_t end);

// Whether the program can be run chunk by chunk while input `input` is being written.
bool reads_in_order(const TileProgram& program, size_t input);

// Runs a program on the chunks of one of its inputs.
class EpilogueReader final : public ChunkReader {
 public:
  // Both outlive it; `chunked`: the inputs that the chunks are parts of.
  EpilogueReader(const TileProgram& program, const Arguments& arguments, std::vector<size_t> chunked);
  void read(const Chunk& chunk) const override;

 private:
  const TileProgram& program_;
  const Arguments& arguments_;
  codegen::GeneratedKernel::Entry code_;  // null: interpreted
  std::vector<size_t> chunked_;
  std::vector<std::byte*> inputs_;
};

}  // namespace transom::cpu
