// SPDX-License-Identifier: Apache-2.0
// quantized_matmul from the codes themselves: inputs in 8 bits are multiplied with codes; inputs of f32 with numbers
// that are unpacked once for all rows of x. A row of x gives the same bits whatever other rows there are. Codes of 4
// bits that stand for a table's numbers (IQ4, MXFP4, NVFP4) are multiplied as integers too, where the numbers are
// integers, or halves of such; other tables (nf4, fp8) meet the rounded inputs as numbers.
#include "cpu/products/quantized/quantized_matmul.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <string_view>
#include <vector>

#include "cpu/device/error.h"
#include "cpu/device/memory.h"
#include "cpu/device/threads.h"
#include "cpu/kernels/scratch.h"
#include "cpu/kernels/widening.h"
#include "cpu/products/quantized/code_layout.h"

namespace transom::cpu {
namespace {

constexpr int64_t kRowsTogether = 64;

// Brings the line of a number that is written soon, without other cores' copies of it. Written out, since for x86 in
// general compilers make a prefetch for reading of it, although all processors since 2014 have this one.
inline void fetch_to_write(const float* at) {
#if defined(__x86_64__)
  __asm__("prefetchw %0" : : "m"(*at));
#else
  __builtin_prefetch(at, 1);
#endif
}

std::string_view activations_of(const Node& node) {
  const transom_node& source = node.source();
  for (size_t i = 0; i < source.attributes_count; ++i)
    if (std::string_view(source.attributes[i].name) == "activations" && source.attributes[i].string_value)
      return source.attributes[i].string_value;
  return "float32";
}

// A table's 16 numbers as integers: number = (step - 128) unit.
struct TableSteps {
  uint8_t steps[16];
  float unit = 0;  // 0: they are no integers

  explicit TableSteps(const float* values) {
    for (const float factor : {1.0f, 2.0f}) {
      bool whole = true;
      for (size_t i = 0; i < 16; ++i) {
        const float number = values[i] * factor;
        whole = whole && number >= -128 && number <= 127 && number == std::nearbyint(number);
        if (whole) steps[i] = static_cast<uint8_t>(static_cast<int>(number) + 128);
      }
      if (!whole) continue;
      unit = 1 / factor;
      return;
    }
  }
};

struct CodePlan : CodeLayout {
  bool bias, rounds, by_row, to_16_bits;

  explicit CodePlan(const Node& node) : CodeLayout(node), bias(node.integer("bias") != 0) {
    const std::string_view activations = activations_of(node);
    by_row = activations == "int8_token", to_16_bits = activations == "int16", rounds = activations != "float32";
  }

  // x in f32, rounded x, scales and sums.
  size_t wide_bytes() const {
    return dtype == TRANSOM_FLOAT32 && !(rounds && values) ? 0 : aligned(static_cast<size_t>(m * k) * sizeof(float));
  }
  int64_t block_bytes() const { return (to_16_bits ? 2 : 1) * kInputs; }  // of the integers
  size_t integer_bytes() const { return rounds ? aligned(static_cast<size_t>(m * blocks * block_bytes())) : 0; }
  size_t scale_bytes() const { return rounds ? aligned(static_cast<size_t>(m * blocks) * sizeof(float)) : 0; }
  int64_t corrections() const { return group == 16 ? 2 : 1; }  // of a block
  size_t sum_bytes() const {
    return rounds ? aligned(static_cast<size_t>(m * blocks * corrections()) * sizeof(Correction)) : 0;
  }
  size_t scratch_bytes() const { return wide_bytes() + integer_bytes() + scale_bytes() + sum_bytes(); }

