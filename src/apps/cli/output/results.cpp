// SPDX-License-Identifier: Apache-2.0
#include "apps/cli/output/results.h"

#include <algorithm>
#include <cstdio>
#include <vector>

#include "base/error.h"
#include "base/json/json.h"

namespace transom {
namespace {

std::string seconds(const std::optional<double>& time) { return time ? fmt::format("{:>8.2f}", *time) : "       -"; }

std::string extents(const Picture& picture) { return fmt::format("{} x {} pixels", picture.width, picture.height); }

struct ResultPrinter {
  const TaskInput& input;
  const std::string& indent;

  void print(const std::string& line) const { std::puts((indent + line).c_str()); }
  template <typename List>
  bool is_nothing(const List& list) const {
    if (list.empty()) print("nothing found");
    return list.empty();
  }

  void operator()(const std::vector<ClassScore>& classes) const {
    if (is_nothing(classes)) return;
    for (const auto& [label, score] : classes) print(fmt::format("{:<24} {:.4f}", label, score));
  }

  void operator()(const std::vector<NamedEntity>& entities) const {
    if (is_nothing(entities)) return;
    for (const NamedEntity& each : entities)
      print(fmt::format("{:<24} {:<12} {:.4f}  {}-{}", each.word, each.label, each.score, each.start, each.end));
  }

  void operator()(const std::vector<AnswerSpan>& answers) const {
    for (const AnswerSpan& each : answers)
      if (!each.is_there) print("no answer");
      else print(each.score ? fmt::format("{:<40} {:.4f}", each.answer, *each.score) : each.answer);
  }

  void operator()(const std::vector<std::vector<FilledMask>>& masks) const {
    for (const std::vector<FilledMask>& mask : masks)
      for (const FilledMask& each : mask)
        print(fmt::format("{:<16} {:.4f}  {}", each.token_str, each.score, each.sequence));
  }

  // The extents and the first of the numbers.
  void operator()(const FeatureArray& array) const {
    constexpr size_t kShown = 6;
    const size_t row = array.shape.empty() ? array.values.size() : static_cast<size_t>(array.shape.back());
    std::string line;
    for (size_t i = 0; i < std::min({kShown, row, array.values.size()}); ++i)
      line += fmt::format("{}{:.4f}", i > 0 ? "  " : "", array.values[i]);
    const bool more = row > kShown || array.shape.size() > 1;
    print(fmt::format("[{}]  {}{}", fmt::join(array.shape, " x "), line, more ? "  ...  (--json prints all)" : ""));
  }

  // Sentences by falling score.
  void operator()(std::vector<double> scores) const {
    std::vector<SentenceMatch> matches;
    for (size_t i = 0; i < scores.size(); ++i) matches.push_back({static_cast<int64_t>(i), scores[i]});
    (*this)(std::move(matches));
  }
  void operator()(std::vector<SentenceMatch> matches) const {
    if (is_nothing(matches)) return;
    std::stable_sort(matches.begin(), matches.end(), [](const auto& a, const auto& b) { return a.score > b.score; });
    const std::vector<std::string>& sentences = std::get<SentencesInput>(input).sentences;
    for (const auto& [place, score] : matches)
      print(fmt::format("{:.4f}  {}", score, sentences.at(static_cast<size_t>(place))));
  }

  void operator()(const Transcription& result) const {
    print(result.text);
    for (const TranscribedChunk& chunk : result.chunks)
      print(fmt::format("  {}{}",
                        result.has_times ? fmt::format("{} -{}  ", seconds(chunk.begin), seconds(chunk.end)) : "",
                        chunk.text));
  }

  // The messages of a chat end with the answer, which is what is shown.
  void operator()(const std::vector<WrittenText>& texts) const {
    if (is_nothing(texts)) return;
    for (const WrittenText& each : texts) {
      if (const auto* text = std::get_if<std::string>(&each)) print(*text);
      else if (const auto* ids = std::get_if<std::vector<int64_t>>(&each)) print(fmt::format("{}", *ids));
      else print(answer_of(std::get<ChatMessages>(each)));
    }
  }
  static std::string answer_of(const ChatMessages& chat) {
    const Json messages = parse_json(chat.messages, "a chat");
    const bool has_answer = messages.is_array() && !messages.empty() && messages.back().contains("content");
    const Json& answer = has_answer ? messages.back()["content"] : messages;
    return answer.is_string() ? answer.get<std::string>() : dump_json(answer);
  }

  void operator()(const std::vector<DetectedObject>& objects) const {
    if (is_nothing(objects)) return;
    for (const auto& [label, score, box] : objects)
      print(fmt::format("{:<24} {:.4f}  {},{} - {},{}", label, score, box.xmin, box.ymin, box.xmax, box.ymax));
  }

  void operator()(const std::vector<Segment>& segments) const {
    if (is_nothing(segments)) return;
    for (const Segment& each : segments)
      print(fmt::format("{:<24} {}  mask of {}", each.label, each.score ? fmt::format("{:.4f}", *each.score) : "-",
                        extents(each.mask)));
    print("(--output FOLDER keeps the masks)");
  }

  void operator()(const DepthMap& map) const {
    const std::vector<float>& values = map.predicted_depth.values;
    const auto [least, most] = std::minmax_element(values.begin(), values.end());
    print(fmt::format("depth of {}, from {:.4f} to {:.4f}  (--output FILE.png keeps it)", extents(map.depth), *least,
                      *most));
  }

  void operator()(const std::vector<Picture>& pictures) const {
    if (is_nothing(pictures)) return;
    for (const Picture& each : pictures)
      print(fmt::format("a picture of {}  (--output FILE.png keeps it)", extents(each)));
  }

  void operator()(const Waveform& sound) const {
    const double moments = static_cast<double>(sound.samples.size()) / static_cast<double>(sound.channels);
    print(fmt::format("a sound of {:.2f} seconds at {} Hz  (--output FILE.wav keeps it)",
                      moments / static_cast<double>(sound.sampling_rate), sound.sampling_rate));
  }

  void operator()(const Video& video) const {
    print(fmt::format("a video of {} pictures, {} a second", video.frames.size(), video.frames_a_second));
  }
};

}  // namespace

void show_result(const TaskInput& input, const TaskResult& result, const std::string& indent) {
  std::visit(ResultPrinter{input, indent}, result);
}

void show_named_result(const std::string& name, const TaskInput& input, const TaskResult& result) {
  std::puts(name.c_str());
  show_result(input, result, "  ");
}

}  // namespace transom
