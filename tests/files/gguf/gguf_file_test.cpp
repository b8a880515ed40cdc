// SPDX-License-Identifier: Apache-2.0
#include "files/gguf/gguf_file.h"

#include <gtest/gtest.h>

#include <cstring>

#include "support/gguf_bytes.h"
#include "support/message.h"
#include "support/temporary_folder.h"
#include "transom/error.h"

namespace transom {
namespace {

using test::GgufBytes;
using test::message_of;

GgufFile parse(const std::string& bytes) {
  const auto held = std::make_shared<const std::string>(bytes);
  return GgufFile::parse(std::as_bytes(std::span(*held)), "a.gguf", held);
}
std::string refusal(const std::string& bytes) {
  return message_of([&] { parse(bytes); });
}

GgufBytes small(uint32_t version = 3) {
  GgufBytes bytes(version);
  bytes.text("general.architecture", "llama").number("llama.block_count", 2).floating("llama.rope.freq_base", 1e4f);
  bytes.texts("tokenizer.ggml.tokens", {"a", "", "bc"});
  bytes.tensor("x", {3, 2}, 0, GgufBytes::floats({1, 2, 3, 4, 5, 6}));
  bytes.tensor("y", {32}, 8, std::string(34, '\1'));
  return bytes;
}

TEST(GgufFile, GivesKeysAndTensors) {
  for (const uint32_t version : {2u, 3u}) {
    const GgufFile file = parse(small(version).made());
    EXPECT_EQ(file.get_string("general.architecture"), "llama");
    EXPECT_EQ(file.get_int("llama.block_count"), 2);
    EXPECT_EQ(file.get_float("llama.rope.freq_base"), 1e4);
    EXPECT_EQ(file.get_strings("tokenizer.ggml.tokens"), (std::vector<std::string>{"a", "", "bc"}));
    EXPECT_EQ(file.get_int("absent", 7), 7);
    const GgufTensor* x = file.find("x");
    ASSERT_NE(x, nullptr);
    EXPECT_EQ(x->shape, (std::vector<int64_t>{2, 3})) << "PyTorch's order";
    float last;
    std::memcpy(&last, x->bytes.data() + 20, 4);
    EXPECT_EQ(last, 6);
    EXPECT_EQ(file.find("y")->bytes.size(), 34u);
    EXPECT_EQ(file.find("z"), nullptr);
  }
}

TEST(GgufFile, SaysWhatIsWrong) {
  EXPECT_NE(refusal("GGML").find("is no GGUF file"), std::string::npos);
  EXPECT_NE(refusal(small(1).made()).find("version 1"), std::string::npos);
  EXPECT_NE(refusal(small(0x03000000).made()).find("big-endian"), std::string::npos);
  const GgufFile file = parse(small().made());
  EXPECT_NE(message_of([&] { file.get_int("absent"); }).find("'absent' is missing"), std::string::npos);
  EXPECT_NE(message_of([&] { file.get_int("general.architecture"); }).find("expected a whole number"),
            std::string::npos);
  const auto with = [](std::vector<uint64_t> extents, uint32_t type, size_t bytes) {
    return GgufBytes().tensor("w", extents, type, std::string(bytes, '\0')).made();
  };
  EXPECT_NE(refusal(with({33}, 8, 34)).find("no whole blocks"), std::string::npos);
  EXPECT_NE(refusal(with({32}, 4, 34)).find("unknown ggml type 4"), std::string::npos);
  EXPECT_NE(refusal(with({64}, 40, 36)).find("NVFP4 is not supported"), std::string::npos);
  EXPECT_NE(refusal(with({uint64_t{1} << 40, uint64_t{1} << 40}, 0, 4)).find("overflow"), std::string::npos);
  EXPECT_NE(refusal(with({64}, 8, 34)).find("outside of the file"), std::string::npos);
  EXPECT_NE(refusal(GgufBytes().number("a", 1).number("a", 2).made()).find("comes twice"), std::string::npos);
}

TEST(GgufFile, EveryTruncationIsRefused) {
  const std::string whole = small().made();
  const size_t data = whole.size() - 32;  // the last tensor's padding may be missing
  for (size_t size = 0; size < data; ++size) {
    const std::string message = refusal(whole.substr(0, size));
    ASSERT_TRUE(message.starts_with("a.gguf: ")) << size << ": " << message;
    ASSERT_EQ(message.find('\n'), std::string::npos);
  }
}

TEST(GgufFile, FlippedBytesAreReadOrRefused) {
  const std::string whole = small().made();
  for (size_t place = 0; place < whole.size(); ++place)
    for (const char mask : {'\x01', '\x80', '\xff'}) {
      std::string bytes = whole;
      bytes[place] = static_cast<char>(bytes[place] ^ mask);
      try {
        parse(bytes);
      } catch (const Error&) {
      }
    }
}

TEST(GgufFile, PartsAreOneFile) {
  const test::TemporaryFolder folder;
  const auto write = [&](int number, const GgufBytes& bytes) {
    const fs::path path = folder.path() / ("m-0000" + std::to_string(number) + "-of-00002.gguf");
    write_file(path, bytes.made());
    return path;
  };
  const fs::path first =
      write(1, GgufBytes().number("split.count", 2).number("split.no", 0).tensor("x", {1}, 0, GgufBytes::floats({1})));
  EXPECT_NE(message_of([&] { GgufFile::open(first); }).find("m-00002-of-00002.gguf"), std::string::npos);
  const fs::path second =
      write(2, GgufBytes().number("split.count", 2).number("split.no", 1).tensor("y", {1}, 0, GgufBytes::floats({2})));
  EXPECT_NE(GgufFile::open(first).find("y"), nullptr);
  EXPECT_NE(message_of([&] { GgufFile::open(second); }).find("name the first part"), std::string::npos);
  EXPECT_EQ(gguf_in(folder.path()), first);
  write(2, GgufBytes().number("split.count", 3).number("split.no", 1).tensor("y", {1}, 0, GgufBytes::floats({2})));
  EXPECT_NE(message_of([&] { GgufFile::open(first); }).find("expected part 2 of 2, found 2 of 3"), std::string::npos);
  write(2, GgufBytes().tensor("y", {1}, 0, GgufBytes::floats({2})));
  EXPECT_NE(GgufFile::open(first).find("y"), nullptr);
  fs::remove(first);
  EXPECT_NE(message_of([&] { gguf_in(folder.path()); }).find("holds a later part of a GGUF file"), std::string::npos);
  write(1, GgufBytes()
               .number("split.count", 2)
               .number("split.tensors.count", 3)
               .tensor("x", {1}, 0, GgufBytes::floats({1})));
  EXPECT_NE(message_of([&] { GgufFile::open(first); }).find("expected 3 tensors in its 2 parts, found 2"),
            std::string::npos);
  write_file(folder.path() / "other.gguf", GgufBytes().made());
  EXPECT_NE(message_of([&] { gguf_in(folder.path()); }).find("several GGUF files"), std::string::npos);
}

}  // namespace
}  // namespace transom
