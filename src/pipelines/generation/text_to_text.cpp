// SPDX-License-Identifier: Apache-2.0
// text2text-generation, summarization and translation: an encoder-decoder writes a text about another.
#include "base/error.h"
#include "base/json/json.h"
#include "generation/prompts.h"
#include "io/config.h"
#include "pipelines/generation/generation_model.h"

namespace transom {
namespace {

// As Transformers' pipelines of these tasks have it.
const Json& text_to_text_defaults() {
  static const Json values{{"max_new_tokens", 256}, {"num_beams", 4}};
  return values;
}

class TextToText : public Pipeline {
 public:
  // `task` as it is named in task_specific_params; results are called `name`_text.
  TextToText(GenerationModel model, const std::string& task, std::string name)
      : model_(std::move(model)), name_(std::move(name)) {
    const Json& config = json_of(model_.model->config());
    const Json none = Json::object();
    const Json& all = config.contains("task_specific_params") ? config["task_specific_params"] : none;
    const Json& own = all.is_object() && all.contains(task) && all[task].is_object() ? all[task] : none;
    model_.specialise(own);
    for (const Json* source : {&config, &own})
      if (const auto prefix = source->find("prefix"); prefix != source->end() && prefix->is_string())
        prefix_ = prefix->get<std::string>();
  }

  TaskParameters parameters() const override { return text_to_text_parameters(); }
  Model* model() const override { return model_.model.get(); }

  // [{"generated_text"}], [{"summary_text"}] or [{"translation_text"}], one for each returned sequence.
  Json run(const Json& input, const Json& parameters) const override {
    for (const char* name : {"src_lang", "tgt_lang"})
      if (parameters.contains(name) && !parameters[name].is_null())
        fail("parameter {}: this model's tokenizer knows no languages; name the task translation_xx_to_yy", name);
    if (!bool_parameter(parameters, "return_text", true) && !bool_parameter(parameters, "return_tensors", false))
      fail(ErrorKind::kUsage, "return_text: false has no effect without return_tensors true");
    const GenerationConfig config = model_.config_for(parameters, text_to_text_defaults());
    EncodeOptions encode;
    if (truncates(parameters)) {
      encode.truncation = Truncation::kLongestFirst;
      encode.max_length = model_.tokenizer.model_max_length();
    }
    const TokenIds ids = model_.tokenizer.encode(prefix_ + text_input(input), std::nullopt, encode).ids;
    const GenerationOutput output =
        generate(*model_.model, prompts_of(std::span(&ids, 1), *model_.model, model_.tokenizer), config,
                 {.streamer = nullptr, .tokenizer = &model_.tokenizer});
    const bool tensors = bool_parameter(parameters, "return_tensors", false);
    std::optional<bool> clean;
    if (const auto found = parameters.find("clean_up_tokenization_spaces"); found != parameters.end())
      clean = bool_parameter(parameters, "clean_up_tokenization_spaces", false);
    Json results = Json::array();
    for (const TokenIds& row : output.sequences)
      if (tensors) results.push_back({{name_ + "_token_ids", row}});
      else results.push_back({{name_ + "_text", model_.tokenizer.decode(row, true, clean)}});
    return results;
  }

  // Where each text has one result, the list holds the results themselves.
  std::vector<Json> run_all(const std::vector<Json>& inputs, const Json& parameters) const override {
    std::vector<Json> results = Pipeline::run_all(inputs, parameters);
    for (const Json& result : results)
      if (result.size() != 1) return results;
    for (Json& result : results) result = Json(result[0]);
    return results;
  }

 private:
  static bool truncates(const Json& parameters) {
    const auto found = parameters.find("truncation");
    if (found == parameters.end() || found->is_null()) return false;
    if (found->is_string()) return *found != "do_not_truncate";  // of one text both other words say the same
    return bool_parameter(parameters, "truncation", false);
  }

  GenerationModel model_;
  std::string name_, prefix_;
};

}  // namespace

TaskParameters text_to_text_parameters() {
  return generation_parameters({
      {"return_text", TaskParameter::Type::kFlag, "false: return token ids, with return_tensors", "true"},
      {"return_tensors", TaskParameter::Type::kFlag, "return token ids", "false"},
      {"clean_up_tokenization_spaces", TaskParameter::Type::kFlag, "remove spaces before punctuation"},
      {"truncation",
       TaskParameter::Type::kFlagOrWord,
       "cut texts that are longer than the model takes",
       "",
       {"longest_first", "only_first", "do_not_truncate"}},
      {"src_lang", TaskParameter::Type::kText, "refused: name the task translation_xx_to_yy"},
      {"tgt_lang", TaskParameter::Type::kText, "refused: name the task translation_xx_to_yy"},
  });
}

std::unique_ptr<Pipeline> make_text_to_text(const std::string& task, const std::string& directory,
                                            const LoadOptions& options) {
  const std::string name = task == "summarization"           ? "summary"
                           : task.starts_with("translation") ? "translation"
                                                             : "generated";
  return std::make_unique<TextToText>(GenerationModel::load(directory, options), task, name);
}

}  // namespace transom
