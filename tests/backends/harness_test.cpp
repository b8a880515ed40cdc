// SPDX-License-Identifier: Apache-2.0
// The harness itself; it is a source of tests only by its name, so that CMake finds it.
#include "backends/harness.h"

#include <dlfcn.h>
#include <time.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <stdexcept>

#include "base/numbers/half.h"
#include "base/threads/threads.h"
#include "graph/ops/plugin_nodes.h"
#include "runtime/device/exchange.h"
#include "support/folders.h"

namespace transom::backend_test {
namespace {

template <typename Body>
void with_type(transom_dtype dtype, Body&& body) {
  switch (dtype) {
    case TRANSOM_BOOL:
    case TRANSOM_UINT8:
      return body(uint8_t{});
    case TRANSOM_INT8:
      return body(int8_t{});
    case TRANSOM_INT32:
      return body(int32_t{});
    case TRANSOM_INT64:
      return body(int64_t{});
    case TRANSOM_UINT32:
      return body(uint32_t{});
    case TRANSOM_FLOAT16:
      return body(Float16{});
    case TRANSOM_BFLOAT16:
      return body(BFloat16{});
    case TRANSOM_FLOAT32:
      return body(float{});
    case TRANSOM_FLOAT64:
      return body(double{});
  }
}

template <typename T>
T from_double(double value) {
  if constexpr (std::is_same_v<T, BFloat16> || std::is_same_v<T, Float16>) return T(static_cast<float>(value));
  else return static_cast<T>(value);
}

template <typename T>
double to_double(T value) {
  if constexpr (std::is_same_v<T, BFloat16> || std::is_same_v<T, Float16>) return static_cast<float>(value);
  else return static_cast<double>(value);
}

size_t padded(size_t bytes) { return (bytes + 63) / 64 * 64; }

}  // namespace

Plugin::Plugin(const std::string& name, size_t threads) {
  const std::string path = test::build_folder() + "/lib/transom/libtransom_" + name + ".so";
  library_ = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library_) throw std::runtime_error(dlerror());
  const auto open = reinterpret_cast<transom_plugin_open_function>(dlsym(library_, "transom_plugin_open"));
  if (!open) throw std::runtime_error(path + " exports no transom_plugin_open");
  static transom_host host = {sizeof(transom_host),
                              TRANSOM_PLUGIN_MAJOR,
                              TRANSOM_PLUGIN_MINOR,
                              [](int32_t, const char*) {},
                              1,
                              parallel,
                              nullptr,
                              exchange_of_host,
                              evaluates_on_host,
                              evaluate_on_host};
  host.threads = static_cast<uint32_t>(threads ? threads : thread_count());
  transom_error error{};
  table.struct_size = sizeof table;
  if (open(&host, &table, &error) || table.device_open(0, &device, &error) ||
      table.stream_create(device, &stream, &error))
    throw std::runtime_error(error.text);
}

Plugin::~Plugin() {
  table.stream_destroy(stream);
  table.device_close(device);
}

Plugin& Plugin::cpu() {
  static Plugin plugin("cpu");
  return plugin;
}

int64_t Tensor::count() const {
  int64_t product = 1;
  for (int64_t extent : shape) product *= extent;
  return product;
}

Tensor tensor(transom_dtype dtype, Shape shape, std::vector<double> values) {
  return {dtype, std::move(shape), std::move(values)};
}

Tensor numbers(transom_dtype dtype, Shape shape, double low, double high, uint64_t seed) {
  Tensor result{dtype, std::move(shape), {}};
  uint64_t state = seed * 0x9E3779B97F4A7C15u + 1;
  for (int64_t i = 0; i < result.count(); ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    const double unit = static_cast<double>(state >> 11) * 0x1p-53;
    result.values.push_back(rounded(dtype, low + unit * (high - low)));
  }
  return result;
}

size_t element_size(transom_dtype dtype) {
  size_t size = 0;
  with_type(dtype, [&](auto type) { size = sizeof(type); });
  return size;
}

double rounded(transom_dtype dtype, double value) {
  double result = 0;
  with_type(dtype, [&](auto type) { result = to_double(from_double<decltype(type)>(value)); });
  return dtype == TRANSOM_BOOL ? value != 0 : result;
}

void encode(const Tensor& tensor, void* bytes) {
  with_type(tensor.dtype, [&](auto type) {
    using T = decltype(type);
    for (size_t i = 0; i < tensor.values.size(); ++i) {
      const T value = from_double<T>(tensor.values[i]);
      std::memcpy(static_cast<char*>(bytes) + i * sizeof(T), &value, sizeof value);
    }
  });
}

