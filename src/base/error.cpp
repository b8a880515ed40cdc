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

// Levenshtein distance, two rows.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i + 1;
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t substitution = diagonal + (a[i] != b[j]);
      diagonal = row[j + 1];
      row[j + 1] = std::min({row[j] + 1, row[j + 1] + 1, substitution});
    }
  }
  return row[b.size()];
}

}  // namespace

const std::string* nearest(std::string_view name, const std::vector<std::string>& names) {
  const std::string* best = nullptr;
  size_t best_distance = std::max<size_t>(2, name.size() / 3) + 1;
  for (const std::string& candidate : names) {
    const size_t distance = edit_distance(name, candidate);
    if (distance < best_distance) best_distance = distance, best = &candidate;
  }
  return best;
}

std::string did_you_mean(std::string_view name, const std::vector<std::string>& names) {
  const std::string* near = nearest(name, names);
  return near ? fmt::format(", did you mean '{}'?", *near) : ".";
}

}  // namespace transom
