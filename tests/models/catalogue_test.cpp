// SPDX-License-Identifier: Apache-2.0
#include "models/loading/catalogue.h"

#include <gtest/gtest.h>

#include <set>

#include "base/files/files.h"
#include "models/family.h"
#include "support/folders.h"

namespace transom {
namespace {

TEST(Catalogue, HasEveryArchitectureOfTheRegistry) {
  size_t count = 0;
  for (const Family& family : families()) count += family.architectures.size();
  EXPECT_EQ(catalogue().size(), count);
}

TEST(Catalogue, CasesBelongToArchitectures) {
  std::set<std::string_view> known;
  const std::vector<CatalogueRow> rows = catalogue();
  for (const CatalogueRow& row : rows) known.insert(row.architecture);
  EXPECT_FALSE(recorded_cases().empty());
  for (const RecordedCase& recorded : recorded_cases())
    EXPECT_TRUE(known.contains(recorded.architecture)) << recorded.name;
}

// scripts/write-models-page writes both.
TEST(Catalogue, ThePageIsUpToDate) {
  EXPECT_EQ(read_file(fs::path(test::source_folder()) / "docs" / "models" / "README.md"), catalogue_page());
  EXPECT_NE(read_file(fs::path(test::source_folder()) / "README.md").find(catalogue_size()), std::string::npos)
      << catalogue_size();
}

}  // namespace
}  // namespace transom
