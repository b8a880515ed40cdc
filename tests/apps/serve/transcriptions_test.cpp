// SPDX-License-Identifier: Apache-2.0
// Sounds as forms to text, in each form of the answer, by golden's model of Whisper.
#include <gtest/gtest.h>

#include <cmath>

#include "apps/serve/golden_server.h"
#include "base/files/files.h"
#include "support/temporary_folder.h"

namespace transom {
namespace {

// A second of a tone that rises, as a WAV file of 16-bit numbers.
std::string rising_tone() {
  const auto little = [](uint32_t value, int bytes) {
    std::string text;
    for (int i = 0; i < bytes; ++i) text += static_cast<char>(value >> 8 * i & 255);
    return text;
  };
  std::string samples;
  for (int i = 0; i < 16'000; ++i) {
    const auto sample = static_cast<int16_t>(9000 * std::sin(i * i / 9e5));
    samples += little(static_cast<uint16_t>(sample), 2);
  }
  const auto size = static_cast<uint32_t>(samples.size());
  return "RIFF" + little(36 + size, 4) + "WAVEfmt " + little(16, 4) + little(1, 2) + little(1, 2) + little(16'000, 4) +
         little(32'000, 4) + little(2, 2) + little(16, 2) + "data" + little(size, 4) + samples;
}

class Transcriptions : public testing::Test {
 protected:
  // "times": the model with the token that its configuration needs for timestamps.
  static void SetUpTestSuite() {
    if (!test::has_golden("whisper")) return;
    folder_ = std::make_unique<test::TemporaryFolder>();
    const std::filesystem::path source = test::golden_model("whisper", "").path;
    for (const auto& file : std::filesystem::directory_iterator(source))
      std::filesystem::copy_file(file.path(), *folder_ / file.path().filename().string());
    Json generation = parse_json(read_file(source / "generation_config.json"), "generation_config.json");
    const Json tokenizer = parse_json(read_file(source / "tokenizer.json"), "tokenizer.json");
    for (const Json& token : tokenizer["added_tokens"])
      if (token["content"] == "<|notimestamps|>") generation["no_timestamps_token_id"] = token["id"];
    write_file(*folder_ / "generation_config.json", dump_json(generation));
    server_ = test::start_server({.models = {{"times", folder_->string()}, test::golden_model("whisper", "plain")}});
  }
  static void TearDownTestSuite() {
    server_.reset();
    folder_.reset();
  }
  void SetUp() override {
    if (!server_) GTEST_SKIP() << "no golden models";
  }

  static test::Answer ask(std::vector<std::pair<std::string, std::string>> fields, const std::string& file) {
    std::string body;
    for (const auto& [name, value] : fields)
      body += "--border\r\nContent-Disposition: form-data; name=\"" + name + "\"\r\n\r\n" + value + "\r\n";
    if (!file.empty())
      body +=
          "--border\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.wav\"\r\n"
          "Content-Type: audio/wav\r\n\r\n" +
          file + "\r\n";
    test::Client client(server_->port());
    client.send_request("POST", "/v1/audio/transcriptions", body + "--border--\r\n",
                        "Content-Type: multipart/form-data; boundary=border\r\n");
    return client.read_answer();
  }
  static std::string asked(const std::string& format, const std::string& model = "times") {
    const test::Answer answer = ask({{"model", model}, {"response_format", format}}, rising_tone());
    EXPECT_EQ(answer.status, 200) << answer.body;
    return answer.body;
  }

  static inline std::unique_ptr<test::TemporaryFolder> folder_;
  static inline std::unique_ptr<serve::Server> server_;
};

TEST_F(Transcriptions, SayTheSameInEachForm) {
  const std::string text = parse_json(asked("json"), "answer")["text"];
  EXPECT_FALSE(text.empty());
  EXPECT_EQ(asked("text"), text + "\n");
  EXPECT_FALSE(parse_json(asked("json", "plain"), "answer")["text"].get<std::string>().empty());
  const test::Answer streamed = ask({{"model", "times"}, {"stream", "True"}}, rising_tone());  // as Python writes it
  std::string deltas, whole;
  for (const std::string& data : test::events_of(streamed.body)) {
    if (data == "[DONE]") continue;
    const Json event = parse_json(data, "event");
    if (event["type"] == "transcript.text.delta") deltas += event["delta"].get<std::string>();
    if (event["type"] == "transcript.text.done") whole = event["text"];
  }
  EXPECT_EQ(deltas, text);
  EXPECT_EQ(whole, text);
}

TEST_F(Transcriptions, GiveTheTimesOfSegments) {
  const Json verbose = parse_json(asked("verbose_json"), "answer");
  EXPECT_EQ(verbose["task"], "transcribe");
  EXPECT_NEAR(verbose["duration"].get<double>(), 1, 1e-6);
  ASSERT_FALSE(verbose["segments"].empty()) << dump_json(verbose);
  std::string joined;
  double before = 0;
  for (const Json& segment : verbose["segments"]) {
    EXPECT_LE(before, segment["start"].get<double>());
    EXPECT_LE(segment["start"].get<double>(), segment["end"].get<double>());
    EXPECT_LE(segment["end"].get<double>(), 1.0 + 1e-6);
    before = segment["start"];
    joined += segment["text"].get<std::string>();
  }
  EXPECT_EQ(serve::trimmed(joined), verbose["text"].get<std::string>());
  const std::string srt = asked("srt"), vtt = asked("vtt");
  EXPECT_TRUE(srt.starts_with("1\n00:00:0")) << srt;
  EXPECT_NE(srt.find(" --> 00:00:0"), std::string::npos) << srt;
  EXPECT_TRUE(vtt.starts_with("WEBVTT\n\n00:00:0")) << vtt;
}

TEST_F(Transcriptions, DrawAtATemperatureByTheirSeed) {
  const auto drawn = [](const std::string& temperature, const std::string& seed) {
    const test::Answer answer =
        ask({{"model", "times"}, {"temperature", temperature}, {"seed", seed}, {"response_format", "verbose_json"}},
            rising_tone());
    EXPECT_EQ(answer.status, 200) << answer.body;
    return parse_json(answer.body, "answer");
  };
  EXPECT_EQ(drawn("1", "3"), drawn("1", "3"));
  EXPECT_NE(drawn("1", "3")["text"], drawn("1", "4")["text"]);
  EXPECT_EQ(drawn("0", "3"), parse_json(asked("verbose_json"), "answer"));
  EXPECT_EQ(drawn("1.0", "3")["segments"][0]["temperature"], 1);
  EXPECT_GT(drawn("0", "3")["segments"][0]["compression_ratio"].get<double>(), 0);
}

TEST_F(Transcriptions, RefuseWhatTheyCannotGive) {
  const auto refused = [](std::vector<std::pair<std::string, std::string>> fields, const std::string& file) {
    const test::Answer answer = ask(std::move(fields), file);
    EXPECT_EQ(answer.status, 400) << answer.body;
    return answer.body;
  };
  EXPECT_NE(refused({{"model", "plain"}, {"response_format", "srt"}}, rising_tone()).find("no_timestamps_token_id"),
            std::string::npos);
  EXPECT_NE(refused({{"model", "times"}, {"response_format", "xml"}}, rising_tone()).find("response_format"),
            std::string::npos);
  for (const auto& [field, value] :
       {std::pair("temperature", "hot"), std::pair("temperature", "2"), std::pair("temperature", "nan"),
        std::pair("seed", "x"), std::pair("stream", "yes"), std::pair("timestamp_granularities[]", "letter"),
        std::pair("language", "klingon")})
    EXPECT_NE(refused({{"model", "times"}, {field, value}}, rising_tone()).find(std::string(field).substr(0, 8)),
              std::string::npos)
        << field;
  EXPECT_NE(refused({{"model", "times"}, {"stream", "true"}, {"response_format", "srt"}}, rising_tone())
                .find("a stream has no times"),
            std::string::npos);
  EXPECT_NE(refused({{"model", "times"}}, "").find("file"), std::string::npos);
  EXPECT_NE(refused({{"model", "times"}}, "no sound").find("file"), std::string::npos);
}

}  // namespace
}  // namespace transom
