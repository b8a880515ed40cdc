// SPDX-License-Identifier: Apache-2.0
// The functions of cuDNN, or, with EMULATED_HIP, those of MIOpen, as far as a device backend without their headers
// calls them. Descriptions are checked as the vendors document them; sums run over channels and taps in order, in f32.
#include <cstring>
#include <vector>

#include "cudnn_handle.h"
#include "live.h"
#include "numbers.h"

using namespace emulator;

#define EXPORT extern "C" __attribute__((visibility("default")))
#if defined(EMULATED_HIP)
#define CONVOLUTIONS(name) EXPORT int miopen##name
#else
#define CONVOLUTIONS(name) EXPORT int cudnn##name
#endif

namespace {

#if defined(EMULATED_HIP)
enum DnnStatus { kDone = 0, kNotStarted = 1, kBadValue = 3, kRefused = 7 };
constexpr int kF32 = 1, kF16 = 0, kBf16 = 5;
constexpr int kKinds[3][3] = {{1, 0, 2}, {2, 1, 0}, {2, 0, 1}};  // x 0, w 1, y 2: their order, the result last
#else
enum DnnStatus { kDone = 0, kNotStarted = 1001, kBadValue = 2000, kRefused = 3000 };
constexpr int kF32 = 0, kF16 = 2, kBf16 = 9;
constexpr int kKinds[3][3] = {{0, 1, 2}, {1, 2, 0}, {0, 2, 1}};
#endif
constexpr size_t kMostLive = 16384;  // descriptions: who never destroys them is told
constexpr size_t kWorkspace = 512;
constexpr uint64_t kRepeats = 7, kVaries = 8;  // algorithms; of one the bits change from run to run

struct Tensor {
  int type = -1;
  bool window = false;
  std::vector<int> extents;
  size_t count() const {
    size_t all = 1;
    for (const int extent : extents) all *= static_cast<size_t>(extent);
    return all;
  }
};
struct Convolution {
  std::vector<int> low, stride, dilation;
  int groups = 1, math = 0;
  bool repeats = false;  // no algorithm may be taken that varies
};
struct Handle {
  void* stream = nullptr;
};

struct Library {
  Live<Handle> handles{kMostLive};
  Live<Tensor> tensors{kMostLive}, windows{kMostLive};
  Live<Convolution> convolutions{kMostLive};
};
Library& library() {
  static Library made;
  return made;
}

template <typename T>
int made(void** to, Live<T>& all) {
  return all.make(to) ? kDone : kBadValue;
}
template <typename T>
int destroyed(void* one, Live<T>& all) {
  return all.destroy(one) ? kDone : kBadValue;
}

int set_tensor(void* one, Live<Tensor>& all, int type, int rank, const int* extents, const int* strides) {
  Tensor* const found = all.find(one);
  if (!found || !extents || rank < 4 || rank > 5 || (type != kF32 && type != kF16 && type != kBf16)) return kBadValue;
  Tensor& tensor = *found;
  int dense = 1;
  for (int i = rank; i-- > 0;) {
    if (extents[i] <= 0) return kBadValue;
    if (strides && strides[i] != dense) return kRefused;  // as far as this look-alike goes
    dense *= extents[i];
  }
  tensor.type = type;
  tensor.extents.assign(extents, extents + rank);
  return kDone;
}

int set_convolution(void* one, int axes, const int* low, const int* stride, const int* dilation) {
  Convolution* const found = library().convolutions.find(one);
  if (!found || axes < 2 || axes > 3 || !low || !stride || !dilation) return kBadValue;
  for (int i = 0; i < axes; ++i)
    if (low[i] < 0 || stride[i] < 1 || dilation[i] < 1) return kBadValue;
  Convolution& convolution = *found;
  convolution.low.assign(low, low + axes);
  convolution.stride.assign(stride, stride + axes);
  convolution.dilation.assign(dilation, dilation + axes);
  return kDone;
}

// The three tensors of one kind, by their places.
struct Task {
  int kind;
  Tensor x, w, y;
  Convolution of;

  // Whether their shapes are those of a convolution: results as many as its formula says.
  bool fits() const {
    const size_t axes = of.low.size();
    if (x.extents.size() != axes + 2 || w.extents.size() != axes + 2 || y.extents.size() != axes + 2) return false;
    if (x.type != w.type || x.type != y.type || of.groups < 1 || x.extents[1] % of.groups || w.extents[0] % of.groups)
      return false;
    if (x.extents[0] != y.extents[0] || w.extents[1] * of.groups != x.extents[1] || w.extents[0] != y.extents[1])
      return false;
    for (size_t i = 0; i < axes; ++i) {
      const int left = x.extents[i + 2] + 2 * of.low[i] - of.dilation[i] * (w.extents[i + 2] - 1) - 1;
      if (left < 0 || left / of.stride[i] + 1 != y.extents[i + 2]) return false;
    }
    return true;
  }

