// SPDX-License-Identifier: Apache-2.0
#include "work/pipelines/audio/phonemes.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "base/error.h"

namespace transom {
namespace {

constexpr size_t kMostBytes = 4096;  // of a part: what every pipe takes without a reader
constexpr size_t kMostAnswer = 1 << 20;
constexpr const char* kProgram = "espeak-ng";

// A pipe whose ends are closed with it.
struct Ends {
  int read = -1, write = -1;
  Ends() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) fail("{}: no pipe can be made: {}", kProgram, std::strerror(errno));
    read = ends[0], write = ends[1];
  }
  ~Ends() { close_read(), close_write(); }
  Ends(const Ends&) = delete;
  Ends& operator=(const Ends&) = delete;
  void close_read() {
    if (read >= 0) ::close(read);
    read = -1;
  }
  void close_write() {
    if (write >= 0) ::close(write);
    write = -1;
  }
};

pid_t start_espeak(const std::string& language, const Ends& in, const Ends& out) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, in.read, STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, out.write, STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  std::vector<std::string> words{kProgram, "-q", "-b", "1", "--ipa", "-v", language, "--stdin"};
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  pid_t child = -1;
  const int reason = posix_spawnp(&child, kProgram, &actions, nullptr, pointers.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (reason == ENOENT)
    fail(
        "phonemes: the program espeak-ng is not found; install it (apt-get install espeak-ng), or give phonemes "
        "themselves with --phonemes");
  if (reason != 0) fail("phonemes: espeak-ng cannot be started: {}", std::strerror(reason));
  return child;
}

// What the program says of one part of a text, without ends of lines and marks of languages.
std::string spoken(const std::string& text, const std::string& language) {
  Ends in, out;
  const pid_t child = start_espeak(language, in, out);
  out.close_write();
  // A pipe holds the whole part, and its reading end is open here, so that this neither waits for a program that ended
  // nor gets a signal from it.
  size_t written = 0;
  while (written < text.size()) {
    const ssize_t count = ::write(in.write, text.data() + written, text.size() - written);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    written += static_cast<size_t>(count);
  }
  in.close_read(), in.close_write();
  std::string answer;
  char piece[4096];
  for (ssize_t got; (got = ::read(out.read, piece, sizeof piece)) != 0;) {
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 || answer.size() > kMostAnswer) break;
    answer.append(piece, static_cast<size_t>(got));
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
    fail("phonemes: espeak-ng gives none for the language {}", quoted(language));
  std::string clean;
  int depth = 0;  // "(en)" stands where it changes the language
  for (const char c : answer) {
    if (c == '(') ++depth;
    else if (c == ')') depth = std::max(depth - 1, 0);
    else if (depth == 0) clean += c == '\n' || c == '\r' ? ' ' : c;
  }
  const size_t begin = clean.find_first_not_of(' ');
  if (begin == clean.npos) return "";
  return clean.substr(begin, clean.find_last_not_of(' ') - begin + 1);
}

// How many bytes at the place are one mark of punctuation; 0: none.
size_t punctuation_at(std::string_view text, size_t place) {
  for (const std::string_view mark :
       {",", ".", ";", ":", "!", "?", "\"", "(", ")", "…", "—", "“", "”", "«", "»", "¡", "¿", "。", "、", "！", "？"})
    if (text.substr(place).starts_with(mark)) return mark.size();
  return 0;
}

bool is_letter_around(std::string_view text, size_t place) {
  const auto plain = [&](size_t i) { return i < text.size() && static_cast<unsigned char>(text[i]) > ' '; };
  return place > 0 && plain(place - 1) && plain(place + 1) && punctuation_at(text, place + 1) == 0;
}

}  // namespace

std::string phonemes_of(std::string_view text, const std::string& language) {
  if (language.empty() || language.size() > 32 ||
      !std::all_of(language.begin(), language.end(), [](unsigned char c) { return std::isalnum(c) || c == '-'; }) ||
      language[0] == '-')
    fail("phonemes: expected a language as espeak-ng names it (en-us), found {}", quoted(language));
  std::string result, part;
  const auto take_part = [&] {
    if (part.size() > kMostBytes)
      fail("phonemes: expected punctuation within {} bytes, found {} without any", kMostBytes, part.size());
    const size_t begin = part.find_first_not_of(" \t\n\r");
    if (begin != part.npos) {
      const bool spaced = begin > 0 && !result.empty() && result.back() != ' ';
      result += (spaced ? " " : "") + spoken(part, language);
      if (part.find_last_not_of(" \t\n\r") + 1 < part.size()) result += ' ';
    } else if (!part.empty() && !result.empty() && result.back() != ' ') {
      result += ' ';
    }
    part.clear();
  };
  for (size_t place = 0; place < text.size();) {
    const size_t mark = punctuation_at(text, place);
    if (mark == 0 || is_letter_around(text, place)) {  // "3.5", "it's"
      part += text[place++];
      continue;
    }
    take_part();
    std::string written(text.substr(place, mark));
    if (written == "。") written = ".";
    if (written == "、") written = ",";
    if (written == "！") written = "!";
    if (written == "？") written = "?";
    result += written;
    place += mark;
  }
  take_part();
  while (!result.empty() && result.back() == ' ') result.pop_back();
  return result;
}

}  // namespace transom
