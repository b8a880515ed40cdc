// SPDX-License-Identifier: Apache-2.0
// Executables as bytes: the graph's variables and vertices, the phases of each program with their steps, and what the
// tiles hold. What several variables, tensors or phases share is stored once. Everything that comes back is checked
// before it is used: a file may be cut off, or not be one of ours.
#include <algorithm>
#include <istream>
#include <iterator>
#include <ostream>
#include <unordered_map>

#include "simulator/compile.h"
#include "simulator/kernels.h"

namespace ipu_emulator {
namespace {

constexpr std::string_view kMagic = "poplar look-alike executable 1\n";
constexpr uint64_t kMostElements = uint64_t{1} << 40;  // of a variable
constexpr uint64_t kMostPlaces = uint64_t{1} << 26;    // of a list of places
constexpr size_t kMostRank = 64;

// A number for each object that is shared, in the order in which they come.
template <typename T>
class Shared {
 public:
  std::vector<const T*> all;
  uint64_t of(const T* object) {
    const auto [place, is_new] = numbers_.try_emplace(object, all.size());
    if (is_new) all.push_back(object);
    return place->second;
  }

 private:
  std::unordered_map<const T*, uint64_t> numbers_;
};

class Storing {
 public:
  std::string store(const Compiled& compiled) {
    const GraphState& graph = *compiled.graph;
    Writer body;  // behind the tables of what is shared
    body.number(graph.replicas);
    body.number(graph.variables.size());
    for (const Variable& variable : graph.variables) {
      body.text(variable.name);
      body.type(variable.type);
      body.number(variable.elements);
      body.number(runs_.of(variable.runs.get()));
      body.text({reinterpret_cast<const char*>(variable.constant.data()), variable.constant.size()});
      body.number(variable.spread_values);
    }
    body.number(graph.vertices.size());
    for (const Vertex& vertex : graph.vertices) store_vertex(vertex, body);
    body.number(graph.compute_sets.size());
    for (const auto& set : graph.compute_sets) {
      body.text(set.name);
      body.numbers(set.vertices);
    }
    body.number(graph.streams.size());
    for (const auto& [handle, stream] : graph.streams) {
      body.text(handle);
      body.type(stream.elementType());
      body.number(stream.numElements());
      body.number(stream.toDevice());
    }
    body.number(graph.remote_buffers.size());
    for (const auto& [handle, buffer] : graph.remote_buffers) {
      body.text(handle);
      body.type(buffer.elementType());
      body.number(buffer.numElements());
      body.number(buffer.getRepeats());
    }
    Shared<Step> steps;
    for (const auto& phases : compiled.programs)
      for (const Phase& phase : phases) steps.of(phase.step.get());
    body.number(steps.all.size());
    for (const Step* step : steps.all) store_step(*step, body);
    body.number(compiled.programs.size());
    for (const auto& phases : compiled.programs) {
      body.number(phases.size());
      for (const Phase& phase : phases) {
        body.number(steps.of(phase.step.get()));
        body.text(phase.name == phase.step->name ? "" : phase.name);
        for (const uint64_t value :
             {phase.times, uint64_t{phase.repeat}, phase.compute, phase.exchange, phase.sync, phase.host, phase.link,
              uint64_t{phase.ipu}, phase.busy, phase.received, uint64_t{phase.tiles}, uint64_t{phase.first_tile}})
          body.number(value);
        body.numbers(phase.born);
        body.numbers(phase.dead);
      }
    }
    for (const TileMemory& tile : compiled.tiles)
      for (const uint64_t value : {tile.always_live, tile.temporary, tile.code, tile.exchange_code}) body.number(value);

    Writer whole;
    whole.bytes = kMagic;
    whole.text(graph.target.getTargetArchString());
    whole.number(graph.target.getNumIPUs());
    whole.number(graph.target.getTilesPerIPU());
    whole.number(runs_.all.size());
    for (const auto* runs : runs_.all) store_runs(*runs, whole);
    whole.number(places_.all.size());
    for (const auto* places : places_.all) store_places(*places, whole);
    whole.text(body.bytes);
    return std::move(whole.bytes);
  }

