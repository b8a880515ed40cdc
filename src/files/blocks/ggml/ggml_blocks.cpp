// SPDX-License-Identifier: Apache-2.0
#include "files/blocks/ggml/ggml_blocks.h"

#include <array>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "base/files/files.h"
#include "base/numbers/half_bits.h"
#include "files/blocks/ggml/ggml_points.h"

namespace transom {
namespace {

enum Id : uint32_t {
  kF32 = 0,
  kF16 = 1,
  kQ4_0 = 2,
  kQ4_1 = 3,
  kQ5_0 = 6,
  kQ5_1 = 7,
  kQ8_0 = 8,
  kQ2_K = 10,
  kQ3_K = 11,
  kQ4_K = 12,
  kQ5_K = 13,
  kQ6_K = 14,
  kIQ2_XXS = 16,
  kIQ2_XS = 17,
  kIQ3_XXS = 18,
  kIQ1_S = 19,
  kIQ4_NL = 20,
  kIQ3_S = 21,
  kIQ2_S = 22,
  kIQ4_XS = 23,
  kI8 = 24,
  kI32 = 26,
  kI64 = 27,
  kF64 = 28,
  kIQ1_M = 29,
  kBF16 = 30,
  kTQ1_0 = 34,
  kTQ2_0 = 35,
  kMXFP4 = 39
};

constexpr GgmlType kTypes[] = {
    {kF32, "F32", 1, 4},          {kF16, "F16", 1, 2},           {kQ4_0, "Q4_0", 32, 18},
    {kQ4_1, "Q4_1", 32, 20},      {kQ5_0, "Q5_0", 32, 22},       {kQ5_1, "Q5_1", 32, 24},
    {kQ8_0, "Q8_0", 32, 34},      {kQ2_K, "Q2_K", 256, 84},      {kQ3_K, "Q3_K", 256, 110},
    {kQ4_K, "Q4_K", 256, 144},    {kQ5_K, "Q5_K", 256, 176},     {kQ6_K, "Q6_K", 256, 210},
    {kIQ4_NL, "IQ4_NL", 32, 18},  {kIQ4_XS, "IQ4_XS", 256, 136}, {kI8, "I8", 1, 1},
    {kI32, "I32", 1, 4},          {kI64, "I64", 1, 8},           {kF64, "F64", 1, 8},
    {kBF16, "BF16", 1, 2},        {kMXFP4, "MXFP4", 32, 17},     {kIQ2_XXS, "IQ2_XXS", 256, 66},
    {kIQ2_XS, "IQ2_XS", 256, 74}, {kIQ2_S, "IQ2_S", 256, 82},    {kIQ3_XXS, "IQ3_XXS", 256, 98},
    {kIQ3_S, "IQ3_S", 256, 110},  {kIQ1_S, "IQ1_S", 256, 50},    {kIQ1_M, "IQ1_M", 256, 56},
    {kTQ1_0, "TQ1_0", 256, 54},   {kTQ2_0, "TQ2_0", 256, 66}};

// Those that files have and this reader has not.
constexpr std::pair<uint32_t, const char*> kOthers[] = {
    {9, "Q8_1"}, {15, "Q8_K"}, {25, "I16"}, {40, "NVFP4"}, {41, "Q1_0"}};

const std::vector<float> kIq4Values = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
// Twice the values of E2M1; the scale is half of what it says.
const std::vector<float> kMxFp4Values = {0, 1, 2, 3, 4, 6, 8, 12, -0.0f, -1, -2, -3, -4, -6, -8, -12};

using Codes = const uint8_t*;

float half_at(Codes at) {
  uint16_t bits;
  std::memcpy(&bits, at, 2);
  return float_of_half(bits);
}

void low_then_high(Codes q, int count, uint8_t* codes) {
  for (int i = 0; i < count; ++i) codes[i] = q[i] & 15, codes[count + i] = q[i] >> 4;
}

// ---- blocks of 32: codes [32], one scale, one minimum

void read_q4_0(Codes b, uint8_t* codes, float* scale, float*) { *scale = half_at(b), low_then_high(b + 2, 16, codes); }
void read_q4_1(Codes b, uint8_t* codes, float* scale, float* minimum) {
  *scale = half_at(b), *minimum = half_at(b + 2), low_then_high(b + 4, 16, codes);
}
void add_fifth_bits(Codes qh, uint8_t* codes, int surplus) {
  uint32_t bits;
  std::memcpy(&bits, qh, 4);
  for (int i = 0; i < 32; ++i) codes[i] = static_cast<uint8_t>(codes[i] + 16 * ((bits >> i) & 1) + surplus);
}
void read_q5_0(Codes b, uint8_t* codes, float* scale, float*) {
  *scale = half_at(b), low_then_high(b + 6, 16, codes), add_fifth_bits(b + 2, codes, 128 - 16);
}
void read_q5_1(Codes b, uint8_t* codes, float* scale, float* minimum) {
  *scale = half_at(b), *minimum = half_at(b + 2), low_then_high(b + 8, 16, codes), add_fifth_bits(b + 4, codes, 0);
}
void copy_signed(Codes from, uint8_t* codes) {
  for (int i = 0; i < 32; i += 8) {  // in words: a compiler may take bytes one by one
    uint64_t eight;
    std::memcpy(&eight, from + i, 8);
    eight ^= 0x8080808080808080u;
    std::memcpy(codes + i, &eight, 8);
  }
}
void read_q8_0(Codes b, uint8_t* codes, float* scale, float*) { *scale = half_at(b), copy_signed(b + 2, codes); }
void read_mxfp4(Codes b, uint8_t* codes, float* scale, float*) {
  *scale = std::ldexp(1.0f, static_cast<int>(b[0]) - 128), low_then_high(b + 1, 16, codes);
}

// ---- blocks of 256

void read_q2_k(Codes b, uint8_t* codes, float* scales, float* minima) {
  const Codes q = b + 16;
  const float d = half_at(b + 80), least = half_at(b + 82);
  for (int g = 0; g < 16; ++g)
    scales[g] = d * static_cast<float>(b[g] & 15), minima[g] = -(least * static_cast<float>(b[g] >> 4));
  for (int i = 0; i < 256; ++i) codes[i] = (q[32 * (i / 128) + i % 32] >> (2 * (i / 32 % 4))) & 3;
}

void read_q3_k(Codes b, uint8_t* codes, float* scales, float*) {
  const Codes mask = b, q = b + 32, sc = b + 96;
  const float d = half_at(b + 108);
  for (int j = 0; j < 16; ++j) {
    const int low = j < 8 ? sc[j] & 15 : sc[j - 8] >> 4, high = (sc[8 + j % 4] >> (2 * (j / 4))) & 3;
    scales[j] = d * static_cast<float>((low | high << 4) - 32);
  }
  for (int i = 0; i < 256; ++i) {
    const int n = i / 128, shift = i / 32 % 4, l = i % 32;
    const int low = (q[32 * n + l] >> (2 * shift)) & 3, has = (mask[l] >> (4 * n + shift)) & 1;
    codes[i] = static_cast<uint8_t>(low - (has ? 0 : 4) + 8);
  }
}

// The 6-bit scales and minima of Q4_K and Q5_K.
void read_k_scales(Codes b, float* scales, float* minima) {
  const Codes sc = b + 4;
  const float d = half_at(b), least = half_at(b + 2);
  for (int g = 0; g < 8; ++g) {
    const int s = g < 4 ? sc[g] & 63 : (sc[g + 4] & 15) | (sc[g - 4] >> 6) << 4;
    const int m = g < 4 ? sc[g + 4] & 63 : (sc[g + 4] >> 4) | (sc[g] >> 6) << 4;
    scales[g] = d * static_cast<float>(s), minima[g] = -(least * static_cast<float>(m));
  }
}
void read_q4_k(Codes b, uint8_t* codes, float* scales, float* minima) {
  read_k_scales(b, scales, minima);
  for (int c = 0; c < 4; ++c) low_then_high(b + 16 + 32 * c, 32, codes + 64 * c);
}
void read_q5_k(Codes b, uint8_t* codes, float* scales, float* minima) {
  read_k_scales(b, scales, minima);
  for (int c = 0; c < 4; ++c) low_then_high(b + 48 + 32 * c, 32, codes + 64 * c);
  for (int i = 0; i < 256; ++i) codes[i] = static_cast<uint8_t>(codes[i] + 16 * ((b[16 + i % 32] >> (i / 32)) & 1));
}

void read_q6_k(Codes b, uint8_t* codes, float* scales, float*) {
  const float d = half_at(b + 208);
  for (int g = 0; g < 16; ++g) scales[g] = d * static_cast<float>(static_cast<int8_t>(b[192 + g]));
  for (int n = 0; n < 2; ++n)
    for (int l = 0; l < 32; ++l) {
      const Codes low = b + 64 * n;
      const int high = b[128 + 32 * n + l];
      const int parts[4] = {low[l] & 15, low[l + 32] & 15, low[l] >> 4, low[l + 32] >> 4};
      for (int k = 0; k < 4; ++k)
        codes[128 * n + 32 * k + l] = static_cast<uint8_t>((parts[k] | ((high >> (2 * k)) & 3) << 4) - 32 + 128);
    }
}

void read_iq4_xs(Codes b, uint8_t* codes, float* scales, float*) {
  const float d = half_at(b);
  uint16_t high;
  std::memcpy(&high, b + 2, 2);
  for (int g = 0; g < 8; ++g) {
    const int s = ((b[4 + g / 2] >> (4 * (g % 2))) & 15) | ((high >> (2 * g)) & 3) << 4;
    scales[g] = d * static_cast<float>(s - 32);
    low_then_high(b + 8 + 16 * g, 16, codes + 32 * g);
  }
}

struct Form {
  uint32_t id;
  int bits, group;
  bool minima, half_scales;
  const std::vector<float>* values;
  void (*read)(Codes block, uint8_t* codes, float* scales, float* minima);
};
const Form kForms[] = {{kQ4_0, 4, 32, false, true, nullptr, read_q4_0},
                       {kQ4_1, 4, 32, true, true, nullptr, read_q4_1},
                       {kQ5_0, 8, 32, false, true, nullptr, read_q5_0},
                       {kQ5_1, 8, 32, true, true, nullptr, read_q5_1},
                       {kQ8_0, 8, 32, false, true, nullptr, read_q8_0},
                       {kIQ4_NL, 4, 32, false, true, &kIq4Values, read_q4_0},
                       {kMXFP4, 4, 32, false, false, &kMxFp4Values, read_mxfp4},
                       {kQ2_K, 4, 16, true, false, nullptr, read_q2_k},
                       {kQ3_K, 4, 16, false, false, nullptr, read_q3_k},
                       {kQ4_K, 4, 32, true, false, nullptr, read_q4_k},
                       {kQ5_K, 8, 32, true, false, nullptr, read_q5_k},
                       {kQ6_K, 8, 16, false, false, nullptr, read_q6_k},
                       {kIQ4_XS, 4, 32, false, false, &kIq4Values, read_iq4_xs},
                       {kIQ2_XXS, 4, 32, false, false, &kIq2Values, read_iq2_xxs},
                       {kIQ2_XS, 4, 16, false, false, &kIq2Values, read_iq2_xs},
                       {kIQ2_S, 4, 16, false, false, &kIq2Values, read_iq2_s},
                       {kIQ3_XXS, 4, 32, false, false, &kIq3XxsValues, read_iq3_xxs},
                       {kIQ3_S, 4, 32, false, false, &kIq3SValues, read_iq3_s},
                       {kIQ1_S, 4, 32, false, false, &kIq1Values, read_iq1_s},
                       {kIQ1_M, 4, 16, false, false, &kIq1Values, read_iq1_m},
                       {kTQ1_0, 4, 32, false, true, nullptr, read_tq1_0},
                       {kTQ2_0, 4, 32, false, true, nullptr, read_tq2_0}};

class GgmlMatrix : public BlockMatrix {
 public:
  GgmlMatrix(const Form& form, const GgmlType& type, BlockLayout layout, std::span<const std::byte> bytes,
             std::shared_ptr<const void> owner)
      : BlockMatrix(std::move(layout)), form_(form), type_(type), bytes_(bytes), owner_(std::move(owner)) {}

