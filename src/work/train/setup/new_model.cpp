// SPDX-License-Identifier: Apache-2.0
#include "work/train/setup/new_model.h"

#include <cmath>

#include "base/error.h"
#include "base/files/directories.h"
#include "base/files/files.h"
#include "base/json/json.h"
#include "base/text/numbers.h"
#include "files/config/config.h"
#include "inputs/images/image_processor.h"
#include "models/records.h"
#include "transom/model.h"
#include "transom/tokenizer.h"
#include "work/train/arguments/argument_table.h"

namespace transom {
namespace {

constexpr const char* kPreprocessor = "preprocessor_config.json";

Json default_image_processor(const Config& config) {
  const Config vision = config.has("vision_config") ? config.get_object("vision_config") : config;
  const auto [height, width] = vision.get_pair("image_size", 224);
  const Family* family = find_family(config);
  if (family && *family->processors.image_processor == "CLIP")
    return {{"image_processor_type", "CLIPImageProcessor"},
            {"size", {{"shortest_edge", height}}},
            {"crop_size", {{"height", height}, {"width", width}}}};
  return {{"image_processor_type", "ViTImageProcessor"}, {"size", {{"height", height}, {"width", width}}}};
}

Json default_feature_extractor(const Config& config) {
  // Models whose features have group norms were trained without masks.
  const bool mask = config.get_string("feat_extract_norm", "group") == "layer";
  return {{"feature_extractor_type", "Wav2Vec2FeatureExtractor"},
          {"sampling_rate", 16000},
          {"do_normalize", true},
          {"return_attention_mask", mask}};
}

// name=value,name=value as PretrainedConfig.update_from_string takes them: fields that are there, of their types.
std::string with_overrides(const std::string& config, const std::optional<std::string>& overrides) {
  if (!overrides) return config;
  Json fields = parse_json(config, "config_name");
  for (const auto& [name, text] : name_values(*overrides, "config_overrides")) {
    if (!fields.is_object() || !fields.contains(name))
      fail(ErrorKind::kUsage, "--config_overrides: the configuration has no field {}", quoted(name));
    Json& field = fields[name];
    const std::optional<double> number = parse_double(text);
    const std::optional<bool> truth = parse_bool(text);
    const bool whole = number && *number == std::floor(*number) && std::abs(*number) < 1e15;
    if (field.is_boolean() && truth) field = *truth;
    else if (field.is_number_integer() && whole) field = static_cast<int64_t>(*number);
    else if (field.is_number_float() && number) field = *number;
    else if (field.is_string()) field = text;
    else
      fail(ErrorKind::kUsage, "--config_overrides: {} is {} in the configuration, found {}", name, field.type_name(),
           quoted(text));
  }
  return dump_json(fields);
}

}  // namespace

void copy_preprocessor(const fs::path& from, const fs::path& to) {
  for (const char* name : {kPreprocessor, "processor_config.json"})
    if (path_exists(from / name)) write_file(to / name, read_file(from / name));
}

void start_from_scratch(TrainArguments& arguments, Preprocessing preprocessing) {
  ScriptArguments& script = arguments.script;
  if (!script.model_name_or_path.empty() || !script.config_name) return;
  const fs::path directory = fs::path(arguments.training.output_dir) / "new_model";
  // Its head was made for the configuration's classes, not for those of the data.
  if (preprocessing != Preprocessing::kTokenizer) script.ignore_mismatched_sizes = true;
  const bool anew = script.overwrite_output_dir && !arguments.training.resume_from_checkpoint;
  if (anew || !path_exists(directory / "model.safetensors")) {
    fs::path file(*script.config_name);
    if (directory_exists(file)) file /= "config.json";
    const bool text = preprocessing == Preprocessing::kTokenizer;
    const bool images = preprocessing == Preprocessing::kImages || preprocessing == Preprocessing::kTokenizerAndImages;
    const auto model = Model::from_config(
        with_overrides(read_file(file), script.config_overrides),
        {.task = text ? "feature-extraction" : "", .seed = static_cast<uint64_t>(arguments.training.seed)});
    if (text || preprocessing == Preprocessing::kTokenizerAndImages)
      Tokenizer::from_pretrained(script.tokenizer_name.value_or(*script.config_name))
          .save_pretrained(directory.string());
    if (images || preprocessing == Preprocessing::kSounds) {
      make_directories(directory);
      const auto& given = images ? script.image_processor_name : script.feature_extractor_name;
      const fs::path from = given ? fs::path(*given) : file.parent_path();
      copy_preprocessor(from, directory);
      if (images ? !ImageProcessor::is_in(directory) : !path_exists(directory / kPreprocessor))
        write_file(directory / kPreprocessor, dump_json(images ? default_image_processor(model->config())
                                                               : default_feature_extractor(model->config()),
                                                        2) +
                                                  "\n");
    }
    model->save_pretrained(directory.string());
  }
  script.model_name_or_path = directory.string();
}

}  // namespace transom
