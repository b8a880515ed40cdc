// SPDX-License-Identifier: Apache-2.0
#include "work/generation/processes/process_command.h"

#include <bit>
#include <cstring>
#include <limits>

#include "base/error.h"

namespace transom {
namespace {

using Kind = ProcessCommand::Kind;

// Numbers of eight bytes; lists, texts and numbers of tensors begin with their length.
class CommandWriter {
 public:
  void number(int64_t value) {
    char bytes[sizeof value];
    std::memcpy(bytes, &value, sizeof value);
    bytes_.append(bytes, sizeof value);
  }
  void real(double value) { number(std::bit_cast<int64_t>(value)); }
  template <typename T>
  void choice(T value, T /*last*/) {
    number(static_cast<int64_t>(value));
  }
  void text(std::string_view bytes) {
    number(static_cast<int64_t>(bytes.size()));
    bytes_.append(bytes);
  }
  template <typename T>
  void list(const std::vector<T>& values) {
    number(static_cast<int64_t>(values.size()));
    for (const T value : values) number(static_cast<int64_t>(value));
  }
  void floats(const std::vector<float>& values) {
    text({reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)});
  }
  template <typename T, typename Each>
  void each(const std::vector<T>& values, const Each& write) {
    number(static_cast<int64_t>(values.size()));
    for (const T& value : values) write(value);
  }
  void tensors(const NamedTensors& tensors) {
    each(tensors.items(), [&](const auto& item) {
      text(item.first);
      choice(item.second.dtype(), DType::kFloat64);
      list(item.second.shape());
      const std::vector<std::byte> bytes = item.second.to_bytes();
      text({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    });
  }
  std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

class CommandReader {
 public:
  explicit CommandReader(const std::string& bytes) : bytes_(bytes) {}
  void number(int64_t& value) { value = number(); }
  void real(double& value) { value = std::bit_cast<double>(number()); }
  template <typename T>
  void choice(T& value, T last) {
    const int64_t given = number();
    if (given < 0 || given > static_cast<int64_t>(last)) refuse_command();
    value = static_cast<T>(given);
  }
  void text(std::string& value) { value = text(); }
  template <typename T>
  void list(std::vector<T>& values) {
    const int64_t count = number();
    if (count < 0 || static_cast<uint64_t>(count) > (bytes_.size() - at_) / sizeof(int64_t)) refuse_command();
    values.reserve(static_cast<size_t>(count));
    for (int64_t i = 0; i < count; ++i) values.push_back(static_cast<T>(number()));
  }
  void floats(std::vector<float>& values) {
    const std::string_view bytes = text();
    if (bytes.size() % sizeof(float) != 0) refuse_command();
    values.resize(bytes.size() / sizeof(float));
    if (!bytes.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  }
  // Each has a byte at least, so that no more are made than there are bytes.
  template <typename T, typename Each>
  void each(std::vector<T>& values, const Each& read) {
    const int64_t count = number();
    if (count < 0 || static_cast<uint64_t>(count) > bytes_.size() - at_) refuse_command();
    for (int64_t i = 0; i < count; ++i) read(values.emplace_back());
  }
  void tensors(NamedTensors& tensors) {
    NamedTensors::Items items;
    each(items, [&](auto& item) {
      Type type;
      text(item.first);
      choice(type.dtype, DType::kFloat64);
      list(type.shape);
      const std::string_view bytes = text();
      try {
        item.second = Tensor::from_bytes(std::as_bytes(std::span(bytes)), type);
      } catch (const Error&) {
        refuse_command();
      }
    });
    for (auto& [name, tensor] : items) tensors.set(name, tensor);
  }
  void end() const {
    if (at_ != bytes_.size()) refuse_command();
  }

 private:
  int64_t number() {
    int64_t value = 0;
    if (bytes_.size() - at_ < sizeof value) refuse_command();
    std::memcpy(&value, bytes_.data() + at_, sizeof value);
    at_ += sizeof value;
    return value;
  }
  std::string_view text() {
    const int64_t size = number();
    if (size < 0 || static_cast<uint64_t>(size) > bytes_.size() - at_) refuse_command();
    at_ += static_cast<size_t>(size);
    return std::string_view(bytes_).substr(at_ - static_cast<size_t>(size), static_cast<size_t>(size));
  }

  const std::string& bytes_;
  size_t at_ = 0;
};

template <typename Archive, typename Pass>
void walk_pass(Archive& archive, Pass& pass) {
  archive.list(pass.ids);
  archive.list(pass.positions);
  archive.list(pass.slots);
  archive.list(pass.block_tables);
  archive.list(pass.lengths);
  archive.number(pass.blocks);
  archive.number(pass.scored);
  archive.floats(pass.embeddings);
  archive.list(pass.is_given);
}

// What belongs to the kind, written or read.
template <typename Archive, typename Command>
void walk(Archive& archive, Command& command) {
  archive.choice(command.kind, Kind::kEnd);
  switch (command.kind) {
    case Kind::kMake:
      archive.number(command.blocks);
      archive.number(command.block_size);
      archive.choice(command.cache_dtype, DType::kFloat64);
      if (!is_floating(command.cache_dtype)) refuse_command();
      return;
    case Kind::kEmbed:
      archive.tensors(command.attached.tensors);
      return archive.each(command.attached.places, [&](auto& places) {
        archive.number(places.begin);
        archive.number(places.count);
      });
    case Kind::kRun:
      return walk_pass(archive, command.pass);
    case Kind::kGrow:
      return archive.number(command.blocks);
    case Kind::kCopy:
      return archive.each(command.pairs, [&](auto& pair) {
        archive.choice(pair.first, std::numeric_limits<int32_t>::max());
        archive.choice(pair.second, std::numeric_limits<int32_t>::max());
      });
    case Kind::kBegin:
    case Kind::kRead:
    case Kind::kRepeat:
    case Kind::kReorder:
      return archive.list(command.numbers);
    case Kind::kAnswer:
      archive.each(command.output.sequences, [&](auto& sequence) { archive.list(sequence); });
      return archive.each(command.output.scores, [&](auto& score) { archive.real(score); });
    case Kind::kFailure:
      archive.choice(command.error, ErrorKind::kInternal);
      return archive.text(command.text);
    case Kind::kEnd:
      return;
  }
}

}  // namespace

std::string bytes_of(const ProcessCommand& command) {
  CommandWriter writer;
  walk(writer, command);
  return writer.take();
}

ProcessCommand command_of(const std::string& bytes) {
  CommandReader reader(bytes);
  ProcessCommand command;
  walk(reader, command);
  reader.end();
  return command;
}

void refuse_command() {
  fail(ErrorKind::kDevice, "expected a command of the process that leads; all processes need the same version");
}

}  // namespace transom