  void compute(const void* first, const void* second, void* result, bool varies) const {
    const Tensor* const all[] = {&x, &w, &y};
    const void* places[3] = {};
    places[kKinds[kind][0]] = first, places[kKinds[kind][1]] = second;
    const Tensor& to = *all[kKinds[kind][2]];
    std::vector<float> sums(to.count(), 0.0f);
    const auto extent = [](const Tensor& of_tensor, size_t i) {
      const size_t rank = of_tensor.extents.size();
      return i + rank < 3 + 2 ? int64_t{1} : static_cast<int64_t>(of_tensor.extents[i + rank - 3]);
    };
    const auto number = [&](const std::vector<int>& list, size_t i, int64_t otherwise) {
      return i + list.size() < 3 ? otherwise : static_cast<int64_t>(list[i + list.size() - 3]);
    };
    const int64_t inputs = w.extents[1], outputs = w.extents[0] / of.groups;
    int64_t xs[3], ws[3], ys[3];
    for (size_t i = 0; i < 3; ++i) xs[i] = extent(x, i), ws[i] = extent(w, i), ys[i] = extent(y, i);
    for (int64_t n = 0; n < x.extents[0]; ++n)
      for (int64_t o = 0; o < w.extents[0]; ++o)
        for (int64_t c = 0; c < inputs; ++c)
          for (int64_t p = 0; p < ys[0] * ys[1] * ys[2]; ++p)
            for (int64_t t = 0; t < ws[0] * ws[1] * ws[2]; ++t) {
              const int64_t at[3] = {p / (ys[1] * ys[2]), p / ys[2] % ys[1], p % ys[2]};
              const int64_t tap[3] = {t / (ws[1] * ws[2]), t / ws[2] % ws[1], t % ws[2]};
              int64_t place = 0;
              bool inside = true;
              for (size_t i = 0; i < 3; ++i) {
                const int64_t q =
                    at[i] * number(of.stride, i, 1) - number(of.low, i, 0) + tap[i] * number(of.dilation, i, 1);
                inside &= q >= 0 && q < xs[i];
                place = place * xs[i] + q;
              }
              if (!inside) continue;
              const int64_t channel = o / outputs * inputs + c;
              const int64_t places_of[3] = {(n * x.extents[1] + channel) * xs[0] * xs[1] * xs[2] + place,
                                            (o * inputs + c) * ws[0] * ws[1] * ws[2] + t,
                                            (n * w.extents[0] + o) * ys[0] * ys[1] * ys[2] + p};
              const auto read = [&](int tensor) {
                return read_number(kind_of(x.type), places[tensor], places_of[tensor]);
              };
              sums[static_cast<size_t>(places_of[kKinds[kind][2]])] += read(kKinds[kind][0]) * read(kKinds[kind][1]);
            }
    static int runs = 0;
    if (varies) sums[0] += static_cast<float>(++runs);
    for (size_t i = 0; i < sums.size(); ++i) write_number(kind_of(x.type), result, static_cast<int64_t>(i), sums[i]);
  }

