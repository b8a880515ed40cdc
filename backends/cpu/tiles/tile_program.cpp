// SPDX-License-Identifier: Apache-2.0
// Runs a TileProgram: chunks of tiles in parallel, and in each the instructions over one tile after the other.
#include "cpu/tiles/tile_program.h"

#include <cstring>

#include "cpu/device/threads.h"
#include "cpu/kernels/movement/copy.h"
#include "cpu/kernels/unary_table.h"
#include "cpu/kernels/widening.h"
#include "cpu/tiles/generated_program.h"

namespace transom::cpu {
namespace {

constexpr int64_t kChunkElements = 16384;  // enough work for the handing over of a chunk to cost nothing

template <typename T>
void fill_tile(std::byte* slot, uint64_t bits, int64_t n) {
  T value;
  std::memcpy(&value, &bits, sizeof value);
  std::fill_n(reinterpret_cast<T*>(slot), n, value);
}

void fill_tile(std::byte* slot, size_t size, uint64_t bits, int64_t n) {
  if (size == 1) fill_tile<uint8_t>(slot, bits, n);
  else if (size == 2) fill_tile<uint16_t>(slot, bits, n);
  else if (size == 4) fill_tile<uint32_t>(slot, bits, n);
  else fill_tile<uint64_t>(slot, bits, n);
}

template <typename T>
void gather_run(std::byte* to, const std::byte* from, int64_t stride, int64_t n) {
  auto* out = reinterpret_cast<T*>(to);
  auto* in = reinterpret_cast<const T*>(from);
  if (stride == 0) std::fill_n(out, n, *in);
  else
    for (int64_t i = 0; i < n; ++i) out[i] = in[i * stride];
}

void copy_run(std::byte* to, const std::byte* from, size_t size, int64_t stride, int64_t n) {
  if (stride == 1) std::memcpy(to, from, static_cast<size_t>(n) * size);
  else if (size == 1) gather_run<uint8_t>(to, from, stride, n);
  else if (size == 2) gather_run<uint16_t>(to, from, stride, n);
  else if (size == 4) gather_run<uint32_t>(to, from, stride, n);
  else gather_run<uint64_t>(to, from, stride, n);
}

using Code = codegen::GeneratedKernel::Entry;
constexpr size_t kPadBytes = 16 * 8;  // of the widest vector

class Worker {
 public:
  // `code`: of the program, or null.
  Worker(const TileProgram& program, const Arguments& arguments, std::byte* const* leaf_inputs, Code code)
      : program_(program), arguments_(arguments), leaf_inputs_(leaf_inputs), code_(code) {
    const size_t operands = program.slot_offsets.size();
    const size_t table_bytes = (operands * sizeof(std::byte*) + 63) / 64 * 64;
    const size_t terms_bytes = program.totals * kTotalRun * sizeof(float);
    std::byte* scratch = thread_scratch(table_bytes + program.scratch_bytes + terms_bytes +
                                        (code ? generated_scratch_bytes(program) : 0));
    terms_ = reinterpret_cast<float*>(scratch + table_bytes + program.scratch_bytes);
    table_ = reinterpret_cast<std::byte**>(scratch);
    for (size_t i = 0; i < operands; ++i)
      table_[i] = program.slot_offsets[i] == SIZE_MAX ? nullptr : scratch + table_bytes + program.slot_offsets[i];
    if (code) {
      prepare_generated(scratch + table_bytes + program.scratch_bytes + terms_bytes);
    } else {
      for (const Leaf& leaf : program.leaves) fill_once(leaf);
      loaded_.resize(program.leaves.size());
    }
  }

  void run(int64_t begin, int64_t end) {
    if (program_.table) return look_up(begin, end);
    if (code_) return run_generated(begin, end);
    for (int64_t i = begin; i < end; i += program_.tile) run_tile(i, std::min(program_.tile, end - i));
  }

  // The same, and the totals of the range: halves are added as VectorKernels::sum adds them.
  void run(int64_t begin, int64_t end, float* totals) {
    const int64_t n = end - begin;
    if (n > kTotalRun) {
      const int64_t middle = begin + n / 2 / 64 * 64;
      std::vector<float> second(program_.totals);
      run(begin, middle, totals);
      run(middle, end, second.data());
      for (size_t i = 0; i < program_.totals; ++i) totals[i] += second[i];
      return;
    }
    run_begin_ = begin;
    run(begin, end);
    for (size_t i = 0; i < program_.totals; ++i)
      totals[i] = vector_kernels().sum(terms_ + i * kTotalRun, static_cast<size_t>(n));
  }

