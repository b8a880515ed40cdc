// SPDX-License-Identifier: Apache-2.0
// transom run: the pipeline of a task on inputs from the command line, standard input, a file of texts, or a file of
// requests.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <list>

#include "apps/cli/command.h"
#include "apps/cli/options/inputs.h"
#include "apps/cli/options/sharding_options.h"
#include "apps/cli/output/results.h"
#include "apps/cli/remote/remote_server.h"
#include "base/error.h"
#include "base/files/files.h"
#include "base/json/json.h"
#include "transom/distributed.h"
#include "work/generation/image_text/image_text_processor.h"
#include "work/pipelines/json/task_json.h"
#include "work/pipelines/output/result_files.h"

namespace transom {
namespace {

struct RunArguments {
  std::string task, model;
  std::vector<std::string> inputs;
  std::optional<std::string> file, column, requests, question, context, source_sentence, output, text;
  std::vector<std::string> images;
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

const TaskRecord& record_of(const RunArguments& o) { return need_task(o.task); }

TaskOptions task_options_of(const RunArguments& o) {
  TaskOptions options;
  for (const auto& [parameter, word] : o.parameters)
    if (word) options.set(parameter.name, parameter_of_word(parameter, *word));
  if (o.batch_size != 1) options.set("batch_size", o.batch_size);
  return options;
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
    try {
      result = answer_json(pipeline, request["inputs"], all);
    } catch (const Error& error) {
      fail(error.kind(), "{}: {}", where, error.what());
    }
    if (process_rank() > 0) return;
    std::puts(dump_json(result).c_str());
    std::fflush(stdout);
  });
}

// A question with its context, or a source sentence with others; nothing for other tasks. Flags that are missing are
// named.
std::optional<TaskInput> input_of_flags(const RunArguments& o) {
  const InputKind kind = record_of(o).input;
  if (kind == InputKind::kQuestion && o.inputs.empty() && !o.file) {
    if (!o.question) fail(ErrorKind::kUsage, "--question is missing");
    if (!o.context) fail(ErrorKind::kUsage, "--context is missing: the text that the answer is looked for in");
    return QuestionInput(*o.question, *o.context);
  }
  if (kind == InputKind::kQuestion)
    fail(ErrorKind::kUsage, "{} takes --question and --context, or --requests FILE, no other inputs",
         record_of(o).name);
  if (kind != InputKind::kSentences) return std::nullopt;
  const std::string_view one = record_of(o).one_name, others = record_of(o).others_name;
  if (!o.source_sentence) fail(ErrorKind::kUsage, "--{} is missing: the text that the inputs are compared with", one);
  std::vector<std::string> sentences = read_inputs(kind, o.inputs, o.file, o.column);
  if (sentences.empty()) fail(ErrorKind::kUsage, "{} are missing: what --{} is compared with", others, one);
  return SentencesInput(*o.source_sentence, std::move(sentences));
}

// Whether the task draws what a text says, which --prompt gives.
bool draws(const TaskRecord& task) { return task.input == InputKind::kText && task.result == ResultKind::kPictures; }

// What is to be drawn.
std::optional<TaskInput> prompt_of_flags(const RunArguments& o) {
  if (!draws(record_of(o)) || !o.text) return std::nullopt;
  if (!o.inputs.empty() || o.file)
    fail(ErrorKind::kUsage, "--prompt: not beside {}", o.file ? "--file" : quoted(o.inputs.front()));
  return TextInput(*o.text);
}

// Pictures and what is said about them: a message of a chat, unless the text says where its pictures stand; or a whole
// chat, which names its pictures itself.
std::optional<TaskInput> pictures_of_flags(const RunArguments& o) {
  const TaskRecord& task = record_of(o);
  if (!task.takes_images || (!o.text && o.images.empty())) return std::nullopt;
  if (!o.inputs.empty() && o.text)
    fail(ErrorKind::kUsage, "--{}: not beside {}", task.text_name, quoted(o.inputs.front()));
  if (o.inputs.size() > 1 || o.file) fail(ErrorKind::kUsage, "--image: expected one text, found several");
  if (o.inputs.empty() && !o.text)
    fail(ErrorKind::kUsage, "--{} is missing: what is asked about the pictures", task.text_name);
  const std::string text = o.text ? *o.text : o.inputs.front();
  if (asks_about_pictures(task)) {
    if (o.images.empty()) fail(ErrorKind::kUsage, "--image is missing: what {} is about", quoted(text));
    TextInput input(text);
    input.images.assign(o.images.begin(), o.images.end());
    return input;
  }
  if (text.starts_with('[')) {
    const Json chat = parse_json(text, "--text");
    if (!o.images.empty()) fail(ErrorKind::kUsage, "--image: the chat of --text names its pictures itself");
    return input_of_json(record_of(o), chat, {});
  }
  const std::vector<PictureSource> images(o.images.begin(), o.images.end());
  if (!o.text || images.empty() || ImageTextProcessor::has_places(text)) {
    TextInput input(text);
    input.images = images;
    return input;
  }
  Json content = Json::array();
  for (const std::string& image : o.images) content.push_back({{"type", "image"}, {"path", image}});
  content.push_back({{"type", "text"}, {"text", text}});
  return ChatInput(dump_json(Json::array({{{"role", "user"}, {"content", std::move(content)}}})), images);
}

// A text, or the path of a file.
TaskInput input_of_word(const TaskRecord& task, const std::string& word) {
  if (task.input == InputKind::kImage) return ImageInput(word);
  if (task.input == InputKind::kAudio) return SoundInput(word);
  if (task.input == InputKind::kVideo) return VideoInput(word);
  return TextInput(word);
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

// What the command line gives to run on.
struct GivenInputs {
  std::vector<std::string> names;  // what results are shown with
  std::vector<TaskInput> inputs;
  bool dialogue = false;  // in a terminal each line is answered as it is typed
};

void refuse_inputs_beside_requests(const RunArguments& options) {
  if (!options.requests || (!options.file && !options.column && options.inputs.empty())) return;
  fail(ErrorKind::kUsage, "--requests: the file has the inputs; leave out {}",
       options.file     ? "--file"
       : options.column ? "--text_column_name"
                        : quoted(options.inputs.front()));
}

GivenInputs read_given(const RunArguments& options) {
  const TaskRecord& task = record_of(options);
  GivenInputs given;
  if (options.requests) return given;
  given.dialogue = options.inputs == std::vector<std::string>{"-"} && !options.file &&
                   task.input != InputKind::kQuestion && task.input != InputKind::kSentences && !options.output &&
                   ::isatty(STDIN_FILENO);
  expect_required(options);
  std::optional<TaskInput> input = input_of_flags(options);
  if (!input) input = prompt_of_flags(options);
  if (!input) input = pictures_of_flags(options);
  if (input) {
    given.inputs.push_back(std::move(*input));
    return given;
  }
  if (given.dialogue) return given;
  given.names = read_inputs(task.input, options.inputs, options.file, options.column);
  for (const std::string& name : given.names) given.inputs.push_back(input_of_word(task, name));
  if (given.inputs.empty() && options.file) fail("{}: is empty: expected an input a line", *options.file);
  if (given.inputs.empty())
    fail(ErrorKind::kUsage,
         "there is nothing to run on: give inputs, - for standard input, --file FILE or --requests FILE");
  return given;
}

void expect_output(const RunArguments& options, size_t inputs) {
  if (!options.output) return;
  if (options.requests || options.json)
    fail(ErrorKind::kUsage, "--output: not with {}", options.json ? "--json" : "--requests");
  expect_result_file(record_of(options), *options.output, inputs > 1);
}

// As pipeline() gives it: of one input its result, of several a list.
Json json_of_results(const TaskRecord& task, const GivenInputs& given, const TaskOptions& options,
                     const std::vector<TaskResult>& results) {
  std::vector<Json> list;
  for (size_t i = 0; i < results.size(); ++i)
    list.push_back(json_of_result(task, given.inputs[i], options, results[i],
                                  {.alone = results.size() == 1, .plain = !given.names.empty()}));
  return results.size() == 1 ? list[0] : Json(std::move(list));
}

void show_results(const RunArguments& options, const GivenInputs& given, const TaskOptions& task_options,
                  const std::vector<TaskResult>& results) {
  if (options.output) return write_results(record_of(options), *options.output, results, given.names, given.inputs);
  if (options.json) {
    std::puts(dump_json(json_of_results(record_of(options), given, task_options, results)).c_str());
    return;
  }
  if (results.size() == 1) return show_result(given.inputs[0], results[0]);
  for (size_t i = 0; i < results.size(); ++i) show_named_result(given.names[i], given.inputs[i], results[i]);
}

void answer_dialogue(const RunArguments& options, const Pipeline& pipeline, const TaskOptions& task_options) {
  for_each_input_line([&](const std::string& line) {
    const GivenInputs given{.names = {line}, .inputs = {input_of_word(record_of(options), line)}};
    show_results(options, given, task_options, run_pipeline(pipeline, given.inputs, task_options));
    std::fflush(stdout);
  });
}

int answer(const RunArguments& options) {
  options.remote.expect_model(options.model);
  expect_shared_work(options);
  record_of(options);  // refuses unknown tasks
  const TaskOptions task_options = task_options_of(options);
  refuse_inputs_beside_requests(options);
  const GivenInputs given = read_given(options);
  expect_output(options, given.inputs.size());
  const auto pipeline = pipeline_of(options);
  options.sharding.expect_same("inputs", dump_json(Json{{"inputs", given.names},
                                                        {"question", options.question.value_or("")},
                                                        {"context", options.context.value_or("")},
                                                        {"source_sentence", options.source_sentence.value_or("")},
                                                        {"text", options.text.value_or("")},
                                                        {"images", options.images},
                                                        {"parameters", json_of_options(task_options)}}) +
                                             (options.requests ? read_file(*options.requests) : ""));
  std::optional<SpreadModel> spread;
  if (options.sharding.any()) spread.emplace(options.sharding, *pipeline->model());
  if (options.requests) answer_requests(*pipeline, *options.requests, json_of_options(task_options));
  else if (given.dialogue) answer_dialogue(options, *pipeline, task_options);
  else {
    const std::vector<TaskResult> results = run_pipeline(*pipeline, given.inputs, task_options);
    if (process_rank() == 0) show_results(options, given, task_options, results);
  }
  return 0;
}

int run_task(const RunArguments& options) {
  const int status = answer(options);
  if (options.sharding.any()) leave_process_group();
  return status;
}

// Each task is shown with what it takes.
void add_task_options(Command& command, RunArguments& o) {
  const TaskRecord& task = record_of(o);
  const InputKind kind = task.input;
  const auto add = [&](Option option) { command.options.push_back(std::move(option)); };
  if (kind == InputKind::kQuestion) {
    add({.name = "--question", .value = &o.question, .help = "the question", .group = kTaskGroup});
    add({.name = "--context", .value = &o.context, .help = "the text with the answer", .group = kTaskGroup});
  }
  if (task.takes_images) {
    add({.name = "--image",
         .value = &o.images,
         .help = "picture: a file, or a data: URL; several in the order of their places",
         .group = kTaskGroup});
    add({.name = fmt::format("--{}", task.text_name),
         .value = &o.text,
         .help = asks_about_pictures(task)
                     ? "what is asked about the picture"
                     : "what is said about the pictures, as a message of a chat; with <image> in it a text in which "
                       "they stand; or a chat as JSON, which names its pictures",
         .group = kTaskGroup});
  }
  if (draws(task)) add({.name = "--prompt", .value = &o.text, .help = "what the picture shows", .group = kTaskGroup});
  if (kind == InputKind::kSentences)
    add({.name = fmt::format("--{}", task.one_name),
         .value = &o.source_sentence,
         .help = fmt::format("the text that the inputs, the {}, are compared with", task.others_name),
         .group = kTaskGroup});
  if (const std::string help = file_help(task); !help.empty())
    add({.name = "--output", .value = &o.output, .help = help, .group = kTaskGroup});
  for (TaskParameter& parameter : task.parameters()) {
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

std::string example_of(const TaskRecord& task) {
  return fmt::format("  transom run {} --model MODEL {}\n", task.name, task.example);
}

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
    else if (find_task(words[i])) return words[i];
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
  for (const TaskRecord* each : task_records())
    if (!known || each == find_task(*task)) command.examples += example_of(*each);
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
