// SPDX-License-Identifier: Apache-2.0
// What becomes of the fields of a request that its handler has not read: those that would change the answer are
// refused, those that cannot are let pass, the rest is logged. So no field is dropped in silence.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "apps/serve/api/request_json.h"

namespace transom::serve {

struct KnownField {
  enum What {
    kNoEffect,  // concerns no answer of this server
    kReported,  // has none here, though whoever sends it may expect one: logged
    kRefused    // would change the answer: 400, unless it has a value that asks for nothing
  };
  std::string_view name;  // with the path of the object that holds it: "options.num_ctx"
  What what;
  std::string_view reason;         // of kReported and kRefused: told to whoever sends it
  std::string_view harmless = "";  // JSON values that ask for nothing, besides null, false, "", [] and {}
};

// All that are known of the interfaces that are served, by name.
std::span<const KnownField> known_fields();
// Call it when all fields are read. Throws 400; what is logged is logged once a path and name (up to 200 names).
void expect_known_fields(const RequestFields& fields, const std::string& path);
// Logs once a path and name.
void report_once(const std::string& path, const std::string& name, const std::string& text);
// Logs the members of an object within a request (`what`: "a message") that are not `known` and ask for something.
void report_other_members(const Json& object, const std::string& path, const std::string& what,
                          std::span<const std::string_view> known);
// `options` of Hugging Face's inference form and of Ollama's vectors, of which none has an effect here.
void expect_known_options(RequestFields& fields, const std::string& path);

}  // namespace transom::serve
