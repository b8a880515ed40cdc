// SPDX-License-Identifier: Apache-2.0
#include "files/gguf/gguf_file.h"

#include <cstring>
#include <limits>

#include "base/error.h"
#include "base/files/directories.h"
#include "files/blocks/ggml/ggml_blocks.h"

namespace transom {
namespace {

constexpr uint32_t kMaximumDimensions = 4;
constexpr uint64_t kMaximumTensors = 1'000'000, kMaximumKeys = 1'000'000;
constexpr int64_t kMaximumParts = 10'000;

enum Kind : uint32_t { kU8, kI8, kU16, kI16, kU32, kI32, kF32, kBool, kString, kArray, kU64, kI64, kF64, kKinds };
constexpr size_t kSizes[kKinds] = {1, 1, 2, 2, 4, 4, 4, 1, 8, 12, 8, 8, 8};  // the least of one

// Reads forward, never past the end.
class Reader {
 public:
  Reader(std::span<const std::byte> bytes, const std::string& where) : bytes_(bytes), where_(where) {}

  template <typename T>
  T number(std::string_view what) {
    T value;
    std::memcpy(&value, take(sizeof(T), what).data(), sizeof(T));
    return value;
  }
  std::string text(std::string_view what) {
    const auto size = number<uint64_t>(what);
    const auto part = take(size, what);
    return {reinterpret_cast<const char*>(part.data()), part.size()};
  }
  std::span<const std::byte> take(uint64_t size, std::string_view what) {
    if (size > rest())
      fail("{}: ends in the middle of {}: expected {} more bytes at {}, found {}", where_, what, size, place_, rest());
    const auto part = bytes_.subspan(place_, size);
    place_ += size;
    return part;
  }
  uint64_t rest() const { return bytes_.size() - place_; }
  uint64_t place() const { return place_; }

