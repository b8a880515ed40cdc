// SPDX-License-Identifier: Apache-2.0
#include "work/generation/constraint/schema/conditions.h"

#include "work/generation/constraint/schema/schema_texts.h"

namespace transom::constraint {
namespace {

TEST(ConstraintSchemaConditions, AreAlternatives) {
  expect_texts(
      R"({"type":"object","properties":{"a":{"type":"null"},"b":{"type":"null"}},"dependentRequired":{"a":["b"]}})",
      {"{}", R"({"b":null})", R"({"a":null,"b":null})"}, {R"({"a":null})"});
  expect_texts(R"({"type":"object","properties":{"k":{"enum":["x","y"]},"v":true},"required":["k","v"],
                   "if":{"properties":{"k":{"const":"x"}}},"then":{"properties":{"v":{"type":"integer"}}},
                   "else":{"properties":{"v":{"type":"null"}}}})",
               {R"({"k":"x","v":3})", R"({"k":"y","v":null})"}, {R"({"k":"x","v":null})", R"({"k":"y","v":3})"});
  // A property that is missing meets a condition that does not require it.
  expect_texts(R"({"type":"object","properties":{"k":{"enum":["x","y"]},"v":{"type":"null"}},
                   "if":{"properties":{"k":{"const":"x"}}},"then":{"required":["v"]}})",
               {R"({"v":null})", R"({"k":"y"})", R"({"k":"x","v":null})"}, {"{}", R"({"k":"x"})"});
}

}  // namespace
}  // namespace transom::constraint
