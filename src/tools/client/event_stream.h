// SPDX-License-Identifier: Apache-2.0
// Server-sent events (WHATWG HTML, 9.2) out of the pieces in which a body comes.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace transom::client {

class EventStream {
 public:
  // `take` gets the data of each event, its lines joined by line feeds; comments and other fields are left out.
  explicit EventStream(std::function<void(std::string_view data)> take) : take_(std::move(take)) {}

  // Takes the next piece, cut anywhere. False once an event is larger than 64 MiB: nothing more is read.
  bool add(std::string_view piece);
  // The body is complete: an event without its empty line counts, as some servers end so.
  void end();

 private:
  void take_line(std::string_view line);
  void finish_event();

  std::function<void(std::string_view)> take_;
  std::string line_, data_;
  bool has_data_ = false, after_return_ = false, broken_ = false;
};

}  // namespace transom::client
