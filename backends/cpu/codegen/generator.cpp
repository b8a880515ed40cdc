// SPDX-License-Identifier: Apache-2.0
// A recipe as one loop over vectors: all loads, the instructions, all stores. A result may lie on an input, element on
// element, so nothing is stored before everything of the vector is read.
#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "cpu/codegen/instructions.h"
#include "cpu/codegen/recipe.h"
#include "cpu/device/processor.h"

namespace transom::cpu::codegen {
namespace {

constexpr uint16_t kNoSlot = 0xFFFF;

// Long chains of operations, of which each waits for the one before it, are worked on for several vectors at once. Much
// longer ones would lose to their stores and loads of what registers do not hold.
constexpr std::ptrdiff_t kLongChain = 24, kLongestTogether = 240;
constexpr size_t kMostCopies = 4;  // powers of two, for the mask of the count

// LLVM generates for the processor that it runs on, unless TRANSOM_CPU_ISA limits what may be used of it.
std::string limited_target() {
  if (!isa_limit()) return "";
  const char* level = processor_features().avx512 ? "x86-64-v4" : processor_features().avx2 ? "x86-64-v3" : "x86-64";
  return fmt::format(" \"target-cpu\"=\"{}\" \"target-features\"=\"\"", level);
}

class Generator {
 public:
  explicit Generator(const Recipe& recipe)
      : recipe_(recipe),
        writer_(vector_width()),
        called_(called_functions(recipe)),
        pointers_(recipe.leaves.size() + recipe.results.size() + called_.size()) {}

  std::string text() {
    size_t slots = 0;
    for (const Recipe::Leaf& leaf : recipe_.leaves) slots = std::max<size_t>(slots, leaf.slot + 1u);
    for (const Recipe::Instruction& made : recipe_.instructions) slots = std::max<size_t>(slots, made.y + 1u);
    values_.resize(slots);
    prologue();
    const std::string head = writer_.text();
    const size_t first = writer_.defined();
    for (size_t i = 0; i < recipe_.leaves.size(); ++i) load(i);
    for (const Recipe::Instruction& made : recipe_.instructions) carry_out(made);
    for (size_t i = 0; i < recipe_.results.size(); ++i) store(i);
    const Body body{writer_.text().substr(head.size()), first};
    return fmt::format(
        "define void @kernel(ptr %table, i64 %count) #0 {{\n"
        "start:\n{}{}"
        "done:\n"
        "  ret void\n"
        "}}\n"
        "attributes #0 = {{ nounwind \"min-legal-vector-width\"=\"{}\" \"prefer-vector-width\"=\"{}\"{} }}\n",
        head, loops(body), writer_.width() * 32, writer_.width() * 32, limited_target());
  }

 private:
  // The instructions for one vector, which define names from number `first` on.
  struct Body {
    std::string text;
    size_t first;
  };
  // A block that runs from `before` over the elements [begin, end) and goes on to `behind`.
  struct Block {
    std::string_view name, before, begin, end, behind;
  };

  // Of several vectors at once as far as they go, then of one.
  std::string loops(const Body& body) const {
    const size_t copies = copies_of(body);
    if (copies == 1) return "  br label %loop\n" + loop(body, 1, {"loop", "start", "0", "%count", "done"});
    return fmt::format(
        "  %whole = and i64 %count, -{}\n"
        "  %any = icmp ne i64 %whole, 0\n"
        "  br i1 %any, label %together, label %rest\n"
        "{}"
        "rest:\n"
        "  %left = icmp ult i64 %whole, %count\n"
        "  br i1 %left, label %loop, label %done\n"
        "{}",
        copies * writer_.width(), loop(body, copies, {"together", "start", "0", "%whole", "rest"}),
        loop(body, 1, {"loop", "rest", "%whole", "%count", "done"}));
  }

  std::string loop(const Body& body, size_t copies, const Block& block) const {
    std::vector<std::string> suffixes;
    for (size_t copy = 0; copy < copies; ++copy) suffixes.push_back(fmt::format(".{}{}", block.name, copy));
    std::string counters = fmt::format("  %i{} = phi i64 [ {}, %{} ], [ %next.{}, %{} ]\n", suffixes[0], block.begin,
                                       block.before, block.name, block.name);
    for (size_t copy = 1; copy < copies; ++copy)
      counters += fmt::format("  %i{} = add i64 %i{}, {}\n", suffixes[copy], suffixes[0], copy * writer_.width());
    return fmt::format(
        "{0}:\n{1}{2}"
        "  %next.{0} = add i64 %i{3}, {4}\n"
        "  %more.{0} = icmp ult i64 %next.{0}, {5}\n"
        "  br i1 %more.{0}, label %{0}, label %{6}\n",
        block.name, counters, interleaved(body.text, body.first, suffixes), suffixes[0], copies * writer_.width(),
        block.end, block.behind);
  }

