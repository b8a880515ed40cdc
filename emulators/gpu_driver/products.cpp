// SPDX-License-Identifier: Apache-2.0
// The functions of cuBLASLt, or, with EMULATED_HIP, those of hipBLASLt, as far as a device backend without their
// headers calls them. Descriptions are checked as the vendors document them; sums run over the depth in order, in f32.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "live.h"
#include "matrix_units.h"
#include "numbers.h"

using namespace emulator;

#define EXPORT extern "C" __attribute__((visibility("default")))
#if defined(EMULATED_HIP)
#define PRODUCTS(name) EXPORT int hipblasLt##name
#else
#define PRODUCTS(name) EXPORT int cublasLt##name
#endif

namespace {

enum LtStatus { kOk = 0, kNotStarted = 1, kBadValue = 7, kNoMemory = 3, kExecution = 13, kUnsupported = 15 };

// Numbers of the vendors' headers.
#if defined(EMULATED_HIP)
constexpr int kComputeF32 = 2, kComputeTf32 = 6, kOpNone = 111, kOpTurned = 112;
constexpr int kTurnA = 0, kTurnB = 1, kEpilogue = 2, kBiasPointer = 3, kBiasType = 4;
constexpr int kBatchCount = 0, kBatchStride = 1;
constexpr size_t kResultBytes = 56, kAlgorithmBytes = 24, kWorkspaceAt = 24, kStateAt = 32;
#else
constexpr int kComputeF32 = 68, kComputeTf32 = 77, kOpNone = 0, kOpTurned = 1;
constexpr int kTurnA = 3, kTurnB = 4, kEpilogue = 7, kBiasPointer = 8, kBiasType = 26;
constexpr int kBatchCount = 5, kBatchStride = 6;
constexpr size_t kResultBytes = 96, kAlgorithmBytes = 64, kWorkspaceAt = 64, kStateAt = 72;
#endif
constexpr int kF32 = 0, kF16 = 2, kBf16 = 14;
constexpr uint32_t kPlain = 1, kBias = 4, kSumsOfB = 512;
constexpr size_t kMostLive = 4096;               // descriptions of a kind: who never destroys them is told
constexpr int kMisaligned = 716;                 // of a device
constexpr uint64_t kMagic = 0x5472616e736f6d4c;  // marks an algorithm that the heuristic gave

struct Product {
  bool tf32 = false;
  int turn_a = kOpNone, turn_b = kOpNone, bias_type = -1;
  uint32_t epilogue = kPlain;
  void* vector = nullptr;  // of the epilogue
};
struct Layout {
  int type = 0;
  uint64_t rows = 0, columns = 0;
  int64_t leading = 0, stride = 0;
  int32_t count = 1;
};
struct Preference {
  uint64_t workspace = 0;
  uint32_t reductions = 7;  // all: also those that round parts of a sum, or add them in no fixed order
  uint32_t alignment[4] = {256, 256, 256, 256};
};
// What an algorithm is good for; it lies in the caller's memory.
struct Algorithm {
  uint64_t magic = kMagic;
  uint32_t of = 0;                             // the shape
  uint16_t alignment = 16, parts_rounded = 0;  // what it needs of addresses; whether it rounds parts of a sum
};
static_assert(sizeof(Algorithm) <= kAlgorithmBytes);

struct Library {
  Live<int> handles{kMostLive};
  Live<Product> products{kMostLive};
  Live<Layout> layouts{kMostLive};
  Live<Preference> preferences{kMostLive};
};
Library& library() {
  static Library made;
  return made;
}

bool known(int type) { return type == kF32 || type == kF16 || type == kBf16; }
size_t size_of(int type) { return type == kF32 ? 4 : 2; }

NumberKind kind_of(int type) {
  return type == kF32 ? NumberKind::kF32 : type == kF16 ? NumberKind::kF16 : NumberKind::kBf16;
}
float read(int type, const void* memory, int64_t place) { return read_number(kind_of(type), memory, place); }
void write(int type, void* memory, int64_t place, float value) { write_number(kind_of(type), memory, place, value); }

// D = op(A) op(B) (+ bias), all column-major; null where the descriptions do not fit together.
struct Task {
  Product product;
  Layout a, b, d;
  uint64_t m = 0, n = 0, k = 0;

