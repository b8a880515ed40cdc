// SPDX-License-Identifier: Apache-2.0
#include "models/compression/gguf/gguf_pooling.h"

#include <gtest/gtest.h>

#include "base/files/files.h"
#include "support/message.h"
#include "support/temporary_folder.h"

namespace transom {
namespace {

using test::message_of;
namespace fs = std::filesystem;

// A directory of sentence-transformers with these modules behind the Transformer, and this pooling.
class SentenceFolder {
 public:
  SentenceFolder(const std::string& modules, const std::string& pooling) {
    write_file(folder_.path() / "modules.json", R"([{"type": "sentence_transformers.models.Transformer", "path": ""},
      {"type": "sentence_transformers.models.Pooling", "path": "1_Pooling"})" +
                                                    modules + "]");
    fs::create_directory(folder_.path() / "1_Pooling");
    write_file(folder_.path() / "1_Pooling" / "config.json", pooling);
  }
  const fs::path& path() const { return folder_.path(); }

 private:
  test::TemporaryFolder folder_;
};

TEST(GgufPooling, KindsThatTheFormatHas) {
  const test::TemporaryFolder plain;
  EXPECT_EQ(gguf_pooling_type(plain.path()), std::nullopt);
  const std::string normalize = R"(, {"type": "sentence_transformers.models.Normalize", "path": "2_Normalize"})";
  EXPECT_EQ(gguf_pooling_type(SentenceFolder("", R"({"pooling_mode_mean_tokens": true})").path()), 1);
  EXPECT_EQ(gguf_pooling_type(SentenceFolder(normalize, R"({"pooling_mode": "cls"})").path()), 2);
  EXPECT_EQ(gguf_pooling_type(SentenceFolder("", R"({"pooling_mode_cls_token": true,
                                                     "pooling_mode_mean_tokens": false})")
                                  .path()),
            2);
  EXPECT_EQ(gguf_pooling_type(SentenceFolder("", R"({"pooling_mode": ["lasttoken"]})").path()), 3);
  EXPECT_EQ(gguf_pooling_type(SentenceFolder("", "{}").path()), 1);
}

TEST(GgufPooling, RefusesWhatWouldBeLost) {
  const auto message = [](const std::string& modules, const std::string& pooling) {
    const SentenceFolder folder(modules, pooling);
    return message_of([&] { gguf_pooling_type(folder.path()); });
  };
  const std::string dense = message(R"(, {"type": "sentence_transformers.models.Dense", "path": "2_Dense"})",
                                    R"({"pooling_mode_mean_tokens": true})");
  EXPECT_NE(dense.find("no place for the module 'Dense'"), std::string::npos) << dense;
  const std::string two = message("", R"({"pooling_mode_mean_tokens": true, "pooling_mode_max_tokens": true})");
  EXPECT_NE(two.find("one pooling, found 2"), std::string::npos) << two;
  const std::string greatest = message("", R"({"pooling_mode": "max"})");
  EXPECT_NE(greatest.find("found 'max'"), std::string::npos) << greatest;
  EXPECT_NE(message("", "[1]").find("expected an object"), std::string::npos);
}

}  // namespace
}  // namespace transom