 private:
  std::span<const std::byte> bytes_;
  const std::string& where_;
  size_t place_ = 0;
};

int64_t integer(Reader& reader, uint32_t kind, const std::string& key, const std::string& where) {
  switch (kind) {
    case kU8:
      return reader.number<uint8_t>(key);
    case kI8:
      return reader.number<int8_t>(key);
    case kU16:
      return reader.number<uint16_t>(key);
    case kI16:
      return reader.number<int16_t>(key);
    case kU32:
      return reader.number<uint32_t>(key);
    case kI32:
      return reader.number<int32_t>(key);
    case kBool:
      return reader.number<uint8_t>(key) != 0;
    case kI64:
      return reader.number<int64_t>(key);
    default:
      break;
  }
  const auto value = reader.number<uint64_t>(key);
  if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
    fail("{}: key {}: {} is too large", where, quoted(key), value);
  return static_cast<int64_t>(value);
}

double floating(Reader& reader, uint32_t kind, const std::string& key) {
  return kind == kF32 ? static_cast<double>(reader.number<float>(key)) : reader.number<double>(key);
}

GgufValue array(Reader& reader, const std::string& key, const std::string& where) {
  const auto kind = reader.number<uint32_t>(key);
  const auto count = reader.number<uint64_t>(key);
  if (kind >= kKinds || kind == kArray)
    fail("{}: key {}: expected an array of numbers or strings, found type {}", where, quoted(key), kind);
  if (count > reader.rest() / kSizes[kind])
    fail("{}: key {}: an array of {} elements does not fit the {} bytes left", where, quoted(key), count,
         reader.rest());
  if (kind == kString) {
    std::vector<std::string> texts;
    texts.reserve(count);
    for (uint64_t i = 0; i < count; ++i) texts.push_back(reader.text(key));
    return texts;
  }
  if (kind == kF32 || kind == kF64) {
    std::vector<double> numbers(count);
    for (double& number : numbers) number = floating(reader, kind, key);
    return numbers;
  }
  std::vector<int64_t> numbers(count);
  for (int64_t& number : numbers) number = integer(reader, kind, key, where);
  return numbers;
}

GgufValue value(Reader& reader, const std::string& key, const std::string& where) {
  const auto kind = reader.number<uint32_t>(key);
  if (kind >= kKinds) fail("{}: key {}: unknown type {}", where, quoted(key), kind);
  if (kind == kString) return reader.text(key);
  if (kind == kArray) return array(reader, key, where);
  if (kind == kF32 || kind == kF64) return floating(reader, kind, key);
  const int64_t number = integer(reader, kind, key, where);
  if (kind == kBool) return number != 0;
  return number;
}

}  // namespace

GgufFile GgufFile::parse(std::span<const std::byte> bytes, const std::string& where,
                         std::shared_ptr<const void> owner) {
  Reader reader(bytes, where);
  const auto magic = reader.take(4, "the header");
  if (std::memcmp(magic.data(), "GGUF", 4) != 0) fail("{}: is no GGUF file: it does not begin with 'GGUF'", where);
  const auto version = reader.number<uint32_t>("the version");
  if (version == 0x03000000 || version == 0x02000000)
    fail("{}: is a big-endian GGUF file; little-endian ones are read", where);
  if (version != 2 && version != 3) fail("{}: GGUF version {} is not supported; 2 and 3 are", where, version);
  const auto tensors = reader.number<uint64_t>("the number of tensors"),
             keys = reader.number<uint64_t>("the number of keys");
  if (tensors > std::min(kMaximumTensors, reader.rest() / 24))
    fail("{}: {} tensors do not fit the {} bytes left", where, tensors, reader.rest());
  if (keys > std::min(kMaximumKeys, reader.rest() / 13))
    fail("{}: {} keys do not fit the {} bytes left", where, keys, reader.rest());

  GgufFile file;
  file.where_ = where;
  for (uint64_t i = 0; i < keys; ++i) {
    const std::string key = reader.text("a key");
    if (!file.metadata_.emplace(key, value(reader, key, where)).second)
      fail("{}: key {} comes twice", where, quoted(key));
  }
  std::vector<uint64_t> offsets;
  for (uint64_t i = 0; i < tensors; ++i) {
    GgufTensor tensor{.name = reader.text("a tensor's name"), .shape = {}, .bytes = {}, .owner = owner};
    const auto dimensions = reader.number<uint32_t>(tensor.name);
    if (dimensions > kMaximumDimensions)
      fail("{}: tensor {}: {} dimensions; at most {} are possible", where, quoted(tensor.name), dimensions,
           kMaximumDimensions);
    for (uint32_t d = 0; d < dimensions; ++d) {
      const auto extent = reader.number<uint64_t>(tensor.name);
      if (extent > uint64_t{1} << 48) fail("{}: tensor {}: an extent of {}", where, quoted(tensor.name), extent);
      tensor.shape.insert(tensor.shape.begin(), static_cast<int64_t>(extent));
    }
    tensor.type = reader.number<uint32_t>(tensor.name);
    offsets.push_back(reader.number<uint64_t>(tensor.name));
    if (!file.places_.emplace(tensor.name, file.tensors_.size()).second)
      fail("{}: tensor {} comes twice", where, quoted(tensor.name));
    file.tensors_.push_back(std::move(tensor));
  }
  const int64_t alignment = file.get_int("general.alignment", 32);
  if (alignment <= 0 || alignment > 1 << 20 || (alignment & (alignment - 1)) != 0)
    fail("{}: general.alignment: expected a power of two, found {}", where, alignment);
  const uint64_t mask = static_cast<uint64_t>(alignment) - 1, begin = (reader.place() + mask) & ~mask;
  for (size_t i = 0; i < offsets.size(); ++i) {
    GgufTensor& tensor = file.tensors_[i];
    const std::string name = fmt::format("{}: tensor {}", where, quoted(tensor.name));
    const uint64_t size = ggml_bytes(tensor.type, tensor.shape, name);
    if (offsets[i] & mask) fail("{}: begins at {}, which is no multiple of {}", name, offsets[i], alignment);
    if (begin > bytes.size() || offsets[i] > bytes.size() - begin || size > bytes.size() - begin - offsets[i])
      fail("{}: lies at {} with {} bytes, outside of the file's {}; is it cut short?", name, offsets[i], size,
           bytes.size());
    tensor.bytes = bytes.subspan(begin + offsets[i], size);
  }
  return file;
}

namespace {

// NAME-00001-of-00003.gguf with another number; nothing where the name has another form.
std::optional<fs::path> part_path(const fs::path& first, int64_t number, int64_t count) {
  const std::string name = first.filename().string(), end = fmt::format("-{:05}-of-{:05}.gguf", 1, count);
  if (!name.ends_with(end)) return std::nullopt;
  return first.parent_path() /
         fmt::format("{}-{:05}-of-{:05}.gguf", name.substr(0, name.size() - end.size()), number, count);
}

GgufFile map_one(const fs::path& path) {
  const auto file = MappedFile::open(path);
  return GgufFile::parse(file->bytes(), path.string(), file);
}

}  // namespace

GgufFile GgufFile::open(const fs::path& path) {
  GgufFile file = map_one(path);
  const int64_t count = file.get_int("split.count", 1);
  if (count <= 1) return file;
  if (count > kMaximumParts) fail("{}: split.count: {} parts", file.where_, count);
  if (file.get_int("split.no", 0) != 0)
    fail("{}: is part {} of {}; name the first part", file.where_, file.get_int("split.no", 0) + 1, count);
  for (int64_t number = 2; number <= count; ++number) {
    const std::optional<fs::path> part = part_path(path, number, count);
    if (!part || !path_exists(*part))
      fail("{}: is the first of {} parts: expected {}, which is not there", file.where_, count,
           part ? quoted(part->filename().string())
                : fmt::format("a name like NAME-00001-of-{:05}.gguf, and NAME-{:05}-of-{:05}.gguf beside it", count,
                              number, count));
    GgufFile next = map_one(*part);
    if (next.get_int("split.count", count) != count || next.get_int("split.no", number - 1) != number - 1)
      fail("{}: expected part {} of {}, found {} of {}: is it of another model?", next.where_, number, count,
           next.get_int("split.no", number - 1) + 1, next.get_int("split.count", count));
    file.add(std::move(next));
  }
  const auto found = static_cast<int64_t>(file.tensors_.size());
  if (const int64_t expected = file.get_int("split.tensors.count", found); expected != found)
    fail("{}: expected {} tensors in its {} parts, found {}: is one of them of another model?", file.where_, expected,
         count, found);
  return file;
}

void GgufFile::add(GgufFile part) {
  for (GgufTensor& tensor : part.tensors_) {
    if (!places_.emplace(tensor.name, tensors_.size()).second)
      fail("{}: tensor {} is also in {}", part.where_, quoted(tensor.name), where_);
    tensors_.push_back(std::move(tensor));
  }
}

const GgufTensor* GgufFile::find(std::string_view name) const {
  const auto found = places_.find(name);
  return found == places_.end() ? nullptr : &tensors_[found->second];
}

std::vector<std::string> GgufFile::keys() const {
  std::vector<std::string> keys;
  for (const auto& [key, value] : metadata_) keys.push_back(key);
  return keys;
}

const GgufValue* GgufFile::find_value(std::string_view key) const {
  const auto found = metadata_.find(key);
  return found == metadata_.end() ? nullptr : &found->second;
}

namespace {

[[noreturn]] void fail_key(const std::string& where, std::string_view key, bool missing, std::string_view expected) {
  if (missing) fail("{}: the key {} is missing", where, quoted(std::string(key)));
  fail("{}: key {}: expected {}", where, quoted(std::string(key)), expected);
}

}  // namespace

int64_t GgufFile::get_int(std::string_view key, std::optional<int64_t> otherwise) const {
  const GgufValue* value = find_value(key);
  if (!value && otherwise) return *otherwise;
  if (value)
    if (const auto* number = std::get_if<int64_t>(value)) return *number;
  fail_key(where_, key, !value, "a whole number");
}

double GgufFile::get_float(std::string_view key, std::optional<double> otherwise) const {
  const GgufValue* value = find_value(key);
  if (!value && otherwise) return *otherwise;
  if (value) {
    if (const auto* number = std::get_if<double>(value)) return *number;
    if (const auto* number = std::get_if<int64_t>(value)) return static_cast<double>(*number);
  }
  fail_key(where_, key, !value, "a number");
}

bool GgufFile::get_bool(std::string_view key, bool otherwise) const {
  const GgufValue* value = find_value(key);
  if (!value) return otherwise;
  if (const auto* truth = std::get_if<bool>(value)) return *truth;
  fail_key(where_, key, false, "true or false");
}

std::string GgufFile::get_string(std::string_view key, std::optional<std::string> otherwise) const {
  const GgufValue* value = find_value(key);
  if (!value && otherwise) return *otherwise;
  if (value)
    if (const auto* text = std::get_if<std::string>(value)) return *text;
  fail_key(where_, key, !value, "a string");
}

const std::vector<std::string>& GgufFile::get_strings(std::string_view key) const {
  static const std::vector<std::string> none;
  const GgufValue* value = find_value(key);
  if (!value) return none;
  if (const auto* texts = std::get_if<std::vector<std::string>>(value)) return *texts;
  if (const auto* numbers = std::get_if<std::vector<int64_t>>(value); numbers && numbers->empty()) return none;
  fail_key(where_, key, false, "an array of strings");
}

std::vector<double> GgufFile::get_floats(std::string_view key) const {
  const GgufValue* value = find_value(key);
  if (!value) return {};
  if (const auto* numbers = std::get_if<std::vector<double>>(value)) return *numbers;
  if (const auto* numbers = std::get_if<std::vector<int64_t>>(value)) return {numbers->begin(), numbers->end()};
  fail_key(where_, key, false, "an array of numbers");
}

std::vector<int64_t> GgufFile::get_ints(std::string_view key) const {
  const GgufValue* value = find_value(key);
  if (!value) return {};
  if (const auto* number = std::get_if<int64_t>(value)) return {*number};
  if (const auto* numbers = std::get_if<std::vector<int64_t>>(value)) return *numbers;
  fail_key(where_, key, false, "an array of whole numbers");
}

std::optional<fs::path> gguf_in(const fs::path& directory) {
  std::vector<fs::path> found, later;
  for (const fs::path& path : list_directory(directory)) {
    const std::string name = path.filename().string(), ending = path.extension().string();
    if ((ending != ".gguf" && ending != ".GGUF") || name.find("mmproj") != name.npos || !file_exists(path)) continue;
    const size_t part = name.rfind("-of-");
    if (part != name.npos && part >= 6 && name.substr(part - 6, 6) != "-00001" &&
        name.substr(part - 5, 5).find_first_not_of("0123456789") == name.npos) {
      later.push_back(path);
      continue;
    }
    found.push_back(path);
  }
  if (found.empty() && !later.empty())
    fail("{}: holds a later part of a GGUF file, {}, but not the first, NAME-00001-of-NNNNN.gguf", directory.string(),
         quoted(later[0].filename().string()));
  if (found.empty()) return std::nullopt;
  if (found.size() > 1)
    fail("{}: holds several GGUF files, {} and {}; name the file itself", directory.string(),
         quoted(found[0].filename().string()), quoted(found[1].filename().string()));
  return found[0];
}

}  // namespace transom