  bool fits() {
    const bool turned_a = product.turn_a == kOpTurned, turned_b = product.turn_b == kOpTurned;
    m = turned_a ? a.columns : a.rows, k = turned_a ? a.rows : a.columns;
    n = turned_b ? b.rows : b.columns;
    const auto whole = [](const Layout& one) {
      return known(one.type) && one.rows > 0 && one.columns > 0 && one.leading >= static_cast<int64_t>(one.rows);
    };
    return whole(a) && whole(b) && whole(d) && k == (turned_b ? b.columns : b.rows) && d.rows == m && d.columns == n &&
           a.type == b.type && (d.type == a.type || d.type == kF32) && a.count == b.count && a.count == d.count &&
           (product.epilogue == kPlain || (vector() > 0 && product.bias_type == d.type));
  }
  // Elements of the epilogue's vector: a bias for each row of D, or the sums over k for each of its columns.
  uint64_t vector() const {
    return product.epilogue == kBias ? d.rows : product.epilogue == kSumsOfB && d.count == 1 ? d.columns : 0;
  }
  size_t bytes(const Layout& one) const {
    const int64_t last = one.leading * static_cast<int64_t>(one.columns - 1) + static_cast<int64_t>(one.rows);
    return static_cast<size_t>(last + one.stride * (one.count - 1)) * size_of(one.type);
  }
  // Names the shape, so that an algorithm is not used for another one.
  uint32_t mark() const {
    uint64_t mark = 1469598103934665603u;
    for (const uint64_t part :
         {m, n, k, static_cast<uint64_t>(a.count), static_cast<uint64_t>(a.type), static_cast<uint64_t>(d.type),
          static_cast<uint64_t>(product.turn_a), static_cast<uint64_t>(product.turn_b),
          static_cast<uint64_t>(product.epilogue), static_cast<uint64_t>(product.tf32)})
      mark = (mark ^ part) * 1099511628211u;
    return static_cast<uint32_t>(mark ^ mark >> 32);
  }
  // As the matrix units take it: of TF32 10 bits after the point, to the nearest.
  float operand(float value) const {
    if (!product.tf32 || a.type != kF32 || !std::isfinite(value)) return value;
    return std::bit_cast<float>((std::bit_cast<uint32_t>(value) + 0x1000u) & ~0x1FFFu);
  }
  void compute(const void* left, const void* right, void* to, bool parts_rounded) const {
    const auto place = [](const Layout& one, int turn, uint64_t row, uint64_t column, int batch) {
      if (turn == kOpTurned) std::swap(row, column);
      return one.stride * batch + static_cast<int64_t>(row) + one.leading * static_cast<int64_t>(column);
    };
    for (uint64_t column = 0; product.epilogue == kSumsOfB && column < n; ++column) {
      float sum = 0;
      for (uint64_t i = 0; i < k; ++i) sum += read(b.type, right, place(b, product.turn_b, i, column, 0));
      write(product.bias_type, product.vector, static_cast<int64_t>(column), sum);
    }
    for (int batch = 0; batch < a.count; ++batch)
      for (uint64_t column = 0; column < n; ++column)
        for (uint64_t row = 0; row < m; ++row) {
          float sum = 0, part = 0;
          for (uint64_t i = 0; i < k; ++i) {
            if (parts_rounded && i == k / 2) part = static_cast<float>(static_cast<_Float16>(sum)), sum = 0;
            sum = std::fmaf(operand(read(a.type, left, place(a, product.turn_a, row, i, batch))),
                            operand(read(b.type, right, place(b, product.turn_b, i, column, batch))), sum);
          }
          sum += part;
          if (product.epilogue == kBias) sum += read(product.bias_type, product.vector, static_cast<int64_t>(row));
          write(d.type, to, place(d, kOpNone, row, column, batch), sum);
        }
  }
};

bool known_handles(void* handle, void* product, std::initializer_list<void*> layouts) {
  for (void* one : layouts)
    if (!library().layouts.contains(one)) return false;
  return library().handles.contains(handle) && library().products.contains(product);
}

template <typename T>
int made(void** to, Live<T>& among, T value) {
  return !to ? kBadValue : among.make(to, std::move(value)) ? kOk : kNoMemory;
}
template <typename T>
int destroyed(void* what, Live<T>& among) {
  return among.destroy(what) ? kOk : kBadValue;
}
template <typename T>
int taken(T& to, const void* from, size_t bytes) {
  if (!from || bytes != sizeof to) return kBadValue;
  std::memcpy(&to, from, bytes);
  return kOk;
}

}  // namespace

