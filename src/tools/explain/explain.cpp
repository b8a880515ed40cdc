// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>

#include "base/error.h"
#include "base/threads/threads.h"
#include "graph/ir/tensor_map.h"
#include "graph/passes/passes.h"
#include "runtime/device/device.h"
#include "runtime/programs/compilation.h"
#include "runtime/programs/node_costs.h"
#include "tools/explain/explanation.h"
#include "transom/device.h"

namespace transom {
namespace {

std::string kind_of(const Node& node) {
  switch (category_of(node)) {
    case Category::kAttention:
      return "attention";
    case Category::kProducts:
      return "products";
    case Category::kRows:
      return "rows";
    case Category::kElements:
      return "elements";
    case Category::kMovement:
      return "movement";
    default:
      return "other";
  }
}

// The type in which a product is computed: that of what it reads.
DType product_type(const Node& node) { return node.inputs.empty() ? DType::kFloat32 : node.inputs[0].dtype(); }

constexpr const char* kOnHost = "host: reference device";

// The names that print_graph gives.
TensorMap<std::string> names_of(const Graph& graph) {
  TensorMap<std::string> names;
  size_t next = 0;
  for (const Tensor& input : graph.inputs) names.emplace(input, fmt::format("%{}", next++));
  for (const auto& node : graph.nodes)
    for (const Tensor& output : outputs_of(node)) names.emplace(output, fmt::format("%{}", next++));
  return names;
}

void add_passes(Explanation& result, const Compilation& compilation) {
  for (const Compilation::Pass& pass : compilation.passes) {
    Explanation::Pass added{pass.name, pass.seconds, pass.graph.nodes.size(), {}, print_graph(pass.graph)};
    for (const auto& node : pass.graph.nodes) ++added.operations[std::string(node->operation->name)];
    result.passes.push_back(std::move(added));
  }
}

// The source of generated code by the name of its kernel: sections "kernel <name>:" behind what the device says of the
// nodes.
std::map<std::string, std::string> sources_of(const std::string& description) {
  std::map<std::string, std::string> sources;
  constexpr std::string_view kMark = "\nkernel ";
  for (size_t at = description.find(kMark); at != description.npos;) {
    const size_t next = description.find(kMark, at + 1);
    const std::string section =
        description.substr(at + kMark.size(), next == description.npos ? next : next - at - kMark.size());
    if (const size_t colon = section.find(":\n"); colon != section.npos)
      sources.emplace(section.substr(0, colon), section.substr(colon + 2));
    at = next;
  }
  return sources;
}

// The line of a device that tells what its tiles hold and do.
std::string machine_of(const std::string& description) {
  constexpr std::string_view kMark = "machine profile: ";
  const size_t at = description.starts_with(kMark) ? 0 : description.find("\n" + std::string(kMark));
  if (at == description.npos) return {};
  const size_t begin = description.find('{', at);
  return begin == description.npos ? "" : description.substr(begin, description.find('\n', begin) - begin);
}

// By node of the compiled graph, whatever piece of the program it is in.
std::vector<Profile::NodeTime> node_times(const Compilation& compilation, Profile& profile) {
  std::vector<Profile::NodeTime> times(compilation.graph.nodes.size());
  for (const ProgramPiece& piece : compilation.pieces) {
    if (piece.on_host) {
      for (const size_t place : piece.places) times[place].kernel = kOnHost;
      continue;
    }
    const std::vector<Profile::NodeTime> of_piece = profile.node_times(piece.nodes);
    for (size_t n = 0; n < of_piece.size(); ++n) times[piece.places[n]] = of_piece[n];
  }
  return times;
}

// What a kernel reached is possible: where that is more than the products that were timed, it is the limit. What lies
// in caches is faster than memory: such a kernel is at its limit.
void add_limits(Explanation& result, const Compilation& compilation) {
  const auto type_of = [&](const Explanation::Kernel& kernel) {
    return product_type(*compilation.graph.nodes[kernel.node]);
  };
  for (const Explanation::Kernel& kernel : result.kernels)
    if (kernel.seconds > 0 && kernel.operations > 0 &&
        result.limits.seconds_of(kernel.operations, 0, type_of(kernel)) >=
            result.limits.seconds_of(0, kernel.bytes, type_of(kernel)))
      result.limits.raise(type_of(kernel), kernel.operations / kernel.seconds);
  for (Explanation::Kernel& kernel : result.kernels) {
    kernel.least = result.limits.seconds_of(kernel.operations, kernel.bytes, type_of(kernel));
    kernel.by_memory = result.limits.seconds_of(0, kernel.bytes, type_of(kernel)) >= kernel.least;
    if (kernel.seconds > 0) kernel.least = std::min(kernel.least, kernel.seconds);
    result.least_seconds += kernel.least;
  }
}

void add_kernels(Explanation& result, const Compilation& compilation, Profile& profile) {
  const std::vector<Profile::NodeTime> times = node_times(compilation, profile);
  const TensorMap<std::string> names = names_of(compilation.graph);
  const std::map<std::string, std::string> sources = sources_of(compilation.description);
  for (size_t n = 0; n < compilation.graph.nodes.size(); ++n) {
    const std::shared_ptr<Node>& node = compilation.graph.nodes[n];
    Explanation::Kernel kernel{.node = n,
                               .operation = operation_of(*node),
                               .kind = kind_of(*node),
                               .scope = node->scope ? *node->scope : "",
                               .types = types_of(*node)};
    for (const Tensor& output : outputs_of(node))
      kernel.values += (kernel.values.empty() ? "" : " ") + names.at(output);
    if (node->region) kernel.region = print_graph(*node->region);
    kernel.operations = operations_of(*node);
    kernel.bytes = bytes_of(*node);
    kernel.kernel = times[n].kernel;
    kernel.on_host = kernel.kernel == kOnHost;
    result.host_nodes += kernel.on_host;
    if (times[n].calls) {
      kernel.seconds = times[n].seconds / static_cast<double>(times[n].calls);
      if (const auto source = sources.find(kernel.kernel); source != sources.end()) kernel.source = source->second;
    }
    result.kernel_seconds += kernel.seconds;
    result.kernels.push_back(std::move(kernel));
  }
  add_limits(result, compilation);
  result.pieces = compilation.pieces.size();
  // Pieces run one behind the other, and each of them counts from its own beginning.
  double begin = 0;
  for (const ProgramPiece& piece : compilation.pieces) {
    double end = 0;
    if (piece.on_host) continue;
    for (const Profile::Moment& moment : profile.last_run(piece.nodes)) {
      result.timeline.push_back({piece.places[moment.node], begin + moment.begin, begin + moment.end});
      end = std::max(end, moment.end);
    }
    begin += end;
  }
}

void add_memory(Explanation& result, const Compilation& compilation) {
  const Graph& graph = compilation.graph;
  const TensorMap<std::string> names = names_of(graph);
  TensorMap<int> last_use;
  for (size_t n = 0; n < graph.nodes.size(); ++n)
    for (const Tensor& input : graph.nodes[n]->inputs) last_use[input] = static_cast<int>(n);
  // Values that share a block (a view, a result in place of what it reads) count once.
  std::map<int64_t, std::vector<const Explanation::Value*>> at_offset;
  for (size_t n = 0; n < graph.nodes.size(); ++n)
    for (const Tensor& output : outputs_of(graph.nodes[n])) {
      const auto place = compilation.plan.offsets.find(output);
      if (place == compilation.plan.offsets.end()) continue;
      const auto use = last_use.find(output);
      const int first = static_cast<int>(n);
      result.values.push_back({names.at(output), n, place->second, bytes_of(output.type()), first,
                               use == last_use.end() ? first : use->second});
    }
  result.live.assign(graph.nodes.size(), 0);
  std::vector<std::pair<int64_t, int64_t>> spans;
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    spans.clear();
    for (const Explanation::Value& value : result.values)
      if (value.first <= static_cast<int>(n) && static_cast<int>(n) <= value.last)
        spans.emplace_back(value.offset, value.offset + value.bytes);
    std::sort(spans.begin(), spans.end());
    int64_t covered = 0;
    for (const auto& [begin, end] : spans) {
      result.live[n] += std::max<int64_t>(0, end - std::max(begin, covered));
      covered = std::max(covered, end);
    }
  }
  result.arena_bytes = compilation.plan.arena_bytes;
  result.live_maximum = compilation.plan.live_maximum;
  for (const Tensor& input : graph.inputs) result.input_bytes += bytes_of(input.type());
  for (const Tensor& output : graph.outputs) result.output_bytes += bytes_of(output.type());
  for (const bool donated : compilation.donated) result.donated_inputs += donated;
}

double profiled_seconds(const Compilation& compilation, Profile& profile) {
  double total = 0;
  for (const Profile::NodeTime& time : node_times(compilation, profile)) total += time.seconds;
  return total;
}

}  // namespace

