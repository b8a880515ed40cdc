// SPDX-License-Identifier: Apache-2.0
#include "runtime/distributed/spawn/child.h"

#include <unistd.h>

#include <cerrno>

#include "base/error.h"

namespace transom {
namespace {

constexpr size_t kLongestLine = 1 << 16;  // what is longer is taken in pieces

}  // namespace

Child::Child(ChildOptions options)
    : options_(std::move(options)),
      process_({.label = options_.label,
                .words = options_.words,
                .variables = options_.variables,
                .input = options_.reads_input ? ProcessStream::kOurs : ProcessStream::kNothing}) {}

void Child::read(size_t number, const TakeLine& take) {
  std::string& text = unended_[number];
  char piece[16384];
  while (true) {
    const int file = number == 0 ? process_.output() : process_.error();
    if (file < 0) return;
    const ssize_t got = ::read(file, piece, sizeof piece);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    if (got <= 0) return close(number);
    text.append(piece, static_cast<size_t>(got));
    size_t begin = 0;
    // A bar that is drawn anew ends with a return.
    for (size_t end; (end = text.find_first_of("\n\r", begin)) != text.npos; begin = end + 1)
      if (end > begin || text[end] == '\n')
        take(options_, number == 1, std::string_view(text).substr(begin, end - begin));
    text.erase(0, begin);
    if (text.size() < kLongestLine) continue;
    take(options_, number == 1, text);
    text.clear();
  }
}

void Child::close(size_t number) { number == 0 ? process_.close_output() : process_.close_error(); }

void Child::read(const TakeLine& take) {
  for (const size_t number : {0, 1}) read(number, take);
}

void Child::finish(const TakeLine& take) {
  read(take);
  for (const size_t number : {0, 1}) {
    if (!unended_[number].empty()) take(options_, number == 1, std::exchange(unended_[number], ""));
    close(number);
  }
}

int Child::status() const {
  if (!process_.status())
    fail("{}: how it ended is not known, since this process ignores SIGCHLD; start it without that", options_.label);
  return *process_.status();
}

}  // namespace transom
