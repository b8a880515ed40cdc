// SPDX-License-Identifier: Apache-2.0
// document-question-answering: a model that reads a page without another's reading of its words (Donut) writes the
// answer to a question, between tags; one that is given words and boxes finds it among them (page_questions.h).
#include "base/error.h"
#include "base/json/json.h"
#include "files/hub/resolve.h"
#include "models/generative.h"
#include "work/pipelines/generation/generation_model.h"
#include "work/pipelines/image_text/asked_picture.h"
#include "work/pipelines/image_text/page_questions.h"
#include "work/pipelines/image_text/tagged_fields.h"
#include "work/pipelines/images/image_model.h"

namespace transom {
namespace {

constexpr std::string_view kAnswerBegins = "<s_answer>", kAnswerEnds = "</s_answer>";

// What stands between the first <s_answer> of a line and the line's last </s_answer>.
std::optional<std::string> answer_in(const std::string& text) {
  for (size_t at = text.find(kAnswerBegins); at != text.npos; at = text.find(kAnswerBegins, at + 1)) {
    const size_t begin = at + kAnswerBegins.size();
    const std::string line = text.substr(begin, text.find('\n', begin) - begin);
    if (const size_t end = line.rfind(kAnswerEnds); end != line.npos) return line.substr(0, end);
  }
  return std::nullopt;
}

class DocumentQuestionAnswering : public Pipeline {
 public:
  DocumentQuestionAnswering(GenerationModel model, ImageProcessor processor)
      : model_(std::move(model)), processor_(std::move(processor)) {
    const auto* writer = dynamic_cast<const GenerativeModel*>(model_.model.get());
    if (!writer || !writer->has_encoder() || !writer->begins_as_given())
      fail(ErrorKind::kUnsupported, "{} answers no questions about documents: expected a Donut",
           model_.model->architecture());
  }
  Model* model() const override { return model_.model.get(); }

  // One answer for each question.
  std::vector<TaskResult> run(const std::vector<TaskInput>& inputs, const TaskOptions& options) const override {
    for (const TaskParameter& of_words : page_question_parameters())
      refuse_without_effect(options, {of_words.name}, "on a model that reads the page itself");
    TaskOptions generating = options;
    generating.erase("top_k");  // of answers
    if (const int64_t top = int_option(options, "top_k", 1); top < 1)
      fail(ErrorKind::kUsage, "top_k: expected a number of answers above 0, found {}", top);
    const GenerationConfig config = model_.config_for(generating, Json{{"max_new_tokens", 256}});
    std::vector<TaskResult> results;
    for (const TaskInput& input : inputs) {
      const AskedPicture asked = asked_picture(input);
      const ImageProcessor::Pixels image = processor_(image_of(*asked.picture));
      const TokenIds prompt =
          model_.tokenizer
              .encode(fmt::format("<s_docvqa><s_question>{}</s_question>{}", *asked.question, kAnswerBegins),
                      std::nullopt, {.add_special_tokens = false})
              .ids;
      const GenerationOutput output =
          generate(*model_.model,
                   {{"pixel_values", pixel_values({&image, 1})},
                    {"decoder_input_ids", Tensor::from(prompt, {1, static_cast<int64_t>(prompt.size())})}},
                   config, {.streamer = nullptr, .tokenizer = &model_.tokenizer});
      results.emplace_back(std::vector<AnswerSpan>{answer_of(output.sequences.at(0))});
    }
    return results;
  }

 private:
  AnswerSpan answer_of(const TokenIds& ids) const {
    const std::optional<std::string> answer = answer_in(tagged_text(ids, model_.tokenizer));
    AnswerSpan span = written_answer(answer.value_or(""));
    span.is_there = answer.has_value();
    return span;
  }

  GenerationModel model_;
  ImageProcessor processor_;
};

TaskParameters document_question_answering_parameters() {
  TaskParameters own = page_question_parameters();
  own.insert(own.begin(), {"top_k", TaskParameter::Type::kInteger, "number of answers to return, at most", "1"});
  return generation_parameters(std::move(own));
}

std::unique_ptr<Pipeline> load_document_question_answering(const std::string& directory, const LoadOptions& options,
                                                           const std::string& /*task*/) {
  if (answers_from_words(directory)) return make_page_questions(directory, options);
  return std::make_unique<DocumentQuestionAnswering>(GenerationModel::load(directory, options),
                                                     ImageProcessor::from_pretrained(directory_of_model(directory)));
}

constexpr TaskRecord kDocumentQuestionAnswering{.name = "document-question-answering",
                                                .example = "--image page.png --question \"What is the total?\"",
                                                .takes_images = true,
                                                .text_name = "question",
                                                .result = ResultKind::kAnswers,
                                                .parameters = document_question_answering_parameters,
                                                .load = load_document_question_answering};
const RegisterTask kRegisterDocumentQuestionAnswering(kDocumentQuestionAnswering);

}  // namespace
}  // namespace transom
