// SPDX-License-Identifier: Apache-2.0
// The page in a browser, where one is installed: what its script makes of a state.
#include <gtest/gtest.h>

#include <fstream>

#include "apps/dashboard/web/dashboard_server.h"
#include "support/command.h"
#include "support/temporary_folder.h"

namespace transom::dashboard {
namespace {

size_t count(const std::string& text, const std::string& part) {
  size_t found = 0;
  for (size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++found;
  return found;
}

TEST(DashboardPage, DrawsTheCurvesOfARun) {
  if (test::run_command("command -v chromium").status != 0) GTEST_SKIP() << "there is no chromium";
  const auto monitor = std::make_shared<RunMonitor>();
  monitor->update([](RunStatus& status) { status.model = "<b>model</b>"; });
  monitor->begin(0, 200);
  for (int step = 1; step <= 50; ++step) {
    monitor->set_step(step, step / 100.0);
    monitor->add("loss", step, 2.0 / step);
    monitor->add("learning_rate", step, 1e-5 * step);
  }
  monitor->add("eval_accuracy", 50, 0.75);
  monitor->set_kernels({.first_step = 3, .steps = 5, .seconds = 0.5, .rows = {{"linear", "gemm", "f32", 10, 0.25}}});
  monitor->say("the loss is <i>falling</i>", true);
  const test::TemporaryFolder folder;
  DashboardServer server({.output_dir = (folder.path() / "out").string()}, monitor, std::make_shared<RunControl>());
  const auto outcome = test::run_command("timeout 60 chromium --headless --no-sandbox --disable-gpu --user-data-dir=" +
                                         (folder.path() / "profile").string() + " --dump-dom '" + server.address() +
                                         "?still' 2>/dev/null");
  if (outcome.status != 0 || outcome.output.find("<html") == std::string::npos)
    GTEST_SKIP() << "chromium does not run here";
  const std::string& page = outcome.output;
  EXPECT_EQ(count(page, "<figure"), 3u);
  EXPECT_EQ(count(page, "<path "), 3u);
  EXPECT_EQ(count(page, "<circle "), 1u);
  EXPECT_LT(page.find(">loss<"), page.find(">eval_accuracy<"));
  EXPECT_LT(page.find(">eval_accuracy<"), page.find(">learning_rate<"));
  for (const char* part : {"step 50 of 200", ">training<", ">gemm<", "100.0 %", "&lt;b&gt;model&lt;/b&gt;",
                           "the loss is &lt;i&gt;falling&lt;/i&gt;"})
    EXPECT_NE(page.find(part), page.npos) << part;
  EXPECT_EQ(page.find("<i>falling"), page.npos);
}

}  // namespace
}  // namespace transom::dashboard
