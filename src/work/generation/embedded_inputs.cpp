// SPDX-License-Identifier: Apache-2.0
#include "work/generation/embedded_inputs.h"

#include <algorithm>

#include "base/error.h"
#include "files/hub/digest.h"

namespace transom {
namespace {

std::vector<FilledPlaces> sorted_places(const std::vector<AttachedInput>& attached) {
  std::vector<FilledPlaces> all;
  for (const AttachedInput& input : attached) all.insert(all.end(), input.places.begin(), input.places.end());
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.begin < b.begin; });
  return all;
}

// With its length before it, so that no two lists of texts are one text.
void append_text(std::string& all, std::string_view text) {
  all += std::to_string(text.size()) + ' ';
  all += text;
}

}  // namespace

void check_places(const std::vector<AttachedInput>& attached, int64_t tokens) {
  for (const AttachedInput& input : attached) {
    if (input.tensors.empty()) fail("prompt: an attached input has no tensors");
    for (size_t i = 0; i < input.places.size(); ++i) {
      const FilledPlaces& places = input.places[i];
      if (places.begin < 0 || places.count < 1 || places.begin > tokens || places.count > tokens - places.begin)
        fail("prompt: an attached input fills {} places from {} on, of a text of {} tokens", places.count, places.begin,
             tokens);
      if (i > 0 && places.begin < input.places[i - 1].end())
        fail("prompt: the places of an attached input are not in order: {} behind {}", places.begin,
             input.places[i - 1].begin);
    }
  }
  const std::vector<FilledPlaces> all = sorted_places(attached);
  for (size_t i = 1; i < all.size(); ++i)
    if (all[i].begin < all[i - 1].end()) fail("prompt: two attached inputs fill the place {}", all[i].begin);
}

std::string content_of(const AttachedInput& input) {
  std::string all;
  for (const auto& [name, tensor] : input.tensors.items()) {
    append_text(all, name);
    append_text(all, to_string(tensor.type()));
    const std::vector<std::byte> bytes = tensor.to_bytes();
    append_text(all, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  }
  const std::string hexadecimal = sha256_of_text(all);
  std::string digest;
  for (size_t i = 0; i + 1 < hexadecimal.size(); i += 2)
    digest += static_cast<char>(std::stoi(hexadecimal.substr(i, 2), nullptr, 16));
  return digest;
}

EmbeddedInputs::EmbeddedInputs(const std::vector<AttachedInput>& attached, int64_t width, int64_t from,
                               const Compute& compute)
    : width_(width), from_(from) {
  for (const AttachedInput& input : attached) {
    if (end_of_places({&input, 1}) <= from) continue;
    size_t first = rows_.size() / static_cast<size_t>(width);
    const std::vector<float> rows = compute(input);
    rows_.insert(rows_.end(), rows.begin(), rows.end());
    for (const FilledPlaces& places : input.places) {
      filled_.push_back({places, first});
      first += static_cast<size_t>(places.count);
    }
  }
  std::sort(filled_.begin(), filled_.end(),
            [](const Filled& a, const Filled& b) { return a.places.begin < b.places.begin; });
}

const float* EmbeddedInputs::at(int64_t place) const {
  const auto behind = std::upper_bound(filled_.begin(), filled_.end(), place,
                                       [](int64_t value, const Filled& filled) { return value < filled.places.begin; });
  if (behind == filled_.begin()) return nullptr;
  const Filled& filled = *std::prev(behind);
  if (place >= filled.places.end()) return nullptr;
  return rows_.data() + (filled.first + static_cast<size_t>(place - filled.places.begin)) * static_cast<size_t>(width_);
}

int64_t end_of_places(std::span<const AttachedInput> attached) {
  int64_t end = 0;
  for (const AttachedInput& input : attached)
    for (const FilledPlaces& places : input.places) end = std::max(end, places.end());
  return end;
}

}  // namespace transom
