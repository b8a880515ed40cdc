// SPDX-License-Identifier: Apache-2.0
// The program with a standard error that nobody reads, as under a parent that has made a pipe and forgotten it
// (tests/wild/serve: 12-log-that-nobody-reads).
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "apps/serve/http_client.h"
#include "support/program.h"
#include "support/temporary_folder.h"
#include "support/word_models.h"

namespace transom {
namespace {

TEST(UnreadLog, HoldsUpNoRequestAndNoEnd) {
  test::TemporaryFolder folder, model;
  test::save_word_model(model, test::kWordGpt2);
  const std::string pipe = (folder / "standard_error").string();
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const int reader = ::open(pipe.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK);
  ASSERT_GE(reader, 0);
  ASSERT_GT(::fcntl(reader, F_SETPIPE_SZ, 4096), 0);  // so that few requests fill it
  test::Program program({"serve", "words=" + model.string(), "--port", "0", "--device", "cpu"}, folder);
  // It is read until the port is known, and then no more.
  std::string said;
  for (int i = 0; i < 600 && said.find("http://127.0.0.1:") == said.npos; ++i) {
    pollfd wait{reader, POLLIN, 0};
    ::poll(&wait, 1, 100);
    char bytes[4096];
    if (const ssize_t count = ::read(reader, bytes, sizeof bytes); count > 0)
      said.append(bytes, static_cast<size_t>(count));
    ASSERT_TRUE(program.is_running()) << said;
  }
  const size_t at = said.find("http://127.0.0.1:");
  ASSERT_NE(at, said.npos) << said;
  const auto port = static_cast<uint16_t>(std::stoi(said.substr(at + 17)));
  {
    test::Client client(port);
    for (int i = 0; i < 100; ++i)
      ASSERT_EQ(client.post("/v1/completions", R"({"prompt":"w1","max_tokens":1})").status, 200) << i;
    EXPECT_EQ(client.get("/health").status, 200);
  }
  pollfd full{reader, POLLOUT, 0};
  EXPECT_EQ(::poll(&full, 1, 0), 0) << "the pipe is full";
  program.signal(SIGTERM);
  const auto begin = std::chrono::steady_clock::now();
  while (program.is_running() && std::chrono::steady_clock::now() - begin < std::chrono::seconds(30))
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_FALSE(program.is_running());
  ::close(reader);
}

}  // namespace
}  // namespace transom
