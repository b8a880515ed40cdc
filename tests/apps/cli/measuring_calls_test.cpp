// SPDX-License-Identifier: Apache-2.0
// explain, bench, certify and devices with calls that cannot be obeyed: one line that helps, the exit status of other
// commands, and no file left behind.
#include <gtest/gtest.h>

#include "apps/cli/program.h"
#include "base/files/files.h"
#include "base/json/json.h"
#include "support/tiny_classifier.h"

namespace transom {
namespace {

constexpr const char* kExplain = " --batch_size 1 --sequence_length 8 --runs 1 ";
constexpr const char* kBench = " --duration 0 --iterations 1 --warmup_runs 0 --batch_size 1 --sequence_length 8 ";

class MeasuringCalls : public testing::Test {
 protected:
  void refuses(const std::string& call, int status, const std::string& part, const std::string& before = "") {
    SCOPED_TRACE(call);
    expect_one_line(run(call, before), status, part);
    for (const auto& entry : fs::recursive_directory_iterator(folder_.path()))
      EXPECT_TRUE(entry.is_directory() || entry.path().extension() == ".txt") << entry.path() << " is left";
  }
  void SetUp() override {
    folder_.write("junk.txt", "junk");
    fs::create_directory(folder_ / "empty");
  }
  std::string place(const std::string& name) const { return (folder_ / name).string(); }

  test::TinyClassifier model_;
  test::TemporaryFolder folder_;
  const std::string explain_ = "explain " + model_.path() + kExplain, bench_ = "bench " + model_.path() + kBench;
};

TEST_F(MeasuringCalls, NumbersAreWhatTheySay) {
  for (const std::string& call : {explain_, bench_}) {
    refuses(call + "--seed 99999999999999999999", 2, "--seed: expected a whole number that 64 bits hold");
    refuses(call + "--batch_size 1.5", 2, "--batch_size: expected a whole number, found '1.5'");
    refuses(call + "--batch_size 0x10", 2, "--batch_size: expected a whole number, found '0x10'");
    refuses(call + "--batch_size ''", 2, "--batch_size: expected a whole number, found ''");
    refuses(call + "--batch_size -1", 2, "--batch_size: expected at least 1, found -1");
    refuses(call + "--sequence_length 9223372036854775807", 2, "no machine holds");
  }
  refuses(bench_ + "--duration nan", 2, "--duration: expected a number");
  refuses(bench_ + "--duration 1e999", 2, "--duration: expected a number that 64 bits hold");
  refuses(bench_ + "--threshold soon", 2, "--threshold: expected a number, found 'soon'");
  refuses("certify --level behaviour --seed -1", 2, "--seed: expected at least 0, found -1");
}

TEST_F(MeasuringCalls, TheLastOfTwoHolds) {
  refuses(bench_ + "--iterations 2 --iterations 0", 2, "--iterations: expected at least 1, found 0");
  EXPECT_EQ(run(bench_ + "--iterations 0 --iterations 1").status, 0);
}

TEST_F(MeasuringCalls, AModelMayBeNamedByAFlag) {
  EXPECT_EQ(run("explain --model " + model_.path() + kExplain).status, 0);
  EXPECT_EQ(run("bench --model=" + model_.path() + kBench).status, 0);
  refuses("explain --modle x", 2, "did you mean '--mode");
}

TEST_F(MeasuringCalls, ModelsThatAreNone) {
  for (const char* command : {"explain ", "bench ", "certify --level models --model "}) {
    refuses(command + place("empty"), 1, place("empty"));
    refuses(command + place("junk.txt"), 1, "found a file");
  }
  refuses("bench", 2, "MODEL is missing");
}

TEST_F(MeasuringCalls, FilesThatCannotBeWritten) {
  for (const char* flag : {"--json ", "--html "}) {
    refuses(explain_ + flag + place("empty"), 1, "it is a directory");
    refuses(explain_ + flag + place("no/x"), 1, "there is no directory");
    refuses(explain_ + flag + "/dev/full", 1, "/dev/full: cannot be written");
  }
  // What is wrong with one file is said before another is written.
  refuses(explain_ + "--html " + place("a.html") + " --json " + place("empty"), 1, "it is a directory");
  refuses(explain_ + "--html " + place("a") + " --json " + place("a"), 2, "--json, --html: expected two files");
  refuses(explain_ + "--json " + place("a.json") + " --pass nonsense", 2, "--pass: there is no pass 'nonsense'");
  for (const char* flag : {"--json ", "--profile "}) refuses(bench_ + flag + place("empty"), 1, "it is a directory");
  refuses(bench_ + "--json " + place("a") + " --profile " + place("a"), 2, "--json, --profile: expected two files");
  refuses("certify --level behaviour --output " + place("junk.txt/c"), 1, "junk.txt is a file");
  refuses("certify --level behaviour --output /dev/full", 1, "/dev/full is a file");
  for (const std::string& call : {std::string("devices"), std::string("devices --json"), explain_ + "--pass trace"})
    refuses(call + " 3>&1 1>/dev/full 2>&3)", 1, "standard output: cannot be written", "(");
}

TEST_F(MeasuringCalls, DevicesWarnsOnceOfAFolderThatIsNotThere) {
  const test::CommandOutcome outcome =
      run("devices 2>&1 1>/dev/null)", "(TRANSOM_PLUGIN_PATH=" + place("junk.txt") + " ");
  expect_one_line(outcome, 0, "TRANSOM_PLUGIN_PATH: there is no directory " + place("junk.txt"));
  refuses("devices everything", 2, "not expected: 'everything'");
  refuses("devices --json=maybe", 2, "--json");
}

TEST_F(MeasuringCalls, FilesThatCannotBeRead) {
  for (const char* file : {"empty", "junk.txt", "nothing"}) {
    refuses(bench_ + "--compare " + place(file), 1, place(file));
    refuses("certify --verify " + place(file), 1, place(file));
  }
  const std::string lines = " --task feature-extraction --inputs ";
  for (const std::string& call : {explain_, bench_}) {
    refuses(call + lines + place("empty"), 1, place("empty"));
    refuses(call + lines + "/dev/null", 1, "/dev/null: expected a regular file");
    refuses(call + "--inputs " + place("nothing.safetensors"), 1, "nothing.safetensors");
  }
  refuses(bench_ + "--scenario training --quantization int8", 2, "--quantization: is for inference");
}

}  // namespace
}  // namespace transom
