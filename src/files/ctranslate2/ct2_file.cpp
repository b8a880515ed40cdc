// SPDX-License-Identifier: Apache-2.0
#include "files/ctranslate2/ct2_file.h"

#include <cstring>
#include <limits>

#include "base/error.h"
#include "base/files/files.h"

namespace transom {
namespace {

constexpr uint32_t kMostVariables = 1 << 20;
constexpr size_t kBytesOfTypes[] = {4, 1, 2, 4, 2, 2};

class Ct2Reader {
 public:
  Ct2Reader(std::span<const std::byte> bytes, const std::string& where) : bytes_(bytes), where_(where) {}

  template <typename T>
  T number(const char* what) {
    T value;
    std::memcpy(&value, take(sizeof(T), what).data(), sizeof(T));
    return value;
  }
  // Its length counts the zero at its end.
  std::string text(const char* what) {
    const auto length = number<uint16_t>(what);
    const std::span<const std::byte> found = take(length, what);
    if (length == 0 || found.back() != std::byte{0})
      fail("{}: {}: expected a name that ends with a zero", where_, what);
    return {reinterpret_cast<const char*>(found.data()), static_cast<size_t>(length) - 1};
  }
  std::span<const std::byte> take(size_t count, const char* what) {
    if (count > bytes_.size() - place_)
      fail("{}: is cut off: {} takes {} bytes, the file has {} more", where_, what, count, bytes_.size() - place_);
    const std::span<const std::byte> taken = bytes_.subspan(place_, count);
    place_ += count;
    return taken;
  }
  bool at_end() const { return place_ == bytes_.size(); }