  void run(const Arguments& arguments) const {
    const CodeProducts& kernels = code_products();
    std::byte* next = arguments.scratch;
    const float* x = arguments.input<float>(0);
    auto* wide = reinterpret_cast<float*>(next);
    if (dtype != TRANSOM_FLOAT32) {
      widen(dtype, arguments.inputs[0], wide, m * k);
      x = wide;
    }
    next += wide_bytes();
    std::byte* const integers = next;
    auto* scales = reinterpret_cast<float*>(next + integer_bytes());
    auto* sums = reinterpret_cast<Correction*>(next + integer_bytes() + scale_bytes());
    if (rounds)
      parallel_ranges(m, std::max<int64_t>((1 << 14) / k, 1), [&](int64_t begin, int64_t end) {
        for (int64_t row = begin; row < end; ++row) round_row(kernels, x + row * k, row, integers, scales, sums);
      });
    std::optional<TableSteps> table;
    if (rounds && values && bits == 4) table.emplace(arguments.input<float>(3));
    // Whether codes are multiplied as integers; else the numbers that rounded inputs stand for are multiplied.
    const bool integral = rounds && (!values || (table && table->unit > 0));
    if (rounds && !integral) {
      spell_out(kernels, integers, scales, wide);
      x = wide;
    }
    if (integral && table && table->unit != 1)
      for (int64_t i = 0; i < m * blocks; ++i) scales[i] *= table->unit;
    const RoundedInputs inputs{integers, scales, sums, static_cast<size_t>(blocks), to_16_bits, by_row};
    const int64_t work = k * std::max<int64_t>(m, 1) * kLanes;  // of a panel
    const transom_buffer* buffer = arguments.input_buffers[1];
    const transom_deferred* deferred = buffer && arguments.input_offsets[1] == 0 ? buffer->deferred : nullptr;
    // Many tiles of rows take the codes of 4 bits out of their bytes once for all.
    const auto tile = static_cast<int64_t>(kernels.rows_of_tile(static_cast<size_t>(m)));
    const bool spreads = integral && bits == 4 && m >= 4 * tile;
    parallel_ranges(panels, std::max<int64_t>((1 << 16) / work, 1), [&](int64_t begin, int64_t end) {
      const int64_t together = std::min(m, kRowsTogether), panel_inputs = blocks * kInputs * kLanes;
      Scratch scratch(Scratch::bytes_of<float>(integral ? 0 : panel_inputs) +
                      Scratch::bytes_of<float>(together * kLanes) +
                      Scratch::bytes_of<uint8_t>(spreads ? panel_inputs : 0) + (deferred ? panel_bytes() : 0));
      auto* numbers = scratch.take<float>(integral ? 0 : panel_inputs);
      auto* y = scratch.take<float>(together * kLanes);
      auto* bytes = scratch.take<uint8_t>(spreads ? panel_inputs : 0);
      auto* unwritten = scratch.take<std::byte>(deferred ? static_cast<int64_t>(panel_bytes()) : 0);
      for (int64_t index = begin; index < end; ++index) {
        CodePanel codes = panel(arguments, index, 0, blocks, group);
        if (deferred) read_deferred(*deferred, index, unwritten, codes);
        if (integral && table) codes.steps = table->steps;
        if (spreads) codes = kernels.spread(bytes, codes);
        if (!integral) kernels.unpack(numbers, codes);
        for (int64_t row = 0; row < m; row += together) {
          const int64_t count = std::min(together, m - row);
          // Sums of f32 go where they belong at once, a tile of rows at a time, and their lines come meanwhile.
          const bool direct = integral && dtype == TRANSOM_FLOAT32 && (index + 1) * kLanes <= n;
          auto* to = direct ? reinterpret_cast<float*>(target(arguments, row, index)) : y;
          const int64_t to_row = direct ? n : kLanes;
          for (int64_t i = 0; direct && i < count; ++i) fetch_to_write(to + i * n);
          if (integral) {
            RoundedInputs some = inputs;
            some.integers += row * blocks * block_bytes();
            some.scales += row * blocks, some.corrections += row * blocks * corrections();
            kernels.multiply_rounded(to, static_cast<size_t>(to_row), some, codes, static_cast<size_t>(count));
          } else {
            kernels.multiply(y, x + row * k, static_cast<size_t>(k), numbers, static_cast<size_t>(count),
                             static_cast<size_t>(k));
          }
          if (!direct || bias) store(arguments, to, to_row, row, count, index);
        }
      }
    });
  }

  // Codes, scales and minima of a panel, each aligned.
  size_t code_bytes() const { return static_cast<size_t>(blocks) * (bits == 8 ? 512 : 256); }
  size_t group_bytes() const { return static_cast<size_t>(groups * kLanes) * (half_scales ? 2 : 4); }
  size_t panel_bytes() const { return aligned(code_bytes()) + (minima ? 2 : 1) * aligned(group_bytes()); }

