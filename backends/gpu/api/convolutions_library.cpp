// SPDX-License-Identifier: Apache-2.0
// cuDNN and MIOpen. Of both, each of the three kinds asks for its algorithms and runs one with two operands and a
// result in an order of its own; a table has the order, the names and the numbers. cuDNN says which algorithm has the
// same bits at every run, MIOpen is told to take no other.
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <vector>

#include "gpu/api/convolutions.h"
#include "gpu/api/driver.h"
#include "transom/plugin/types.h"

namespace transom::gpu {
namespace {

using Kind = ConvolutionShape::Kind;
constexpr size_t kMostWorkspace = size_t{256} << 20;
constexpr size_t kMostConvolutionPlans = 1024;
constexpr int kMostAnswers = 16;
enum CudnnMath { kDefaultMath = 0, kTensorMath = 1, kFmaMath = 3 };  // of f32: with TF32, with TF32, without
enum Place { kX, kW, kY };                                           // of the three tensors

// What is the library's own: the word in the names of functions, and the order of the tensors, the result last.
struct KindOf {
  const char* word;
  Place order[3];
};
constexpr KindOf kCudnn[] = {
    {"Forward", {kX, kW, kY}}, {"BackwardData", {kW, kY, kX}}, {"BackwardFilter", {kX, kY, kW}}};
constexpr KindOf kMiopen[] = {
    {"Forward", {kW, kX, kY}}, {"BackwardData", {kY, kW, kX}}, {"BackwardWeights", {kY, kX, kW}}};

// cudnnConvolution*AlgoPerf_t and miopenConvSolution_t.
struct CudnnAnswer {
  int algorithm, status;
  float time;
  size_t memory;
  int determinism, math, reserved[3];
};
struct MiopenAnswer {
  float time;
  size_t memory;
  uint64_t solution;
  int algorithm;
};
static_assert(sizeof(CudnnAnswer) == 48 && sizeof(MiopenAnswer) == 32);

using Describe = int (*)(void*, int dtype, int rank, const int* extents, const int* strides);
using AskCudnn = int (*)(void*, void*, void*, void*, void*, int asked, int* given, CudnnAnswer*);
using RunCudnn = int (*)(void*, const void* one, void*, const void*, void*, const void*, void* convolution,
                         int algorithm, void* workspace, size_t, const void* zero, void*, void*);
using AskMiopen = int (*)(void*, void*, void*, void*, void*, size_t asked, size_t* given, MiopenAnswer*);
using CompileMiopen = int (*)(void*, void*, void*, void*, void*, uint64_t solution);
using RunMiopen = int (*)(void*, void*, const void*, void*, const void*, void* convolution, void*, void*,
                          void* workspace, size_t, uint64_t solution);

class LibraryConvolutions final : public Convolutions {
 public:
  explicit LibraryConvolutions(Context& context)
      : context_(context), cuda_(context.dialect() == Dialect::kCuda), kinds_(cuda_ ? kCudnn : kMiopen) {}

  const char* name() const override { return cuda_ ? "cudnn" : "miopen"; }

  std::optional<size_t> workspace_bytes(const ConvolutionShape& shape) override {
    const std::lock_guard lock(mutex_);
    if (!opened()) return std::nullopt;
    const Plan& plan = plan_of(shape);
    if (!plan.found) return std::nullopt;
    return plan.workspace;
  }

  void run(Queue& queue, const ConvolutionShape& shape, const ConvolutionAddresses& at) override {
    const std::lock_guard lock(mutex_);  // the stream is the handle's
    const Plan& plan = plan_of(shape);
    if (!plan.found) fail(TRANSOM_INTERNAL, "{}: a convolution that it does not take", name());
    void* const stream = native_stream(queue);  // makes the device the current one
    check(function<int (*)(void*, void*)>("SetStream")(handle_, stream), "SetStream");
    const KindOf& kind = kinds_[shape.kind];
    void* const places[] = {at.x, at.w, at.y};
    const auto description = [&](int i) { return plan.tensors[kind.order[i]].get(); };
    const auto place = [&](int i) { return places[kind.order[i]]; };
    const std::string verb = std::string("Convolution") + kind.word;
    const float one = 1, zero = 0;
    check(cuda_ ? function<RunCudnn>(verb)(handle_, &one, description(0), place(0), description(1), place(1),
                                           plan.convolution.get(), static_cast<int>(plan.choice), at.workspace,
                                           plan.workspace, &zero, description(2), place(2))
                : function<RunMiopen>(verb + "Immediate")(handle_, description(0), place(0), description(1), place(1),
                                                          plan.convolution.get(), description(2), place(2),
                                                          at.workspace, plan.workspace, plan.choice),
          verb.c_str());
  }

