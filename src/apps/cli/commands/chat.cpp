// SPDX-License-Identifier: Apache-2.0
// transom chat: a conversation with a model, in the terminal or line by line from standard input.
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <iostream>
#include <list>

#include "apps/cli/chat/chat_answer.h"
#include "apps/cli/chat/chat_session.h"
#include "apps/cli/command.h"
#include "base/error.h"
#include "base/files/files.h"
#include "base/json/json.h"
#include "base/terminal/log.h"

namespace transom {
namespace {

struct ChatArguments {
  std::string model;
  std::optional<std::string> system, load, chat_template;
  bool hide_thoughts = false;
  int64_t max_model_length = 0;
  std::list<std::pair<std::string, std::optional<std::string>>> settings;  // a list: options point into it
  RemoteOptions remote;
  ModelOptions source;
  DeviceOptions device;
  PrecisionOptions precision;
};

volatile sig_atomic_t interrupted = 0;

// Ctrl-C ends an answer, or the line that is being typed, for as long as this lives.
class InterruptedAnswers {
 public:
  InterruptedAnswers() {
    struct sigaction action {};
    action.sa_handler = [](int) { interrupted = 1; };
    sigemptyset(&action.sa_mask);  // without SA_RESTART: reading a line ends, too
    ::sigaction(SIGINT, &action, &before_);
  }
  ~InterruptedAnswers() { ::sigaction(SIGINT, &before_, nullptr); }
  InterruptedAnswers(const InterruptedAnswers&) = delete;
  InterruptedAnswers& operator=(const InterruptedAnswers&) = delete;

