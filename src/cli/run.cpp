// SPDX-License-Identifier: Apache-2.0
// transom run: the pipeline of a task on inputs from the command line, standard input, or a file of requests.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <list>

#include "audio/sound.h"
#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "cli/command.h"
#include "generation/generation_fields.h"
#include "images/image.h"
#include "pipelines/pipeline.h"

namespace transom {
namespace {

struct Options {
  std::string task, model;
  std::vector<std::string> inputs;
  std::optional<std::string> requests, question, context, candidate_labels, aggregation_strategy, function_to_apply,
      pooling, hypothesis_template, source_sentence, top_k, return_timestamps;
  double chunk_length_s = 0;
  int64_t batch_size = 1;
  bool json = false, multi_label = false, pool = false;
  std::optional<std::string> return_full_text, stride_length_s, generate_kwargs;
  // Fields of GenerationConfig, for the tasks that write; a list, because options point into it.
  std::list<std::pair<std::string, std::optional<std::string>>> generation;
  ModelOptions source;
  DeviceOptions device;
  PrecisionOptions numbers;
};

Json parameters_of(const Options& o) {
  Json p = Json::object();
  const auto text = [&](const char* name, const std::optional<std::string>& value) {
    if (value) p[name] = *value;
  };
  text("candidate_labels", o.candidate_labels);
  text("aggregation_strategy", o.aggregation_strategy);
  text("function_to_apply", o.function_to_apply);
  text("pooling", o.pooling);
  text("hypothesis_template", o.hypothesis_template);
  if (o.return_timestamps) {  // the flag alone: of segments
    const std::string& word = *o.return_timestamps == "-" ? "true" : *o.return_timestamps;
    p["return_timestamps"] = word == "true" || word == "True" ? Json(true) : Json(word);
  }
  if (o.return_full_text) p["return_full_text"] = generation_value("", *o.return_full_text);
  if (o.stride_length_s) p["stride_length_s"] = generation_value("", *o.stride_length_s);
  if (o.generate_kwargs) p["generate_kwargs"] = parse_json(*o.generate_kwargs, "--generate_kwargs");
  for (const auto& [name, word] : o.generation)
    if (word) p[name] = generation_value(name, *word == "-" ? "true" : *word);
  if (o.batch_size != 1) p["batch_size"] = o.batch_size;
  if (o.chunk_length_s > 0) p["chunk_length_s"] = o.chunk_length_s;
  if (o.multi_label) p["multi_label"] = true;
  if (o.pool) p["pool"] = true;
  if (o.top_k) {
    if (*o.top_k == "None" || *o.top_k == "none" || *o.top_k == "null") p["top_k"] = nullptr;
    else {
      const Json number = Json::parse(*o.top_k, nullptr, false);
      if (!number.is_number_integer())
        fail(ErrorKind::kUsage, "--top_k: expected a whole number or none, found {}", quoted(*o.top_k));
      p["top_k"] = number;
    }
  }
  return p;
}

// What a task wrote: {"generated_text": "..."} and its like.
const std::string* written_text(const Json& result) {
  if (!result.is_object() || result.empty() || result.size() > 2) return nullptr;
  const std::string& name = result.begin().key();
  const Json& value = result.begin().value();
  return (name == "text" || name.ends_with("_text")) && value.is_string() ? value.get_ptr<const std::string*>()
                                                                          : nullptr;
}

// A result for people: labels and scores in columns, else the JSON.
void show(const Json& result, const std::string& indent = "") {
  if (result.is_array() && !result.empty() && result[0].is_object()) {
    for (const Json& item : result) show(item, indent + "  ");
  } else if (result.is_object() && result.contains("label")) {
    std::puts(fmt::format("{}{:<24} {:.4f}", indent, result["label"].get<std::string>(), result["score"].get<double>())
                  .c_str());
  } else if (result.is_object() && result.contains("answer")) {
    std::puts(fmt::format("{}{:<40} {:.4f}", indent, result["answer"].get<std::string>(), result["score"].get<double>())
                  .c_str());
  } else if (result.is_object() && result.contains("sequence") && result.contains("token_str")) {
    std::puts(fmt::format("{}{:<16} {:.4f}  {}", indent, result["token_str"].get<std::string>(),
                          result["score"].get<double>(), result["sequence"].get<std::string>())
                  .c_str());
  } else if (const std::string* written = written_text(result)) {
    std::puts(written->c_str());
  } else {
    std::puts((indent + dump_json(result)).c_str());
  }
}

// Sentences by falling score.
void show_ranking(const std::vector<std::string>& sentences, const Json& scores) {
  std::vector<std::pair<double, std::string>> ranking;
  for (size_t i = 0; i < sentences.size(); ++i) ranking.emplace_back(scores[i].get<double>(), sentences[i]);
  std::stable_sort(ranking.begin(), ranking.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  for (const auto& [score, sentence] : ranking) std::puts(fmt::format("  {:.4f}  {}", score, sentence).c_str());
}

template <typename Line>
void for_each_line(std::string_view text, Line&& line) {
  for (size_t number = 1; !text.empty(); ++number) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view one = text.substr(0, end);
    if (!one.empty() && one.back() == '\r') one.remove_suffix(1);
    line(one, number);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

// A text or a file; each line of standard input for "-"; each image or sound of a folder.
void add_input(const Pipeline& pipeline, const std::string& input, std::vector<Json>& inputs) {
  if (input == "-") {
    for (std::string line; std::getline(std::cin, line);) inputs.push_back(line);
  } else if ((pipeline.takes_images() || pipeline.takes_audio()) && std::filesystem::is_directory(input)) {
    std::vector<std::string> files;
    for (const auto& entry : std::filesystem::directory_iterator(input))
      if (pipeline.takes_images() ? is_image_name(entry.path()) : is_sound_name(entry.path()))
        files.push_back(entry.path().string());
    std::sort(files.begin(), files.end());
    inputs.insert(inputs.end(), files.begin(), files.end());
  } else {
    inputs.push_back(input);
  }
}

int run(const Options& options) {
  options.device.apply();
  LoadOptions load;
  options.numbers.apply_to(load);
  const auto pipeline = make_pipeline(options.task, options.model, options.source.hub(), load);
  const Json parameters = parameters_of(options);
  if (options.requests) {
    const auto file = MappedFile::open(*options.requests);
    for_each_line(file->text(), [&](std::string_view line, size_t number) {
      if (line.find_first_not_of(" \t") == line.npos) return;
      const std::string where = fmt::format("{}: line {}", *options.requests, number);
      const Json request = parse_json(line, where);
      if (!request.is_object() || !request.contains("inputs")) fail("{}: expected an object with \"inputs\"", where);
      Json all = parameters;
      if (request.contains("parameters")) {
        if (!request["parameters"].is_object()) fail("{}: parameters: expected an object", where);
        all.update(request["parameters"]);
      }
      Json result;
      const Json& inputs = request["inputs"];
      if (inputs.is_array() && !pipeline->is_one_input(inputs)) {
        result = pipeline->joined(run_pipeline(*pipeline, std::vector<Json>(inputs.begin(), inputs.end()), all));
      } else result = run_pipeline(*pipeline, inputs, all);
      std::puts(dump_json(result).c_str());
      std::fflush(stdout);
    });
    return 0;
  }
  std::vector<Json> inputs;
  if (options.question || options.context)
    inputs.push_back({{"question", options.question.value_or("")}, {"context", options.context.value_or("")}});
  if (options.source_sentence)
    inputs.push_back({{"source_sentence", *options.source_sentence}, {"sentences", options.inputs}});
  else
    for (const std::string& input : options.inputs) add_input(*pipeline, input, inputs);
  if (inputs.empty())
    fail(ErrorKind::kUsage, "there is nothing to run on: give texts, - for standard input, or --requests FILE");
  const std::vector<Json> results = inputs.size() == 1 ? std::vector{run_pipeline(*pipeline, inputs[0], parameters)}
                                                       : run_pipeline(*pipeline, inputs, parameters);
  if (options.json) std::puts(dump_json(results.size() == 1 ? results[0] : Json(results)).c_str());
  else if (options.source_sentence) show_ranking(options.inputs, results[0]);
  else
    for (const Json& result : results) show(result);
  return 0;
}

}  // namespace

Command run_command() {
  static Options o;
  Command command{
      .name = "run",
      .help = "Run a model on texts, images or sounds: the pipeline of a task",
      .examples =
          "  transom run text-classification --model MODEL \"What a film!\"\n"
          "  transom run fill-mask --model MODEL \"Paris is the [MASK] of France.\" --top_k 3\n"
          "  transom run question-answering --model MODEL --question \"Who?\" --context \"Ada wrote it.\"\n"
          "  transom run sentence-similarity --model MODEL --source_sentence \"A cat sat.\" \"A dog lay.\" \"Rain.\"\n"
          "  transom run image-classification --model MODEL cat.png folder/\n"
          "  transom run automatic-speech-recognition --model MODEL speech.flac --chunk_length_s 20\n"
          "  transom run feature-extraction --model MODEL --pooling auto - < sentences.txt --json"};
  command.options = {
      {"task", &o.task, fmt::format("{}", fmt::join(pipeline_tasks(), ", ")), true},
      {"inputs", &o.inputs, "texts, or files and folders of images or sounds; - reads one a line from standard input"},
      {"--model", &o.model, kModelHelp, true},
      {"--requests", &o.requests, "JSON lines {\"inputs\": ..., \"parameters\": {...}}; one result a line"},
      {"--json", &o.json, "the structure that Transformers' pipeline() returns"},
      {"--batch_size", &o.batch_size, "how many inputs go through the model at once"},
      {"--top_k", &o.top_k, "how many results; none for all"},
      {"--function_to_apply", &o.function_to_apply, "softmax, sigmoid or none"},
      {"--aggregation_strategy", &o.aggregation_strategy, "none, simple, first, max or average"},
      {"--question", &o.question, "of question-answering"},
      {"--context", &o.context, "of question-answering"},
      {"--source_sentence", &o.source_sentence, "of sentence-similarity: what the inputs are compared with"},
      {"--candidate_labels", &o.candidate_labels, "of the zero-shot tasks, with commas between"},
      {"--hypothesis_template", &o.hypothesis_template, "of the zero-shot tasks"},
      {"--multi_label", &o.multi_label, "of zero-shot-classification: labels do not exclude each other"},
      {"--pooling", &o.pooling, "of feature-extraction: none, auto, mean or cls"},
      {"--pool", &o.pool, "of image-feature-extraction: the pooled output"},
      {.name = "--return_timestamps",
       .value = &o.return_timestamps,
       .help = "of automatic-speech-recognition: char or word; alone: of segments (Whisper)",
       .value_optional = true},
      {"--stride_length_s", &o.stride_length_s, "of automatic-speech-recognition: seconds that chunks share"},
      {"--generate_kwargs", &o.generate_kwargs, "options of generate() as JSON: {\"num_beams\": 4}"},
      {"--return_full_text", &o.return_full_text, "of text-generation: false leaves the prompt out"},
      {"--chunk_length_s", &o.chunk_length_s, "of automatic-speech-recognition: seconds that go through at once"}};
  o.generation.clear();
  for (const GenerationField& field : generation_fields()) {
    const std::string flag = "--" + std::string(field.name);
    if (field.name == "top_k" || field.help.empty()) continue;
    auto& [name, word] = o.generation.emplace_back(field.name, std::nullopt);
    command.options.push_back({.name = flag,
                               .value = &word,
                               .help = "of tasks that write: " + std::string(field.help),
                               .value_optional = field.is_flag});
  }
  o.source.add_to(command);
  o.device.add_to(command);
  o.numbers.add_to(command);
  command.run = [] { return run(o); };
  return command;
}

}  // namespace transom
