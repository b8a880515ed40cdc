// SPDX-License-Identifier: Apache-2.0
// Lines of a log, written by a thread of their own, so that whoever has something to say never waits for a pipe that
// nobody reads or for a terminal that is stopped.
#pragma once

#include <cstddef>
#include <memory>
#include <string_view>

namespace transom {

// Any thread may write. Lines that find no room are dropped; how many is written as a line as soon as there is room.
class LineWriter {
 public:
  // `file` is a file descriptor, which stays open. At most so many bytes wait.
  explicit LineWriter(int file, size_t most_bytes = 1 << 20);
  // Waits a second at most for what has not been written.
  ~LineWriter();
  LineWriter(const LineWriter&) = delete;
  LineWriter& operator=(const LineWriter&) = delete;

  // Never blocks. The line has no line end.
  void write(std::string_view line);

 private:
  struct State;
  std::shared_ptr<State> state_;  // the thread has it too, since it may outlive this object in a write that blocks
};

}  // namespace transom
