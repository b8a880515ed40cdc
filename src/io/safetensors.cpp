// SPDX-License-Identifier: Apache-2.0
#include "io/safetensors.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

#include "base/error.h"
#include "base/json.h"

namespace transom {
namespace {

constexpr uint64_t kMaximumHeader = 100'000'000;

struct TypeName {
  std::string_view name;
  DType dtype;
};
// In the order of the library's own list, by which it sorts tensors.
constexpr TypeName kTypes[] = {{"BOOL", DType::kBool},   {"U8", DType::kUInt8},      {"I8", DType::kInt8},
                               {"F16", DType::kFloat16}, {"BF16", DType::kBFloat16}, {"I32", DType::kInt32},
                               {"U32", DType::kUInt32},  {"F32", DType::kFloat32},   {"F64", DType::kFloat64},
                               {"I64", DType::kInt64}};

DType dtype_of(const std::string& name, const std::string& where) {
  for (const TypeName& type : kTypes)
    if (type.name == name) return type.dtype;
  fail("{}: has element type {}; known are BOOL, U8, I8, I32, I64, U32, F16, BF16, F32 and F64", where, quoted(name));
}
const TypeName& type_in_file(DType dtype) {
  for (const TypeName& type : kTypes)
    if (type.dtype == dtype) return type;
  fail(ErrorKind::kInternal, "no safetensors name for {}", name_of(dtype));
}

// A whole number from a header, or an error.
uint64_t number(const Json& value, const std::string& where, std::string_view what) {
  if (!value.is_number_integer() || (!value.is_number_unsigned() && value.get<int64_t>() < 0))
    fail("{}: {} must be a whole number, found {}", where, what,
         quoted(value.dump(-1, ' ', false, Json::error_handler_t::replace)));
  return value.get<uint64_t>();
}

struct Entry {
  std::string name;
  DType dtype;
  std::vector<int64_t> shape;
  uint64_t begin, end;
};

Entry parse_entry(const std::string& name, const Json& value, uint64_t data_size, const std::string& file) {
  const std::string where = fmt::format("{}: tensor {}", file, quoted(name));
  if (!value.is_object() || !value.contains("dtype") || !value.contains("shape") || !value.contains("data_offsets"))
    fail("{}: expected an object with dtype, shape and data_offsets", where);
  const Json &dtype = value["dtype"], &shape = value["shape"], &offsets = value["data_offsets"];
  if (!dtype.is_string()) fail("{}: dtype must be a string", where);
  if (!shape.is_array() || !offsets.is_array() || offsets.size() != 2)
    fail("{}: expected a list as shape and two data_offsets", where);
  Entry entry{name,
              dtype_of(dtype.get<std::string>(), where),
              {},
              number(offsets[0], where, "data_offsets"),
              number(offsets[1], where, "data_offsets")};
  uint64_t size = size_of(entry.dtype);
  bool overflow = false;
  for (const Json& item : shape) {
    const uint64_t extent = number(item, where, "an extent");
    if (extent > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) overflow = true;
    overflow |= __builtin_mul_overflow(size, extent, &size);
    entry.shape.push_back(static_cast<int64_t>(extent));
  }
  if (entry.begin > entry.end || entry.end > data_size)
    fail("{}: data_offsets [{}, {}] lie outside the {} bytes of data in the file", where, entry.begin, entry.end,
         data_size);
  if (overflow || size != entry.end - entry.begin)
    fail("{}: shape [{}] of {} needs {} bytes, data_offsets give {}", where, fmt::join(entry.shape, ", "),
         dtype.get<std::string>(), overflow ? std::string("too many") : std::to_string(size), entry.end - entry.begin);
  return entry;
}

// The places must cover the data without overlap or hole, as the format demands.
void check_cover(std::vector<const Entry*> entries, uint64_t data_size, const std::string& file) {
  std::sort(entries.begin(), entries.end(),
            [](const Entry* a, const Entry* b) { return std::pair(a->begin, a->end) < std::pair(b->begin, b->end); });
  uint64_t end = 0;
  for (const Entry* entry : entries) {
    if (entry->begin != end)
      fail("{}: tensor {}: data begins at {}, expected {}: the data of tensors must neither overlap nor leave holes",
           file, quoted(entry->name), entry->begin, end);
    end = entry->end;
  }
  if (end != data_size) fail("{}: the header describes {} bytes of data, the file has {}", file, end, data_size);
}

// Refuses a name that comes twice, which the JSON reader would merge in silence.
Json parse_header(std::string_view text, const std::string& file) {
  std::vector<std::string> keys;
  std::string twice;
  const Json header = Json::parse(
      text,
      [&](int depth, Json::parse_event_t event, Json& value) {
        if (depth > 8) fail("{}: the header is nested too deep", file);
        if (event == Json::parse_event_t::key && depth == 1) keys.push_back(value.get<std::string>());
        return true;
      },
      false);
  if (header.is_discarded() || !header.is_object()) fail("{}: the header is no JSON object", file);
  std::sort(keys.begin(), keys.end());
  const auto repeated = std::adjacent_find(keys.begin(), keys.end());
  if (repeated != keys.end()) fail("{}: tensor {} comes twice", file, quoted(*repeated));
  return header;
}

}  // namespace

SafetensorsFile SafetensorsFile::open(const fs::path& path) {
  const auto file = MappedFile::open(path);
  return parse(file->bytes(), path.string(), file);
}

SafetensorsFile SafetensorsFile::parse(std::span<const std::byte> bytes, const std::string& where,
                                       std::shared_ptr<const void> owner) {
  static_assert(std::endian::native == std::endian::little);
  if (bytes.size() < 8)
    fail("{}: is no safetensors file: it has {} bytes, the length of its header alone takes 8", where, bytes.size());
  uint64_t header_size = 0;
  std::memcpy(&header_size, bytes.data(), 8);
  if (header_size > kMaximumHeader)
    fail("{}: is no safetensors file: its header would have {} bytes, at most {} are allowed", where, header_size,
         kMaximumHeader);
  if (header_size > bytes.size() - 8)
    fail("{}: is cut off: its header has {} bytes, the file only {} behind it", where, header_size, bytes.size() - 8);
  const Json header = parse_header({reinterpret_cast<const char*>(bytes.data()) + 8, header_size}, where);
  const std::span<const std::byte> data = bytes.subspan(8 + header_size);

  SafetensorsFile result;
  std::vector<Entry> entries;
  for (const auto& [name, value] : header.items()) {
    if (name != "__metadata__") {
      entries.push_back(parse_entry(name, value, data.size(), where));
      continue;
    }
    if (!value.is_object()) fail("{}: __metadata__ must be an object of strings", where);
    for (const auto& [key, text] : value.items()) {
      if (!text.is_string()) fail("{}: __metadata__ {}: expected a string", where, quoted(key));
      result.metadata_[key] = text.get<std::string>();
    }
  }
  std::vector<const Entry*> pointers;
  for (const Entry& entry : entries) pointers.push_back(&entry);
  check_cover(pointers, data.size(), where);
  for (Entry& entry : entries) {
    result.places_.emplace(entry.name, result.tensors_.size());
    result.tensors_.emplace_back(entry.name, TensorView{entry.dtype, std::move(entry.shape),
                                                        data.subspan(entry.begin, entry.end - entry.begin), owner});
  }
  return result;
}

const TensorView* SafetensorsFile::find(std::string_view name) const {
  const auto found = places_.find(name);
  return found == places_.end() ? nullptr : &tensors_[found->second].second;
}

void write_safetensors(const fs::path& path, const NamedViews& tensors,
                       const std::map<std::string, std::string>& metadata) {
  std::vector<const NamedViews::value_type*> order;
  for (const auto& item : tensors) order.push_back(&item);
  std::sort(order.begin(), order.end(), [](const auto* a, const auto* b) {
    const TypeName *x = &type_in_file(a->second.dtype), *y = &type_in_file(b->second.dtype);
    return x != y ? x > y : a->first < b->first;  // later types of the list first
  });
  Json header = Json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  uint64_t offset = 0;
  for (const auto* item : order) {
    const TensorView& tensor = item->second;
    header[item->first] = {{"dtype", type_in_file(tensor.dtype).name},
                           {"shape", tensor.shape},
                           {"data_offsets", {offset, offset + tensor.bytes.size()}}};
    offset += tensor.bytes.size();
  }
  std::string text = header.dump(-1, ' ', false, Json::error_handler_t::replace);
  text.append((8 - text.size() % 8) % 8, ' ');
  const uint64_t size = text.size();
  AtomicFile file(path);
  file.write(std::as_bytes(std::span(&size, 1)));
  file.write(text);
  for (const auto* item : order) file.write(item->second.bytes);
  file.commit();
}

}  // namespace transom
