// SPDX-License-Identifier: Apache-2.0
#include "work/train/files/tensorboard.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <span>

#include "base/error.h"
#include "base/numbers/crc32c.h"
#include "base/protobuf/wire_writer.h"

namespace transom {
namespace {

template <typename Number>
std::string little_endian(Number value) {
  std::string bytes;
  for (size_t i = 0; i < sizeof(value); ++i) bytes += static_cast<char>(value >> (8 * i) & 0xFF);
  return bytes;
}

std::string masked_crc(std::string_view data) { return little_endian(masked_crc32c(std::as_bytes(std::span(data)))); }

// ---- fields of the messages Event, Summary, Summary.Value

constexpr int kWallTime = 1, kStep = 2, kFileVersion = 3, kSummary = 5;  // of Event
constexpr int kValue = 1;                                                // of Summary
constexpr int kTag = 1, kSimpleValue = 2, kTensor = 8, kMetadata = 9;    // of Summary.Value

double now() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }

}  // namespace

std::string tf_record(std::string_view data) {
  const std::string length = little_endian(static_cast<uint64_t>(data.size()));
  return length + masked_crc(length) + std::string(data) + masked_crc(data);
}

std::string version_event(double time) {
  WireWriter event;
  event.number64(kWallTime, time);
  event.bytes(kFileVersion, "brain.Event:2");
  return event.text();
}

std::string scalar_event(double time, int64_t step, std::string_view tag, float value) {
  WireWriter scalar, summary, event;
  scalar.bytes(kTag, tag);
  scalar.number32(kSimpleValue, value);
  summary.message(kValue, scalar);
  event.number64(kWallTime, time);
  event.number(kStep, step);
  event.message(kSummary, summary);
  return event.text();
}

std::string text_event(double time, std::string_view tag, std::string_view text) {
  WireWriter extent, shape, tensor, plugin, metadata, value, summary, event;
  extent.number(1, 1);
  shape.message(2, extent);
  tensor.number(1, 7);  // strings, of shape [1]
  tensor.message(2, shape);
  tensor.bytes(8, text);
  plugin.bytes(1, "text");
  metadata.message(1, plugin);
  value.bytes(kTag, std::string(tag) + "/text_summary");
  value.message(kTensor, tensor);
  value.message(kMetadata, metadata);
  summary.message(kValue, value);
  event.number64(kWallTime, time);
  event.message(kSummary, summary);
  return event.text();
}

std::string tensorboard_tag(std::string_view name) {
  for (const std::string_view split : {"eval_", "test_"})
    if (name.starts_with(split)) return fmt::format("{}/{}", split.substr(0, 4), name.substr(5));
  return fmt::format("train/{}", name);
}

TensorBoard::TensorBoard(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  char host[256] = "localhost";
  ::gethostname(host, sizeof(host) - 1);
  path_ = folder / fmt::format("events.out.tfevents.{}.{}.{}.0", static_cast<int64_t>(now()), host, ::getpid());
  descriptor_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (descriptor_ < 0) fail("{}: cannot be written: {}", path_.string(), std::strerror(errno));
  write(tf_record(version_event(now())));
}

TensorBoard::~TensorBoard() { ::close(descriptor_); }

void TensorBoard::write(const std::string& records) {
  for (size_t done = 0; done < records.size();) {
    const ssize_t written = ::write(descriptor_, records.data() + done, records.size() - done);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail("{}: cannot be written: {}", path_.string(), std::strerror(errno));
    done += static_cast<size_t>(written);
  }
}

void TensorBoard::text(std::string_view tag, std::string_view text) { write(tf_record(text_event(now(), tag, text))); }

void TensorBoard::log(const LogRecord& record, int64_t step) {
  std::string records;
  const double time = now();
  for (const auto& [name, value] : record) {
    const auto number = find_number(record, name);
    if (number && name != "step")
      records += tf_record(scalar_event(time, step, tensorboard_tag(name), static_cast<float>(*number)));
  }
  write(records);
}

}  // namespace transom
