// SPDX-License-Identifier: Apache-2.0
// The structure of every kind of result, to the letter: keys in Transformers' order. What was written is read again.
#include <gtest/gtest.h>

#include "base/json/json.h"
#include "support/message.h"
#include "work/pipelines/json/task_json.h"

namespace transom {
namespace {

constexpr CallForm kAlone{.alone = true, .plain = true}, kInList{.alone = false, .plain = true};

std::string written(const char* task, const TaskInput& input, const TaskResult& result, const TaskOptions& options = {},
                    const CallForm& form = kAlone) {
  return dump_json(json_of_result(need_task(task), input, options, result, form));
}

const Picture kGray{2, 1, 1, std::vector<uint8_t>{0, 255}};

TEST(ResultsAsJson, HaveTransformersKeysInTheirOrder) {
  const std::vector<ClassScore> classes{{"a", 0.75}, {"b", 0.25}};
  const TaskInput image = ImageInput("a.png"), sound = SoundInput("a.wav");
  EXPECT_EQ(written("image-classification", image, classes),
            R"([{"label": "a", "score": 0.75}, {"label": "b", "score": 0.25}])");
  EXPECT_EQ(written("audio-classification", sound, classes),
            R"([{"score": 0.75, "label": "a"}, {"score": 0.25, "label": "b"}])");
  EXPECT_EQ(written("zero-shot-classification", "a text", classes),
            R"({"sequence": "a text", "labels": ["a", "b"], "scores": [0.75, 0.25]})");
  EXPECT_EQ(written("token-classification", "Ann", std::vector<NamedEntity>{{"B-PER", 0.5, "Ann", 1, 0, 3}}),
            R"([{"entity": "B-PER", "score": 0.5, "index": 1, "word": "Ann", "start": 0, "end": 3}])");
  EXPECT_EQ(written("token-classification", "Ann", std::vector<NamedEntity>{{"PER", 0.5, "Ann", -1, 0, 3}}),
            R"([{"entity_group": "PER", "score": 0.5, "word": "Ann", "start": 0, "end": 3}])");
  EXPECT_EQ(written("token-classification", "Ann", std::vector<NamedEntity>{}), "[]");
  const QuestionInput question("who", "Ann");
  const AnswerSpan answer{"Ann", 0.5, 0, 3};
  EXPECT_EQ(written("question-answering", question, std::vector{answer}),
            R"({"score": 0.5, "start": 0, "end": 3, "answer": "Ann"})");
  EXPECT_TRUE(written("question-answering", question, std::vector{answer, answer}).starts_with("[{"));
  const AnswerSpan told{"two", std::nullopt, -1, -1}, none{"", std::nullopt, -1, -1, false};
  EXPECT_EQ(written("visual-question-answering", "how many ?", std::vector{told}), R"([{"answer": "two"}])");
  EXPECT_EQ(written("document-question-answering", "how many ?", std::vector{none}), R"([{"answer": null}])");
  EXPECT_EQ(written("feature-extraction", "a", FeatureArray{{1, 2, 2}, {1, 2, 3, 4.5}}), "[[[1.0, 2.0], [3.0, 4.5]]]");
  const SentencesInput sentences("a", {"b", "c"});
  EXPECT_EQ(written("sentence-similarity", sentences, std::vector<double>{0.5, 1}), "[0.5, 1.0]");
  EXPECT_EQ(written("sentence-similarity", sentences, std::vector<SentenceMatch>{{1, 0.5}}),
            R"([{"corpus_id": 1, "score": 0.5}])");
}

TEST(ResultsAsJson, StandAloneWhereTransformersHasThemSo) {
  const std::vector<ClassScore> best{{"a", 0.75}};
  EXPECT_EQ(written("text-classification", "t", best), R"([{"label": "a", "score": 0.75}])");
  EXPECT_EQ(written("text-classification", "t", best, {}, kInList), R"({"label": "a", "score": 0.75})");
  EXPECT_EQ(written("text-classification", "t", best, {{"top_k", int64_t{1}}}, kInList),
            R"([{"label": "a", "score": 0.75}])");
  const std::vector<FilledMask> mask{{"cat", 7, 0.5, "a cat"}};
  const char* filled = R"([{"score": 0.5, "token": 7, "token_str": "cat", "sequence": "a cat"}])";
  EXPECT_EQ(written("fill-mask", "t", std::vector<std::vector<FilledMask>>{mask}), filled);
  EXPECT_EQ(written("fill-mask", "t", std::vector<std::vector<FilledMask>>{mask, mask}),
            "[" + std::string(filled) + ", " + filled + "]");
  EXPECT_EQ(joined_results(need_task("fill-mask"), {Json(1)}), 1);
  EXPECT_EQ(joined_results(need_task("text-generation"), {Json(1)}), Json::array({1}));
  const std::vector<WrittenText> text{"two"};
  EXPECT_EQ(written("summarization", "t", text), R"([{"summary_text": "two"}])");
  EXPECT_EQ(written("translation", "t", text, {}, kInList), R"({"translation_text": "two"})");
  EXPECT_EQ(written("text2text-generation", "t", std::vector<WrittenText>{std::vector<int64_t>{3, 4}}),
            R"([{"generated_token_ids": [3, 4]}])");
  EXPECT_EQ(
      written("text-generation", "t", std::vector<WrittenText>{ChatMessages{R"([{"role":"user"}])"}}, {}, kInList),
      R"([{"generated_text": [{"role": "user"}]}])");
}

TEST(ResultsAsJson, ChunksTellWhatIsKnownOfThem) {
  const TaskInput sound = SoundInput("a.wav");
  Transcription result{.text = "hello", .chunks = {{"hello", 0.5, std::nullopt, "english"}}};
  const auto chunk = [&](const TaskOptions& options = {}) {
    return written("automatic-speech-recognition", sound, result, options);
  };
  EXPECT_EQ(chunk(), R"({"text": "hello"})");
  result.has_times = true;
  EXPECT_EQ(chunk(), R"({"text": "hello", "chunks": [{"timestamp": [0.5, null], "text": "hello"}]})");
  EXPECT_EQ(chunk({{"return_timestamps", "word"}}),
            R"({"text": "hello", "chunks": [{"text": "hello", "timestamp": [0.5, null]}]})");
  result.has_times = false, result.has_languages = true;
  EXPECT_EQ(chunk(), R"({"text": "hello", "chunks": [{"language": "english", "text": "hello"}]})");
}

// Tasks that are not built yet have their values, too.
TEST(ResultsAsJson, PicturesAndSoundsAreFilesInBase64) {
  TaskRecord any = need_task("image-classification");
  const TaskInput input = ImageInput("a.png");
  const auto json = [&](const TaskResult& result) { return json_of_result(any, input, {}, result, kAlone); };
  EXPECT_TRUE(json(std::vector{kGray})[0].get<std::string>().starts_with("iVBORw0KGgo"));
  EXPECT_TRUE(json(Waveform{8000, 1, {0, 0.5}})["audio"].get<std::string>().starts_with("UklGR"));
  const std::string box = R"([{"score": 0.5, "label": "cat", "box": {"xmin": 1, "ymin": 2, "xmax": 3, "ymax": 4}}])";
  EXPECT_EQ(dump_json(json(std::vector<DetectedObject>{{"cat", 0.5, {1, 2, 3, 4}}})), box);
  any.result = ResultKind::kObjects;
  EXPECT_EQ(std::get<std::vector<DetectedObject>>(result_of_json(any, parse_json(box, "box")))[0].box.ymax, 4);
  const Json segments = json(std::vector<Segment>{{"sky", std::nullopt, kGray}});
  EXPECT_EQ(segments[0]["score"], nullptr);
  any.result = ResultKind::kSegments;
  EXPECT_EQ(std::get<std::vector<Segment>>(result_of_json(any, segments))[0].mask.values, kGray.values);
  const Json depth = json(DepthMap{{{1, 2}, {0.5, 2}}, kGray});
  EXPECT_EQ(dump_json(depth["predicted_depth"]), "[[0.5, 2.0]]");
  any.result = ResultKind::kDepth;
  EXPECT_EQ(std::get<DepthMap>(result_of_json(any, depth)).depth.values, kGray.values);
}

TEST(ResultsAsJson, AreReadAsTheyWereWritten) {
  const auto again = [](const char* task, const TaskInput& input, const TaskResult& result,
                        const TaskOptions& options = {}, const CallForm& form = kAlone) {
    const std::string text = written(task, input, result, options, form);
    EXPECT_EQ(written(task, input, result_of_json(need_task(task), parse_json(text, "text")), options, form), text);
  };
  again("text-classification", "t", std::vector<ClassScore>{{"a", 0.1}}, {}, kInList);
  again("zero-shot-classification", "t", std::vector<ClassScore>{{"a", 0.1}, {"b", 0.3}});
  again("token-classification", "t", std::vector<NamedEntity>{{"PER", 0.5, "Ann", -1, 0, 3}, {"X", 0.1, "b", 2, 4, 5}});
  again("question-answering", QuestionInput("a", "b"), std::vector<AnswerSpan>{{"b", 0.1, 0, 1}});
  again("visual-question-answering", "t", std::vector<AnswerSpan>{{"b", std::nullopt, -1, -1}});
  again("document-question-answering", "t", std::vector<AnswerSpan>{{"", std::nullopt, -1, -1, false}});
  again("fill-mask", "t", std::vector<std::vector<FilledMask>>{{{"a", 1, 0.5, "a"}}, {{"b", 2, 0.5, "b"}}});
  again("feature-extraction", "t", FeatureArray{{2, 2}, {0.1f, 2, 3, 4}});
  again("sentence-similarity", SentencesInput("a", {"b"}), std::vector<double>{0.1});
  again("sentence-similarity", SentencesInput("a", {"b"}), std::vector<SentenceMatch>{{0, 0.1}});
  again("automatic-speech-recognition", SoundInput("a"),
        Transcription{.text = "a", .chunks = {{"a", 0.1, std::nullopt, ""}}, .has_times = true, .has_languages = true});
  again("text-generation", "t", std::vector<WrittenText>{"a", std::vector<int64_t>{1}, ChatMessages{"[{\"a\": 1}]"}});
  EXPECT_NE(test::message_of([] {
              result_of_json(need_task("fill-mask"), Json{{{"token", 1}}});
            }).find("fill-mask"),
            std::string::npos);
  EXPECT_NE(test::message_of([] {
              result_of_json(need_task("feature-extraction"), Json{{1, 2}, {3}});
            }).find("lists"),
            std::string::npos);
}

TEST(Inputs, QuestionsAboutPicturesHaveBoth) {
  const TaskRecord& asks = need_task("visual-question-answering");
  const auto asked = std::get<TextInput>(input_of_json(asks, Json{{"image", "a.png"}, {"question", "what ?"}}, {}));
  EXPECT_EQ(asked.text, "what ?");
  ASSERT_EQ(asked.images.size(), 1u);
  EXPECT_EQ(std::get<std::string>(asked.images[0]), "a.png");
  TextInput held("what ?");
  held.images = {FileBytes{std::string("\1\2", 2)}};
  EXPECT_EQ(dump_json(json_of_input(asks, held)), R"({"question": "what ?", "images": [{"base64": "AQI="}]})");
  for (const Json& wrong : {Json("what ?"), Json{{"question", "what ?"}}, Json{{"image", "a.png"}}})
    EXPECT_NE(test::message_of([&] { input_of_json(asks, wrong, {}); }).find("question"), std::string::npos);
}

TEST(Inputs, ChatsKeepTheirPicturesBesideTheMessages) {
  TaskRecord sees = need_task("text-generation");
  const Json chat = parse_json(R"([{"role": "user", "content": [{"type": "image", "url": "data:image/png;base64,AA=="},
      {"type": "text", "text": "what is this?"}, {"type": "image", "base64": "AQI="}]}])",
                               "chat");
  EXPECT_TRUE(is_one_input(sees, chat));
  EXPECT_EQ(std::get<ChatInput>(input_of_json(sees, chat, {})).messages, dump_json(chat));
  sees.takes_images = true;
  const auto seen = std::get<ChatInput>(input_of_json(sees, chat, {}));
  ASSERT_EQ(seen.images.size(), 2u);
  EXPECT_EQ(std::get<std::string>(seen.images[0]), "data:image/png;base64,AA==");
  EXPECT_EQ(std::get<FileBytes>(seen.images[1]).bytes, "\x01\x02");
  EXPECT_EQ(dump_json(parse_json(seen.messages, "messages")[0]["content"]),
            R"([{"type": "image", "url": "data:image/png;base64,AA=="}, {"type": "text", "text": "what is this?"}, )"
            R"({"type": "image"}])");
  const auto beside = std::get<TextInput>(input_of_json(sees, Json{{"text", "a"}, {"images", {"x.png", "y.png"}}}, {}));
  EXPECT_EQ(beside.images.size(), 2u);
  EXPECT_NE(test::message_of([&] {
              input_of_json(sees, Json{{{"role", "user"}, {"content", {{{"type", "image"}}}}}}, {});
            }).find("expected \"image\""),
            std::string::npos);
}

}  // namespace
}  // namespace transom
