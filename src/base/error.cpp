// SPDX-License-Identifier: Apache-2.0
#include "base/error.h"

#include <algorithm>
#include <numeric>

namespace transom {

namespace {

// The bytes of the UTF-8 sequence that begins here; 0 where none does.
size_t sequence_length(std::string_view text) {
  const auto first = static_cast<unsigned char>(text[0]);
  const size_t length = first < 0x80                    ? 1
                        : first >= 0xC2 && first < 0xE0 ? 2
                        : first >= 0xE0 && first < 0xF0 ? 3
                        : first >= 0xF0 && first < 0xF5 ? 4
                                                        : 0;
  if (length > text.size()) return 0;
  for (size_t i = 1; i < length; ++i)
    if ((static_cast<unsigned char>(text[i]) & 0xC0) != 0x80) return 0;
  return length;
}

}  // namespace

std::string_view name_of(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kUsage:
      return "usage";
    case ErrorKind::kInput:
      return "input";
    case ErrorKind::kDevice:
      return "device";
    case ErrorKind::kOutOfMemory:
      return "out_of_memory";
    case ErrorKind::kUnsupported:
      return "unsupported";
    case ErrorKind::kDeviceLost:
      return "device_lost";
    case ErrorKind::kInterrupted:
      return "interrupted";
    case ErrorKind::kInternal:
      return "internal";
  }
  return "unknown";
}

bool is_device_failure(ErrorKind kind) {
  return kind == ErrorKind::kDevice || kind == ErrorKind::kOutOfMemory || kind == ErrorKind::kUnsupported ||
         kind == ErrorKind::kDeviceLost;
}

std::string quoted(std::string_view text, size_t limit) {
  std::string result = "'";
  for (size_t i = 0; i < text.size(); ++i) {
    if (result.size() > limit) {
      result += "...";
      break;
    }
    const size_t length = sequence_length(text.substr(i));
    if (length > 1) {
      result += text.substr(i, length);
      i += length - 1;
      continue;
    }
    const auto c = static_cast<unsigned char>(text[i]);
    if (c == '\n') result += "\\n";
    else if (c == '\t') result += "\\t";
    else if (c < 0x20 || c == 0x7F || length == 0) result += fmt::format("\\x{:02x}", c);
    else result += static_cast<char>(c);
  }
  return result + "'";
}

namespace {

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

// Levenshtein distance, two rows; the case of letters does not count.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i + 1;
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t substitution = diagonal + (lower(a[i]) != lower(b[j]));
      diagonal = row[j + 1];
      row[j + 1] = std::min({row[j] + 1, row[j + 1] + 1, substitution});
    }
  }
  return row[b.size()];
}

// The first of `names` whose last words are `name`, or the only one whose first words are: of 'batch_size' it is
// 'per_device_train_batch_size', of 'output' 'output_dir'. Dashes in front do not count.
const std::string* with_words(std::string_view name, const std::vector<std::string>& names) {
  const auto bare = [](std::string_view word) {
    return word.substr(std::min(word.find_first_not_of('-'), word.size()));
  };
  const std::string words(bare(name));
  if (words.size() < 4) return nullptr;  // too little to know what is meant
  const std::string *first = nullptr, *begun = nullptr;
  size_t many_begun = 0;
  for (const std::string& candidate : names) {
    const std::string_view known = bare(candidate);
    if (!first && known.ends_with("_" + words)) first = &candidate;
    if (known.starts_with(words + "_")) begun = &candidate, ++many_begun;
  }
  return first ? first : many_begun == 1 ? begun : nullptr;
}

}  // namespace

const std::string* nearest(std::string_view name, const std::vector<std::string>& names) {
  const std::string* best = nullptr;
  constexpr size_t kSlip = 2;  // so many letters are a slip of the fingers; words that agree say more than further ones
  size_t best_distance = std::max(kSlip, name.size() / 3) + 1;
  for (const std::string& candidate : names) {
    const size_t distance = edit_distance(name, candidate);
    if (distance < best_distance) best_distance = distance, best = &candidate;
  }
  if (best && best_distance <= kSlip) return best;
  if (const std::string* words = with_words(name, names)) return words;
  return best;
}

std::string did_you_mean(std::string_view name, const std::vector<std::string>& names) {
  const std::string* near = nearest(name, names);
  return near ? fmt::format(", did you mean '{}'?", *near) : ".";
}

}  // namespace transom
