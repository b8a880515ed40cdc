// SPDX-License-Identifier: Apache-2.0
#include "work/train/tasks/chats/packing.h"

#include <algorithm>
#include <deque>
#include <map>
#include <numeric>

#include "base/error.h"

namespace transom {
namespace {

constexpr int64_t kSamplesTogether = 1000;

// Each sample that has tokens, cut to `length` or in parts of it.
std::vector<PackedPart> parts_of_samples(std::span<const int64_t> lengths, int64_t first, int64_t length, bool whole) {
  std::vector<PackedPart> parts;
  for (size_t i = 0; i < lengths.size(); ++i)
    for (int64_t begin = 0; begin < lengths[i]; begin += length) {
      parts.push_back({first + static_cast<int64_t>(i), begin, std::min(length, lengths[i] - begin)});
      if (whole) break;
    }
  return parts;
}

void add_best_fits(std::vector<PackedPart> parts, int64_t length, std::vector<PackedRow>& rows) {
  std::stable_sort(parts.begin(), parts.end(), [](const auto& a, const auto& b) { return a.tokens > b.tokens; });
  std::map<int64_t, std::deque<size_t>> with_room;  // rows by the room that they have left, the earlier first
  for (const PackedPart& part : parts) {
    const auto found = with_room.lower_bound(part.tokens);
    size_t row = rows.size();
    int64_t room = length;
    if (found == with_room.end()) {
      rows.emplace_back();
    } else {
      room = found->first;
      row = found->second.front();
      found->second.pop_front();
      if (found->second.empty()) with_room.erase(found);
    }
    rows[row].push_back(part);
    if (room > part.tokens) with_room[room - part.tokens].push_back(row);
  }
}

void add_wrapped(const std::vector<PackedPart>& parts, int64_t length, std::vector<PackedRow>& rows) {
  int64_t room = 0;
  for (PackedPart left : parts)
    while (left.tokens > 0) {
      if (room == 0) rows.emplace_back(), room = length;
      const int64_t taken = std::min(room, left.tokens);
      rows.back().push_back({left.sample, left.begin, taken});
      left.begin += taken, left.tokens -= taken, room -= taken;
    }
}

}  // namespace

PackingStrategy packing_strategy(std::string_view name) {
  if (name == "bfd") return PackingStrategy::kBestFit;
  if (name == "bfd_split") return PackingStrategy::kBestFitOfParts;
  if (name == "wrapped") return PackingStrategy::kWrapped;
  fail(ErrorKind::kUsage, "--packing_strategy: expected bfd, bfd_split or wrapped, found {}", quoted(name));
}

std::vector<PackedRow> pack_samples(std::span<const int64_t> lengths, int64_t length, PackingStrategy strategy) {
  require(length >= 1, "packing: expected rows of at least one token, found {}", length);
  std::vector<PackedRow> rows;
  const auto count = static_cast<int64_t>(lengths.size());
  for (int64_t first = 0; first < count; first += kSamplesTogether) {
    const auto together =
        lengths.subspan(static_cast<size_t>(first), static_cast<size_t>(std::min(kSamplesTogether, count - first)));
    if (strategy == PackingStrategy::kWrapped) {
      std::vector<PackedPart> all;
      for (size_t i = 0; i < together.size(); ++i) all.push_back({first + static_cast<int64_t>(i), 0, together[i]});
      add_wrapped(all, length, rows);
    } else {
      add_best_fits(parts_of_samples(together, first, length, strategy == PackingStrategy::kBestFit), length, rows);
    }
  }
  return rows;
}

std::vector<Features> packed_features(const std::vector<Features>& samples, int64_t length, PackingStrategy strategy) {
  std::vector<int64_t> lengths;
  for (const Features& sample : samples)
    lengths.push_back(static_cast<int64_t>(sample.sequences.at("input_ids").size()));
  std::vector<Features> packed;
  for (const PackedRow& row : pack_samples(lengths, length, strategy)) {
    Features& features = packed.emplace_back();
    int64_t number = 0;
    for (const PackedPart& part : row) {
      const Features& sample = samples[static_cast<size_t>(part.sample)];
      for (const auto& [name, values] : sample.sequences) {
        std::vector<int64_t>& to = features.sequences[name];
        const auto begin = values.begin() + part.begin;
        const size_t place = to.size();
        to.insert(to.end(), begin, begin + part.tokens);
        if (name == "labels" && strategy != PackingStrategy::kWrapped) to[place] = kIgnoredLabel;
      }
      if (strategy == PackingStrategy::kWrapped) continue;
      std::vector<int64_t>& numbers = features.sequences["seq_idx"];
      numbers.insert(numbers.end(), static_cast<size_t>(part.tokens), number++);
    }
  }
  return packed;
}

void number_padding(Batch& batch) {
  const auto numbers = batch.sequences.find("seq_idx");
  if (numbers == batch.sequences.end()) return;
  const std::vector<int64_t>& mask = batch.sequences.at("attention_mask").values;
  std::vector<int64_t>& values = numbers->second.values;
  const int64_t length = numbers->second.length;
  for (size_t i = 0; i < values.size(); ++i) {
    if (mask[i] != 0) continue;
    const bool begins = static_cast<int64_t>(i) % length == 0;
    values[i] = begins ? 0 : values[i - 1] + 1;
  }
}

}  // namespace transom
