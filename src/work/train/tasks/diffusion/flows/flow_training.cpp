// SPDX-License-Identifier: Apache-2.0
#include "work/train/tasks/diffusion/flows/flow_training.h"

#include <algorithm>
#include <cctype>
#include <charconv>

#include "base/error.h"
#include "files/config/config.h"
#include "models/records.h"

namespace transom {
namespace {

constexpr double kRateOfFlows = 1e-4, kDecayOfFlows = 1e-4, kAlphaOfFlux = 4;
constexpr size_t kMostBlocksNamed = 1000;

// As the scripts write lists: names with commas between them. What is no name, as a regular expression, stays.
std::vector<std::string> without_commas(const std::vector<std::string>& words) {
  const auto is_of_names = [](unsigned char c) { return std::isalnum(c) || c == '_' || c == '.' || c == ','; };
  std::vector<std::string> names;
  for (const std::string& word : words) {
    if (!std::ranges::all_of(word, is_of_names)) {
      names.push_back(word);
      continue;
    }
    for (size_t begin = 0; begin <= word.size();) {
      const size_t end = std::min(word.find(',', begin), word.size());
      if (end > begin) names.push_back(word.substr(begin, end - begin));
      begin = end + 1;
    }
  }
  return names;
}

// Each module of each block, as PEFT finds names by their ends.
std::vector<std::string> modules_of_blocks(const std::vector<std::string>& blocks,
                                           const std::vector<std::string>& modules) {
  if (blocks.size() > kMostBlocksNamed)
    fail(ErrorKind::kUsage, "--lora_blocks: expected at most {}, found {}", kMostBlocksNamed, blocks.size());
  std::vector<std::string> names;
  for (const std::string& block : blocks) {
    int64_t number = 0;
    const char* const end = block.data() + block.size();
    const auto read = std::from_chars(block.data(), end, number);
    if (read.ec != std::errc() || read.ptr != end || number < 0)
      fail(ErrorKind::kUsage, "--lora_blocks: expected numbers of blocks, found {}", quoted(block, 40));
    for (const std::string& module : modules) names.push_back(fmt::format("transformer_blocks.{}.{}", number, module));
  }
  return names;
}

}  // namespace

LatentDefaults flow_training_defaults(TrainArguments& arguments, const LatentDefaults& given) {
  ScriptArguments& script = arguments.script;
  if (!is_pipeline_directory(script.model_name_or_path)) return given;
  const PipelineDirectory directory(script.model_name_or_path);
  const FlowPipeline* flow = find_flow_pipeline(directory.class_name());
  if (!flow) return given;
  script.lora_target_modules = without_commas(script.lora_target_modules);
  if (!script.lora_blocks.empty()) {
    std::vector<std::string> modules = script.lora_target_modules;
    if (modules.empty()) {
      const fs::path folder = directory.folder("transformer", std::string(flow->network));
      modules = *find_family(Config::read(folder / "config.json"))->weights.lora_targets;
    }
    script.lora_target_modules = modules_of_blocks(without_commas(script.lora_blocks), modules);
  }
  LatentDefaults own = given;
  own.learning_rate = kRateOfFlows;
  own.weight_decay = kDecayOfFlows;
  if (flow->packs) own.lora_alpha = kAlphaOfFlux;  // whatever the rank
  return own;
}

void expect_arguments_of(const ScriptArguments& script, const FlowPipeline* flow, const std::string& pipeline) {
  const ScriptArguments usual;
  const auto refuse = [&](const char* name, bool is_given) {
    if (is_given) fail(ErrorKind::kUsage, "--{}: has no effect on a {}; leave it out", name, pipeline);
  };
  if (flow) {
    refuse("prediction_type", script.prediction_type.has_value());
    refuse("snr_gamma", script.snr_gamma.has_value());
    refuse("noise_offset", script.noise_offset != 0);
    refuse("input_perturbation", script.input_perturbation != 0);
    refuse("dream_training", script.dream_training);
    refuse("timestep_bias_strategy", script.timestep_bias_strategy != usual.timestep_bias_strategy);
  } else {
    refuse("weighting_scheme", script.weighting_scheme.has_value());
    refuse("max_sequence_length", script.max_sequence_length.has_value());
    refuse("lora_blocks", !script.lora_blocks.empty());
  }
  const std::string scheme = script.weighting_scheme.value_or(flow && !flow->packs ? "logit_normal" : "none");
  refuse("logit_mean", script.logit_mean != usual.logit_mean && scheme != "logit_normal");
  refuse("logit_std", script.logit_std != usual.logit_std && scheme != "logit_normal");
  refuse("mode_scale", script.mode_scale != usual.mode_scale && scheme != "mode");
  refuse("guidance_scale", script.guidance_scale != usual.guidance_scale && !(flow && flow->packs));
  refuse("precondition_outputs", !script.precondition_outputs && (!flow || flow->packs));
}

}  // namespace transom
