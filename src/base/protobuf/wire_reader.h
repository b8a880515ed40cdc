// SPDX-License-Identifier: Apache-2.0
// Protocol Buffers' wire format (protobuf.dev/programming-guides/encoding), read in place. Groups are refused.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace transom {

// A field of a message. Numbers are in `value`, strings, messages and packed numbers in `bytes`.
struct WireField {
  enum class Type { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };
  uint64_t number = 0;
  Type type = Type::kVarint;
  uint64_t value = 0;
  std::string_view bytes;
};

// Goes through the fields of one message; nested messages are readers of their own. Errors begin with `where` and say
// that it is no `format` ("ONNX file"); both must outlive the reader, as the bytes must.
class WireReader {
 public:
  WireReader(std::string_view bytes, const std::string& where, const char* format)
      : bytes_(bytes), where_(where), format_(format) {}

  std::optional<WireField> next();

  // The field as what its number stands for; refuses another wire type. The repeated ones take both packed and single
  // values and add to `out`.
  int64_t integer(const WireField& field) const;
  float number(const WireField& field) const;
  std::string_view text(const WireField& field) const;
  void add_integers(const WireField& field, std::vector<int64_t>& out) const;
  void add_floats(const WireField& field, std::vector<float>& out) const;
  void add_doubles(const WireField& field, std::vector<double>& out) const;

 private:
  std::string_view take(uint64_t length);
  uint64_t varint();
  uint64_t fixed(size_t length);

  std::string_view bytes_;
  const std::string& where_;
  const char* format_;
};

}  // namespace transom
