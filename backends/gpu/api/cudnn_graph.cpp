// SPDX-License-Identifier: Apache-2.0
#include "gpu/api/cudnn_graph.h"

#include <string>
#include <utility>

#include "transom/plugin/error.h"

namespace transom::gpu {
namespace {

// Numbers of cudnn_graph.h: descriptors, types of attributes, attributes.
enum { kPointwise = 0, kEngine = 2, kChoice = 3, kHeuristic = 4, kPlan = 5, kPointwiseOperation = 13, kGraph = 15 };
enum { kPack = 16, kTensor = 17, kMatmul = 18, kMatmulOperation = 19, kReduction = 21, kReductionOperation = 22 };
enum { kHandleType = 0, kElementType = 1, kBoolType = 2, kI64Type = 3, kAddressType = 6, kHeuristicModeType = 8 };
enum { kNoteType = 11, kPointwiseModeType = 14, kDescriptorType = 15, kReductionModeType = 18 };
enum { kPointwiseMode = 0, kPointwisePrecision = 1, kPointwiseAxis = 9 };
enum { kHeuristicMode = 200, kHeuristicGraph = 201, kHeuristicResults = 202, kChoiceEngine = 300 };
enum { kPlanHandle = 400, kPlanChoice = 401, kPlanWorkspace = 402 };
enum { kOfPointwise = 750, kPointwiseX = 751, kPointwiseB = 752, kPointwiseY = 753, kPointwiseT = 758 };
enum { kGraphHandle = 800, kGraphOperations = 801 };
enum { kAlignment = 900, kElement = 901, kExtents = 902, kStrides = 903, kId = 906, kVirtual = 907, kByValue = 908 };
enum { kPackIds = 1000, kPackAddresses = 1001, kPackWorkspace = 1003, kEngineNotes = 1303 };
enum { kMatmulPrecision = 1500, kMatmulA = 1520, kMatmulB = 1521, kMatmulC = 1522, kOfMatmul = 1523 };
enum { kReductionMode = 1600, kReductionPrecision = 1601, kReductionX = 1610, kReductionY = 1611, kOfReduction = 1612 };
enum { kReshapeOperation = 31, kReshapeX = 2200, kReshapeY = 2201 };
enum { kGenerateIndex = 501, kSelect = 601 };                 // of pointwise operations
enum { kModeA = 3, kModeFallback = 2 };                       // of heuristics
enum { kOtherBits = 4, kMostNotes = 32, kMostChoices = 16 };  // of an engine's numerical notes
constexpr int64_t kAlignedBytes = 16;

CudnnDescriptor described(const CudnnFunctions& call, int type) {
  void* made = nullptr;
  call.check(call.BackendCreateDescriptor(type, &made), "BackendCreateDescriptor");
  return {made, call.BackendDestroyDescriptor};
}

template <typename T>
void set(const CudnnFunctions& call, void* to, int attribute, int type, const T* values, size_t count = 1) {
  call.check(call.BackendSetAttribute(to, attribute, type, static_cast<int64_t>(count), values), "BackendSetAttribute");
}

void finalise(const CudnnFunctions& call, void* what) { call.check(call.BackendFinalize(what), "BackendFinalize"); }

// Whether the engine of a choice says that its bits vary.
bool varies(const CudnnFunctions& call, void* choice) {
  const CudnnDescriptor engine = described(call, kEngine);
  void* to = engine.get();
  int64_t count = 0;
  call.check(call.BackendGetAttribute(choice, kChoiceEngine, kDescriptorType, 1, &count, &to), "BackendGetAttribute");
  int notes[kMostNotes] = {};
  count = 0;
  call.check(call.BackendGetAttribute(to, kEngineNotes, kNoteType, kMostNotes, &count, notes), "BackendGetAttribute");
  for (int64_t i = 0; i < count && i < kMostNotes; ++i)
    if (notes[i] == kOtherBits) return true;
  return false;
}

}  // namespace

CudnnFunctions::CudnnFunctions(const SharedLibrary& library) {
#define X(name, parameters) this->name = reinterpret_cast<int(*) parameters>(library.expect("cudnn" #name));
  TRANSOM_CUDNN_GRAPH_FUNCTIONS(X)
#undef X
  last_error = reinterpret_cast<void (*)(char*, size_t)>(library.find("cudnnGetLastErrorString"));
}

void CudnnFunctions::check(int status, const char* what) const {
  if (status == 0) return;
  char words[512] = "";
  if (last_error) last_error(words, sizeof words);
  words[sizeof words - 1] = 0;
  backend::fail(TRANSOM_UNSUPPORTED, "cudnn{} gave status {}{}{}", what, status, words[0] ? ": " : "", words);
}

CudnnDescriptor CudnnGraph::made(int type) { return described(call_, type); }

void* CudnnGraph::tensor(int64_t id, Element element, const CudnnExtents& extents, const CudnnExtents& strides,
                         Memory memory) {
  CudnnDescriptor description = made(kTensor);
  void* const to = description.get();
  const int type = static_cast<int>(element);
  const bool inside = memory == Memory::kNone, by_value = memory == Memory::kHost;
  set(call_, to, kElement, kElementType, &type);
  set(call_, to, kExtents, kI64Type, extents.data(), extents.size());
  set(call_, to, kStrides, kI64Type, strides.data(), strides.size());
  set(call_, to, kId, kI64Type, &id);
  set(call_, to, kAlignment, kI64Type, &kAlignedBytes);
  set(call_, to, kVirtual, kBoolType, &inside);
  set(call_, to, kByValue, kBoolType, &by_value);
  finalise(call_, to);
  kept_.push_back(std::move(description));
  return to;
}

void* CudnnGraph::inside(Element element, const CudnnExtents& extents) {
  const auto& [a, b, c, d] = extents;
  return inside(element, extents, {b * c * d, c * d, d, 1});
}

void* CudnnGraph::inside(Element element, const CudnnExtents& extents, const CudnnExtents& strides) {
  return tensor(next_inside_++, element, extents, strides, Memory::kNone);
}

void* CudnnGraph::operation(int type, std::vector<std::pair<int, void*>> parts) {
  CudnnDescriptor description = made(type);
  void* const to = description.get();
  for (const auto& [attribute, part] : parts)
    if (part) set(call_, to, attribute, kDescriptorType, &part);
  finalise(call_, to);
  kept_.push_back(std::move(description));
  operations_.push_back(to);
  return to;
}

void* CudnnGraph::operation(int type, int kind_attribute, CudnnDescriptor kind,
                            std::vector<std::pair<int, void*>> tensors) {
  finalise(call_, kind.get());
  tensors.insert(tensors.begin(), {kind_attribute, kind.get()});
  kept_.push_back(std::move(kind));
  return operation(type, std::move(tensors));
}

CudnnDescriptor CudnnGraph::pointwise_description(int mode, Element computed) {
  CudnnDescriptor description = made(kPointwise);
  const int precision = static_cast<int>(computed);
  set(call_, description.get(), kPointwiseMode, kPointwiseModeType, &mode);
  set(call_, description.get(), kPointwisePrecision, kElementType, &precision);
  return description;
}

void CudnnGraph::multiply(void* a, void* b, void* c) {
  CudnnDescriptor kind = made(kMatmul);
  const int precision = static_cast<int>(Element::kF32);
  set(call_, kind.get(), kMatmulPrecision, kElementType, &precision);
  operation(kMatmulOperation, kOfMatmul, std::move(kind), {{kMatmulA, a}, {kMatmulB, b}, {kMatmulC, c}});
}

void CudnnGraph::pointwise(Pointwise mode, void* x, void* y, void* to) {
  const Element computed = mode == Pointwise::kAtLeast ? Element::kBool : Element::kF32;
  operation(kPointwiseOperation, kOfPointwise, pointwise_description(static_cast<int>(mode), computed),
            {{kPointwiseX, x}, {kPointwiseB, y}, {kPointwiseY, to}});
}

void CudnnGraph::index(int64_t axis, void* like, void* to) {
  CudnnDescriptor kind = pointwise_description(kGenerateIndex, Element::kI32);
  set(call_, kind.get(), kPointwiseAxis, kI64Type, &axis);
  operation(kPointwiseOperation, kOfPointwise, std::move(kind), {{kPointwiseX, like}, {kPointwiseY, to}});
}

void CudnnGraph::select(void* condition, void* x, void* otherwise, void* to) {
  operation(kPointwiseOperation, kOfPointwise, pointwise_description(kSelect, Element::kF32),
            {{kPointwiseX, x}, {kPointwiseB, otherwise}, {kPointwiseT, condition}, {kPointwiseY, to}});
}

void CudnnGraph::reduce(Reduction mode, void* x, void* to) {
  CudnnDescriptor kind = made(kReduction);
  const int operator_of = static_cast<int>(mode), precision = static_cast<int>(Element::kF32);
  set(call_, kind.get(), kReductionMode, kReductionModeType, &operator_of);
  set(call_, kind.get(), kReductionPrecision, kElementType, &precision);
  operation(kReductionOperation, kOfReduction, std::move(kind), {{kReductionX, x}, {kReductionY, to}});
}

void CudnnGraph::reshape(void* x, void* to) { operation(kReshapeOperation, {{kReshapeX, x}, {kReshapeY, to}}); }

CudnnDescriptor CudnnGraph::finished(void* handle) {
  CudnnDescriptor graph = made(kGraph);
  if (handle) set(call_, graph.get(), kGraphHandle, kHandleType, &handle);
  set(call_, graph.get(), kGraphOperations, kDescriptorType, operations_.data(), operations_.size());
  finalise(call_, graph.get());
  return graph;
}

CudnnPlan plan_of(const CudnnFunctions& call, void* handle, void* graph, size_t most_workspace) {
  std::string reason = "no engine";
  for (const int mode : {kModeA, kModeFallback}) try {
      const CudnnDescriptor heuristic = described(call, kHeuristic);
      set(call, heuristic.get(), kHeuristicGraph, kDescriptorType, &graph);
      set(call, heuristic.get(), kHeuristicMode, kHeuristicModeType, &mode);
      finalise(call, heuristic.get());
      std::vector<CudnnDescriptor> choices;
      std::vector<void*> places;
      for (int i = 0; i < kMostChoices; ++i) {
        choices.push_back(described(call, kChoice));
        places.push_back(choices.back().get());
      }
      int64_t given = 0;
      call.check(call.BackendGetAttribute(heuristic.get(), kHeuristicResults, kDescriptorType, kMostChoices, &given,
                                          places.data()),
                 "BackendGetAttribute");
      for (int64_t i = 0; i < given && i < kMostChoices; ++i) try {
          void* const choice = places[static_cast<size_t>(i)];
          if (varies(call, choice)) {
            reason = "engines whose bits vary from run to run";
            continue;
          }
          CudnnPlan made;
          made.plan = described(call, kPlan);
          set(call, made.plan.get(), kPlanHandle, kHandleType, &handle);
          set(call, made.plan.get(), kPlanChoice, kDescriptorType, &choice);
          finalise(call, made.plan.get());
          int64_t bytes = 0, count = 0;
          call.check(call.BackendGetAttribute(made.plan.get(), kPlanWorkspace, kI64Type, 1, &count, &bytes),
                     "BackendGetAttribute");
          if (bytes >= 0 && static_cast<size_t>(bytes) <= most_workspace) {
            made.workspace = static_cast<size_t>(bytes);
            made.choice = std::move(choices[static_cast<size_t>(i)]);
            return made;
          }
          reason = fmt::format("a workspace of {} bytes", bytes);
        } catch (const backend::Failure& failure) {
          reason = failure.what();
        }
    } catch (const backend::Failure& failure) {
      reason = failure.what();
    }
  backend::fail(TRANSOM_UNSUPPORTED, "expected a plan of cuDNN, found {}", reason);
}

int execute(const CudnnFunctions& call, void* handle, const CudnnPlan& plan, const std::vector<int64_t>& ids,
            const std::vector<void*>& memory, void* workspace) {
  const CudnnDescriptor pack = described(call, kPack);
  set(call, pack.get(), kPackIds, kI64Type, ids.data(), ids.size());
  set(call, pack.get(), kPackAddresses, kAddressType, memory.data(), memory.size());
  set(call, pack.get(), kPackWorkspace, kAddressType, &workspace);
  finalise(call, pack.get());
  return call.BackendExecute(handle, plan.plan.get(), pack.get());
}

}  // namespace transom::gpu