 private:
  using Description = std::unique_ptr<void, int (*)(void*)>;
  struct Plan {
    Description tensors[3]{{nullptr, nullptr}, {nullptr, nullptr}, {nullptr, nullptr}};
    Description convolution{nullptr, nullptr};
    bool found = false;
    uint64_t choice = 0;
    size_t workspace = 0;
  };

  void check(int status, const char* what) const {
    if (status != 0) fail(TRANSOM_INTERNAL, "{}{} failed with status {}", name(), what, status);
  }
  template <typename Function>
  Function function(const std::string& what) {
    void*& found = functions_[what];
    if (!found) found = library_->expect((name() + what).c_str());
    return reinterpret_cast<Function>(found);
  }
  Description made(const std::string& what) {
    void* description = nullptr;
    check(function<int (*)(void**)>("Create" + what)(&description), ("Create" + what).c_str());
    return {description, function<int (*)(void*)>("Destroy" + what)};
  }

  // Opened at the first convolution, since its library is large; without it there is none.
  bool opened() {
    if (tried_) return handle_ != nullptr;
    tried_ = true;
    library_ = library_of_convolutions(context_);
    if (!library_) return false;
    try {
      make_current(context_);
      void* handle = nullptr;
      check(function<int (*)(void**)>("Create")(&handle), "Create");  // kept until the process ends
      handle_ = handle;
    } catch (const backend::Failure&) {
      handle_ = nullptr;
    }
    return handle_ != nullptr;
  }

  int data_type(transom_dtype dtype) const {
    if (dtype == TRANSOM_FLOAT32) return cuda_ ? 0 : 1;
    if (dtype == TRANSOM_FLOAT16) return cuda_ ? 2 : 0;
    return cuda_ ? 9 : 5;
  }

  Description tensor(const ConvolutionShape& shape, int64_t outer, int64_t inner, const std::array<int64_t, 3>& places,
                     bool window) {
    std::vector<int> extents = {static_cast<int>(outer), static_cast<int>(inner)};
    for (size_t i = 0; i < shape.axes; ++i) extents.push_back(static_cast<int>(places[i]));
    std::vector<int> strides(extents.size(), 1);
    for (size_t i = extents.size() - 1; i > 0; --i) strides[i - 1] = strides[i] * extents[i];
    const int rank = static_cast<int>(extents.size()), dtype = data_type(shape.dtype);
    Description description = made(window && cuda_ ? "FilterDescriptor" : "TensorDescriptor");
    if (window && cuda_) {
      constexpr int kDense = 0;  // NCHW
      check(function<int (*)(void*, int, int, int, const int*)>("SetFilterNdDescriptor")(description.get(), dtype,
                                                                                         kDense, rank, extents.data()),
            "SetFilterNdDescriptor");
    } else {
      const char* const what = cuda_ ? "SetTensorNdDescriptor" : "SetTensorDescriptor";
      check(function<Describe>(what)(description.get(), dtype, rank, extents.data(), strides.data()), what);
    }
    return description;
  }

  const Plan& plan_of(const ConvolutionShape& shape) {
    const auto found = plans_.find(shape);
    if (found != plans_.end()) return found->second;
    if (plans_.size() >= kMostConvolutionPlans) plans_.clear();
    return plans_.emplace(shape, planned(shape)).first->second;
  }

