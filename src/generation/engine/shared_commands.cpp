// SPDX-License-Identifier: Apache-2.0
#include "generation/engine/shared_commands.h"

#include <cstring>

#include "base/error.h"

namespace transom {
namespace {

// Numbers of eight bytes; lists, texts and numbers of tensors begin with their length.
class CommandWriter {
 public:
  template <typename T>
  void list(const std::vector<T>& values) {
    number(static_cast<int64_t>(values.size()));
    for (const T value : values) number(static_cast<int64_t>(value));
  }
  void text(std::string_view bytes) {
    number(static_cast<int64_t>(bytes.size()));
    bytes_.append(bytes);
  }
  void tensors(const NamedTensors& tensors) {
    number(static_cast<int64_t>(tensors.items().size()));
    for (const auto& [name, tensor] : tensors.items()) {
      text(name);
      number(static_cast<int64_t>(tensor.dtype()));
      list(tensor.shape());
      const std::vector<std::byte> bytes = tensor.to_bytes();
      text({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    }
  }
  void number(int64_t value) {
    char bytes[sizeof value];
    std::memcpy(bytes, &value, sizeof value);
    bytes_.append(bytes, sizeof value);
  }
  std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

class CommandReader {
 public:
  explicit CommandReader(const std::string& bytes) : bytes_(bytes) {}
  int64_t number() {
    int64_t value = 0;
    if (bytes_.size() - at_ < sizeof value) refuse();
    std::memcpy(&value, bytes_.data() + at_, sizeof value);
    at_ += sizeof value;
    return value;
  }
  template <typename T>
  std::vector<T> list() {
    const int64_t count = number();
    if (count < 0 || static_cast<uint64_t>(count) > (bytes_.size() - at_) / sizeof(int64_t)) refuse();
    std::vector<T> values;
    values.reserve(static_cast<size_t>(count));
    for (int64_t i = 0; i < count; ++i) values.push_back(static_cast<T>(number()));
    return values;
  }
  std::string_view text() {
    const int64_t size = number();
    if (size < 0 || static_cast<uint64_t>(size) > bytes_.size() - at_) refuse();
    at_ += static_cast<size_t>(size);
    return std::string_view(bytes_).substr(at_ - static_cast<size_t>(size), static_cast<size_t>(size));
  }
  NamedTensors tensors() {
    NamedTensors tensors;
    int64_t left = number();
    if (left < 0) refuse();
    for (; left > 0; --left) {
      const std::string name(text());
      const int64_t dtype = number();
      const Shape shape = list<int64_t>();
      const std::string_view bytes = text();
      if (dtype < 0 || dtype > static_cast<int64_t>(DType::kFloat64)) refuse();
      try {
        tensors.set(name, Tensor::from_bytes(std::as_bytes(std::span(bytes)), {static_cast<DType>(dtype), shape}));
      } catch (const Error&) {
        refuse();
      }
    }
    return tensors;
  }
  void end() {
    if (at_ != bytes_.size()) refuse();
  }
  [[noreturn]] static void refuse() {
    fail(ErrorKind::kDevice, "expected a command of the process that leads; all processes need the same version");
  }

 private:
  const std::string& bytes_;
  size_t at_ = 0;
};

}  // namespace

std::string bytes_of(const EngineCommand& command) {
  CommandWriter writer;
  writer.number(static_cast<int64_t>(command.kind));
  writer.number(command.blocks);
  writer.number(command.block_size);
  writer.number(static_cast<int64_t>(command.cache_dtype));
  writer.tensors(command.attached.tensors);
  std::vector<int64_t> places;
  for (const FilledPlaces& some : command.attached.places) places.insert(places.end(), {some.begin, some.count});
  writer.list(places);
  const PagedPass& pass = command.pass;
  writer.list(pass.ids);
  writer.list(pass.positions);
  writer.list(pass.slots);
  writer.list(pass.block_tables);
  writer.list(pass.lengths);
  writer.number(pass.blocks);
  writer.number(pass.scored);
  const auto* rows = reinterpret_cast<const char*>(pass.embeddings.data());
  writer.text({rows, pass.embeddings.size() * sizeof(float)});
  writer.list(pass.is_given);
  std::vector<int32_t> ends;
  for (const auto& [first, second] : command.pairs) ends.push_back(first), ends.push_back(second);
  writer.list(ends);
  return writer.take();
}

EngineCommand command_of(const std::string& bytes) {
  CommandReader reader(bytes);
  EngineCommand command;
  const int64_t kind = reader.number();
  if (kind < 0 || kind > static_cast<int64_t>(EngineCommand::Kind::kEnd)) CommandReader::refuse();
  command.kind = static_cast<EngineCommand::Kind>(kind);
  command.blocks = reader.number();
  command.block_size = reader.number();
  const int64_t dtype = reader.number();
  if (dtype != static_cast<int64_t>(DType::kFloat32) && dtype != static_cast<int64_t>(DType::kFloat16) &&
      dtype != static_cast<int64_t>(DType::kBFloat16))
    CommandReader::refuse();
  command.cache_dtype = static_cast<DType>(dtype);
  command.attached.tensors = reader.tensors();
  const std::vector<int64_t> places = reader.list<int64_t>();
  if (places.size() % 2 != 0) CommandReader::refuse();
  for (size_t i = 0; i < places.size(); i += 2) command.attached.places.push_back({places[i], places[i + 1]});
  PagedPass& pass = command.pass;
  pass.ids = reader.list<int64_t>();
  pass.positions = reader.list<int64_t>();
  pass.slots = reader.list<int64_t>();
  pass.block_tables = reader.list<int32_t>();
  pass.lengths = reader.list<int32_t>();
  pass.blocks = reader.number();
  pass.scored = reader.number();
  const std::string_view rows = reader.text();
  if (rows.size() % sizeof(float) != 0) CommandReader::refuse();
  pass.embeddings.resize(rows.size() / sizeof(float));
  if (!rows.empty()) std::memcpy(pass.embeddings.data(), rows.data(), rows.size());
  pass.is_given = reader.list<int64_t>();
  const std::vector<int32_t> ends = reader.list<int32_t>();
  reader.end();
  if (ends.size() % 2 != 0) CommandReader::refuse();
  for (size_t i = 0; i < ends.size(); i += 2) command.pairs.emplace_back(ends[i], ends[i + 1]);
  return command;
}

void follow_engine(const Model& model, Evaluator& evaluator) {
  const auto* writer = dynamic_cast<const GenerativeModel*>(&model);
  if (!writer) fail(ErrorKind::kUnsupported, "{} does not generate text", model.architecture());
  const EvaluatorScope scope(&evaluator);
  const NoGradient inference;
  std::unique_ptr<PagedProgram> program;
  while (true) {
    const EngineCommand command = command_of(evaluator.from_leader(""));
    if (command.kind == EngineCommand::Kind::kEnd) return;
    if (command.kind == EngineCommand::Kind::kMake) {
      program =
          std::make_unique<PagedProgram>(*writer, key_value_shapes(*writer, std::string(name_of(command.cache_dtype))),
                                         command.blocks, command.block_size, command.blocks);
      continue;
    }
    if (!program) CommandReader::refuse();
    if (command.kind == EngineCommand::Kind::kRun) program->run(command.pass, nullptr);
    else if (command.kind == EngineCommand::Kind::kEmbed) program->embed(command.attached, nullptr);
    else if (command.kind == EngineCommand::Kind::kGrow) program->grow(command.blocks);
    else program->copy_blocks(command.pairs);
  }
}

}  // namespace transom
