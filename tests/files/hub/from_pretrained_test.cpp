// SPDX-License-Identifier: Apache-2.0
// The public functions by an id: they end in the same model as by its directory.
#include <gtest/gtest.h>
#include <stdlib.h>

#include "files/hub/hub_server.h"
#include "support/message.h"
#include "transom/hub.h"
#include "transom/model.h"
#include "transom/tokenizer.h"

namespace transom {
namespace {

class FromPretrained : public ::testing::Test {
 protected:
  FromPretrained() {
    ::setenv("HF_ENDPOINT", server_.endpoint().c_str(), 1);
    ::setenv("HF_HUB_CACHE", (folder_.path() / "hub").c_str(), 1);
    ::unsetenv("HF_HUB_OFFLINE");
    ::unsetenv("TRANSFORMERS_OFFLINE");
  }
  ~FromPretrained() override {
    ::unsetenv("HF_ENDPOINT");
    ::unsetenv("HF_HUB_CACHE");
  }
  test::TemporaryFolder folder_;
  test::HubServer server_;
};

TEST_F(FromPretrained, LoadsAModelAndATokenizerById) {
  const std::unique_ptr<Model> made = Model::from_config(
      R"({"model_type": "bert", "architectures": ["BertModel"], "vocab_size": 7, "hidden_size": 8, "num_hidden_layers": 1,
          "num_attention_heads": 2, "intermediate_size": 16, "max_position_embeddings": 16})");
  made->save_pretrained((folder_.path() / "made").string());
  for (const char* name : {"config.json", "model.safetensors"})
    server_.files[name] = {read_file(folder_.path() / "made" / name), std::string(name) != "config.json"};
  server_.files["vocab.txt"] = {"[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nb\n"};

  const Tokenizer tokenizer = Tokenizer::from_pretrained("owner/tiny");
  EXPECT_EQ(tokenizer.encode("a b").ids, (std::vector<int64_t>{2, 5, 6, 3}));
  EXPECT_EQ(server_.downloads_of("model.safetensors"), 0);
  const std::unique_ptr<Model> loaded = Model::from_pretrained("owner/tiny");
  ASSERT_EQ(loaded->parameters().size(), made->parameters().size());
  for (size_t i = 0; i < made->parameters().size(); ++i)
    EXPECT_EQ(loaded->parameters()[i]->value.to_vector<float>(), made->parameters()[i]->value.to_vector<float>());
  EXPECT_EQ(server_.downloads_of("model.safetensors"), 1);

  server_.commits["v1"] = std::string(40, 'b');
  EXPECT_EQ(resolve_model("owner/tiny", {.revision = "v1"}).filename(), std::string(40, 'b'));
  EXPECT_NE(test::message_of([] {
              resolve_model("owner/tiny", {.revision = "v2", .local_files_only = true});
            }).find("local_files_only"),
            std::string::npos);
}

}  // namespace
}  // namespace transom
