// SPDX-License-Identifier: Apache-2.0
#include "tools/plan/machines/device_model.h"

#include <gtest/gtest.h>

#include <unistd.h>

#include <cstdlib>

#include "base/error.h"
#include "base/files/files.h"
#include "tools/plan/machines/machines.h"

namespace transom {
namespace {

fs::path folder(const char* name) {
  const fs::path path = fs::temp_directory_path() / ("transom_plan_" + std::to_string(::getpid())) / name;
  fs::create_directories(path);
  return path;
}

std::string error_of(const std::string& text) {
  const fs::path file = folder("wrong") / "device.json";
  write_file(file, text);
  try {
    read_device_model(file);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(DeviceModel, WrongFieldsAreNamed) {
  EXPECT_NE(error_of("{}").find("peak_operations_per_second is missing"), std::string::npos);
  EXPECT_NE(error_of(R"({"peak_operations_per_second": {"bf16": -1}})").find("peak_operations_per_second.bf16"),
            std::string::npos);
  EXPECT_NE(error_of(R"({"peak_operations_per_second": {"bf16": 1e12}})").find("memory.bytes"), std::string::npos);
  const std::string whole =
      R"({"peak_operations_per_second": {"bf16": 1e12}, "memory": {"bytes": 1e9, "bytes_per_second": 1e9})";
  EXPECT_EQ(error_of(whole + "}"), "");
  EXPECT_NE(error_of(whole + R"(, "fitted": {"matrxi": 1}})").find("matrix"), std::string::npos);
  EXPECT_NE(error_of(whole + R"(, "links_inside": {"topology": "star"}})").find("topology"), std::string::npos);
  for (size_t cut = 0; cut < whole.size(); cut += 3) EXPECT_NE(error_of(whole.substr(0, cut)), "");
}

TEST(DeviceModel, AUsersFileComesBeforeOurs) {
  write_file(folder("own") / "gaudi2.json",
             R"({"title": "mine", "peak_operations_per_second": {"bf16": 1e12}, 
                 "memory": {"bytes": 1e9, "bytes_per_second": 1e9}})");
  EXPECT_NE(find_device_model("Gaudi2").title, "mine");
  ::setenv("TRANSOM_DEVICE_MODELS", folder("own").c_str(), 1);
  EXPECT_EQ(find_device_model("Gaudi2").title, "mine");
  ::unsetenv("TRANSOM_DEVICE_MODELS");
  fs::remove_all(folder("own").parent_path());
}

TEST(DeviceModel, AFileIsNamedByItsPath) {
  const fs::path file = folder("path") / "bench-7.json";
  write_file(file,
             R"({"peak_operations_per_second": {"fp32": 1e12}, "memory": {"bytes": 1e9, "bytes_per_second": 1e9}})");
  EXPECT_EQ(find_device_model(file.string()).name, "bench-7");
  const auto machines = parse_machines(file.string() + ":2", "--hardware");
  ASSERT_EQ(machines.size(), 1u);
  EXPECT_EQ(machines[0].hardware, file.string());
  EXPECT_EQ(machines[0].devices, 2);
  fs::remove_all(file.parent_path());
  try {
    find_device_model(file.string());
    ADD_FAILURE() << "a file that is gone";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    EXPECT_NE(std::string(error.what()).find("hardware"), std::string::npos) << error.what();
  }
}

TEST(DeviceModel, NamesAreFoundInAnySpelling) {
  EXPECT_EQ(find_device_model("A100-80GB").name, "a100-80gb");
  EXPECT_EQ(find_device_model("rx 7900 xtx").name, "rx-7900-xtx");
  EXPECT_EQ(find_device_model("NVIDIA L4").name, "l4");
  EXPECT_THROW(find_device_model("abacus"), Error);
}

TEST(DeviceModel, AnEngineThatIsMissingIsTheNextWider) {
  const DeviceModel mi210 = find_device_model("MI210");
  EXPECT_EQ(mi210.peak("tf32"), mi210.peaks.at("fp32"));
  EXPECT_THROW(find_device_model("Gaudi").peak("fp8"), Error);
}

TEST(Machines, ReadsDevicesAndHosts) {
  const auto machines = parse_machines("gaudi2:8x16,h100:8,l4", "--hardware");
  ASSERT_EQ(machines.size(), 3u);
  EXPECT_EQ(machines[0].devices, 128);
  EXPECT_EQ(machines[0].hosts, 16);
  EXPECT_EQ(machines[1].devices, 8);
  EXPECT_EQ(machines[2].devices, 1);
  for (const char* wrong : {"", "gaudi2:", "gaudi2:0", "gaudi2:8x", "gaudi2:8xx2", "gaudi2:1e9", ",", "gaudi2:-8"})
    EXPECT_THROW(parse_machines(wrong, "--hardware"), Error) << wrong;
  EXPECT_EQ(parse_device_counts("1..12", "--devices"), (std::vector<double>{1, 2, 4, 8, 12}));
  EXPECT_THROW(parse_device_counts("8..1", "--devices"), Error);
}

}  // namespace
}  // namespace transom