 private:
  static void store_runs(const std::vector<Run>& runs, Writer& to) {
    to.number(runs.size());
    uint64_t at = 0;
    int64_t tile = 0;
    for (const Run& run : runs) {
      to.signed_number(static_cast<int64_t>(run.begin - at));
      to.number(run.end - run.begin);
      const int64_t its = run.tile == kNoTile ? -1 : static_cast<int64_t>(run.tile);
      to.signed_number(its - tile);
      to.number(run.repeated);
      at = run.end, tile = its;
    }
  }

  static void store_places(const std::vector<Place>& places, Writer& to) {
    to.number(places.size());
    for (size_t i = 0; i < places.size();) {
      size_t count = 1;
      int64_t step = 1;
      for (; i + count < places.size(); ++count) {
        const Place& next = places[i + count];
        const auto here = static_cast<int64_t>(next.element - places[i].element);
        if (count == 1) step = here;
        if (next.variable != places[i].variable || here != step * static_cast<int64_t>(count)) break;
      }
      to.number(places[i].variable);
      to.number(places[i].element);
      to.number(count);
      if (count > 1) to.signed_number(step);
      i += count;
    }
  }

  void store_tensor(const poplar::Tensor& tensor, Writer& to) {
    const View& view = tensor.view();
    to.type(view.type);
    to.numbers(view.shape);
    for (const int64_t stride : view.strides) to.signed_number(stride);
    to.signed_number(view.offset);
    to.number(view.places ? 1 + places_.of(view.places.get()) : 0);
    to.number(view.variable);
  }

  void store_vertex(const Vertex& vertex, Writer& to) {
    to.text(vertex.codelet->name);
    to.number(vertex.tile);
    to.number(vertex.cycles);
    to.number(vertex.tensors.size());
    for (const auto& [name, tensor] : vertex.tensors) {
      to.text(name);
      store_tensor(tensor, to);
    }
    to.number(vertex.values.size());
    for (const auto& [name, value] : vertex.values) {
      to.text(name);
      to.real(value.real);
      to.signed_number(value.integer);
    }
  }

  void store_step(const Step& step, Writer& to) {
    to.number(static_cast<uint64_t>(step.kind));
    to.text(step.name);
    to.number(step.compute_set);
    to.text(step.handle);
    to.text(step.codelet);
    to.text(step.kernel);
    to.text(step.parameters);
    to.number(step.flops);
    to.number(step.replica_bytes);
    for (const auto* tensors : {&step.reads, &step.writes, &step.updates}) {
      to.number(tensors->size());
      for (const poplar::Tensor& tensor : *tensors) store_tensor(tensor, to);
    }
    // Neighbours that do the same are many.
    to.number(step.work.size());
    for (size_t i = 0; i < step.work.size();) {
      const TileWork& first = step.work[i];
      size_t count = 1;
      while (i + count < step.work.size()) {
        const TileWork& next = step.work[i + count];
        if (next.tile != first.tile + count || next.cycles != first.cycles || next.received != first.received ||
            next.temporary != first.temporary || next.vertices != first.vertices)
          break;
        ++count;
      }
      for (const uint64_t value : {uint64_t{count}, uint64_t{first.tile}, first.cycles, first.received, first.temporary,
                                   uint64_t{first.vertices}})
        to.number(value);
      i += count;
    }
  }

  Shared<std::vector<Run>> runs_;
  Shared<std::vector<Place>> places_;
};

class Loading {
 public:
  explicit Loading(std::string_view bytes) : bytes_(bytes) {}

