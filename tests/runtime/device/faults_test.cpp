// SPDX-License-Identifier: Apache-2.0
// Plugins that are wrong in one way each: one clear line, and a process that goes on.
#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>

#include "runtime/device/device.h"
#include "runtime/device/passed_trials.h"
#include "runtime/device/probe.h"
#include "support/folders.h"
#include "support/message.h"
#include "support/temporary_folder.h"
#include "transom/device.h"
#include "transom/error.h"
#include "transom/ops.h"

namespace transom {
namespace {

const std::string kFolder = test::build_folder() + "/faulty_plugins";

struct UsePlugins {
  UsePlugins() {
    setenv("TRANSOM_PLUGIN_PATH", kFolder.c_str(), 1);
    setenv("TRANSOM_PLUGIN_TIMEOUT", "1", 1);
  }
} use_plugins;

struct Fault {
  const char* name;
  const char* text;  // part of the line
};

class FaultyPlugins : public testing::TestWithParam<Fault> {};

TEST_P(FaultyPlugins, EndInOneLineThatNamesTheFileAndTheFault) {
  const Fault& fault = GetParam();
  const std::string message = test::message_of([&] { Device::open(fault.name); });
  EXPECT_NE(message.find(fault.text), std::string::npos) << message;
  EXPECT_NE(message.find(fault.name), std::string::npos) << message;
  EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  // The process goes on, with this device again and with another.
  EXPECT_EQ(test::message_of([&] { Device::open(fault.name); }), message);
  EXPECT_EQ(Device::open("cpu")->name(), "cpu");
}

INSTANTIATE_TEST_SUITE_P(
    All, FaultyPlugins,
    testing::Values(Fault{"wrong_version", "speaks version 7."}, Fault{"no_entry", "exports no transom_plugin_open"},
                    Fault{"crash_at_load", "crashed while it was loaded (signal 11, Segmentation fault)"},
                    Fault{"abort_at_count", "crashed while it was loaded (signal 6"},
                    Fault{"exit_at_open", "ended the process while it was loaded (exit status 3)"},
                    Fault{"lacks_run", "lacks the function run"},
                    Fault{"half_of_capture", "1 of the 4 functions for capture"},
                    Fault{"short_table", "filled in 64 bytes of its table"},
                    Fault{"other_name", "must be libtransom_another.so"},
                    Fault{"no_device", "no driver (looked for it in two places)"},
                    Fault{"unresolved", "a_function_that_no_library_has"}, Fault{"hangs", "did not answer within 1 s"},
                    Fault{"throws", "crashed while it was loaded (signal 6"}),
    [](const testing::TestParamInfo<Fault>& info) { return std::string(info.param.name); });

// A host that ignores SIGCHLD gets no status of its children.
TEST(PluginTrials, TellCrashesWithoutAStatus) {
  const test::TemporaryFolder folder;  // files that this process has not tried yet
  const auto copy_of = [&](const fs::path& file) {
    fs::copy_file(file, folder.path() / file.filename());
    return folder.path() / file.filename();
  };
  const auto handler = std::signal(SIGCHLD, SIG_IGN);
  for (const char* name : {"crash_at_load", "exit_at_open"}) {
    const fs::path file = copy_of(kFolder + "/libtransom_" + name + ".so");
    const std::string message = test::message_of([&] { probe_plugin(file); });
    EXPECT_NE(message.find("while it was loaded"), std::string::npos) << name << ": " << message;
    EXPECT_FALSE(PassedTrials(file).contain_this()) << name;
  }
  const fs::path good = copy_of(kFolder + "/libtransom_vanishes.so");
  EXPECT_EQ(test::message_of([&] { probe_plugin(good); }), "");
  std::signal(SIGCHLD, handler);
}

TEST(Discovery, ListsWhatIsFoundAndWhyNotTheRest) {
  const std::vector<DeviceInfo> devices = list_devices();
  const auto find = [&](std::string_view name) {
    for (const DeviceInfo& device : devices)
      if (device.name == name) return device;
    ADD_FAILURE() << name << " is not listed";
    return DeviceInfo{};
  };
  EXPECT_EQ(find("cpu").reason, "");
  EXPECT_NE(find("crash_at_load").reason.find("signal 11"), std::string::npos);
  EXPECT_EQ(find("long_name").description, std::string(128, 'n'));
  // A machine may have one, and a build may be without the plugin.
  const std::string cuda = find("cuda").reason;
  EXPECT_TRUE(cuda.empty() || cuda.find("libcuda.so.1") != cuda.npos || cuda.find("no plugin") != cuda.npos) << cuda;
  for (size_t i = 1; i < devices.size(); ++i)
    EXPECT_LE(!devices[i - 1].reason.empty(), !devices[i].reason.empty()) << "what can be used stands first";
}

TEST(Discovery, DamagedPluginsAreNeverChosen) {
  unsetenv("TRANSOM_DEVICE");
  EXPECT_NE(Device::open("")->properties().flags & TRANSOM_DEVICE_HOST_MEMORY, 0u);
}

TEST(Faults, OutOfMemoryNamesTheDeviceAndLeavesItUsable) {
  const std::shared_ptr<Device> device = Device::open("out_of_memory");
  const std::string message = test::message_of([&] { device->allocate(1 << 20); });
  EXPECT_EQ(message, "out_of_memory: out of device memory: null: 1000 bytes are all there is");
  const std::vector<std::byte> bytes(1000, std::byte{7});
  std::vector<std::byte> back(1000);
  device->upload(bytes)->read(back);
  EXPECT_EQ(back, bytes);
}

TEST(Faults, ADeviceThatVanishesIsOpenedAnew) {
  set_device("vanishes");
  const auto compute = [] { (Tensor::scalar(1) + Tensor::scalar(2)).item<float>(); };
  const std::string message = test::message_of(compute);
  EXPECT_EQ(message, "vanishes: the device is lost, and what was on it: null: it fell off the bus");
  const std::shared_ptr<Device> before = default_device();
  set_device("vanishes");
  const std::shared_ptr<Device> after = default_device();
  EXPECT_NE(after, before);
  EXPECT_NO_THROW(compute());
  // Who still uses the lost one says nothing of the one that took its place.
  EXPECT_TRUE(before->lost());
  EXPECT_THROW(before->expect_ok(TRANSOM_DEVICE_LOST, {}), Error);
  EXPECT_FALSE(after->lost());
  EXPECT_EQ(Device::open("vanishes"), after);
  set_device("cpu");
  EXPECT_EQ((Tensor::scalar(1) + Tensor::scalar(2)).item<float>(), 3);
}

}  // namespace
}  // namespace transom
