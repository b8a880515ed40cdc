// SPDX-License-Identifier: Apache-2.0
// Graphs of operations in cuDNN's backend interface ("Graph API" of its documentation), by the functions of the opened
// library: a tensor, an operation, the graph, an engine's configuration and a plan are all descriptors, which are given
// attributes, finalised, and then no longer changed.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "gpu/api/shared_library.h"
#include "transom/device_plugin.h"

namespace transom::gpu {

// clang-format off
// All behind "cudnn"; they return a status, 0 for success. Handles and descriptors are pointers.
#define TRANSOM_CUDNN_GRAPH_FUNCTIONS(X) \
  X(Create, (void**)) \
  X(SetStream, (void*, void*)) \
  X(BackendCreateDescriptor, (int, void**)) \
  X(BackendDestroyDescriptor, (void*)) \
  X(BackendFinalize, (void*)) \
  X(BackendSetAttribute, (void*, int, int, int64_t, const void*)) \
  X(BackendGetAttribute, (void*, int, int, int64_t, int64_t*, void*)) \
  X(BackendExecute, (void*, void*, void*))
// clang-format on

// The functions of one library, and what a call that fails says.
struct CudnnFunctions {
  // Throws TRANSOM_UNAVAILABLE where the library has not all of them, as before cuDNN 8.
  explicit CudnnFunctions(const SharedLibrary& library);
#define X(name, parameters) int(*name) parameters = nullptr;
  TRANSOM_CUDNN_GRAPH_FUNCTIONS(X)
#undef X
  void (*last_error)(char*, size_t) = nullptr;  // since 9.0

  // Throws TRANSOM_UNSUPPORTED with cuDNN's own words unless the status is 0.
  void check(int status, const char* what) const;
};

using CudnnDescriptor = std::unique_ptr<void, int (*)(void*)>;
using CudnnExtents = std::array<int64_t, 4>;

// Operations that are added in the order of what they need. Tensors have four extents; sums are of f32. What it gives
// out lives as long as it does.
class CudnnGraph {
 public:
  enum class Memory { kDevice, kHost, kNone };  // kHost: one number, read when a plan runs; kNone: inside of the kernel
  enum class Element { kF32 = 0, kF16 = 2, kI32 = 4, kBf16 = 9, kBool = 11 };
  enum class Pointwise {
    kAdd = 0,
    kMultiply = 1,
    kMax = 3,
    kDivide = 6,
    kSubtract = 9,
    kExp = 13,
    kLog = 15,
    kAtLeast = 303
  };
  enum class Reduction { kAdd = 0, kMax = 3 };

  explicit CudnnGraph(const CudnnFunctions& call) : call_(call) {}

  // `id` names it among those of the graph; device memory lies at multiples of 16 bytes.
  void* tensor(int64_t id, Element element, const CudnnExtents& extents, const CudnnExtents& strides, Memory memory);
  void* inside(Element element, const CudnnExtents& extents);  // dense, of the kernel alone
  void* inside(Element element, const CudnnExtents& extents, const CudnnExtents& strides);
  void multiply(void* a, void* b, void* c);                    // c = a b, of the last two axes
  void pointwise(Pointwise mode, void* x, void* y, void* to);  // y: null where there is one operand
  void index(int64_t axis, void* like, void* to);
  void select(void* condition, void* x, void* otherwise, void* to);
  void reduce(Reduction mode, void* x, void* to);  // over the axes that are shorter in `to`: 1, or groups of x's
  void reshape(void* x, void* to);                 // the same memory by other extents and strides, in to's type
  // Whether cuDNN has it as one: `handle` is that of its device; null where a device is described otherwise.
  CudnnDescriptor finished(void* handle);

 private:
  CudnnDescriptor made(int type);
  void* operation(int type, std::vector<std::pair<int, void*>> parts);
  void* operation(int type, int kind_attribute, CudnnDescriptor kind, std::vector<std::pair<int, void*>> tensors);
  void* with_pointwise(int mode, CudnnDescriptor description, std::vector<std::pair<int, void*>> tensors);
  CudnnDescriptor pointwise_description(int mode, Element computed);

  const CudnnFunctions& call_;
  int64_t next_inside_ = 1000;
  std::vector<CudnnDescriptor> kept_;
  std::vector<void*> operations_;
};

// A finalised plan and the bytes of its workspace.
struct CudnnPlan {
  CudnnDescriptor choice{nullptr, nullptr};  // that the plan was made of
  CudnnDescriptor plan{nullptr, nullptr};
  size_t workspace = 0;
};

// The first plan, in the order of cuDNN's heuristics, that has the same bits at every run and needs at most
// `most_workspace` bytes. Throws TRANSOM_UNSUPPORTED, with cuDNN's words, where there is none. Takes seconds where
// cuDNN compiles a kernel for it.
CudnnPlan plan_of(const CudnnFunctions& call, void* handle, void* graph, size_t most_workspace);

// Adds the plan to the handle's stream: `memory` has an address for each id. Gives cuDNN's status.
int execute(const CudnnFunctions& call, void* handle, const CudnnPlan& plan, const std::vector<int64_t>& ids,
            const std::vector<void*>& memory, void* workspace);

}  // namespace transom::gpu
