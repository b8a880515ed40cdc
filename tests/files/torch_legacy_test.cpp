// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <random>

#include "base/files/files.h"
#include "files/checkpoint/safetensors.h"
#include "files/checkpoint/torch_file.h"
#include "support/folders.h"
#include "support/message.h"
#include "transom/error.h"

namespace transom {
namespace {

fs::path legacy_folder() { return fs::path(test::source_folder()) / "tests/wild/files/torch-legacy-tensors"; }

TEST(LegacyTorchFile, HoldsTheTensorsThatTorchSaved) {
  const NamedViews read = read_torch_state_dict(legacy_folder() / "pytorch_model.bin");
  const SafetensorsFile expected = SafetensorsFile::open(legacy_folder() / "expected.safetensors");
  EXPECT_EQ(read.size(), expected.tensors().size());
  for (const auto& [name, view] : read) {
    const TensorView* want = expected.find(name);
    ASSERT_TRUE(want) << name;
    EXPECT_EQ(view.dtype, want->dtype) << name;
    EXPECT_EQ(view.shape, want->shape) << name;
    EXPECT_TRUE(std::equal(view.bytes.begin(), view.bytes.end(), want->bytes.begin(), want->bytes.end())) << name;
  }
}

TEST(LegacyTorchFile, EndsInErrorsWhereverItIsCutOrChanged) {
  const std::string whole = read_file(legacy_folder() / "pytorch_model.bin");
  const auto read = [](const std::string& text) {
    parse_torch_state_dict(std::as_bytes(std::span(text.data(), text.size())), "x.bin", nullptr);
  };
  for (size_t size = 0; size < whole.size(); ++size)
    EXPECT_NE(test::message_of([&] { read(whole.substr(0, size)); }), "") << size;
  std::mt19937 random(5);
  for (int i = 0; i < 3000; ++i) {
    std::string changed = whole;
    for (int k = 0; k < 3; ++k) changed[random() % changed.size()] = static_cast<char>(random());
    try {
      read(changed);
    } catch (const Error&) {  // any other exception, or a sanitizer's word, fails
    }
  }
}

}  // namespace
}  // namespace transom
