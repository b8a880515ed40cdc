// SPDX-License-Identifier: Apache-2.0
// transom explain from outside.
#include <gtest/gtest.h>

#include "apps/cli/program.h"
#include "base/files/files.h"
#include "base/json/json.h"
#include "support/tiny_classifier.h"

namespace transom {
namespace {

test::CommandOutcome explain(const test::TinyClassifier& model, const std::string& more) {
  return run("explain " + model.path() + " --batch_size 1 --sequence_length 8 --runs 1 " + more);
}

TEST(ExplainCommand, WritesTablesJsonAndAPage) {
  const test::TinyClassifier model;
  const test::CommandOutcome outcome =
      explain(model, "--rows 3 --json " + model.file("e.json") + " --html " + model.file("e.html"));
  ASSERT_EQ(outcome.status, 0) << outcome.output;
  EXPECT_NE(outcome.output.find("PASS"), std::string::npos);
  EXPECT_EQ(read_json(model.file("e.json"))["version"], 1);
  EXPECT_TRUE(read_file(model.file("e.html")).starts_with("<!DOCTYPE html>"));
}

TEST(ExplainCommand, PrintsTheGraphAfterAPass) {
  const test::TinyClassifier model;
  const test::CommandOutcome outcome = explain(model, "--pass simplify");
  ASSERT_EQ(outcome.status, 0) << outcome.output;
  EXPECT_TRUE(outcome.output.starts_with("graph(")) << outcome.output.substr(0, 80);
}

TEST(ExplainCommand, RefusesUnknownPassesByName) {
  const test::TinyClassifier model;
  const test::CommandOutcome outcome = explain(model, "--pass simplfy");
  expect_one_line(outcome, 2, "did you mean 'simplify'");
}

}  // namespace
}  // namespace transom
