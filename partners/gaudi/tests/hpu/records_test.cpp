// SPDX-License-Identifier: Apache-2.0
// Every operation's samples on the device, against the float64 records: the first level of the certificate.
#include <gtest/gtest.h>

#include <string>

#include "hpu_device.h"
#include "testing/program.h"
#include "testing/temporary_folder.h"

namespace transom {
namespace {

TEST(HpuRecords, GiveWhatTheReferenceGives) {
  const test::TemporaryFolder folder;
  if (test::Program({"devices"}, folder).wait().output.find("Intel Gaudi") == std::string::npos)
    GTEST_SKIP() << "no Gaudi here";
  const std::string certificate = (folder / "certificate").string();
  const test::Outcome outcome =
      test::Program({"certify", "--device", "hpu", "--level", "operations", "--seed", "7", "--output", certificate},
                    folder)
          .wait();
  size_t passed = 0;
  const test::Json report = test::read_json(folder / "certificate" / "certificate.json");
  for (const test::Json& row : report.at("rows")) {
    EXPECT_NE(row.at("verdict"), "fail") << row.dump();
    passed += row.at("verdict") == "pass";
  }
  EXPECT_GT(passed, 100u) << outcome.output << outcome.error;
}

}  // namespace
}  // namespace transom