  static NumberKind kind_of(int type) {
    return type == kF32 ? NumberKind::kF32 : type == kF16 ? NumberKind::kF16 : NumberKind::kBf16;
  }
  size_t bytes(const Tensor& tensor) const { return tensor.count() * (tensor.type == kF32 ? 4 : 2); }
};

// The tensors of a call in the order of its kind. False where a handle or a description is none, or of another sort.
bool read_task(int kind, void* handle, void* const descriptions[3], void* convolution, Task& task) {
  const Convolution* const of = library().convolutions.find(convolution);
  if (!library().handles.contains(handle) || !of) return false;
  Tensor* const to[] = {&task.x, &task.w, &task.y};
  for (int i = 0; i < 3; ++i) {
    const int place = kKinds[kind][i];
#if defined(EMULATED_HIP)
    const Tensor* const known = library().tensors.find(descriptions[i]);
#else
    const Tensor* const known = (place == 1 ? library().windows : library().tensors).find(descriptions[i]);
#endif
    if (!known) return false;
    *to[place] = *known;
  }
  task.kind = kind;
  task.of = *of;
  return true;
}

int run(int kind, void* handle, void* const descriptions[3], const void* const places[3], void* convolution,
        uint64_t algorithm, void* workspace, size_t workspace_bytes) {
  ENTER;
  Task task;
  if (!read_task(kind, handle, descriptions, convolution, task)) return kBadValue;
  if (!task.fits() || (algorithm != kRepeats && algorithm != kVaries)) return kBadValue;
  if (!workspace || workspace_bytes < kWorkspace || !gpu.has(workspace, workspace_bytes)) return kBadValue;
  auto* const stream = static_cast<Stream*>(library().handles.find(handle)->stream);
  if (!gpu.streams.contains(stream)) return kBadValue;
  const Tensor* const all[] = {&task.x, &task.w, &task.y};
  const void *first = places[0], *second = places[1];
  void* const result = const_cast<void*>(places[2]);
  const size_t bytes[] = {task.bytes(*all[kKinds[kind][0]]), task.bytes(*all[kKinds[kind][1]]),
                          task.bytes(*all[kKinds[kind][2]])};
  const auto inside = [=, &gpu = gpu] {
    return gpu.has(first, bytes[0]) && gpu.has(second, bytes[1]) && gpu.has(result, bytes[2]) &&
           gpu.has(workspace, kWorkspace);
  };
  if (!inside()) return kBadValue;
  for (int i = 0; i < 3; ++i)
    if (reinterpret_cast<uintptr_t>(places[i]) % 16 != 0) return kRefused;
  const auto work = [=, &gpu = gpu]() -> int {
    if (!inside()) return gpu.lose(kIllegalAddress, "a convolution reads outside of memory");
    std::memset(workspace, 0xFF, kWorkspace);  // nobody may count on what lies there
    task.compute(first, second, result, algorithm == kVaries);
    return kSuccess;
  };
  return gpu.enqueue(stream, {work, nullptr}) == kSuccess ? kDone : kRefused;
}

}  // namespace

namespace emulator {

bool is_cudnn_handle(void* handle) { return library().handles.contains(handle); }
void* stream_of_cudnn_handle(void* handle) { return library().handles.find(handle)->stream; }

}  // namespace emulator

CONVOLUTIONS(Create)(void** handle) {
  ENTER;
  return made(handle, library().handles);
}
CONVOLUTIONS(SetStream)(void* handle, void* stream) {
  ENTER;
  Handle* const found = library().handles.find(handle);
  if (!found || !gpu.streams.contains(static_cast<Stream*>(stream))) return kBadValue;
  found->stream = stream;
  return kDone;
}
CONVOLUTIONS(CreateTensorDescriptor)(void** one) { return made(one, library().tensors); }
CONVOLUTIONS(DestroyTensorDescriptor)(void* one) { return destroyed(one, library().tensors); }
CONVOLUTIONS(CreateConvolutionDescriptor)(void** one) { return made(one, library().convolutions); }
CONVOLUTIONS(DestroyConvolutionDescriptor)(void* one) { return destroyed(one, library().convolutions); }
CONVOLUTIONS(SetConvolutionGroupCount)(void* one, int groups) {
  Convolution* const found = library().convolutions.find(one);
  if (!found || groups < 1) return kBadValue;
  found->groups = groups;
  return kDone;
}

