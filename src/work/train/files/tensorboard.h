// SPDX-License-Identifier: Apache-2.0
// Event files that TensorBoard reads: TFRecords (a length, the data, and a masked CRC-32C of each) of Event messages in
// protocol buffers.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "work/train/files/trainer_state.h"

namespace transom {

// A record with its length and both check sums.
std::string tf_record(std::string_view data);
// Events; `time` in seconds since 1970.
std::string version_event(double time);
std::string scalar_event(double time, int64_t step, std::string_view tag, float value);
std::string text_event(double time, std::string_view tag, std::string_view text);

// The tag of a logged number: eval_loss is eval/loss, test_loss test/loss, loss train/loss.
std::string tensorboard_tag(std::string_view name);

// One event file; every record is on disk when the function that adds it returns, so that a killed run loses nothing.
class TensorBoard {
 public:
  // Makes `folder`/events.out.tfevents.<time>.<host>.<process>.0.
  explicit TensorBoard(const std::filesystem::path& folder);
  ~TensorBoard();
  TensorBoard(const TensorBoard&) = delete;
  TensorBoard& operator=(const TensorBoard&) = delete;

  void text(std::string_view tag, std::string_view text);
  // The numbers of a record of the log, but for its step.
  void log(const LogRecord& record, int64_t step);
  const std::filesystem::path& path() const { return path_; }

 private:
  void write(const std::string& records);
  std::filesystem::path path_;
  int descriptor_ = -1;
};

}  // namespace transom
