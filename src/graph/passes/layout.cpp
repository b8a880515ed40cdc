// SPDX-License-Identifier: Apache-2.0
// Keeps images with their channels last from one convolution to the next, for devices that support such convolutions.
// Each convolution becomes permutes around one whose channels stand last; permutes back move through
// element-wise nodes, pooling and movement until they meet the next permute and cancel. The whole is taken only if less
// memory is moved than before. Sums keep the order of their elements, since it shows in the bits.
#include <algorithm>
#include <array>
#include <numeric>

#include "graph/ir/tensor_map.h"
#include "graph/passes/graph_builder.h"
#include "graph/passes/passes.h"
#include "transom/ops.h"

namespace transom {
namespace {

// [N, C, spatial...] -> [N, spatial..., C], of a shape or of one number an axis.
Axes last(Axes axes) {
  std::rotate(axes.begin() + 1, axes.begin() + 2, axes.end());
  return axes;
}

Axes first(Axes axes) {
  std::rotate(axes.begin() + 1, axes.end() - 1, axes.end());
  return axes;
}

Axes counted(int64_t rank) {
  Axes axes(static_cast<size_t>(rank));
  std::iota(axes.begin(), axes.end(), int64_t{0});
  return axes;
}

// A tensor that was made with its channels last, and its permute to where they belong.
bool has_channels_last(const Tensor& x) {
  return is_op(x, op::permute) && x.rank() >= 3 &&
         x.node()->attributes.get_ints("permutation") == first(counted(x.rank()));
}

Tensor with_channels_first(const Tensor& x) {
  return emit(op::permute, {x}, {{"permutation", first(counted(x.rank()))}});
}

// The order of the elements is the same in both layouts.
bool looks_the_same(const Shape& shape) {
  return shape[1] == 1 || std::all_of(shape.begin() + 2, shape.end(), [](int64_t extent) { return extent == 1; });
}

struct Convolution {
  const Operation &primitive, &replacement;
  size_t images;  // inputs that are images, the first of them
  bool makes_images;
};
const Convolution* convolution_of(const Node& node) {
  static const std::array convolutions = {
      Convolution{op::convolution, op::channels_last_convolution, 1, true},
      Convolution{op::convolution_input_gradient, op::channels_last_convolution_input_gradient, 1, true},
      Convolution{op::convolution_weight_gradient, op::channels_last_convolution_weight_gradient, 2, false},
      Convolution{op::integer_convolution, op::channels_last_integer_convolution, 1, true}};
  const auto found = std::find_if(convolutions.begin(), convolutions.end(),
                                  [&](const Convolution& c) { return is_op(node, c.primitive); });
  return found == convolutions.end() ? nullptr : &*found;
}

class Layout {
 public:
  explicit Layout(const Supports& supports) : supports_(supports) {}

  std::vector<Tensor> replace(const Node& node, const std::vector<Tensor>& inputs) {
    if (const Convolution* convolution = convolution_of(node)) return convolve(*convolution, node, inputs);
    if (is_op(node, op::reduce_sum)) return sum(node, inputs[0]);
    if (inputs.empty() || node.types.size() != 1 || node.types[0].shape.size() < 3) return {};
    if (is_op(node, op::permute)) return permute(node, inputs[0]);
    if (node.operation->elementwise || is_op(node, op::concatenate)) {
      if (!pays(inputs)) return {};
      Attributes attributes = node.attributes;
      if (is_op(node, op::concatenate)) {
        const auto axis = static_cast<size_t>(attributes.get_int("axis"));
        attributes.set("axis", first(counted(inputs[0].rank()))[axis]);
      }
      return moved(node, inputs, std::move(attributes));
    }
    if (!has_channels_last(inputs[0])) return {};
    if (is_op(node, op::reshape)) return reshape(node, inputs[0]);
    if (is_op(node, op::pad) || is_op(node, op::slice)) {
      Attributes attributes = node.attributes;
      for (const char* list : {"low", "high", "starts", "limits", "strides"})
        if (attributes.has(list)) attributes.set(list, last(attributes.get_ints(list)));
      return moved(node, inputs, std::move(attributes));
    }
    if ((is_op(node, op::max_pool) || is_op(node, op::sum_pool)) && !node.attributes.get_int("channels_last", 0)) {
      Attributes attributes = node.attributes;
      attributes.set("channels_last", int64_t{1});
      const auto pool = make_node(*node.operation, {channels_last(inputs[0])}, std::move(attributes));
      if (supports_(*pool)) return {with_channels_first(Tensor(pool, 0))};
    }
    return {};
  }

