// SPDX-License-Identifier: Apache-2.0
// Numbers and texts behind each other, as an executable is stored: whole numbers in groups of seven bits, the low ones
// first. What is read may come from anybody: nothing is allocated for more than the bytes that are there.
#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "poplar/Type.hpp"
#include "poplar/exceptions.hpp"

namespace ipu_emulator {

__extension__ typedef __int128 WideInteger;  // for what the numbers of a file may make

class Writer {
 public:
  std::string bytes;

  void number(uint64_t value) {
    for (; value >= 128; value >>= 7) bytes += static_cast<char>(value | 128);
    bytes += static_cast<char>(value);
  }
  // Small where it is near 0.
  void signed_number(int64_t value) { number(static_cast<uint64_t>(value) << 1 ^ static_cast<uint64_t>(value >> 63)); }
  void real(double value) {
    for (uint64_t bits = std::bit_cast<uint64_t>(value), i = 0; i < 8; ++i, bits >>= 8)
      bytes += static_cast<char>(bits);
  }
  void text(std::string_view value) {
    number(value.size());
    bytes += value;
  }
  void type(poplar::Type value) { number(static_cast<uint64_t>(value.id())); }
  template <typename List>
  void numbers(const List& list) {
    number(list.size());
    for (const auto value : list) number(static_cast<uint64_t>(value));
  }
};

class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}

  size_t left() const { return bytes_.size(); }
  [[noreturn]] static void refuse(const std::string& expected) {
    throw poplar::poplar_error("executable: expected " + expected);
  }
  static void expect(bool condition, const char* expected) {
    if (!condition) refuse(expected);
  }

  uint64_t number(uint64_t most = UINT64_MAX) {
    uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      expect(!bytes_.empty(), "more bytes");
      const auto byte = static_cast<uint8_t>(bytes_.front());
      bytes_.remove_prefix(1);
      expect(shift < 63 || byte < 2, "a number of 64 bits");
      value |= static_cast<uint64_t>(byte & 127) << shift;
      if (byte < 128) break;
    }
    if (value > most) refuse("a number up to " + std::to_string(most) + ", found " + std::to_string(value));
    return value;
  }
  int64_t signed_number() {
    const uint64_t value = number();
    return static_cast<int64_t>(value >> 1 ^ (0 - (value & 1)));
  }
  // How many of something follow, of which each takes at least a byte.
  size_t count() { return number(bytes_.size()); }
  double real() {
    expect(bytes_.size() >= 8, "more bytes");
    uint64_t bits = 0;
    for (int i = 0; i < 8; ++i) bits |= static_cast<uint64_t>(static_cast<uint8_t>(bytes_[i])) << 8 * i;
    bytes_.remove_prefix(8);
    return std::bit_cast<double>(bits);
  }
  std::string text() {
    const size_t size = count();
    std::string value(bytes_.substr(0, size));
    bytes_.remove_prefix(size);
    return value;
  }
  poplar::Type type() {
    const uint64_t id = number(static_cast<uint64_t>(poplar::Type::Id::kFloat));
    expect(id != 0, "a type of elements");
    return poplar::Type(static_cast<poplar::Type::Id>(id));
  }
  template <typename T>
  std::vector<T> numbers() {
    std::vector<T> list(count());
    for (size_t i = 0; i < list.size(); ++i) list[i] = static_cast<T>(number());
    return list;
  }

 private:
  std::string_view bytes_;
};

}  // namespace ipu_emulator