 private:
  void fill_once(const Leaf& leaf) {
    const size_t size = lane_size(lane_of(leaf.dtype));
    uint64_t bits = leaf.constant;
    if (leaf.kind == Leaf::kScalar) {
      const std::byte* source = leaf_inputs_[leaf.input] + static_cast<size_t>(leaf.offset) * element_size(leaf.dtype);
      if (is_half(leaf.dtype)) load_function(leaf.dtype)(&bits, source, nullptr, nullptr, 1);
      else std::memcpy(&bits, source, size);
    } else if (leaf.kind != Leaf::kConstant) {
      return;
    }
    fill_tile(table_[leaf.slot], size, bits, kLargestTile);
  }

  void load(const Leaf& leaf, int64_t begin, int64_t n) {
    switch (leaf.kind) {
      case Leaf::kScalar:
      case Leaf::kConstant:
        return;
      case Leaf::kDense: {
        std::byte* source = leaf_inputs_[leaf.input] + static_cast<size_t>(begin + leaf.offset) * leaf.bytes;
        if (leaf.in_place) table_[leaf.slot] = source;
        else load_function(leaf.dtype)(table_[leaf.slot], source, nullptr, nullptr, static_cast<size_t>(n));
        return;
      }
      case Leaf::kStrided:
        return load_strided(leaf, begin, n);
      case Leaf::kRandomBits: {
        uint64_t key[2];
        std::memcpy(key, leaf_inputs_[leaf.input], sizeof key);
        vector_kernels().random_bits(reinterpret_cast<uint32_t*>(table_[leaf.slot]), key[0], key[1],
                                     static_cast<uint64_t>(begin), static_cast<size_t>(n));
        return;
      }
      case Leaf::kIota:
        dispatch(leaf.dtype, [&]<typename T>() {
          count_along_axis(leaf, begin, n, reinterpret_cast<Compute<T>*>(table_[leaf.slot]));
        });
    }
  }

  // Element i of the tensor is i / stride % extent; each division serves a run.
  template <typename T>
  static void count_along_axis(const Leaf& leaf, int64_t begin, int64_t n, T* out) {
    for (int64_t done = 0; done < n;) {
      const int64_t at = begin + done, index = at / leaf.axis_stride % leaf.axis_extent;
      const int64_t period =
          leaf.axis_stride == 1 ? leaf.axis_extent - index : leaf.axis_stride - at % leaf.axis_stride;
      const int64_t run = std::min(period, n - done), step = leaf.axis_stride == 1 ? 1 : 0;
      for (int64_t i = 0; i < run; ++i) out[done + i] = static_cast<T>(index + i * step);
      done += run;
    }
  }

  void load_strided(const Leaf& leaf, int64_t begin, int64_t n) {
    const int64_t inner = program_.shape.back(), stride = leaf.strides.back();
    const size_t home = program_.slot_offsets[leaf.slot];
    const int64_t phase = begin % inner;
    if (leaf.in_place && stride == 1 && phase + n <= inner) {
      table_[leaf.slot] = address(leaf, begin);
      return;
    }
    std::byte* slot = slots() + home;
    if (leaf.repeats) {
      Loaded& loaded = loaded_[static_cast<size_t>(&leaf - program_.leaves.data())];
      table_[leaf.slot] = slot;
      const int64_t block = begin / leaf.repeats;
      const bool within = (begin + n - 1) / leaf.repeats == block;  // else its end is of another row
      if (within && loaded.block == block && loaded.phase == phase && loaded.count >= n) return;
      loaded = within ? Loaded{block, phase, n} : Loaded{};
    }
    std::byte* out = leaf.staging == kNone ? slot : table_[leaf.staging];
    gather(leaf, begin, n, out);
    if (leaf.staging != kNone) load_function(leaf.dtype)(slot, out, nullptr, nullptr, static_cast<size_t>(n));
    table_[leaf.slot] = slot;
  }

  // Of an element of a strided leaf.
  std::byte* address(const Leaf& leaf, int64_t index) const {
    return leaf_inputs_[leaf.input] +
           (leaf.offset + offset_of(index, program_.shape, leaf.strides)) * static_cast<int64_t>(leaf.bytes);
  }

