// SPDX-License-Identifier: Apache-2.0
// From a region of primitives to a TileProgram. Every value is first given an operand of its own; then operands that do
// not live at the same time share memory.
#include <algorithm>
#include <bit>
#include <cstring>
#include <unordered_map>

#include "cpu/device/threads.h"
#include "cpu/tiles/tile_program.h"

namespace transom::cpu {
namespace {

constexpr size_t kInMemory = SIZE_MAX;  // in place of a slot offset

// A value of the region while it is translated.
struct Value {
  enum { kUnknown, kView, kConstant, kComputed } kind = kUnknown;
  size_t input = 0;  // kView: of which input
  View view;
  uint64_t constant = 0;
  Operand operand = kNone;
};

class Builder {
 public:
  Builder(const transom_graph& region, Outputs outputs)
      : region_(region), outputs_(outputs), values_(region.values_count) {}

  TileProgram build() {
    if (region_.outputs_count == 0) fail(TRANSOM_INVALID_ARGUMENT, "expected a region with outputs, found none");
    find_totals();
    full_ = shape_of(totals_.contains(region_.outputs[0]) ? totals_.at(region_.outputs[0]) : region_.outputs[0]);
    program_.count = product(full_, 0, full_.size());
    program_.inputs = region_.inputs_count;
    for (size_t i = 0; i < region_.inputs_count; ++i) {
      Value& value = at(region_.inputs[i]);
      value.kind = Value::kView;
      value.input = i;
      value.view = dense_view(shape_of(region_.inputs[i]));
    }
    for (const transom_node& node : plugin::Nodes(region_)) translate(Node(region_, node));
    for (size_t i = 0; i < region_.outputs_count; ++i) {
      if (totals_.contains(region_.outputs[i])) continue;
      if (shape_of(region_.outputs[i]) != full_) fail(TRANSOM_INVALID_ARGUMENT, "expected outputs of one shape");
      program_.results.push_back({result_operand(region_.outputs[i]), i, dtype_of(region_.outputs[i]), false, false});
    }
    add_totals();
    join_multiply_add();
    choose_loop_nest();
    choose_access();
    choose_in_place();
    assign_slots();
    return std::move(program_);
  }

 private:
  // Sums over all elements of a value of the region: reduce_sum may stand behind everything else.
  void find_totals() {
    for (const transom_node& source : plugin::Nodes(region_)) {
      const Node node(region_, source);
      if (node.op() != "reduce_sum") continue;
      if (node.output().count() != 1 || node.input(0).dtype != TRANSOM_FLOAT32)
        fail(TRANSOM_UNSUPPORTED, "a fusion that reduces {} to {}", to_string(node.input(0)), to_string(node.output()));
      totals_.emplace(node.source().outputs[0], node.source().inputs[0]);
    }
  }

  void add_totals() {
    for (size_t i = 0; i < region_.outputs_count; ++i) {
      const auto total = totals_.find(region_.outputs[i]);
      if (total == totals_.end()) continue;
      if (shape_of(total->second) != full_) fail(TRANSOM_INVALID_ARGUMENT, "expected a total of the outputs' shape");
      program_.results.push_back({operand_of(total->second), i, TRANSOM_FLOAT32, false, true});
      ++program_.totals;
    }
    if (program_.totals) program_.pieces = pieces_of_reduction(program_.count, program_.count);
  }

  Value& at(int32_t index) {
    if (index < 0 || static_cast<size_t>(index) >= values_.size())
      fail(TRANSOM_INVALID_ARGUMENT, "expected a value of the region below {}, found {}", values_.size(), index);
    return values_[static_cast<size_t>(index)];
  }
  Shape shape_of(int32_t index) {
    at(index);
    const transom_value& value = region_.values[index];
    return Shape(value.shape, value.shape + value.rank);
  }
  transom_dtype dtype_of(int32_t index) const { return static_cast<transom_dtype>(region_.values[index].dtype); }