PRODUCTS(Create)(void** handle) {
  ENTER;
  return made(handle, library().handles, int{0});
}
PRODUCTS(MatmulDescCreate)(void** product, int compute, int scale) {
  ENTER;
  if ((compute != kComputeF32 && compute != kComputeTf32) || scale != kF32) return kBadValue;
  return made(product, library().products, Product{.tf32 = compute == kComputeTf32});
}
PRODUCTS(MatmulDescDestroy)(void* product) {
  ENTER;
  return destroyed(product, library().products);
}
PRODUCTS(MatmulDescSetAttribute)(void* product, int attribute, const void* value, size_t bytes) {
  ENTER;
  Product* const found = library().products.find(product);
  if (!found) return kBadValue;
  Product& mine = *found;
  if (attribute == kTurnA || attribute == kTurnB) {
    int turn = -1;
    if (taken(turn, value, bytes) != kOk || (turn != kOpNone && turn != kOpTurned)) return kBadValue;
    (attribute == kTurnA ? mine.turn_a : mine.turn_b) = turn;
    return kOk;
  }
  if (attribute == kEpilogue) return taken(mine.epilogue, value, bytes);
  if (attribute == kBiasPointer) return taken(mine.vector, value, bytes);
  return attribute == kBiasType ? taken(mine.bias_type, value, bytes) : kBadValue;
}
PRODUCTS(MatrixLayoutCreate)(void** layout, int type, uint64_t rows, uint64_t columns, int64_t leading) {
  ENTER;
  return made(layout, library().layouts, Layout{type, rows, columns, leading, 0, 1});
}
PRODUCTS(MatrixLayoutDestroy)(void* layout) {
  ENTER;
  return destroyed(layout, library().layouts);
}
PRODUCTS(MatrixLayoutSetAttribute)(void* layout, int attribute, const void* value, size_t bytes) {
  ENTER;
  Layout* const found = library().layouts.find(layout);
  if (!found) return kBadValue;
  Layout& mine = *found;
  return attribute == kBatchCount    ? taken(mine.count, value, bytes)
         : attribute == kBatchStride ? taken(mine.stride, value, bytes)
                                     : kBadValue;
}
PRODUCTS(MatmulPreferenceCreate)(void** preference) {
  ENTER;
  return made(preference, library().preferences, Preference{});
}
PRODUCTS(MatmulPreferenceDestroy)(void* preference) {
  ENTER;
  return destroyed(preference, library().preferences);
}
PRODUCTS(MatmulPreferenceSetAttribute)(void* preference, int attribute, const void* value, size_t bytes) {
  ENTER;
  Preference* const found = library().preferences.find(preference);
  if (!found) return kBadValue;
  Preference& mine = *found;
  if (attribute == 1) return taken(mine.workspace, value, bytes);
#if !defined(EMULATED_HIP)
  if (attribute == 3) return taken(mine.reductions, value, bytes);
  if (attribute >= 5 && attribute <= 8) return taken(mine.alignment[attribute - 5], value, bytes);
#endif
  return kBadValue;
}
PRODUCTS(MatmulAlgoGetHeuristic)
(void* handle, void* product, void* a, void* b, void* c, void* d, void* preference, int asked, void* results,
 int* count) {
  ENTER;
  if (!known_handles(handle, product, {a, b, c, d}) || !library().preferences.contains(preference) || asked < 1 ||
      !results || !count)
    return kBadValue;
  Task task{*static_cast<Product*>(product), *static_cast<Layout*>(a), *static_cast<Layout*>(b),
            *static_cast<Layout*>(d)};
  *count = 0;
  if (!task.fits()) return kUnsupported;
  const Preference& wanted = *static_cast<Preference*>(preference);
  // Its kernels read 16 bytes at once where they may, and two halves together at least. HIP's cannot be told of less.
  const uint32_t given = std::min(*std::min_element(wanted.alignment, wanted.alignment + 4), 16u);
  if (given < 4) return kUnsupported;
  if (task.product.tf32 && (task.a.type != kF32 || (chip() != "sm_90" && chip() != "gfx942"))) return kUnsupported;
#if defined(EMULATED_HIP)
  constexpr bool kPartsRounded = false;
#else
  const bool kPartsRounded = (wanted.reductions & ~2u) != 0;
#endif
  const Algorithm algorithm{kMagic, task.mark(), static_cast<uint16_t>(given), kPartsRounded};
  auto* result = static_cast<char*>(results);
  std::memset(result, 0, kResultBytes);
  std::memcpy(result, &algorithm, sizeof algorithm);
  const size_t workspace = 1024;
  std::memcpy(result + kWorkspaceAt, &workspace, sizeof workspace);
  const int state = wanted.workspace >= workspace ? kOk : kUnsupported;
  std::memcpy(result + kStateAt, &state, sizeof state);
  *count = 1;
  return kOk;
}
PRODUCTS(Matmul)
(void* handle, void* product, const void* alpha, const void* from_a, void* a, const void* from_b, void* b,
 const void* beta, const void* from_c, void* c, void* to, void* d, const void* algorithm, void* workspace,
 size_t workspace_bytes, void* stream) {
  ENTER;
  if (!known_handles(handle, product, {a, b, c, d}) || !gpu.streams.contains(static_cast<Stream*>(stream)) || !alpha ||
      !beta || !algorithm || from_c != to || *static_cast<const float*>(alpha) != 1 ||
      *static_cast<const float*>(beta) != 0)
    return kBadValue;
  Task task{*static_cast<Product*>(product), *static_cast<Layout*>(a), *static_cast<Layout*>(b),
            *static_cast<Layout*>(d)};
  Algorithm chosen;
  std::memcpy(&chosen, algorithm, sizeof chosen);
  if (!task.fits() || chosen.magic != kMagic || chosen.of != task.mark()) return kBadValue;
  if (!from_a || !from_b || !to || !workspace || reinterpret_cast<uintptr_t>(workspace) % 256 != 0) return kBadValue;
  bool aligned = true;
  for (const void* address : {from_a, from_b, static_cast<const void*>(to)})
    aligned &= reinterpret_cast<uintptr_t>(address) % chosen.alignment == 0;
  const auto inside = [&gpu = gpu, task, from_a, from_b, to, workspace, workspace_bytes] {
    return gpu.has(from_a, task.bytes(task.a)) && gpu.has(from_b, task.bytes(task.b)) &&
           gpu.has(to, task.bytes(task.d)) && gpu.has(workspace, workspace_bytes) &&
           (task.product.epilogue == kPlain ||
            gpu.has(task.product.vector, task.vector() * size_of(task.product.bias_type)));
  };
  if (!inside()) return kBadValue;
  return gpu.enqueue(static_cast<Stream*>(stream),
                     {[=, &gpu = gpu]() -> int {
                        if (!inside()) return gpu.lose(kIllegalAddress, "a product reads outside of memory");
                        if (!aligned) return gpu.lose(kMisaligned, "a product of operands that are not aligned");
                        std::memset(workspace, 0xFF, 1024);  // nobody may count on what lies there
                        task.compute(from_a, from_b, to, chosen.parts_rounded);
                        return kSuccess;
                      },
                      nullptr}) == kSuccess
             ? kOk
             : kExecution;
}
