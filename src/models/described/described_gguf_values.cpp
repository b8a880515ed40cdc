// SPDX-License-Identifier: Apache-2.0
#include "models/described/described_gguf_values.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "base/json/json.h"
#include "files/config/config.h"
#include "models/described/option_values.h"

namespace transom {
namespace {

constexpr int64_t kMostRows = int64_t{1} << 20, kMostGgufLayers = 4096;
constexpr std::pair<std::string_view, GgufChange> kChanges[] = {
    {"rotary_pairs", GgufChange::kRotaryPairs},
    {"rotary_pairs_of_keys", GgufChange::kRotaryPairsOfKeys},
    {"heads_together", GgufChange::kHeadsTogether},
    {"one_more", GgufChange::kOneMore},
    {"experts", GgufChange::kExperts},
    {"row", GgufChange::kRow},
    {"bare", GgufChange::kBare},
    {"squeezed", GgufChange::kSqueezed},
    {"rates", GgufChange::kRates},
    {"rate_column", GgufChange::kRateColumn},
    {"column", GgufChange::kColumn},
    {"groups", GgufChange::kGroups},
    {"heads", GgufChange::kHeads},
    {"heads_turned", GgufChange::kHeadsTurned}};
constexpr std::string_view kRuleParts[] = {"module", "change", "ending", "when", "rows", "columns", "parts"};
constexpr std::string_view kRowParts[] = {"groups", "size", "begin", "count", "axes", "order"};

const Json& gguf_section(const Json& file) { return file["gguf"]; }

// ---- options of a configuration, and of metadata

// The file with which options of metadata are computed: the section's own values, and no fields.
Json metadata_file(const Json& section) { return {{"values", section.value("values", Json::object())}}; }

class ConfiguredOptions {
 public:
  ConfiguredOptions(const Json& file, const Json& fields, const char* where)
      : config_(make_config(fields, where)), values_(file, config_) {}
  Json value(const Json& option, const std::string& path, std::optional<int64_t> layer = {}) const {
    return values_.value(option, {path, layer});
  }
  std::string text(const Json& option, const std::string& path) const { return values_.text(option, {path, {}}); }
  bool flag(const Json& option, const std::string& path, std::optional<int64_t> layer = {}) const {
    return values_.flag(option, {path, layer});
  }
  int64_t whole(const Json& option, const std::string& path, int64_t least, int64_t most) const {
    const int64_t found = values_.whole(option, {path, {}});
    if (found < least || found > most) fail("{}: expected a number from {} to {}, found {}", path, least, most, found);
    return found;
  }