  std::shared_ptr<const Compiled> load() {
    Reader::expect(bytes_.starts_with(kMagic), "the first line of one");
    Reader whole(bytes_.substr(kMagic.size()));
    const std::string arch = whole.text();
    const auto ipus = static_cast<unsigned>(whole.number(1024)), tiles = static_cast<unsigned>(whole.number(1472));
    graph_->target = poplar::Target::createIPUTarget(ipus, tiles, arch);
    tiles_ = graph_->target.getNumTiles();
    runs_.resize(whole.count());
    for (auto& runs : runs_) runs = load_runs(whole);
    places_.resize(whole.count());
    for (auto& places : places_) places = load_places(whole);
    const std::string body_bytes = whole.text();
    Reader::expect(whole.left() == 0, "nothing behind its end");
    Reader body(body_bytes);
    load_graph(body);
    auto compiled = std::make_shared<Compiled>();
    compiled->graph = graph_;
    std::vector<std::shared_ptr<const Step>> steps(body.count());
    for (auto& step : steps) step = load_step(body);
    compiled->programs.resize(body.count());
    for (auto& phases : compiled->programs) {
      phases.resize(body.count());
      for (Phase& phase : phases) load_phase(body, steps, phase);
    }
    compiled->tiles.resize(tiles_);
    for (TileMemory& tile : compiled->tiles)
      for (uint64_t* value : {&tile.always_live, &tile.temporary, &tile.code, &tile.exchange_code})
        *value = body.number();
    Reader::expect(body.left() == 0, "nothing behind its end");
    return compiled;
  }

 private:
  std::shared_ptr<const std::vector<Run>> load_runs(Reader& from) const {
    auto runs = std::make_shared<std::vector<Run>>(from.count());
    uint64_t at = 0;
    int64_t tile = 0;
    for (Run& run : *runs) {
      run.begin = at + static_cast<uint64_t>(from.signed_number());
      Reader::expect(run.begin >= at && run.begin <= kMostElements, "runs of a variable in order");
      run.end = run.begin + from.number(kMostElements);
      const int64_t its = tile + std::clamp<int64_t>(from.signed_number(), -(1 << 30), 1 << 30);
      Reader::expect(its == -1 || (its >= 0 && its < static_cast<int64_t>(tiles_)), "a tile of the machine");
      run.tile = its == -1 ? kNoTile : static_cast<uint32_t>(its);
      run.repeated = from.number(1) != 0;
      at = run.end, tile = its;
    }
    return runs;
  }

  static std::shared_ptr<const std::vector<Place>> load_places(Reader& from) {
    const uint64_t size = from.number(kMostPlaces);
    auto places = std::make_shared<std::vector<Place>>();
    while (places->size() < size) {
      const auto variable = static_cast<uint32_t>(from.number(UINT32_MAX));
      uint64_t element = from.number(kMostElements);
      const uint64_t count = from.number(size - places->size());
      Reader::expect(count > 0, "places in runs");
      const int64_t step = count > 1 ? from.signed_number() : 0;
      for (uint64_t i = 0; i < count; ++i, element += static_cast<uint64_t>(step))
        places->push_back({variable, element});
    }
    return places;
  }

  void load_graph(Reader& from) {
    graph_->replicas = static_cast<unsigned>(from.number(1 << 20));
    Reader::expect(graph_->replicas > 0, "a replica");
    graph_->variables.resize(from.count());
    for (Variable& variable : graph_->variables) {
      variable.name = from.text();
      variable.type = from.type();
      variable.elements = from.number(kMostElements);
      variable.runs = runs_.at(index(from, runs_.size()));
      const std::string constant = from.text();
      variable.constant.resize(constant.size());
      std::transform(constant.begin(), constant.end(), variable.constant.begin(),
                     [](char c) { return static_cast<std::byte>(c); });
      variable.spread_values = from.number(1) != 0;
      Reader::expect(constant.empty() || constant.size() >= (variable.spread_values ? 8 : variable.bytes()),
                     "the value of a constant");
      Reader::expect(!variable.spread_values || !constant.empty(), "the value of a constant");
      Reader::expect(variable.runs->empty() || variable.runs->back().end <= variable.elements,
                     "runs within their variable");
    }
    check_places();
    graph_->vertices.resize(from.count());
    for (Vertex& vertex : graph_->vertices) load_vertex(from, vertex);
    graph_->compute_sets.resize(from.count());
    for (auto& set : graph_->compute_sets) {
      set.name = from.text();
      set.vertices = from.numbers<uint32_t>();
      for (const uint32_t vertex : set.vertices)
        Reader::expect(vertex < graph_->vertices.size(), "a vertex of the graph");
    }
    for (size_t left = from.count(); left > 0; --left) {
      const std::string handle = from.text();
      const poplar::Type type = from.type();
      const size_t elements = from.number(kMostElements);
      graph_->streams[handle] = {handle, type, elements, from.number(1) != 0};
    }
    for (size_t left = from.count(); left > 0; --left) {
      const std::string handle = from.text();
      const poplar::Type type = from.type();
      const size_t elements = from.number(kMostElements), repeats = from.number(kMostElements);
      Reader::expect(repeats > 0 && elements < kMostElements / repeats, "a remote buffer within reason");
      graph_->remote_buffers[handle] = {handle, type, elements, repeats};
    }
  }

