// SPDX-License-Identifier: Apache-2.0
// The tree keeps its own rules, and scripts/check-layers notices trees that do not.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "support/command.h"
#include "support/folders.h"
#include "support/temporary_folder.h"

namespace {

constexpr const char* kLicence = "// SPDX-License-Identifier: Apache-2.0\n";

transom::test::CommandOutcome check(const std::filesystem::path& root) {
  return transom::test::run_command(transom::test::source_folder() + "/scripts/check-layers '" + root.string() + "'");
}

class CheckLayers : public testing::Test {
 protected:
  void write(const std::string& path, const std::string& text) const {
    std::filesystem::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }
  // The one finding for a file of this text.
  std::string finding(const std::string& path, const std::string& text) const {
    write(path, text);
    const auto outcome = check(root_);
    std::filesystem::remove(root_ / path);
    EXPECT_EQ(outcome.status, outcome.output.empty() ? 0 : 1) << outcome.output;
    return outcome.output;
  }

  transom::test::TemporaryFolder root_;
};

TEST(Tree, KeepsItsRules) {
  const auto outcome = check(transom::test::source_folder());
  EXPECT_EQ(outcome.status, 0) << outcome.output;
}

TEST_F(CheckLayers, AcceptsIncludesOfLowerLayers) {
  const std::string licence = kLicence;
  EXPECT_EQ(finding("src/graph/ops/a.cpp",
                    licence + "#include \"graph/ir/node.h\"\n#include \"transom/ops.h\"\n#include <vector>\n"),
            "");
  EXPECT_EQ(finding("src/runtime/programs/a.cpp",
                    licence + "#include \"graph/passes/passes.h\"\n#include \"runtime/device/device.h\"\n"),
            "");
  EXPECT_EQ(
      finding("backends/reference/a.cpp", licence + "#include \"graph/ops/rules.h\"\n#include \"reference/b.h\"\n"),
      "");
  EXPECT_EQ(finding("backends/cpu/a.cpp", licence + "#include \"transom/device_plugin.h\"\n#include \"cpu/b.h\"\n"),
            "");
}

TEST_F(CheckLayers, RefusesStateOfAThreadThatHasNoReason) {
  const std::string licence = kLicence, state = "thread_local bool on = false;\n";
  EXPECT_NE(finding("src/models/nn/a.cpp", licence + state).find("src/models/nn/a.cpp:2: a thread_local"),
            std::string::npos);
  EXPECT_NE(finding("include/transom/ops.h", licence + "inline " + state).find(":2: a thread_local"),
            std::string::npos);
  EXPECT_EQ(finding("src/models/nn/a.cpp", licence + "// no thread_local here\n"), "");
  EXPECT_EQ(finding("src/runtime/tensor/mode.cpp", licence + state), "");
  EXPECT_NE(finding("src/runtime/tensor/mode.cpp", licence + state + state).find("mode.cpp:3: a thread_local"),
            std::string::npos);
}

TEST_F(CheckLayers, RefusesIncludesOfHigherLayers) {
  const std::string licence = kLicence;
  EXPECT_EQ(finding("src/graph/ir/a.cpp", licence + "#include \"graph/ops/rules.h\"\n"),
            "src/graph/ir/a.cpp:2: src/graph/ir may not include graph/ops/rules.h (of graph/ops)\n");
  EXPECT_NE(finding("src/base/a.cpp", licence + "#include \"transom/tensor.h\"\n"), "");
  EXPECT_NE(finding("src/inputs/data/a.cpp", licence + "#include \"transom/ops.h\"\n"), "");
  EXPECT_NE(finding("src/new/a.cpp", licence), "");
  EXPECT_NE(finding("include/transom/dtype.h", licence + "#include \"transom/tensor.h\"\n"), "");
  EXPECT_NE(finding("include/transom/tensor.h", licence + "#include \"graph/ir/node.h\"\n"), "");
}

TEST_F(CheckLayers, KeepsDevicesToThePluginHeader) {
  const std::string licence = kLicence;
  write("backends/null/plugin.h", licence);
  EXPECT_NE(finding("backends/cpu/a.cpp", licence + "#include \"graph/ir/node.h\"\n"), "");
  EXPECT_NE(finding("backends/cpu/a.cpp", licence + "#include \"transom/tensor.h\"\n"), "");
  EXPECT_NE(finding("backends/cpu/a.cpp", licence + "#include \"null/plugin.h\"\n"), "");
  write("emulators/opencl/graph.h", licence);
  EXPECT_NE(finding("backends/cpu/a.cpp", licence + "#include \"opencl/graph.h\"\n"), "");
  EXPECT_NE(finding("emulators/opencl/a.cpp", licence + "#include \"null/plugin.h\"\n"), "");
  EXPECT_NE(finding("emulators/opencl/a.cpp", licence + "#include \"base/error.h\"\n"), "");
  EXPECT_NE(finding("emulators/opencl/a.cpp", licence + "#include \"transom/device_plugin.h\"\n"), "");
}

TEST_F(CheckLayers, KeepsPartnersApart) {
  const std::string licence = kLicence;
  write("partners/maker/libtransom_thing.json", R"({"device": "thing", "names": ["thingco"]})");
  EXPECT_NE(finding("src/base/a.cpp", licence + "constexpr const char* kName = \"thing\";\n").find("partners/maker"),
            std::string::npos);
  EXPECT_NE(finding("CMakeLists.txt", "# SPDX-License-Identifier: Apache-2.0\n# of ThingCo\n"), "");
  EXPECT_EQ(finding("src/base/a.cpp", licence + "constexpr const char* kName = \"nothing\";\n"), "");
  EXPECT_NE(finding("partners/maker/thing/a.cpp", licence + "#include \"base/error.h\"\n"), "");
  EXPECT_EQ(finding("partners/maker/thing/a.cpp", licence + "#include \"transom/plugin/node.h\"\n"), "");
}

TEST_F(CheckLayers, RefusesLayersOfItsTableThatTheTreeHasNot) {
  const std::filesystem::path source(transom::test::source_folder());
  for (const auto& folder : std::filesystem::recursive_directory_iterator(source / "src"))
    if (folder.is_directory()) std::filesystem::create_directories(root_ / folder.path().lexically_relative(source));
  std::filesystem::create_directories(root_ / "scripts");
  std::filesystem::copy_file(source / "scripts/check-layers", root_ / "scripts/check-layers");
  EXPECT_EQ(check(root_).output, "");
  std::filesystem::remove_all(root_ / "src/models/optim");
  EXPECT_EQ(check(root_).output,
            "scripts/check-layers:1: the table has a layer models/optim, but there is no src/models/optim\n");
}

TEST_F(CheckLayers, RefusesLongFilesTabsPathsAndMissingLicences) {
  const std::string licence = kLicence;
  EXPECT_EQ(finding("tests/a.cpp", "int x;\n"),
            "tests/a.cpp:1: the licence line is missing: SPDX-License-Identifier: Apache-2.0\n");
  EXPECT_EQ(finding("tests/a.cpp", licence + "\tint x;\n"), "tests/a.cpp:2: a tab; indent with spaces\n");
  EXPECT_NE(finding("tests/a.cpp", licence + "auto x = \"" + "/ho" + "me/someone/x\";\n"), "");
  std::string text = licence;
  for (int i = 1; i < 500; ++i) text += '\n';
  EXPECT_EQ(finding("tests/a.cpp", text), "");
  EXPECT_NE(finding("tests/a.cpp", text + '\n'), "");
}

}  // namespace