  Operand new_operand(Lane lane) {
    if (lanes_.size() >= kNone) fail(TRANSOM_UNSUPPORTED, "a region of more than {} values", kNone);
    lanes_.push_back(lane);
    return static_cast<Operand>(lanes_.size() - 1);
  }

  Operand emit(Opcode opcode, Operand a, Operand b = kNone, Operand c = kNone) {
    const TileFunction function = tile_function(opcode);
    if (!function) fail(TRANSOM_UNSUPPORTED, "the operation is not defined for this element type");
    const Operand y = new_operand(result_lane(opcode));
    program_.instructions.push_back({opcode, function, y, a, b, c});
    return y;
  }

  // The operand as numbers of another type.
  Operand convert(transom_dtype from, transom_dtype to, Operand operand) {
    const auto opcode = cast_opcode(from, to);
    return opcode ? emit(*opcode, operand) : operand;
  }

  void translate(const Node& node) {
    const transom_node& source = node.source();
    node.output();
    Value& result = at(source.outputs[0]);
    const std::string_view op = node.op();
    if (op == "reduce_sum") return;  // see add_totals
    if (op == "constant") {
      result.kind = Value::kConstant;
      result.constant = constant_bits(node);
    } else if (op == "reshape" || op == "broadcast") {
      move(node, at(source.inputs[0]), result);
    } else if (op == "random_bits" || op == "iota") {
      generate(node, result);
    } else {
      std::vector<Operand> operands;
      for (size_t i = 0; i < source.inputs_count; ++i) operands.push_back(operand_of(source.inputs[i]));
      result.operand = rounded(node, compute(node, operands));
      result.kind = Value::kComputed;
    }
  }

  // Each node gives numbers of its own type, so that a value is the same whether it is fused with its readers or not.
  Operand rounded(const Node& node, Operand made) {
    const std::string_view op = node.op();
    const transom_dtype dtype = node.output().dtype;
    const bool exact = op == "cast" || op == "select" || op == "neg" || op == "abs" || op == "sign" || op == "max" ||
                       op == "min" || op == "floor" || op == "ceil" || op == "round";
    return is_half(dtype) && !exact ? convert(TRANSOM_FLOAT32, dtype, made) : made;
  }

  Operand compute(const Node& node, const std::vector<Operand>& operands) {
    const size_t count = operands.size();
    const auto require = [&](size_t expected) {
      if (count != expected)
        fail(TRANSOM_INVALID_ARGUMENT, "{}: expected {} inputs, found {}", node.op(), expected, count);
    };
    const transom_dtype from = node.input(0).dtype, to = node.output().dtype;
    const Lane lane = lane_of(from), result = lane_of(to);
    if (const auto unary = unary_op(node.op())) {
      require(1);
      return emit({Opcode::kUnary, *unary, lane}, operands[0]);
    }
    if (const auto binary = binary_op(node.op())) {
      require(2);
      if (node.input(1).dtype != from)
        fail(TRANSOM_INVALID_ARGUMENT, "{}: expected inputs of one type, found {} and {}", node.op(), dtype_name(from),
             dtype_name(node.input(1).dtype));
      if (*binary == kPow && lane == kF32)
        if (const Operand simple = simple_power(operands[0], node.source().inputs[1]); simple != kNone) return simple;
      return emit({Opcode::kBinary, *binary, lane}, operands[0], operands[1]);
    }
    if (node.op() == "select") {
      require(3);
      return emit({Opcode::kSelect, 0, result}, operands[0], operands[1], operands[2]);
    }
    if (node.op() == "cast") {
      require(1);
      if (lane != kF32 && is_half(to))  // to f32 first, then to the 16-bit type
        return convert(TRANSOM_FLOAT32, to, convert(from, TRANSOM_FLOAT32, operands[0]));
      return convert(from, to, operands[0]);
    }
    fail(TRANSOM_UNSUPPORTED, "{} cannot stand in a fusion", node.op());
  }

