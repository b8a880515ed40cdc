// SPDX-License-Identifier: Apache-2.0
// Convolutions and their gradients: sums over the places and channels that meet in a result. Spatial axes are three;
// what has fewer has axes of one element. Those of
// many channels are products (lower_convolution_tiles); here are the others, a thread or a group for each result.
#include "gpu/lowering/convolution_text.h"

namespace transom::gpu {
namespace {

// Whether the vendor's library computes it. It pads both ends alike: what a higher end has more is never read if the
// results are as many.
bool convolved_by_library(Emitter& emitter, const Work& work, const Convolution& c, const Type& y) {
  if ((c.dtype != TRANSOM_FLOAT32 && !backend::is_half(c.dtype)) || y.count() == 0 || is_wide(y)) return false;
  const std::string& op = work.node.op();
  if (op == "integer_convolution") return false;
  const ConvolutionShape::Kind kind = op == "convolution"                  ? ConvolutionShape::kForward
                                      : op == "convolution_input_gradient" ? ConvolutionShape::kToInput
                                                                           : ConvolutionShape::kToWeight;
  ConvolutionShape shape{kind, c.batch, c.channels, c.outputs, c.groups, 2};
  if (c.spatial[0].x != 1 || c.spatial[0].w != 1 || c.spatial[0].y != 1) shape.axes = 3;
  shape.dtype = c.dtype;
  shape.tf32 = c.dtype == TRANSOM_FLOAT32 && work.node.integer("tf32", 0) != 0;
  for (size_t i = 0; i < shape.axes; ++i) {
    const Spatial& s = c.spatial[3 - shape.axes + i];
    if (s.x == 0 || s.w == 0 || s.low < 0 || (s.x + 2 * s.low - s.dilation * (s.w - 1) - 1) / s.stride + 1 != s.y)
      return false;
    shape.x[i] = s.x, shape.w[i] = s.w, shape.y[i] = s.y;
    shape.stride[i] = s.stride, shape.low[i] = s.low, shape.dilation[i] = s.dilation;
  }
  const Operand &first = work.inputs[0], &second = work.inputs[1], &made = work.outputs[0];
  return kind == ConvolutionShape::kForward   ? emitter.convolve(shape, first, second, made)
         : kind == ConvolutionShape::kToInput ? emitter.convolve(shape, made, second, first)
                                              : emitter.convolve(shape, first, made, second);
}

void lower_directly(Emitter& emitter, const Work& work, const Convolution& c, bool wide) {
  const Node& node = work.node;
  const std::string& op = node.op();
  const bool input_gradient = op == "convolution_input_gradient", weight_gradient = op == "convolution_weight_gradient";
  const int64_t count = node.output().count();
  KernelText text(wide);
  const Names n(text, c);
  const bool bytes = op == "integer_convolution";
  const transom_dtype from = node.input(0).dtype, other = node.input(1).dtype;
  const char* type = bytes ? "i32" : compute_type(c.dtype);
  const std::string first = text.address(work.inputs[0], storage_type(from));
  const std::string second = text.address(work.inputs[1], storage_type(other));
  const std::string zero = bytes ? text.number(node.integer("zero_point")) : "";
  const std::string out = text.address(work.outputs[0], storage_type(c.dtype));
  const auto add = [&](const std::string& left, const std::string& right) {
    if (bytes) return text.line("sum += ((i32){}[{}] - (i32){}) * (i32){}[{}];", first, left, zero, second, right);
    text.line("sum = fma({}, {}, sum);", load(text, c.dtype, first, left), load(text, c.dtype, second, right));
  };
  const auto over_taps = [&] {
    for (size_t i = 0; i < 3; ++i) text.line("for (idx t{0} = 0; t{0} < {1}; ++t{0}) {{", kAxes[i], n.w[i]);
  };
  // "q*" of the image, from those of the result and the window; what lies outside adds nothing.
  const auto find_places = [&] {
    for (size_t i = 0; i < 3; ++i)
      text.line("const idx q{0} = o{0} * {1} - {2} + t{0} * {3};\nif (q{0} < 0 || q{0} >= {4}) continue;", kAxes[i],
                n.stride[i], n.low[i], n.dilation[i], n.x[i]);
  };

  if (!weight_gradient) text.line("{} {{", loop_over("i", text.number(count)));
  if (op == "convolution" || bytes) {
    write_indices(text, "o", "i", n.y);
    text.line("const idx output = orest % {0}, batch = orest / {0}, group = output / {1};", n.outputs,
              n.outputs_of_group);
    text.line("{} sum = 0;\nfor (idx c = 0; c < {}; ++c) {{", type, n.channels_of_group);
    over_taps();
    find_places();
    add(flat(fmt::format("(batch * {} + group * {} + c)", n.channels, n.channels_of_group), "q", n.x),
        flat(fmt::format("(output * {} + c)", n.channels_of_group), "t", n.w));
    text.line("}}\n}}\n}}\n}}");
    text.line("{}\n}}", store(text, c.dtype, out, "i", bytes ? "(float)sum" : "sum"));
    emitter.launch(text, groups_for(count, 1), op);
    return;
  }
  if (input_gradient) {
    write_indices(text, "q", "i", n.x);
    text.line("const idx channel = qrest % {0}, batch = qrest / {0}, group = channel / {1}, c = channel % {1};",
              n.channels, n.channels_of_group);
    text.line("{} sum = 0;\nfor (idx k = 0; k < {}; ++k) {{\nconst idx output = group * {} + k;", type,
              n.outputs_of_group, n.outputs_of_group);
    over_taps();
    for (size_t i = 0; i < 3; ++i) {
      text.line("const idx s{0} = q{0} + {1} - t{0} * {2};\nif (s{0} < 0 || s{0} % {3} != 0) continue;", kAxes[i],
                n.low[i], n.dilation[i], n.stride[i]);
      text.line("const idx o{0} = s{0} / {1};\nif (o{0} >= {2}) continue;", kAxes[i], n.stride[i], n.y[i]);
    }
    add(flat(fmt::format("(batch * {} + output)", n.outputs), "o", n.y),
        flat(fmt::format("(output * {} + c)", n.channels_of_group), "t", n.w));
    text.line("}}\n}}\n}}\n}}");
    text.line("{}\n}}", store(text, c.dtype, out, "i", "sum"));
    emitter.launch(text, groups_for(count, 1), op);
    return;
  }
  // A group for each weight, since each is a sum over all images and places.
  text.local(type, "sums", kGroup);
  text.line("for (idx i = GROUP; i < {}; i += GROUPS) {{", text.number(count));
  write_indices(text, "t", "i", n.w);
  text.line("const idx c = trest % {0}, output = trest / {0}, group = output / {1};", n.channels_of_group,
            n.outputs_of_group);
  text.line("{} sum = 0;", type);
  text.line("for (idx place = THREAD; place < {} * {} * {} * {}; place += {}) {{", n.batch, n.y[0], n.y[1], n.y[2],
            kGroup);
  write_indices(text, "o", "place", n.y);
  find_places();
  add(flat(fmt::format("(orest * {} + group * {} + c)", n.channels, n.channels_of_group), "q", n.x),
      flat(fmt::format("(orest * {} + output)", n.outputs), "o", n.y));
  text.line("}}");
  write_group_sum(text, "sum", "sums");
  text.line("if (THREAD == 0) {}\n}}", store(text, c.dtype, out, "i", "sum"));
  emitter.launch(text, std::min<int64_t>(count, 1 << 16), op);
}

void lower_convolution(Emitter& emitter, const Work& work) {
  const Node& node = work.node;
  const std::string& op = node.op();
  const bool input_gradient = op == "convolution_input_gradient", weight_gradient = op == "convolution_weight_gradient";
  const Type& x = input_gradient ? node.output() : node.input(0);
  const Type& w = weight_gradient ? node.output() : node.input(1);
  const Type& y = input_gradient ? node.input(0) : weight_gradient ? node.input(1) : node.output();
  if (node.output().count() == 0) return;
  const Convolution c = convolution_of(node, x, w, y);
  const bool wide = is_wide(x) || is_wide(y) || is_wide(w);
  const bool by_library = convolved_by_library(emitter, work, c, y);
  const size_t own = emitter.launches.size();
  if (!lower_convolution_by_tiles(emitter, work, c, wide)) lower_directly(emitter, work, c, wide);
  if (by_library) emitter.make_otherwise(own);
}

bool claims_integer_convolution(const Facts&, std::span<const transom_value> inputs, const plugin::Attributes&) {
  return inputs.size() == 2 && inputs[0].rank >= 3 && inputs[0].rank <= 5 && inputs[1].rank == inputs[0].rank;
}

}  // namespace

void add_convolution_lowerings(LoweringTable& table) {
  for (const char* op : {"convolution", "convolution_input_gradient", "convolution_weight_gradient"})
    table[op] = lower_convolution;
  table["integer_convolution"] = {lower_convolution, claims_integer_convolution};
}

}  // namespace transom::gpu