  // What is not written in the buffer yet comes into `to`, which `codes` then points to.
  void read_deferred(const transom_deferred& deferred, int64_t index, std::byte* to, CodePanel& codes) const {
    std::byte *scales = to + aligned(code_bytes()), *least = minima ? scales + aligned(group_bytes()) : nullptr;
    const int32_t status = deferred.read(deferred.context, static_cast<uint64_t>(index), to, scales, least);
    if (status < 0) fail(TRANSOM_OUT_OF_MEMORY, "no memory for packing a weight");
    if (status == 0) return;
    codes.codes = reinterpret_cast<const uint8_t*>(to);
    codes.scales = scales, codes.minima = least;
  }

  // Where a row of integers lies: `first` of the `rows` rows of its tile.
  struct Place {
    int64_t first, rows, row;

    // Of block b, in blocks of the integers, scales and corrections.
    int64_t block(int64_t b, int64_t blocks) const { return first * blocks + b * rows + row - first; }
  };

  Place place(const CodeProducts& kernels, int64_t row) const {
    // Whole tiles but for the last ones are multiplied together.
    for (int64_t first = row / kRowsTogether * kRowsTogether, rows;; first += rows) {
      rows = static_cast<int64_t>(kernels.rows_of_tile(static_cast<size_t>(m - first)));
      if (row < first + rows) return {first, rows, row};
    }
  }

  // The numbers that the integers stand for, [m, k].
  void spell_out(const CodeProducts& kernels, const std::byte* integers, const float* scales, float* to) const {
    for (int64_t row = 0; row < m; ++row) {
      const Place at = place(kernels, row);
      for (int64_t i = 0; i < k; ++i) {
        const int64_t block = at.block(i / kInputs, blocks), j = i % kInputs;
        const std::byte* from = integers + block * block_bytes();
        const int step = to_16_bits ? reinterpret_cast<const int16_t*>(from)[j / 4 * 4 + kWideOrder[j % 4]]
                                    : reinterpret_cast<const int8_t*>(from)[j];
        to[row * k + i] = scales[block] * static_cast<float>(step);
      }
    }
  }

  void round_row(const CodeProducts& kernels, const float* x, int64_t row, std::byte* integers, float* scales,
                 Correction* sums) const {
    const Rounding rounding{.by_row = by_row,
                            .wide = to_16_bits,
                            .halves = group == 16,
                            .surplus = minima                ? 0
                                       : bits == 8 || values ? 128
                                                             : 8};
    const Place at = place(kernels, row);
    const int64_t first = at.block(0, blocks);
    kernels.round(integers + first * block_bytes(), scales + first, sums + first * corrections(),
                  static_cast<size_t>(at.rows), x, static_cast<size_t>(k), static_cast<size_t>(blocks), rounding);
  }

  // Where the 16 sums of a row by a panel come.
  std::byte* target(const Arguments& arguments, int64_t row, int64_t index) const {
    return arguments.outputs[0] + static_cast<size_t>(row * n + index * kLanes) * element_size(dtype);
  }

  // Rows of sums, y_row apart, with the bias; they may be where they belong.
  void store(const Arguments& arguments, float* y, int64_t y_row, int64_t row, int64_t count, int64_t index) const {
    const int64_t first = index * kLanes, width = std::min(kLanes, n - first);
    float added[kLanes] = {};
    const size_t place = 3u + minima + values;
    if (bias && dtype == TRANSOM_FLOAT32) std::copy_n(arguments.input<float>(place) + first, width, added);
    else if (bias)
      load_function(dtype)(added, arguments.inputs[place] + first * 2, nullptr, nullptr, static_cast<size_t>(width));
    for (int64_t i = 0; i < count; ++i)
      store_sums(y + i * y_row, bias ? added : nullptr, width, dtype, target(arguments, row + i, index));
  }
};

Kernel make_quantized_matmul(const Node& node) {
  auto plan = std::make_shared<const CodePlan>(node);
  if (plan->m * plan->n == 0) return {"nothing", [](const Arguments&) {}};
  return {fmt::format("codes of {} bits, {}, {}", plan->bits, plan->rounds ? "inputs of 8 bits" : "unpacked",
                      code_products().name),
          [plan](const Arguments& arguments) { plan->run(arguments); }, plan->scratch_bytes()};
}

// Rows by groups: those of a group come together and go through its matrix; others are not read. The bits of a row are
// those that it has alone.
struct GroupedCodes {
  CodePlan plan;  // of all rows
  int64_t each;   // rows of groups that one row of x serves
  size_t parts, matrices;

