// SPDX-License-Identifier: Apache-2.0
// The functions of cuDNN's backend interface (its "Graph API"), as far as a device backend calls them for attention. A
// descriptor is made, given attributes of the documented type and number, finalised when all that it needs is there,
// and changed no more; what it is made of must be finalised before. Statuses are those of cuDNN 9.19, which finalises
// some operations and graphs that are refused here, and finds no engine for them.
#if !defined(EMULATED_HIP)
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "cudnn_handle.h"
#include "graphs.h"
#include "live.h"

using namespace emulator;
using namespace emulator::graphs;

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {

enum DnnStatus {
  kDone = 0,
  kNotStarted = 1001,  // also: an attribute of what was not finalised
  kBadValue = 2000,
  kMisaligned = 2003,
  kBadType = 2010,
  kBadSort = 2012,
  kRefused = 3000,
  kFailed = 5000
};
enum Sort {
  kNone = -1,
  kOfPointwise = 0,
  kEngine = 2,
  kChoice = 3,
  kHeuristic = 4,
  kPlan = 5,
  kPointwiseOperation = 13,
  kGraph = 15,
  kPack = 16,
  kTensor = 17,
  kOfMatmul = 18,
  kMatmulOperation = 19,
  kOfReduction = 21,
  kReductionOperation = 22,
  kReshapeOperation = 31
};
enum Type {
  kHandleType = 0,
  kElementType = 1,
  kBoolType = 2,
  kNumberType = 3,
  kAddressType = 6,
  kModeType = 8,
  kNoteType = 11,
  kPointwiseType = 14,
  kDescriptorType = 15,
  kReductionType = 18
};

// Which attributes a sort has: their type, how many values, and what finalising needs.
struct Rule {
  int sort, attribute, type;
  int64_t least, most;
  bool needed;
};
constexpr int kMostExtents = 8, kMostMembers = 256;
constexpr Rule kRules[] = {
    {kTensor, 900, kNumberType, 1, 1, true},
    {kTensor, 901, kElementType, 1, 1, true},
    {kTensor, 902, kNumberType, 1, kMostExtents, true},
    {kTensor, 903, kNumberType, 1, kMostExtents, true},
    {kTensor, 906, kNumberType, 1, 1, true},
    {kTensor, 907, kBoolType, 1, 1, false},
    {kTensor, 908, kBoolType, 1, 1, false},
    {kOfPointwise, 0, kPointwiseType, 1, 1, true},
    {kOfPointwise, 1, kElementType, 1, 1, true},
    {kOfPointwise, 9, kNumberType, 1, 1, false},
    {kOfMatmul, 1500, kElementType, 1, 1, true},
    {kOfReduction, 1600, kReductionType, 1, 1, true},
    {kOfReduction, 1601, kElementType, 1, 1, true},
    {kPointwiseOperation, 750, kDescriptorType, 1, 1, true},
    {kPointwiseOperation, 751, kDescriptorType, 1, 1, true},
    {kPointwiseOperation, 752, kDescriptorType, 1, 1, false},
    {kPointwiseOperation, 753, kDescriptorType, 1, 1, true},
    {kPointwiseOperation, 758, kDescriptorType, 1, 1, false},
    {kMatmulOperation, 1520, kDescriptorType, 1, 1, true},
    {kMatmulOperation, 1521, kDescriptorType, 1, 1, true},
    {kMatmulOperation, 1522, kDescriptorType, 1, 1, true},
    {kMatmulOperation, 1523, kDescriptorType, 1, 1, true},
    {kReductionOperation, 1610, kDescriptorType, 1, 1, true},
    {kReductionOperation, 1611, kDescriptorType, 1, 1, true},
    {kReductionOperation, 1612, kDescriptorType, 1, 1, true},
    {kReshapeOperation, 2200, kDescriptorType, 1, 1, true},
    {kReshapeOperation, 2201, kDescriptorType, 1, 1, true},
    {kGraph, 800, kHandleType, 1, 1, false},
    {kGraph, 801, kDescriptorType, 1, kMostMembers, true},
    {kHeuristic, 200, kModeType, 1, 1, true},
    {kHeuristic, 201, kDescriptorType, 1, 1, true},
    {kPlan, 400, kHandleType, 1, 1, true},
    {kPlan, 401, kDescriptorType, 1, 1, true},
    {kPack, 1000, kNumberType, 1, kMostMembers, true},
    {kPack, 1001, kAddressType, 1, kMostMembers, true},
    {kPack, 1003, kAddressType, 1, 1, false},
};
size_t size_of(int type) {
  switch (type) {
    case kHandleType:
    case kNumberType:
    case kAddressType:
    case kDescriptorType:
      return 8;
    case kBoolType:
      return 1;
    default:
      return 4;
  }
}

constexpr int64_t kWorkspace = 4096;
constexpr int kNondeterministic = 4;  // a numerical note

struct Descriptor {
  int sort = -1;
  bool final = false;
  struct Values {
    int64_t count = 0;
    std::vector<std::byte> bytes;
  };
  std::map<int, Values> set;
  // What finalising made of them.
  std::shared_ptr<const emulator::graphs::Tensor> tensor;
  Operation operation;
  std::shared_ptr<const emulator::graphs::Graph> graph;  // also of an engine's choice and a plan
  bool varies = false;                                   // the engine's bits
  std::map<int64_t, void*> memory;
  void *handle = nullptr, *workspace = nullptr;

  template <typename T>
  std::vector<T> all(int attribute) const {
    const auto found = set.find(attribute);
    if (found == set.end()) return {};
    std::vector<T> values(static_cast<size_t>(found->second.count));
    std::memcpy(values.data(), found->second.bytes.data(), values.size() * sizeof(T));
    return values;
  }
  template <typename T>
  T one(int attribute, T otherwise = {}) const {
    const std::vector<T> values = all<T>(attribute);
    return values.empty() ? otherwise : values[0];
  }
};

constexpr size_t kMostLive = 16384;
Live<Descriptor>& live() {
  static Live<Descriptor> made{kMostLive};
  return made;
}
thread_local std::string last_error;

// What goes wrong on purpose: "refuse" or "fail", asked at each call.
bool at_fault(std::string_view kind) {
  const char* const chosen = std::getenv("TRANSOM_EMULATED_CUDNN_GRAPH");
  return chosen && kind == chosen;
}

int refuse(int status, const std::string& why) {
  last_error = why;
  say("cuDNN: " + why);
  return status;
}

// A finalised descriptor of the sort; null, with the status in `status`, where it is none.
Descriptor* part(void* handle, int sort, int& status) {
  Descriptor* const found = live().find(handle);
  if (!found) status = refuse(kBadValue, "a descriptor that does not live");
  else if (found->sort != sort) status = refuse(kBadSort, "a descriptor of another sort");
  else if (!found->final) status = refuse(kBadValue, "a descriptor that was not finalised");
  else return found;
  return nullptr;
}

int finalise_tensor(Descriptor& d) {
  auto tensor = std::make_shared<emulator::graphs::Tensor>();
  tensor->id = d.one<int64_t>(906);
  tensor->alignment = d.one<int64_t>(900);
  tensor->element = d.one<int>(901);
  tensor->extents = d.all<int64_t>(902), tensor->strides = d.all<int64_t>(903);
  tensor->inside = d.one<char>(907) != 0, tensor->by_value = d.one<char>(908) != 0;
  if (tensor->extents.size() != tensor->strides.size())
    return refuse(kBadValue, "extents and strides differ in number");
  for (size_t i = 0; i < tensor->extents.size(); ++i)
    if (tensor->extents[i] < 1 || tensor->strides[i] < 1) return refuse(kBadValue, "an extent or stride below 1");
  if (tensor->alignment < 1 || (tensor->alignment & (tensor->alignment - 1)) != 0)
    return refuse(kBadValue, "an alignment that is no power of two");
  const int element = tensor->element;
  if (element != kF32 && element != kF16 && element != kBf16 && element != kI32 && element != kBool)
    return refuse(kRefused, "an element type that this look-alike does not know");
  if (tensor->inside && tensor->by_value) return refuse(kBadValue, "a virtual tensor that is passed by value");
  if (tensor->by_value && tensor->count() != 1) return refuse(kBadValue, "more than one number is passed by value");
  d.tensor = tensor;
  return kDone;
}

int finalise_operation(Descriptor& d) {
  struct Places {
    Operation::Kind kind;
    int sort, of, x, b, t, y;  // sort kNone: of no further descriptor
  };
  constexpr std::pair<int, Places> kPlaces[] = {
      {kMatmulOperation, {Operation::kMatmul, kOfMatmul, 1523, 1520, 1521, 0, 1522}},
      {kPointwiseOperation, {Operation::kPointwise, kOfPointwise, 750, 751, 752, 758, 753}},
      {kReductionOperation, {Operation::kReduction, kOfReduction, 1612, 1610, 0, 0, 1611}},
      {kReshapeOperation, {Operation::kReshape, kNone, 0, 2200, 0, 0, 2201}}};
  const Places& places = std::find_if(std::begin(kPlaces), std::end(kPlaces), [&](const auto& one) {
                           return one.first == d.sort;
                         })->second;
  int status = kDone;
  const Descriptor* const of = places.sort == kNone ? nullptr : part(d.one<void*>(places.of), places.sort, status);
  if (status != kDone) return status;
  Operation& op = d.operation;
  op.kind = places.kind;
  if (op.kind == Operation::kMatmul) {
    op.computed = of->one<int>(1500);
  } else if (op.kind == Operation::kPointwise) {
    op.mode = of->one<int>(0), op.computed = of->one<int>(1), op.axis = of->one<int64_t>(9, -1);
  } else if (op.kind == Operation::kReduction) {
    op.mode = of->one<int>(1600), op.computed = of->one<int>(1601);
  }
  for (const auto& [attribute, to] :
       {std::pair{places.x, &op.x}, {places.b, &op.b}, {places.t, &op.t}, {places.y, &op.y}}) {
    if (attribute == 0 || !d.set.contains(attribute)) continue;
    const Descriptor* const tensor = part(d.one<void*>(attribute), kTensor, status);
    if (!tensor) return status;
    *to = tensor->tensor;
  }
  const std::string fault = op.fault();
  return fault.empty() ? kDone : refuse(kBadValue, fault);
}

int finalise_graph(Descriptor& d) {
  if (d.set.contains(800) && !is_cudnn_handle(d.one<void*>(800)))
    return refuse(kBadValue, "a handle that does not live");
  auto graph = std::make_shared<emulator::graphs::Graph>();
  for (void* one : d.all<void*>(801)) {
    const Descriptor* const operation = live().find(one);
    if (!operation || !operation->final) return refuse(kBadValue, "an operation that was not finalised");
    if (operation->sort != kMatmulOperation && operation->sort != kPointwiseOperation &&
        operation->sort != kReductionOperation && operation->sort != kReshapeOperation)
      return refuse(kBadSort, "a graph of what is no operation");
    graph->operations.push_back(operation->operation);
  }
  const std::string fault = graph->fault();
  if (!fault.empty()) return refuse(kBadValue, fault);
  d.graph = graph;
  return kDone;
}

int finalise_pack(Descriptor& d) {
  const std::vector<int64_t> ids = d.all<int64_t>(1000);
  const std::vector<void*> places = d.all<void*>(1001);
  if (ids.size() != places.size()) return refuse(kBadValue, "as many addresses as ids were expected");
  for (size_t i = 0; i < ids.size(); ++i)
    if (!d.memory.emplace(ids[i], places[i]).second) return refuse(kBadValue, "an id stands twice");
  d.workspace = d.one<void*>(1003);
  return kDone;
}

int finalise(Descriptor& d) {
  int status = kDone;
  for (const Rule& rule : kRules)
    if (rule.sort == d.sort && rule.needed && !d.set.contains(rule.attribute))
      return refuse(kBadValue, "attribute " + std::to_string(rule.attribute) + " was not set");
  switch (d.sort) {
    case kTensor:
      return finalise_tensor(d);
    case kPointwiseOperation:
    case kMatmulOperation:
    case kReductionOperation:
    case kReshapeOperation:
      return finalise_operation(d);
    case kGraph:
      return finalise_graph(d);
    case kPack:
      return finalise_pack(d);
    case kHeuristic: {
      const Descriptor* const graph = part(d.one<void*>(201), kGraph, status);
      if (!graph) return status;
      if (const int mode = d.one<int>(200); mode < 0 || mode > 3) return refuse(kBadValue, "a mode of heuristics");
      d.graph = graph->graph;
      return kDone;
    }
    case kPlan: {
      const Descriptor* const choice = part(d.one<void*>(401), kChoice, status);
      if (!choice) return status;
      d.handle = d.one<void*>(400);
      if (!is_cudnn_handle(d.handle)) return refuse(kBadValue, "a handle that does not live");
      d.graph = choice->graph, d.varies = choice->varies;
      return kDone;
    }
    case kOfPointwise:
    case kOfMatmul:
    case kOfReduction:
      return kDone;
    default:
      return refuse(kRefused, "a descriptor that only cuDNN itself finalises here");
  }
}

// What a finalised descriptor tells.
int tell(const Descriptor& d, int attribute, int type, int64_t asked, int64_t* count, void* values) {
  if (d.sort == kHeuristic && attribute == 202) {
    // The fastest engine varies.
    if (type != kDescriptorType) return refuse(kBadType, "results are descriptors");
    int64_t given = 0;
    const std::string refusal = at_fault("refuse") ? "a fault that was asked for" : d.graph->refusal();
    if (!refusal.empty()) {  // as cuDNN 9.19: no engine, and no error
      say("cuDNN has no engine: " + refusal);
      asked = 0;
    }
    for (const bool varies : {true, false}) {
      if (given == asked || (!varies && !d.graph->repeats())) break;
      void* place = nullptr;
      std::memcpy(&place, static_cast<char*>(values) + given * 8, 8);
      Descriptor* const choice = live().find(place);
      if (!choice || choice->sort != kChoice) return refuse(kBadSort, "results go to engine configurations");
      choice->graph = d.graph, choice->varies = varies, choice->final = true;
      ++given;
    }
    *count = given;
    return kDone;
  }
  if (d.sort == kChoice && attribute == 300) {
    if (type != kDescriptorType || asked < 1) return refuse(kBadType, "the engine is a descriptor");
    void* place = nullptr;
    std::memcpy(&place, values, 8);
    Descriptor* const engine = live().find(place);
    if (!engine || engine->sort != kEngine) return refuse(kBadSort, "an engine goes to an engine");
    engine->varies = d.varies, engine->final = true;
    *count = 1;
    return kDone;
  }
  if (d.sort == kEngine && attribute == 1303) {
    if (type != kNoteType) return refuse(kBadType, "notes are of their own type");
    *count = d.varies ? 1 : 0;
    if (d.varies && asked > 0) std::memcpy(values, &kNondeterministic, sizeof kNondeterministic);
    return kDone;
  }
  if (d.sort == kPlan && attribute == 402) {
    if (type != kNumberType || asked < 1) return refuse(kBadType, "the workspace is a number");
    std::memcpy(values, &kWorkspace, sizeof kWorkspace);
    *count = 1;
    return kDone;
  }
  return refuse(kRefused, "an attribute that this look-alike does not tell");
}

}  // namespace

