// SPDX-License-Identifier: Apache-2.0
#include "runtime/distributed/spawn/supervisor.h"

#include <gtest/gtest.h>
#include <signal.h>

#include "support/message.h"

namespace transom {
namespace {

ChildOptions shell(const std::string& label, const std::string& text) {
  return {label, {"sh", "-c", text}, {{"WHO", label}, {"HOME", ""}}};
}

struct Lines {
  std::vector<std::string> output, error;
  TakeLine taker() {
    return [this](const ChildOptions& child, bool is_error, std::string_view line) {
      (is_error ? error : output).push_back(child.label + ": " + std::string(line));
    };
  }
};

TEST(Supervisor, GivesAllLinesOfAllProcesses) {
  Lines lines;
  const Supervised end =
      supervise({shell("a", "echo $WHO ${HOME-none}; printf 'half\\rdone'; printf 'x%.0s' $(seq 100000); exit 0"),
                 shell("b", "echo oh >&2; echo; cat")},
                {.take = lines.taker()});
  EXPECT_EQ(end.status, 0);
  ASSERT_GE(lines.output.size(), 4u);
  EXPECT_NE(std::find(lines.output.begin(), lines.output.end(), "a: a none"), lines.output.end());
  EXPECT_NE(std::find(lines.output.begin(), lines.output.end(), "a: half"), lines.output.end());
  EXPECT_NE(std::find(lines.output.begin(), lines.output.end(), "b: "), lines.output.end());
  size_t long_one = 0;
  for (const std::string& line : lines.output)
    long_one += static_cast<size_t>(std::count(line.begin(), line.end(), 'x'));
  EXPECT_EQ(long_one, 100000u);
  EXPECT_EQ(lines.error, std::vector<std::string>{"b: oh"});
}

TEST(Supervisor, EndsTheOthersWhereOneFails) {
  Lines lines;
  const auto began = std::chrono::steady_clock::now();
  const std::vector<ChildOptions> children{shell("a", "trap 'echo asked; exit 0' TERM; sleep 60 & wait"),
                                           shell("b", "trap '' TERM; sleep 60"),
                                           shell("c", "echo 'transom: error: no disk' >&2; echo later >&2; exit 3")};
  const Supervised end = supervise(children, {.take = lines.taker(),
                                              .until_terminated = std::chrono::milliseconds(200),
                                              .until_killed = std::chrono::milliseconds(800)});
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(20));
  EXPECT_EQ(end.failed, 2u);
  EXPECT_EQ(end.status, 3);
  EXPECT_EQ(text_of_failure(end, children), "c ended with status 3: no disk");
  EXPECT_EQ(lines.output, std::vector<std::string>{"a: asked"});
}

// The one that was killed is the cause, whoever is seen to end first.
TEST(Supervisor, KnowsTheCauseFromWhatFollows) {
  Lines lines;
  const std::vector<ChildOptions> children{shell("a", "echo 'transom: error: b is lost' >&2; exit 1"),
                                           shell("b", "sleep 0.3; kill -9 $$")};
  const Supervised end = supervise(children, {.take = lines.taker()});
  EXPECT_EQ(text_of_failure(end, children), "b was ended by signal 9 (Killed)");
}

TEST(Supervisor, PassesSignalsOn) {
  Lines lines;
  int asked = 0;
  const std::vector<ChildOptions> children{shell("a", "trap 'exit 130' INT; echo here; sleep 60 & wait")};
  const Supervised end = supervise(children, {.take = lines.taker(), .interrupt = [&] {
                                                return !lines.output.empty() && ++asked == 1 ? SIGINT : 0;
                                              }});
  EXPECT_EQ(end.signal, SIGINT);
  EXPECT_EQ(end.status, 130);
}

TEST(Supervisor, NamesAProgramThatIsNotThere) {
  const std::string message = test::message_of([] {
    supervise({shell("a", "sleep 60"), {"b", {"no-such-program"}, {}}}, {});
  });
  EXPECT_NE(message.find("b: 'no-such-program' cannot be started: No such file"), message.npos) << message;
}

}  // namespace
}  // namespace transom