  void read_row(int64_t row, uint8_t* codes, float* scales, float* minima) const override {
    const int64_t blocks = layout().depth / type_.values, groups = type_.values / form_.group;
    Codes at = reinterpret_cast<Codes>(bytes_.data()) + row * blocks * type_.bytes;
    for (int64_t i = 0; i < blocks; ++i, at += type_.bytes)
      form_.read(at, codes + i * type_.values, scales + i * groups, minima ? minima + i * groups : nullptr);
  }
  // Blocks that begin with a scale, and a minimum, and end with codes in this very order.
  bool read_stored(int64_t row, uint8_t* codes, uint16_t* scales, uint16_t* minima) const override {
    const bool bytes = form_.id == kQ8_0;
    if (!bytes && form_.id != kQ4_0 && form_.id != kQ4_1 && form_.id != kIQ4_NL) return false;
    const int64_t blocks = layout().depth / type_.values, size = bytes ? 32 : 16,
                  codes_at = static_cast<int64_t>(type_.bytes) - size;
    Codes at = reinterpret_cast<Codes>(bytes_.data()) + row * blocks * type_.bytes;
    for (int64_t i = 0; i < blocks; ++i, at += type_.bytes, codes += size) {
      std::memcpy(scales + i, at, 2);
      if (minima) std::memcpy(minima + i, at + 2, 2);
      if (bytes) copy_signed(at + codes_at, codes);
      else std::memcpy(codes, at + codes_at, 16);
    }
    return true;
  }
  bool has_quick_rows() const override { return true; }
  void release() const override { release_mapped(bytes_); }

