// SPDX-License-Identifier: Apache-2.0
// Composites that walk rows: softmax and cross entropy, and their gradients.
#include <limits>

#include "gpu/lowering/row_text.h"

namespace transom::gpu {
namespace {

template <bool logarithm>
void softmax(Emitter& emitter, const Work& work) {
  RowText row(work, work.node.input(0), {0});
  const std::string x = row.input(0);
  row.largest("most", x);
  const std::string power = row.exp(fmt::format("{} - most", x));
  bool kept = false;
  row.sum("total", [&] {
    if (logarithm || !row.replace(0, power)) return power;
    kept = true;
    return x;
  });
  if (logarithm) row.text.line("total = {};", row.log("total"));
  row.begin_elements();
  if (logarithm) row.output(0, fmt::format("({} - most) - total", x));
  else row.output(0, fmt::format("{} / total", kept ? x : power));
  row.end_elements();
  row.finish(emitter);
}

template <bool logarithm>
void softmax_gradient(Emitter& emitter, const Work& work) {
  RowText row(work, work.node.input(0), {0, 1});
  const std::string y = row.input(0), dy = row.input(1);
  row.sum("total", [&] { return logarithm ? dy : fmt::format("{} * {}", y, dy); });
  row.begin_elements();
  if (logarithm) row.output(0, fmt::format("{} - {} * total", dy, row.exp(y)));
  else row.output(0, fmt::format("{} * ({} - total)", y, dy));
  row.end_elements();
  row.finish(emitter);
}

// (logits, labels): rows whose label is ignore_index give 0, those whose label is no class NaN.
template <bool gradient>
void cross_entropy(Emitter& emitter, const Work& work) {
  const Type& x = work.node.input(0);
  RowText row(work, x, {0});
  const std::string labels = row.text.address(work.inputs[1], "i64"), logits = row.input(0);
  row.text.line("const i64 label = {}[row];", labels);
  const std::string ignored = row.text.bits(work.node.integer("ignore_index"));
  row.text.line("const int counts = label != {};", ignored);
  row.text.line("const int known = label >= 0 && label < {};", row.n);
  const std::string not_a_number = row.constant(std::numeric_limits<double>::quiet_NaN());
  row.largest("most", logits);
  row.sum("total", [&] { return row.exp(fmt::format("{} - most", logits)); });
  if (gradient) {
    const transom_dtype dtype = work.node.input(2).dtype;
    row.text.line("const {} dy = {};", row.type(),
                  load(row.text, dtype, row.text.address(work.inputs[2], storage_type(dtype)), "row"));
    row.begin_elements();
    row.output(0, fmt::format("!counts ? 0 : known ? ({} / total - (i == label ? 1 : 0)) * dy : {}",
                              row.exp(fmt::format("{} - most", logits)), not_a_number));
    row.end_elements();
  } else {
    const transom_dtype dtype = work.node.output().dtype;
    row.text.line("if (THREAD == 0) {{\nconst idx i = known ? (idx)label : 0;");
    row.text.line("{}\n}}", store(row.text, dtype, row.text.address(work.outputs[0], storage_type(dtype)), "row",
                                  fmt::format("!counts ? 0 : known ? {} - ({} - most) : {}", row.log("total"),
                                              row.in_memory(0), not_a_number)));
  }
  row.finish(emitter);
}

}  // namespace

void add_row_lowerings(LoweringTable& table) {
  table["softmax"] = {softmax<false>, claims_floats};
  table["log_softmax"] = {softmax<true>, claims_floats};
  table["softmax_gradient"] = {softmax_gradient<false>, claims_floats};
  table["log_softmax_gradient"] = {softmax_gradient<true>, claims_floats};
  table["cross_entropy"] = {cross_entropy<false>, claims_floats};
  table["cross_entropy_gradient"] = {cross_entropy<true>, claims_floats};
}

}  // namespace transom::gpu
