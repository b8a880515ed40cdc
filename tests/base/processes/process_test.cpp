// SPDX-License-Identifier: Apache-2.0
#include "base/processes/process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>

#include "base/processes/run_process.h"
#include "support/message.h"

namespace transom {
namespace {

using std::chrono::milliseconds, std::chrono::seconds, std::chrono::steady_clock;

ProcessOutcome shell(const std::string& text, std::string_view input = "", const ProcessLimits& limits = {}) {
  return run_process("here", {"sh", "-c", text}, input, limits);
}

TEST(Processes, WordsArriveAsTheyAre) {
  const ProcessOutcome outcome =
      run_process("here", {"printf", "%s|", "a b", "", "$HOME", "'\"", "two\nlines", "*"}, "");
  EXPECT_EQ(outcome.status, 0);
  EXPECT_EQ(outcome.output, "a b||$HOME|'\"|two\nlines|*|");
}

TEST(Processes, SayWhatCannotBeStarted) {
  EXPECT_EQ(test::message_of([] { run_process("rewards", {"no-such-program"}, "x"); }),
            "rewards: 'no-such-program' cannot be started: No such file or directory");
  EXPECT_EQ(test::message_of([] { run_process("rewards", {"/etc/passwd"}, ""); }),
            "rewards: '/etc/passwd' cannot be started: Permission denied");
  EXPECT_EQ(find_in_path("no-such-program"), "");
  EXPECT_EQ(find_in_path("/"), "");
  EXPECT_NE(find_in_path("sh"), "");
}

TEST(Processes, EndWithTheirStatus) {
  EXPECT_EQ(shell("exit 3").status, 3);
  EXPECT_EQ(shell("kill -KILL $$").status, -SIGKILL);
  EXPECT_EQ(text_of_status(3), "status 3");
  EXPECT_EQ(text_of_status(-9), "signal 9");
}

TEST(Processes, AreKilledWithAllTheyStartedAfterTheirTime) {
  const auto began = steady_clock::now();
  EXPECT_EQ(test::message_of([] { shell("sleep 60 & sleep 60", "", {.longest = milliseconds(200)}); }),
            "here: 'sh' has not ended after 0.2 s");
  // One that has closed its streams says nothing by them.
  EXPECT_EQ(test::message_of([] { shell("exec >&- 2>&-; sleep 60", "", {.longest = milliseconds(200)}); }),
            "here: 'sh' has not ended after 0.2 s");
  EXPECT_EQ(test::message_of([] { shell("yes >&2", "", {.longest = milliseconds(200)}); }),
            "here: 'sh' has not ended after 0.2 s");
  EXPECT_LT(steady_clock::now() - began, seconds(20));
}

// What a program leaves running keeps the pipes open: nobody waits for it.
TEST(Processes, DoNotWaitForWhatIsLeftBehind) {
  const auto began = steady_clock::now();
  EXPECT_EQ(shell("trap '' TERM; (sleep 20) & echo done").output, "done\n");
  EXPECT_LT(steady_clock::now() - began, seconds(10));
}

// More than a pipe holds, both ways at once.
TEST(Processes, TakeLargeInputAndOutput) {
  std::string text;
  for (int i = 0; text.size() < (4 << 20); ++i) text += std::to_string(i) + "\n";
  const ProcessOutcome outcome = shell("tee /dev/stderr", text, {.most_errors = 10});
  EXPECT_EQ(outcome.status, 0);
  EXPECT_TRUE(outcome.output == text) << outcome.output.size();
  EXPECT_EQ(outcome.errors, text.substr(0, 10));
  EXPECT_EQ(test::message_of([] { shell("yes", "", {.most_output = 100000}); }),
            "here: 'sh' wrote more than the 100000 bytes that are taken");
}

// Neither waits for ever nor gets SIGPIPE.
TEST(Processes, MayLeaveTheirInput) {
  const std::string text(4 << 20, 'x');
  EXPECT_EQ(shell("exec <&-; sleep 0.1; echo out; echo err >&2; exit 5", text).output, "out\n");
  EXPECT_EQ(shell("exit 5", text).status, 5);
  EXPECT_EQ(shell("cat").output, "") << "nothing is there to read";
}

TEST(Processes, HaveTheUsualSignals) {
  const auto before = ::signal(SIGPIPE, SIG_IGN);
  sigset_t all, old;
  sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &old);
  const ProcessOutcome outcome = shell("kill -TERM $$; sleep 5");
  const ProcessOutcome piped = shell("yes | head -n 1 > /dev/null; echo ended");
  ::pthread_sigmask(SIG_SETMASK, &old, nullptr);
  ::signal(SIGPIPE, before);
  EXPECT_EQ(outcome.status, -SIGTERM);
  EXPECT_EQ(piped.output, "ended\n");
  EXPECT_EQ(piped.errors, "") << "yes was not ended by SIGPIPE";
}

TEST(Processes, SeeTheirVariables) {
  ::setenv("TRANSOM_TEST_GONE", "1", 1);
  Process process({.label = "here",
                   .words = {"sh", "-c", "echo \"$TRANSOM_TEST_NEW${TRANSOM_TEST_GONE-none}\""},
                   .variables = {{"TRANSOM_TEST_NEW", "a b"}, {"TRANSOM_TEST_GONE", ""}}});
  ::unsetenv("TRANSOM_TEST_GONE");
  ASSERT_TRUE(process.wait_until(steady_clock::now() + seconds(10)));
  char text[32] = {};
  EXPECT_EQ(::read(process.output(), text, sizeof text - 1), 8);
  EXPECT_STREQ(text, "a bnone\n");
}

TEST(Processes, SeeTheDescriptorThatIsKept) {
  PipeEnds kept = make_pipe(), other = make_pipe();
  ASSERT_GE(kept.write, 3);
  const std::string word = std::to_string(kept.write), hidden = std::to_string(other.write);
  Process process({.label = "here",
                   .words = {"sh", "-c", "[ ! -e /proc/self/fd/" + hidden + " ] && echo there > /proc/self/fd/" + word},
                   .variables = {},
                   .kept = kept.write});
  EXPECT_TRUE(process.wait_until(steady_clock::now() + seconds(10)));
  EXPECT_EQ(process.status(), 0);
  char text[32] = {};
  EXPECT_EQ(::read(kept.read, text, sizeof text - 1), 6);
  for (const int file : {kept.read, kept.write, other.read, other.write}) ::close(file);
}

// As a service is started: without a standard input. Pipes take the lowest numbers.
TEST(Processes, StartWhereOurOwnStreamsAreClosed) {
  const int input = ::dup(STDIN_FILENO), output = ::dup(STDOUT_FILENO), error = ::dup(STDERR_FILENO);
  for (const int file : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) ::close(file);
  ProcessOutcome outcome, empty;
  std::string failure;
  try {
    outcome = shell("cat; echo err >&2", "in\n");
    empty = shell("cat; echo err >&2");
  } catch (const std::exception& problem) {
    failure = problem.what();
  }
  ::dup2(input, STDIN_FILENO);
  ::dup2(output, STDOUT_FILENO);
  ::dup2(error, STDERR_FILENO);
  for (const int file : {input, output, error}) ::close(file);
  EXPECT_EQ(failure, "");
  EXPECT_EQ(outcome.output, "in\n");
  EXPECT_EQ(outcome.errors, "err\n");
  EXPECT_EQ(empty.output, "");
  EXPECT_EQ(empty.errors, "err\n");
}

TEST(Processes, SayWhereTheEndIsNotKnown) {
  const auto before = ::signal(SIGCHLD, SIG_IGN);
  const std::string message = test::message_of([] { shell("exit 3"); });
  ::signal(SIGCHLD, before);
  EXPECT_NE(message.find("this process ignores SIGCHLD"), message.npos) << message;
}

TEST(Processes, KnowTheirOwnFile) { EXPECT_NE(own_program().find("base_tests"), std::string::npos) << own_program(); }

}  // namespace
}  // namespace transom
