// SPDX-License-Identifier: Apache-2.0
#include "models/described/family_report.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/json/json.h"
#include "files/config/config.h"
#include "files/gguf/gguf_family.h"
#include "models/described/described_family.h"
#include "models/described/family_schema.h"
#include "transom/scope.h"

namespace transom {
namespace {

// Notes the names that modules ask for, and their shapes; makes no values.
class NamedShapes : public ParameterSource {
 public:
  std::shared_ptr<Parameter> parameter(const std::string& name, const Shape& shape, const Initial&) override {
    constexpr size_t kMost = 200000;
    if (all.size() >= kMost) fail("its defaults make more than {} parameters", kMost);
    if (!names_.insert(name).second) fail("{}: two modules have this name", name);
    for (const int64_t extent : shape)
      if (extent < 1) fail("{}: a shape of {}", name, to_string(shape));
    all.emplace_back(name, shape);
    return std::make_shared<Parameter>(Parameter{name, {}});
  }
  std::shared_ptr<Parameter> buffer(const std::string& name, const Type& type, const Initial& initial) override {
    return parameter(name, type.shape, initial);
  }
  void tied(const std::string& name, const std::shared_ptr<Parameter>&, Tie) override { names_.insert(name); }
  void derived(const std::string&) override {}
  bool holds(const std::string&) const override { return false; }

  std::vector<std::pair<std::string, Shape>> all;

 private:
  std::set<std::string> names_;
};

std::string module_of(const std::string& parameter) { return parameter.substr(0, parameter.rfind('.')); }

void check_modules(const Family& family, const std::vector<std::pair<std::string, Shape>>& parameters,
                   std::vector<std::string>& findings) {
  for (const std::string& target : *family.weights.lora_targets)
    if (std::none_of(parameters.begin(), parameters.end(),
                     [&](const auto& each) { return ("." + module_of(each.first)).ends_with("." + target); }))
      findings.push_back(fmt::format("lora_targets: no module ends with {}", quoted(target, 100)));
  if (!*family.foreign.gguf) return;
  std::set<std::string> missing;
  for (const auto& [name, shape] : parameters) {
    const GgufNames& names = (*family.foreign.gguf)->names;
    if (gguf_places(name, names, nullptr).empty()) missing.insert(module_of(name));
  }
  if (!missing.empty()) findings.push_back(fmt::format("gguf: no name for {}", *missing.begin()));
}

// The classes with the defaults, and what the first has.
void make_with_defaults(const Json& file, const Family& family, FamilyReport& report) {
  const Json* defaults = json_at(file, "defaults");
  for (const Architecture& architecture : family.architectures) {
    NamedShapes shapes;
    try {
      Json fields = *defaults;
      fields["model_type"] = family.model_type;
      architecture.make(make_config(fields, "its defaults"), Scope(shapes));
    } catch (const Error& error) {
      report.findings.push_back(fmt::format("{}: {}", architecture.name, error.what()));
      return;
    }
    if (report.parameters.empty())
      for (const auto& [name, shape] : shapes.all)
        report.parameters.push_back(fmt::format("{} {}", name, to_string(shape)));
    const bool writes = *architecture.head.task == HeadTask::kCausalLM;
    if (writes || family.architectures.size() == 1) check_modules(family, shapes.all, report.findings);
  }
}

// Those of the first layer stand for all.
void leave_out_layers(std::vector<std::string>& parameters, const std::string& stack) {
  const std::string middle = "." + stack + ".";
  std::erase_if(parameters, [&](const std::string& name) {
    const size_t at = ("." + name).find(middle);
    return at != name.npos && !("." + name).substr(at + middle.size()).starts_with("0.");
  });
}

}  // namespace

FamilyReport report_on_family(const std::filesystem::path& path) {
  const std::shared_ptr<const Json> file = read_family_file(path);
  FamilyReport report;
  if (!file->is_object()) fail("{}: expected a JSON object", path.string());
  report.findings = findings_of_family(*file);
  if (!report.findings.empty()) return report;
  const Family family = described_family(file, path.string());
  report.model_type = family.model_type;
  for (const Architecture& architecture : family.architectures) report.classes.push_back(architecture.name);
  make_with_defaults(*file, family, report);
  const Json* stack = json_at(*file, "decoder.stack");
  leave_out_layers(report.parameters, stack && stack->is_string() ? stack->get<std::string>() : "layers");
  return report;
}

}  // namespace transom
