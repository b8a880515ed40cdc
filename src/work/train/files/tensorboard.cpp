// SPDX-License-Identifier: Apache-2.0
#include "work/train/files/tensorboard.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "base/error.h"

namespace transom {
namespace {

constexpr std::array<uint32_t, 256> kCrcTable = [] {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t c = i;
    for (int bit = 0; bit < 8; ++bit) c = (c >> 1) ^ ((c & 1) ? 0x82F63B78U : 0);
    table[i] = c;
  }
  return table;
}();

template <typename Number>
std::string little_endian(Number value) {
  std::string bytes;
  for (size_t i = 0; i < sizeof(value); ++i) bytes += static_cast<char>(value >> (8 * i) & 0xFF);
  return bytes;
}

// TensorFlow stores sums turned and shifted, since a sum over data that holds sums is weak.
std::string masked_crc(std::string_view data) { return little_endian(std::rotr(crc32c(data), 15) + 0xA282EAD8U); }

// ---- protocol buffers: fields of the messages Event, Summary, Summary.Value

std::string varint(uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(value | 0x80);
  return bytes + static_cast<char>(value);
}
std::string key(int field, int wire_type) {
  return varint(static_cast<uint64_t>(field) << 3 | static_cast<uint64_t>(wire_type));
}
std::string number_field(int field, uint64_t value) { return key(field, 0) + varint(value); }
std::string bytes_field(int field, std::string_view bytes) {
  return key(field, 2) + varint(bytes.size()) + std::string(bytes);
}
std::string double_field(int field, double value) {
  return key(field, 1) + little_endian(std::bit_cast<uint64_t>(value));
}
std::string float_field(int field, float value) {
  return key(field, 5) + little_endian(std::bit_cast<uint32_t>(value));
}

constexpr int kWallTime = 1, kStep = 2, kFileVersion = 3, kSummary = 5;  // of Event
constexpr int kValue = 1;                                                // of Summary
constexpr int kTag = 1, kSimpleValue = 2, kTensor = 8, kMetadata = 9;    // of Summary.Value

double now() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }

}  // namespace

uint32_t crc32c(std::string_view data) {
  uint32_t c = 0xFFFFFFFFU;
  for (const char byte : data) c = kCrcTable[(c ^ static_cast<unsigned char>(byte)) & 0xFF] ^ (c >> 8);
  return ~c;
}

std::string tf_record(std::string_view data) {
  const std::string length = little_endian(static_cast<uint64_t>(data.size()));
  return length + masked_crc(length) + std::string(data) + masked_crc(data);
}

std::string version_event(double time) {
  return double_field(kWallTime, time) + bytes_field(kFileVersion, "brain.Event:2");
}

std::string scalar_event(double time, int64_t step, std::string_view tag, float value) {
  const std::string summary = bytes_field(kValue, bytes_field(kTag, tag) + float_field(kSimpleValue, value));
  return double_field(kWallTime, time) + number_field(kStep, static_cast<uint64_t>(step)) +
         bytes_field(kSummary, summary);
}

std::string text_event(double time, std::string_view tag, std::string_view text) {
  // A tensor of strings (type 7) of shape [1], for the plugin "text".
  const std::string shape = bytes_field(2, bytes_field(2, number_field(1, 1)));
  const std::string tensor = number_field(1, 7) + shape + bytes_field(8, text);
  const std::string metadata = bytes_field(1, bytes_field(1, "text"));
  const std::string value = bytes_field(kTag, std::string(tag) + "/text_summary") + bytes_field(kTensor, tensor) +
                            bytes_field(kMetadata, metadata);
  return double_field(kWallTime, time) + bytes_field(kSummary, bytes_field(kValue, value));
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