  // Brings elements of a strided leaf together.
  void gather(const Leaf& leaf, int64_t begin, int64_t n, std::byte* out) const {
    const size_t size = leaf.bytes;
    const int64_t inner = program_.shape.back();
    for (int64_t done = 0; done < n;) {
      const int64_t run = std::min(inner - (begin + done) % inner, n - done);
      copy_run(out + static_cast<size_t>(done) * size, address(leaf, begin + done), size, leaf.strides.back(), run);
      done += run;
    }
  }

  std::byte* slots() const {
    const size_t table_bytes = (program_.slot_offsets.size() * sizeof(std::byte*) + 63) / 64 * 64;
    return reinterpret_cast<std::byte*>(table_) + table_bytes;
  }

  void run_tile(int64_t begin, int64_t n) {
    for (const Leaf& leaf : program_.leaves) load(leaf, begin, n);
    for (const Result& result : program_.results)
      if (result.in_place) table_[result.slot] = target(result, begin);
    const auto at = [&](Operand operand) { return operand == kNone ? nullptr : table_[operand]; };
    for (const Instruction& instruction : program_.instructions)
      instruction.function(at(instruction.y), at(instruction.a), at(instruction.b), at(instruction.c),
                           static_cast<size_t>(n));
    size_t total = 0;
    for (const Result& result : program_.results) {
      if (result.total)
        std::memcpy(terms_ + total++ * kTotalRun + (begin - run_begin_), table_[result.slot],
                    static_cast<size_t>(n) * sizeof(float));
      else if (!result.in_place) store(result, begin, n);
    }
  }

  std::byte* target(const Result& result, int64_t begin) const {
    return arguments_.outputs[result.output] + static_cast<size_t>(begin) * element_size(result.dtype);
  }

  void store(const Result& result, int64_t begin, int64_t n) {
    std::byte* out = target(result, begin);
    const auto count = static_cast<size_t>(n);
    if (is_half(result.dtype)) store_function(result.dtype)(out, table_[result.slot], nullptr, nullptr, count);
    else std::memmove(out, table_[result.slot], count * element_size(result.dtype));
  }

  void look_up(int64_t begin, int64_t end) {
    for (const Leaf& leaf : program_.leaves) {
      if (leaf.kind == Leaf::kConstant) continue;
      auto* x = reinterpret_cast<const uint16_t*>(leaf_inputs_[leaf.input]) + leaf.offset + begin;
      program_.table->look_up(reinterpret_cast<uint16_t*>(target(program_.results[0], begin)), x, end - begin);
    }
  }

  // ---- with generated code: the pointers of a tile are put into a table, and the code does the rest

  static size_t generated_scratch_bytes(const TileProgram& program) {
    const size_t ends = program.leaves.size() + program.results.size();
    return (ends + program.generated->functions().size()) * sizeof(void*) + 64 + ends * kPadBytes +
           static_cast<size_t>(program.repeated) * sizeof(uint64_t) * program.leaves.size();
  }

  void repeat_rows() {
    const int64_t inner = program_.shape.back();
    std::byte* to = rows_memory_;
    for (const Leaf& leaf : program_.leaves) {
      const size_t row_bytes = static_cast<size_t>(inner) * leaf.bytes;
      const bool row = leaf.access == Access::kRow;
      rows_.push_back(row ? to : nullptr);
      for (int64_t done = 0; row && done < program_.repeated; done += inner, to += row_bytes)
        std::memcpy(to, address(leaf, 0), row_bytes);
    }
  }

  void prepare_generated(std::byte* scratch) {
    const size_t ends = program_.leaves.size() + program_.results.size();
    const std::vector<TileFunction>& functions = program_.generated->functions();
    pointers_ = reinterpret_cast<void**>(scratch);
    for (size_t i = 0; i < functions.size(); ++i) pointers_[ends + i] = reinterpret_cast<void*>(functions[i]);
    pads_ = scratch + ((ends + functions.size()) * sizeof(void*) + 63) / 64 * 64;
    for (const Leaf& leaf : program_.leaves) {
      staged_ = staged_ || leaf.access == Access::kStaged;
      by_rows_ = by_rows_ || leaf.access == Access::kRow || leaf.access == Access::kRowRepeated;
    }
    rows_memory_ = pads_ + (program_.leaves.size() + program_.results.size()) * kPadBytes;
  }