  Plan planned(const ConvolutionShape& shape) {
    make_current(context_);
    Plan plan;
    plan.tensors[kX] = tensor(shape, shape.batch, shape.channels, shape.x, false);
    plan.tensors[kW] = tensor(shape, shape.outputs, shape.channels / shape.groups, shape.w, true);
    plan.tensors[kY] = tensor(shape, shape.batch, shape.outputs, shape.y, false);
    plan.convolution = made("ConvolutionDescriptor");
    std::vector<int> low, stride, dilation;
    for (size_t i = 0; i < shape.axes; ++i) {
      low.push_back(static_cast<int>(shape.low[i]));
      stride.push_back(static_cast<int>(shape.stride[i]));
      dilation.push_back(static_cast<int>(shape.dilation[i]));
    }
    void* const of = plan.convolution.get();
    const int axes = static_cast<int>(shape.axes);
    constexpr int kCrossCorrelation = 1, kFloat32 = 0, kMiopenConvolution = 0;
    constexpr int kDeterministicAttribute = 1;
    if (cuda_) {
      check(function<int (*)(void*, int, const int*, const int*, const int*, int, int)>("SetConvolutionNdDescriptor")(
                of, axes, low.data(), stride.data(), dilation.data(), kCrossCorrelation, kFloat32),
            "SetConvolutionNdDescriptor");
      check(function<int (*)(void*, int)>("SetConvolutionMathType")(of, shape.dtype != TRANSOM_FLOAT32 ? kTensorMath
                                                                        : shape.tf32                   ? kDefaultMath
                                                                                                       : kFmaMath),
            "SetConvolutionMathType");
    } else {
      check(function<int (*)(void*, int, const int*, const int*, const int*, int)>("InitConvolutionNdDescriptor")(
                of, axes, low.data(), stride.data(), dilation.data(), kMiopenConvolution),
            "InitConvolutionNdDescriptor");
      check(function<int (*)(void*, int, int)>("SetConvolutionAttribute")(of, kDeterministicAttribute, 1),
            "SetConvolutionAttribute");
    }
    check(function<int (*)(void*, int)>("SetConvolutionGroupCount")(of, static_cast<int>(shape.groups)),
          "SetConvolutionGroupCount");
    choose(shape, plan);
    return plan;
  }

  void choose(const ConvolutionShape& shape, Plan& plan) {
    const KindOf& kind = kinds_[shape.kind];
    void* const first = plan.tensors[kind.order[0]].get();
    void* const second = plan.tensors[kind.order[1]].get();
    void* const result = plan.tensors[kind.order[2]].get();
    const auto take = [&](uint64_t choice, size_t workspace) {
      plan.found = true, plan.choice = choice, plan.workspace = workspace;
    };
    if (cuda_) {
      CudnnAnswer answers[kMostAnswers];
      int given = 0;
      const std::string ask = std::string("GetConvolution") + kind.word + "Algorithm_v7";
      if (function<AskCudnn>(ask)(handle_, first, second, plan.convolution.get(), result, kMostAnswers, &given,
                                  answers) != 0)
        return;
      const auto is_as_described = [&](int math) {  // no f32 is rounded to 16 bits, nor unasked to TF32
        return shape.dtype != TRANSOM_FLOAT32 || math == kFmaMath || math == kDefaultMath ||
               (shape.tf32 && math == kTensorMath);
      };
      for (int i = 0; i < given && !plan.found; ++i)
        if (answers[i].status == 0 && answers[i].determinism == 1 && answers[i].memory <= kMostWorkspace &&
            is_as_described(answers[i].math))
          take(static_cast<uint64_t>(answers[i].algorithm), answers[i].memory);
      return;
    }
    MiopenAnswer answers[kMostAnswers];
    size_t given = 0;
    const std::string verb = std::string("Convolution") + kind.word;
    if (function<AskMiopen>(verb + "GetSolution")(handle_, first, second, plan.convolution.get(), result, kMostAnswers,
                                                  &given, answers) != 0)
      return;
    for (size_t i = 0; i < given && !plan.found; ++i)
      if (answers[i].memory <= kMostWorkspace &&
          function<CompileMiopen>(verb + "CompileSolution")(handle_, first, second, plan.convolution.get(), result,
                                                            answers[i].solution) == 0)
        take(answers[i].solution, answers[i].memory);
  }

  Context& context_;
  const bool cuda_;
  const KindOf* const kinds_;
  std::mutex mutex_;
  bool tried_ = false;
  std::optional<SharedLibrary> library_;
  void* handle_ = nullptr;
  std::map<std::string, void*> functions_;
  std::map<ConvolutionShape, Plan> plans_;
};

}  // namespace

std::unique_ptr<Convolutions> open_convolutions(Context& context) {
  const char* chosen = std::getenv("TRANSOM_GPU_PRODUCTS");
  if (chosen && std::string_view(chosen) == "own") return nullptr;
  return std::make_unique<LibraryConvolutions>(context);
}

}  // namespace transom::gpu
