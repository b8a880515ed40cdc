// SPDX-License-Identifier: Apache-2.0
#include "runtime/distributed/flight_files.h"

#include <gtest/gtest.h>

#include "support/message.h"
#include "support/temporary_folder.h"

namespace transom {
namespace {

FlightRecord flight(const char* group, uint64_t number, double started, double ended, uint64_t bytes = 8) {
  return {group, number, "all_reduce", DType::kFloat32, bytes, started, ended};
}

class FlightFiles : public testing::Test {
 protected:
  void write(int64_t rank, std::vector<FlightRecord> records, int64_t ranks = 3) const {
    write_flight_file(
        folder_,
        {.rank = rank, .ranks = ranks, .host = "h", .reason = "r", .written = 9, .records = std::move(records)});
  }
  test::TemporaryFolder folder_;
};

TEST_F(FlightFiles, AreReadBack) {
  write(1, {flight("0-2", 4, 1.25, 1.5), flight("0>1", 1, 2, 0, 0)});
  const FlightFile file = read_flight_file(flight_file(folder_, 1));
  EXPECT_EQ(file.rank, 1);
  EXPECT_EQ(file.ranks, 3);
  EXPECT_EQ(file.host, "h");
  ASSERT_EQ(file.records.size(), 2u);
  EXPECT_EQ(file.records[0].group, "0-2");
  EXPECT_EQ(file.records[0].number, 4u);
  EXPECT_EQ(file.records[0].started, 1.25);
  EXPECT_EQ(file.records[0].what(), "all_reduce of 8 bytes of f32");
  EXPECT_EQ(file.records[1].ended, 0);
}

// What a ring has forgotten is not missing.
TEST_F(FlightFiles, TellWhoCameAndWhoDidNot) {
  write(0, {flight("0-2", 1, 1.0, 1.2), flight("0-2", 2, 2.0, 2.2), flight("0-2", 3, 3.0, 0)});
  write(1, {flight("0-2", 2, 2.1, 2.2)});
  write(2, {flight("0-2", 2, 1.9, 2.2), flight("0-2", 3, 3.1, 0)});
  const FlightReport report = merge_flight_files(folder_);
  ASSERT_EQ(report.collectives.size(), 3u);
  EXPECT_EQ(report.collectives[0].silent, (std::vector<int64_t>{1, 2}));
  EXPECT_TRUE(report.collectives[0].missing.empty());
  EXPECT_TRUE(report.collectives[1].ended());
  EXPECT_EQ(report.collectives[1].arrivals[0].rank, 2);
  EXPECT_EQ(report.collectives[2].missing, (std::vector<int64_t>{1}));
  EXPECT_EQ(
      report.findings,
      (std::vector<std::string>{
          "collective 3 of ranks 0-2 (all_reduce of 8 bytes of f32): ranks 0,2 waited in it; rank 1 did not come"}));
}

TEST_F(FlightFiles, ShowWhereProgramsPart) {
  write(0, {flight("0-1", 1, 1, 2)}, 2);
  write(1, {flight("0-1", 1, 1.1, 2, 16)}, 2);
  const FlightReport report = merge_flight_files(folder_);
  ASSERT_EQ(report.findings.size(), 1u);
  EXPECT_NE(report.findings[0].find("rank 1 came with all_reduce of 16 bytes"), std::string::npos)
      << report.findings[0];
}

TEST_F(FlightFiles, RefuseWhatIsNone) {
  EXPECT_NE(test::message_of([&] { merge_flight_files(folder_); }).find("expected flight_0.json"), std::string::npos);
  const auto message = [&](const std::string& text) {
    folder_.write("flight_0.json", text);
    return test::message_of([&] { merge_flight_files(folder_); });
  };
  for (const char* text :
       {"", "[]", "{}", R"({"rank": -1, "ranks": 2})", R"({"rank": 2, "ranks": 2})",
        R"({"rank": 0, "ranks": 99999999})", R"({"rank": 0, "ranks": 1, "host": 3})",
        R"({"rank": 0, "ranks": 1, "host": "", "reason": "", "written": 0, "records": [3]})",
        R"({"rank": 0, "ranks": 1, "host": "", "reason": "", "written": 0, "records": [{"group": "0", "number": 1,
            "operation": "x", "dtype": "f99", "bytes": 0, "started": 0, "ended": 0}]})"})
    EXPECT_NE(message(text), "") << text;
  write(0, {}, 2);
  write(1, {}, 3);
  EXPECT_NE(test::message_of([&] { merge_flight_files(folder_); }).find("ranks: expected 2"), std::string::npos);
}

}  // namespace
}  // namespace transom