  static size_t index(Reader& from, size_t count) {
    const size_t value = from.number();
    Reader::expect(value < count, "something that is there");
    return value;
  }

  void check_places() const {
    for (const auto& places : places_)
      for (const Place& place : *places)
        Reader::expect(
            place.variable < graph_->variables.size() && place.element < graph_->variables[place.variable].elements,
            "a place of a variable");
  }

  poplar::Tensor load_tensor(Reader& from) const {
    View view;
    view.graph = graph_;
    view.type = from.type();
    view.shape = from.numbers<size_t>();
    Reader::expect(view.shape.size() <= kMostRank, "a tensor of fewer dimensions");
    for (size_t i = 0; i < view.shape.size(); ++i) view.strides.push_back(from.signed_number());
    view.offset = from.signed_number();
    const size_t list = index(from, places_.size() + 1);
    view.variable = static_cast<uint32_t>(from.number(UINT32_MAX));
    if (list) view.places = places_[list - 1];
    WideInteger first = view.offset, last = view.offset, elements = 1;
    for (size_t i = 0; i < view.shape.size(); ++i) {
      elements *= view.shape[i];
      Reader::expect(elements <= kMostElements, "a tensor within reason");
      if (view.shape[i] == 0) continue;
      const WideInteger span = static_cast<WideInteger>(view.strides[i]) * static_cast<WideInteger>(view.shape[i] - 1);
      (span < 0 ? first : last) += span;
    }
    if (!view.places) {
      Reader::expect(view.variable < graph_->variables.size() && graph_->variables[view.variable].type == view.type,
                     "a variable of the tensor's type");
    } else if (!view.places->empty()) {
      for (const Place& place : *view.places)
        Reader::expect(graph_->variables[place.variable].type == view.type, "places of the tensor's type");
    }
    const WideInteger there = view.places ? view.places->size() : graph_->variables[view.variable].elements;
    Reader::expect(elements == 0 || (first >= 0 && last < there), "a tensor within its variable");
    return poplar::Tensor(std::move(view));
  }

  void load_vertex(Reader& from, Vertex& vertex) const {
    const auto found = codelets().find(from.text());
    Reader::expect(found != codelets().end(), "a codelet that was added");
    vertex.codelet = &found->second;
    vertex.tile = static_cast<uint32_t>(index(from, tiles_));
    vertex.cycles = from.number();
    for (size_t left = from.count(); left > 0; --left) {
      const std::string name = from.text();
      vertex.tensors[name] = load_tensor(from);
    }
    for (size_t left = from.count(); left > 0; --left) {
      const std::string name = from.text();
      const double real = from.real();
      vertex.values[name] = {real, from.signed_number()};
    }
    for (const CodeletField& field : vertex.codelet->fields) {
      if (field.direction == Direction::kValue) {
        Reader::expect(vertex.values.count(field.name), "the values of a vertex");
        continue;
      }
      const auto tensor = vertex.tensors.find(field.name);
      Reader::expect(tensor != vertex.tensors.end() && tensor->second.elementType() == field.type,
                     "the tensors of a vertex");
    }
  }

