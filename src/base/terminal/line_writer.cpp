// SPDX-License-Identifier: Apache-2.0
#include "base/terminal/line_writer.h"

#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "base/error.h"

namespace transom {

struct LineWriter::State {
  int file = -1;
  size_t most_bytes = 0;
  std::mutex mutex;
  std::condition_variable changed;
  std::string waiting;
  int64_t dropped = 0;
  bool stopping = false, ended = false;
};

namespace {

// False where the file takes no more: its disk is full, or its reader has gone.
bool write_all(int file, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(file, bytes.data(), bytes.size());
    if (count >= 0) {
      bytes.remove_prefix(static_cast<size_t>(count));
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {  // whoever has opened the file does not want to wait
      pollfd wait{file, POLLOUT, 0};
      ::poll(&wait, 1, -1);
    } else if (errno != EINTR) {
      return false;
    }
  }
  return true;
}

int64_t lines_in(std::string_view text) {
  int64_t count = 0;
  for (const char c : text) count += c == '\n';
  return count;
}

}  // namespace

LineWriter::LineWriter(int file, size_t most_bytes) : state_(std::make_shared<State>()) {
  state_->file = file;
  state_->most_bytes = most_bytes;
  std::thread([state = state_] {
    std::unique_lock lock(state->mutex);
    while (true) {
      state->changed.wait(lock, [&] { return state->stopping || !state->waiting.empty(); });
      if (state->waiting.empty()) break;
      std::string text;
      if (const int64_t dropped = std::exchange(state->dropped, 0); dropped > 0)
        text = fmt::format("transom: {} lines of the log were dropped, since they were not taken\n", dropped);
      text += std::exchange(state->waiting, {});
      lock.unlock();
      const bool taken = write_all(state->file, text);
      lock.lock();
      if (!taken) state->dropped += lines_in(text);
    }
    state->ended = true;
    state->changed.notify_all();
  }).detach();
}

LineWriter::~LineWriter() {
  std::unique_lock lock(state_->mutex);
  state_->stopping = true;
  state_->changed.notify_all();
  state_->changed.wait_for(lock, std::chrono::seconds(1), [this] { return state_->ended; });
}

void LineWriter::write(std::string_view line) {
  {
    const std::lock_guard lock(state_->mutex);
    if (state_->waiting.size() + line.size() + 1 > state_->most_bytes) {
      ++state_->dropped;
      return;
    }
    state_->waiting.append(line).push_back('\n');
  }
  state_->changed.notify_all();
}

}  // namespace transom