Tensor decode(transom_dtype dtype, Shape shape, const void* bytes) {
  Tensor result{dtype, std::move(shape), {}};
  with_type(dtype, [&](auto type) {
    using T = decltype(type);
    for (int64_t i = 0; i < result.count(); ++i) {
      T value;
      std::memcpy(&value, static_cast<const char*>(bytes) + static_cast<size_t>(i) * sizeof(T), sizeof value);
      result.values.push_back(to_double(value));
    }
  });
  return result;
}

double difference(const Tensor& found, const std::vector<double>& expected, double scale) {
  if (found.values.size() != expected.size()) return std::numeric_limits<double>::infinity();
  double largest = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    const double x = found.values[i], y = expected[i];
    if (x == y || (std::isnan(x) && std::isnan(y))) continue;
    const double distance = std::abs(x - y) / (std::abs(y) + scale);
    if (!(distance <= std::numeric_limits<double>::max())) return std::numeric_limits<double>::infinity();
    largest = std::max(largest, distance);
  }
  return largest;
}

int Graph::input(transom_dtype dtype, Shape shape, bool frozen) {
  values_.push_back({dtype, std::move(shape), frozen ? uint64_t{TRANSOM_VALUE_FROZEN} : 0});
  inputs_.push_back(static_cast<int32_t>(values_.size()) - 1);
  return inputs_.back();
}

int Graph::node(const char* op, std::vector<int> inputs, transom_dtype dtype, Shape shape,
                std::vector<Attribute> attributes) {
  return nodes(op, std::move(inputs), {{dtype, std::move(shape)}}, std::move(attributes))[0];
}

std::vector<int> Graph::nodes(const char* op, std::vector<int> inputs,
                              std::vector<std::pair<transom_dtype, Shape>> outputs, std::vector<Attribute> attributes) {
  NodeData data{op, {inputs.begin(), inputs.end()}, {}, std::move(attributes), nullptr};
  std::sort(data.attributes.begin(), data.attributes.end(),
            [](const Attribute& a, const Attribute& b) { return a.name < b.name; });
  std::vector<int> made;
  for (auto& [dtype, shape] : outputs) {
    values_.push_back({dtype, shape, 0});
    made.push_back(static_cast<int>(values_.size()) - 1);
    data.outputs.push_back(made.back());
  }
  nodes_.push_back(std::move(data));
  return made;
}

std::vector<int> Graph::region(const char* op, std::vector<int> inputs, const Graph& region) {
  std::vector<std::pair<transom_dtype, Shape>> outputs;
  for (int32_t output : region.outputs_) {
    const Value& value = region.values_[static_cast<size_t>(output)];
    outputs.emplace_back(value.dtype, value.shape);
  }
  std::vector<int> made = nodes(op, std::move(inputs), outputs);
  nodes_.back().region = &region;
  return made;
}

void Graph::output(int value) { outputs_.push_back(value); }

Tensor Graph::type_of(int value) const {
  const Value& found = values_[static_cast<size_t>(value)];
  return {found.dtype, found.shape, {}};
}

const transom_graph* Graph::view() const {
  c_values_.clear();
  c_nodes_.clear();
  c_attributes_.clear();
  size_t arena = 0;
  for (size_t i = 0; i < values_.size(); ++i) {
    const Value& value = values_[i];
    const auto bound = [&](const std::vector<int32_t>& list) {
      return std::find(list.begin(), list.end(), static_cast<int32_t>(i)) != list.end();
    };
    int64_t offset = -1;
    if (!bound(inputs_) && !bound(outputs_)) {
      offset = static_cast<int64_t>(arena);
      arena += padded(static_cast<size_t>(type_of(static_cast<int>(i)).count()) * element_size(value.dtype));
    }
    c_values_.push_back(
        {value.dtype, static_cast<int32_t>(value.shape.size()), value.shape.data(), offset, value.flags});
  }
  for (const NodeData& node : nodes_) {
    std::vector<transom_attribute>& attributes = c_attributes_.emplace_back();
    for (const Attribute& a : node.attributes)
      attributes.push_back({a.name.c_str(), a.kind, a.integer, a.number, a.text.c_str(), a.list.data(), a.list.size()});
  }
  for (size_t i = 0; i < nodes_.size(); ++i) {
    const NodeData& node = nodes_[i];
    c_nodes_.push_back({sizeof(transom_node), node.op.c_str(), "test", node.inputs.data(), node.inputs.size(),
                        node.outputs.data(), node.outputs.size(), c_attributes_[i].data(), c_attributes_[i].size(),
                        node.region ? node.region->view() : nullptr});
  }
  c_graph_ = {sizeof(transom_graph), c_values_.data(), c_values_.size(), c_nodes_.data(), c_nodes_.size(),
              inputs_.data(),        inputs_.size(),   outputs_.data(),  outputs_.size(), arena};
  return &c_graph_;
}

