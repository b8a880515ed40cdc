// SPDX-License-Identifier: Apache-2.0
// What a plugin says of itself beside its library: arguments of `train`, which are refused by name where the plugin is
// not there; and a file that is no description, which hinders nobody.
#include "runtime/device/descriptions/descriptions.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "runtime/device/descriptions/vendor_names.h"
#include "support/kept_log.h"
#include "support/message.h"
#include "support/temporary_folder.h"
#include "transom/device.h"
#include "transom/training_arguments.h"

namespace transom {
namespace {

constexpr const char* kDescription =
    R"({"device": "thing", "title": "Thing of ThingCo", "of_a_later_version": 1, "names": ["thingco"],
  "arguments_title": "Things", "arguments": [
    {"name": "use_thing", "flag": "Train on a Thing."}, {"name": "thing_config", "text": "A file."},
    {"name": "thing_speed", "ignored": "it is always fast"},
    {"name": "thing_size", "only": ["1"], "because": "there is one size"},
    {"name": "thing_file", "alias": "thing_config"}]})";

class Descriptions : public testing::Test {
 protected:
  void SetUp() override { ::setenv("TRANSOM_PLUGIN_PATH", folder_.path().c_str(), 1); }
  void TearDown() override { ::unsetenv("TRANSOM_PLUGIN_PATH"); }
  static std::string refusal(const std::vector<std::string>& flags) {
    return test::message_of([&] { parse_train_arguments(flags); });
  }
  test::TemporaryFolder folder_;
};

TEST_F(Descriptions, NameThePluginThatIsNotThere) {
  folder_.write("libtransom_thing.json", kDescription);
  const auto found = description_of("thing:1");
  ASSERT_TRUE(found);
  EXPECT_EQ(found->arguments.size(), 5u);
  EXPECT_TRUE(found->library.empty());
  for (const char* flag :
       {"--use_thing", "--thing_config=a.json", "--thing_speed", "--thing_size=2", "--thing_file=b"}) {
    const std::string text = refusal({flag});
    EXPECT_NE(
        text.find("is an argument of the device thing (Thing of ThingCo), whose plugin libtransom_thing.so is not "
                  "installed"),
        std::string::npos)
        << text;
  }
  EXPECT_EQ(train_help().find("use_thing"), std::string::npos);
  EXPECT_NE(advice_for_vendor_name("ThingCo:0").find("'thing'"), std::string::npos);
  const std::vector<DeviceInfo> devices = list_devices();
  EXPECT_TRUE(std::any_of(devices.begin(), devices.end(), [](const DeviceInfo& info) {
    return info.name == "thing" && info.reason.find("there is no plugin libtransom_thing.so") == 0;
  }));
}

TEST_F(Descriptions, ThatAreNoneAreNamedAndLeftOut) {
  size_t number = 0;
  for (const char* wrong : {"", "[]", "{", R"({"device": "other"})", R"({"device": "NAME", "names": "x"})",
                            R"({"device": "NAME", "arguments": [{}]})",
                            R"({"device": "NAME", "arguments": [{"name": "a", "flag": "x", "text": "y"}]})",
                            R"({"device": "NAME", "arguments": [{"name": "a", "only": ["1"]}]})"}) {
    const std::string name = "thing" + std::to_string(++number), file = "libtransom_" + name + ".json";
    std::string text = wrong;
    if (const size_t at = text.find("NAME"); at != text.npos) text.replace(at, 4, name);
    folder_.write(file, text);
    const test::KeptLog log;
    EXPECT_FALSE(description_of(name)) << wrong;
    EXPECT_NE(log.text().find(file), std::string::npos) << wrong << ": " << log.text();
  }
  EXPECT_EQ(refusal({"--max_steps", "2"}), "");
  set_device("cpu");
}

}  // namespace
}  // namespace transom