 private:
  std::span<const std::byte> bytes_;
  const std::string& where_;
  size_t place_ = 0;
};

}  // namespace

Ct2File Ct2File::open(const std::filesystem::path& path) {
  const auto file = MappedFile::open(path);
  return parse(file->bytes(), path.string(), file);
}

Ct2File Ct2File::parse(std::span<const std::byte> bytes, const std::string& where, std::shared_ptr<const void> owner) {
  Ct2Reader reader(bytes, where);
  Ct2File file;
  file.where_ = where;
  const auto version = reader.number<uint32_t>("the version");
  if (version < kOldestCt2 || version > kNewestCt2)
    fail("{}: expected a model of CTranslate2 of version {} to {}, found {}; convert it again", where, kOldestCt2,
         kNewestCt2, version);
  file.spec_ = reader.text("the specification");
  file.revision_ = reader.number<uint32_t>("the revision");
  const auto count = reader.number<uint32_t>("the number of variables");
  if (count > kMostVariables) fail("{}: expected at most {} variables, found {}", where, kMostVariables, count);
  for (uint32_t i = 0; i < count; ++i) {
    std::string name = reader.text("a variable");
    Variable variable;
    const auto rank = reader.number<uint8_t>("a rank");
    uint64_t elements = 1;
    for (int axis = 0; axis < rank; ++axis) {
      const auto extent = reader.number<uint32_t>("an extent");
      variable.view.shape.push_back(extent);
      if (__builtin_mul_overflow(elements, uint64_t{extent}, &elements))
        fail("{}: {}: its extents are more than a file holds", where, quoted(name));
    }
    const auto type = reader.number<uint8_t>("a type");
    if (type >= std::size(kBytesOfTypes)) fail("{}: {}: found the type {}, of 0 to 5", where, quoted(name), type);
    variable.type = static_cast<Variable::Type>(type);
    const auto size = reader.number<uint32_t>("a size");
    if (elements > bytes.size() || elements * kBytesOfTypes[type] != size)
      fail("{}: {}: expected {} numbers of {} bytes, found {} bytes", where, quoted(name), elements,
           kBytesOfTypes[type], size);
    variable.view.bytes = reader.take(size, "a variable");
    variable.view.owner = owner;
    variable.view.dtype = variable.type == Variable::Type::kFloat16    ? DType::kFloat16
                          : variable.type == Variable::Type::kBFloat16 ? DType::kBFloat16
                                                                       : DType::kFloat32;
    if (!file.variables_.emplace(std::move(name), std::move(variable)).second)
      fail("{}: a variable comes twice", where);
  }
  const auto aliases = reader.at_end() ? 0 : reader.number<uint32_t>("the number of other names");
  if (aliases > kMostVariables) fail("{}: expected at most {} other names, found {}", where, kMostVariables, aliases);
  for (uint32_t i = 0; i < aliases; ++i) {
    std::string alias = reader.text("another name"), name = reader.text("a variable");
    if (!file.variables_.contains(name))
      fail("{}: {} is another name of {}, which is not there", where, quoted(alias), quoted(name));
    file.aliases_.emplace(std::move(alias), std::move(name));
  }
  if (!reader.at_end()) fail("{}: has bytes behind its end", where);
  return file;
}

const Ct2File::Variable* Ct2File::find(std::string_view name) const {
  const auto alias = aliases_.find(name);
  const auto found = variables_.find(alias == aliases_.end() ? name : std::string_view(alias->second));
  return found == variables_.end() ? nullptr : &found->second;
}

const Ct2File::Variable& Ct2File::at(const std::string& name) const {
  if (const Variable* found = find(name)) return *found;
  fail("{}: expected the variable {}, which is not there", where_, quoted(name));
}

TensorView Ct2File::floats(const std::string& name) const {
  using Type = Variable::Type;
  const Variable& variable = at(name);
  const TensorView& codes = variable.view;
  if (variable.type == Type::kFloat32 || variable.type == Type::kFloat16 || variable.type == Type::kBFloat16)
    return codes;
  if (variable.type == Type::kInt32 || codes.shape.empty())
    fail("{}: {}: expected floats or codes of 8 or 16 bits", where_, quoted(name));
  const Variable& scales = at(name + "_scale");
  const bool wide = variable.type == Type::kInt16;
  const size_t rows = static_cast<size_t>(codes.shape[0]), count = codes.bytes.size() / (wide ? 2 : 1),
               known = scales.view.bytes.size() / sizeof(float);
  if (scales.type != Type::kFloat32 || rows == 0 || (known != rows && known != 1))
    fail("{}: {}_scale: expected an f32 number, or one for each of {} rows, found {}", where_, name, rows, known);
  auto values = std::make_shared<std::vector<float>>(count);
  for (size_t i = 0; i < count; ++i) {
    float scale = 0;
    std::memcpy(&scale, scales.view.bytes.data() + (known == 1 ? 0 : i / (count / rows)) * sizeof(float),
                sizeof(float));
    float code = 0;
    if (wide) {
      int16_t whole = 0;
      std::memcpy(&whole, codes.bytes.data() + 2 * i, sizeof whole);
      code = whole;
    } else {
      code = static_cast<float>(static_cast<int8_t>(codes.bytes[i]));
    }
    (*values)[i] = scale == 0 ? 0 : code / scale;
  }
  return {DType::kFloat32, codes.shape, std::as_bytes(std::span(*values)), values};
}

int64_t Ct2File::integer(const std::string& name) const {
  const Variable& variable = at(name);
  const std::span<const std::byte> bytes = variable.view.bytes;
  const auto value = [&]<typename T>(T number) {
    if (bytes.size() != sizeof(T)) fail("{}: {}: expected one number", where_, quoted(name));
    std::memcpy(&number, bytes.data(), sizeof(T));
    return static_cast<int64_t>(number);
  };
  switch (variable.type) {
    case Variable::Type::kInt8:
      return value(int8_t{});
    case Variable::Type::kInt16:
      return value(int16_t{});
    case Variable::Type::kInt32:
      return value(int32_t{});
    default:
      fail("{}: {}: expected a whole number", where_, quoted(name));
  }
}

TensorView rows_of_view(const TensorView& view, int64_t from, int64_t to) {
  if (view.shape.empty() || from < 0 || from > to || to > view.shape[0])
    fail(ErrorKind::kInternal, "rows {} to {} of a tensor of [{}]", from, to, fmt::join(view.shape, ", "));
  TensorView part = view;
  const size_t row = view.shape[0] == 0 ? 0 : view.bytes.size() / static_cast<size_t>(view.shape[0]);
  part.shape[0] = to - from;
  part.bytes = view.bytes.subspan(static_cast<size_t>(from) * row, static_cast<size_t>(to - from) * row);
  return part;
}

}  // namespace transom