 private:
  struct sigaction before_ {};
};

void write_out(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

// A line without its end; nothing at the end of the input. On a terminal Ctrl-C gives an empty line.
std::optional<std::string> read_line() {
  char* line = nullptr;
  size_t room = 0;
  errno = 0;
  const ssize_t length = ::getline(&line, &room, stdin);
  const std::unique_ptr<char, void (*)(void*)> held(line, std::free);
  if (length < 0) {
    if (errno != EINTR) return std::nullopt;
    std::clearerr(stdin);
    return "";
  }
  std::string text(line, static_cast<size_t>(length));
  while (text.ends_with('\n') || text.ends_with('\r')) text.pop_back();
  return text;
}

class Terminal {
 public:
  Terminal(ChatService& service, ChatSession& session, bool hides_thoughts)
      : service_(service),
        session_(session),
        talks_(::isatty(STDIN_FILENO) != 0 && ::isatty(STDOUT_FILENO) != 0),
        hides_thoughts_(hides_thoughts || !talks_) {}

  // Until the input ends or somebody says /quit. Where nobody is there to read an error, the first one is thrown.
  void run() {
    if (talks_) write_out(fmt::format("{}; /help shows what else may be said\n", service_.model()));
    while (true) {
      std::optional<std::string> line = next_turn();
      if (!line) break;
      if (line->find_first_not_of(" \t") == line->npos) continue;
      try {
        if (!take(*line)) return;
      } catch (const Error& error) {
        if (!talks_) throw;
        write_out(fmt::format("{}\n", error.what()));
      }
    }
    if (talks_) write_out("\n");
  }

 private:
  // A line, with those that it goes on with.
  std::optional<std::string> next_turn() {
    std::string turn;
    for (const char* prompt = "> ";; prompt = "... ") {
      interrupted = 0;
      if (talks_) write_out(prompt);
      std::optional<std::string> line = read_line();
      if (interrupted != 0) {
        write_out("\n");
        return "";
      }
      if (!line) return turn.empty() ? std::nullopt : std::optional(turn);
      const bool goes_on = line->ends_with('\\');
      if (goes_on) line->pop_back();
      turn += *line;
      if (!goes_on) return turn;
      turn += '\n';
    }
  }

  bool take(const std::string& line) {
    if (line[0] != '/') {
      session_.say(line);
      answer(true);
      return true;
    }
    const ChatSession::Outcome outcome = session_.command(line);
    if (!outcome.text.empty() && talks_) write_out(outcome.text + "\n");
    if (outcome.next == ChatSession::Next::kAnswer) answer(false);
    return outcome.next != ChatSession::Next::kEnd;
  }

  // `fresh`: the turn was said just now, and is taken back where nothing answers it.
  void answer(bool fresh) {
    interrupted = 0;
    bool thinks = false;
    const auto show_piece = [&](std::string_view piece, bool is_thought) {
      if (is_thought && hides_thoughts_) return;
      if (is_thought != thinks) write_out(is_thought ? "\x1b[2m" : "\x1b[0m\n\n");
      thinks = is_thought;
      write_out(piece);
    };
    ChatAnswer answer;
    try {
      answer = ask_for_answer(service_, dump_json(session_.request(service_.model())), show_piece,
                              [] { return interrupted != 0; });
    } catch (const Error&) {
      if (thinks) write_out("\x1b[0m\n");
      if (fresh) session_.undo_turn();
      throw;
    }
    if (thinks) write_out("\x1b[0m");
    write_out("\n");
    if (answer.finish == "length" && talks_) write_out("(cut: max_tokens, or the context, is at its end)\n");
    if (!answer.stopped || !answer.text.empty()) session_.take_answer(answer.text, answer.thoughts);
    else if (fresh) session_.undo_turn();
  }

  ChatService& service_;
  ChatSession& session_;
  bool talks_, hides_thoughts_;
};

std::unique_ptr<ChatService> service_of(ChatArguments& o) {
  if (o.remote.server) {
    for (const auto& [flag, given] : {std::pair("--chat_template", o.chat_template.has_value()),
                                      std::pair("--max_model_length", o.max_model_length != 0)})
      if (given) fail(ErrorKind::kUsage, "{}: not with --server, which has loaded its models already", flag);
    return remote_chat_service(o.remote, o.model);
  }
  if (o.max_model_length < 0)
    fail(ErrorKind::kUsage, "--max_model_length: expected at least 0, found {}", o.max_model_length);
  o.device.apply();
  serve::ServeOptions options;
  options.models = {{o.model, o.model}};
  options.max_model_length = o.max_model_length;
  options.max_sequences = 1;
  options.request_threads = 1;
  options.hub = o.source.hub();
  if (o.chat_template) options.chat_template = read_file(*o.chat_template);
  o.precision.apply_to(options.load);
  return local_chat_service(options);
}

int run_chat(ChatArguments& o) {
  o.remote.expect_model(o.model);
  o.remote.refuse_local(o.source, o.device, o.precision);
  ChatSession session;
  for (const auto& [name, word] : o.settings) {
    if (!word) continue;
    for (const ChatSetting& setting : chat_settings())
      if (name == setting.other_name && session.settings().contains(setting.name))
        fail(ErrorKind::kUsage, "--{} and --{} say the same: give one of them", setting.name, name);
    try {
      session.set(name, *word);
    } catch (const Error& error) {
      fail(ErrorKind::kUsage, "--{}", error.what());
    }
  }
  if (o.load) session.command("/load " + *o.load);
  if (o.system) session.set_system(*o.system);
  const std::unique_ptr<ChatService> service = service_of(o);
  const InterruptedAnswers interrupts;
  Terminal(*service, session, o.hide_thoughts).run();
  return 0;
}

}  // namespace

Command chat_command() {
  static ChatArguments o;
  Command command{.name = "chat",
                  .help = "Talk to a model in the terminal, or line by line from standard input",
                  .examples =
                      "  transom chat MODEL --system \"You are brief.\"\n"
                      "  printf 'Hello\\n/set temperature 0\\nAnd now?\\n' | transom chat MODEL\n"
                      "  transom chat --server http://localhost:8000\n"};
  command.options = {{kModelPlace, &o.model, kModelHelp},
                     {"--system", &o.system, "what the model is told first"},
                     {"--load", &o.load, "file of a conversation (/save) to go on with"},
                     {"--hide_thoughts", &o.hide_thoughts,
                      "what the model thinks is not shown; nor is it where standard output is no terminal"},
                     {.name = "--chat_template",
                      .value = &o.chat_template,
                      .help = "file with a Jinja template in place of the model's",
                      .group = kModelGroup},
                     {.name = "--max_model_length",
                      .value = &o.max_model_length,
                      .help = "tokens of the conversation and the next answer; 0: the model's",
                      .group = kModelGroup}};
  const auto add = [&](const std::string& name, const std::string& help) {
    auto& entry = o.settings.emplace_back(name, std::nullopt);
    command.options.push_back({.name = "--" + name, .value = &entry.second, .help = help, .group = kGenerationGroup});
  };
  for (const ChatSetting& setting : chat_settings()) {
    add(setting.name, setting.help);
    if (*setting.other_name != '\0') add(setting.other_name, std::string("the same as --") + setting.name);
  }
  o.remote.add_to(command);
  o.source.add_to(command);
  o.device.add_to(command);
  o.precision.add_to(command);
  command.run = [] { return run_chat(o); };
  return command;
}

}  // namespace transom
