// SPDX-License-Identifier: Apache-2.0
// Files of weights: round trips, and hostile ones.
#include <gtest/gtest.h>

#include <cstring>

#include "files/checkpoint/checkpoint.h"
#include "files/checkpoint/pickle.h"
#include "files/checkpoint/safetensors.h"
#include "files/checkpoint/torch_file.h"
#include "support/message.h"
#include "support/temporary_folder.h"
#include "transom/error.h"

namespace transom {
namespace {

NamedViews two_tensors() {
  static const float values[] = {1, 2, 3, 4};
  static const int64_t ids[] = {7};
  return {{"b", {DType::kFloat32, {2, 2}, std::as_bytes(std::span(values)), nullptr}},
          {"a", {DType::kInt64, {1}, std::as_bytes(std::span(ids)), nullptr}}};
}

std::string file_of(const std::string& header, size_t data) {
  const uint64_t size = header.size();
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &size, 8);
  return bytes + header + std::string(data, '\0');
}

void expect_refused(const std::string& bytes, const std::string& part) {
  const std::string message = test::message_of(
      [&] { SafetensorsFile::parse(std::as_bytes(std::span(bytes.data(), bytes.size())), "x.safetensors", nullptr); });
  EXPECT_NE(message.find(part), std::string::npos) << message << " for " << bytes.substr(8, 80);
}

class Weights : public testing::Test {
 protected:
  test::TemporaryFolder folder_;
};

TEST_F(Weights, ComeBackAsTheyWereWritten) {
  write_safetensors(folder_ / "x.safetensors", two_tensors());
  const SafetensorsFile file = SafetensorsFile::open(folder_ / "x.safetensors");
  ASSERT_NE(file.find("b"), nullptr);
  EXPECT_EQ(file.find("b")->shape, (std::vector<int64_t>{2, 2}));
  EXPECT_TRUE(
      std::equal(file.find("b")->bytes.begin(), file.find("b")->bytes.end(), two_tensors()[0].second.bytes.begin()));
  EXPECT_EQ(file.metadata().at("format"), "pt");
}

TEST_F(Weights, GoIntoShardsAboveASize) {
  save_checkpoint(folder_, two_tensors(), 16);
  EXPECT_TRUE(fs::exists(folder_ / "model-00002-of-00002.safetensors"));
  EXPECT_EQ(Checkpoint::open(folder_).tensors().size(), 2u);
  save_checkpoint(folder_, two_tensors(), 1 << 20);
  EXPECT_FALSE(fs::exists(folder_ / "model.safetensors.index.json"));
  EXPECT_FALSE(fs::exists(folder_ / "model-00001-of-00002.safetensors"));
  EXPECT_EQ(Checkpoint::open(folder_).tensors().size(), 2u);
}

TEST_F(Weights, AnIndexMayNotLeadOutOfItsDirectory) {
  write_file(folder_ / "model.safetensors.index.json", R"({"weight_map": {"a": "../secret.safetensors"}})");
  EXPECT_THROW(Checkpoint::open(folder_), Error);
}

TEST(Safetensors, RefusesLyingHeaders) {
  expect_refused("short", "header alone takes 8");
  expect_refused(std::string(8, '\xff'), "at most");
  expect_refused(file_of("{}", 0).substr(0, 9), "is cut off");
  expect_refused(file_of("[1]", 0), "no JSON object");
  expect_refused(file_of(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 4), "lie outside");
  expect_refused(file_of(R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})", 8), "needs 12 bytes");
  expect_refused(file_of(R"({"a":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,8]}})", 8),
                 "too many");
  expect_refused(file_of(R"({"a":{"dtype":"F31","shape":[2],"data_offsets":[0,8]}})", 8), "'F31'");
  expect_refused(
      file_of(
          R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"b":{"dtype":"F32","shape":[1],"data_offsets":[2,6]}})",
          6),
      "overlap");
  expect_refused(file_of(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 8), "describes 4 bytes");
  expect_refused(
      file_of(
          R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
          4),
      "twice");
  expect_refused(file_of(R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", 4), "whole number");
}

TEST(Pickle, NeverRunsWhatItNames) {
  const std::string evil =
      "\x80\x02"
      "cos\nsystem\n"
      "X\x02\0\0\0ls\x85R.";
  const std::string message =
      test::message_of([&] { read_pickle(std::as_bytes(std::span(evil.data(), evil.size())), "x.bin"); });
  EXPECT_NE(message.find("'os system'"), std::string::npos) << message;
}

TEST(TorchFile, EndsInErrorsOnRandomBytes) {
  std::string bytes = "PK\x05\x06" + std::string(18, '\0');
  for (unsigned seed = 0; seed < 2000; ++seed) {
    std::string changed = bytes + "PK\x05\x06" + std::string(18, '\0');
    for (unsigned k = 0; k < 4; ++k)
      changed[(seed * 7919 + k * 104729) % changed.size()] = static_cast<char>(seed >> k);
    try {
      parse_torch_state_dict(std::as_bytes(std::span(changed.data(), changed.size())), "x.bin", nullptr);
    } catch (const Error&) {
    }
  }
}

}  // namespace
}  // namespace transom