EXPORT int cudnnBackendCreateDescriptor(int sort, void** to) {
  ENTER;
  if (!to) return kBadValue;
  for (const Rule& rule : kRules)
    if (rule.sort == sort || sort == kEngine || sort == kChoice) {
      Descriptor made;
      made.sort = sort;
      return live().make(to, std::move(made)) ? kDone : refuse(kBadValue, "too many descriptors live");
    }
  return refuse(kRefused, "a sort of descriptors that this look-alike does not know");
}
EXPORT int cudnnBackendDestroyDescriptor(void* one) { return live().destroy(one) ? kDone : kBadValue; }
EXPORT int cudnnBackendSetAttribute(void* one, int attribute, int type, int64_t count, const void* values) {
  ENTER;
  Descriptor* const d = live().find(one);
  if (!d || !values) return refuse(kBadValue, "no descriptor, or no values");
  if (d->final) return refuse(kBadValue, "an attribute was set after finalising");
  for (const Rule& rule : kRules) {
    if (rule.sort != d->sort || rule.attribute != attribute) continue;
    if (type != rule.type) return refuse(kBadType, "attribute " + std::to_string(attribute) + " has another type");
    if (count < rule.least || count > rule.most) return refuse(kBadValue, "a number of values that is none of it");
    Descriptor::Values& held = d->set[attribute];
    held.count = count;
    const auto* const bytes = static_cast<const std::byte*>(values);
    held.bytes.assign(bytes, bytes + static_cast<size_t>(count) * size_of(type));
    return kDone;
  }
  return refuse(kBadValue, "attribute " + std::to_string(attribute) + " is none of the descriptor");
}
EXPORT int cudnnBackendFinalize(void* one) {
  ENTER;
  Descriptor* const d = live().find(one);
  if (!d) return refuse(kBadValue, "a descriptor that does not live");
  if (d->final) return refuse(kBadValue, "a descriptor was finalised twice");
  const int status = finalise(*d);
  d->final = status == kDone;
  return status;
}
EXPORT int cudnnBackendGetAttribute(void* one, int attribute, int type, int64_t asked, int64_t* count, void* values) {
  ENTER;
  const Descriptor* const d = live().find(one);
  if (!d || !count || asked < 0 || (asked > 0 && !values)) return refuse(kBadValue, "no descriptor, or no place");
  if (!d->final) return refuse(kNotStarted, "an attribute of what was not finalised");
  return tell(*d, attribute, type, asked, count, values);
}
EXPORT int cudnnBackendExecute(void* handle, void* plan_place, void* pack_place) {
  ENTER;
  int status = kDone;
  const Descriptor* const plan = part(plan_place, kPlan, status);
  const Descriptor* const pack = plan ? part(pack_place, kPack, status) : nullptr;
  if (!pack) return status;
  if (plan->handle != handle) return refuse(kBadValue, "a plan of another handle");
  if (at_fault("fail")) return refuse(kFailed, "a fault that was asked for");
  auto* const stream = static_cast<Stream*>(stream_of_cudnn_handle(handle));
  if (!gpu.streams.contains(stream)) return refuse(kBadValue, "a stream that does not live");
  const std::shared_ptr<const emulator::graphs::Graph> graph = plan->graph;
  std::map<int64_t, void*> memory;
  auto numbers = std::make_shared<std::map<int64_t, float>>();  // passed by value: read now
  for (const auto& [id, tensor] : graph->outside) {
    const auto found = pack->memory.find(id);
    if (found == pack->memory.end() || !found->second) return refuse(kBadValue, "a tensor without an address");
    if (tensor->by_value) {
      memory[id] = &((*numbers)[id] = *static_cast<const float*>(found->second));
      continue;
    }
    if (reinterpret_cast<uintptr_t>(found->second) % static_cast<uint64_t>(tensor->alignment) != 0)
      return refuse(kMisaligned, "an address that is less aligned than was promised");
    memory[id] = found->second;
  }
  if (pack->memory.size() != graph->outside.size()) return refuse(kBadValue, "an address of no tensor of the graph");
  void* const workspace = pack->workspace;
  const auto inside = [=, &gpu = gpu] {
    for (const auto& [id, tensor] : graph->outside)
      if (!tensor->by_value && !gpu.has(memory.at(id), static_cast<size_t>(tensor->bytes()))) return false;
    return gpu.has(workspace, kWorkspace);
  };
  if (!inside()) return refuse(kBadValue, "memory outside of an allocation, or a workspace that is too small");
  const bool varies = plan->varies;
  const auto work = [=, &gpu = gpu]() -> int {
    if (!inside()) return gpu.lose(kIllegalAddress, "attention reads outside of memory");
    std::memset(workspace, 0xFF, kWorkspace);  // nobody may count on what lies there
    (void)numbers;                             // `memory` points to them
    graph->compute(memory, varies);
    return kSuccess;
  };
  return gpu.enqueue(stream, {work, nullptr}) == kSuccess ? kDone : kFailed;
}
EXPORT void cudnnGetLastErrorString(char* to, size_t bytes) {
  if (!to || bytes == 0) return;
  std::strncpy(to, last_error.c_str(), bytes - 1);
  to[bytes - 1] = 0;
  last_error.clear();
}
#endif