  // Exponents that models use, without logarithms.
  Operand simple_power(Operand x, int32_t exponent) {
    const Value& value = at(exponent);
    if (value.kind != Value::kConstant) return kNone;
    const float power = std::bit_cast<float>(static_cast<uint32_t>(value.constant));
    const Opcode multiply{Opcode::kBinary, kMul};
    if (power == 2.0f) return emit(multiply, x, x);
    if (power == 3.0f) return emit(multiply, emit(multiply, x, x), x);
    return kNone;
  }

  void move(const Node& node, const Value& from, Value& result) {
    const Shape& shape = node.output().shape;
    result = from;
    if (from.kind == Value::kComputed && node.output().count() != node.input(0).count())
      fail(TRANSOM_UNSUPPORTED, "a fusion that broadcasts what it has computed");
    if (from.kind == Value::kUnknown) fail(TRANSOM_INVALID_ARGUMENT, "a value of the region is used before it is made");
    if (from.kind != Value::kView) return;
    if (node.op() == "broadcast") result.view = broadcast_view(from.view, shape);
    else result.view = reshaped(result, node.input(0).dtype, shape);
  }

  // The view under another shape; where strides do not express that, the value is written out first.
  View reshaped(Value& value, transom_dtype dtype, const Shape& shape) {
    if (auto view = reshape_view(value.view, shape)) return *view;
    value.input = materialise(value, dtype);
    return dense_view(shape);
  }

  size_t materialise(const Value& value, transom_dtype dtype) {
    program_.materialised.push_back({value.input, element_size(dtype), value.view});
    return program_.inputs + program_.materialised.size() - 1;
  }

  void generate(const Node& node, Value& result) {
    if (node.output().count() != program_.count) fail(TRANSOM_UNSUPPORTED, "a fusion that broadcasts {}", node.op());
    // Whether a place is not zero cannot be said of its lowest byte: booleans are counted as integers first.
    const bool boolean = node.op() == "iota" && node.output().dtype == TRANSOM_BOOL;
    const transom_dtype made = boolean ? TRANSOM_INT64 : node.output().dtype;
    Leaf leaf{Leaf::kRandomBits, new_operand(lane_of(made))};
    leaf.dtype = made;
    if (node.op() == "iota") {
      const Shape& shape = node.output().shape;
      const auto axis = static_cast<size_t>(node.integer("axis"));
      if (axis >= shape.size())
        fail(TRANSOM_INVALID_ARGUMENT, "iota: expected an axis below {}, found {}", shape.size(), axis);
      leaf.kind = Leaf::kIota;
      leaf.axis_extent = shape[axis];
      leaf.axis_stride = product(shape, axis + 1, shape.size());
    } else {
      const Value& key = at(node.source().inputs[0]);
      if (key.kind != Value::kView || key.view.offset != 0 || node.input(0).dtype != TRANSOM_INT64 ||
          node.input(0).count() != 2)
        fail(TRANSOM_INVALID_ARGUMENT, "random_bits: expected a key i64[2], found {}", to_string(node.input(0)));
      leaf.input = key.input;
    }
    program_.leaves.push_back(leaf);
    result.operand = boolean ? convert(TRANSOM_INT64, TRANSOM_BOOL, leaf.slot) : rounded(node, leaf.slot);
    result.kind = Value::kComputed;
  }

  static uint64_t constant_bits(const Node& node) {
    const transom_dtype dtype = node.output().dtype;
    uint64_t bits = 0;
    dispatch(dtype, [&]<typename T>() {
      using Held = Compute<T>;
      const bool integral = node.has("int_value");
      Held value = integral ? static_cast<Held>(node.integer("int_value")) : static_cast<Held>(node.number("value"));
      if constexpr (!std::is_same_v<T, Held>) value = static_cast<Held>(T(value));
      if (dtype == TRANSOM_BOOL) value = integral ? node.integer("int_value") != 0 : node.number("value") != 0;
      std::memcpy(&bits, &value, sizeof value);
    });
    return bits;
  }

