// SPDX-License-Identifier: Apache-2.0
// The manifests of Kubernetes hold together, and what checks them notices where they do not.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "support/command.h"
#include "support/folders.h"
#include "support/temporary_folder.h"

namespace transom {
namespace {

namespace fs = std::filesystem;

test::CommandOutcome check_manifest(const std::string& arguments) {
  return test::run_command(test::source_folder() + "/scripts/check-manifests " + arguments);
}

TEST(Manifests, HoldTogether) {
  const std::string program = test::build_folder() + "/bin/transom";
  const auto outcome = check_manifest(fs::exists(program) ? "--program " + program : "");
  if (outcome.output.find("skipped") != std::string::npos) GTEST_SKIP() << outcome.output;
  EXPECT_EQ(outcome.status, 0) << outcome.output;
}

TEST(Manifests, FaultsAreNamed) {
  const test::TemporaryFolder folder;
  const fs::path to = folder.path() / "deploy" / "kubernetes";
  const auto with = [&](const std::string& file, const std::string& from, const std::string& other) {
    fs::remove_all(to);
    fs::create_directories(to);
    fs::copy(test::source_folder() + "/deploy/kubernetes", to);
    std::ifstream in(to / file);
    std::string text{std::istreambuf_iterator<char>(in), {}};
    const size_t at = text.find(from);
    EXPECT_NE(at, text.npos) << file << " holds no " << from;
    text.replace(at, from.size(), other);
    std::ofstream(to / file) << text;
    return check_manifest(folder.path().string());
  };
  const auto none = with("serving.yaml", "replicas: 1", "replicas: 2");
  if (none.output.find("skipped") != std::string::npos) GTEST_SKIP() << none.output;
  EXPECT_EQ(none.status, 0) << none.output;
  struct Fault {
    const char *file, *from, *to, *said;
  };
  for (const Fault& fault :
       {Fault{"serving.yaml", "runAsNonRoot: true", "runAsNonRoot: false", "runs as root"},
        Fault{"serving.yaml", "claimName: transom-models", "claimName: models", "no manifest makes"},
        Fault{"training.yaml", "{name: cache, mountPath: /cache}", "{name: cash, mountPath: /cache}",
              "no volume of the pod"},
        Fault{"autoscaling.yaml", "name: transom}", "name: other}", "no manifest makes"},
        Fault{"autoscaling.yaml", "{as: transom_requests_waiting}", "{as: waiting}", "no rule of the adapter"},
        Fault{"training-trainjob.yaml", "kind: TrainingRuntime, name: transom", "kind: TrainingRuntime, name: torch",
              "no manifest makes"},
        Fault{"training-mpijob.yaml", "kind: MPIJob", "kind: [", "while parsing"}}) {
    const auto outcome = with(fault.file, fault.from, fault.to);
    EXPECT_EQ(outcome.status, 1) << fault.said;
    EXPECT_NE(outcome.output.find(fault.said), std::string::npos) << outcome.output;
  }
}

}  // namespace
}  // namespace transom