 private:
  const Form& form_;
  const GgmlType& type_;
  std::span<const std::byte> bytes_;
  std::shared_ptr<const void> owner_;
};

}  // namespace

const GgmlType& ggml_type(uint32_t id, const std::string& where) {
  for (const GgmlType& type : kTypes)
    if (type.id == id) return type;
  for (const auto& [other, name] : kOthers)
    if (other == id) fail("{}: the type {} is not supported", where, name);
  fail("{}: unknown ggml type {}", where, id);
}

const GgmlType* find_ggml_type(std::string_view name) {
  const auto same = [&](std::string_view other) {
    if (name.size() != other.size()) return false;
    for (size_t i = 0; i < name.size(); ++i)
      if ((name[i] >= 'a' && name[i] <= 'z' ? name[i] - 32 : name[i]) != other[i]) return false;
    return true;
  };
  for (const GgmlType& type : kTypes)
    if (same(type.name)) return &type;
  return nullptr;
}

uint64_t ggml_bytes(uint32_t id, const std::vector<int64_t>& shape, const std::string& where) {
  const GgmlType& type = ggml_type(id, where);
  const int64_t row = shape.empty() ? 1 : shape.back();
  if (row % type.values != 0)
    fail("{}: rows of {} numbers are no whole blocks of {} ({})", where, row, type.values, type.name);
  int64_t bytes = row / type.values * type.bytes;
  for (size_t i = 0; i + 1 < shape.size(); ++i)
    if (__builtin_mul_overflow(bytes, shape[i], &bytes)) fail("{}: its extents overflow", where);
  return static_cast<uint64_t>(bytes);
}

std::optional<DType> ggml_plain_type(uint32_t type) {
  switch (type) {
    case kF32:
      return DType::kFloat32;
    case kF16:
      return DType::kFloat16;
    case kBF16:
      return DType::kBFloat16;
    case kF64:
      return DType::kFloat64;
    case kI8:
      return DType::kInt8;
    case kI32:
      return DType::kInt32;
    case kI64:
      return DType::kInt64;
    default:
      return std::nullopt;
  }
}

std::shared_ptr<const BlockMatrix> ggml_matrix(uint32_t id, int64_t rows, int64_t depth,
                                               std::span<const std::byte> bytes, std::shared_ptr<const void> owner,
                                               const std::string& where) {
  const GgmlType& type = ggml_type(id, where);
  for (const Form& form : kForms) {
    if (form.id != id) continue;
    if (bytes.size() != ggml_bytes(id, {rows, depth}, where))
      fail("{}: [{}, {}] of {} does not fit {} bytes", where, rows, depth, type.name, bytes.size());
    BlockLayout layout{.rows = rows,
                       .depth = depth,
                       .bits = form.bits,
                       .group = form.group,
                       .has_minima = form.minima,
                       .scale_type = form.half_scales ? DType::kFloat16 : DType::kFloat32};
    if (form.values) layout.values = *form.values;
    return std::make_shared<GgmlMatrix>(form, type, std::move(layout), bytes, std::move(owner));
  }
  fail("{}: {} holds no blocks", where, type.name);
}

}  // namespace transom
