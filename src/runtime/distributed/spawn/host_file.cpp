// SPDX-License-Identifier: Apache-2.0
#include "runtime/distributed/spawn/host_file.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "runtime/distributed/environment.h"

namespace transom {
namespace {

constexpr std::string_view kBlanks = " \t\r";

std::vector<std::string_view> words_of_line(std::string_view line) {
  line = line.substr(0, line.find('#'));
  std::vector<std::string_view> words;
  while (true) {
    const size_t begin = line.find_first_not_of(kBlanks);
    if (begin == line.npos) return words;
    line.remove_prefix(begin);
    const size_t end = std::min(line.find_first_of(kBlanks), line.size());
    words.push_back(line.substr(0, end));
    line.remove_prefix(end);
  }
}

// What ssh and mpirun would take for something else than a host is refused.
bool is_host_name(std::string_view name) {
  return !name.empty() && name[0] != '-' &&
         name.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_@[]:") == name.npos;
}

}  // namespace

std::vector<Host> parse_host_file(std::string_view text, std::string_view where) {
  std::vector<Host> hosts;
  size_t number = 0;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    ++number;
    const auto words = words_of_line(line);
    if (words.empty()) continue;
    std::string_view name = words[0], slots = "1";
    for (size_t i = 1; i < words.size(); ++i) {
      if (words[i].starts_with("slots=")) slots = words[i].substr(6);
      else if (!words[i].starts_with("max_slots=") && !words[i].starts_with("max-slots="))
        fail("{}:{}: expected a host and slots=N, found {}", where, number, quoted(words[i]));
    }
    // Of an address of IPv6 without brackets the last part is no count.
    if (const size_t colon = name.rfind(':'); colon != name.npos && name.find(':') == colon) {
      slots = name.substr(colon + 1);
      name = name.substr(0, colon);
    }
    int64_t count = 0;
    const auto [stop, status] = std::from_chars(slots.data(), slots.data() + slots.size(), count);
    if (status != std::errc() || stop != slots.data() + slots.size() || count < 1 || count > kMostRanks)
      fail("{}:{}: slots: expected a number from 1 to {}, found {}", where, number, kMostRanks, quoted(slots));
    if (!is_host_name(name)) fail("{}:{}: expected the name of a host, found {}", where, number, quoted(name));
    const auto known = std::find_if(hosts.begin(), hosts.end(), [&](const Host& host) { return host.name == name; });
    if (known != hosts.end()) known->slots += count;
    else hosts.push_back({std::string(name), count});
    if (hosts.size() > static_cast<size_t>(kMostRanks)) fail("{}: expected at most {} hosts", where, kMostRanks);
  }
  if (hosts.empty()) fail("{}: expected a host a line, found none", where);
  return hosts;
}

bool is_this_machine(const std::string& host) {
  char name[256] = {};
  ::gethostname(name, sizeof name - 1);
  const std::string own = name;
  return host == "localhost" || host == "127.0.0.1" || host == "::1" || host == own ||
         host == own.substr(0, own.find('.'));
}

}  // namespace transom
