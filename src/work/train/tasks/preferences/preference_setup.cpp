// SPDX-License-Identifier: Apache-2.0
#include "work/train/tasks/preferences/preference_setup.h"

#include <algorithm>

#include "base/error.h"
#include "base/files/directories.h"
#include "base/files/files.h"
#include "base/json/json.h"
#include "base/terminal/log.h"
#include "files/config/config.h"
#include "runtime/device/static_shapes.h"
#include "work/train/arguments/whole_rows.h"
#include "work/train/tasks/chats/chat_template_path.h"
#include "work/train/tasks/read_report.h"
#include "work/train/tasks/tasks.h"
#include "work/train/tasks/text/language_model.h"
#include "work/train/tasks/text/special_tokens.h"
#include "work/train/tasks/text/text_features.h"

namespace transom {
namespace {

constexpr int64_t kMaxLength = 1024;

Tokenizer tokenizer_of(const ScriptArguments& script) {
  return Tokenizer::from_pretrained(script.tokenizer_name.value_or(script.model_name_or_path));
}

std::string eos_of(const ScriptArguments& script, const Tokenizer& tokenizer) {
  if (script.eos_token && !tokenizer.token_to_id(*script.eos_token))
    fail(ErrorKind::kUsage, "--eos_token: expected a token of the vocabulary, found {}", quoted(*script.eos_token));
  return script.eos_token.value_or(tokenizer.special_token("eos").value_or(""));
}

}  // namespace

PreferenceSetup::PreferenceSetup(const TrainArguments& arguments, const TaskFiles& files, TaskSetup& setup)
    : arguments_(arguments),
      files_(files),
      setup_(setup),
      chat_template_(arguments.script.chat_template_path
                         ? read_chat_template(*arguments.script.chat_template_path, tokenizer_of(arguments.script))
                         : ""),
      eos_token_(eos_of(arguments.script, tokenizer_of(arguments.script))),
      encoder_(tokenizer_of(arguments.script), chat_template_, eos_token_),
      max_length_(arguments.script.max_seq_length.value_or(kMaxLength)),
      keeps_end_(arguments.script.task == "dpo" && arguments.script.truncation_mode == "keep_end") {
  const ScriptArguments& script = arguments.script;
  const Tokenizer& tokenizer = encoder_.tokenizer();
  const std::optional<int64_t> pad = tokenizer.pad_token_id() ? tokenizer.pad_token_id() : tokenizer.eos_token_id();
  require(pad.has_value(), "{}: expected a tokenizer with a padding token or an end token, found neither",
          script.tokenizer_name.value_or(script.model_name_or_path));
  padding_ = {.pad_token_id = *pad};
  padding_.multiple_of = script.pad_to_multiple_of;
  const bool to_max = script.pad_to_max_length.value_or(false);
  if (to_max) expect_bound_of_rows(max_length_);
  if (to_max) padding_.max_length = max_length_;
  else padding_.bucket = length_buckets(script.length_buckets, bound_of_rows(max_length_));
  if (arguments.training.label_smoothing_factor > 0)
    fail(ErrorKind::kUsage, "--label_smoothing_factor: is for labels that are classes; see --label_smoothing");
}

void PreferenceSetup::reads(const std::string& what) { setup_.reads = what_is_read({what}, files_); }

void PreferenceSetup::load_language_model() {
  transom::load_language_model(arguments_, "losses of preferences", setup_);
}

void PreferenceSetup::load_reward_model() {
  LoadOptions options = load_options(arguments_, "text-classification");
  options.num_labels = 1;
  setup_.model = load_model(arguments_, arguments_.script.model_name_or_path, options);
  // Where a row ends is found by its padding.
  Config& config = setup_.model->config();
  if (config.get_json("pad_token_id") == "null") config.set_json("pad_token_id", std::to_string(padding_.pad_token_id));
}

void PreferenceSetup::expect_template(bool is_chat, const std::string& data) const {
  if (is_chat && chat_template_.empty() && !encoder_.tokenizer().has_chat_template())
    fail(
        "{}: the tokenizer of the model has no chat template, which chats are written with: give one with "
        "--chat_template_path FILE.jinja",
        data);
}

void PreferenceSetup::say_what_is_odd(const std::vector<std::string>& left_out, int64_t rows, const std::string& why,
                                      const std::optional<std::string>& changed_prompt, const std::string& data) const {
  if (!left_out.empty()) {
    const std::vector<std::string> first(left_out.begin(), left_out.begin() + std::min<size_t>(3, left_out.size()));
    log(LogLevel::kWarning,
        fmt::format("{} of {} rows are left out: {} max_length {} ({}{})", left_out.size(), rows, why, max_length_,
                    fmt::join(first, ", "), left_out.size() > first.size() ? ", ..." : ""));
    require(static_cast<int64_t>(left_out.size()) < rows, "{}: no row is left to train on: raise --max_length", data);
  }
  if (changed_prompt)
    log(LogLevel::kWarning,
        fmt::format("{}: the prompt has other tokens alone than before an answer; the answer begins where they part "
                    "(the chat template writes a prompt otherwise, or a token crosses its end)",
                    *changed_prompt));
}

PromptedTokens PreferenceSetup::cut(PromptedTokens tokens) const {
  const auto limit = static_cast<size_t>(max_length_);
  if (tokens.ids.size() <= limit) return tokens;
  if (keeps_end_) {
    const size_t left = tokens.ids.size() - limit;
    tokens.ids.erase(tokens.ids.begin(), tokens.ids.begin() + static_cast<std::ptrdiff_t>(left));
    tokens.prompt -= std::min(tokens.prompt, left);
  } else {
    tokens.ids.resize(limit);
    tokens.prompt = std::min(tokens.prompt, limit);
  }
  return tokens;
}

void PreferenceSetup::show(const PromptedTokens& chosen, const PromptedTokens& rejected,
                           const std::string& where) const {
  if (arguments_.script.json) return;
  const auto text = [&](const PromptedTokens& tokens) {
    const auto middle = tokens.ids.begin() + static_cast<std::ptrdiff_t>(tokens.prompt);
    const Tokenizer& tokenizer = encoder_.tokenizer();
    return fmt::format("{}»{}«", tokenizer.decode({tokens.ids.begin(), middle}),
                       tokenizer.decode({middle, tokens.ids.end()}));
  };
  std::string shown = fmt::format("{}, answers between » and «:\n{}", where, text(chosen));
  if (!rejected.ids.empty()) shown += "\nrather than\n" + text(rejected);
  log(LogLevel::kInfo, shown);
}

void PreferenceSetup::finish() {
  const Tokenizer& tokenizer = encoder_.tokenizer();
  score_loss_only(setup_);
  align_special_tokens(*setup_.model, tokenizer);
  setup_.save_tokenizer = [tokenizer, chat_template = chat_template_](const std::string& directory) {
    tokenizer.save_pretrained(directory);
    if (chat_template.empty()) return;
    const fs::path folder(directory), file = folder / "tokenizer_config.json";
    write_file(folder / "chat_template.jinja", chat_template);
    Json config = path_exists(file) ? read_json(file) : Json::object();
    config.erase("chat_template");  // which would hide the file
    write_file(file, dump_json(config, 2) + "\n");
  };
}

}  // namespace transom