 private:
  std::vector<Tensor> convolve(const Convolution& convolution, const Node& node, const std::vector<Tensor>& inputs) {
    std::vector<Tensor> images = inputs;
    for (size_t i = 0; i < convolution.images; ++i) images[i] = channels_last(inputs[i]);
    Attributes attributes = node.attributes;
    if (convolution.makes_images && attributes.has("shape"))
      attributes.set("shape", last(attributes.get_ints("shape")));
    const auto replacement = make_node(convolution.replacement, images, std::move(attributes));
    if (!supports_(*replacement)) return {};
    const Tensor result(replacement, 0);
    return {convolution.makes_images ? with_channels_first(result) : result};
  }

  std::vector<Tensor> moved(const Node& node, std::vector<Tensor> inputs, Attributes attributes) {
    for (Tensor& input : inputs) input = channels_last(input);
    return {with_channels_first(make_tensor(*node.operation, std::move(inputs), std::move(attributes)))};
  }

  // A sum over all places.
  std::vector<Tensor> sum(const Node& node, const Tensor& input) {
    if (!has_channels_last(input)) return {};
    Axes places = counted(input.rank());
    places.erase(places.begin(), places.begin() + 2);
    if (node.attributes.get_ints("axes") != places) return {};
    const auto replacement = make_node(op::channels_last_reduce_sum, {channels_last(input)}, {});
    return supports_(*replacement) ? std::vector<Tensor>{Tensor(replacement, 0)} : std::vector<Tensor>{};
  }

  // A permute of a permute.
  static std::vector<Tensor> permute(const Node& node, const Tensor& input) {
    if (!has_channels_last(input)) return {};
    const Axes inner = first(counted(input.rank()));
    Axes joined = node.attributes.get_ints("permutation");
    for (int64_t& axis : joined) axis = inner[static_cast<size_t>(axis)];
    const Tensor& source = input.node()->inputs[0];
    return {joined == counted(input.rank()) ? source : emit(op::permute, {source}, {{"permutation", joined}})};
  }

  // Spatial axes that are joined or split between themselves.
  static std::vector<Tensor> reshape(const Node& node, const Tensor& input) {
    const Shape& shape = node.types[0].shape;
    if (shape[0] != input.dim(0) || shape[1] != input.dim(1)) return {};
    return {with_channels_first(reshaped(input.node()->inputs[0], last(shape)))};
  }

  // More of the inputs have their channels last already than would have to be moved.
  static bool pays(const std::vector<Tensor>& inputs) {
    int balance = 0;
    bool any = false;
    for (const Tensor& input : inputs) {
      if (has_channels_last(input)) any = true, ++balance;
      else if (!is_cheap(input)) --balance;
    }
    return any && balance >= 0;
  }

  static bool is_cheap(const Tensor& x) {
    return is_op(x, op::broadcast) || is_op(x, op::constant) || looks_the_same(x.shape());
  }

  // `x` with its channels last, each made once.
  Tensor channels_last(const Tensor& x) {
    if (has_channels_last(x)) return x.node()->inputs[0];
    Tensor& known = known_[x];
    if (!known.defined()) {
      const Tensor result = make_channels_last(x);
      known_[x] = result;
      return result;
    }
    return known;
  }

  Tensor make_channels_last(const Tensor& x) {
    const Shape shape = last(x.shape());
    if (is_op(x, op::broadcast)) {
      Tensor source = x.node()->inputs[0];
      if (source.rank() < x.rank()) {
        Shape filled(x.shape().size(), 1);
        std::copy(source.shape().begin(), source.shape().end(), filled.end() - source.rank());
        source = reshaped(source, filled);
      }
      return emit(op::broadcast, {channels_last(source)}, {{"shape", shape}});
    }
    if (looks_the_same(x.shape())) return reshaped(is_op(x, op::reshape) ? x.node()->inputs[0] : x, shape);
    return emit(op::permute, {x}, {{"permutation", last(counted(x.rank()))}});
  }

  const Supports& supports_;
  TensorMap<Tensor> known_;
};

// Bytes that permutes move, and convolutions inside themselves.
int64_t moved_bytes(const Graph& graph) {
  int64_t bytes = 0;
  for (const std::shared_ptr<Node>& node : graph.nodes) {
    if (is_op(*node, op::permute)) bytes += bytes_of(node->types[0]);
    const Convolution* convolution = convolution_of(*node);
    if (!convolution) continue;
    for (size_t i = 0; i < convolution->images; ++i) bytes += bytes_of(node->inputs[i].type());
    if (convolution->makes_images) bytes += bytes_of(node->types[0]);
  }
  return bytes;
}

}  // namespace

Graph assign_layout(const Graph& graph, const Supports& supports) {
  if (std::none_of(graph.nodes.begin(), graph.nodes.end(), [](const auto& node) { return convolution_of(*node); }))
    return graph;
  Layout layout(supports);
  Graph result =
      rewrite(graph, [&](const Node& node, const std::vector<Tensor>& inputs) { return layout.replace(node, inputs); });
  return moved_bytes(result) < moved_bytes(graph) ? result : graph;
}

}  // namespace transom
