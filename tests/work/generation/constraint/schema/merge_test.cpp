// SPDX-License-Identifier: Apache-2.0
#include "work/generation/constraint/schema/merge.h"

#include "work/generation/constraint/schema/schema_texts.h"

namespace transom::constraint {
namespace {

TEST(ConstraintSchemaMerge, HoldsAllOfTogether) {
  expect_texts(R"({"allOf":[{"type":"integer"},{"minimum":1},{"maximum":30}]})", {"1", "30"}, {"0", "31", "1.5"});
  expect_texts(R"({"allOf":[{"$ref":"#/$defs/a"},{"type":"object","properties":{"b":{"type":"null"}},"required":["b"]}],
                   "$defs":{"a":{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]}}})",
               {R"({"a":1,"b":null})"}, {R"({"a":1})", R"({"b":null})", R"({"a":"x","b":null})"});
  expect_texts(R"({"$ref":"#/$defs/a","properties":{"a":{"maximum":3}},"unevaluatedProperties":false,
                   "$defs":{"a":{"type":"object","properties":{"a":{"type":"integer","minimum":2}}}}})",
               {R"({"a":2})", R"({"a":3})", "{}"}, {R"({"a":1})", R"({"a":4})", R"({"b":1})"});
  // A property that another schema of the list forbids is not written.
  expect_texts(R"({"allOf":[{"type":"object","properties":{"a":true},"additionalProperties":false},
                            {"properties":{"b":true}}]})",
               {"{}", R"({"a":1})"}, {R"({"b":1})"});
  expect_texts(R"({"type":"object","properties":{"a":{"type":"null"},"b":{"type":"null"}},
                   "anyOf":[{"required":["a"]},{"required":["b"]}]})",
               {R"({"a":null})", R"({"b":null})", R"({"a":null,"b":null})"}, {"{}"});
  expect_texts(R"({"anyOf":[{"minimum":5},{"maximum":1}],"type":"integer","allOf":[{"anyOf":[{"enum":[0,1,9]},
                   {"type":"integer","minimum":20}]}]})",
               {"0", "1", "9", "20"}, {"2", "5", "19"});
  expect_texts(R"({"oneOf":[{"properties":{"k":{"const":"a"},"x":{"type":"null"}}},{"properties":{"k":{"const":"b"}}}],
                   "type":"object","required":["k"]})",
               {R"({"k":"a","x":null})", R"({"k":"b"})"}, {"{}", R"({"k":"c"})"});
  // Schemas that lead back to themselves end.
  expect_texts(R"({"allOf":[{"$ref":"#/$defs/a"},{"$ref":"#/$defs/b"}],"$defs":{
                   "a":{"type":"object","properties":{"n":{"$ref":"#/$defs/a"}}},
                   "b":{"type":"object","properties":{"n":{"$ref":"#/$defs/b"},"v":{"type":"null"}}}}})",
               {R"({"n":{"n":{},"v":null}})", R"({"v":null})"}, {R"({"n":1})"});
  expect_texts(R"({"anyOf":[{"allOf":[{"type":"string"},{"type":"integer"}]},{"type":"null"}]})", {"null"}, {"1"});
}

}  // namespace
}  // namespace transom::constraint
