// SPDX-License-Identifier: Apache-2.0
#include "models/onnx/import/run/imported_graph.h"

#include <algorithm>
#include <optional>
#include <set>

#include "base/error.h"
#include "base/files/container_files.h"
#include "base/files/directories.h"
#include "files/hub/resolve.h"
#include "graph/ops/computing.h"
#include "graph/passes/composites/find_composites.h"
#include "models/onnx/import/elementwise/element_values.h"
#include "models/onnx/proto/read_model.h"
#include "transom/compile.h"

namespace transom::onnx {
namespace {

constexpr size_t kMostPasses = 64;

// The names of a directory's .onnx files.
std::vector<fs::path> onnx_files(const fs::path& directory) {
  std::vector<fs::path> files;
  if (!directory_exists(directory)) return files;
  for (const fs::path& path : list_directory(directory))
    if (path.extension() == ".onnx" && file_exists(path)) files.push_back(path);
  return files;
}

// Each name of a graph is given once: by an input, an initializer (which may be an input's default), or a node. Else
// the answer would depend on which of them a reader takes. Graphs in attributes have names of their own.
class NamesOfGraph {
 public:
  explicit NamesOfGraph(const Model& model) : model_(model) {}

  void check(const Graph& graph) const {
    std::set<std::string_view> inputs, initializers, given;
    for (const ValueInfo& input : graph.inputs) expect(inputs.insert(input.name).second, input.name, "inputs");
    for (const auto& data : graph.initializers)
      expect(initializers.insert(data->name).second, data->name, "initializers");
    given.merge(inputs);
    given.merge(initializers);
    check_nodes(graph.nodes, std::move(given));
  }
  void check(const Function& function) const {
    std::set<std::string_view> given;
    for (const std::string& input : function.inputs) expect(given.insert(input).second, input, "inputs of a function");
    check_nodes(function.nodes, std::move(given));
  }

