// SPDX-License-Identifier: Apache-2.0
// Element-wise primitives and fusions of them: one pass over memory. A sum over all elements of an f32 joins them; its
// pieces depend on the count alone, so that it has the same bits fused and by itself.
#include <algorithm>

#include "gpu/lowering/lowering.h"
#include "gpu/source/region_text.h"
#include "gpu/source/streams.h"

namespace transom::gpu {
namespace {

constexpr int64_t kPiece = 16 * kGroup;  // elements of a total that one group adds

struct Output {
  size_t value;   // of the region
  bool total;     // the sum of `value` over all places
  Operand place;  // where it, or the sums of the pieces of a total, are written
};

void sum_pieces(Emitter& emitter, const Operand& pieces, int64_t count, const Operand& to) {
  KernelText text;
  const std::string from = text.address(pieces, "float"), out = text.address(to, "float");
  text.local("float", "sums", kGroup);
  text.line("float sum = 0.0f;");
  text.line("for (idx i = THREAD; i < {}; i += {}) sum += {}[i];", text.number(count), kGroup, from);
  write_group_sum(text, "sum", "sums");
  text.line("if (THREAD == 0) {}[0] = sum;", out);
  emitter.launch(text, 1, "sum of pieces");
}

std::string label_of(const Region& region) {
  std::string label;
  for (const Region::Member& member : region.members) {
    if (member.node.op() == "constant" || member.node.op() == "broadcast" || member.node.op() == "reshape") continue;
    if (label.size() > 60) return label + " ...";
    label += (label.empty() ? "" : "+") + member.node.op();
  }
  return label.empty() ? "copy" : label;
}

}  // namespace

void write_loops(KernelText& text, const std::string& n, const std::string& body, int64_t count) {
  const Streams streams(text, body);
  if (count > 1 && !streams.empty()) {
    const int64_t lanes = streams.lanes();
    text.line("const idx vectors = {} ? {} / {} : 0;", streams.aligned(), n, lanes);
    text.line("{} {{", loop_over("q", "vectors"));
    streams.write_vectors(lanes, fmt::format("q * {}", lanes));
    text.line("}}\nfor (idx i = vectors * {0} + GROUP * {1} + THREAD; i < {2}; i += GROUPS * {1}) {{", lanes, kGroup,
              n);
  } else {
    text.line("{} {{", loop_over("i", n));
  }
  text.raw(body + "}\n");
}

void write_group_sum(KernelText& text, const std::string& name, const std::string& memory) {
  write_group_sums(text, {{name, memory}});
}

void write_group_sums(KernelText& text, const std::vector<std::pair<std::string, std::string>>& sums) {
  for (const auto& [name, memory] : sums) text.line("{}[THREAD] = {};", memory, name);
  text.line("BARRIER;\nfor (int span = {}; span > 0; span >>= 1) {{\nif (THREAD < span) {{", kGroup / 2);
  for (const auto& [name, memory] : sums) text.line("{0}[THREAD] += {0}[THREAD + span];", memory);
  text.line("}}\nBARRIER;\n}}");
  for (const auto& [name, memory] : sums) text.line("{} = {}[0];", name, memory);
  text.line("BARRIER;");
}

namespace {

void lower_region(Emitter& emitter, const Work& work, const transom_graph* graph) {
  const Region region = graph ? Region(*graph) : Region(work.node);
  if (region.inputs.size() != work.inputs.size() || region.outputs.size() != work.outputs.size())
    backend::fail(TRANSOM_INVALID_ARGUMENT, "{}: its region has other inputs and outputs than the node",
                  work.node.place());

  int64_t count = -1;
  std::vector<Output> outputs;
  int64_t totals = 0;
  for (size_t i = 0; i < region.outputs.size(); ++i) {
    const Region::Member* maker = region.maker(region.outputs[i]);
    const bool total = maker && maker->node.op() == "reduce_sum";
    const size_t value = total ? maker->inputs.at(0) : region.outputs[i];
    if (total && region.types[value].dtype != TRANSOM_FLOAT32)
      backend::fail(TRANSOM_UNSUPPORTED, "{}: expected a total of f32", work.node.place());
    if (count >= 0 && region.types[value].count() != count)
      backend::fail(TRANSOM_UNSUPPORTED, "{}: expected outputs of one size", work.node.place());
    count = region.types[value].count();
    totals += total;
    outputs.push_back({value, total, work.outputs[i]});
  }
  if (count <= 0 && totals == 0) return;

  const int64_t pieces = std::max<int64_t>(divided_up(count, kPiece), 1);
  std::vector<Operand> finals;
  for (Output& output : outputs)
    if (output.total && pieces > 1) {
      finals.push_back(output.place);
      output.place = emitter.scratch(pieces * 4);
    }

  KernelText text(count >= (int64_t{1} << 30));
  RegionText values(text, region, work.inputs);
  const auto write_element = [&] {
    std::vector<std::pair<std::string, const Output*>> results;
    for (const Output& output : outputs) results.emplace_back(values.at(output.value, "i"), &output);
    size_t k = 0;
    for (const auto& [name, output] : results) {  // after all reads: an output may lie on an input
      if (output->total) {
        text.line("sum{} += {};", k++, name);
      } else {
        const transom_dtype dtype = region.types[output->value].dtype;
        text.line("{}", store(text, dtype, text.address(output->place, storage_type(dtype)), "i", name));
      }
    }
  };
  if (totals == 0) {
    const std::string n = text.number(count);
    const size_t begin = text.size();
    write_element();
    write_loops(text, n, text.cut(begin), count);
    emitter.launch(text, groups_for(count), label_of(region));
    emitter.can_repeat(text, work.outputs);
    return;
  }
  const std::string n = text.number(count);
  text.local("float", "sums", kGroup);
  for (int64_t k = 0; k < totals; ++k) text.line("float sum{} = 0.0f;", k);
  text.line("const idx end = (GROUP + 1) * {0} < {1} ? (GROUP + 1) * {0} : {1};", kPiece, n);
  text.line("for (idx i = GROUP * {} + THREAD; i < end; i += {}) {{", kPiece, kGroup);
  write_element();
  text.line("}}");
  int64_t k = 0;
  for (const Output& output : outputs) {
    if (!output.total) continue;
    write_group_sum(text, fmt::format("sum{}", k), "sums");
    text.line("if (THREAD == 0) {}[GROUP] = sum{};", text.address(output.place, "float"), k++);
  }
  emitter.launch(text, pieces, label_of(region));
  size_t f = 0;
  for (const Output& output : outputs)
    if (output.total && pieces > 1) sum_pieces(emitter, output.place, pieces, finals[f++]);
}

void lower_fusion(Emitter& emitter, const Work& work) {
  if (!work.region) backend::fail(TRANSOM_INVALID_ARGUMENT, "{}: expected a region", work.node.place());
  lower_region(emitter, work, work.region);
}

}  // namespace

void lower_alone(Emitter& emitter, const Work& work) { lower_region(emitter, work, nullptr); }

void add_region_lowerings(LoweringTable& table) {
  table["fusion"] = {lower_fusion, claims_always};
  for (const char* op : {"iota", "constant", "random_bits"}) table[op] = lower_alone;
}

}  // namespace transom::gpu
