// SPDX-License-Identifier: Apache-2.0
// Element types of tensors. No bf16 and no f64: the machine has neither.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace poplar {

class Type {
 public:
  enum class Id : uint8_t {
    kNone,
    kBool,
    kChar,
    kUnsignedChar,
    kSignedChar,
    kShort,
    kUnsignedShort,
    kInt,
    kUnsignedInt,
    kLongLong,
    kUnsignedLongLong,
    kHalf,
    kFloat
  };
  constexpr Type() = default;
  constexpr explicit Type(Id id) : id_(id) {}
  constexpr Id id() const { return id_; }
  std::string toString() const;  // as in the names of codelets: "float", "unsigned int"
  constexpr bool operator==(const Type&) const = default;
  constexpr bool operator<(const Type& other) const { return id_ < other.id_; }

 private:
  Id id_ = Id::kNone;
};

inline constexpr Type BOOL(Type::Id::kBool);
inline constexpr Type CHAR(Type::Id::kChar);
inline constexpr Type UNSIGNED_CHAR(Type::Id::kUnsignedChar);
inline constexpr Type SIGNED_CHAR(Type::Id::kSignedChar);
inline constexpr Type SHORT(Type::Id::kShort);
inline constexpr Type UNSIGNED_SHORT(Type::Id::kUnsignedShort);
inline constexpr Type INT(Type::Id::kInt);
inline constexpr Type UNSIGNED_INT(Type::Id::kUnsignedInt);
inline constexpr Type LONGLONG(Type::Id::kLongLong);
inline constexpr Type UNSIGNED_LONGLONG(Type::Id::kUnsignedLongLong);
inline constexpr Type HALF(Type::Id::kHalf);
inline constexpr Type FLOAT(Type::Id::kFloat);

// The type of the device that stands for a C++ type.
template <typename T>
struct equivalent_device_type;
#define POPLAR_EMULATOR_TYPE(cpp, device) \
  template <>                             \
  struct equivalent_device_type<cpp> {    \
    static constexpr Type value = device; \
  };
POPLAR_EMULATOR_TYPE(bool, BOOL)
POPLAR_EMULATOR_TYPE(char, CHAR)
POPLAR_EMULATOR_TYPE(unsigned char, UNSIGNED_CHAR)
POPLAR_EMULATOR_TYPE(signed char, SIGNED_CHAR)
POPLAR_EMULATOR_TYPE(short, SHORT)
POPLAR_EMULATOR_TYPE(unsigned short, UNSIGNED_SHORT)
POPLAR_EMULATOR_TYPE(int, INT)
POPLAR_EMULATOR_TYPE(unsigned, UNSIGNED_INT)
POPLAR_EMULATOR_TYPE(long long, LONGLONG)
POPLAR_EMULATOR_TYPE(long, LONGLONG)
POPLAR_EMULATOR_TYPE(unsigned long long, UNSIGNED_LONGLONG)
POPLAR_EMULATOR_TYPE(unsigned long, UNSIGNED_LONGLONG)
POPLAR_EMULATOR_TYPE(float, FLOAT)
POPLAR_EMULATOR_TYPE(double, FLOAT)
#undef POPLAR_EMULATOR_TYPE

}  // namespace poplar
