// SPDX-License-Identifier: Apache-2.0
// Attention and its gradient as graphs of cuDNN, which it knows as flash kernels. Taken are heads of 64 and 128 in f16
// and bf16. Lengths are multiples of 64, since a plan costs seconds: texts of any length take the
// own kernel, which compiles nothing for a new one.
#include <algorithm>
#include <cstdlib>
#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string_view>

#include "gpu/api/attentions.h"
#include "gpu/api/cudnn_attention_graphs.h"
#include "gpu/api/driver.h"
#include "transom/plugin/types.h"

namespace transom::gpu {
namespace {

constexpr size_t kMostWorkspace = size_t{1} << 30;  // a gradient needs two bytes for each score
constexpr size_t kMostAttentionPlans = 256, kMostReasons = 64;
constexpr int64_t kLengths = 64;  // what they are multiples of
// And keys of a gradient: NVIDIA's own front end asks releases up to 9.15 for no other without a mask of padding.
constexpr int64_t kGradientKeys = 128;
// What hides a key is the lowest number, which the library would carry to infinity with its factor of log2(e), and a
// query without visible keys to NaN. e to this less any score of a visible key is zero, and its product with log2(e)
// is exact to 0.003, should a kernel round it apart from the difference.
constexpr float kLeastScore = -30000;

// Behind the workspace of the library's own lies what the graphs write that is no result: the statistics, and, of a
// gradient, which computes attention again to know them, its output and the shifts.
struct CudnnAttentionPlan final : AttentionPlan {
  CudnnPlan attention;
  std::optional<CudnnPlan> gradient;
  bool causal = false, biased = false;
  size_t statistics_at = 0, out_at = 0, shift_at = 0, bytes = 0;  // 0: there is none
  size_t workspace_bytes() const override { return bytes; }

  size_t add(size_t more) {
    const size_t at = bytes;
    bytes += (more + 255) / 256 * 256;
    return at;
  }
};

class CudnnAttentions final : public Attentions {
 public:
  CudnnAttentions(Context& context, std::function<void(const std::string&)> warn)
      : context_(context), warn_(std::move(warn)) {}

  const char* name() const override { return "cudnn"; }

  std::shared_ptr<const AttentionPlan> plan(const AttentionShape& shape) override {
    if (!fits(shape)) return nullptr;
    const std::lock_guard lock(mutex_);
    if (!opened()) return nullptr;
    auto found = plans_.find(shape);
    if (found == plans_.end()) {
      if (plans_.size() >= kMostAttentionPlans)
        plans_.erase(std::min_element(plans_.begin(), plans_.end(), [](const auto& one, const auto& other) {
          return one.second.asked < other.second.asked;
        }));
      found = plans_.emplace(shape, Asked{planned(shape)}).first;
    }
    found->second.asked = ++asked_;
    return found->second.plan;
  }

  bool run(Queue& queue, const AttentionPlan& plan, float scale, std::span<const void* const> at) override {
    const std::lock_guard lock(mutex_);  // the stream is the handle's
    const auto& mine = static_cast<const CudnnAttentionPlan&>(plan);
    void* const stream = native_stream(queue);  // makes the device the current one
    float hidden = -std::numeric_limits<float>::infinity(), least = kLeastScore;
    std::vector<int64_t> ids;
    std::vector<void*> memory;
    const auto bind = [&](int64_t id, const void* to) { ids.push_back(id), memory.push_back(const_cast<void*>(to)); };
    auto* const workspace = static_cast<std::byte*>(const_cast<void*>(at[mine.gradient ? 7 : 4]));
    bind(kQ, at[0]), bind(kK, at[1]), bind(kV, at[2]), bind(kScale, &scale);
    bind(kOut, mine.gradient ? workspace + mine.out_at : at[3]);
    if (mine.causal) bind(kHidden, &hidden);
    if (mine.biased) bind(kBias, at.back()), bind(kLeast, &least);
    if (mine.statistics_at) bind(kStatistics, workspace + mine.statistics_at);
    try {
      call_->check(call_->SetStream(handle_, stream), "SetStream");
      call_->check(execute(*call_, handle_, mine.attention, ids, memory, workspace), "BackendExecute");
      if (!mine.gradient) return true;
      bind(kDout, at[3]), bind(kDq, at[4]), bind(kDk, at[5]), bind(kDv, at[6]), bind(kShift, workspace + mine.shift_at);
      call_->check(execute(*call_, handle_, *mine.gradient, ids, memory, workspace), "BackendExecute");
      return true;
    } catch (const backend::Failure& failure) {  // of a lost device the own kernel hears as well
      refused(failure.what());
      return false;
    }
  }

