// SPDX-License-Identifier: Apache-2.0
// model.bin of CTranslate2: what is read of it, and bytes that are none.
#include <gtest/gtest.h>

#include <cstring>

#include "files/ctranslate2/ct2_file.h"
#include "support/message.h"

namespace transom {
namespace {

template <typename T>
std::string raw(T value) {
  std::string bytes(sizeof(T), '\0');
  std::memcpy(bytes.data(), &value, sizeof(T));
  return bytes;
}
std::string named(const std::string& text) {
  return raw<uint16_t>(static_cast<uint16_t>(text.size() + 1)) + text + '\0';
}
std::string variable(const std::string& name, const std::vector<uint32_t>& shape, uint8_t type,
                     const std::string& data) {
  std::string bytes = named(name) + raw<uint8_t>(static_cast<uint8_t>(shape.size()));
  for (const uint32_t extent : shape) bytes += raw(extent);
  return bytes + raw(type) + raw<uint32_t>(static_cast<uint32_t>(data.size())) + data;
}
std::string small_file() {
  return raw<uint32_t>(6) + named("WhisperSpec") + raw<uint32_t>(3) + raw<uint32_t>(4) +
         variable("codes", {2, 2}, 1, std::string({10, -20, 30, 40})) +
         variable("codes_scale", {2}, 0, raw(10.0f) + raw(20.0f)) + variable("heads", {}, 2, raw<int16_t>(6)) +
         variable("plain", {2}, 0, raw(1.5f) + raw(-2.0f)) + raw<uint32_t>(1) + named("other") + named("plain");
}
Ct2File parsed(const std::string& bytes) {
  const auto owner = std::make_shared<std::string>(bytes);
  return Ct2File::parse(std::as_bytes(std::span(*owner)), "model.bin", owner);
}
std::vector<float> values_of(const TensorView& view) {
  std::vector<float> values(view.bytes.size() / sizeof(float));
  std::memcpy(values.data(), view.bytes.data(), view.bytes.size());
  return values;
}

TEST(Ct2File, CodesAreMultipliedOut) {
  const Ct2File file = parsed(small_file());
  EXPECT_EQ(file.spec(), "WhisperSpec");
  EXPECT_EQ(file.revision(), 3);
  EXPECT_EQ(values_of(file.floats("codes")), (std::vector<float>{1, -2, 1.5, 2}));
  EXPECT_EQ(values_of(file.floats("other")), (std::vector<float>{1.5, -2}));
  EXPECT_EQ(values_of(rows_of_view(file.floats("codes"), 1, 2)), (std::vector<float>{1.5, 2}));
  EXPECT_EQ(file.integer("heads"), 6);
  EXPECT_NE(test::message_of([&] { file.floats("heads"); }).find("heads"), std::string::npos);
  EXPECT_NE(test::message_of([&] { file.floats("nothing"); }).find("nothing"), std::string::npos);
}

TEST(Ct2File, EveryCutIsRefused) {
  const std::string whole = small_file();
  // The last block, of other names, may be missing as a whole.
  const size_t names = named("other").size() + named("plain").size() + 4;
  for (size_t length = 0; length < whole.size(); ++length) {
    if (length == whole.size() - names) continue;
    EXPECT_NE(test::message_of([&] { parsed(whole.substr(0, length)); }), "") << length;
  }
  EXPECT_NE(test::message_of([&] { parsed(whole + "x"); }).find("behind its end"), std::string::npos);
  std::string other = whole;
  other[0] = 9;
  EXPECT_NE(test::message_of([&] { parsed(other); }).find("version 4 to 6"), std::string::npos);
}

TEST(Ct2File, SizesAreCheckedBeforeMemoryIsTaken) {
  const std::string begin = raw<uint32_t>(6) + named("WhisperSpec") + raw<uint32_t>(3);
  EXPECT_NE(test::message_of([&] { parsed(begin + raw<uint32_t>(0xffffffff)); }).find("variables"), std::string::npos);
  const std::string huge = variable("a", {0xffffffff, 0xffffffff, 0xffffffff}, 0, "");
  EXPECT_NE(test::message_of([&] { parsed(begin + raw<uint32_t>(1) + huge); }).find("extents"), std::string::npos);
  EXPECT_NE(test::message_of([&] {
              parsed(begin + raw<uint32_t>(1) + variable("a", {4}, 0, "abcd"));
            }).find("expected 4 numbers"),
            std::string::npos);
}

}  // namespace
}  // namespace transom