Program::Program(Plugin& plugin, const Graph& graph) : plugin_(plugin), graph_(graph) {
  transom_error message{};
  if (plugin.table.compile(plugin.device, graph.view(), &executable_, &message)) error = message.text;
}

Program::~Program() {
  if (executable_) plugin_.table.executable_destroy(executable_);
}

std::string Program::describe() const { return plugin_.table.executable_describe(executable_); }

namespace {

transom_binding allocate(Plugin& plugin, size_t bytes) {
  transom_error message{};
  transom_binding binding{nullptr, 0};
  if (plugin.table.buffer_allocate(plugin.device, bytes, &binding.buffer, &message))
    throw std::runtime_error(message.text);
  return binding;
}

transom_binding upload(Plugin& plugin, const Tensor& tensor) {
  const size_t bytes = tensor.values.size() * element_size(tensor.dtype);
  const transom_binding binding = allocate(plugin, bytes);
  std::vector<char> data(bytes);
  encode(tensor, data.data());
  transom_error message{};
  if (plugin.table.copy_to_device(plugin.stream, data.data(), binding, bytes, &message) ||
      plugin.table.stream_synchronize(plugin.stream, &message))  // `data` is read until then
    throw std::runtime_error(message.text);
  return binding;
}

}  // namespace

std::vector<Tensor> Program::run(const std::vector<Tensor>& inputs) {
  return run_donated(inputs, std::vector<int>(graph_.outputs().size(), -1));
}

std::vector<Tensor> Program::run_donated(const std::vector<Tensor>& inputs, const std::vector<int>& donated) {
  if (!executable_) return {};
  std::vector<transom_binding> bindings, outputs;
  for (const Tensor& input : inputs) bindings.push_back(upload(plugin_, input));
  const transom_binding arena = allocate(plugin_, graph_.view()->arena_size);
  for (size_t i = 0; i < graph_.outputs().size(); ++i) {
    const Tensor type = graph_.type_of(graph_.outputs()[i]);
    outputs.push_back(donated[i] >= 0
                          ? bindings[static_cast<size_t>(donated[i])]
                          : allocate(plugin_, static_cast<size_t>(type.count()) * element_size(type.dtype)));
  }
  const transom_launch launch = {
      sizeof(transom_launch), plugin_.stream, bindings.data(), bindings.size(), outputs.data(), outputs.size(), arena};
  transom_error message{};
  std::vector<Tensor> results;
  if (plugin_.table.run(executable_, &launch, &message)) {
    error = message.text;
  } else {
    for (size_t i = 0; i < outputs.size(); ++i) {
      const Tensor type = graph_.type_of(graph_.outputs()[i]);
      std::vector<char> data(static_cast<size_t>(type.count()) * element_size(type.dtype));
      if (plugin_.table.copy_to_host(plugin_.stream, outputs[i], data.data(), data.size(), &message) ||
          plugin_.table.stream_synchronize(plugin_.stream, &message))
        error = message.text;
      results.push_back(decode(type.dtype, type.shape, data.data()));
    }
  }
  for (const transom_binding& binding : bindings) plugin_.table.buffer_free(binding.buffer);
  for (size_t i = 0; i < outputs.size(); ++i)
    if (donated[i] < 0) plugin_.table.buffer_free(outputs[i].buffer);
  plugin_.table.buffer_free(arena.buffer);
  return results;
}

double Program::seconds(const std::vector<Tensor>& inputs, double budget) {
  std::vector<transom_binding> bindings;
  for (const Tensor& input : inputs) bindings.push_back(upload(plugin_, input));
  const double best = seconds(bindings, budget);
  for (const transom_binding& binding : bindings) plugin_.table.buffer_free(binding.buffer);
  return best;
}

