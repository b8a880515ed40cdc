// SPDX-License-Identifier: Apache-2.0
// Attention as a graph of cuDNN: two products around a softmax, which cuDNN knows as one flash kernel. Taken are heads
// of 64 and 128 in f16 and bf16. Lengths are multiples of 64, since a plan costs seconds: texts of any length take the
// own kernel, which compiles nothing for a new one.
#include <algorithm>
#include <cstdlib>
#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string_view>

#include "common/types.h"
#include "gpu/api/attentions.h"
#include "gpu/api/cudnn_graph.h"
#include "gpu/api/driver.h"

namespace transom::gpu {
namespace {

constexpr size_t kMostWorkspace = size_t{256} << 20;
constexpr size_t kMostAttentionPlans = 256, kMostReasons = 64;
constexpr int64_t kLengths = 64;  // what they are multiples of
// What hides a key is the lowest number, which the library would carry to infinity with its factor of log2(e), and a
// query without visible keys to NaN. e to this less any score of a visible key is zero, and its product with log2(e)
// is exact to 0.003, should a kernel round it apart from the difference.
constexpr float kLeastScore = -30000;
enum Id : int64_t { kQ = 1, kK, kV, kOut, kScale, kHidden, kStatistics, kBias, kLeast };

struct CudnnAttentionPlan final : AttentionPlan {
  CudnnPlan plan;
  bool causal = false, biased = false;
  size_t statistics_bytes = 0;  // 0: it keeps none
  size_t statistics_at() const { return (plan.workspace + 255) / 256 * 256; }
  size_t workspace_bytes() const override { return statistics_at() + statistics_bytes; }
};

// `statistics`: whether each query's log of the sum of its exponentials is kept, as a gradient would want it.
CudnnDescriptor graph_of(CudnnGraph& graph, const AttentionShape& s, void* handle, bool statistics) {
  using Graph = CudnnGraph;
  const auto element = s.dtype == TRANSOM_FLOAT16 ? Graph::Element::kF16 : Graph::Element::kBf16;
  constexpr auto kF32 = Graph::Element::kF32;
  constexpr auto kOnDevice = Graph::Memory::kDevice;
  const CudnnExtents one = {1, 1, 1, 1}, scores = {s.batch, s.heads, s.queries, s.keys},
                     rows = {s.batch, s.heads, s.queries, 1};
  // A token's heads lie side by side.
  const auto strides = [&](int64_t length, int64_t heads) {
    return CudnnExtents{length * heads * s.head, s.head, heads * s.head, 1};
  };
  const CudnnExtents of_q = strides(s.queries, s.heads), of_k = strides(s.keys, s.key_heads);
  void* const q = graph.tensor(kQ, element, {s.batch, s.heads, s.queries, s.head}, of_q, kOnDevice);
  void* const k = graph.tensor(kK, element, {s.batch, s.key_heads, s.head, s.keys}, {of_k[0], of_k[1], 1, of_k[2]},
                               kOnDevice);  // turned
  void* const v = graph.tensor(kV, element, {s.batch, s.key_heads, s.keys, s.head}, of_k, kOnDevice);
  void* const out = graph.tensor(kOut, element, {s.batch, s.heads, s.queries, s.head}, of_q, kOnDevice);
  void* const scale = graph.tensor(kScale, kF32, one, one, Graph::Memory::kHost);

  void* const products = graph.inside(kF32, scores);
  void* seen = graph.inside(kF32, scores);
  graph.multiply(q, k, products);
  graph.pointwise(Graph::Pointwise::kMultiply, products, scale, seen);
  if (s.biased()) {
    const auto [batch, heads, queries] = s.bias;
    void* const bias = graph.tensor(kBias, kF32, {batch, heads, queries, s.keys},
                                    {heads * queries * s.keys, queries * s.keys, s.keys, 1}, kOnDevice);
    void* const least = graph.tensor(kLeast, kF32, one, one, Graph::Memory::kHost);
    void* const biased = graph.inside(kF32, scores);
    void* const limited = graph.inside(kF32, scores);
    graph.pointwise(Graph::Pointwise::kAdd, seen, bias, biased);
    graph.pointwise(Graph::Pointwise::kMax, biased, least, limited);
    seen = limited;
  }
  if (s.causal) {
    void* const row = graph.inside(Graph::Element::kI32, scores);
    void* const column = graph.inside(Graph::Element::kI32, scores);
    void* const visible = graph.inside(Graph::Element::kBool, scores);
    void* const hidden = graph.tensor(kHidden, kF32, one, one, Graph::Memory::kHost);
    void* const masked = graph.inside(kF32, scores);
    graph.index(2, seen, row);
    graph.index(3, seen, column);
    graph.pointwise(Graph::Pointwise::kAtLeast, row, column, visible);
    graph.select(visible, seen, hidden, masked);
    seen = masked;
  }
  void* const largest = graph.inside(kF32, rows);
  void* const below = graph.inside(kF32, scores);
  void* const exponentials = graph.inside(kF32, scores);
  void* const sum = graph.inside(kF32, rows);
  void* const weights = graph.inside(element, scores);
  graph.reduce(Graph::Reduction::kMax, seen, largest);
  graph.pointwise(Graph::Pointwise::kSubtract, seen, largest, below);
  graph.pointwise(Graph::Pointwise::kExp, below, nullptr, exponentials);
  graph.reduce(Graph::Reduction::kAdd, exponentials, sum);
  if (statistics) {
    void* const log = graph.inside(kF32, rows);
    void* const kept = graph.tensor(kStatistics, kF32, rows, {s.heads * s.queries, s.queries, 1, 1}, kOnDevice);
    graph.pointwise(Graph::Pointwise::kLog, sum, nullptr, log);
    graph.pointwise(Graph::Pointwise::kAdd, largest, log, kept);
  }
  graph.pointwise(Graph::Pointwise::kDivide, exponentials, sum, weights);
  graph.multiply(weights, v, out);
  return graph.finished(handle);
}

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

