// SPDX-License-Identifier: Apache-2.0
#include "base/protobuf/wire_reader.h"

#include <bit>
#include <cstring>

#include "base/error.h"

namespace transom {
namespace {

template <typename Number>
void add_packed(std::string_view bytes, std::vector<Number>& out, const std::string& where, const char* format) {
  require(bytes.size() % sizeof(Number) == 0, "{}: is no {}: {} bytes of packed numbers of {} bytes each", where,
          format, bytes.size(), sizeof(Number));
  const size_t before = out.size(), count = bytes.size() / sizeof(Number);
  out.resize(before + count);
  if (count > 0) std::memcpy(out.data() + before, bytes.data(), bytes.size());
}

}  // namespace

std::optional<WireField> WireReader::next() {
  if (bytes_.empty()) return std::nullopt;
  const uint64_t key = varint();
  WireField field{key >> 3, static_cast<WireField::Type>(key & 7), 0, {}};
  switch (field.type) {
    case WireField::Type::kVarint:
      field.value = varint();
      break;
    case WireField::Type::kFixed64:
      field.value = fixed(8);
      break;
    case WireField::Type::kBytes:
      field.bytes = take(varint());
      break;
    case WireField::Type::kFixed32:
      field.value = fixed(4);
      break;
    default:
      fail("{}: is no {}: field {} has the wire type {}", where_, format_, field.number, key & 7);
  }
  require(field.number > 0, "{}: is no {}: a field has the number 0", where_, format_);
  return field;
}

int64_t WireReader::integer(const WireField& field) const {
  require(field.type == WireField::Type::kVarint, "{}: is no {}: field {} is no integer", where_, format_,
          field.number);
  return static_cast<int64_t>(field.value);
}

float WireReader::number(const WireField& field) const {
  require(field.type == WireField::Type::kFixed32, "{}: is no {}: field {} is no float", where_, format_, field.number);
  return std::bit_cast<float>(static_cast<uint32_t>(field.value));
}

std::string_view WireReader::text(const WireField& field) const {
  require(field.type == WireField::Type::kBytes, "{}: is no {}: field {} is no string or message", where_, format_,
          field.number);
  return field.bytes;
}

void WireReader::add_integers(const WireField& field, std::vector<int64_t>& out) const {
  if (field.type != WireField::Type::kBytes) {
    out.push_back(integer(field));
    return;
  }
  WireReader packed(field.bytes, where_, format_);
  while (!packed.bytes_.empty()) out.push_back(static_cast<int64_t>(packed.varint()));
}

void WireReader::add_floats(const WireField& field, std::vector<float>& out) const {
  if (field.type == WireField::Type::kBytes) add_packed(field.bytes, out, where_, format_);
  else out.push_back(number(field));
}

void WireReader::add_doubles(const WireField& field, std::vector<double>& out) const {
  if (field.type == WireField::Type::kBytes) return add_packed(field.bytes, out, where_, format_);
  require(field.type == WireField::Type::kFixed64, "{}: is no {}: field {} is no double", where_, format_,
          field.number);
  out.push_back(std::bit_cast<double>(field.value));
}

std::string_view WireReader::take(uint64_t length) {
  require(length <= bytes_.size(), "{}: is no {}, or cut short: a field of {} bytes, {} are left", where_, format_,
          length, bytes_.size());
  const std::string_view result = bytes_.substr(0, static_cast<size_t>(length));
  bytes_.remove_prefix(static_cast<size_t>(length));
  return result;
}

uint64_t WireReader::varint() {
  uint64_t value = 0;
  for (unsigned shift = 0; shift < 64; shift += 7) {
    const auto byte = static_cast<unsigned char>(take(1)[0]);
    value |= uint64_t{byte & 0x7Fu} << shift;
    if (byte < 0x80) return value;
  }
  fail("{}: is no {}: a number has more than ten bytes", where_, format_);
}

uint64_t WireReader::fixed(size_t length) {
  uint64_t value = 0;
  const std::string_view bytes = take(length);
  for (size_t i = 0; i < length; ++i) value |= uint64_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
  return value;
}

}  // namespace transom