 private:
  void check_nodes(const std::vector<Node>& nodes, std::set<std::string_view> given) const {
    for (const Node& node : nodes) {
      for (const std::string& output : node.outputs)
        if (!output.empty()) expect(given.insert(output).second, output, "outputs of nodes, or is an input, too");
      for (const Attribute& attribute : node.attributes)
        if (attribute.graph) check(*attribute.graph);
    }
  }
  void expect(bool is_new, std::string_view name, std::string_view where) const {
    if (!is_new)
      fail("{}: the value {} is named twice among the {}; expected one", model_.where, quoted(std::string(name)),
           where);
  }
  const Model& model_;
};

// Exporters write attention and norms as their parts: the same results with composites, which devices have kernels for.
// Constants of the file are leaves with values; what comes from `arguments` has none.
std::vector<Tensor> with_composites(const std::vector<Tensor>& results, const std::vector<Tensor>& arguments) {
  const CompilerScope compiler;
  const transom::Graph traced = make_graph(results, arguments), alone = isolate(traced);
  const auto number_of_leaf = [&](const Tensor& leaf) -> std::optional<double> {
    for (size_t i = arguments.size(); i < alone.inputs.size(); ++i) {
      const Tensor& source = traced.inputs[i];
      if (!alone.inputs[i].same_as(leaf)) continue;
      if (source.size() != 1 || !source.node()->computed(source.output())) return std::nullopt;
      return source.to_vector<double>()[0];
    }
    return std::nullopt;
  };
  return inline_graph(find_composites(alone, number_of_leaf), traced.inputs);
}

}  // namespace

bool holds_weights(const fs::path& directory) {
  for (const char* name :
       {"model.safetensors", "model.safetensors.index.json", "pytorch_model.bin", "pytorch_model.bin.index.json"})
    if (path_exists(directory / name)) return true;
  return false;
}

fs::path find_onnx_file(const fs::path& path) {
  if (path.extension() == ".onnx" || (!is_container(path) && is_onnx_file(path))) return path;
  if (!directory_exists(path)) return {};
  if (holds_weights(path)) return {};
  for (const fs::path& directory : {path, path / "onnx"}) {
    const std::vector<fs::path> files = onnx_files(directory);
    const auto named =
        std::find_if(files.begin(), files.end(), [](const fs::path& file) { return file.filename() == "model.onnx"; });
    if (named != files.end()) return *named;
    if (files.size() == 1) return files[0];
  }
  return {};
}

// One traced signature.
struct ImportedGraph::Pass {
  std::optional<CompiledFunction> function;
  std::mutex mutex;
  std::vector<ElementType> types;  // of the results, once it is traced
  bool depends_on_values = false;  // it cannot be traced
  uint64_t last_use = 0;
};

struct ImportedGraph::Passes {
  std::mutex mutex;
  std::map<std::string, std::shared_ptr<Pass>> by_signature;
  uint64_t uses = 0;
};

std::shared_ptr<const ImportedGraph> ImportedGraph::open(const fs::path& file, SharedConstants* shared) {
  return std::make_shared<const ImportedGraph>(read_model(file), shared);
}

ImportedGraph::ImportedGraph(Model model, SharedConstants* shared)
    : model_(std::move(model)), passes_(std::make_unique<Passes>()) {
  const NamesOfGraph names(model_);
  names.check(model_.graph);
  for (const Function& function : model_.functions) names.check(function);
  check_operators(model_.graph.nodes, model_.opsets);
  for (const Function& function : model_.functions)
    check_operators(function.nodes, function.opsets.empty() ? model_.opsets : function.opsets);
  hold_constants(model_.graph, shared);
}

ImportedGraph::~ImportedGraph() = default;

void ImportedGraph::hold_constants(const Graph& graph, SharedConstants* shared) {
  const auto hold = [&](const TensorData& data) {
    constants_.emplace(&data, shared ? shared->value_of(data, model_.where) : value_of(data, model_.where));
  };
  for (const auto& data : graph.initializers) hold(*data);
  for (const Node& node : graph.nodes)
    for (const Attribute& attribute : node.attributes) {
      if (attribute.graph) hold_constants(*attribute.graph, shared);
      if (attribute.tensor && attribute.tensor->type != ElementType::kString) hold(*attribute.tensor);
    }
}

// What is not known is refused before anything is computed, wherever it stands.
void ImportedGraph::check_operators(const std::vector<Node>& nodes,
                                    const std::map<std::string, int64_t>& opsets) const {
  for (const Node& node : nodes) {
    for (const Attribute& attribute : node.attributes)
      if (attribute.graph) check_operators(attribute.graph->nodes, opsets);
    const bool defined = std::any_of(model_.functions.begin(), model_.functions.end(), [&](const Function& function) {
      return function.name == node.op_type && function.domain == node.domain && function.overload == node.overload;
    });
    if (defined) continue;
    const auto opset = opsets.find(node.domain);
    const int64_t version = opset != opsets.end() ? opset->second : 1;
    if (!find_operator(node.domain, node.op_type, version))
      fail("{}: node {}: operator {} of {}, version {}, is not supported", model_.where, quoted(node.name),
           quoted(node.op_type), node.domain.empty() ? "ai.onnx" : quoted(node.domain), version);
  }
}

std::vector<const ValueInfo*> ImportedGraph::required_inputs() const {
  std::vector<const ValueInfo*> required;
  for (const ValueInfo& input : model_.graph.inputs) {
    const auto& data = model_.graph.initializers;
    if (std::none_of(data.begin(), data.end(), [&](const auto& one) { return one->name == input.name; }))
      required.push_back(&input);
  }
  return required;
}

const ValueInfo* ImportedGraph::find_input(const std::string& name) const {
  for (const ValueInfo& input : model_.graph.inputs)
    if (input.name == name) return &input;
  return nullptr;
}

void ImportedGraph::check_inputs(const NamedValues& inputs) const {
  std::vector<std::string> known;
  for (const ValueInfo& input : model_.graph.inputs) known.push_back(input.name);
  for (const auto& [name, value] : inputs) {
    const ValueInfo* input = find_input(name);
    if (!input)
      fail("{}: takes no input {}{} It takes: {}", model_.where, quoted(name), did_you_mean(name, known),
           fmt::join(known, ", "));
    if (input->kind != ValueInfo::Kind::kTensor && input->kind != ValueInfo::Kind::kOptional &&
        input->kind != ValueInfo::Kind::kUnknown)
      fail("{}: input {} is no tensor, which is not supported", model_.where, quoted(name));
    if (input->type != ElementType::kUndefined && value.type != input->type)
      fail("{}: input {}: expected {}, found {}", model_.where, quoted(name), name_of(input->type),
           name_of(value.type));
    if (!input->shape) continue;
    const Shape& shape = value.tensor.shape();
    bool fits = shape.size() == input->shape->size();
    std::vector<std::string> expected;
    for (size_t i = 0; i < input->shape->size(); ++i) {
      const ValueInfo::Extent& extent = (*input->shape)[i];
      expected.push_back(extent.value >= 0       ? std::to_string(extent.value)
                         : extent.symbol.empty() ? "?"
                                                 : extent.symbol);
      fits = fits && (extent.value < 0 || extent.value == shape[i]);
    }
    if (!fits)
      fail("{}: input {}: expected shape [{}], found {}", model_.where, quoted(name), fmt::join(expected, ", "),
           to_string(shape));
  }
  for (const ValueInfo* input : required_inputs())
    if (std::none_of(inputs.begin(), inputs.end(), [&](const auto& given) { return given.first == input->name; }) &&
        input->kind != ValueInfo::Kind::kOptional)
      fail("{}: input {} is missing", model_.where, quoted(input->name));
}

NamedValues ImportedGraph::interpret(const NamedValues& inputs, const Computing& computing) const {
  GraphRun run(model_, constants_, computing);
  std::unordered_map<std::string, Value> values;
  for (const auto& [name, value] : inputs) values.emplace(name, value);
  for (const ValueInfo* input : required_inputs())
    if (!values.contains(input->name)) values.emplace(input->name, Value());
  std::vector<Value> results = run.run(values);
  NamedValues outputs;
  for (size_t i = 0; i < results.size(); ++i) {
    const std::string& name = model_.graph.outputs[i].name;
    if (!results[i].is_tensor()) fail("{}: output {} is no tensor, which is not supported", model_.where, quoted(name));
    outputs.emplace_back(name, std::move(results[i]));
  }
  return outputs;
}

// On arguments of its own first, so that only nodes of this graph are looked at for composites.
NamedValues ImportedGraph::within_trace(const NamedValues& inputs, const Computing& computing) const {
  NamedValues own;
  std::vector<Tensor> placeholders, results;
  for (const auto& [name, value] : inputs) {
    placeholders.push_back(make_input(value.tensor.type()));
    own.emplace_back(name, Value(value.type, placeholders.back()));
  }
  NamedValues outputs;
  try {
    outputs = interpret(own, computing);
  } catch (const DependsOnArguments&) {
    return interpret(inputs, computing);  // some of which may be known
  }
  for (const auto& [name, value] : outputs) results.push_back(value.tensor);
  const transom::Graph graph = make_graph(with_composites(results, placeholders), placeholders);
  std::vector<Tensor> leaves = graph.inputs;
  for (size_t i = 0; i < inputs.size(); ++i) leaves[i] = inputs[i].second.tensor;
  results = inline_graph(graph, leaves);
  for (size_t i = 0; i < results.size(); ++i) outputs[i].second.tensor = results[i];
  return outputs;
}

std::shared_ptr<ImportedGraph::Pass> ImportedGraph::pass_for(const std::string& signature) const {
  const std::lock_guard lock(passes_->mutex);
  auto& all = passes_->by_signature;
  if (all.size() >= kMostPasses && !all.contains(signature))
    all.erase(std::min_element(all.begin(), all.end(),
                               [](const auto& a, const auto& b) { return a.second->last_use < b.second->last_use; }));
  std::shared_ptr<Pass>& pass = all[signature];
  if (!pass) pass = std::make_shared<Pass>();
  pass->last_use = ++passes_->uses;
  return pass;
}

NamedValues ImportedGraph::run(const NamedValues& inputs, const Computing& computing) const {
  check_inputs(inputs);
  // Within the trace of somebody else, arguments have no contents yet.
  const bool traced = std::any_of(inputs.begin(), inputs.end(), [](const auto& input) {
    const std::shared_ptr<transom::Node>& node = input.second.tensor.node();
    return is_input(*node) && !node->computed(input.second.tensor.output());
  });
  if (traced || mode() == Mode::kEager) try {
      return traced && mode() != Mode::kEager ? within_trace(inputs, computing) : interpret(inputs, computing);
    } catch (const DependsOnArguments&) {
      fail(
          "{}: its shapes or its flow depend on the values of its inputs, which is not supported within a traced "
          "function",
          model_.where);
    }
  const std::optional<std::string> key = key_of(computing);
  if (!key) return interpret(inputs, computing);
  std::string signature = *key + (mode() == Mode::kGraph ? " captured" : "");
  std::vector<Tensor> arguments;
  std::vector<std::pair<std::string, ElementType>> names;
  for (const auto& [name, value] : inputs) {
    signature += fmt::format(" {}:{}:{}", name, name_of(value.type), to_string(value.tensor.type()));
    names.emplace_back(name, value.type);
    arguments.push_back(value.tensor);
  }
  const std::shared_ptr<Pass> pass = pass_for(signature);
  std::optional<CompiledFunction> function;
  {
    const std::lock_guard lock(pass->mutex);
    if (!pass->depends_on_values && !pass->function) {
      const auto trace = [this, weak = std::weak_ptr<Pass>(pass), names, computing](const std::vector<Tensor>& traced) {
        NamedValues values;
        for (size_t i = 0; i < names.size(); ++i)
          values.emplace_back(names[i].first, Value(names[i].second, traced[i]));
        std::vector<ElementType> types;
        std::vector<Tensor> results;
        for (const auto& [name, value] : interpret(values, computing)) {
          types.push_back(value.type);
          results.push_back(value.tensor);
        }
        if (const auto held = weak.lock()) {
          const std::lock_guard of_types(held->mutex);
          held->types = std::move(types);
        }
        return with_composites(results, traced);
      };
      pass->function = compile(trace, {.name = "onnx", .capture = mode() == Mode::kGraph, .donated = {}});
    }
    function = pass->function;
  }
  if (!function) return interpret(inputs, computing);
  std::vector<Tensor> results;
  try {
    results = (*function)(std::move(arguments));
  } catch (const DependsOnArguments&) {
    const std::lock_guard lock(pass->mutex);
    pass->depends_on_values = true;
    pass->function.reset();
  }
  if (results.empty()) return interpret(inputs, computing);
  const std::lock_guard lock(pass->mutex);
  NamedValues outputs;
  for (size_t i = 0; i < results.size(); ++i)
    outputs.emplace_back(model_.graph.outputs[i].name, Value(pass->types[i], results[i]));
  return outputs;
}

}  // namespace transom::onnx