  std::shared_ptr<const Step> load_step(Reader& from) const {
    auto step = std::make_shared<Step>();
    step->kind = static_cast<Step::Kind>(from.number(static_cast<uint64_t>(Step::Kind::kUndef)));
    step->name = from.text();
    step->compute_set = static_cast<unsigned>(from.number(UINT32_MAX));
    step->handle = from.text();
    step->codelet = from.text();
    step->kernel = from.text();
    step->parameters = from.text();
    step->flops = from.number();
    step->replica_bytes = from.number();
    for (auto* tensors : {&step->reads, &step->writes, &step->updates})
      for (size_t left = from.count(); left > 0; --left) tensors->push_back(load_tensor(from));
    const size_t tiles = from.number(tiles_);
    while (step->work.size() < tiles) {
      const uint64_t count = from.number(tiles - step->work.size()), tile = from.number(tiles_);
      Reader::expect(count > 0 && count <= tiles_ - tile, "work of tiles of the machine");
      TileWork work;
      for (uint64_t* value : {&work.cycles, &work.received, &work.temporary}) *value = from.number();
      work.vertices = static_cast<uint32_t>(from.number(UINT32_MAX));
      for (uint64_t i = 0; i < count; ++i) {
        work.tile = static_cast<uint32_t>(tile + i);
        step->work.push_back(work);
      }
    }
    check_step(*step);
    if (step->kind == Step::Kind::kOperation || step->kind == Step::Kind::kCopy) step->run = kernel_of(*step);
    return step;
  }

  // Steps without a kernel.
  void check_step(const Step& step) const {
    const auto moves = [&](bool in, poplar::Type type, size_t elements) {
      const auto& tensors = in ? step.writes : step.reads;
      Reader::expect(tensors.size() == 1 && tensors[0].elementType() == type && tensors[0].numElements() == elements,
                     "a tensor of the stream's type and size");
    };
    switch (step.kind) {
      case Step::Kind::kExecute:
        return Reader::expect(step.compute_set < graph_->compute_sets.size(), "a compute set of the graph");
      case Step::Kind::kStreamIn:
      case Step::Kind::kStreamOut: {
        const auto found = graph_->streams.find(step.handle);
        const bool in = step.kind == Step::Kind::kStreamIn;
        Reader::expect(found != graph_->streams.end() && found->second.toDevice() == in, "a stream of the graph");
        return moves(in, found->second.elementType(), found->second.numElements());
      }
      case Step::Kind::kRemoteIn:
      case Step::Kind::kRemoteOut: {
        const auto found = graph_->remote_buffers.find(step.handle);
        Reader::expect(found != graph_->remote_buffers.end(), "a remote buffer of the graph");
        return moves(step.kind == Step::Kind::kRemoteIn, found->second.elementType(), found->second.numElements());
      }
      case Step::Kind::kSequence:
      case Step::Kind::kRepeat:
        Reader::refuse("steps without others within them");
      default:
        return;
    }
  }

  void load_phase(Reader& from, const std::vector<std::shared_ptr<const Step>>& steps, Phase& phase) const {
    phase.step = steps[index(from, steps.size())];
    phase.name = from.text();
    if (phase.name.empty()) phase.name = phase.step->name;
    phase.times = from.number();
    phase.repeat = static_cast<uint32_t>(from.number(UINT32_MAX));
    for (uint64_t* value : {&phase.compute, &phase.exchange, &phase.sync, &phase.host, &phase.link})
      *value = from.number();
    phase.ipu = static_cast<uint32_t>(index(from, graph_->target.getNumIPUs()));
    phase.busy = from.number();
    phase.received = from.number();
    phase.tiles = static_cast<uint32_t>(from.number(tiles_));
    phase.first_tile = static_cast<uint32_t>(from.number(UINT32_MAX));
    for (auto* variables : {&phase.born, &phase.dead}) {
      *variables = from.numbers<uint32_t>();
      for (const uint32_t variable : *variables)
        Reader::expect(variable < graph_->variables.size(), "a variable of the graph");
    }
  }

  std::string_view bytes_;
  std::shared_ptr<GraphState> graph_ = std::make_shared<GraphState>();
  unsigned tiles_ = 0;
  std::vector<std::shared_ptr<const std::vector<Run>>> runs_;
  std::vector<std::shared_ptr<const std::vector<Place>>> places_;
};

}  // namespace
}  // namespace ipu_emulator

namespace poplar {

void Executable::serialize(std::ostream& out) const {
  const std::string bytes = ipu_emulator::Storing().store(*compiled_);
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  if (!out) throw poplar_error("executable: expected room for " + std::to_string(bytes.size()) + " bytes");
}

Executable Executable::deserialize(std::istream& in) {
  const std::string bytes{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  return Executable(ipu_emulator::Loading(bytes).load());
}

}  // namespace poplar