  // The operand that holds a value; the first use of an input or constant makes a leaf.
  Operand operand_of(int32_t index) {
    Value& value = at(index);
    if (value.operand != kNone) return value.operand;
    const transom_dtype dtype = dtype_of(index);
    Leaf leaf{Leaf::kConstant, kNone};
    leaf.dtype = dtype;
    leaf.constant = value.constant;
    if (value.kind == Value::kUnknown)
      fail(TRANSOM_INVALID_ARGUMENT, "a value of the region is used before it is made");
    if (value.kind == Value::kView) {
      if (product(value.view.shape, 0, value.view.shape.size()) != program_.count)
        fail(TRANSOM_INVALID_ARGUMENT, "value {} of the region has not the shape of its outputs", index);
      if (value.view.shape != full_) value.view = reshaped(value, dtype, full_);
      if (overlaps_result(value)) {
        value.input = materialise(value, dtype);
        value.view = dense_view(full_);
      }
      const LoopNest nest = collapse(full_, {value.view.strides});
      leaf.kind = nest.shape.size() == 1 && nest.strides[0][0] == 1   ? Leaf::kDense
                  : nest.shape.size() == 1 && nest.strides[0][0] == 0 ? Leaf::kScalar
                                                                      : Leaf::kStrided;
      leaf.input = value.input;
      leaf.strides = value.view.strides;
      leaf.offset = value.view.offset;
      leaf.in_place = !is_half(dtype) && (leaf.kind == Leaf::kDense || leaf.kind == Leaf::kStrided);
      if (is_half(dtype) && leaf.kind == Leaf::kStrided) leaf.staging = new_operand(kF32);
    }
    leaf.slot = value.operand = new_operand(lane_of(dtype));
    program_.leaves.push_back(leaf);
    return value.operand;
  }

  // What only passes through is copied, since its memory may be written before it is read.
  Operand result_operand(int32_t index) {
    const Operand operand = operand_of(index);
    for (const Instruction& instruction : program_.instructions)
      if (instruction.y == operand) return operand;
    const Lane lane = lane_of(dtype_of(index));
    return emit({Opcode::kConvert, 0, lane, lane}, operand);
  }

  // An output may lie on an input of the same byte size. That is harmless if element i of the one lies on element i of
  // the other; a repeated input would be overwritten before its last use.
  bool overlaps_result(const Value& value) {
    if (outputs_ == Outputs::kApart || value.input >= program_.inputs) return false;
    const Type input{dtype_of(region_.inputs[value.input]), shape_of(region_.inputs[value.input])};
    if (input.count() == program_.count) return false;
    for (size_t i = 0; i < region_.outputs_count; ++i)
      if (input.bytes() == static_cast<size_t>(program_.count) * element_size(dtype_of(region_.outputs[i])))
        return true;
    return false;
  }

  // a * b + c in one instruction (of two roundings) where a * b has no other use.
  void join_multiply_add() {
    constexpr Opcode kAddition{Opcode::kBinary, kAdd}, kMultiplication{Opcode::kBinary, kMul};
    std::vector<Instruction>& code = program_.instructions;
    std::vector<int> uses(lanes_.size()), maker(lanes_.size(), -1);
    for (const Instruction& instruction : code)
      for (Operand operand : {instruction.a, instruction.b, instruction.c})
        if (operand != kNone) ++uses[operand];
    for (const Result& result : program_.results) ++uses[result.slot];
    std::vector<bool> dropped(code.size());
    for (size_t i = 0; i < code.size(); ++i) {
      Instruction& sum = code[i];
      maker[sum.y] = static_cast<int>(i);
      if (sum.opcode != kAddition) continue;
      for (const auto& [product, other] : {std::pair{sum.a, sum.b}, {sum.b, sum.a}}) {
        if (maker[product] < 0 || uses[product] != 1) continue;
        const auto made = static_cast<size_t>(maker[product]);
        if (code[made].opcode != kMultiplication || dropped[made]) continue;
        constexpr Opcode kBoth{Opcode::kMultiplyAdd};
        sum = {kBoth, tile_function(kBoth), sum.y, code[made].a, code[made].b, other};
        dropped[made] = true;
        break;
      }
    }
    size_t kept = 0;
    for (size_t i = 0; i < code.size(); ++i)
      if (!dropped[i]) code[kept++] = code[i];
    code.resize(kept);
  }