 private:
  Config config_;
  OptionValues values_;
};

bool is_wrapped(const Json& option, const char* name) {
  return option.is_object() && option.size() == 1 && option.contains(name);
}

// Whole numbers are counts, as whatever an option has computed them; "number" asks for another one.
Json counted_value(Json value) {
  if (!value.is_number_float()) return value;
  const double number = value.get<double>();
  constexpr double kExact = 9007199254740992.0;
  return number == std::floor(number) && std::abs(number) < kExact ? Json(static_cast<int64_t>(number)) : value;
}

// {"each_layer": ...}, {"number": ...} or an option; null: nothing.
Json stated_value(const ConfiguredOptions& options, const Json& option, const Json& layers, const std::string& path) {
  if (is_wrapped(option, "number")) {
    const Json found = options.value(option["number"], path);
    if (!found.is_null() && !found.is_number())
      fail("{}: expected a number, found {}", path, quoted(dump_json(found), 100));
    return found.is_null() ? found : Json(found.get<double>());
  }
  if (!is_wrapped(option, "each_layer")) return counted_value(options.value(option, path));
  const int64_t count = options.whole(layers, path, 0, kMostGgufLayers);
  Json all = Json::array();
  for (int64_t layer = 0; layer < count; ++layer) {
    Json one = counted_value(options.value(option["each_layer"], path, layer));
    if (one.is_null()) return nullptr;
    all.push_back(std::move(one));
  }
  return all;
}

// Keys of GGUF have a value or are not there; fields of config.json may be null.
Json stated_values(const ConfiguredOptions& options, const Json& stated, const Json& layers, const char* part,
                   bool keeps_nulls) {
  Json all = Json::object();
  for (const auto& [name, option] : stated.items()) {
    Json value = stated_value(options, option, layers, fmt::format("gguf.{}.{}", part, name));
    if (value.is_null() && !keeps_nulls) continue;
    const size_t dot = keeps_nulls ? name.find('.') : name.npos;  // a field of a part
    (dot == name.npos ? all[name] : all[name.substr(0, dot)][name.substr(dot + 1)]) = std::move(value);
  }
  return all;
}

// Fields with what has to hold of them, since GGUF has no key for it.
void check_needs(const ConfiguredOptions& options, const Json& section, const Json& layers, const Json& config) {
  const Json needs = section.value("needs", Json::object());
  for (const auto& [field, option] : needs.items()) {
    const std::string path = "gguf.needs." + field;
    bool holds = true;
    if (!is_wrapped(option, "each_layer")) holds = options.flag(option, path);
    else
      for (int64_t layer = 0, count = options.whole(layers, path, 0, kMostGgufLayers); layer < count; ++layer)
        holds = holds && options.flag(option["each_layer"], path, layer);
    if (!holds)
      fail(ErrorKind::kUnsupported, "config.json: {}: {} cannot be written as GGUF of {}, which has no key for it",
           field, quoted(dump_json(config.value(field, Json())), 200), section["model_class"].get<std::string>());
  }
}

Json layers_of_file(const Json& file) {
  const Json* own = json_at(file, "decoder.layers");
  return own ? *own : Json("$num_hidden_layers");
}

// ---- rows

// One list of places: of each of `groups` parts of `size` rows the `count` from `begin` on; these as `axes`, in another
// order of which all are laid out anew.
std::vector<int64_t> chosen_places(const ConfiguredOptions& options, const Json& chosen, const std::string& path) {
  const auto whole = [&](const char* name, int64_t otherwise) {
    return chosen.contains(name) ? options.whole(chosen[name], path + "." + name, 0, kMostRows) : otherwise;
  };
  std::vector<int64_t> axes;
  for (const Json& axis : chosen.value("axes", Json::array()))
    axes.push_back(options.whole(axis, path + ".axes", 1, kMostRows));
  int64_t product = 1;
  for (const int64_t axis : axes) {
    if (product > kMostRows / axis) fail("{}: more than {} rows", path, kMostRows);
    product *= axis;
  }
  const int64_t groups = whole("groups", 1), begin = whole("begin", 0),
                count = whole("count", axes.empty() || groups < 1 ? 0 : product / groups), size = whole("size", 0);
  if (groups > 0 && count > kMostRows / groups) fail("{}: more than {} rows", path, kMostRows);
  std::vector<int64_t> places;
  for (int64_t group = 0; group < groups; ++group)
    for (int64_t i = 0; i < count; ++i) places.push_back(group * size + begin + i);
  if (axes.empty()) return places;
  if (static_cast<int64_t>(places.size()) != product)
    fail("{}: expected {} rows, found {}", path, product, places.size());
  const auto order = chosen["order"].get<std::vector<size_t>>();
  std::vector<int64_t> strides(axes.size(), 1), turned;
  for (size_t i = axes.size() - 1; i-- > 0;) strides[i] = strides[i + 1] * axes[i + 1];
  std::vector<int64_t> at(axes.size(), 0);
  for (int64_t i = 0; i < product; ++i) {
    int64_t from = 0;
    for (size_t axis = 0; axis < order.size(); ++axis) from += at[axis] * strides[order[axis]];
    turned.push_back(places[static_cast<size_t>(from)]);
    for (size_t axis = order.size(); axis-- > 0;) {
      if (++at[axis] < axes[order[axis]]) break;
      at[axis] = 0;
    }
  }
  return turned;
}

GgufPlaces places_of_rule(const Json& lists, const std::string& path, const std::shared_ptr<const Json>& file) {
  return [lists, path, file](const Json& config) {
    const ConfiguredOptions options(*file, config, "config.json");
    std::vector<int64_t> all;
    for (const Json& chosen : lists) {
      const std::vector<int64_t> places = chosen_places(options, chosen, path);
      all.insert(all.end(), places.begin(), places.end());
    }
    return all;
  };
}

void check_places(const Json& file, const Json& lists, const std::string& path, std::vector<std::string>& findings) {
  if (!lists.is_array() || lists.empty()) return findings.push_back(path + ": expected a list of objects"), void();
  for (const Json& chosen : lists) {
    if (!chosen.is_object() || (!chosen.contains("count") && !chosen.contains("axes"))) {
      findings.push_back(
          fmt::format("{}: expected an object with count or axes, found {}", path, quoted(dump_json(chosen), 100)));
      continue;
    }
    for (const auto& [name, option] : chosen.items()) {
      const std::string at = path + "." + name;
      if (!is_gguf_word(kRowParts, name)) findings.push_back(fmt::format("{}: unknown", quoted(at, 100)));
      else if (name == "axes" && !option.is_array()) findings.push_back(at + ": expected a list");
      else if (name != "order" && name != "axes") check_option(file, option, at, false, findings);
    }
    const Json axes = chosen.value("axes", Json::array()), order = chosen.value("order", Json::array());
    std::vector<size_t> expected(axes.is_array() ? axes.size() : 0), found;
    std::iota(expected.begin(), expected.end(), size_t{0});
    if (order.is_array())
      for (const Json& one : order) found.push_back(one.is_number_unsigned() ? one.get<size_t>() : expected.size());
    std::sort(found.begin(), found.end());
    if (found != expected) findings.push_back(fmt::format("{}.order: expected the numbers of all axes", path));
    for (const Json& axis : axes.is_array() ? axes : Json::array()) check_option(file, axis, path, false, findings);
  }
}

// ---- options of metadata: any key may be named

void gather_names(const Json& option, Json& fields) {
  if (option.is_string() && option.get_ref<const std::string&>().starts_with("$")) {
    Json* at = &fields;
    std::string name = option.get<std::string>().substr(1);
    for (size_t dot = name.find('.'); dot != name.npos; dot = name.find('.')) {
      at = &(*at)[name.substr(0, dot)];
      if (!at->is_object()) *at = Json::object();
      name = name.substr(dot + 1);
    }
    if (!at->contains(name)) (*at)[name] = 0;
  }
  if (option.is_structured())
    for (const Json& part : option) gather_names(part, fields);
}

void check_stated(const Json& file, const Json& stated, const std::string& path, std::vector<std::string>& findings) {
  if (!stated.is_object()) return findings.push_back(path + ": expected an object of options"), void();
  for (const auto& [name, option] : stated.items()) {
    const bool by_layer = is_wrapped(option, "each_layer");
    const Json& inner = by_layer ? option["each_layer"] : is_wrapped(option, "number") ? option["number"] : option;
    check_option(file, inner, path + "." + name, by_layer, findings);
  }
}

void check_of_metadata(const Json& section, std::vector<std::string>& findings) {
  Json file = metadata_file(section);
  file["defaults"] = Json::object();
  for (const char* part : {"values", "read", "told"})
    if (section.contains(part)) gather_names(section[part], file["defaults"]);
  for (const auto& [name, value] : file["values"].items())
    check_option(file, value, "gguf.values." + name, true, findings);
  if (section.contains("read")) check_stated(file, section["read"], "gguf.read", findings);
  if (section.contains("told")) check_option(file, section["told"], "gguf.told", false, findings);
}

}  // namespace

bool is_gguf_word(std::span<const std::string_view> words, std::string_view word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

void check_gguf_values(const Json& given, std::vector<std::string>& findings) {
  // What every decoder with rotary positions has besides its own fields.
  Json file = given;
  for (const char* field : {"rope_parameters", "rope_scaling"})
    file["defaults"][field] = {{"rope_type", ""}, {"mscale_all_dim", 0}, {"mrope_section", 0}};
  const Json& section = gguf_section(file);
  if (section.contains("values") && !section["values"].is_object())
    return findings.emplace_back("gguf.values: expected an object"), void();
  for (const char* part : {"written", "needs"})
    if (section.contains(part)) check_stated(file, section[part], std::string("gguf.") + part, findings);
  if (section.contains("needs") && !section.contains("written"))
    findings.emplace_back("gguf.needs: expected \"written\" beside it");
  const Json& architecture = section["architecture"];
  if (architecture.is_object()) check_option(file, architecture, "gguf.architecture", false, findings);
  check_of_metadata(section, findings);
}

void add_gguf_values(GgufFamily& gguf, std::shared_ptr<const Json> file) {
  const Json& section = gguf_section(*file);
  if (section.contains("written"))
    gguf.more_keys = [file](const Json& config) {
      const ConfiguredOptions options(*file, config, "config.json");
      const Json layers = layers_of_file(*file);
      check_needs(options, gguf_section(*file), layers, config);
      if (const Json defaults = file->value("defaults", Json::object()); defaults.contains("rope_parameters") &&
                                                                         !config.contains("rope_parameters") &&
                                                                         !config.contains("rope_scaling"))
        fail(ErrorKind::kUnsupported,
             "config.json: rope_parameters is missing: write out those that hold where it is silent, {}",
             defaults["rope_parameters"].dump());
      return stated_values(options, gguf_section(*file)["written"], layers, "written", false);
    };
  if (section.contains("read"))
    gguf.more_fields = [file](const Json& metadata) {
      const Json own = metadata_file(gguf_section(*file));
      const ConfiguredOptions options(own, metadata, "the file's metadata");
      const bool counts = own["values"].contains("layers");
      return stated_values(options, gguf_section(*file)["read"], counts ? "$layers" : "$block_count", "read", true);
    };
  if (section.contains("told"))
    gguf.is_told = [file](const Json& metadata) {
      const Json own = metadata_file(gguf_section(*file));
      return ConfiguredOptions(own, metadata, "the file's metadata").flag(gguf_section(*file)["told"], "gguf.told");
    };
  if (!section["architecture"].is_object()) return;
  gguf.architecture_of = [file](const Json& config) {
    const ConfiguredOptions options(*file, config, "config.json");
    return options.text(gguf_section(*file)["architecture"], "gguf.architecture");
  };
}

void check_gguf_rule(const Json& file, const Json& rule, const std::string& path, std::vector<std::string>& findings) {
  const auto is_change = [](const Json& name) {
    return name.is_string() && std::any_of(std::begin(kChanges), std::end(kChanges),
                                           [&](const auto& each) { return each.first == name.get<std::string>(); });
  };
  if (rule.is_string() || rule.is_null()) return;
  if (rule.is_array() && rule.size() == 2 && rule[0].is_string() && is_change(rule[1])) return;
  if (!rule.is_object() || !rule.contains("module") || !rule["module"].is_string())
    return findings.push_back(
               fmt::format("{}: expected a module, [module, change], an object with a module, or null, found {}", path,
                           quoted(dump_json(rule), 100))),
           void();
  for (const auto& [name, option] : rule.items()) {
    const std::string at = path + "." + name;
    if (!is_gguf_word(kRuleParts, name)) findings.push_back(fmt::format("{}: unknown", quoted(at, 100)));
    if (name == "change" && !is_change(option))
      findings.push_back(fmt::format("{}: unknown change {}", at, quoted(dump_json(option), 100)));
    if (name == "ending" && !option.is_string()) findings.push_back(at + ": expected a text");
    if (name == "when") check_option(file, option, at, true, findings);
    if (name == "parts") check_option(file, option, at, false, findings);
    if (name == "rows" || name == "columns") check_places(file, option, at, findings);
  }
}

GgufName gguf_rule(const std::string& gguf, const Json& rule, std::shared_ptr<const Json> file) {
  const auto change_of = [](const Json& name) {
    return std::find_if(std::begin(kChanges), std::end(kChanges),
                        [&](const auto& each) { return each.first == name.get_ref<const std::string&>(); })
        ->second;
  };
  if (rule.is_string()) return {gguf, rule.get<std::string>()};
  if (rule.is_array()) return {gguf, rule[0].get<std::string>(), change_of(rule[1])};
  GgufName made{gguf, rule["module"].get<std::string>()};
  const std::string path = "gguf." + gguf;
  if (rule.contains("change")) made.change = change_of(rule["change"]);
  if (rule.contains("ending")) made.ending = rule["ending"].get<std::string>();
  if (rule.contains("rows")) made.rows = places_of_rule(rule["rows"], path + ".rows", file);
  if (rule.contains("columns")) made.columns = places_of_rule(rule["columns"], path + ".columns", file);
  if (rule.contains("when"))
    made.when = [file, path, option = Json(rule["when"])](const Json& config, int64_t layer) {
      const ConfiguredOptions options(*file, config, "config.json");
      return options.flag(option, path + ".when", layer < 0 ? std::nullopt : std::optional(layer));
    };
  if (rule.contains("parts"))
    made.parts = [file, path, option = Json(rule["parts"])](const Json& config) {
      return ConfiguredOptions(*file, config, "config.json").whole(option, path + ".parts", 1, kMostRows);
    };
  return made;
}

}  // namespace transom
