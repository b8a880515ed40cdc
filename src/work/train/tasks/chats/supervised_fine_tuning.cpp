// SPDX-License-Identifier: Apache-2.0
#include "work/train/tasks/chats/supervised_fine_tuning.h"

#include <algorithm>

#include "base/error.h"
#include "base/files/directories.h"
#include "base/files/files.h"
#include "base/json/json.h"
#include "base/terminal/log.h"
#include "files/config/model_config.h"
#include "files/hub/adapters.h"
#include "files/hub/resolve.h"
#include "runtime/device/static_shapes.h"
#include "runtime/distributed/process_group.h"
#include "transom/distributed.h"
#include "work/train/arguments/task_defaults.h"
#include "work/train/arguments/whole_rows.h"
#include "work/train/setup/new_model.h"
#include "work/train/setup/sharding_layout.h"
#include "work/train/tasks/chats/chat_rows.h"
#include "work/train/tasks/chats/chat_template_path.h"
#include "work/train/tasks/chats/chat_tokens.h"
#include "work/train/tasks/chats/packing.h"
#include "work/train/tasks/chats/picture_batches.h"
#include "work/train/tasks/chats/shown_answers.h"
#include "work/train/tasks/chats/token_measures.h"
#include "work/train/tasks/read_report.h"
#include "work/train/tasks/tasks.h"
#include "work/train/tasks/text/special_tokens.h"
#include "work/train/tasks/text/text_features.h"
#include "work/train/tasks/written_texts.h"

