// SPDX-License-Identifier: Apache-2.0
// Templates of rarer features and random expressions beside what Jinja gives for them in Transformers
// (tests/wild/train/jinja/make.py).
#include <gtest/gtest.h>

#include <algorithm>

#include "base/json/json.h"
#include "inputs/text/chat_template.h"
#include "support/folders.h"
#include "transom/error.h"

namespace transom {
namespace {

TEST(JinjaTemplates, RenderWhatJinjaRendersAndRefuseWhatItRefuses) {
  const Json recorded = read_json(test::source_folder() + "/tests/wild/train/jinja/templates.json");
  ChatOptions options;
  options.variables = recorded["variables"].dump();
  // What is not here is refused by its name; nothing else may be. Jinja refuses to slice a number too, but for
  // constants, of which it makes nothing.
  const std::vector<std::string> known_refusals{"the method 'encode' of texts is not supported",
                                                "object cannot be sliced"};
  size_t rendered = 0;
  for (const Json& row : recorded["templates"]) {
    const auto source = row["template"].get<std::string>();
    std::string error;
    Json found;
    try {
      found = text::render_chat(source, "[]", options, {}).text;
      ++rendered;
    } catch (const Error& refused) {
      error = refused.what();
    }
    const bool known = std::any_of(known_refusals.begin(), known_refusals.end(),
                                   [&](const std::string& each) { return error.find(each) != std::string::npos; });
    if (known) continue;
    EXPECT_EQ(found, row["result"]) << source << "\n" << error;
  }
  EXPECT_GT(rendered, 300u);
}

}  // namespace
}  // namespace transom
