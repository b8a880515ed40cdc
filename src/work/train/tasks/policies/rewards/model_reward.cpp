// SPDX-License-Identifier: Apache-2.0
// A reward model: one number of a head over the whole text.
#include <algorithm>
#include <memory>

#include "base/error.h"
#include "base/files/directories.h"
#include "base/json/json.h"
#include "files/config/config.h"
#include "inputs/data/text/padding.h"
#include "transom/gradients.h"
#include "transom/model.h"
#include "transom/ops.h"
#include "transom/tokenizer.h"
#include "work/generation/image_text/chat_parts.h"
#include "work/train/loop/model_inputs.h"
#include "work/train/tasks/policies/rewards/rewards.h"

namespace transom {
namespace {

constexpr size_t kRewardedAtOnce = 16;

struct RewardModel {
  std::unique_ptr<Model> model;
  Tokenizer tokenizer;

  std::vector<std::optional<double>> score(const RewardRequest& request) const {
    std::vector<Features> rows;
    for (size_t i = 0; i < request.completions.size(); ++i) {
      std::string text = request.prompts[i] + request.completions[i];
      if (request.is_chat) {
        Json messages = parse_json(request.prompts[i], "a prompt");
        messages.push_back({{"role", "assistant"}, {"content", request.completions[i]}});
        text = tokenizer.apply_chat_template(dump_json(fitting_texts(messages, tokenizer, {})), {});
      }
      Features features;
      features.sequences["input_ids"] = tokenizer.encode(text, std::nullopt, {.add_special_tokens = false}).ids;
      require(!features.sequences["input_ids"].empty(), "a reward model reads an empty text");
      rows.push_back(std::move(features));
    }
    PaddingOptions padding;
    padding.pad_token_id = model->config().get_int("pad_token_id", 0);
    std::vector<std::optional<double>> rewards;
    const NoGradient only_numbers;
    for (size_t begin = 0; begin < rows.size(); begin += kRewardedAtOnce) {
      const size_t end = std::min(rows.size(), begin + kRewardedAtOnce);
      const NamedTensors inputs = to_inputs(collate(std::span(rows).subspan(begin, end - begin), padding), *model);
      for (const float value : cast(model->forward(inputs).at("logits"), DType::kFloat32).to_vector<float>())
        rewards.emplace_back(value);
    }
    return rewards;
  }
};

}  // namespace

Reward model_reward(const std::string& directory) {
  const auto loaded = std::make_shared<RewardModel>(RewardModel{
      Model::from_pretrained(directory, {.task = "text-classification"}), Tokenizer::from_pretrained(directory)});
  if (loaded->model->labels().size() > 1)
    fail(ErrorKind::kUsage, "--reward_funcs: {}: expected a model with one number as its head, found {} classes",
         directory, loaded->model->labels().size());
  // Where a row ends is found by its padding.
  if (Config& config = loaded->model->config(); config.get_json("pad_token_id") == "null") {
    const auto pad =
        loaded->tokenizer.pad_token_id() ? loaded->tokenizer.pad_token_id() : loaded->tokenizer.eos_token_id();
    require(pad.has_value(), "{}: expected a tokenizer with a padding token or an end token, found neither", directory);
    config.set_json("pad_token_id", std::to_string(*pad));
  }
  fs::path path(directory);
  if (path.filename().empty()) path = path.parent_path();
  return {path.filename().string(), [loaded](const RewardRequest& request) { return loaded->score(request); }};
}

}  // namespace transom