  size_t copies_of(const Body& body) const {
    const std::ptrdiff_t lines = std::count(body.text.begin(), body.text.end(), '\n');
    if (!called_.empty() || lines < kLongChain) return 1;  // calls have one memory for their operands
    const auto copies = static_cast<size_t>(std::max<std::ptrdiff_t>(kLongestTogether / lines, 1));
    return std::min(std::bit_floor(copies), kMostCopies);
  }

  // The addresses, what is the same for all elements, and memory for the operands of calls.
  void prologue() {
    for (size_t i = 0; i < pointers_.size(); ++i) {
      if (i < recipe_.leaves.size() && recipe_.leaves[i].kind == Recipe::Leaf::kConstant) continue;
      const std::string place = writer_.define(fmt::format("getelementptr ptr, ptr %table, i64 {}", i));
      pointers_[i] = writer_.define(fmt::format("load ptr, ptr {}", place));
    }
    for (size_t i = 0; i < recipe_.leaves.size(); ++i) {
      const Recipe::Leaf& leaf = recipe_.leaves[i];
      if (leaf.kind == Recipe::Leaf::kConstant) {
        const Vector value = constant(element_of(lane_of(leaf.dtype)), leaf.constant);
        // With a writer: an instruction may have no other operands.
        values_[leaf.slot] = {&writer_, value.name, value.element};
      } else if (leaf.kind == Recipe::Leaf::kRepeated) {
        values_[leaf.slot] = repeated(pointers_[i], leaf.dtype);
      }
    }
    if (called_.empty()) return;
    for (std::string& buffer : buffers_)
      buffer = writer_.define(fmt::format("alloca [{} x i8], align 64", writer_.width() * 8));
  }

  Vector repeated(const std::string& pointer, transom_dtype dtype) {
    const Element element = stored_element(dtype);
    const std::string type = writer_.vector(element);
    const std::string one = writer_.define(fmt::format("load {}, ptr {}, align 1", element_name(element), pointer));
    const std::string first =
        writer_.define(fmt::format("insertelement {} poison, {} {}, i64 0", type, element_name(element), one));
    const std::string all = writer_.define(
        fmt::format("shufflevector {0} {1}, {0} poison, <{2} x i32> zeroinitializer", type, first, writer_.width()));
    return widened({&writer_, all, element}, dtype);
  }

  std::string element_address(const std::string& pointer, Element element) {
    return writer_.define(fmt::format("getelementptr {}, ptr {}, i64 %i", element_name(element), pointer));
  }

  void load(size_t index) {
    const Recipe::Leaf& leaf = recipe_.leaves[index];
    if (leaf.kind != Recipe::Leaf::kMemory) return;
    const Element element = stored_element(leaf.dtype);
    const std::string address = element_address(pointers_[index], element);
    const std::string loaded =
        writer_.define(fmt::format("load {}, ptr {}, align 1", writer_.vector(element), address));
    values_[leaf.slot] = widened({&writer_, loaded, element}, leaf.dtype);
  }

  void carry_out(const Recipe::Instruction& made) {
    const auto operand = [&](uint16_t slot) { return slot == kNoSlot ? Vector{} : values_[slot]; };
    const Vector a = operand(made.a), b = operand(made.b), c = operand(made.c);
    Vector result = is_call(made.opcode) ? call(made.opcode, a, b) : instruction(made.opcode, a, b, c);
    result.writer = &writer_;
    values_[made.y] = result;
  }

  Vector call(Opcode opcode, const Vector& a, const Vector& b) {
    const auto spill = [&](const Vector& value, const std::string& buffer) {
      if (value.writer) writer_.line(fmt::format("store {}, ptr {}, align 64", as_bytes(value).typed(), buffer));
    };
    spill(a, buffers_[1]);
    spill(b, buffers_[2]);
    const size_t function = recipe_.leaves.size() + recipe_.results.size() +
                            static_cast<size_t>(std::find(called_.begin(), called_.end(), opcode) - called_.begin());
    writer_.line(fmt::format("call void {}(ptr {}, ptr {}, ptr {}, ptr null, i64 {})", pointers_[function], buffers_[0],
                             buffers_[1], buffers_[2], writer_.width()));
    const Element element = element_of(result_lane(opcode));
    return {&writer_, writer_.define(fmt::format("load {}, ptr {}, align 64", writer_.vector(element), buffers_[0])),
            element};
  }

  void store(size_t index) {
    const Recipe::Result& result = recipe_.results[index];
    const Vector value = narrowed(values_[result.slot], result.dtype);
    const std::string address = element_address(pointers_[recipe_.leaves.size() + index], stored_element(result.dtype));
    writer_.line(fmt::format("store {}, ptr {}, align 1", value.typed(), address));
  }

  const Recipe& recipe_;
  Writer writer_;
  std::vector<Opcode> called_;
  std::vector<std::string> pointers_;  // leaves, results, functions
  std::vector<Vector> values_;         // by slot
  std::string buffers_[3];
};

}  // namespace

size_t vector_width() { return processor_features().avx512 ? 16 : processor_features().avx2 ? 8 : 4; }

std::string generate(const Recipe& recipe) { return Generator(recipe).text(); }

}  // namespace transom::cpu::codegen
