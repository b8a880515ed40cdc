// SPDX-License-Identifier: Apache-2.0
#include "tools/explain/layout.h"

#include <algorithm>
#include <charconv>
#include <set>

#include "base/error.h"
#include "base/json/json.h"
#include "graph/passes/passes.h"
#include "models/sharding/model_sharding.h"
#include "runtime/distributed/environment.h"
#include "runtime/tensor/mode_scope.h"
#include "transom/gradients.h"
#include "transom/ops.h"

namespace transom {
namespace {

std::string mesh_text(const ShardingLayout& layout) {
  std::string text;
  for (const MeshAxis axis : kAllMeshAxes)
    if (layout.size(axis) > 1)
      text += fmt::format("{}{} {}", text.empty() ? "" : " x ", name_of(axis), layout.size(axis));
  if (layout.sequence_parallel) text += ", sequence parallel";
  if (layout.context == ContextStrategy::kRing) text += ", ring attention";
  return text.empty() ? "one process" : text;
}

int64_t ranks_of(const ShardingLayout& layout) {
  int64_t ranks = 1;
  for (const int64_t size : layout.sizes) ranks *= size;
  return ranks;
}

int64_t bytes_at(const ProcessMesh& mesh, const Placement& placement, const Type& type) {
  return elements(local_shape(mesh, placement, type.shape)) * static_cast<int64_t>(size_of(type.dtype));
}

// Why the pass inserts it, by what it moves.
std::string reason_of(const CollectiveRecord& record, bool trains) {
  const bool rows = record.axes.has(MeshAxis::kShard) || record.axes.has(MeshAxis::kData);
  if (record.kind == "collective_permute") return "keys, values and queries around a ring";
  if (record.kind == "all_gather")
    return record.axes.has(MeshAxis::kShard) ? "weights that are cut for storage" : "an operation needs the whole";
  if (record.kind == "reduce_scatter") return rows ? "gradients, each to its part" : "sums, each to its part";
  if (record.kind == "all_to_all" && record.axes.has(MeshAxis::kExpert)) return "tokens go to their experts, or back";
  if (record.kind == "all_to_all") return "another dimension is to be cut";
  if (rows) return trains ? "gradients and losses of all rows" : "results of all rows";
  return "sums of products whose depth is cut";
}

void add_exchanges(const std::vector<CollectiveRecord>& records, bool trains, LayoutExplanation& to) {
  for (const CollectiveRecord& record : records) {
    const std::string axes = to_string(record.axes), why = reason_of(record, trains);
    auto found = std::find_if(to.exchanges.begin(), to.exchanges.end(), [&](const auto& known) {
      return known.kind == record.kind && known.axes == axes && known.why == why;
    });
    if (found == to.exchanges.end()) found = to.exchanges.insert(to.exchanges.end(), {record.kind, axes, why});
    ++found->count;
    found->bytes += record.bytes;
  }
  std::stable_sort(to.exchanges.begin(), to.exchanges.end(),
                   [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
}

// Of what is computed before the backward pass, the bytes that nodes of the backward pass read. What only moves
// elements counts as what it moves.
int64_t activation_bytes(const PipelinedBatch& batch) {
  const Graph graph = make_graph(batch.outputs);
  TensorSet held;
  int64_t bytes = 0;
  for (const std::shared_ptr<Node>& node : graph.nodes) {
    if (node->sequence < batch.backward_from) continue;
    for (Tensor input : node->inputs) {
      if (input.node()->sequence >= batch.backward_from) continue;
      while (input.node()->operation->moves_only && !input.node()->inputs.empty() &&
             !input.node()->computed(input.output()))
        input = input.node()->inputs[0];
      const Node& made = *input.node();
      if (is_input(made) || made.computed(input.output()) || made.inputs.empty()) continue;
      if (held.insert(input).second) bytes += bytes_of(input.type());
    }
  }
  return bytes;
}

// Loss, gradients and an update that has the placements of any optimizer's.
ShardedRequest update_of(const Model& model, const ModelSharding& sharding, const NamedTensors& inputs) {
  const Tensor key = Tensor::from(std::vector<int64_t>{42, 0}, {2});
  const Tensor loss = model.forward(inputs, {.training = true, .dropout_key = key, .return_loss = true}).find("loss");
  if (!loss.defined()) fail("{}: gives no loss for random inputs; use --task forward", model.architecture());
  ShardedRequest request;
  request.phases.backward_from = make_input({}).node()->sequence;
  std::vector<Tensor> values;
  for (const auto& parameter : model.parameters()) values.push_back(parameter->value);
  const std::vector<Tensor> found = gradients(loss, values);
  request.outputs.push_back({loss.detach(), std::nullopt});
  const NoGradient update;
  request.phases.update_from = make_input({}).node()->sequence;
  for (size_t i = 0; i < found.size(); ++i) {
    if (!found[i].defined()) continue;
    const Parameter& parameter = *model.parameters()[i];
    request.preferred.emplace_back(found[i], sharding.state_home_of(parameter));
    request.outputs.push_back({values[i] - found[i], sharding.home_of(parameter), sharding.stored_axes()});
  }
  return request;
}

}  // namespace

ShardingLayout parse_layout(const std::string& text) {
  ShardingLayout layout;
  bool has_stage = false;
  std::set<std::string> named;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const std::string word = text.substr(begin, end - begin);
    begin = end + 1;
    const size_t equals = word.find('=');
    int64_t number = 0;
    const char *first = word.data() + std::min(equals + 1, word.size()), *last = word.data() + word.size();
    const auto read = equals == word.npos ? std::from_chars_result{nullptr, std::errc::invalid_argument}
                                          : std::from_chars(first, last, number);
    const std::string name = word.substr(0, std::min(equals, word.size()));
    const bool stage = name == "zero", flag = name == "sp" || name == "ring";
    if (read.ec != std::errc() || read.ptr != last || number < (stage || flag ? 0 : 1) ||
        number > (stage  ? 3
                  : flag ? 1
                         : kMostRanks))
      fail(ErrorKind::kUsage, "--layout: expected sizes such as dp=2,fsdp=2,tp=2,zero=3, found {}", quoted(word));
    if (!named.insert(name).second) fail(ErrorKind::kUsage, "--layout: {} stands there twice", quoted(name));
    if (stage) {
      layout.zero_stage = static_cast<int>(number);
      has_stage = true;
      continue;
    }
    if (name == "sp") layout.sequence_parallel = number == 1;
    if (name == "ring" && number == 1) layout.context = ContextStrategy::kRing;
    if (flag) continue;
    const auto axis =
        std::find_if(kAllMeshAxes.begin(), kAllMeshAxes.end(), [&](MeshAxis each) { return name == name_of(each); });
    if (axis == kAllMeshAxes.end())
      fail(ErrorKind::kUsage, "--layout: expected pp, dp, fsdp, cp, ep, tp, zero, sp or ring, found {}", quoted(name));
    layout.set(*axis, number);
  }
  const bool shards = layout.size(MeshAxis::kShard) > 1;
  if (!has_stage && shards) layout.zero_stage = 3;
  if (layout.zero_stage > 0 && !shards)
    fail(ErrorKind::kUsage, "--layout: zero={} needs processes that share the state: fsdp=2 or more",
         layout.zero_stage);
  if (layout.sequence_parallel && layout.size(MeshAxis::kTensor) == 1)
    fail(ErrorKind::kUsage, "--layout: sp=1 needs processes that share layers: tp=2 or more");
  if (layout.context == ContextStrategy::kRing && layout.size(MeshAxis::kContext) == 1)
    fail(ErrorKind::kUsage, "--layout: ring=1 needs processes that share sequences: cp=2 or more");
  int64_t ranks = 1;
  for (const int64_t size : layout.sizes)
    if ((ranks *= size) > kMostRanks)
      fail(ErrorKind::kUsage, "--layout: expected at most {} processes, found {}", kMostRanks, text);
  return layout;
}

LayoutExplanation explain_layout(const BenchOptions& options, const ShardingLayout& layout) {
  if (options.task != "train" && options.task != "forward")
    fail(ErrorKind::kUsage, "--layout: expected --task forward or train, found {}", quoted(options.task));
  const bool trains = options.task == "train";
  LayoutExplanation result{.model = options.model, .task = options.task, .mesh = mesh_text(layout)};
  result.ranks = ranks_of(layout);
  result.zero_stage = layout.zero_stage;
  const std::unique_ptr<Model> model = load_model(options);
  if (trains)
    for (const auto& parameter : model->parameters()) parameter->value.set_requires_grad();
  const NamedTensors inputs = synthetic_inputs(*model, options, trains);
  const ModeScope traced(Mode::kLazy);
  ModelSharding sharding(*model, layout, 0, result.ranks);
  if (sharding.stages()) result.stages = sharding.stages()->describe();
  sharding.cut_rows(inputs);
  ShardedRequest request;
  if (trains) {
    request = update_of(*model, sharding, inputs);
  } else {
    const NoGradient inference;
    for (const auto& [name, tensor] : model->forward(inputs).items()) request.outputs.push_back({tensor, std::nullopt});
  }
  result.activations = activation_bytes(sharding.trace(std::move(request)).batch);
  add_exchanges(sharding.tensors().collectives(), trains, result);

  result.memory.resize(static_cast<size_t>(result.ranks));
  std::vector<ProcessMesh> meshes;
  for (int64_t rank = 0; rank < result.ranks; ++rank) meshes.emplace_back(layout.sizes, rank, result.ranks);
  for (const auto* group : {&model->parameters(), &model->frozen()})
    for (const auto& parameter : *group) {
      if (!parameter->value.defined()) continue;
      const Type type = parameter->value.type(), of_state{DType::kFloat32, type.shape};
      const Placement home = sharding.home_of(*parameter), state = sharding.state_home_of(*parameter);
      const int64_t stage = sharding.stages() ? sharding.stage_of(*parameter) : 0;
      result.parameters.push_back(
          {parameter->name, to_string(type), to_string(home, type.shape), to_string(state, type.shape), stage});
      for (size_t rank = 0; rank < meshes.size(); ++rank) {
        if (sharding.stages() && meshes[rank].coordinate(MeshAxis::kPipeline) != sharding.stages()->process_of(stage))
          continue;
        LayoutExplanation::Memory& memory = result.memory[rank];
        memory.parameters += bytes_at(meshes[rank], home, type);
        if (!trains || !parameter->value.requires_grad()) continue;
        memory.gradients += bytes_at(meshes[rank], layout.zero_stage >= 2 ? state : home, of_state);
        memory.optimizer += 2 * bytes_at(meshes[rank], state, of_state);
      }
    }
  return result;
}

std::string layout_table(const LayoutExplanation& e, size_t rows) {
  std::string text =
      fmt::format("{}: {} on {} processes, {}, ZeRO stage {}\n", e.model, e.task, e.ranks, e.mesh, e.zero_stage);
  for (size_t i = 0; i < e.stages.size(); ++i) text += fmt::format("stage {}: {}\n", i, e.stages[i]);
  text += fmt::format("\n{:<52} {:<22} {:>5}  {}\n", "PARAMETER", "TYPE", "STAGE", "PLACEMENT (OPTIMIZER'S STATE)");
  for (size_t i = 0; i < std::min(rows, e.parameters.size()); ++i) {
    const LayoutExplanation::Parameter& p = e.parameters[i];
    text += fmt::format("{:<52} {:<22} {:>5}  {}{}\n", p.name, p.type, p.stage, p.placement,
                        e.task == "train" && p.state != p.placement ? fmt::format(" ({})", p.state) : "");
  }
  if (e.parameters.size() > rows) text += fmt::format("... {} more (--rows, --json)\n", e.parameters.size() - rows);
  text += fmt::format("\n{:<16} {:<12} {:>7} {:>12}  {}\n", "COLLECTIVE", "OVER", "COUNT", "MB", "WHY");
  for (const LayoutExplanation::Exchange& x : e.exchanges)
    text += fmt::format("{:<16} {:<12} {:>7} {:>12.3f}  {}\n", x.kind, x.axes, x.count,
                        static_cast<double>(x.bytes) / 1e6, x.why);
  if (e.exchanges.empty()) text += "none\n";
  text += fmt::format("\n{:<6} {:>14} {:>14} {:>14} {:>14}\n", "RANK", "PARAMETERS MB", "GRADIENTS MB", "OPTIMIZER MB",
                      "TOTAL MB");
  const auto mb = [](int64_t bytes) { return static_cast<double>(bytes) / 1e6; };
  for (size_t rank = 0; rank < std::min<size_t>(e.memory.size(), 64); ++rank) {
    const LayoutExplanation::Memory& m = e.memory[rank];
    text += fmt::format("{:<6} {:>14.3f} {:>14.3f} {:>14.3f} {:>14.3f}\n", rank, mb(m.parameters), mb(m.gradients),
                        mb(m.optimizer), mb(m.total()));
  }
  if (e.activations > 0)
    text += fmt::format("\nRank 0 holds {:.3f} MB of activations from the forward to the backward pass.\n",
                        mb(e.activations));
  return text;
}

Json layout_json(const LayoutExplanation& e) {
  Json json{{"model", e.model}, {"task", e.task}, {"ranks", e.ranks}, {"mesh", e.mesh}, {"zero_stage", e.zero_stage}};
  json["stages"] = e.stages;
  json["parameters"] = Json::array();
  for (const LayoutExplanation::Parameter& p : e.parameters)
    json["parameters"].push_back({{"name", p.name},
                                  {"type", p.type},
                                  {"placement", p.placement},
                                  {"state_placement", p.state},
                                  {"stage", p.stage}});
  json["collectives"] = Json::array();
  for (const LayoutExplanation::Exchange& x : e.exchanges)
    json["collectives"].push_back(
        {{"kind", x.kind}, {"axes", x.axes}, {"why", x.why}, {"count", x.count}, {"bytes", x.bytes}});
  json["activations"] = e.activations;
  json["memory"] = Json::array();
  for (const LayoutExplanation::Memory& m : e.memory)
    json["memory"].push_back(
        {{"parameters", m.parameters}, {"gradients", m.gradients}, {"optimizer", m.optimizer}, {"total", m.total()}});
  return json;
}

}  // namespace transom
