// SPDX-License-Identifier: Apache-2.0
#include "work/generation/constraint/schema/schema_texts.h"

namespace transom::constraint {
namespace {

TEST(ConstraintSchemaNumbers, KeepLimitsAndSteps) {
  expect_texts(R"({"type":"integer","multipleOf":7,"minimum":-20,"maximum":100})", {"0", "-14", "98"},
               {"1", "-21", "105", "-0"});
  expect_texts(R"({"type":"integer","multipleOf":5})", {"0", "-15", "1000"}, {"3", "01"});
  expect_texts(R"({"type":"number","multipleOf":0.5,"minimum":-2,"maximum":30})",
               {"0", "0.5", "-1.5", "7.0", "12", "29.5"}, {"0.25", "0.4", "30.5", "-2.5", "1.", ".5", "5e-1"});
  expect_texts(R"({"type":"number","multipleOf":2.25})", {"2.25", "-4.5", "9", "6.75", "9.0", "9.00"},
               {"2", "2.2", "4.25"});
  expect_texts(R"({"type":"number","multipleOf":0.125,"minimum":0})", {"0.125", "3", "0.5", "10.875"},
               {"0.12", "0.1255"});
  expect_texts(R"({"type":"integer","multipleOf":1.5})", {"3", "-6", "0"}, {"2", "1.5", "4"});
  expect_texts(R"({"type":"integer","multipleOf":0.5})", {"3", "-2"}, {"1.5"});
  expect_texts(R"({"type":"number","multipleOf":0.01,"minimum":0})", {"0", "1.25", "3.1"}, {"0.125", "1e3"});
  expect_texts(R"({"type":"number","minimum":0.25,"maximum":0.75})", {"0.25", "0.3", "0.75", "0.2500", "0.7499"},
               {"0", "1", "0.2", "0.76", "0.7501", "0.24999", "-0.5"});
  expect_texts(R"({"type":"number","exclusiveMinimum":-1.5,"exclusiveMaximum":2})", {"-1.4", "0", "1.9", "-1", "-0.1"},
               {"-1.5", "2", "-2", "2.0", "-1.51"});
  expect_texts(R"({"type":"number","exclusiveMaximum":0})", {"-0.1", "-5"}, {"0", "-0", "-0.0", "1"});
  expect_texts(R"({"type":"number","exclusiveMinimum":0,"maximum":1e-5})", {"0.00001", "0.000009"},
               {"0", "0.0", "0.00002"});
  expect_texts(R"({"type":"integer","minimum":0,"maximum":18446744073709551615})", {"0", "999999999999999999"}, {"-1"});
  expect_texts(R"({"type":"integer","minimum":-9223372036854775808,"maximum":1e30})", {"0", "-999999999999999999"}, {});
  expect_texts(R"({"type":"integer","minimum":999999999999999999})", {"999999999999999999"}, {"1"});
}

}  // namespace
}  // namespace transom::constraint
