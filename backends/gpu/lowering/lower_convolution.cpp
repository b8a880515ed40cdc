// SPDX-License-Identifier: Apache-2.0
// Convolutions and their gradients: sums over the places and channels that meet in a result. Spatial axes are three;
// what has fewer has axes of one element.
#include <array>

#include "gpu/lowering/lowering.h"

namespace transom::gpu {
namespace {

struct Spatial {
  int64_t x = 1, w = 1, y = 1, stride = 1, low = 0, dilation = 1;
};

struct Convolution {
  int64_t batch, channels, outputs, groups;
  std::array<Spatial, 3> spatial;
  transom_dtype dtype;
};

Convolution convolution_of(const Node& node, const Type& x, const Type& w, const Type& y) {
  const size_t axes = x.rank() - 2;
  if (x.rank() < 3 || x.rank() > 5 || w.rank() != x.rank() || y.rank() != x.rank())
    backend::fail(TRANSOM_UNSUPPORTED, "{}: expected 1 to 3 spatial axes", node.place());
  const Shape &strides = node.integers("strides"), &low = node.integers("low"), &dilations = node.integers("dilations");
  Convolution c{x.shape[0], x.shape[1], y.shape[1], node.integer("groups"), {}, node.output().dtype};
  if (strides.size() != axes || low.size() != axes || dilations.size() != axes || c.groups < 1)
    backend::fail(TRANSOM_INVALID_ARGUMENT, "{}: expected a stride, padding and dilation for each axis", node.place());
  for (size_t i = 0; i < axes; ++i)
    c.spatial[3 - axes + i] = {x.shape[i + 2], w.shape[i + 2], y.shape[i + 2], strides[i], low[i], dilations[i]};
  return c;
}

// Names of the numbers of a convolution in the text.
struct Names {
  std::string channels, outputs, channels_of_group, outputs_of_group, batch;
  std::array<std::string, 3> x, w, y, stride, low, dilation;
  Names(KernelText& text, const Convolution& c)
      : channels(text.number(c.channels)),
        outputs(text.number(c.outputs)),
        channels_of_group(text.number(c.channels / c.groups)),
        outputs_of_group(text.number(c.outputs / c.groups)),
        batch(text.number(c.batch)) {
    for (size_t i = 0; i < 3; ++i) {
      x[i] = text.number(c.spatial[i].x), w[i] = text.number(c.spatial[i].w), y[i] = text.number(c.spatial[i].y);
      stride[i] = text.number(c.spatial[i].stride), low[i] = text.number(c.spatial[i].low);
      dilation[i] = text.number(c.spatial[i].dilation);
    }
  }
};

constexpr char kAxes[] = "zyx";

// "const idx <p>z = ..., ...": the spatial indices of `place`, and what is left of it in <p>rest.
void write_indices(KernelText& text, const char* prefix, const std::string& place,
                   const std::array<std::string, 3>& extents) {
  text.line("const idx {0}x = {1} % {2}, {0}1 = {1} / {2};", prefix, place, extents[2]);
  text.line("const idx {0}y = {0}1 % {1}, {0}2 = {0}1 / {1};", prefix, extents[1]);
  text.line("const idx {0}z = {0}2 % {1}, {0}rest = {0}2 / {1};", prefix, extents[0]);
}

std::string flat(const std::string& outer, const char* prefix, const std::array<std::string, 3>& extents) {
  return fmt::format("((({0} * {2} + {1}z) * {3} + {1}y) * {4} + {1}x)", outer, prefix, extents[0], extents[1],
                     extents[2]);
}

}  // namespace

void lower_convolution(Emitter& emitter, const Work& work) {
  const Node& node = work.node;
  const std::string& op = node.op();
  const bool input_gradient = op == "convolution_input_gradient", weight_gradient = op == "convolution_weight_gradient";
  const Type& x = input_gradient ? node.output() : node.input(0);
  const Type& w = weight_gradient ? node.output() : node.input(1);
  const Type& y = input_gradient ? node.input(0) : weight_gradient ? node.input(1) : node.output();
  const int64_t count = node.output().count();
  if (count == 0) return;
  const Convolution c = convolution_of(node, x, w, y);
  KernelText text(is_wide(x) || is_wide(y) || is_wide(w));
  const Names n(text, c);
  const char* type = compute_type(c.dtype);
  const std::string first = text.address(work.inputs[0], storage_type(c.dtype));
  const std::string second = text.address(work.inputs[1], storage_type(c.dtype));
  const std::string out = text.address(work.outputs[0], storage_type(c.dtype));
  const auto add = [&](const std::string& left, const std::string& right) {
    text.line("sum = fma({}, {}, sum);", load(text, c.dtype, first, left), load(text, c.dtype, second, right));
  };
  const auto over_taps = [&] {
    for (size_t i = 0; i < 3; ++i) text.line("for (idx t{0} = 0; t{0} < {1}; ++t{0}) {{", kAxes[i], n.w[i]);
  };

  if (!weight_gradient) text.line("{} {{", loop_over("i", text.number(count)));
  if (op == "convolution") {
    write_indices(text, "o", "i", n.y);
    text.line("const idx output = orest % {0}, batch = orest / {0}, group = output / {1};", n.outputs,
              n.outputs_of_group);
    text.line("{} sum = 0;\nfor (idx c = 0; c < {}; ++c) {{", type, n.channels_of_group);
    over_taps();
    for (size_t i = 0; i < 3; ++i)
      text.line("const idx q{0} = o{0} * {1} - {2} + t{0} * {3};\nif (q{0} < 0 || q{0} >= {4}) continue;", kAxes[i],
                n.stride[i], n.low[i], n.dilation[i], n.x[i]);
    add(flat(fmt::format("(batch * {} + group * {} + c)", n.channels, n.channels_of_group), "q", n.x),
        flat(fmt::format("(output * {} + c)", n.channels_of_group), "t", n.w));
    text.line("}}\n}}\n}}\n}}");
    text.line("{}\n}}", store(text, c.dtype, out, "i", "sum"));
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
  for (size_t i = 0; i < 3; ++i)
    text.line("const idx q{0} = o{0} * {1} - {2} + t{0} * {3};\nif (q{0} < 0 || q{0} >= {4}) continue;", kAxes[i],
              n.stride[i], n.low[i], n.dilation[i], n.x[i]);
  add(flat(fmt::format("(orest * {} + group * {} + c)", n.channels, n.channels_of_group), "q", n.x),
      flat(fmt::format("(orest * {} + output)", n.outputs), "o", n.y));
  text.line("}}");
  write_group_sum(text, "sum", "sums");
  text.line("if (THREAD == 0) {}\n}}", store(text, c.dtype, out, "i", "sum"));
  emitter.launch(text, std::min<int64_t>(count, 1 << 16), op);
}

}  // namespace transom::gpu