 private:
  struct Asked {
    std::shared_ptr<const CudnnAttentionPlan> plan;  // null: refused
    uint64_t asked = 0;                              // when it was asked for last
  };

  static bool fits(const AttentionShape& s) {
    return backend::is_half(s.dtype) && (s.head == 64 || s.head == 128) && s.batch > 0 && s.queries > 0 && s.keys > 0 &&
           s.queries % kLengths == 0 && s.keys % (s.gradient ? kGradientKeys : kLengths) == 0 && s.key_heads > 0 &&
           s.heads % s.key_heads == 0 && (!s.causal || s.queries == s.keys) &&
           (!s.biased() || fits(s.bias, {s.batch, s.heads, s.queries}));
  }
  static bool fits(const std::array<int64_t, 3>& bias, const std::array<int64_t, 3>& all) {
    for (size_t i = 0; i < all.size(); ++i)
      if (bias[i] != 1 && bias[i] != all[i]) return false;
    return true;
  }

  // Opened at the first attention, since the library is large; without it there is none.
  bool opened() {
    if (tried_) return handle_ != nullptr;
    tried_ = true;
    const std::optional<SharedLibrary> library = library_of_convolutions(context_);
    if (!library) return false;
    try {
      call_.emplace(*library);
      make_current(context_);
      call_->check(call_->Create(&handle_), "Create");  // kept until the process ends
    } catch (const backend::Failure&) {
      handle_ = nullptr;
    }
    return handle_ != nullptr;
  }

  std::shared_ptr<const CudnnAttentionPlan> planned(const AttentionShape& shape) {
    make_current(context_);
    std::string reason;
    // Releases up to 9.19 at least want the statistics to be written, whether they are read or not.
    for (const bool statistics : {false, true}) try {
        if (shape.gradient && !statistics) continue;
        auto made = std::make_shared<CudnnAttentionPlan>();
        made->causal = shape.causal, made->biased = shape.biased();
        CudnnGraph graph(*call_);
        const CudnnDescriptor whole = attention_graph(graph, shape, handle_, statistics);
        made->attention = plan_of(*call_, handle_, whole.get(), kMostWorkspace);
        if (shape.gradient) {
          CudnnGraph back(*call_);
          const CudnnDescriptor whole_back = attention_gradient_graph(back, shape, handle_);
          made->gradient = plan_of(*call_, handle_, whole_back.get(), kMostWorkspace);
        }
        made->add(std::max({size_t{1}, made->attention.workspace, made->gradient ? made->gradient->workspace : 0}));
        const auto rows = static_cast<size_t>(shape.batch * shape.heads * shape.queries);
        if (statistics) made->statistics_at = made->add(rows * sizeof(float));
        if (shape.gradient) {
          made->shift_at = made->add(rows * sizeof(float));
          made->out_at = made->add(rows * static_cast<size_t>(shape.head) * sizeof(uint16_t));
        }
        return made;
      } catch (const backend::Failure& failure) {
        reason = failure.what();
      }
    refused(reason);
    return nullptr;
  }

  void refused(const std::string& reason) {
    if (said_.size() < kMostReasons && said_.insert(reason).second)
      warn_(fmt::format("attention by cuDNN is refused, the own kernel computes it: {}", reason));
  }

  Context& context_;
  const std::function<void(const std::string&)> warn_;
  std::mutex mutex_;
  bool tried_ = false;
  std::optional<CudnnFunctions> call_;
  void* handle_ = nullptr;
  std::map<AttentionShape, Asked> plans_;
  uint64_t asked_ = 0;
  std::set<std::string> said_;
};

}  // namespace

std::unique_ptr<Attentions> open_attentions(Context& context, std::function<void(const std::string&)> warn) {
  const char* chosen = std::getenv("TRANSOM_GPU_PRODUCTS");
  if (context.dialect() != Dialect::kCuda || (chosen && std::string_view(chosen) == "own")) return nullptr;
  return std::make_unique<CudnnAttentions>(context, std::move(warn));
}

}  // namespace transom::gpu
