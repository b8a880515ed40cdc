// SPDX-License-Identifier: Apache-2.0
#include "files/config/known_keys.h"

#include <algorithm>
#include <mutex>
#include <set>
#include <vector>

#include "base/error.h"
#include "base/json/json.h"
#include "base/terminal/log.h"

namespace transom {
namespace {

// A file is read by several of a program's parts, and reported once.
bool is_news(const std::string& message) {
  static std::mutex mutex;
  static std::set<std::string> said;
  const std::lock_guard lock(mutex);
  constexpr size_t kMost = 1000;
  if (said.size() >= kMost) said.clear();
  return said.insert(message).second;
}

}  // namespace

bool is_neutral(const KnownKey& key, const Json& value) {
  constexpr std::string_view kOr = " or ";
  for (std::string_view rest = key.neutral; !rest.empty();) {
    const size_t end = std::min(rest.find(kOr), rest.size());
    const Json neutral = parse_json(rest.substr(0, end), "a neutral value");
    rest.remove_prefix(std::min(end + kOr.size(), rest.size()));
    const bool numbers = value.is_number() && neutral.is_number();
    if (numbers ? value.get<double>() == neutral.get<double>() : value == neutral) return true;
    // Of lists that say something for each layer.
    if (value.is_array() && std::all_of(value.begin(), value.end(), [&](const Json& one) { return one == neutral; }))
      return true;
  }
  return false;
}

void check_known_keys(const Json& object, const std::string& where, std::span<const KnownKey> known,
                      const std::function<bool(const std::string& key)>& is_read) {
  std::vector<std::string> unknown;
  for (const auto& [name, value] : object.items()) {
    if (value.is_null() || is_read(name)) continue;
    const auto found =
        std::find_if(known.begin(), known.end(), [&, &name = name](const KnownKey& key) { return key.name == name; });
    if (found == known.end()) {
      if (!name.starts_with("_")) unknown.push_back(quoted(name, 100));
    } else if (!found->neutral.empty() && !is_neutral(*found, value)) {
      if (found->is_reported) {
        unknown.push_back(quoted(name, 100));
        continue;
      }
      fail(ErrorKind::kUnsupported, "{}: {} = {} is not carried out; only {} is", where, name,
           quoted(dump_json(value), 200), found->neutral);
    }
  }
  if (unknown.empty()) return;
  const std::string message = fmt::format("{}: not known and left out: {}", where, fmt::join(unknown, ", "));
  if (is_news(message)) log(LogLevel::kWarning, message);
}

}  // namespace transom