#if defined(EMULATED_HIP)
CONVOLUTIONS(SetTensorDescriptor)(void* one, int type, int rank, const int* extents, const int* strides) {
  return strides ? set_tensor(one, library().tensors, type, rank, extents, strides) : kBadValue;
}
CONVOLUTIONS(InitConvolutionNdDescriptor)
(void* one, int axes, const int* low, const int* stride, const int* dilation, int mode) {
  return mode == 0 ? set_convolution(one, axes, low, stride, dilation) : kRefused;
}
CONVOLUTIONS(SetConvolutionAttribute)(void* one, int attribute, int value) {
  Convolution* const found = library().convolutions.find(one);
  if (!found || attribute != 1) return kBadValue;
  found->repeats = value != 0;
  return kDone;
}
struct Solution {
  float time;
  size_t memory;
  uint64_t id;
  int algorithm;
};
#define KIND(word, kind)                                                                                           \
  CONVOLUTIONS(Convolution##word##GetSolution)                                                                     \
  (void* handle, void* a, void* b, void* convolution, void* c, size_t asked, size_t* given, Solution* solutions) { \
    ENTER;                                                                                                         \
    Task task;                                                                                                     \
    void* const all[] = {a, b, c};                                                                                 \
    if (!given || !solutions || asked < 1 || !read_task(kind, handle, all, convolution, task)) return kBadValue;   \
    *given = 0;                                                                                                    \
    if (!task.fits()) return kBadValue;                                                                            \
    *given = 1;                                                                                                    \
    solutions[0] = {0.1f, kWorkspace, task.of.repeats ? kRepeats : kVaries, 0};                                    \
    return kDone;                                                                                                  \
  }                                                                                                                \
  CONVOLUTIONS(Convolution##word##CompileSolution)                                                                 \
  (void* handle, void* a, void* b, void* convolution, void* c, uint64_t id) {                                      \
    Task task;                                                                                                     \
    void* const all[] = {a, b, c};                                                                                 \
    if (!read_task(kind, handle, all, convolution, task)) return kBadValue;                                        \
    return id == kRepeats || id == kVaries ? kDone : kBadValue;                                                    \
  }                                                                                                                \
  CONVOLUTIONS(Convolution##word##Immediate)                                                                       \
  (void* handle, void* a, const void* at_a, void* b, const void* at_b, void* convolution, void* c, void* at_c,     \
   void* workspace, size_t bytes, uint64_t id) {                                                                   \
    void* const all[] = {a, b, c};                                                                                 \
    const void* const places[] = {at_a, at_b, at_c};                                                               \
    return run(kind, handle, all, places, convolution, id, workspace, bytes);                                      \
  }
KIND(Forward, 0)
KIND(BackwardData, 1)
KIND(BackwardWeights, 2)
#else
CONVOLUTIONS(CreateFilterDescriptor)(void** one) { return made(one, library().windows); }
CONVOLUTIONS(DestroyFilterDescriptor)(void* one) { return destroyed(one, library().windows); }
CONVOLUTIONS(SetTensorNdDescriptor)(void* one, int type, int rank, const int* extents, const int* strides) {
  return strides ? set_tensor(one, library().tensors, type, rank, extents, strides) : kBadValue;
}
CONVOLUTIONS(SetFilterNdDescriptor)(void* one, int type, int format, int rank, const int* extents) {
  return format == 0 ? set_tensor(one, library().windows, type, rank, extents, nullptr) : kRefused;
}
CONVOLUTIONS(SetConvolutionNdDescriptor)
(void* one, int axes, const int* low, const int* stride, const int* dilation, int mode, int compute) {
  return mode == 1 && compute == kF32 ? set_convolution(one, axes, low, stride, dilation) : kRefused;
}
CONVOLUTIONS(SetConvolutionMathType)(void* one, int math) {
  Convolution* const found = library().convolutions.find(one);
  if (!found || math < 0 || math > 3) return kBadValue;
  found->math = math;
  return kDone;
}
struct Performance {
  int algorithm, status;
  float time;
  size_t memory;
  int determinism, math, reserved[3];
};
// The fastest one varies; for f32 another one is faster by rounding to TF32, unless it was forbidden.
#define KIND(word, kind)                                                                                     \
  CONVOLUTIONS(GetConvolution##word##Algorithm_v7)                                                           \
  (void* handle, void* a, void* b, void* convolution, void* c, int asked, int* given, Performance* found) {  \
    ENTER;                                                                                                   \
    Task task;                                                                                               \
    void* const all[] = {a, b, c};                                                                           \
    if (!given || !found || asked < 3 || !read_task(kind, handle, all, convolution, task)) return kBadValue; \
    *given = 0;                                                                                              \
    if (!task.fits()) return kBadValue;                                                                      \
    found[0] = {static_cast<int>(kVaries), 0, 0.1f, kWorkspace, 0, task.of.math, {}};                        \
    found[1] = {static_cast<int>(kVaries), kRefused, -1.0f, kWorkspace, 1, task.of.math, {}};                \
    found[2] = {static_cast<int>(kRepeats), 0, 0.2f, kWorkspace, 1, task.of.math, {}};                       \
    *given = 3;                                                                                              \
    return kDone;                                                                                            \
  }                                                                                                          \
  CONVOLUTIONS(Convolution##word)                                                                            \
  (void* handle, const void* one, void* a, const void* at_a, void* b, const void* at_b, void* convolution,   \
   int algorithm, void* workspace, size_t bytes, const void* zero, void* c, void* at_c) {                    \
    if (!one || !zero || *static_cast<const float*>(one) != 1 || *static_cast<const float*>(zero) != 0)      \
      return kBadValue;                                                                                      \
    void* const all[] = {a, b, c};                                                                           \
    const void* const places[] = {at_a, at_b, at_c};                                                         \
    return run(kind, handle, all, places, convolution, static_cast<uint64_t>(algorithm), workspace, bytes);  \
  }
KIND(Forward, 0)
KIND(BackwardData, 1)
KIND(BackwardFilter, 2)
#endif
