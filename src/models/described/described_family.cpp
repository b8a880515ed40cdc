// SPDX-License-Identifier: Apache-2.0
#include "models/described/described_family.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/error.h"
#include "base/files/files.h"
#include "base/json/json.h"
#include "models/described/described_gguf.h"
#include "models/described/described_plan.h"
#include "models/described/family_schema.h"
#include "models/shared/blocks/planned_decoder.h"
#include "models/shared/record_parts.h"

namespace transom {
namespace {

constexpr int64_t kVersion = 1;

enum class Takes { kText, kTexts, kObject, kFlag, kNumber };
struct FileKey {
  std::string_view name;
  Takes takes;
  bool needed = false;
};
constexpr FileKey kKeys[] = {
    {"transom_family", Takes::kNumber, true},
    {"model_type", Takes::kText, true},
    {"about", Takes::kText, true},
    {"classes", Takes::kObject, true},  // class -> head
    {"base_prefix", Takes::kText},
    {"answers_prefix", Takes::kText},  // that of the class that finds answers
    {"tokenizer", Takes::kText},
    {"longest_text", Takes::kTexts},
    {"spaced_words", Takes::kFlag},
    {"lora_targets", Takes::kTexts},
    {"gated_layers", Takes::kFlag},        // whether layers are LLaMA's by name, for AWQ and SmoothQuant
    {"exported_positions", Takes::kFlag},  // whether exported files have position_ids
    {"fused_attention", Takes::kFlag},
    {"defaults", Takes::kObject, true},
    {"values", Takes::kObject},
    {"aliases", Takes::kObject},
    {"fixed", Takes::kObject},
    {"ignored", Takes::kTexts},
    {"renamed_parts", Takes::kObject},     // the beginnings of names that other checkpoints give otherwise
    {"layer_fields", Takes::kTexts},       // those that per_layer_config may give for one layer
    {"rotary_parameters", Takes::kTexts},  // besides those that all families have
    {"decoder", Takes::kObject, true},
    {"gguf", Takes::kObject},
};

const std::map<std::string, DecoderHead, std::less<>>& head_words() {
  static const std::map<std::string, DecoderHead, std::less<>> kHeads = {
      {"body", DecoderHead::kNone},
      {"causal-lm", DecoderHead::kCausalLM},
      {"sequence-classification", DecoderHead::kSequenceClassification},
      {"token-classification", DecoderHead::kTokenClassification},
      {"question-answering", DecoderHead::kQuestionAnswering}};
  return kHeads;
}

bool takes(Takes kind, const Json& value) {
  switch (kind) {
    case Takes::kText:
      return value.is_string();
    case Takes::kTexts:
      return value.is_array() &&
             std::all_of(value.begin(), value.end(), [](const Json& one) { return one.is_string(); });
    case Takes::kObject:
      return value.is_object();
    case Takes::kFlag:
      return value.is_boolean();
    case Takes::kNumber:
      return value.is_number();
  }
  return false;
}

const char* word_of(Takes kind) {
  switch (kind) {
    case Takes::kText:
      return "a text";
    case Takes::kTexts:
      return "a list of texts";
    case Takes::kObject:
      return "an object";
    case Takes::kFlag:
      return "true or false";
    case Takes::kNumber:
      return "a number";
  }
  return "";
}

void check_keys(const Json& file, std::vector<std::string>& findings) {
  std::vector<std::string> known;
  for (const FileKey& key : kKeys) known.emplace_back(key.name);
  for (const auto& [name, value] : file.items()) {
    const auto key = std::find_if(std::begin(kKeys), std::end(kKeys),
                                  [&, &name = name](const FileKey& each) { return each.name == name; });
    if (key == std::end(kKeys))
      findings.push_back(fmt::format("{}: unknown{}", quoted(name, 100), did_you_mean(name, known)));
    else if (!takes(key->takes, value))
      findings.push_back(
          fmt::format("{}: expected {}, found {}", name, word_of(key->takes), quoted(dump_json(value), 100)));
  }
  for (const FileKey& key : kKeys)
    if (key.needed && !file.contains(std::string(key.name))) findings.push_back(fmt::format("{} is missing", key.name));
  if (const auto version = file.find("transom_family");
      version != file.end() && version->is_number() && *version != kVersion)
    findings.push_back(fmt::format("transom_family: expected {}, found {}", kVersion, dump_json(*version)));
}

void check_classes(const Json& classes, std::vector<std::string>& findings) {
  std::vector<std::string> words;
  for (const auto& [word, head] : head_words()) words.push_back(word);
  std::map<std::string, std::string> seen;
  for (const auto& [name, head] : classes.items()) {
    if (!head.is_string() || !head_words().contains(head.get_ref<const std::string&>())) {
      findings.push_back(fmt::format("classes.{}: expected one of {}, found {}", name, fmt::join(words, ", "),
                                     quoted(dump_json(head), 100)));
    } else if (const auto [other, is_new] = seen.emplace(head.get<std::string>(), name); !is_new) {
      findings.push_back(fmt::format("classes: {} and {} have one head", other->second, name));
    }
  }
  if (classes.empty()) findings.emplace_back("classes: expected at least one");
}

bool is_section(const Json& file, std::string_view path) {
  const Json* section = json_at(file, path);
  return section && section->is_object();
}

// A mixer reads the options of its kind alone.
void check_mixer(const Json& file, std::vector<std::string>& findings) {
  static const std::map<std::string, std::set<std::string>> read = {
      {"short_convolution", {"taps", "bias"}},
      {"mamba1", {"taps", "bias", "convolution_bias", "heads", "state", "rank", "norms", "activation"}},
      {"mamba2",
       {"taps", "bias", "convolution_bias", "heads", "head_size", "groups", "state", "grouped_norm", "least_step",
        "largest_step", "activation"}},
      {"gated_delta", {"taps", "heads", "head_size", "groups", "state", "joined", "activation"}},
  };
  const Json* kind = json_at(file, "decoder.mixer.kind");
  const auto own = kind && kind->is_string() ? read.find(kind->get<std::string>()) : read.end();
  if (own == read.end()) return;
  for (const auto& [name, value] : json_at(file, "decoder.mixer")->items())
    if (name != "when" && name != "kind" && name != "module" && !own->second.contains(name))
      findings.push_back(fmt::format("decoder.mixer.{}: a mixer of kind {} does not read it", name, own->first));
}

// What each option allows by itself, and not together.
void check_together(const Json& file, std::vector<std::string>& findings) {
  const auto constant = [&](std::string_view path, const Json& value) {
    const Json* found = json_at(file, path);
    return found && *found == value;
  };
  const bool turns = is_section(file, "decoder.rotary"), biased = is_section(file, "decoder.alibi"),
             added = is_section(file, "decoder.positions");
  const auto always = [&](const std::string& section) {
    return is_section(file, section) && !json_at(file, section + ".when");
  };
  if (!turns && !biased && !added && !json_at(file, "decoder.rotary"))
    findings.emplace_back(
        "decoder: it knows no positions: expected rotary, alibi or positions, or \"rotary\": null for a decoder "
        "without");
  if (always("decoder.rotary") && always("decoder.alibi"))
    findings.emplace_back("decoder: rotary and alibi contradict each other; \"when\" says which of them holds");
  if ((turns || added) && constant("decoder.takes_positions", false))
    findings.emplace_back("decoder.takes_positions: false, but rotary or positions need position_ids");
  if (constant("decoder.rotary.interleaved", true) && constant("decoder.attention.head_norms.after_rotary", true))
    findings.emplace_back("decoder: interleaved positions and norms behind them are not carried out together");
  if (is_section(file, "decoder.attention.growth") && !turns && !added)
    findings.emplace_back("decoder.attention.growth: it needs positions");
  if (constant("decoder.norm.kind", "rms") && constant("decoder.norm.bias", true))
    findings.emplace_back("decoder.norm: rms norms have no bias");
  if (is_section(file, "decoder.attention.fused") && constant("decoder.attention.head_norms.over", "all_heads"))
    findings.emplace_back("decoder.attention: norms over all heads and a fused layer are not carried out together");
  if (constant("decoder.attention.gated", true) &&
      (is_section(file, "decoder.attention.fused") || is_section(file, "decoder.attention.latent")))
    findings.emplace_back("decoder.attention: gated is carried out with layers of queries, keys and values alone");
  if (is_section(file, "decoder.attention.latent"))
    for (const char* other : {"fused", "head_norms", "growth"})
      if (is_section(file, std::string("decoder.attention.") + other))
        findings.push_back(fmt::format("decoder.attention: latent and {} are not carried out together", other));
  if (json_at(file, "decoder.attention.values_are_keys") && is_section(file, "decoder.attention.fused"))
    findings.emplace_back("decoder.attention: values_are_keys and fused are not carried out together");
  if (is_section(file, "decoder.attention.shared"))
    for (const char* other : {"fused", "latent"})
      if (is_section(file, std::string("decoder.attention.") + other))
        findings.push_back(fmt::format("decoder.attention: shared and {} are not carried out together", other));
  const Json renamed = file.value("renamed_parts", Json::object());
  for (const auto& [name, other] : renamed.items())
    if (!other.is_string()) findings.push_back(fmt::format("renamed_parts.{}: expected a text", name));
  check_mixer(file, findings);
  const Json aliases = file.value("aliases", Json::object());
  for (const auto& [name, own] : aliases.items())
    if (!own.is_string() || !json_at(file["defaults"], own.get_ref<const std::string&>()))
      findings.push_back(fmt::format("aliases.{}: expected a field of the defaults", name));
}

std::string text_of_file(const Json& file, const char* name, const char* otherwise) {
  return file.value(name, std::string(otherwise));
}

std::vector<std::string> texts_of_file(const Json& file, const char* name) {
  return file.value(name, std::vector<std::string>());
}

std::vector<RenamedPart> renamed_parts_of_file(const Json& file) {
  std::vector<RenamedPart> parts;
  const Json own = file.value("renamed_parts", Json::object());
  for (const auto& [name, other] : own.items()) parts.push_back({name, other.get<std::string>()});
  return parts;
}

DecoderHeadNames head_names(const Json& file) {
  const Json* module = json_at(file, "decoder.head.module");
  const Json* tokens = json_at(file, "decoder.head.token_head");
  DecoderHeadNames names;
  if (module && module->is_string()) names.vocabulary = {module->get<std::string>()};
  if (tokens && tokens->is_string()) names.tokens = tokens->get<std::string>();
  return names;
}

std::vector<Architecture> architectures_of(const std::shared_ptr<const Json>& file, const std::string& prefix) {
  const DecoderMaker body = [file](const Config& config, const Scope& scope) {
    return make_planned_decoder(described_plan(*file, config), scope);
  };
  const std::string answers = text_of_file(*file, "answers_prefix", prefix.c_str());
  std::vector<Architecture> all;
  for (const auto& [name, word] : (*file)["classes"].items()) {
    const DecoderHead head = head_words().find(word.get_ref<const std::string&>())->second;
    const std::string inner = head == DecoderHead::kQuestionAnswering ? answers : prefix;
    all.push_back(
        {name, head_of(head, head_names(*file)), [body, inner, head](const Config& config, const Scope& scope) {
           return make_decoder_model(config, scope, body, inner, head);
         }});
  }
  return all;
}

FamilyInputs inputs_of_file(const Json& file) {
  const auto says = [&](const char* path, bool otherwise) {
    const Json* found = json_at(file, path);
    return found && found->is_boolean() ? found->get<bool>() : otherwise;
  };
  if (says("decoder.takes_types", false)) return decoder_inputs_with_types();
  if (!says("decoder.takes_positions", true)) return text_inputs();
  return placed_text_inputs(file.value("exported_positions", true) ? FamilyInput::Export::kStates
                                                                   : FamilyInput::Export::kNever);
}

}  // namespace

std::vector<std::string> findings_of_family(const Json& file) {
  if (!file.is_object()) fail("expected a JSON object");
  std::vector<std::string> findings;
  check_keys(file, findings);
  if (!findings.empty()) return findings;  // what follows reads them
  check_classes(file["classes"], findings);
  const Json values = file.value("values", Json::object());
  for (const auto& [name, value] : values.items()) check_option(file, value, "values." + name, true, findings);
  check_sections(file, findings);
  check_together(file, findings);
  if (findings.empty() && file.contains("gguf")) check_described_gguf(file, findings);
  return findings;
}

Family described_family(std::shared_ptr<const Json> file, const std::string& where) {
  if (const std::vector<std::string> findings = findings_of_family(*file); !findings.empty())
    fail("{}: {}{}", where, findings.front(),
         findings.size() == 1 ? ""
                              : fmt::format(" (and {} more; `transom models --check` lists all)", findings.size() - 1));
  const Json& own = *file;
  const std::string prefix = text_of_file(own, "base_prefix", "model");
  const std::vector<std::string> longest = texts_of_file(own, "longest_text");
  return {.model_type = own["model_type"].get<std::string>(),
          .base_prefix = prefix,
          .architectures = architectures_of(file, prefix),
          .inputs = inputs_of_file(own),
          .processors = {.tokenizer = text_of_file(own, "tokenizer", ""),
                         .image_processor = none,
                         .positions = longest.empty() ? Stated<PositionLimit>(none) : PositionLimit{longest},
                         .spaced_words = own.value("spaced_words", false),
                         .spans = false},
          .weights = {.lora_targets = texts_of_file(own, "lora_targets"),
                      .late_parts = none,
                      .awq_activation = none,
                      .scaled_layers =
                          own.value("gated_layers", false) ? gated_decoder_layers() : std::vector<ScaledLayers>(),
                      .opens_no_codes = false,
                      .multi_query = none,
                      .renamed_parts = renamed_parts_of_file(own)},
          .foreign = {.gguf = own.contains("gguf") ? std::optional(described_gguf(file)) : std::nullopt,
                      .keras = none,
                      .flax = none},
          .planning = {.fused_attention = own.value("fused_attention", true)}};
}

std::shared_ptr<const Json> read_family_file(const std::filesystem::path& path) {
  constexpr uint64_t kLargest = uint64_t{1} << 20;
  return std::make_shared<const Json>(parse_json(read_file(path, kLargest), path.string()));
}

}  // namespace transom