  void run_generated(int64_t begin, int64_t end) {
    const int64_t inner = program_.shape.back();
    if (program_.repeated && rows_.empty() && end - begin > 2 * inner) repeat_rows();
    for (int64_t n = 0; begin < end; begin += n) {
      n = end - begin;
      if (staged_) n = std::min(n, kLargestTile);
      if (by_rows_) n = std::min(n, (rows_.empty() ? inner : program_.repeated) - begin % inner);
      run_generated_tile(begin, n);
    }
  }

  void run_generated_tile(int64_t begin, int64_t n) {
    size_t next = 0, total = 0;
    for (const Leaf& leaf : program_.leaves) pointers_[next++] = source(leaf, begin, n);
    for (const Result& result : program_.results)
      pointers_[next++] = result.total ? reinterpret_cast<std::byte*>(terms_ + total++ * kTotalRun + begin - run_begin_)
                                       : target(result, begin);
    const int64_t whole = n / width_ * width_;
    if (whole) code_(pointers_, whole);
    if (whole < n) run_rest(static_cast<size_t>(whole), static_cast<size_t>(n - whole), static_cast<size_t>(width_));
  }

  std::byte* source(const Leaf& leaf, int64_t begin, int64_t n) {
    const auto size = static_cast<int64_t>(leaf.bytes);
    switch (leaf.access) {
      case Access::kConstant:
        return nullptr;
      case Access::kDirect:
        return leaf_inputs_[leaf.input] + (begin + leaf.offset) * size;
      case Access::kScalar:
        return leaf_inputs_[leaf.input] + leaf.offset * size;
      case Access::kRow:
        if (!rows_.empty())
          return rows_[static_cast<size_t>(&leaf - program_.leaves.data())] + begin % program_.shape.back() * size;
        return address(leaf, begin);
      case Access::kRowRepeated:
        return address(leaf, begin);
      case Access::kStaged:
        break;
    }
    if (leaf.kind != Leaf::kStrided) {
      load(leaf, begin, n);
      return table_[leaf.slot];
    }
    std::byte* out = table_[leaf.staging == kNone ? leaf.slot : leaf.staging];
    gather(leaf, begin, n, out);
    return out;
  }

  // What is left of a tile behind whole vectors, by way of memory where a whole vector fits.
  void run_rest(size_t done, size_t rest, size_t width) {
    const codegen::Recipe& recipe = program_.generated->recipe();
    const size_t leaves = recipe.leaves.size();
    for (size_t i = 0; i < leaves; ++i) {
      if (recipe.leaves[i].kind != codegen::Recipe::Leaf::kMemory) continue;
      const size_t size = element_size(recipe.leaves[i].dtype);
      std::byte* pad = pads_ + i * kPadBytes;
      std::memcpy(pad, static_cast<std::byte*>(pointers_[i]) + done * size, rest * size);
      std::memset(pad + rest * size, 0, (width - rest) * size);
      pointers_[i] = pad;
    }
    std::vector<std::byte*> targets;
    for (size_t i = 0; i < recipe.results.size(); ++i) {
      const size_t size = element_size(recipe.results[i].dtype);
      targets.push_back(static_cast<std::byte*>(pointers_[leaves + i]) + done * size);
      pointers_[leaves + i] = pads_ + (leaves + i) * kPadBytes;
    }
    code_(pointers_, static_cast<int64_t>(width));
    for (size_t i = 0; i < targets.size(); ++i)
      std::memcpy(targets[i], pointers_[leaves + i], rest * element_size(recipe.results[i].dtype));
  }

  // What the slot of a repeated row holds.
  struct Loaded {
    int64_t block = -1, phase = 0, count = 0;  // see Leaf::repeats
  };

