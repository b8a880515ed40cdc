// SPDX-License-Identifier: Apache-2.0
// What the readers of quantised weights share: the tensors that make up one matrix, checked.
#pragma once

#include <cstring>
#include <initializer_list>
#include <string>
#include <vector>

#include "files/checkpoint/checkpoint.h"

namespace transom {

// The names X of all tensors "X" + ending, in order.
std::vector<std::string> modules_with(const Checkpoint& checkpoint, std::string_view ending);

// Takes the tensor out of the checkpoint; an error that names it where it is missing.
TensorView take_part(Checkpoint& checkpoint, const std::string& name);

// An error where a module has a tensor of one of these endings without its codes.
void expect_codes(const Checkpoint& checkpoint, std::initializer_list<std::string_view> endings,
                  const std::string& codes);

// An error that names the tensor where its type or shape is another; an extent of -1 may be any.
void expect_part(const Checkpoint& checkpoint, const std::string& name, const TensorView& view, DType dtype,
                 const std::vector<int64_t>& shape);

// Floating-point values of any type, widened.
std::vector<float> floats_of(const TensorView& view, const std::string& where);
// Of i32 or i64.
std::vector<int64_t> integers_of(const TensorView& view, const std::string& where);
// The words of an i32 tensor, from any address.
std::vector<uint32_t> words_of(const TensorView& view);
// The same where they lie: a checkpoint's codes are read once, and copies of all of them would double its memory.
class StoredWords {
 public:
  explicit StoredWords(TensorView view) : view_(std::move(view)) {}
  uint32_t operator[](size_t index) const {
    uint32_t word;
    std::memcpy(&word, view_.bytes.data() + 4 * index, sizeof word);
    return word;
  }

 private:
  TensorView view_;
};

// Number `index` of a stream of numbers of `bits` bits in words; some may lie in two words.
template <typename Words>
struct BitStream {
  const Words& words;
  int64_t first, stride;  // the first word, and from word to word
  uint32_t operator()(int64_t index, int64_t bits) const {
    const int64_t bit = index * bits, word = bit / 32, within = bit % 32;
    const auto at = [&](int64_t i) { return words[static_cast<size_t>(first + i * stride)]; };
    uint64_t both = at(word);
    if (within + bits > 32) both |= static_cast<uint64_t>(at(word + 1)) << 32;
    return static_cast<uint32_t>(both >> within) & ((1u << bits) - 1);
  }
};

// For inputs that belong to the groups g_idx [K]: the inputs sorted by their group, or nothing where they are sorted.
// Groups of another size than `group` (the last may be shorter) are an error.
std::vector<int64_t> order_of_groups(const std::vector<int64_t>& g_idx, int64_t group, const std::string& where);

}  // namespace transom
