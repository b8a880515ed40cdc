// SPDX-License-Identifier: Apache-2.0
// Which files are fetched, how they lie in the cache, and when the Hub is asked at all.
#include "files/hub/resolve.h"

#include <gtest/gtest.h>

#include "files/gguf/gguf_writer.h"
#include "files/hub/hub_server.h"
#include "support/message.h"
#include "transom/hub.h"

namespace transom {
namespace {

using test::files_below;
using test::HubServer;
using test::message_of;

class Resolve : public ::testing::Test {
 protected:
  Resolve() { test::fill(server_); }
  fs::path resolve(bool with_weights = true) {
    HubSettings settings = server_.settings(cache_);
    settings.revision = revision_;
    settings.offline = offline_;
    settings.token = token_;
    if (!endpoint_.empty()) settings.endpoint = endpoint_;
    return resolve_from_hub(HubServer::kId, settings, with_weights);
  }
  std::string failure() {
    const std::string message = message_of([&] { resolve(); });
    EXPECT_EQ(message.find('\n'), message.npos) << message;
    return message;
  }
  fs::path model() const { return cache_ / "models--owner--tiny"; }

  test::TemporaryFolder folder_;
  fs::path cache_ = folder_.path() / "hub";
  HubServer server_;
  std::string revision_ = "main", offline_, token_, endpoint_;
};

const std::vector<std::string> kNames = {"config.json", "model.safetensors", "vocab.txt"};

TEST_F(Resolve, LaysTheCacheOutAsHuggingfaceHubDoes) {
  server_.files["modules.json"] = {
      R"([{"type": "x.Transformer", "path": ""}, {"type": "x.Pooling", "path": "1_Pooling"}])"};
  server_.files["1_Pooling/config.json"] = {"{}"};
  const fs::path snapshot = resolve();
  EXPECT_EQ(snapshot, model() / "snapshots" / server_.commit());
  test::expect_same_files(server_, snapshot, kNames);
  EXPECT_EQ(read_file(model() / "refs/main"), server_.commit());
  EXPECT_EQ(fs::read_symlink(snapshot / "config.json"), "../../blobs/" + server_.etag_of("config.json"));
  EXPECT_EQ(fs::read_symlink(snapshot / "model.safetensors"), "../../blobs/" + server_.etag_of("model.safetensors"));
  EXPECT_EQ(fs::read_symlink(snapshot / "1_Pooling/config.json"),
            "../../../blobs/" + server_.etag_of("1_Pooling/config.json"));
  EXPECT_EQ(files_below(snapshot), (std::vector<std::string>{"1_Pooling/config.json", "config.json",
                                                             "model.safetensors", "modules.json", "vocab.txt"}));
  EXPECT_EQ(files_below(model() / "blobs").size(), 5u);
  EXPECT_TRUE(fs::exists(model() / ".no_exist" / server_.commit() / "tokenizer.json"));
  EXPECT_TRUE(fs::exists(cache_ / ".locks/models--owner--tiny" / (server_.etag_of("config.json") + ".lock")));
  EXPECT_TRUE(read_file(cache_ / "CACHEDIR.TAG").starts_with("Signature: 8a477f597d28d172789f06886806bc55"));
}

TEST_F(Resolve, FetchesATokenizerWithoutWeights) {
  const fs::path snapshot = resolve(false);
  EXPECT_EQ(files_below(snapshot), (std::vector<std::string>{"config.json", "vocab.txt"}));
}

TEST_F(Resolve, AsksOnceForABranchThatIsThereAndNeverForACommit) {
  resolve();
  server_.forget();
  resolve();
  EXPECT_EQ(server_.seen().size(), 1u);
  server_.forget();
  revision_ = server_.commit();
  test::expect_same_files(server_, resolve(), kNames);
  EXPECT_EQ(server_.seen().size(), 0u);
}

TEST_F(Resolve, FindsACommitWithoutABranch) {
  revision_ = server_.commit();
  test::expect_same_files(server_, resolve(), kNames);
  EXPECT_FALSE(fs::exists(model() / "refs"));
}

TEST_F(Resolve, TakesBranchesWithSlashes) {
  server_.commits["refs/pr/1"] = std::string(40, 'c');
  revision_ = "refs/pr/1";
  EXPECT_EQ(resolve().filename(), std::string(40, 'c'));
  EXPECT_EQ(read_file(model() / "refs/refs/pr/1"), std::string(40, 'c'));
}

TEST_F(Resolve, FollowsABranchThatMoved) {
  const fs::path before = resolve();
  server_.commits["main"] = std::string(40, 'b');
  server_.files["config.json"] = {R"({"model_type": "roberta"})"};
  server_.forget();
  const fs::path after = resolve();
  EXPECT_NE(before, after);
  test::expect_same_files(server_, after, kNames);
  EXPECT_EQ(server_.downloads_of("model.safetensors"), 0);  // the blob is the same
  EXPECT_EQ(read_file(model() / "refs/main"), std::string(40, 'b'));
}

TEST_F(Resolve, KeepsTheOldSnapshotUntilTheNewOneIsComplete) {
  const fs::path before = resolve();
  server_.commits["main"] = std::string(40, 'b');
  server_.files["model.safetensors"] = {"new", true};
  server_.faults["model.safetensors"] = {{test::Fault::kStatus, 403}};
  EXPECT_NE(failure(), "");
  offline_ = "HF_HUB_OFFLINE is set";
  EXPECT_EQ(resolve(), before);
}

TEST_F(Resolve, UsesAMirrorThatHasNoLists) {
  server_.has_lists = false;
  test::expect_same_files(server_, resolve(), kNames);
  server_.forget();
  resolve();
  EXPECT_EQ(server_.seen().size(), 2u);  // the list, and config.json in its place
}

TEST_F(Resolve, NeedsNoServerForWhatIsThere) {
  const fs::path snapshot = resolve();
  server_.forget();
  offline_ = "HF_HUB_OFFLINE is set";
  EXPECT_EQ(resolve(), snapshot);
  EXPECT_EQ(server_.seen().size(), 0u);
  offline_ = "";
  endpoint_ = "http://127.0.0.1:1";  // nobody listens there
  EXPECT_EQ(resolve(), snapshot);
}

TEST_F(Resolve, SaysWhatIsMissingAndWhy) {
  offline_ = "HF_HUB_OFFLINE is set";
  std::string message = failure();
  EXPECT_NE(message.find("HF_HUB_OFFLINE is set"), message.npos) << message;
  EXPECT_NE(message.find(cache_.string()), message.npos) << message;
  EXPECT_FALSE(fs::exists(cache_));
  offline_ = "";
  endpoint_ = "http://127.0.0.1:1";
  message = failure();
  EXPECT_NE(message.find(": is no directory here, and http://127.0.0.1:1 gives no answer"), message.npos) << message;
  endpoint_ = "";
  resolve(false);
  offline_ = "HF_HUB_OFFLINE is set";
  message = failure();
  EXPECT_NE(message.find("has no weights"), message.npos) << message;
}

TEST_F(Resolve, ReadsACacheThatPythonWrote) {
  const std::string commit(40, 'e');
  fs::create_directories(model() / "refs");
  fs::create_directories(model() / "blobs");
  fs::create_directories(model() / "snapshots" / commit);
  write_file(model() / "refs/main", commit);
  for (const char* name : {"config.json", "pytorch_model.bin.index.json", "one.bin", "two.bin"}) {
    write_file(model() / "blobs" / ("0123" + std::string(name)), R"({"weight_map": {"x": "one.bin", "y": "two.bin"}})");
    fs::create_symlink("../../blobs/0123" + std::string(name), model() / "snapshots" / commit / name);
  }
  offline_ = "HF_HUB_OFFLINE is set";
  EXPECT_EQ(resolve(), model() / "snapshots" / commit);
  fs::remove(model() / "blobs/0123two.bin");  // the link leads nowhere
  const std::string message = failure();
  EXPECT_NE(message.find("two.bin"), message.npos) << message;
}

TEST_F(Resolve, FetchesShardsOfTheFirstFormThatThereIs) {
  server_.files.erase("model.safetensors");
  server_.files["model.safetensors.index.json"] = {
      R"({"weight_map": {"x": "model-1.safetensors", "y": "model-2.safetensors"}})"};
  server_.files["model-1.safetensors"] = {test::random_bytes(5000), true};
  server_.files["model-2.safetensors"] = {test::random_bytes(6000), true};
  server_.files["pytorch_model.bin"] = {"x", true};
  const fs::path snapshot = resolve();
  test::expect_same_files(server_, snapshot, {"model-1.safetensors", "model-2.safetensors"});
  EXPECT_FALSE(fs::exists(snapshot / "pytorch_model.bin"));
}

TEST_F(Resolve, RefusesNamesThatLeadOutOfTheCache) {
  server_.files["model.safetensors.index.json"] = {R"({"weight_map": {"x": "../../../evil"}})"};
  server_.files.erase("model.safetensors");
  EXPECT_NE(failure().find("../../../evil"), std::string::npos);
  server_.files["modules.json"] = {R"([{"path": "../../.."}])"};
  server_.commits["main"] = std::string(40, 'b');
  EXPECT_NE(failure().find("no name of a file"), std::string::npos);
  revision_ = "../../x";
  EXPECT_NE(failure().find("revision"), std::string::npos);
  for (const std::string& name : files_below(folder_.path())) EXPECT_TRUE(name.starts_with("hub/")) << name;
}

TEST_F(Resolve, RefusesAnswersThatNoHubGives) {
  server_.has_lists = false;
  std::string commit = "../../../../evil", etag = "x";
  server_.intercept = [&](const httplib::Request& request, httplib::Response& response) {
    if (request.path.find("/resolve/") == std::string::npos) return false;
    if (!commit.empty()) response.set_header("X-Repo-Commit", commit);
    response.set_header("ETag", etag);
    response.status = 200;
    return true;
  };
  EXPECT_NE(failure().find("X-Repo-Commit"), std::string::npos);
  commit = "";
  EXPECT_NE(failure().find("found none"), std::string::npos);
  commit = server_.commit();
  etag = "\"../../../../evil\"";
  EXPECT_NE(failure().find("ETag"), std::string::npos);
  EXPECT_TRUE(files_below(folder_.path()).empty());
  revision_ = std::string(40, 'd');  // another commit than the one that comes
  EXPECT_NE(failure().find("asked for commit"), std::string::npos);
}

TEST_F(Resolve, SaysWhyAccessIsRefused) {
  server_.required_token = "hf_secret";
  std::string message = failure();
  EXPECT_NE(message.find("access is restricted"), message.npos) << message;
  EXPECT_NE(message.find("HF_TOKEN"), message.npos) << message;
  token_ = "hf_wrong";
  message = failure();
  EXPECT_NE(message.find("does not suffice"), message.npos) << message;
  EXPECT_EQ(message.find("hf_wrong"), message.npos) << message;
  token_ = "hf_secret";
  test::expect_same_files(server_, resolve(), kNames);
  for (const test::SeenRequest& request : server_.seen())
    EXPECT_TRUE(!request.storage || request.authorization.empty()) << request.path;
  EXPECT_EQ(server_.downloads_of("model.safetensors"), 1);
}

TEST_F(Resolve, SaysWhatTheHubDoesNotHave) {
  revision_ = "no-such-branch";
  EXPECT_NE(failure().find("has no revision 'no-such-branch'"), std::string::npos);
  revision_ = "main";
  for (const char* weights : {"model.safetensors", "tf_model.h5", "flax_model.msgpack"}) server_.files.erase(weights);
  EXPECT_NE(failure().find("has no weights"), std::string::npos);
  server_.files.erase("config.json");
  server_.commits["main"] = std::string(40, 'b');
  EXPECT_NE(failure().find("has no config.json"), std::string::npos);
  const std::string message = message_of([&] { resolve_from_hub("owner/other", server_.settings(cache_), true); });
  EXPECT_NE(message.find("owner/other: is no directory here"), message.npos) << message;
}

TEST_F(Resolve, FollowsAModelToItsNewName) {
  server_.intercept = [](const httplib::Request& request, httplib::Response& response) {
    const size_t old = request.path.find("/old/");
    if (old == std::string::npos) return false;
    response.set_redirect(request.path.substr(0, old) + "/owner/tiny/" + request.path.substr(old + 5), 307);
    return true;
  };
  const fs::path snapshot = resolve_from_hub("old", server_.settings(cache_), true);
  EXPECT_EQ(snapshot, cache_ / "models--old/snapshots" / server_.commit());
  test::expect_same_files(server_, snapshot, kNames);
}

TEST_F(Resolve, TakesTheCacheWhereAccessWasWithdrawn) {
  const fs::path snapshot = resolve();
  server_.intercept = [](const httplib::Request&, httplib::Response& response) {
    response.status = 401;
    return true;
  };
  EXPECT_EQ(resolve(), snapshot);
}

TEST(ResolveModel, TakesADirectoryAsItIs) {
  const test::TemporaryFolder folder;
  EXPECT_EQ(resolve_model(folder.path().string()), folder.path());
  write_file(folder.path() / "file", "x");
  const auto refusal = [](const std::string& name) { return message_of([&] { resolve_model(name); }); };
  EXPECT_NE(refusal((folder.path() / "file").string()).find("found a file"), std::string::npos);
  for (const char* name : {"/no/such/directory", "./no-such", "../no-such", "a/b/c", "no-such/"})
    EXPECT_NE(refusal(name).find("no such directory"), std::string::npos) << name;
  for (const char* name : {"a b", "a--b", "-a", "a/b.git", "owner/\xC3\xA9"})
    EXPECT_NE(refusal(name).find("owner/name"), std::string::npos) << name;
  EXPECT_NE(refusal(""), "");
}

// Models are known by what they are, not by their names.
TEST(ResolveModel, TakesFilesUnderAnyName) {
  const test::TemporaryFolder folder;
  GgufWriter writer;
  writer.add_string("general.architecture", "llama");
  writer.add_tensor("output_norm.weight", 0, {1}, [] { return std::vector<std::byte>(4); });
  for (const char* name : {"model.gguf", "M.GGUF", "sha256-5f0f", "weights.bin"}) {
    writer.write(folder / name);
    EXPECT_EQ(resolve_model(folder / name), folder / name);
  }
  for (const char* name : {"m.onnx", "M.ONNX"}) {
    folder.write(name, "no protobuf");
    EXPECT_EQ(resolve_model(folder / name), folder / name);
  }
  folder.write("graph", std::string("\x08\x07\x12\x07pytorch", 11));
  EXPECT_EQ(resolve_model(folder / "graph"), folder / "graph");
  folder.write("notes.txt", "\x08 is a number");
  EXPECT_NE(message_of([&] { resolve_model(folder / "notes.txt"); }).find("a GGUF or ONNX file"), std::string::npos);
}

TEST(ResolveModel, TakesAFileOfWeightsForItsDirectory) {
  const test::TemporaryFolder folder;
  folder.write("model.safetensors", "x"), folder.write("other.safetensors", "x");
  const std::string weights = (folder / "model.safetensors").string();
  EXPECT_NE(message_of([&] { resolve_model(weights); }).find("config.json beside it"), std::string::npos);
  folder.write("config.json", "{}");
  EXPECT_EQ(resolve_model(weights), folder.path());
  EXPECT_NE(
      message_of([&] { resolve_model((folder / "other.safetensors").string()); }).find("'model.safetensors' is read"),
      std::string::npos);
}

}  // namespace
}  // namespace transom
