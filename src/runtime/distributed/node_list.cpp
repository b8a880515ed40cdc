// SPDX-License-Identifier: Apache-2.0
#include "runtime/distributed/node_list.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "base/error.h"
#include "runtime/distributed/environment.h"

namespace transom {
namespace {

std::optional<int64_t> number_in(std::string_view digits) {
  int64_t value = 0;
  const auto [end, status] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (status != std::errc() || end != digits.data() + digits.size() || value < 0) return std::nullopt;
  return value;
}

// The texts between commas that stand in no bracket.
std::vector<std::string_view> split(std::string_view text) {
  std::vector<std::string_view> parts;
  size_t begin = 0;
  int depth = 0;
  for (size_t i = 0; i <= text.size(); ++i) {
    if (i < text.size() && text[i] == '[') ++depth;
    if (i < text.size() && text[i] == ']') --depth;
    if (i < text.size() && (text[i] != ',' || depth > 0)) continue;
    parts.push_back(text.substr(begin, i - begin));
    begin = i + 1;
  }
  return parts;
}

// Reads one list; nothing where the text is none.
class NodeList {
 public:
  explicit NodeList(std::string_view text) {
    for (const std::string_view part : split(text)) {
      valid_ &= !part.empty();
      if (valid_) add("", part);
    }
  }
  std::optional<std::vector<std::string>> hosts() && {
    if (!valid_) return std::nullopt;
    return std::move(hosts_);
  }

 private:
  void add(const std::string& front, std::string_view rest) {
    const size_t open = rest.find('['), close = rest.find(']', open == rest.npos ? 0 : open);
    if (open == rest.npos) {
      valid_ &= close == rest.npos && hosts_.size() < static_cast<size_t>(kMostRanks);
      if (valid_) hosts_.push_back(front + std::string(rest));
      return;
    }
    valid_ &= close != rest.npos;
    if (!valid_) return;
    const std::string before = front + std::string(rest.substr(0, open));
    const std::string_view behind = rest.substr(close + 1);
    for (const std::string_view range : split(rest.substr(open + 1, close - open - 1))) {
      const size_t dash = range.find('-');
      const std::string_view first = range.substr(0, dash);
      const auto low = number_in(first), high = dash == range.npos ? low : number_in(range.substr(dash + 1));
      valid_ &= low && high && *low <= *high && *high - *low < kMostRanks;
      for (int64_t i = valid_ ? *low : 0; valid_ && i <= *high; ++i) {
        std::string digits = std::to_string(i);
        if (digits.size() < first.size()) digits.insert(0, first.size() - digits.size(), '0');
        add(before + digits, behind);
      }
    }
  }

  std::vector<std::string> hosts_;
  bool valid_ = true;
};

}  // namespace

std::vector<std::string> hosts_of_node_list(const char* variable, std::string_view text) {
  auto hosts = NodeList(text).hosts();
  if (!hosts) fail(ErrorKind::kUsage, "{}: expected a list of hosts such as n[0-3], found {}", variable, quoted(text));
  return std::move(*hosts);
}

std::vector<int64_t> tasks_of_nodes(const char* variable, std::string_view text) {
  std::vector<int64_t> counts;
  for (std::string_view part : split(text)) {
    std::optional<int64_t> times = 1;
    if (const size_t bracket = part.find("(x"); bracket != part.npos && part.ends_with(')')) {
      times = number_in(part.substr(bracket + 2, part.size() - bracket - 3));
      part = part.substr(0, bracket);
    }
    const auto count = number_in(part);
    if (!count || !times || *times + static_cast<int64_t>(counts.size()) > kMostRanks)
      fail(ErrorKind::kUsage, "{}: expected counts such as 5,1(x3), found {}", variable, quoted(text));
    counts.insert(counts.end(), static_cast<size_t>(*times), *count);
  }
  return counts;
}

}  // namespace transom
