// SPDX-License-Identifier: Apache-2.0
#include "tools/client/event_stream.h"

namespace transom::client {
namespace {

constexpr size_t kMostBytes = 64 << 20;

}  // namespace

bool EventStream::add(std::string_view piece) {
  while (!piece.empty() && !broken_) {
    // A line ends with CR, LF or both; both may be cut between two pieces.
    if (after_return_ && piece.front() == '\n') piece.remove_prefix(1);
    after_return_ = false;
    const size_t end = piece.find_first_of("\r\n");
    if (line_.size() + std::min(end, piece.size()) + data_.size() > kMostBytes) {
      broken_ = true;
      break;
    }
    if (end == piece.npos) {
      line_ += piece;
      break;
    }
    after_return_ = piece[end] == '\r';
    if (line_.empty()) {
      take_line(piece.substr(0, end));
    } else {
      line_ += piece.substr(0, end);
      const std::string line = std::move(line_);
      line_.clear();
      take_line(line);
    }
    piece.remove_prefix(end + 1);
  }
  return !broken_;
}

void EventStream::end() {
  if (broken_) return;
  if (!line_.empty()) take_line(std::string(std::move(line_)));
  line_.clear();
  finish_event();
}

void EventStream::take_line(std::string_view line) {
  if (line.empty()) return finish_event();
  if (!line.starts_with("data")) return;
  line.remove_prefix(4);
  if (!line.empty() && line.front() != ':') return;  // a field of a longer name
  if (!line.empty()) line.remove_prefix(1);
  if (line.starts_with(' ')) line.remove_prefix(1);
  if (has_data_) data_ += '\n';
  data_ += line;
  has_data_ = true;
}

void EventStream::finish_event() {
  if (!has_data_) return;
  has_data_ = false;
  const std::string data = std::move(data_);
  data_.clear();
  take_(data);
}

}  // namespace transom::client
