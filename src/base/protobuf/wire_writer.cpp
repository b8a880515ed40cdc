// SPDX-License-Identifier: Apache-2.0
#include "base/protobuf/wire_writer.h"

#include <bit>

namespace transom {
namespace {

enum Wire : uint64_t { kVarint = 0, kFixed64 = 1, kLength = 2, kFixed32 = 5 };

uint64_t tag(int field, Wire wire) { return static_cast<uint64_t>(field) << 3 | wire; }

}  // namespace

void WireWriter::varint(uint64_t value) {
  for (; value >= 0x80; value >>= 7) text_ += static_cast<char>(value | 0x80);
  text_ += static_cast<char>(value);
}

void WireWriter::number(int field, int64_t value) {
  varint(tag(field, kVarint));
  varint(static_cast<uint64_t>(value));
}

void WireWriter::number32(int field, float value) {
  varint(tag(field, kFixed32));
  const auto bits = std::bit_cast<uint32_t>(value);
  for (int shift = 0; shift < 32; shift += 8) text_ += static_cast<char>(bits >> shift & 0xff);
}

void WireWriter::number64(int field, double value) {
  varint(tag(field, kFixed64));
  const auto bits = std::bit_cast<uint64_t>(value);
  for (int shift = 0; shift < 64; shift += 8) text_ += static_cast<char>(bits >> shift & 0xff);
}

void WireWriter::bytes(int field, std::string_view value) {
  varint(tag(field, kLength));
  varint(value.size());
  text_ += value;
}

}  // namespace transom