Explanation explain(const BenchOptions& options, int64_t runs) {
  if (runs < 1) fail(ErrorKind::kUsage, "--runs: expected at least 1, found {}", runs);
  Explanation result;
  const RecordCompilations record;
  const std::unique_ptr<Workload> workload = make_workload(options);
  // The second step of a training may be another program: only then is there anything to give away.
  for (int i = 0; i < 3; ++i) workload->run();
  Profile profile;
  const auto begin = std::chrono::steady_clock::now();
  for (int64_t i = 0; i < runs; ++i) workload->run();
  const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - begin;
  profile.stop();
  std::shared_ptr<const Compilation> main_program;
  double longest = 0;
  for (const auto& compilation : record.compilations())
    if (const double seconds = profiled_seconds(*compilation, profile); seconds > longest) {
      longest = seconds;
      main_program = compilation;
    }
  if (!main_program) fail("{}: nothing was compiled that could be explained", options.model);
  result.programs = record.compilations().size();
  result.limits = measure_limits();
  result.model = options.model, result.model_type = workload->model_type();
  result.task = options.task, result.dtype = options.dtype;
  result.device = device_name();
  const transom_device_properties& properties = default_device()->properties();
  result.device_notes = fmt::format("{}; {}", properties.architecture, properties.driver);
  result.mode = mode_name();
  result.batch_size = options.batch_size, result.sequence_length = options.sequence_length;
  result.threads = static_cast<int>(thread_count());
  result.samples = workload->samples();
  result.run_seconds = passed.count() / static_cast<double>(runs);
  result.compile_seconds = main_program->seconds;
  result.machine = machine_of(main_program->description);
  add_passes(result, *main_program);
  add_kernels(result, *main_program, profile);
  add_memory(result, *main_program);
  return result;
}

}  // namespace transom
