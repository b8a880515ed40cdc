// SPDX-License-Identifier: Apache-2.0
// The text form of a graph, written and read.
#include <cctype>
#include <charconv>

#include "base/error.h"
#include "graph/ir/graph.h"
#include "graph/ir/tensor_map.h"

namespace transom {
namespace {

constexpr int kMaximumDepth = 16;  // of regions inside regions

std::string indented(const std::string& text) {
  std::string result;
  for (const char c : text) {
    result += c;
    if (c == '\n') result += "  ";
  }
  return result;
}

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Graph parse() {
    Graph graph = parse_graph(0);
    skip_space();
    if (position_ != text_.size()) error("the end of the text");
    return graph;
  }

 private:
  using Names = std::unordered_map<std::string, Tensor>;

  Graph parse_graph(int depth) {
    if (depth > kMaximumDepth) error("at most 16 nested regions");
    Graph graph;
    Names names;
    expect("graph");
    expect("(");
    while (!accept(")")) {
      const std::string name = parse_name();
      expect(":");
      graph.inputs.push_back(make_input(parse_type()));
      names[name] = graph.inputs.back();
      accept(",");
    }
    expect("{");
    while (!accept("return")) {
      std::vector<std::string> results;
      do results.push_back(parse_name());
      while (accept(","));
      expect("=");
      const std::shared_ptr<Node> node = parse_node(names, depth);
      graph.nodes.push_back(node);
      if (results.size() != node->types.size()) error(fmt::format("{} results", node->types.size()));
      for (size_t i = 0; i < results.size(); ++i) names[results[i]] = Tensor(node, static_cast<int>(i));
    }
    while (!accept("}")) {
      graph.outputs.push_back(lookup(names));
      accept(",");
    }
    return graph;
  }

  std::shared_ptr<Node> parse_node(const Names& names, int depth) {
    const Operation& operation = find_operation(parse_word());
    std::vector<Tensor> inputs;
    expect("(");
    while (!accept(")")) {
      inputs.push_back(lookup(names));
      accept(",");
    }
    Attributes attributes;
    if (accept("{"))
      while (!accept("}")) {
        const std::string name = parse_word();
        expect("=");
        attributes.set(name, parse_value());
        accept(",");
      }
    std::shared_ptr<const Graph> region;
    if (accept("region")) region = std::make_shared<Graph>(parse_graph(depth + 1));
    std::vector<Type> types;
    expect(":");
    do types.push_back(parse_type());
    while (accept(","));
    auto node = make_node(operation, std::move(inputs), std::move(attributes), region);
    if (node->types != types)
      fail("graph text: {} gives {}, but the text says {}", operation.name, to_string(node->types), to_string(types));
    return node;
  }

  AttributeValue parse_value() {
    skip_space();
    if (accept("\"")) {
      std::string word;
      for (; position_ < text_.size() && text_[position_] != '"'; ++position_) {
        if (text_[position_] == '\\' && position_ + 1 < text_.size()) ++position_;
        word += text_[position_];
      }
      if (position_ == text_.size()) error("a closing quote");
      ++position_;
      return word;
    }
    if (accept("[")) {
      std::vector<int64_t> list;
      while (!accept("]")) {
        list.push_back(parse_integer());
        accept(",");
      }
      return list;
    }
    const size_t end = std::min(text_.find_first_of(",}\n ", position_), text_.size());
    const std::string_view digits = text_.substr(position_, end - position_);
    if (digits.find_first_of(".enif") == digits.npos) return parse_integer();
    double value = 0;
    const auto result = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (result.ec != std::errc() || result.ptr != digits.data() + digits.size()) error("a number");
    position_ = end;
    return value;
  }

  int64_t parse_integer() {
    skip_space();
    int64_t value = 0;
    const auto result = std::from_chars(text_.data() + position_, text_.data() + text_.size(), value);
    if (result.ec != std::errc()) error("an integer");
    position_ = static_cast<size_t>(result.ptr - text_.data());
    return value;
  }

  Type parse_type() {
    Type type{parse_dtype(parse_word()), {}};
    expect("[");
    while (!accept("]")) {
      type.shape.push_back(parse_integer());
      if (type.shape.back() < 0) error("an extent that is not negative");
      accept(",");
    }
    return type;
  }

  const Tensor& lookup(const Names& names) {
    const std::string name = parse_name();
    const auto found = names.find(name);
    if (found == names.end()) fail("graph text: {} is used before it is made", name);
    return found->second;
  }

  std::string parse_name() {
    expect("%");
    return "%" + parse_word();
  }

  std::string parse_word() {
    skip_space();
    const size_t begin = position_;
    while (position_ < text_.size() &&
           (std::isalnum(static_cast<unsigned char>(text_[position_])) || text_[position_] == '_'))
      ++position_;
    if (begin == position_) error("a word");
    return std::string(text_.substr(begin, position_ - begin));
  }

  void skip_space() {
    while (position_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[position_]))) ++position_;
  }
  bool accept(std::string_view token) {
    skip_space();
    if (text_.substr(position_, token.size()) != token) return false;
    position_ += token.size();
    return true;
  }
  void expect(std::string_view token) {
    if (!accept(token)) error(fmt::format("'{}'", token));
  }
  [[noreturn]] void error(const std::string& expected) {
    fail("graph text: expected {} at {}", expected, quoted(text_.substr(position_, 40)));
  }

  std::string_view text_;
  size_t position_ = 0;
};

}  // namespace

std::string print_graph(const Graph& graph) {
  TensorMap<size_t> names;
  const auto name = [&](const Tensor& tensor) {
    const auto found = names.find(tensor);
    return found == names.end() ? std::string("%?") : fmt::format("%{}", found->second);
  };
  const auto list = [&](const std::vector<Tensor>& tensors) {
    std::string text;
    for (const Tensor& tensor : tensors) text += (text.empty() ? "" : ", ") + name(tensor);
    return text;
  };
  std::string text;
  for (const Tensor& input : graph.inputs) {
    names.emplace(input, names.size());
    text += fmt::format("{}{}: {}", text.empty() ? "" : ", ", name(input), to_string(input.type()));
  }
  text = "graph(" + text + ") {\n";
  for (const std::shared_ptr<Node>& node : graph.nodes) {
    std::vector<std::string> types;
    const std::vector<Tensor> outputs = outputs_of(node);
    for (const Tensor& output : outputs) {
      names.emplace(output, names.size());
      types.push_back(to_string(output.type()));
    }
    text += fmt::format("  {} = {}({})", list(outputs), node->operation->name, list(node->inputs));
    if (!node->attributes.items().empty()) text += " {" + to_string(node->attributes) + "}";
    if (node->region) text += " region " + indented(print_graph(*node->region));
    if (text.ends_with("\n  ")) text.erase(text.size() - 3);
    text += fmt::format(" : {}\n", fmt::join(types, ", "));
  }
  return text + "  return " + list(graph.outputs) + "\n}\n";
}

Graph parse_graph(std::string_view text) {
  const CompilerScope compiler;
  return Parser(text).parse();
}

}  // namespace transom