  void choose_loop_nest() {
    std::vector<Shape> strides{dense_strides(full_)};
    for (const Leaf& leaf : program_.leaves)
      if (leaf.kind == Leaf::kStrided) strides.push_back(leaf.strides);
    const LoopNest nest = collapse(full_, strides);
    program_.shape = nest.shape;
    size_t next = 1;
    for (Leaf& leaf : program_.leaves)
      if (leaf.kind == Leaf::kStrided) leaf.strides = nest.strides[next++];
    // Tiles that end where rows end can read a repeated row where it lies.
    const int64_t row = nest.shape.back();
    if (nest.shape.size() < 2 || row < 2) return;
    bool all_repeat = true;
    for (Leaf& leaf : program_.leaves) {
      if (leaf.kind != Leaf::kStrided) continue;
      size_t axis = nest.shape.size() - 1;
      int64_t same = row;
      while (axis > 0 && leaf.strides[axis - 1] == 0) same *= nest.shape[--axis];
      leaf.repeats = row < kLargestTile / 2 && same > 4 * row ? same : 0;
      all_repeat = all_repeat && leaf.repeats;
    }
    if (row < 128 || (all_repeat && row < kLargestTile / 2)) {
      program_.tile = kLargestTile / row * row;
      return;
    }
    for (int64_t tile = std::min(row, kLargestTile); tile >= 128; --tile) {
      if (row % tile) continue;
      program_.tile = tile;
      break;
    }
  }

  void choose_access() {
    constexpr int64_t kShortestRow = 64, kLongRow = 512;
    bool any = false, same = true;  // rows of which all stretches are the same
    for (const Leaf& leaf : program_.leaves) {
      if (leaf.kind != Leaf::kStrided) continue;
      any = true;
      same = same && leaf.strides.back() == 1 &&
             std::all_of(leaf.strides.begin(), leaf.strides.end() - 1, [](int64_t stride) { return stride == 0; });
    }
    const int64_t row = any ? program_.shape.back() : 0;
    if (any && same && row <= kLongRow) program_.repeated = (2 * kLongRow + row - 1) / row * row;
    for (Leaf& leaf : program_.leaves) {
      leaf.bytes = element_size(leaf.dtype);
      leaf.access = access_of(leaf, row >= kShortestRow || program_.repeated);  // else brought together into tiles
    }
  }

  static Access access_of(const Leaf& leaf, bool by_rows) {
    switch (leaf.kind) {
      case Leaf::kConstant:
        return Access::kConstant;
      case Leaf::kDense:
        return Access::kDirect;
      case Leaf::kScalar:
        return Access::kScalar;
      case Leaf::kStrided:
        if (!by_rows || leaf.strides.back() < 0 || leaf.strides.back() > 1) return Access::kStaged;
        return leaf.strides.back() == 1 ? Access::kRow : Access::kRowRepeated;
      case Leaf::kRandomBits:
      case Leaf::kIota:
        break;
    }
    return Access::kStaged;
  }

