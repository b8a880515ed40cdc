// SPDX-License-Identifier: Apache-2.0
// The examples run, and what the README shows of them is what is built.
#include <gtest/gtest.h>

#include <string>

#include "base/files/files.h"
#include "support/command.h"
#include "support/folders.h"
#include "work/train/tiny_model.h"

namespace transom {
namespace {

test::CommandOutcome run(const std::string& command) {
  return test::run_command(test::build_folder() + "/bin/" + command);
}

TEST(Examples, TrainsAFunction) {
  const test::CommandOutcome outcome = run("example_train_a_function");
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  EXPECT_NE(outcome.output.find("0 1 1 0"), std::string::npos) << outcome.output;
}

TEST(Examples, Attends) {
  const test::CommandOutcome outcome = run("example_attend reference");
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  EXPECT_NE(outcome.output.find("rows sum to 1 f32[]"), std::string::npos) << outcome.output;
  EXPECT_NE(outcome.output.find("f32[3, 3]"), std::string::npos) << outcome.output;
  EXPECT_NE(outcome.output.find(" on reference\n"), std::string::npos) << outcome.output;
}

TEST(Examples, TrainsAModule) {
  const test::TemporaryFolder folder;
  const test::CommandOutcome outcome = run("example_train_a_module " + (folder / "p.safetensors").string());
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  EXPECT_NE(outcome.output.find("accuracy"), std::string::npos) << outcome.output;
  EXPECT_NE(read_file(folder / "p.safetensors").find("hidden.weight"), std::string::npos);
}

TEST(Examples, TrainOnOwnDataAndAskPipelines) {
  const TinyModel model;
  const std::string output = (model.path() / "out").string();
  const test::CommandOutcome trained = run("example_own_data " + model.path().string() + " " + output);
  EXPECT_EQ(trained.status, 0) << trained.output;
  for (const char* part : {"hidden_size 16", "step 2 of 10  loss ", "eval_accuracy "})
    EXPECT_NE(trained.output.find(part), std::string::npos) << trained.output;
  model.write("out/vocab.txt", kTinyVocabulary);
  const test::CommandOutcome asked = run("example_ask_pipelines " + output + " 'ann went' 'the tower'");
  EXPECT_EQ(asked.status, 0) << asked.output;
  EXPECT_EQ(std::count(asked.output.begin(), asked.output.end(), '\n'), 4) << asked.output;
  EXPECT_NE(asked.output.find("LABEL_1  0."), std::string::npos) << asked.output;
  const test::CommandOutcome from_c =
      run("example_ask_from_c text-classification " + output + " 'ann went' 'the tower'");
  EXPECT_EQ(from_c.status, 0) << from_c.output;
  EXPECT_EQ(from_c.output.find("[{\"label\": \"LABEL_"), 0u) << from_c.output;
  const test::CommandOutcome with_ctypes =
      test::run_command("python3 " + test::source_folder() + "/examples/ask_with_ctypes.py " + test::build_folder() +
                        "/lib/libtransom.so text-classification " + output + " 'ann went' 'the tower'");
  EXPECT_EQ(with_ctypes.status, 0) << with_ctypes.output;
  EXPECT_EQ(std::count(with_ctypes.output.begin(), with_ctypes.output.end(), '\n'), 2) << with_ctypes.output;
}

TEST(Examples, FineTunes) {
  const TinyModel model;
  const std::string rows =
      "text,label\nann went to rome,trip\nthe tower is old,fact\nann went,trip\nrome is old,fact\n";
  const std::string train = model.write("train.csv", rows), output = (model.path() / "out").string();
  const test::CommandOutcome outcome =
      run("example_fine_tune " + model.path().string() + " " + train + " " + train + " " + output);
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  EXPECT_NE(outcome.output.find("eval_accuracy"), std::string::npos) << outcome.output;
  EXPECT_NE(outcome.output.find("\"score\""), std::string::npos) << outcome.output;
  EXPECT_TRUE(fs::exists(fs::path(output) / "model.safetensors"));
  EXPECT_TRUE(fs::exists(fs::path(output) / "trainer_state.json"));
}

TEST(Examples, FailInOneLine) {
  const test::CommandOutcome outcome = run("example_fine_tune nowhere/at/all train.csv dev.csv out");
  EXPECT_NE(outcome.status, 0);
  EXPECT_EQ(std::count(outcome.output.begin(), outcome.output.end(), '\n'), 1) << outcome.output;
}

TEST(Examples, SayHowTheyAreCalled) {
  for (const char* call :
       {"example_fine_tune", "example_fine_tune MODEL", "example_fine_tune a b c d e", "example_own_data MODEL",
        "example_ask_pipelines MODEL", "example_ask_from_c fill-mask MODEL"}) {
    const test::CommandOutcome outcome = run(call);
    EXPECT_EQ(outcome.status, 2) << outcome.output;
    EXPECT_TRUE(outcome.output.starts_with("usage: example_")) << outcome.output;
  }
}

// Each block of C++ in these pages stands, word for word, in a file of examples/.
TEST(Examples, AreWhatThePagesShow) {
  const fs::path root(test::source_folder());
  std::string sources;
  for (const auto& entry : fs::directory_iterator(root / "examples"))
    if (entry.path().extension() == ".cpp") sources += read_file(entry.path());
  for (const char* name : {"README.md", "docs/guide/cpp.md", "docs/comparison.md"}) {
    const std::string page = read_file(root / name);
    size_t blocks = 0;
    for (size_t begin = page.find("```cpp\n"); begin != page.npos; begin = page.find("```cpp\n", begin)) {
      begin += 7;
      const size_t end = page.find("```", begin);
      const std::string block = page.substr(begin, end - begin);
      EXPECT_NE(sources.find(block), std::string::npos) << name << ":\n" << block;
      ++blocks;
      begin = end;
    }
    EXPECT_GT(blocks, 0u) << name;
  }
}

// The commands of the README's second block of shell, as they stand there, on a tiny model called MODEL.
TEST(Examples, ReadmeCommandsRun) {
  const std::string readme = read_file(fs::path(test::source_folder()) / "README.md");
  const size_t begin = readme.find("```sh\ntransom train");
  ASSERT_NE(begin, readme.npos);
  const std::string block = readme.substr(begin + 6, readme.find("```", begin + 6) - begin - 6);
  const TinyModel model;
  for (const char* name : {"train.csv", "dev.csv"})
    model.write(name, "text,label\nann went to rome,trip\nthe tower is old,fact\nann went,trip\nrome is old,fact\n");
  model.write("commands.sh", "set -e\ncd " + model.path().string() + "\nln -s . MODEL\nPATH=" + test::build_folder() +
                                 "/bin:$PATH\n" + block);
  const test::CommandOutcome outcome = test::run_command("sh " + (model.path() / "commands.sh").string());
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  EXPECT_NE(outcome.output.find("eval_accuracy"), std::string::npos) << outcome.output;
}

}  // namespace
}  // namespace transom