  explicit GroupedCodes(const Node& node) : plan(node) {
    const Type &x = node.input(0), &groups = node.inputs().back();
    each = x.rank() == 2 ? groups.shape[1] : 1;
    plan.m = product(groups.shape, 0, groups.rank());
    parts = 2u + plan.minima + plan.values;
    matrices = (node.inputs().size() - 2) / parts;
  }

  size_t row_bytes(int64_t width) const { return static_cast<size_t>(width) * element_size(plan.dtype); }
  size_t rows_bytes() const { return aligned(static_cast<size_t>(plan.m) * row_bytes(plan.k)); }
  size_t sums_bytes() const { return aligned(static_cast<size_t>(plan.m) * row_bytes(plan.n)); }
  size_t scratch_bytes() const { return rows_bytes() + sums_bytes() + plan.scratch_bytes(); }

  void run(const Arguments& arguments) const {
    const auto* groups = arguments.input<int64_t>(1 + matrices * parts);
    std::vector<std::vector<int64_t>> rows(matrices);
    for (int64_t row = 0; row < plan.m; ++row)
      if (groups[row] >= 0 && groups[row] < static_cast<int64_t>(matrices))
        rows[static_cast<size_t>(groups[row])].push_back(row);
      else std::memset(arguments.outputs[0] + static_cast<size_t>(row) * row_bytes(plan.n), 0, row_bytes(plan.n));
    std::byte *x = arguments.scratch, *y = x + rows_bytes();
    for (size_t matrix = 0; matrix < matrices; ++matrix) {
      const std::vector<int64_t>& own = rows[matrix];
      if (own.empty()) continue;
      for (size_t i = 0; i < own.size(); ++i)
        std::memcpy(x + i * row_bytes(plan.k),
                    arguments.inputs[0] + static_cast<size_t>(own[i] / each) * row_bytes(plan.k), row_bytes(plan.k));
      std::byte* inputs[5] = {x};
      transom_buffer* buffers[5] = {};
      size_t offsets[5] = {};
      for (size_t part = 0; part < parts; ++part) {
        const size_t from = 1 + matrix * parts + part;
        inputs[1 + part] = arguments.inputs[from];
        buffers[1 + part] = arguments.input_buffers[from];
        offsets[1 + part] = arguments.input_offsets[from];
      }
      CodePlan some = plan;
      some.m = static_cast<int64_t>(own.size());
      some.run({inputs, &y, buffers, offsets, arguments.scratch + rows_bytes() + sums_bytes()});
      for (size_t i = 0; i < own.size(); ++i)
        std::memcpy(arguments.outputs[0] + static_cast<size_t>(own[i]) * row_bytes(plan.n), y + i * row_bytes(plan.n),
                    row_bytes(plan.n));
    }
  }
};

Kernel make_grouped_quantized_matmul(const Node& node) {
  auto grouped = std::make_shared<const GroupedCodes>(node);
  if (grouped->plan.m * grouped->plan.n == 0) return {"nothing", [](const Arguments&) {}};
  return {fmt::format("codes of {} bits by groups, {}, {}", grouped->plan.bits,
                      grouped->plan.rounds ? "inputs of 8 bits" : "unpacked", code_products().name),
          [grouped](const Arguments& arguments) { grouped->run(arguments); }, grouped->scratch_bytes()};
}

// Inputs of float8 are rounded by the decomposition: no processor multiplies them.
bool claims_codes(std::span<const transom_value> inputs, std::span<const transom_attribute> attributes) {
  for (const transom_attribute& each : attributes)
    if (std::string_view(each.name) == "activations" && each.string_value &&
        std::string_view(each.string_value) == "float8")
      return false;
  return inputs.size() >= 3 &&
         (inputs[0].dtype == TRANSOM_FLOAT32 || is_half(static_cast<transom_dtype>(inputs[0].dtype)));
}

}  // namespace

void add_code_kernels(KernelTable& table) {
  table["quantized_matmul"] = {make_quantized_matmul, claims_codes};
  table["grouped_quantized_matmul"] = {make_grouped_quantized_matmul, claims_codes};
  table["quantized_matmul_gradient"] = {make_quantized_matmul_gradient, claims_codes};
}

}  // namespace transom::cpu