  bool run(Queue& queue, const AttentionPlan& plan, float scale, const AttentionAddresses& at) override {
    const std::lock_guard lock(mutex_);  // the stream is the handle's
    const auto& mine = static_cast<const CudnnAttentionPlan&>(plan);
    void* const stream = native_stream(queue);  // makes the device the current one
    float hidden = -std::numeric_limits<float>::infinity(), least = kLeastScore;
    std::vector<int64_t> ids = {kQ, kK, kV, kOut, kScale};
    std::vector<void*> memory = {const_cast<void*>(at.q), const_cast<void*>(at.k), const_cast<void*>(at.v), at.out,
                                 &scale};
    if (mine.causal) ids.push_back(kHidden), memory.push_back(&hidden);
    if (mine.biased) {
      ids.insert(ids.end(), {kBias, kLeast});
      memory.insert(memory.end(), {const_cast<void*>(at.bias), &least});
    }
    if (mine.statistics_bytes > 0) {
      ids.push_back(kStatistics);
      memory.push_back(static_cast<std::byte*>(at.workspace) + mine.statistics_at());
    }
    try {
      call_->check(call_->SetStream(handle_, stream), "SetStream");
      call_->check(execute(*call_, handle_, mine.plan, ids, memory, at.workspace), "BackendExecute");
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
           s.queries % kLengths == 0 && s.keys % kLengths == 0 && s.key_heads > 0 && s.heads % s.key_heads == 0 &&
           (!s.causal || s.queries == s.keys) && (!s.biased() || fits(s.bias, {s.batch, s.heads, s.queries}));
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
        CudnnGraph graph(*call_);
        const CudnnDescriptor whole = graph_of(graph, shape, handle_, statistics);
        auto made = std::make_shared<CudnnAttentionPlan>();
        made->plan = plan_of(*call_, handle_, whole.get(), kMostWorkspace);
        made->causal = shape.causal, made->biased = shape.biased();
        if (statistics)
          made->statistics_bytes = static_cast<size_t>(shape.batch * shape.heads * shape.queries) * sizeof(float);
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
