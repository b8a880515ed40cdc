// SPDX-License-Identifier: Apache-2.0
// transom run: the pipeline of a task on inputs from the command line, standard input, a file of texts, or a file of
// requests.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <list>

#include "base/error.h"
#include "base/files/files.h"
#include "base/json/json.h"
#include "cli/command.h"
#include "cli/options/inputs.h"
#include "cli/options/sharding_options.h"
#include "cli/output/results.h"
#include "cli/output/vectors.h"
#include "cli/remote/remote_server.h"
#include "pipelines/pipeline.h"
#include "transom/distributed.h"

namespace transom {
namespace {

struct RunArguments {
  std::string task, model;
  std::vector<std::string> inputs;
  std::optional<std::string> file, column, requests, question, context, source_sentence, output;
  int64_t batch_size = 1;
  bool json = false;
  // What the task declares; a list, because options point into it.
  std::list<std::pair<TaskParameter, std::optional<std::string>>> parameters;
  RemoteOptions remote;
  ModelOptions source;
  DeviceOptions device;
  PrecisionOptions precision;
  ShardingOptions sharding;
};

Json parameters_of(const RunArguments& o) {
  Json p = Json::object();
  for (const auto& [parameter, word] : o.parameters)
    if (word) p[parameter.name] = parameter_of_word(parameter, *word);
  if (o.batch_size != 1) p["batch_size"] = o.batch_size;
  return p;
}

void expect_keys(const Json& request, const std::string& where) {
  static const std::vector<std::string> known{"inputs", "parameters", "options"};  // the last one is for servers
  for (const auto& [name, value] : request.items())
    if (std::find(known.begin(), known.end(), name) == known.end())
      fail("{}: unknown key {}{} A request has \"inputs\" and \"parameters\"", where, quoted(name),
           did_you_mean(name, known));
}

void answer_requests(const Pipeline& pipeline, const std::string& path, const Json& parameters) {
  const auto file = MappedFile::open(path);
  for_each_line(file->text(), [&](std::string_view line, size_t number) {
    if (line.find_first_not_of(" \t") == line.npos) return;
    const std::string where = fmt::format("{}: line {}", path, number);
    const Json request = parse_json(line, where);
    if (!request.is_object() || !request.contains("inputs")) fail("{}: expected an object with \"inputs\"", where);
    expect_keys(request, where);
    Json all = parameters;
    if (request.contains("parameters")) {
      if (!request["parameters"].is_object()) fail("{}: parameters: expected an object", where);
      all.update(request["parameters"]);
    }
    Json result;
    const Json& inputs = request["inputs"];
    try {
      if (inputs.is_array() && !pipeline.is_one_input(inputs)) {
        result = pipeline.joined(run_pipeline(pipeline, std::vector<Json>(inputs.begin(), inputs.end()), all));
      } else result = run_pipeline(pipeline, inputs, all);
    } catch (const Error& error) {
      fail(error.kind(), "{}: {}", where, error.what());
    }
    if (process_rank() > 0) return;
    std::puts(dump_json(result).c_str());
    std::fflush(stdout);
  });
}

// The object that a question and its context, or a source sentence and others, are; null for other tasks. Flags that
// are missing are named.
Json input_of_flags(const RunArguments& o) {
  const InputKind kind = input_kind_of_task(o.task);
  if (kind == InputKind::kQuestion && o.inputs.empty() && !o.file) {
    if (!o.question) fail(ErrorKind::kUsage, "--question is missing");
    if (!o.context) fail(ErrorKind::kUsage, "--context is missing: the text that the answer is looked for in");
    return Json{{"question", *o.question}, {"context", *o.context}};
  }
  if (kind == InputKind::kQuestion)
    fail(ErrorKind::kUsage, "question-answering takes --question and --context, or --requests FILE, no other inputs");
  if (kind != InputKind::kSentences) return nullptr;
  if (!o.source_sentence)
    fail(ErrorKind::kUsage, "--source_sentence is missing: the sentence that the inputs are compared with");
  const std::vector<std::string> sentences = read_inputs(kind, o.inputs, o.file, o.column);
  if (sentences.empty()) fail(ErrorKind::kUsage, "sentences are missing: what --source_sentence is compared with");
  return Json{{"source_sentence", *o.source_sentence}, {"sentences", sentences}};
}

// Before the model is read, so that a wrong call costs nothing.
void expect_required(const RunArguments& o) {
  for (const auto& [parameter, word] : o.parameters)
    if (parameter.required && !word) fail(ErrorKind::kUsage, "--{} is missing: {}", parameter.name, parameter.help);
}

std::unique_ptr<Pipeline> pipeline_of(const RunArguments& options) {
  options.remote.refuse_local(options.source, options.device, options.precision);
  if (options.remote.server) return remote_pipeline(options.task, options.remote, options.model);
  options.device.apply();
  options.sharding.join();
  LoadOptions load;
  options.precision.apply_to(load);
  return make_pipeline(options.task, options.model, options.source.hub(), load);
}

// Processes that share a model compute the same passes, or wait for each other for ever.
void expect_shared_work(const RunArguments& options) {
  if (!options.sharding.any()) return;
  if (options.remote.server) fail(ErrorKind::kUsage, "--tp_size, --pp_size, --ep_size: not with --server");
  if (std::count(options.inputs.begin(), options.inputs.end(), "-") > 0)
    fail(ErrorKind::kUsage,
         "-: a launcher gives standard input to one process; use --file with --tp_size or --pp_size");
}

int answer(const RunArguments& options) {
  options.remote.expect_model(options.model);
  expect_shared_work(options);
  const InputKind kind = input_kind_of_task(options.task);  // refuses unknown tasks
  const Json parameters = parameters_of(options);
  if (options.requests && (options.file || options.column || !options.inputs.empty()))
    fail(ErrorKind::kUsage, "--requests: the file has the inputs; leave out {}",
         options.file     ? "--file"
         : options.column ? "--text_column_name"
                          : quoted(options.inputs.front()));
  if (options.output) {
    expect_vector_file(*options.output);
    if (options.requests || options.json)
      fail(ErrorKind::kUsage, "--output: not with {}", options.json ? "--json" : "--requests");
  }
  std::vector<std::string> names;  // what results are shown with
  std::vector<Json> inputs;
  // In a terminal each line is answered as it is typed.
  const bool dialogue = options.inputs == std::vector<std::string>{"-"} && !options.file && !options.requests &&
                        kind != InputKind::kQuestion && kind != InputKind::kSentences && !options.output &&
                        ::isatty(STDIN_FILENO);
  if (!options.requests) {
    expect_required(options);
    if (const Json input = input_of_flags(options); !input.is_null()) inputs.push_back(input);
    else if (!dialogue) names = read_inputs(kind, options.inputs, options.file, options.column);
    inputs.insert(inputs.end(), names.begin(), names.end());
    if (inputs.empty() && options.file) fail("{}: is empty: expected an input a line", *options.file);
    if (inputs.empty() && !dialogue)
      fail(ErrorKind::kUsage,
           "there is nothing to run on: give inputs, - for standard input, --file FILE or --requests FILE");
  }
  const auto pipeline = pipeline_of(options);
  options.sharding.expect_same("inputs", dump_json(Json{{"inputs", inputs}, {"parameters", parameters}}) +
                                             (options.requests ? read_file(*options.requests) : ""));
  std::optional<SpreadModel> spread;
  if (options.sharding.any()) spread.emplace(options.sharding, *pipeline->model());
  const bool speaks = process_rank() == 0;
  if (options.requests) {
    answer_requests(*pipeline, *options.requests, parameters);
    return 0;
  }
  if (dialogue) {
    for_each_input_line([&](const std::string& line) {
      const Json result = run_pipeline(*pipeline, Json(line), parameters);
      if (options.json) std::puts(dump_json(result).c_str());
      else show_result(result);
      std::fflush(stdout);
    });
    return 0;
  }
  if (options.output) {
    const std::vector<Json> results = run_pipeline(*pipeline, inputs, parameters);
    if (speaks) write_vectors(*options.output, results);
    return 0;
  }
  if (inputs.size() == 1) {
    const Json result = run_pipeline(*pipeline, inputs[0], parameters);
    if (!speaks) return 0;
    if (options.json) std::puts(dump_json(result).c_str());
    else if (kind == InputKind::kSentences) show_ranking(inputs[0]["sentences"], result);
    else show_result(result);
    return 0;
  }
  const std::vector<Json> results = run_pipeline(*pipeline, inputs, parameters);
  if (!speaks) return 0;
  if (options.json) {
    std::puts(dump_json(Json(results)).c_str());  // as pipeline() gives it for a list
    return 0;
  }
  for (size_t i = 0; i < inputs.size(); ++i) show_named_result(names[i], results[i]);
  return 0;
}

int run_task(const RunArguments& options) {
  const int status = answer(options);
  if (options.sharding.any()) leave_process_group();
  return status;
}

// Each task is shown with what it takes.
void add_task_options(Command& command, RunArguments& o) {
  const InputKind kind = input_kind_of_task(o.task);
  const auto add = [&](Option option) { command.options.push_back(std::move(option)); };
  if (kind == InputKind::kQuestion) {
    add({.name = "--question", .value = &o.question, .help = "the question", .group = kTaskGroup});
    add({.name = "--context", .value = &o.context, .help = "the text with the answer", .group = kTaskGroup});
  }
  if (kind == InputKind::kSentences)
    add({.name = "--source_sentence",
         .value = &o.source_sentence,
         .help = "the sentence that the inputs are compared with",
         .group = kTaskGroup});
  if (canonical_task(o.task).ends_with("feature-extraction"))
    add({.name = "--output",
         .value = &o.output,
         .help = "file of the vectors, .npy or .safetensors, in place of showing them",
         .group = kTaskGroup});
  for (TaskParameter& parameter : parameters_of_task(o.task)) {
    const bool generation = parameter.type == TaskParameter::Type::kGeneration;
    const bool flag = parameter.flag_alone || parameter.type == TaskParameter::Type::kFlag ||
                      parameter.type == TaskParameter::Type::kFlagOrWord;
    std::string help = parameter.help;
    if (!parameter.choices.empty())
      help += fmt::format("; {}{}", parameter.type == TaskParameter::Type::kFlagOrWord ? "true, false, " : "",
                          fmt::join(parameter.choices, ", "));
    if (!parameter.otherwise.empty()) help += fmt::format(" (default: {})", parameter.otherwise);
    const std::string name = "--" + parameter.name;
    const bool hidden = parameter.help.empty();
    std::vector<std::string> words;
    if (flag) words = {"true", "false", "True", "False", "none", "None"};
    words.insert(words.end(), parameter.choices.begin(), parameter.choices.end());
    auto& [kept, word] = o.parameters.emplace_back(std::move(parameter), std::nullopt);
    add({.name = name,
         .value = &word,
         .help = std::move(help),
         .value_optional = flag,
         .hidden = hidden,
         .group = generation ? kGenerationGroup : kTaskGroup,
         .words = flag ? std::move(words) : std::vector<std::string>{}});
  }
}

constexpr std::string_view kExamples[] = {
    "  transom run text-classification --model MODEL \"What a film!\"",
    "  transom run token-classification --model MODEL --aggregation_strategy simple \"Ann went to Rome.\"",
    "  transom run question-answering --model MODEL --question \"Who?\" --context \"Ada wrote it.\"",
    "  transom run fill-mask --model MODEL \"Paris is the [MASK] of France.\" --top_k 3",
    "  transom run feature-extraction --model MODEL --pooling auto --file sentences.txt --json",
    "  transom run sentence-similarity --model MODEL --source_sentence \"A cat sat.\" \"A dog lay.\" \"Rain.\"",
    "  transom run zero-shot-classification --model MODEL \"A new phone.\" --candidate_labels \"trade, sport\"",
    "  transom run image-classification --model MODEL cat.png folder/",
    "  transom run automatic-speech-recognition --model MODEL speech.flac --chunk_length_s 20",
    "  transom run text-generation --model MODEL \"Once upon a time\" --max_new_tokens 40",
    "  transom run summarization --model MODEL --max_new_tokens 60 \"$(cat article.txt)\""};

// The name of the task among the words of a command line: the first that is no value of a flag which takes one.
std::optional<std::string> task_among(const std::vector<std::string>& words) {
  static const std::vector<std::string> takes_value{
      "--model",     "--file",         "--text_column_name", "--requests", "--batch_size",
      "--device",    "--dtype",        "--revision",         "--token",    "--mode",
      "--cache_dir", "--quantization", "--server",           "--api_key",  "--tp_size",
      "--pp_size",   "--ep_size"};
  if (words.empty() || words.front() != "run") return std::nullopt;
  for (size_t i = 1; i < words.size(); ++i)
    if (std::find(takes_value.begin(), takes_value.end(), words[i]) != takes_value.end()) ++i;
    else if (is_pipeline_task(words[i])) return words[i];
  return std::nullopt;
}

}  // namespace

Command run_command(const std::vector<std::string>& words) {
  static RunArguments o;
  o.parameters.clear();
  const std::optional<std::string> task = task_among(words);
  const bool known = task.has_value();
  Command command{.name = "run",
                  .help = "Run a model on texts, images or sounds: the pipeline of a task",
                  .examples = known ? "" : "transom run TASK --help shows what a task takes.\n\n"};
  for (const std::string_view line : kExamples)
    if (!known || line.find(" " + *task + " ") != line.npos) command.examples += fmt::format("{}\n", line);
  if (known) command.help = fmt::format("Run the pipeline of {} on a model", *task);
  command.options = {
      {"TASK", &o.task, fmt::format("{}", fmt::join(pipeline_tasks(), ", ")), true},
      {"inputs", &o.inputs, "texts, or files and folders of images or sounds; - reads one a line from standard input"},
      {kModelFlag, &o.model, kModelHelp},
      {"--file", &o.file, "text file with one input a line, or a .csv, .tsv, .json or .jsonl table"},
      {"--text_column_name", &o.column,
       "column of the inputs in such a table (default: text, sentence, or the only one)"},
      {"--requests", &o.requests, "JSON lines {\"inputs\": ..., \"parameters\": {...}}; one result a line"},
      {"--json", &o.json, "the structure that Transformers' pipeline() returns; of several inputs a list"},
      {"--batch_size", &o.batch_size, "number of inputs that go through the model at once"}};
  if (known) {
    o.task = *task;
    add_task_options(command, o);
  }
  o.remote.add_to(command);
  o.source.add_to(command);
  o.device.add_to(command);
  o.precision.add_to(command);
  o.sharding.add_to(command);
  command.run = [] { return run_task(o); };
  return command;
}

}  // namespace transom
