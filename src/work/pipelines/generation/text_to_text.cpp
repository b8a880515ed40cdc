// SPDX-License-Identifier: Apache-2.0
// text2text-generation, summarization and translation: an encoder-decoder writes a text about another.
#include "base/error.h"
#include "base/json/json.h"
#include "files/config/config.h"
#include "inputs/text/language_tokens.h"
#include "work/generation/prompts.h"
#include "work/pipelines/generation/generation_model.h"

namespace transom {
namespace {

// As Transformers' pipelines of these tasks have it.
const Json& text_to_text_defaults() {
  static const Json values{{"max_new_tokens", 256}, {"num_beams", 4}};
  return values;
}

class TextToText : public Pipeline {
 public:
  // `task` as it is named in task_specific_params.
  TextToText(GenerationModel model, const std::string& task)
      : model_(std::move(model)), languages_(LanguageTokens::of(model_.tokenizer)), task_(task) {
    const Json& config = json_of(model_.model->config());
    const Json none = Json::object();
    const Json& all = config.contains("task_specific_params") ? config["task_specific_params"] : none;
    const Json& own = all.is_object() && all.contains(task) && all[task].is_object() ? all[task] : none;
    model_.specialise(own);
    for (const Json* source : {&config, &own})
      if (const auto prefix = source->find("prefix"); prefix != source->end() && prefix->is_string())
        prefix_ = prefix->get<std::string>();
  }

  Model* model() const override { return model_.model.get(); }

  // One text for each returned sequence.
  std::vector<TaskResult> run(const std::vector<TaskInput>& inputs, const TaskOptions& options) const override {
    GenerationConfig config = model_.config_for(options, text_to_text_defaults());
    const std::optional<int64_t> source = language(options, "src_lang"), target = language(options, "tgt_lang");
    if (target) config.forced_bos_token_id = *target;
    if (!flag_option(options, "return_text", true) && !flag_option(options, "return_tensors", false))
      fail(ErrorKind::kUsage, "return_text: false has no effect without return_tensors true");
    std::vector<TaskResult> results;
    for (const TaskInput& input : inputs)
      results.emplace_back(written(text_input(input).text, source, config, options));
    return results;
  }

 private:
  // The token of a language that a parameter names.
  std::optional<int64_t> language(const TaskOptions& options, const char* parameter) const {
    const std::string code = is_given(options, parameter) ? text_option(options, parameter, "") : "";
    if (!languages_ && !code.empty())
      fail("parameter {}: this model's tokenizer knows no languages; name the task translation_xx_to_yy", parameter);
    if (languages_ && code.empty() && task_ == "translation")
      fail("parameter {}: expected a language: the translation task of this model needs src_lang and tgt_lang",
           parameter);
    if (code.empty()) return {};
    return languages_->id_of(code, fmt::format("parameter {}", parameter));
  }

  TokenIds ids_of(const std::string& text, std::optional<int64_t> source, const EncodeOptions& encode) const {
    Encoding encoding = model_.tokenizer.encode(text, std::nullopt, encode);
    if (source) languages_->put(encoding, *source);
    return encoding.ids;
  }

  std::vector<WrittenText> written(const std::string& text, std::optional<int64_t> source,
                                   const GenerationConfig& config, const TaskOptions& options) const {
    EncodeOptions encode;
    if (truncates(options)) {
      encode.truncation = Truncation::kLongestFirst;
      encode.max_length = model_.tokenizer.model_max_length();
    }
    const TokenIds ids = ids_of(prefix_ + text, source, encode);
    const GenerationOutput output =
        generate(*model_.model, prompts_of(std::span(&ids, 1), *model_.model, model_.tokenizer), config,
                 {.streamer = nullptr, .tokenizer = &model_.tokenizer});
    const bool tensors = flag_option(options, "return_tensors", false);
    std::optional<bool> clean;
    if (options.contains("clean_up_tokenization_spaces"))
      clean = flag_option(options, "clean_up_tokenization_spaces", false);
    std::vector<WrittenText> texts;
    for (const TokenIds& row : output.sequences)
      if (tensors) texts.emplace_back(row);
      else texts.emplace_back(model_.tokenizer.decode(row, true, clean));
    return texts;
  }

  static bool truncates(const TaskOptions& options) {
    if (!is_given(options, "truncation")) return false;
    // Of one text both other words say the same.
    if (const auto* word = std::get_if<std::string>(options.find("truncation"))) return *word != "do_not_truncate";
    return flag_option(options, "truncation", false);
  }

  GenerationModel model_;
  std::optional<LanguageTokens> languages_;
  std::string task_, prefix_;
};

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
      {"src_lang", TaskParameter::Type::kText,
       "the language of the text, of models of many (NLLB, mBART): eng_Latn; others name the task "
       "translation_xx_to_yy"},
      {"tgt_lang", TaskParameter::Type::kText, "the language to write, likewise: fra_Latn"},
  });
}

std::unique_ptr<Pipeline> load_text_to_text(const std::string& directory, const LoadOptions& options,
                                            const std::string& task) {
  return std::make_unique<TextToText>(GenerationModel::load(directory, options), task);
}

// In a list of texts each of which has one result, that result stands for itself.
bool is_one_of_list(const TaskOptions& /*options*/, const CallForm& form) { return !form.alone; }

constexpr TaskRecord kText2TextGeneration{.name = "text2text-generation",
                                          .example = "\"translate English to German: Good morning.\"",
                                          .result = ResultKind::kTexts,
                                          .json = {.unwraps = is_one_of_list},
                                          .parameters = text_to_text_parameters,
                                          .load = load_text_to_text};
constexpr TaskRecord kSummarization{.name = "summarization",
                                    .example = "--max_new_tokens 60 \"$(cat article.txt)\"",
                                    .result = ResultKind::kTexts,
                                    .json = {.written = "summary", .unwraps = is_one_of_list},
                                    .parameters = text_to_text_parameters,
                                    .load = load_text_to_text};
// translation_en_to_fr is one of the tasks that config.json keeps a prefix for.
constexpr TaskRecord kTranslation{
    .name = "translation",
    .is_variant =
        [](std::string_view name) { return name.starts_with("translation_") && name.find("_to_") != name.npos; },
    .example = "\"Good morning.\"",
    .result = ResultKind::kTexts,
    .json = {.written = "translation", .unwraps = is_one_of_list},
    .parameters = text_to_text_parameters,
    .load = load_text_to_text};
const RegisterTask kRegisterText2Text(kText2TextGeneration), kRegisterSummarization(kSummarization),
    kRegisterTranslation(kTranslation);

}  // namespace
}  // namespace transom
