// SPDX-License-Identifier: Apache-2.0
#include "hpu/recipe/recipe_graph.h"

namespace transom::hpu {
namespace {

class Writer {
 public:
  template <typename Number>
  void number(Number value) {
    text_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  void text(const std::string& value) {
    number<uint64_t>(value.size());
    text_ += value;
  }
  template <typename List, typename Write>
  void list(const List& values, Write&& write) {
    number<uint64_t>(values.size());
    for (const auto& value : values) write(value);
  }
  std::string take() { return std::move(text_); }

 private:
  std::string text_;
};

}  // namespace

std::string RecipeGraph::content() const {
  Writer writer;
  writer.list(tensors, [&](const TensorSpec& tensor) {
    writer.number(tensor.dtype);
    writer.list(tensor.sizes, [&](uint64_t size) { writer.number(size); });
    writer.text(tensor.name);
    writer.text(tensor.constant);
    writer.number(tensor.same_section);
  });
  writer.list(nodes, [&](const NodeSpec& node) {
    writer.text(node.guid);
    writer.list(node.inputs, [&](int tensor) { writer.number(tensor); });
    writer.list(node.outputs, [&](int tensor) { writer.number(tensor); });
    writer.text(node.params);
    for (const auto* layouts : {&node.in_layouts, &node.out_layouts})
      writer.list(*layouts, [&](const std::string& layout) { writer.text(layout); });
  });
  return writer.take();
}

}  // namespace transom::hpu