  const TileProgram& program_;
  const Arguments& arguments_;
  std::byte* const* leaf_inputs_;
  const Code code_;
  const int64_t width_ = static_cast<int64_t>(codegen::vector_width());
  void** pointers_ = nullptr;  // leaves, results, functions
  std::byte* pads_ = nullptr;  // one vector for each leaf and result
  bool staged_ = false, by_rows_ = false;
  std::byte* rows_memory_ = nullptr;
  std::vector<std::byte*> rows_;  // of each leaf, once they are repeated
  std::byte** table_;
  std::vector<Loaded> loaded_;  // of each leaf
  float* terms_;                // [totals, kTotalRun]
  int64_t run_begin_ = 0;       // of terms_
};

void run_with_totals(const TileProgram& program, const Arguments& arguments, std::byte* const* inputs, float* partial,
                     Code code) {
  const int64_t totals = static_cast<int64_t>(program.totals);
  parallel_ranges(program.pieces, 1, [&](int64_t begin, int64_t end) {
    Worker worker(program, arguments, inputs, code);
    for (int64_t piece = begin; piece < end; ++piece)
      worker.run(program.count * piece / program.pieces, program.count * (piece + 1) / program.pieces,
                 partial + piece * totals);
  });
  for (int64_t piece = 1; piece < program.pieces; ++piece)
    for (int64_t i = 0; i < totals; ++i) partial[i] += partial[piece * totals + i];
  size_t next = 0;
  for (const Result& result : program.results)
    if (result.total) *arguments.output<float>(result.output) = partial[next++];
}

}  // namespace

std::vector<std::byte*> leaf_inputs(const TileProgram& program, std::byte* const* inputs, std::byte*& scratch) {
  std::vector<std::byte*> addresses(inputs, inputs + program.inputs);
  for (const Materialised& copy : program.materialised) {
    copy_view(scratch, addresses[copy.input], copy.view, copy.element);
    addresses.push_back(scratch);
    scratch += materialised_bytes(copy);
  }
  return addresses;
}

Code code_of(const TileProgram& program) {
  if (program.table || !program.generated) return nullptr;
  return program.generated->entry(program.count * static_cast<int64_t>(program.instructions.size()));
}

void run_range(const TileProgram& program, const Arguments& arguments, std::byte* const* leaves, Code code,
               int64_t begin, int64_t end) {
  Worker(program, arguments, leaves, code).run(begin, end);
}

void run_program(const TileProgram& program, const Arguments& arguments) {
  if (program.count == 0) {
    for (const Result& result : program.results)
      if (result.total) *arguments.output<float>(result.output) = 0;
    return;
  }
  if (program.table) program.table->fill(program);
  std::byte* scratch = arguments.scratch;
  const std::vector<std::byte*> inputs = leaf_inputs(program, arguments.inputs, scratch);
  const Code code = code_of(program);
  if (program.totals)
    return run_with_totals(program, arguments, inputs.data(), reinterpret_cast<float*>(scratch), code);
  const int64_t tiles = (program.count + program.tile - 1) / program.tile;
  parallel_ranges(tiles, std::max<int64_t>(kChunkElements / program.tile, 1), [&](int64_t begin, int64_t end) {
    Worker(program, arguments, inputs.data(), code)
        .run(begin * program.tile, std::min(end * program.tile, program.count));
  });
}

bool reads_in_order(const TileProgram& program, size_t input) {
  if (program.totals) return false;
  for (const Materialised& copy : program.materialised)
    if (copy.input == input) return false;
  for (const Leaf& leaf : program.leaves)
    if (leaf.kind != Leaf::kConstant && leaf.kind != Leaf::kIota && leaf.input == input &&
        (leaf.kind != Leaf::kDense || leaf.offset != 0))
      return false;
  return true;
}

EpilogueReader::EpilogueReader(const TileProgram& program, const Arguments& arguments, std::vector<size_t> chunked)
    : program_(program), arguments_(arguments), code_(code_of(program)), chunked_(std::move(chunked)) {
  if (program.table) program.table->fill(program);
  std::byte* scratch = arguments.scratch;
  inputs_ = leaf_inputs(program, arguments.inputs, scratch);
}

void EpilogueReader::read(const Chunk& chunk) const {
  std::vector<std::byte*> inputs = inputs_;
  Worker worker(program_, arguments_, inputs.data(), code_);
  for (int64_t i = 0; i < chunk.count; ++i) {
    const int64_t begin = chunk.begin + i * chunk.step;
    // Moved so that element `begin` of the tensor is where the chunk has it.
    if (chunk.data)
      for (const size_t input : chunked_)
        inputs[input] = reinterpret_cast<std::byte*>(reinterpret_cast<intptr_t>(chunk.data) +
                                                     (i * chunk.length - begin) * chunk.element_bytes);
    worker.run(begin, begin + chunk.length);
  }
}

}  // namespace transom::cpu