namespace transom {
namespace {

constexpr int64_t kMaxLength = 1024;
constexpr size_t kLongestSample = 2000;  // bytes that are shown of one

// Of one file of a run.
struct Rows {
  std::vector<Features> features;
  std::vector<std::vector<std::string>> pictures;  // of each, where there are any
  std::vector<int64_t> cut_off;                    // rows of which max_length leaves nothing to learn
  std::optional<int64_t> changed_prompt;  // the first row whose prompt is written otherwise before its completion
};

Rows encode_rows(const ChatRows& chats, const ChatEncoder& encoder) {
  struct Encoded {
    ChatTokens tokens;
    std::vector<std::string> pictures;
  };
  std::vector<Encoded> all = map_rows(chats.data().size(), [&](int64_t i) {
    ChatRow row = chats.row(i);
    ChatTokens tokens = encoder.encode(row, chats.data().where(i));
    return Encoded{std::move(tokens), std::move(row.pictures)};
  });
  Rows rows;
  for (size_t i = 0; i < all.size(); ++i) {
    ChatTokens& tokens = all[i].tokens;
    if (tokens.changed_prompt_tokens > 0 && !rows.changed_prompt) rows.changed_prompt = static_cast<int64_t>(i);
    const auto learnt = [](int64_t label) { return label != kIgnoredLabel; };
    if (std::none_of(tokens.labels.begin(), tokens.labels.end(), learnt)) {
      rows.cut_off.push_back(static_cast<int64_t>(i));
      continue;
    }
    Features features;
    features.sequences["input_ids"] = std::move(tokens.ids);
    features.sequences["labels"] = std::move(tokens.labels);
    rows.features.push_back(std::move(features));
    if (encoder.sees_pictures()) rows.pictures.push_back(std::move(all[i].pictures));
  }
  return rows;
}

void say_what_is_odd(const Rows& rows, const ChatRows& chats, int64_t max_length) {
  if (!rows.cut_off.empty()) {
    std::vector<std::string> names;
    for (size_t i = 0; i < std::min<size_t>(3, rows.cut_off.size()); ++i)
      names.push_back(chats.data().where(rows.cut_off[i]));
    log(LogLevel::kWarning,
        fmt::format("{} of {} rows are left out: of what they teach nothing is within max_length {} ({}{})",
                    rows.cut_off.size(), chats.data().size(), max_length, fmt::join(names, ", "),
                    rows.cut_off.size() > names.size() ? ", ..." : ""));
    require(!rows.features.empty(), "{}: no row is left to train on: raise --max_length", chats.data().name());
  }
  if (rows.changed_prompt)
    log(LogLevel::kWarning,
        fmt::format(
            "{}: the prompt has other tokens alone than before its completion; the completion begins where they "
            "part (the chat template writes a prompt otherwise, or a token crosses its end)",
            chats.data().where(*rows.changed_prompt)));
}

std::string shown_sample(const ChatEncoder& encoder, const ChatRows& chats) {
  const ChatTokens tokens = encoder.encode(chats.row(0), chats.data().where(0));
  const auto learnt =
      std::count_if(tokens.labels.begin(), tokens.labels.end(), [](int64_t label) { return label != kIgnoredLabel; });
  return fmt::format("{}, {} tokens, of which {} are learnt, between » and «:\n{}", chats.data().where(0),
                     tokens.ids.size(), learnt, first_bytes(encoder.marked_text(tokens), kLongestSample));
}

ChatTokenOptions token_options(const ScriptArguments& script, const Tokenizer& tokenizer, const ChatRows& chats) {
  ChatTokenOptions options;
  const bool conversations = chats.row(0).is_chat();
  if (script.assistant_only_loss && !conversations)
    fail(ErrorKind::kUsage, "--assistant_only_loss: is for chats, found {} in {}", chats.reads(), chats.data().name());
  if (script.completion_only_loss.value_or(false) && !chats.has_prompts())
    fail(ErrorKind::kUsage, "--completion_only_loss: is for rows with a prompt and a completion, found {} in {}",
         chats.reads(), chats.data().name());
  options.completion_only_loss = script.completion_only_loss.value_or(chats.has_prompts());
  options.assistant_only_loss = script.assistant_only_loss;
  options.keep_end = script.truncation_mode == "keep_end";
  if (script.chat_template_path) options.chat_template = read_chat_template(*script.chat_template_path, tokenizer);
  if (conversations && options.chat_template.empty() && !tokenizer.has_chat_template())
    fail(
        "{}: the tokenizer of the model has no chat template, which chats are written with: give one with "
        "--chat_template_path FILE.jinja",
        chats.data().name());
  options.eos_token = script.eos_token.value_or(tokenizer.special_token("eos").value_or(""));
  if (script.eos_token && !tokenizer.token_to_id(*script.eos_token))
    fail(ErrorKind::kUsage, "--eos_token: expected a token of the vocabulary, found {}", quoted(*script.eos_token));
  return options;
}

// Beside what the tokenizer saves: what the run has changed.
void save_changes(const std::string& directory, const std::string& chat_template, const std::string& eos_token) {
  const fs::path folder(directory);
  if (!chat_template.empty()) write_file(folder / "chat_template.jinja", chat_template);
  if (chat_template.empty() && eos_token.empty()) return;
  const fs::path file = folder / "tokenizer_config.json";
  Json config = path_exists(file) ? read_json(file) : Json::object();
  if (!chat_template.empty()) config.erase("chat_template");  // which would hide the file
  if (!eos_token.empty()) config["eos_token"] = eos_token;
  write_file(file, dump_json(config, 2) + "\n");
}

}  // namespace

void supervised_fine_tuning_defaults(TrainArguments& arguments) {
  const TrainingArguments usual;
  TrainingArguments& training = arguments.training;
  set_default(arguments, "learning_rate", training.learning_rate, usual.learning_rate, 2e-5);
  set_default(arguments, "logging_steps", training.logging_steps, usual.logging_steps, 10.0);
  // As in TRL rows of several samples are passed on without padding, where no device and no spreading of rows over
  // processes asks for rows of one length.
  const bool packed = arguments.script.packing && arguments.script.packing_strategy != "wrapped";
  if (packed && !training.padding_free && !wants_static_shapes() &&
      !sharding_layout(training, process_count()).shards())
    training.padding_free = true;
}

namespace {

bool packs(const ScriptArguments& script, bool training) {
  return training ? script.packing : script.eval_packing.value_or(script.packing);
}

// What cannot be carried out is refused before the model is loaded, or as soon as it is.
void expect_packing(const TrainArguments& arguments, const Model& model) {
  const ScriptArguments& script = arguments.script;
  if (!packs(script, true) && !packs(script, false)) return;
  if (script.pad_to_max_length.value_or(false) && arguments.training.padding_free.value_or(false))
    fail(ErrorKind::kUsage, "--pad_to_max_length: a batch without padding has none; leave out one of the two");
  if (script.packing_strategy == "wrapped") return;
  if (!model.takes_texts_in_rows())
    fail(ErrorKind::kUnsupported,
         "--packing: {} does not keep the samples of a row apart; use --packing_strategy wrapped",
         model.architecture());
  if (script.teacher_model)
    fail(ErrorKind::kUsage, "--packing: a teacher reads one sample a row; leave --teacher_model out");
}

TokenLoss::Kind loss_kind(const ScriptArguments& script, const TrainingArguments& training) {
  if (script.loss_type.size() > 1)
    fail(ErrorKind::kUsage, "--loss_type: expected one, nll or dft, found {}", fmt::join(script.loss_type, ", "));
  const std::string name = script.loss_type.empty() ? "nll" : script.loss_type.front();
  if (name == "nll" || name == "chunked_nll") return TokenLoss::Kind::kLogLikelihood;
  if (name != "dft") fail(ErrorKind::kUsage, "--loss_type: expected nll or dft, found {}", quoted(name));
  if (training.label_smoothing_factor > 0)
    fail(ErrorKind::kUsage, "--loss_type dft: labels are not smoothed; leave --label_smoothing_factor out");
  return TokenLoss::Kind::kDynamic;
}

// With pictures, what TRL refuses too, and what would part texts from their pictures.
void refuse_with_pictures(const TrainArguments& arguments) {
  const ScriptArguments& script = arguments.script;
  const auto refuse = [](bool given, std::string_view argument, std::string_view why) {
    if (given) fail(ErrorKind::kUnsupported, "{}: not with pictures in the rows: {}", argument, why);
  };
  refuse(packs(script, true) || packs(script, false), "--packing", "samples with pictures are not packed");
  refuse(arguments.training.padding_free.value_or(false), "--padding_free", "their rows are padded");
  refuse(script.truncation_mode == "keep_end", "--truncation_mode keep_end", "it cuts off the pictures of a prompt");
  refuse(script.teacher_model.has_value(), "--teacher_model", "a teacher reads texts");
  refuse(
      sharding_layout(arguments.training, process_count()).shards(), "zero_stage, fsdp, tp_size, pp_size, cp_size",
      "the rows of a batch are not cut with their pictures; processes with whole models each take their own batches");
}

// Processes add up their gradients, and a tower that sees nothing has none.
void expect_pictures_everywhere(const std::vector<std::vector<std::string>>& rows, const std::string& where) {
  if (process_count() == 1) return;
  for (const auto& row : rows)
    if (row.empty())
      fail(ErrorKind::kUnsupported, "{}: with several processes every row has a picture, found one without", where);
}

// The first token of a row is predicted by nothing. Trainer counts its label for some models all the same, but not
// where rows lie one behind the other.
void unlabel_first_tokens(std::vector<Features>& rows) {
  for (Features& row : rows) row.sequences.at("labels").front() = kIgnoredLabel;
}

TrainingData batches_of_rows(Rows rows, const TrainArguments& arguments, const PaddingOptions& padding,
                             int64_t max_length, bool training,
                             const std::shared_ptr<const ImageTextProcessor>& pictures) {
  const ScriptArguments& script = arguments.script;
  if (packs(script, training))
    rows.features = packed_features(rows.features, max_length, packing_strategy(script.packing_strategy));
  else if (arguments.training.padding_free.value_or(false)) unlabel_first_tokens(rows.features);
  TrainingData data = held_rows(std::move(rows.features), padding);
  data.batch = [make = std::move(data.batch)](const std::vector<int64_t>& indices) {
    Batch batch = make(indices);
    number_padding(batch);
    return batch;
  };
  if (pictures) return with_pictures(std::move(data), std::move(rows.pictures), pictures);
  return data;
}

constexpr int64_t kShownTokens = 64;  // of an answer, without --generation_max_length

void show_answers_of_evaluations(const TrainArguments& arguments, const ChatRows& rows, const Tokenizer& tokenizer,
                                 const std::string& chat_template, TaskSetup& setup) {
  const ScriptArguments& script = arguments.script;
  const int64_t count = samples_to_show(script, 0);
  if (count < 1) return;
  if (sharding_layout(arguments.training, process_count()).shards())
    fail(ErrorKind::kUnsupported, "--num_samples_to_print: a model that is spread over processes writes no answers");
  GenerationConfig config = GenerationConfig::from_pretrained(base_of_adapters(script.model_name_or_path).string());
  config.do_sample = false, config.num_beams = 1;
  config.max_length.reset();
  config.max_new_tokens = script.generation_max_length.value_or(kShownTokens);
  if (config.eos_token_id.empty() && tokenizer.eos_token_id()) config.eos_token_id = {*tokenizer.eos_token_id()};
  if (script.eos_token) config.eos_token_id.push_back(*tokenizer.token_to_id(*script.eos_token));
  if (!config.pad_token_id) config.pad_token_id = tokenizer.pad_token_id();
  const auto answers = std::make_shared<const ShownAnswers>(rows, tokenizer, chat_template, count, config);
  setup.compute_metrics = [answers, model = setup.model.get()](const Predictions&) {
    if (process_rank() == 0) answers->show(*model);
    return Metrics();
  };
}

}  // namespace

void prepare_supervised_fine_tuning(const TrainArguments& arguments, const TaskFiles& files, TaskSetup& setup) {
  const ScriptArguments& script = arguments.script;
  const auto tokenizer_directory = script.tokenizer_name.value_or(script.model_name_or_path);
  const Tokenizer tokenizer = Tokenizer::from_pretrained(tokenizer_directory);
  const bool writes_chats = tokenizer.has_chat_template() || script.chat_template_path.has_value();
  const fs::path config = directory_of_model(script.model_name_or_path);
  const bool sees = file_exists(config / "config.json") && ImageTextProcessor::is_for(read_model_config(config));
  const ChatRows first(files.any(), script, writes_chats, sees);
  const bool seen = first.has_pictures();
  if (seen) refuse_with_pictures(arguments);
  setup.reads = what_is_read({first.reads()}, files);
  setup.model = load_model(arguments, script.model_name_or_path, load_options(arguments, "text-generation"));
  const int64_t max_length = script.max_seq_length.value_or(kMaxLength);
  expect_packing(arguments, *setup.model);
  if (script.packing || script.pad_to_max_length.value_or(false)) expect_bound_of_rows(max_length);
  std::shared_ptr<const ImageTextProcessor> pictures;  // null: the rows have none
  if (seen) pictures = std::make_shared<const ImageTextProcessor>(config, setup.model->config(), tokenizer);
  ChatTokenOptions whole = token_options(script, tokenizer, first), cut = whole;
  cut.pictures = pictures;
  cut.max_length = max_length;
  // Strategies that put samples into rows in parts need nothing cut off.
  const bool in_parts = script.packing_strategy != "bfd";
  const ChatEncoder whole_rows(tokenizer, whole), encoder(tokenizer, cut);

  const std::optional<int64_t> pad = tokenizer.pad_token_id() ? tokenizer.pad_token_id() : tokenizer.eos_token_id();
  require(pad.has_value(), "{}: expected a tokenizer with a padding token or an end token, found neither",
          tokenizer_directory);
  PaddingOptions padding{.pad_token_id = *pad};
  padding.multiple_of = script.pad_to_multiple_of;
  if (script.pad_to_max_length.value_or(false)) padding.max_length = max_length;
  else padding.bucket = length_buckets(script.length_buckets, bound_of_rows(max_length));
  const auto data_of = [&](const Dataset& data, bool training) {
    const ChatRows chats(data, script, writes_chats, sees);
    if (&data != &files.any() && chats.has_pictures() != seen)
      fail("{}: expected rows {} pictures, as in {}", data.name(), seen ? "with" : "without", first.data().name());
    if (chats.form() != first.form())
      fail("{}: expected {}, as in {}, found {}", data.name(), first.reads(), first.data().name(), chats.reads());
    Rows rows = encode_rows(chats, packs(script, training) && in_parts ? whole_rows : encoder);
    say_what_is_odd(rows, chats, max_length);
    expect_pictures_everywhere(rows.pictures, data.name());
    return batches_of_rows(std::move(rows), arguments, padding, max_length, training, pictures);
  };
  if (files.train) {
    setup.train = data_of(*files.train, true);
    if (script.packing) setup.reads += fmt::format("; {} of at most {} tokens", setup.train->rows, max_length);
  }
  if (files.validation) setup.validation = data_of(*files.validation, false);
  if (!script.json) log(LogLevel::kInfo, shown_sample(encoder, first));

  setup.objective = std::make_shared<MeasuredModelLoss>(arguments.training, loss_kind(script, arguments.training));
  score_loss_only(setup);
  if (files.validation)
    show_answers_of_evaluations(arguments, ChatRows(*files.validation, script, writes_chats, sees), tokenizer,
                                encoder.chat_template(), setup);
  align_special_tokens(*setup.model, tokenizer,
                       script.eos_token ? tokenizer.token_to_id(*script.eos_token) : std::nullopt);
  setup.save_tokenizer = [tokenizer, config, chat_template = script.chat_template_path ? encoder.chat_template() : "",
                          eos = script.eos_token.value_or("")](const std::string& directory) {
    tokenizer.save_pretrained(directory);
    save_changes(directory, chat_template, eos);
    copy_preprocessor(config, directory);
  };
}

}  // namespace transom