  // A result may be written to memory at once if nothing is read from memory after it: memory of inputs may be the
  // same.
  void choose_in_place() {
    std::vector<bool> reads_memory(lanes_.size());
    for (const Leaf& leaf : program_.leaves) reads_memory[leaf.slot] = leaf.in_place;
    std::vector<size_t> maker(lanes_.size(), SIZE_MAX);
    size_t last_read = 0;
    for (size_t i = 0; i < program_.instructions.size(); ++i) {
      const Instruction& instruction = program_.instructions[i];
      maker[instruction.y] = i;
      for (Operand operand : {instruction.a, instruction.b, instruction.c})
        if (operand != kNone && reads_memory[operand]) last_read = i;
    }
    std::vector<bool> taken(lanes_.size());
    for (Result& result : program_.results) {
      const size_t made = maker[result.slot];
      result.in_place =
          !result.total && made != SIZE_MAX && made >= last_read && !is_half(result.dtype) && !taken[result.slot];
      if (reads_memory[result.slot]) last_read = program_.instructions.size();  // stored from memory at the end
      taken[result.slot] = true;
    }
    for (Result& result : program_.results) {
      if (result.in_place && maker[result.slot] < last_read) result.in_place = false;
      if (result.in_place) in_memory_.push_back(result.slot);
    }
  }

  // Addresses in the thread's scratch memory. Leaves that are filled once live always; others until their last use.
  void assign_slots() {
    constexpr size_t kForever = SIZE_MAX;
    std::vector<size_t> last_use(lanes_.size(), 0);
    for (size_t i = 0; i < program_.instructions.size(); ++i) {
      const Instruction& instruction = program_.instructions[i];
      for (Operand operand : {instruction.a, instruction.b, instruction.c})
        if (operand != kNone) last_use[operand] = i;
      last_use[instruction.y] = std::max(last_use[instruction.y], i);
    }
    for (const Result& result : program_.results) last_use[result.slot] = kForever;
    std::vector<size_t>& offsets = program_.slot_offsets;
    offsets.assign(lanes_.size(), kInMemory);
    std::vector<std::vector<size_t>> free(9);  // by element size
    const auto allocate = [&](Operand operand) {
      const size_t size = lane_size(lanes_[operand]);
      if (!free[size].empty()) {
        offsets[operand] = free[size].back();
        free[size].pop_back();
      } else {
        offsets[operand] = program_.scratch_bytes;
        program_.scratch_bytes += size * kLargestTile;
      }
    };
    for (const Leaf& leaf : program_.leaves) {
      if (leaf.kind == Leaf::kScalar || leaf.kind == Leaf::kConstant || leaf.repeats) last_use[leaf.slot] = kForever;
      if (!(leaf.in_place && leaf.kind == Leaf::kDense)) allocate(leaf.slot);
      if (leaf.staging != kNone) {
        allocate(leaf.staging);
        last_use[leaf.staging] = kForever;
      }
    }
    for (size_t i = 0; i < program_.instructions.size(); ++i) {
      const Instruction& instruction = program_.instructions[i];
      const bool in_memory = std::find(in_memory_.begin(), in_memory_.end(), instruction.y) != in_memory_.end();
      if (!in_memory) allocate(instruction.y);
      for (Operand operand : {instruction.a, instruction.b, instruction.c}) {
        if (operand == kNone || last_use[operand] != i || offsets[operand] == kInMemory) continue;
        free[lane_size(lanes_[operand])].push_back(offsets[operand]);
        last_use[operand] = kForever;  // an operand that stands twice is given back once
      }
    }
  }

  const transom_graph& region_;
  const Outputs outputs_;
  std::unordered_map<int32_t, int32_t> totals_;  // of which value
  std::vector<Value> values_;
  std::vector<Lane> lanes_;  // of each operand
  std::vector<Operand> in_memory_;
  Shape full_;
  TileProgram program_;
};

}  // namespace

bool is_elementwise(std::string_view op) { return unary_op(op) || binary_op(op) || op == "select" || op == "cast"; }

TileProgram build_program(const transom_graph& region, Outputs outputs) { return Builder(region, outputs).build(); }

}  // namespace transom::cpu
