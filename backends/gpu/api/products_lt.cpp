// SPDX-License-Identifier: Apache-2.0
// cuBLASLt and hipBLASLt: the same functions with other numbers for their attributes. Both are column-major: the
// row-major product of x and y is the column-major one of y and x.
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

#include "common/types.h"
#include "gpu/api/driver.h"
#include "gpu/api/products.h"

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
  int compute_f32, op_none, op_turned;
  int turn_a, turn_b, epilogue, bias_pointer, bias_type;  // of a product
  int batch_count, batch_stride;                          // of a layout
  int most_workspace, alignment_a;                        // of a preference; below 0: has none
  size_t result_bytes, state_at;  // of what the heuristic gives; its algorithm lies at the beginning
};
constexpr Constants kCuda = {68, 0, 1, 3, 4, 7, 8, 26, 5, 6, 1, 5, 96, 72};
constexpr Constants kHip = {2, 111, 112, 0, 1, 2, 3, 4, 0, 1, 1, -1, 56, 32};
constexpr uint32_t kBiasEpilogue = 4;
constexpr uint32_t kAlignment = 64;
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
    const std::lock_guard lock(mutex_);  // the address of the bias is part of the description
    const Plan& plan = plan_of(shape);
    if (!plan.found) fail(TRANSOM_INTERNAL, "{}: a product that it does not take", name_);
    if (shape.biased) set(plan.product, is_.bias_pointer, at.bias);
    const float one = 1, zero = 0;
    check(call_.Matmul(handle_, plan.product, &one, at.y, plan.a, at.x, plan.b, &zero, at.out, plan.d, at.out, plan.d,
                       plan.algorithm, at.workspace, kWorkspace, native_stream(queue)),
          "Matmul");
  }

 private:
  struct Plan {
    void *product = nullptr, *a = nullptr, *b = nullptr, *d = nullptr;
    bool found = false;
    alignas(16) unsigned char algorithm[kLargestResult] = {};
  };

  void check(int status, const char* what) const {
    if (status != 0) fail(TRANSOM_INTERNAL, "{}{} failed with status {}", name_, what, status);
  }
  template <typename T>
  void set(void* product, int attribute, T value) const {
    check(call_.MatmulDescSetAttribute(product, attribute, &value, sizeof value), "MatmulDescSetAttribute");
  }

  void* layout(transom_dtype dtype, int64_t rows, int64_t columns, const ProductShape::Side& side, int64_t batch) {
    void* made = nullptr;
    check(call_.MatrixLayoutCreate(&made, data_type(dtype), static_cast<uint64_t>(rows), static_cast<uint64_t>(columns),
                                   side.leading),
          "MatrixLayoutCreate");
    const auto count = static_cast<int32_t>(batch);
    check(call_.MatrixLayoutSetAttribute(made, is_.batch_count, &count, sizeof count), "MatrixLayoutSetAttribute");
    check(call_.MatrixLayoutSetAttribute(made, is_.batch_stride, &side.batch_stride, sizeof side.batch_stride),
          "MatrixLayoutSetAttribute");
    return made;
  }

  // Kept for as long as the process runs: programs ask for few shapes, again and again.
  const Plan& plan_of(const ProductShape& shape) {
    const auto [found, fresh] = plans_.try_emplace(shape);
    Plan& plan = found->second;
    if (!fresh) return plan;
    if (shape.batch > INT32_MAX || (shape.from != TRANSOM_FLOAT32 && !backend::is_half(shape.from))) return plan;
    make_current(context_);
    constexpr int kFloat32 = 0;
    check(call_.MatmulDescCreate(&plan.product, is_.compute_f32, kFloat32), "MatmulDescCreate");
    // Lines of k side by side are columns of a column-major matrix [k, lines].
    set(plan.product, is_.turn_a, int32_t{shape.y.turned ? is_.op_none : is_.op_turned});
    set(plan.product, is_.turn_b, int32_t{shape.x.turned ? is_.op_turned : is_.op_none});
    if (shape.biased) {
      set(plan.product, is_.epilogue, kBiasEpilogue);
      set(plan.product, is_.bias_type, int32_t{data_type(shape.to)});
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
    const size_t most = kWorkspace;
    check(call_.MatmulPreferenceSetAttribute(preference, is_.most_workspace, &most, sizeof most),
          "MatmulPreferenceSetAttribute");
    for (int operand = 0; is_.alignment_a >= 0 && operand < 4; ++operand)
      check(call_.MatmulPreferenceSetAttribute(preference, is_.alignment_a + operand, &kAlignment, sizeof kAlignment),
            "MatmulPreferenceSetAttribute");
    alignas(16) unsigned char result[kLargestResult] = {};
    int count = 0;
    const int status = call_.MatmulAlgoGetHeuristic(handle_, plan.product, plan.a, plan.b, plan.d, plan.d, preference,
                                                    1, result, &count);
    call_.MatmulPreferenceDestroy(preference);
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
};

}  // namespace

std::unique_ptr<Products> open_products(Context& context) {
  const char* chosen = std::getenv("TRANSOM_GPU_PRODUCTS");
  if (chosen && std::string_view(chosen) == "own") return nullptr;
  const Driver& driver = driver_of(context);
  std::vector<std::string> files = driver.vendor.products_files;
  int version = 0;
  driver.check(driver.call.driver_version(&version), "reading the version of the driver");
  if (driver.vendor.cuda && version < 13000)  // libraries of CUDA 13 do not start on older drivers
    std::erase_if(files, [](const std::string& file) { return file.ends_with(".so.13"); });
  try {
    return std::make_unique<LtProducts>(
        context, SharedLibrary::open(files, driver.vendor.products_variable, driver.vendor.cure));
  } catch (const backend::Failure& failure) {
    if (chosen && std::string_view(chosen) == "library") throw;  // who asks for it by name hears why it is not there
    return nullptr;
  }
}

}  // namespace transom::gpu
