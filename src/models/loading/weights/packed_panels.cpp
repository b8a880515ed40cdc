// SPDX-License-Identifier: Apache-2.0
#include "models/loading/weights/packed_panels.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <thread>
#include <type_traits>

#include "base/memory/huge_pages.h"
#include "base/numbers/half_bits.h"
#include "base/threads/threads.h"

namespace transom {
namespace {

constexpr int64_t kRows = 16, kInputs = 32;

typedef uint32_t FourWords __attribute__((vector_size(16)));

FourWords words_at(const uint8_t* from) {
  FourWords words;
  std::memcpy(&words, from, sizeof(words));
  return words;
}

// Words of four bytes of 16 rows, `row_bytes` apart, become lines of 16 words: `words`, a multiple of four, of each
// row.
void place_words(const uint8_t* rows, int64_t row_bytes, int64_t words, uint8_t* to) {
  for (int64_t word = 0; word < words; word += 4, rows += 16, to += 16 * kRows)
    for (int64_t row = 0; row < kRows; row += 4) {
      const uint8_t* from = rows + row * row_bytes;
      const FourWords a = words_at(from), b = words_at(from + row_bytes), c = words_at(from + 2 * row_bytes),
                      d = words_at(from + 3 * row_bytes);
      const FourWords ab = __builtin_shufflevector(a, b, 0, 4, 1, 5), cd = __builtin_shufflevector(c, d, 0, 4, 1, 5),
                      other_ab = __builtin_shufflevector(a, b, 2, 6, 3, 7),
                      other_cd = __builtin_shufflevector(c, d, 2, 6, 3, 7);
      const FourWords lines[4] = {__builtin_shufflevector(ab, cd, 0, 1, 4, 5),
                                  __builtin_shufflevector(ab, cd, 2, 3, 6, 7),
                                  __builtin_shufflevector(other_ab, other_cd, 0, 1, 4, 5),
                                  __builtin_shufflevector(other_ab, other_cd, 2, 3, 6, 7)};
      for (int64_t i = 0; i < 4; ++i) std::memcpy(to + i * 4 * kRows + 4 * row, &lines[i], sizeof(lines[i]));
    }
}

// Codes of 4 bits, 32 for each block, as bytes of two.
void pair_codes(const uint8_t* codes, int64_t blocks, uint8_t* pairs) {
  constexpr int64_t kHalf = kInputs / 2;
  for (int64_t block = 0; block < blocks; ++block, codes += kInputs, pairs += kHalf)
    for (int64_t i = 0; i < kHalf; ++i) pairs[i] = static_cast<uint8_t>((codes[i] & 15) | (codes[kHalf + i] & 15) << 4);
}

// The scales or minima of a row of a panel, [groups] to [groups, 16].
template <typename To, typename From>
void place_scales(const std::vector<From>& from, int64_t row, std::byte* to) {
  for (size_t g = 0; g < from.size(); ++g) {
    To value;
    if constexpr (std::is_same_v<To, From>) value = from[g];
    else value = half_of_float(from[g]);
    std::memcpy(to + sizeof(To) * (g * kRows + static_cast<size_t>(row)), &value, sizeof(To));
  }
}

}  // namespace

PackedPanels::PackedPanels(std::shared_ptr<const BlockMatrix> matrix, int64_t group)
    : layout_(matrix->layout()),
      panels_((layout_.rows + kRows - 1) / kRows),
      groups_((layout_.depth + group - 1) / group),
      blocks_((layout_.depth + kInputs - 1) / kInputs),
      code_bytes_(static_cast<size_t>(blocks_) * (layout_.bits == 8 ? 512 : 256)),
      scale_bytes_(static_cast<size_t>(groups_ * kRows) * (layout_.scale_type == DType::kFloat16 ? 2 : 4)),
      codes_(huge_pages(code_bytes_ * static_cast<size_t>(panels_))),
      scales_(huge_pages(scale_bytes_ * static_cast<size_t>(panels_))),
      minima_(layout_.has_minima ? huge_pages(scale_bytes_ * static_cast<size_t>(panels_)) : nullptr),
      states_(static_cast<size_t>(panels_)),
      left_(static_cast<size_t>(panels_)),
      matrix_(std::move(matrix)),
      source_{.struct_size = sizeof(transom_deferred),
              .context = this,
              .read = [](void* context, uint64_t part, void* codes, void* scales, void* minima) {
                return static_cast<PackedPanels*>(context)->read(part, static_cast<std::byte*>(codes),
                                                                 static_cast<std::byte*>(scales),
                                                                 static_cast<std::byte*>(minima));
              }} {
  for (const Part part : {kCodes, kScales, kMinima})
    parts_[part] = {this,
                    part,
                    {.struct_size = sizeof(transom_deferred_parts),
                     .context = &parts_[part],
                     .copy = [](void* context, uint64_t panel, void* to) {
                       const auto* own = static_cast<const PartOfPanels*>(context);
                       return own->panels->copy(own->part, panel, static_cast<std::byte*>(to));
                     }}};
}

std::shared_ptr<const BlockMatrix> PackedPanels::matrix() const {
  const std::lock_guard lock(mutex_);
  return matrix_;
}

// The codes of 16 rows, row after row with zeros behind each to the end of a block, then in the order of the panel.
// Whole lines of 64 bytes are written from first to last: rows one by one would load and store each line of memory 16
// times.
void PackedPanels::pack(const BlockMatrix& matrix, size_t panel, std::byte* codes, std::byte* scales,
                        std::byte* minima) const {
  const bool half = layout_.scale_type == DType::kFloat16;
  const int64_t row_bytes = blocks_ * kInputs / (layout_.bits == 8 ? 1 : 2);
  const auto groups = static_cast<size_t>(groups_), least_groups = layout_.has_minima ? groups : 0;
  std::vector<uint8_t> row_codes(static_cast<size_t>(kRows * row_bytes)), unpaired;
  std::vector<uint16_t> half_scales(half ? groups : 0), half_minima(half ? least_groups : 0);
  std::vector<float> row_scales, row_minima;
  const auto first = static_cast<int64_t>(panel) * kRows;
  const int64_t count = std::min(kRows, layout_.rows - first);
  if (count < kRows) {
    if (scales) std::memset(scales, 0, scale_bytes_);
    if (minima) std::memset(minima, 0, scale_bytes_);
  }
  for (int64_t row = 0; row < count; ++row) {
    uint8_t* to = row_codes.data() + row * row_bytes;
    if (half && matrix.read_stored(first + row, to, half_scales.data(), least_groups ? half_minima.data() : nullptr)) {
      if (scales) place_scales<uint16_t>(half_scales, row, scales);
      if (minima) place_scales<uint16_t>(half_minima, row, minima);
      continue;
    }
    row_scales.resize(groups), row_minima.resize(least_groups);
    float* least = least_groups ? row_minima.data() : nullptr;
    if (layout_.bits == 8) {
      matrix.read_row(first + row, to, row_scales.data(), least);
    } else {
      unpaired.resize(static_cast<size_t>(blocks_ * kInputs));
      matrix.read_row(first + row, unpaired.data(), row_scales.data(), least);
      pair_codes(unpaired.data(), blocks_, to);
    }
    if (scales) (half ? place_scales<uint16_t, float> : place_scales<float, float>)(row_scales, row, scales);
    if (minima) (half ? place_scales<uint16_t, float> : place_scales<float, float>)(row_minima, row, minima);
  }
  if (codes) place_words(row_codes.data(), row_bytes, row_bytes / 4, reinterpret_cast<uint8_t*>(codes));
}

void PackedPanels::write(size_t panel) {
  try {
    std::byte* minima = minima_ ? minima_.get() + panel * scale_bytes_ : nullptr;
    pack(*matrix(), panel, codes_.get() + panel * code_bytes_, scales_.get() + panel * scale_bytes_, minima);
  } catch (...) {
    states_[panel].store(kRead, std::memory_order_release);
    throw;
  }
  states_[panel].store(kWritten, std::memory_order_release);
  if (left_.fetch_sub(1, std::memory_order_acq_rel) > 1) return;
  std::shared_ptr<const BlockMatrix> done;  // released without the lock
  const std::lock_guard lock(mutex_);
  done = std::move(matrix_);
  done->release();  // the packed form is what is read from now on
}

int32_t PackedPanels::read(size_t panel, std::byte* codes, std::byte* scales, std::byte* minima) {
  try {
    std::atomic<uint8_t>& state = states_[panel];
    uint8_t found = state.load(std::memory_order_acquire);
    if (found == kRead && state.compare_exchange_strong(found, kInWork, std::memory_order_acq_rel)) {
      write(panel);
      return 0;
    }
    if (found == kWritten) return 0;
    // The first to read it, or another thread is writing it, and may have written the last one by now.
    const std::shared_ptr<const BlockMatrix> from = matrix();
    if (!from) return 0;
    pack(*from, panel, codes, scales, minima);
    found = kUnread;
    state.compare_exchange_strong(found, kRead, std::memory_order_acq_rel);
    return 1;
  } catch (const std::exception&) {  // no memory
    return -1;
  }
}

int32_t PackedPanels::copy(Part part, size_t panel, std::byte* to) const {
  try {
    const bool written = states_[panel].load(std::memory_order_acquire) == kWritten;
    if (const std::shared_ptr<const BlockMatrix> from = written ? nullptr : matrix()) {
      pack(*from, panel, part == kCodes ? to : nullptr, part == kScales ? to : nullptr, part == kMinima ? to : nullptr);
    } else {  // by now
      const std::byte* place = (part == kCodes ? codes_ : part == kScales ? scales_ : minima_).get();
      const size_t bytes = part == kCodes ? code_bytes_ : scale_bytes_;
      std::memcpy(to, place + panel * bytes, bytes);
    }
    return 0;
  } catch (const std::exception&) {  // no memory
    return -1;
  }
}

void PackedPanels::finish() {
  if (left_.load(std::memory_order_acquire) == 0) return;
  parallel_for(states_.size(), [&](size_t panel) {
    std::atomic<uint8_t>& state = states_[panel];
    for (;;) {
      uint8_t found = state.load(std::memory_order_acquire);
      if (found == kWritten) return;
      if (found == kInWork) std::this_thread::yield();
      else if (state.compare_exchange_strong(found, kInWork, std::memory_order_acq_rel)) return write(panel);
    }
  });
}

}  // namespace transom
