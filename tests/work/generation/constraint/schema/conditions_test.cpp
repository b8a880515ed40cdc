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
  expect_texts(R"({"type":"object","properties":{"n":{"type":"integer"},"v":{"type":"null"}},"required":["n"],
                   "if":{"properties":{"n":{"minimum":5}}},"then":{"required":["v"]}})",
               {R"({"n":4})", R"({"n":5,"v":null})"}, {R"({"n":5})", R"({"n":70})"});
}

TEST(ConstraintSchemaConditions, SpeakOlderDraftsToo) {
  expect_texts(R"({"type":"integer","minimum":3,"exclusiveMinimum":true,"maximum":5,"exclusiveMaximum":false})",
               {"4", "5"}, {"3", "6"});
  expect_texts(R"({"type":"object","properties":{"a":true,"b":true,"c":{"type":"null"}},
                   "dependencies":{"a":["b"],"b":{"required":["c"]}}})",
               {"{}", R"({"c":null})", R"({"a":1,"b":1,"c":null})"}, {R"({"a":1})", R"({"b":1})", R"({"a":1,"b":1})"});
  expect_texts(R"({"type":"array","items":[{"type":"null"}],"additionalItems":{"type":"boolean"},"minItems":1})",
               {"[null]", "[null,true]"}, {"[true]", "[null,null]"});
  expect_texts(R"({"type":"array","items":{"type":"null"},"additionalItems":false})", {"[null,null]"}, {"[1]"});
}

TEST(ConstraintSchemaConditions, NegationsAreSchemas) {
  expect_texts(R"({"type":"string","not":{"minLength":3}})", {"\"\"", "\"ab\""}, {"\"abc\""});
  expect_texts(R"({"type":"integer","not":{"minimum":3,"maximum":6}})", {"2", "7"}, {"3", "6"});
  expect_texts(R"({"type":"object","properties":{"a":{"type":"integer"},"b":true},"not":{"required":["a","b"]}})",
               {"{}", R"({"a":1})", R"({"b":1})"}, {R"({"a":1,"b":1})"});
  expect_texts(R"({"type":"object","properties":{"a":{"not":{}},"b":{"type":"null"}}})", {"{}", R"({"b":null})"},
               {R"({"a":1})"});
  expect_texts(R"({"type":"array","items":{"type":["integer","null"]},"not":{"items":{"type":"integer"}}})",
               {"[null]", "[1,null]"}, {"[]", "[1,2]"});
  expect_texts(R"({"allOf":[{"enum":[1,2,3.5,"a",{"b":1}]},{"not":{"not":{"multipleOf":0.5}}},
                   {"not":{"properties":{"b":{"const":1}},"required":["b"],"type":"object"}}]})",
               {"1", "3.5", "\"a\""}, {"{\"b\":1}", "4"});
}

}  // namespace
}  // namespace transom::constraint
