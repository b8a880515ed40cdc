// SPDX-License-Identifier: Apache-2.0
#include "files/checkpoint/safetensors_header.h"

#include <simdjson.h>

#include <algorithm>
#include <iterator>
#include <limits>

#include "base/error.h"
#include "base/json/json.h"

namespace transom {
namespace {

using simdjson::dom::element;
using Entry = SafetensorsHeader::Entry;

constexpr size_t kMaximumDimensions = 64;

struct TypeName {
  std::string_view name;
  DType dtype;
};
// In the order of the library's own list, by which it sorts tensors.
constexpr TypeName kTypes[] = {{"BOOL", DType::kBool},   {"U8", DType::kUInt8},      {"I8", DType::kInt8},
                               {"F16", DType::kFloat16}, {"BF16", DType::kBFloat16}, {"I32", DType::kInt32},
                               {"U32", DType::kUInt32},  {"F32", DType::kFloat32},   {"F64", DType::kFloat64},
                               {"I64", DType::kInt64}};

DType safetensors_dtype(std::string_view name, const std::string& where) {
  for (const TypeName& type : kTypes)
    if (type.name == name) return type.dtype;
  if (name == "F8_E4M3" || name == "F8_E8M0") return DType::kUInt8;  // the reader of quantised weights knows which
  fail("{}: has element type {}; known are BOOL, U8, I8, I32, I64, U32, F16, BF16, F32 and F64", where, quoted(name));
}

const TypeName& type_in_file(DType dtype) {
  for (const TypeName& type : kTypes)
    if (type.dtype == dtype) return type;
  fail(ErrorKind::kInternal, "no safetensors name for {}", name_of(dtype));
}

std::string shown(element value) { return quoted(simdjson::minify(value)); }

uint64_t number(element value, const std::string& where, std::string_view what) {
  uint64_t result = 0;
  if (value.get(result) != simdjson::SUCCESS)
    fail("{}: {} must be a whole number, found {}", where, what, shown(value));
  return result;
}

struct Fields {
  element dtype, shape, offsets;
};

Fields fields_of(element value, const std::string& where) {
  constexpr std::string_view kNames[] = {"dtype", "shape", "data_offsets"};
  Fields fields;
  bool has[3] = {};
  simdjson::dom::object object;
  if (value.get(object) == simdjson::SUCCESS)
    for (const auto [key, item] : object)
      for (size_t i = 0; i < 3; ++i) {
        if (key != kNames[i]) continue;
        if (has[i]) fail("{}: {} comes twice", where, key);
        has[i] = true;
        (i == 0 ? fields.dtype : i == 1 ? fields.shape : fields.offsets) = item;
      }
  if (!has[0] || !has[1] || !has[2]) fail("{}: expected an object with dtype, shape and data_offsets", where);
  return fields;
}

Entry entry_of(std::string_view name, element value, uint64_t data_size, const std::string& file) {
  const std::string where = fmt::format("{}: tensor {}", file, quoted(name));
  const Fields fields = fields_of(value, where);
  std::string_view dtype;
  simdjson::dom::array shape, offsets;
  if (fields.dtype.get(dtype) != simdjson::SUCCESS) fail("{}: dtype must be a string", where);
  if (fields.shape.get(shape) != simdjson::SUCCESS || fields.offsets.get(offsets) != simdjson::SUCCESS ||
      std::distance(offsets.begin(), offsets.end()) != 2)
    fail("{}: expected a list as shape and two data_offsets", where);
  Entry entry{std::string(name),
              safetensors_dtype(dtype, where),
              {},
              number(*offsets.begin(), where, "data_offsets"),
              number(*++offsets.begin(), where, "data_offsets")};
  // Every partial product must fit, so that nobody who counts elements later can overflow, zero extents or not.
  uint64_t size = size_of(entry.dtype), reach = size;
  bool overflow = false;
  for (const element item : shape) {
    const uint64_t extent = number(item, where, "an extent");
    overflow |= __builtin_mul_overflow(reach, std::max<uint64_t>(extent, 1), &reach) ||
                reach > static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
    if (!overflow) size *= extent;
    if (entry.shape.size() == kMaximumDimensions) fail("{}: has more than {} dimensions", where, kMaximumDimensions);
    entry.shape.push_back(static_cast<int64_t>(extent));
  }
  if (entry.begin > entry.end || entry.end > data_size)
    fail("{}: data_offsets [{}, {}] lie outside the {} bytes of data in the file", where, entry.begin, entry.end,
         data_size);
  if (overflow || size != entry.end - entry.begin)
    fail("{}: shape {} of {} needs {} bytes, data_offsets give {}", where, shown(fields.shape), dtype,
         overflow ? std::string("too many") : std::to_string(size), entry.end - entry.begin);
  return entry;
}

// The places must cover the data without overlap or hole, as the format demands.
void check_cover(const std::vector<Entry>& entries, uint64_t data_size, const std::string& file) {
  std::vector<const Entry*> order;
  for (const Entry& entry : entries) order.push_back(&entry);
  std::sort(order.begin(), order.end(),
            [](const Entry* a, const Entry* b) { return std::pair(a->begin, a->end) < std::pair(b->begin, b->end); });
  uint64_t end = 0;
  for (const Entry* entry : order) {
    if (entry->begin != end)
      fail("{}: tensor {}: data begins at {}, expected {}: the data of tensors must neither overlap nor leave holes",
           file, quoted(entry->name), entry->begin, end);
    end = entry->end;
  }
  if (end != data_size) fail("{}: the header describes {} bytes of data, the file has {}", file, end, data_size);
}

void refuse_repeated_names(const std::vector<Entry>& entries, const std::string& file) {
  std::vector<std::string_view> names;
  for (const Entry& entry : entries) names.push_back(entry.name);
  std::sort(names.begin(), names.end());
  const auto repeated = std::adjacent_find(names.begin(), names.end());
  if (repeated != names.end()) fail("{}: tensor {} comes twice", file, quoted(*repeated));
}

std::string json_string(const std::string& text) {
  try {
    return Json(text).dump();
  } catch (const Json::exception&) {
    fail("{}: is no name for a tensor: it is not UTF-8", quoted(text));
  }
}

}  // namespace

SafetensorsHeader parse_safetensors_header(std::string_view text, uint64_t data_size, const std::string& file) {
  simdjson::dom::parser parser;
  element root;
  const auto error = parser.parse(text.data(), text.size()).get(root);
  if (error) fail("{}: the header is no JSON object: {}", file, simdjson::error_message(error));
  simdjson::dom::object object;
  if (root.get(object) != simdjson::SUCCESS) fail("{}: the header is no JSON object", file);
  SafetensorsHeader result;
  bool has_metadata = false;
  for (const auto [name, value] : object) {
    if (name != "__metadata__") {
      result.entries.push_back(entry_of(name, value, data_size, file));
      continue;
    }
    if (has_metadata) fail("{}: __metadata__ comes twice", file);
    has_metadata = true;
    simdjson::dom::object metadata;
    if (value.get(metadata) != simdjson::SUCCESS) fail("{}: __metadata__ must be an object of strings", file);
    for (const auto [key, item] : metadata) {
      std::string_view string;
      if (item.get(string) != simdjson::SUCCESS) fail("{}: __metadata__ {}: expected a string", file, quoted(key));
      result.metadata[std::string(key)] = string;
    }
  }
  refuse_repeated_names(result.entries, file);
  check_cover(result.entries, data_size, file);
  return result;
}

std::string print_safetensors_header(const std::vector<const NamedViews::value_type*>& tensors,
                                     const std::map<std::string, std::string>& metadata) {
  std::string text = "{";
  if (!metadata.empty()) {
    text += "\"__metadata__\":{";
    for (const auto& [key, value] : metadata)
      text += fmt::format("{}{}:{}", text.back() == '{' ? "" : ",", json_string(key), json_string(value));
    text += "}";
  }
  uint64_t offset = 0;
  for (const auto* item : tensors) {
    const TensorView& tensor = item->second;
    text += fmt::format("{}{}:{{\"dtype\":\"{}\",\"shape\":[{}],\"data_offsets\":[{},{}]}}",
                        text.size() == 1 ? "" : ",", json_string(item->first), type_in_file(tensor.dtype).name,
                        fmt::join(tensor.shape, ","), offset, offset + tensor.bytes.size());
    offset += tensor.bytes.size();
  }
  return text + "}";
}

int safetensors_rank(DType dtype) { return static_cast<int>(std::end(kTypes) - &type_in_file(dtype)); }

}  // namespace transom
