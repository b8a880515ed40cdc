// SPDX-License-Identifier: Apache-2.0
// Texts as sounds, by a graph of Kokoro's shape that gives the mean of the voice's row, times the speed, for each
// token.
#include <gtest/gtest.h>

#include <cstring>
#include <utility>

#include "apps/serve/golden_server.h"
#include "base/files/directories.h"
#include "base/files/files.h"
#include "base/json/json.h"
#include "base/text/base64.h"
#include "inputs/audio/sound.h"
#include "models/onnx/model_writer.h"
#include "support/temporary_folder.h"

namespace transom {
namespace {

using onnx::ElementType;
using onnx::test::Message;

std::string level_graph() {
  onnx::test::GraphParts parts;
  parts.inputs = {onnx::test::value("input_ids", ElementType::kInt64, {1, -1}),
                  onnx::test::value("style", ElementType::kFloat32, {1, 2}),
                  onnx::test::value("speed", ElementType::kFloat32, {1})};
  parts.initializers = {onnx::test::tensor<float>("nothing", ElementType::kFloat32, {1}, {0})};
  parts.nodes = {onnx::test::node("Cast", {"input_ids"}, {"numbers"}, {onnx::test::integer("to", 1)}),
                 onnx::test::node("Mul", {"numbers", "nothing"}, {"zeros"}),
                 onnx::test::node("ReduceMean", {"style"}, {"mean"}, {onnx::test::integer("keepdims", 0)}),
                 onnx::test::node("Mul", {"mean", "speed"}, {"level"}),
                 onnx::test::node("Add", {"zeros", "level"}, {"waveform"})};
  parts.outputs = {Message().text(1, "waveform")};
  return onnx::test::model(parts, 17);
}

class Speech : public testing::Test {
 protected:
  void SetUp() override {
    write_file(folder_ / "model.onnx", level_graph());
    write_file(folder_ / "config.json", R"({"vocab": {"a": 1}, "sampling_rate": 24000})");
    make_directories(folder_ / "voices");
    const std::vector<float> rows{0.25f, 0.25f, 0.25f, 0.25f};
    std::string bytes(rows.size() * sizeof(float), '\0');
    std::memcpy(bytes.data(), rows.data(), bytes.size());
    write_file(folder_ / "voices" / "calm.bin", bytes);
    serve::ServeOptions options{.models = {{"voice", folder_.string()}}};
    options.task = "text-to-speech";
    server_ = test::start_server(std::move(options));
  }
  test::Answer ask(const Json& body) {
    test::Client client(server_->port());
    client.send_request("POST", "/v1/audio/speech", dump_json(body), "Content-Type: application/json\r\n");
    return client.read_answer();
  }
  test::TemporaryFolder folder_;
  std::unique_ptr<serve::Server> server_;
};

TEST_F(Speech, IsAWavFileOrNumbersAlone) {
  const Json body{{"model", "voice"}, {"input", "aa"}, {"voice", "calm"}, {"phonemes", true}};
  const test::Answer wav = ask(body);
  ASSERT_EQ(wav.status, 200) << wav.body;
  const Sound sound = parse_sound(std::as_bytes(std::span(wav.body)), "answer");
  EXPECT_EQ(sound.sampling_rate, 24000);
  ASSERT_EQ(sound.samples.size(), 4U);
  for (const float sample : sound.samples) EXPECT_NEAR(sample, 0.25f, 1e-4f);
  Json raw = body;
  raw["response_format"] = "pcm", raw["speed"] = 2;
  const test::Answer pcm = ask(raw);
  ASSERT_EQ(pcm.status, 200) << pcm.body;
  ASSERT_EQ(pcm.body.size(), 8U);
  EXPECT_EQ(static_cast<unsigned char>(pcm.body[0]) | static_cast<unsigned char>(pcm.body[1]) << 8, 16384);
}

// What the events of a stream hold, one behind the other, and how many of them there are.
std::pair<std::string, int> streamed(const test::Answer& answer) {
  EXPECT_EQ(answer.status, 200) << answer.body;
  std::string bytes;
  int count = 0;
  bool done = false;
  for (size_t at = 0, end = 0; (end = answer.body.find("\n\n", at)) != answer.body.npos; at = end + 2) {
    const Json event = parse_json(answer.body.substr(at + 6, end - at - 6), "event");  // behind "data: "
    EXPECT_FALSE(done);
    done = event["type"] == "speech.audio.done";
    if (done) continue;
    EXPECT_EQ(event["type"], "speech.audio.delta") << event;
    bytes += from_base64(event["audio"].get<std::string>(), "audio");
    ++count;
  }
  EXPECT_TRUE(done);
  return {bytes, count};
}

TEST_F(Speech, IsStreamedSentenceBySentence) {
  const auto spoken = [&](const std::string& text, const char* form, bool streams) {
    Json body{{"input", text}, {"voice", "calm"}, {"phonemes", true}, {"response_format", form}};
    if (streams) body["stream_format"] = "sse";
    return ask(body);
  };
  const std::string first = "aaaaaaaa.", second = "aaaaaaaaaaaa?";
  const std::string both = spoken(first, "pcm", false).body + spoken(second, "pcm", false).body;
  EXPECT_EQ(streamed(spoken(first + " " + second, "pcm", true)), std::pair(both, 2));
  const auto [wav, count] = streamed(spoken(first + " " + second, "wav", true));
  EXPECT_EQ(count, 2);
  const Sound sound = parse_sound(std::as_bytes(std::span(wav)), "answer");
  EXPECT_EQ(sound.sampling_rate, 24000);
  EXPECT_EQ(2 * sound.samples.size(), both.size());
  for (const float sample : sound.samples) EXPECT_NEAR(sample, 0.25f, 1e-4f);
}

TEST_F(Speech, AStreamTellsWhatFails) {
  const auto said = [&](const char* text, const char* voice) {
    return ask({{"input", text}, {"voice", voice}, {"phonemes", true}, {"stream_format", "sse"}});
  };
  EXPECT_EQ(said("aaaaaaaa. aaaaaaaa.", "nobody").status, 400);
  const test::Answer later = said("aaaaaaaa. bbbbbbbb.", "calm");  // of which the model knows no character
  EXPECT_EQ(later.status, 200);
  EXPECT_NE(later.body.find("speech.audio.delta"), std::string::npos);
  EXPECT_NE(later.body.find("\"error\""), std::string::npos) << later.body;
  EXPECT_EQ(later.body.find("speech.audio.done"), std::string::npos);
}

TEST_F(Speech, RefusesWhatItCannotGive) {
  const auto refused = [&](const Json& body) {
    const test::Answer answer = ask(body);
    EXPECT_EQ(answer.status, 400) << answer.body;
    return answer.body;
  };
  const Json good{{"input", "a"}, {"phonemes", true}};
  const auto with = [&](const char* field, Json value) {
    Json body = good;
    body[field] = std::move(value);
    return body;
  };
  EXPECT_NE(refused({{"voice", "calm"}}).find("input"), std::string::npos);
  EXPECT_NE(refused(with("response_format", "mp3")).find("response_format"), std::string::npos);
  EXPECT_NE(refused(with("stream", true)).find("stream_format"), std::string::npos);
  EXPECT_NE(refused(with("stream_format", "mp3")).find("stream_format"), std::string::npos);
  EXPECT_NE(refused(with("speed", 9)).find("speed"), std::string::npos);
  EXPECT_NE(refused(with("voice", "nobody")).find("nobody"), std::string::npos);
}

}  // namespace
}  // namespace transom
