// SPDX-License-Identifier: Apache-2.0
#include "apps/serve/structured/structured_output.h"

#include "apps/serve/api/known_fields.h"
#include "apps/serve/workers/generation_worker.h"
#include "work/generation/constraint/constraint.h"

namespace transom::serve {
namespace {

using constraint::Kind;

ConstraintPointer made(const ServedModel& model, Kind kind, const std::string& text, const std::string& param) {
  try {
    return constraint::make_constraint(model.generator->vocabulary(), kind, text);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kInput) throw;
    throw ApiError(400, fmt::format("{}: {}", param, error.what()), param);
  }
}

// A schema may come as an object or as its text.
ConstraintPointer of_schema(const ServedModel& model, const Json& schema, const std::string& param,
                            Kind kind = Kind::kJsonSchema) {
  const Json read = schema.is_string() ? parse_json_field(schema.get<std::string>(), param) : schema;
  return made(model, kind, compact(read), param);
}

ConstraintPointer of_text(const ServedModel& model, Kind kind, const Json& text, const std::string& param) {
  if (!text.is_string()) refuse_field(param, "{}: expected a string", param);
  return made(model, kind, text.get<std::string>(), param);
}

// {"structures", "triggers"}, or XGrammar's newer {"format": {"type": "triggered_tags", "tags", "triggers", ...}}.
ConstraintPointer of_structural_tag(const ServedModel& model, const Json& given, const std::string& where) {
  if (!given.is_object()) refuse_field(where, "{}: expected an object", where);
  Json tags = Json::object();
  const auto format = given.find("format");
  if (format == given.end() || format->is_null()) {
    for (const char* name : {"structures", "triggers"})
      if (const auto found = given.find(name); found != given.end()) tags[name] = *found;
    return made(model, Kind::kStructuralTags, compact(tags), where);
  }
  const std::string at = where + ".format";
  if (!format->is_object() || format->value("type", Json()) != "triggered_tags")
    refuse_field(at, "{}: expected {{\"type\": \"triggered_tags\", ...}}; other formats are not supported", at);
  for (const char* name : {"triggers", "at_least_one", "stop_after_first"})
    if (const auto found = format->find(name); found != format->end()) tags[name] = *found;
  tags["structures"] = Json::array();
  const Json list = format->value("tags", Json::array());
  for (size_t i = 0; i < list.size(); ++i) {
    const std::string place = fmt::format("{}.tags[{}]", at, i);
    const Json content = list[i].is_object() ? list[i].value("content", Json()) : Json();
    if (!content.is_object() || content.value("type", Json()) != "json_schema" || !content.contains("json_schema"))
      refuse_field(place, "{}.content: expected {{\"type\": \"json_schema\", \"json_schema\": ...}}", place);
    tags["structures"].push_back({{"begin", list[i].value("begin", Json())},
                                  {"schema", content["json_schema"]},
                                  {"end", list[i].value("end", Json())}});
  }
  return made(model, Kind::kStructuralTags, compact(tags), where);
}

ConstraintPointer read_response_format(RequestFields& fields, const ServedModel& model) {
  const Json* given = fields.object("response_format");
  if (!given) return nullptr;
  RequestFields format(*given, "response_format");
  const std::string type =
      format.choice("type", {"text", "json_object", "json_schema", "structural_tag"}).value_or("text");
  if (type == "text") return nullptr;
  if (type == "structural_tag") return of_structural_tag(model, *given, "response_format");
  if (type == "json_object") {
    // Some clients bring the schema here.
    if (const Json* schema = format.object("schema"))
      return schema_constraint(model, *schema, "response_format.schema");
    return made(model, Kind::kJsonObject, "", "response_format");
  }
  const Json* inner = format.object("json_schema");
  if (!inner) refuse_field("response_format.json_schema", "response_format.json_schema: missing");
  const auto schema = inner->find("schema");
  if (schema == inner->end())
    refuse_field("response_format.json_schema.schema", "response_format.json_schema.schema: missing");
  return schema_constraint(model, *schema, "response_format.json_schema.schema");
}

}  // namespace

ConstraintPointer schema_constraint(const ServedModel& model, const Json& schema, const std::string& param) {
  return made(model, Kind::kJsonSchema, compact(schema), param);
}

ConstraintPointer read_structured_output(RequestFields& fields, const ServedModel& model) {
  ConstraintPointer result = read_response_format(fields, model);
  const auto take = [&](ConstraintPointer found, const std::string& param) {
    if (result) refuse_field(param, "{}: the request has another form of the answer already", param);
    result = std::move(found);
  };
  const auto take_all = [&](RequestFields& from, const char* json, const char* regex, const char* choice,
                            const char* grammar, Kind of_json = Kind::kJsonSchema) {
    if (const Json* value = from.any(json))
      take(of_schema(model, *value, from.name_of(json), of_json), from.name_of(json));
    if (const Json* value = from.any(regex))
      take(of_text(model, Kind::kRegex, *value, from.name_of(regex)), from.name_of(regex));
    if (const Json* value = from.list(choice, 10'000))
      take(made(model, Kind::kChoices, compact(*value), from.name_of(choice)), from.name_of(choice));
    if (const Json* value = from.any(grammar))
      take(of_text(model, Kind::kGbnf, *value, from.name_of(grammar)), from.name_of(grammar));
  };
  if (const Json* given = fields.object("structured_outputs")) {
    RequestFields inner(*given, "structured_outputs");
    const bool others = inner.boolean("disable_additional_properties") == false;
    take_all(inner, "json", "regex", "choice", "grammar", others ? Kind::kWholeJsonSchema : Kind::kJsonSchema);
    if (const Json* tag = inner.any("structural_tag")) {  // vLLM has it as text
      const std::string where = inner.name_of("structural_tag");
      take(of_structural_tag(model, tag->is_string() ? parse_json_field(tag->get<std::string>(), where) : *tag, where),
           where);
    }
    if (inner.boolean("json_object").value_or(false))
      take(made(model, Kind::kJsonObject, "", "structured_outputs"), "structured_outputs.json_object");
    expect_known_fields(inner, "structured_outputs");
  }
  take_all(fields, "guided_json", "guided_regex", "guided_choice", "guided_grammar");
  // llama.cpp's server and SGLang have them by these names beside the other fields.
  for (const char* name : {"grammar", "ebnf"})
    if (const Json* text = fields.any(name); text && *text != "") take(of_text(model, Kind::kGbnf, *text, name), name);
  if (const Json* text = fields.any("regex"); text && *text != "")
    take(of_text(model, Kind::kRegex, *text, "regex"), "regex");
  if (const Json* schema = fields.any("json_schema"))
    take(of_schema(model, *schema, "json_schema", Kind::kJsonSchema), "json_schema");
  return result;
}

ConstraintPointer read_tgi_grammar(RequestFields& parameters, const ServedModel& model) {
  const Json* given = parameters.object("grammar");
  if (!given) return nullptr;
  RequestFields grammar(*given, parameters.name_of("grammar"));
  const std::string type = grammar.choice("type", {"json", "regex", "json_schema"}).value_or("json");
  const Json* value = grammar.any("value");
  const std::string where = grammar.name_of("value");
  if (!value) refuse_field(where, "{}: missing", where);
  if (type == "regex") return of_text(model, Kind::kRegex, *value, where);
  if (type == "json_schema" && value->is_object() && value->contains("schema"))
    return of_schema(model, (*value)["schema"], where);
  return of_schema(model, *value, where);
}

}  // namespace transom::serve
