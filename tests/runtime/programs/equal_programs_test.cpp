// SPDX-License-Identifier: Apache-2.0
#include "runtime/programs/equal_programs.h"

#include <gtest/gtest.h>

#include "support/message.h"
#include "support/test_names.h"
#include "transom/device.h"
#include "transom/ops.h"

namespace transom {
namespace {

// A layer with this number: table[index] * factor.
ProgramPart part_of(const std::string& name, double factor = 2, bool donated = false) {
  const ModuleScope scope("model.layers." + name + ".embed");
  const Tensor table = make_input({DType::kFloat32, {3, 2}}), index = make_input({DType::kInt64, {3}});
  const Tensor row = gather(table, index, 0) * factor;
  return {.graph = isolate(make_graph({row}, {table, index})),
          .donated = {donated, false},
          .restorable = {false, false},
          .frozen = {false, false},
          .updates_from = 2};
}

class EqualProgramsTest : public testing::TestWithParam<const char*> {
 protected:
  std::shared_ptr<Device> device_ = Device::open(GetParam());

  EqualPrograms compile(const std::vector<ProgramPart>& parts) {
    std::vector<const ProgramPart*> pointers;
    for (const ProgramPart& part : parts) pointers.push_back(&part);
    return compile_programs(device_, pointers);
  }
  std::vector<float> run(const Executable& program, const std::vector<float>& table,
                         const std::vector<int64_t>& index) {
    const Buffers made = program.run(
        {device_->upload(std::as_bytes(std::span(table))), device_->upload(std::as_bytes(std::span(index)))});
    std::vector<float> values(6);
    made[0]->read(std::as_writable_bytes(std::span(values)));
    return values;
  }
};

TEST_P(EqualProgramsTest, ShareAnExecutableAndKeepTheirData) {
  const EqualPrograms layers = compile({part_of("0"), part_of("1"), part_of("12")});
  EXPECT_EQ(layers.executables, 1u);
  ASSERT_EQ(layers.programs.size(), 3u);
  for (int turn = 0; turn < 2; ++turn)
    for (size_t i = 0; i < 3; ++i) {
      const std::vector<float> table{static_cast<float>(i) + 1, 2, 3, 4, 5, 6};
      EXPECT_EQ(run(*layers.programs[i], table, {2, 0, static_cast<int64_t>(i)}),
                (std::vector<float>{10, 12, 2 * table[0], 4, 2 * table[2 * i], 2 * table[2 * i + 1]}));
    }
}

TEST_P(EqualProgramsTest, ArePartsOfOneKindAlone) {
  // Another constant, another module, another use of memory.
  EXPECT_EQ(compile({part_of("0"), part_of("1", 3)}).executables, 2u);
  EXPECT_EQ(compile({part_of("0"), part_of("first")}).executables, 2u);
  EXPECT_EQ(compile({part_of("0"), part_of("1", 2, true)}).executables, 2u);
  std::vector<ProgramPart> parts{part_of("0"), part_of("1"), part_of("2"), part_of("3")};
  parts[1].frozen[0] = true;
  parts[2].restorable[0] = true;
  parts[3].updates_from = 0;
  EXPECT_EQ(compile(parts).executables, 4u);
}

TEST_P(EqualProgramsTest, AreProfiledByTheirOwnPlaces) {
  const EqualPrograms layers = compile({part_of("0"), part_of("1")});
  for (size_t i = 0; i < 2; ++i)
    EXPECT_EQ(*layers.programs[i]->pieces()[0].nodes->front()->scope, "model.layers." + std::to_string(i) + ".embed");
}

// What the device says of an error holds for all: it names no layer that may be another one. Who is alone is named. The
// reference device names no places.
TEST_P(EqualProgramsTest, NameAPlaceThatIsTrueForAll) {
  const auto refusal = [&](const EqualPrograms& layers) {
    return test::message_of([&] { run(*layers.programs.back(), std::vector<float>(6), {0, 0, 9}); });
  };
  const std::string of_both = refusal(compile({part_of("0"), part_of("1")})),
                    of_one = refusal(compile({part_of("0"), part_of("1", 3)}));
  EXPECT_NE(of_both.find("gather"), std::string::npos) << of_both;
  if (std::string(GetParam()) == "reference") return;
  EXPECT_NE(of_both.find("(model.layers.*.embed)"), std::string::npos) << of_both;
  EXPECT_NE(of_one.find("(model.layers.1.embed)"), std::string::npos) << of_one;
}

INSTANTIATE_TEST_SUITE_P(Devices, EqualProgramsTest, testing::Values("cpu", "reference"), test::NameOfCase());

}  // namespace
}  // namespace transom
