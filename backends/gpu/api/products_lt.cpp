// SPDX-License-Identifier: Apache-2.0
// cuBLASLt and hipBLASLt: the same functions with other numbers for their attributes. Both are column-major: the
// row-major product of x and y is the column-major one of y and x.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

#include "gpu/api/driver.h"
#include "gpu/api/products.h"
#include "transom/plugin/types.h"

namespace transom::gpu {
namespace {

// clang-format off
// The functions behind "cublasLt" or "hipblasLt"; all return a status, 0 for success. Handles are pointers.
#define TRANSOM_LT_FUNCTIONS(X) \
  X(Create, (void**)) \
  X(MatmulDescCreate, (void**, int, int)) \
  X(MatmulDescDestroy, (void*)) \
  X(MatmulDescSetAttribute, (void*, int, const void*, size_t)) \
  X(MatrixLayoutCreate, (void**, int, uint64_t, uint64_t, int64_t)) \
  X(MatrixLayoutDestroy, (void*)) \
  X(MatrixLayoutSetAttribute, (void*, int, const void*, size_t)) \
  X(MatmulPreferenceCreate, (void**)) \
  X(MatmulPreferenceDestroy, (void*)) \
  X(MatmulPreferenceSetAttribute, (void*, int, const void*, size_t)) \
  X(MatmulAlgoGetHeuristic, (void*, void*, void*, void*, void*, void*, void*, int, void*, int*)) \
  X(Matmul, (void*, void*, const void*, const void*, void*, const void*, void*, const void*, const void*, void*, void*, \
             void*, const void*, void*, size_t, void*))
// clang-format on

// Numbers of the vendors' headers.
struct Constants {
  int compute_f32, compute_tf32, op_none, op_turned;
  int turn_a, turn_b, epilogue, bias_pointer, bias_type;  // of a product
  int batch_count, batch_stride;                          // of a layout
  int most_workspace, reductions, alignment_a;            // of a preference; below 0: has none
  size_t result_bytes, state_at;  // of what the heuristic gives; its algorithm lies at the beginning
};
constexpr Constants kCuda = {68, 77, 0, 1, 3, 4, 7, 8, 26, 5, 6, 1, 3, 5, 96, 72};
constexpr Constants kHip = {2, 6, 111, 112, 0, 1, 2, 3, 4, 0, 1, 1, -1, -1, 56, 32};
constexpr uint32_t kBiasEpilogue = 4, kSumsOfBEpilogue = 512;  // "BGRADB"
// Parts of a sum may be added in a step of their own, in f32 and in a fixed order. Not in place (the order is that in
// which groups end: other bits each time), and not rounded to the type of the result before.
constexpr uint32_t kReductions = 2;
constexpr uint32_t kLeastUnasked = 16;  // alignment, of a library that cannot be told of it
constexpr size_t kMostPlans = 1024;
constexpr size_t kWorkspace = 32 << 20;
constexpr size_t kLargestResult = 96;

int data_type(transom_dtype dtype) {  // of cudaDataType and hipDataType
  return dtype == TRANSOM_BFLOAT16 ? 14 : dtype == TRANSOM_FLOAT16 ? 2 : 0;
}

class LtProducts final : public Products {
 public:
  LtProducts(Context& context, const SharedLibrary& library)
      : context_(context),
        cuda_(context.dialect() == Dialect::kCuda),
        is_(cuda_ ? kCuda : kHip),
        name_(cuda_ ? "cublasLt" : "hipblasLt") {
#define X(name, parameters) \
  call_.name = reinterpret_cast<decltype(call_.name)>(library.expect((std::string(name_) + #name).c_str()));
    TRANSOM_LT_FUNCTIONS(X)
#undef X
    make_current(context_);
    check(call_.Create(&handle_), "Create");  // kept until the process ends
  }

  const char* name() const override { return name_; }
  size_t workspace_bytes() const override { return kWorkspace; }

  bool takes(const ProductShape& shape) override {
    const std::lock_guard lock(mutex_);
    return plan_of(shape).found;
  }

  void multiply(Queue& queue, const ProductShape& shape, const ProductAddresses& at) override {
    const std::lock_guard lock(mutex_);  // the address of the vector is part of the description
    const Plan& plan = plan_of(shape);
    if (!plan.found) fail(TRANSOM_INTERNAL, "{}: a product that it does not take", name_);
    if (shape.epilogue != ProductEpilogue::kNone) set(plan.product.get(), is_.bias_pointer, at.vector);
    const float one = 1, zero = 0;
    void* const stream = native_stream(queue);  // makes the device the current one
    check(call_.Matmul(handle_, plan.product.get(), &one, at.y, plan.a.get(), at.x, plan.b.get(), &zero, at.out,
                       plan.d.get(), at.out, plan.d.get(), plan.algorithm, at.workspace, kWorkspace, stream),
          "Matmul");
  }

 private:
  using Description = std::unique_ptr<void, int (*)(void*)>;
  struct Plan {
    Description product{nullptr, nullptr}, a{nullptr, nullptr}, b{nullptr, nullptr}, d{nullptr, nullptr};
    bool found = false;
    uint64_t asked = 0;  // when it was asked for last
    alignas(16) unsigned char algorithm[kLargestResult] = {};
  };

  void check(int status, const char* what) const {
    if (status != 0) fail(TRANSOM_INTERNAL, "{}{} failed with status {}", name_, what, status);
  }
  template <typename T>
  void set(void* product, int attribute, T value) const {
    check(call_.MatmulDescSetAttribute(product, attribute, &value, sizeof value), "MatmulDescSetAttribute");
  }

  Description layout(transom_dtype dtype, int64_t rows, int64_t columns, const ProductShape::Side& side,
                     int64_t batch) {
    void* made = nullptr;
    check(call_.MatrixLayoutCreate(&made, data_type(dtype), static_cast<uint64_t>(rows), static_cast<uint64_t>(columns),
                                   side.leading),
          "MatrixLayoutCreate");
    Description owned(made, call_.MatrixLayoutDestroy);
    const auto count = static_cast<int32_t>(batch);
    check(call_.MatrixLayoutSetAttribute(made, is_.batch_count, &count, sizeof count), "MatrixLayoutSetAttribute");
    check(call_.MatrixLayoutSetAttribute(made, is_.batch_stride, &side.batch_stride, sizeof side.batch_stride),
          "MatrixLayoutSetAttribute");
    return owned;
  }

  // Programs ask for few shapes, again and again; a server with texts of any length asks for many.
  const Plan& plan_of(const ProductShape& shape) {
    auto found = plans_.find(shape);
    if (found == plans_.end()) {
      if (plans_.size() >= kMostPlans)
        plans_.erase(std::min_element(plans_.begin(), plans_.end(), [](const auto& one, const auto& other) {
          return one.second.asked < other.second.asked;
        }));
      found = plans_.emplace(shape, made(shape)).first;
    }
    found->second.asked = ++asked_;
    return found->second;
  }

  Plan made(const ProductShape& shape) {
    if (shape.tf32)  // a chip without it has no algorithm
      if (Plan plan = made(shape, is_.compute_tf32); plan.found) return plan;
    return made(shape, is_.compute_f32);
  }

  Plan made(const ProductShape& shape, int compute) {
    Plan plan;
    if (shape.batch > INT32_MAX || (shape.from != TRANSOM_FLOAT32 && !backend::is_half(shape.from))) return plan;
    if (is_.alignment_a < 0 && shape.alignment < kLeastUnasked) return plan;
    make_current(context_);
    constexpr int kFloat32 = 0;
    void* product = nullptr;
    check(call_.MatmulDescCreate(&product, compute, kFloat32), "MatmulDescCreate");
    plan.product = {product, call_.MatmulDescDestroy};
    // Lines of k side by side are columns of a column-major matrix [k, lines].
    set(product, is_.turn_a, int32_t{shape.y.turned ? is_.op_none : is_.op_turned});
    set(product, is_.turn_b, int32_t{shape.x.turned ? is_.op_turned : is_.op_none});
    if (shape.epilogue != ProductEpilogue::kNone) {
      set(product, is_.epilogue, shape.epilogue == ProductEpilogue::kBias ? kBiasEpilogue : kSumsOfBEpilogue);
      set(product, is_.bias_type, int32_t{data_type(shape.to)});
    }
    const auto side = [&](const ProductShape::Side& of, int64_t lines) {
      return layout(shape.from, of.turned ? lines : shape.depth, of.turned ? shape.depth : lines, of, shape.batch);
    };
    plan.a = side(shape.y, shape.columns);
    plan.b = side(shape.x, shape.rows);
    plan.d =
        layout(shape.to, shape.columns, shape.rows, {false, shape.columns, shape.rows * shape.columns}, shape.batch);
    void* preference = nullptr;
    check(call_.MatmulPreferenceCreate(&preference), "MatmulPreferenceCreate");
    const Description owned(preference, call_.MatmulPreferenceDestroy);
    const auto prefer = [&](int attribute, auto value) {
      check(call_.MatmulPreferenceSetAttribute(preference, attribute, &value, sizeof value),
            "MatmulPreferenceSetAttribute");
    };
    prefer(is_.most_workspace, uint64_t{kWorkspace});
    if (is_.reductions >= 0) prefer(is_.reductions, kReductions);
    for (int operand = 0; is_.alignment_a >= 0 && operand < 4; ++operand)
      prefer(is_.alignment_a + operand, shape.alignment);
    alignas(16) unsigned char result[kLargestResult] = {};
    int count = 0;
    const int status = call_.MatmulAlgoGetHeuristic(handle_, product, plan.a.get(), plan.b.get(), plan.d.get(),
                                                    plan.d.get(), preference, 1, result, &count);
    int state = 0;
    std::memcpy(&state, result + is_.state_at, sizeof state);
    plan.found = status == 0 && count > 0 && state == 0;
    std::memcpy(plan.algorithm, result, is_.result_bytes);
    return plan;
  }

  struct {
#define X(name, parameters) int(*name) parameters = nullptr;
    TRANSOM_LT_FUNCTIONS(X)
#undef X
  } call_;
  Context& context_;
  const bool cuda_;
  const Constants is_;
  const char* const name_;
  void* handle_ = nullptr;
  std::mutex mutex_;
  std::map<ProductShape, Plan> plans_;
  uint64_t asked_ = 0;
};

}  // namespace

std::unique_ptr<Products> open_products(Context& context) {
  const char* chosen = std::getenv("TRANSOM_GPU_PRODUCTS");
  if (chosen && std::string_view(chosen) == "own") return nullptr;
  const Driver& driver = driver_of(context);
  try {
    return std::make_unique<LtProducts>(
        context, SharedLibrary::open(driver.fitting(driver.vendor.products_files), driver.vendor.products_variable,
                                     driver.vendor.cure));
  } catch (const backend::Failure& failure) {
    if (chosen && std::string_view(chosen) == "library") throw;  // who asks for it by name hears why it is not there
    return nullptr;
  }
}

}  // namespace transom::gpu