double Program::seconds(const std::vector<transom_binding>& inputs, double budget) {
  const auto now = [](clockid_t clock) {
    timespec time{};
    clock_gettime(clock, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  };
  // With one thread its own time counts, so that other load on the machine does not.
  const clockid_t clock = thread_count() == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC;
  std::vector<transom_binding> outputs;
  for (int32_t value : graph_.outputs()) {
    const Tensor type = graph_.type_of(value);
    outputs.push_back(allocate(plugin_, static_cast<size_t>(type.count()) * element_size(type.dtype)));
  }
  const transom_binding arena = allocate(plugin_, graph_.view()->arena_size);
  const transom_launch launch = {sizeof(transom_launch), plugin_.stream, inputs.data(), inputs.size(),
                                 outputs.data(),         outputs.size(), arena};
  transom_error message{};
  double best = std::numeric_limits<double>::infinity();
  const double start = now(clock);
  for (int i = 0; i < 3 || now(clock) - start < budget; ++i) {
    const double begin = now(clock);
    if (plugin_.table.run(executable_, &launch, &message)) throw std::runtime_error(message.text);
    best = std::min(best, now(clock) - begin);
  }
  for (const transom_binding& binding : outputs) plugin_.table.buffer_free(binding.buffer);
  plugin_.table.buffer_free(arena.buffer);
  return best;
}

std::vector<Tensor> Program::run_buffers(const std::vector<transom_binding>& inputs) {
  std::vector<transom_binding> outputs;
  for (int32_t value : graph_.outputs()) {
    const Tensor type = graph_.type_of(value);
    outputs.push_back(allocate(plugin_, static_cast<size_t>(type.count()) * element_size(type.dtype)));
  }
  const transom_binding arena = allocate(plugin_, graph_.view()->arena_size);
  const transom_launch launch = {sizeof(transom_launch), plugin_.stream, inputs.data(), inputs.size(),
                                 outputs.data(),         outputs.size(), arena};
  transom_error message{};
  std::vector<Tensor> results;
  if (plugin_.table.run(executable_, &launch, &message)) error = message.text;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const Tensor type = graph_.type_of(graph_.outputs()[i]);
    results.push_back(decode(type.dtype, type.shape, plugin_.table.buffer_host_pointer(outputs[i].buffer)));
    plugin_.table.buffer_free(outputs[i].buffer);
  }
  plugin_.table.buffer_free(arena.buffer);
  return results;
}

namespace {

std::vector<Tensor> evaluate_in(Plugin& plugin, const char* op, const std::vector<Tensor>& inputs,
                                std::vector<std::pair<transom_dtype, Shape>> outputs, std::vector<Attribute> attributes,
                                std::string& error) {
  Graph graph;
  std::vector<int> values;
  for (const Tensor& input : inputs) values.push_back(graph.input(input));
  for (int output : graph.nodes(op, values, std::move(outputs), std::move(attributes))) graph.output(output);
  Program program(plugin, graph);
  std::vector<Tensor> results = program.run(inputs);
  error = program.error;
  return results;
}

}  // namespace

std::vector<Tensor> evaluate(const char* op, const std::vector<Tensor>& inputs,
                             std::vector<std::pair<transom_dtype, Shape>> outputs, std::vector<Attribute> attributes) {
  std::string error;
  std::vector<Tensor> results =
      evaluate_in(Plugin::cpu(), op, inputs, std::move(outputs), std::move(attributes), error);
  if (!error.empty()) throw std::runtime_error(error);
  return results;
}

Tensor evaluate(const char* op, const std::vector<Tensor>& inputs, transom_dtype dtype, Shape shape,
                std::vector<Attribute> attributes) {
  return evaluate(op, inputs, {{dtype, std::move(shape)}}, std::move(attributes))[0];
}

std::string failure_of(const char* op, const std::vector<Tensor>& inputs, transom_dtype dtype, Shape shape,
                       std::vector<Attribute> attributes) {
  std::string error;
  evaluate_in(Plugin::cpu(), op, inputs, {{dtype, std::move(shape)}}, std::move(attributes), error);
  return error;
}

double tolerance(transom_dtype dtype) {
  switch (dtype) {
    case TRANSOM_FLOAT16:
      return 1.1e-3;
    case TRANSOM_BFLOAT16:
      return 8.5e-3;
    case TRANSOM_FLOAT32:
      return 1e-6;
    case TRANSOM_FLOAT64:
      return 1e-14;
    default:
      return 0;
  }
}

}  // namespace transom::backend_test
