// SPDX-License-Identifier: Apache-2.0
// Pictures over HTTP, by golden's random pipeline of diffusers.
#include <gtest/gtest.h>

#include <thread>

#include "apps/serve/golden_server.h"
#include "base/text/base64.h"
#include "inputs/images/image.h"
#include "inputs/images/write_png.h"

namespace transom {
namespace {

class Images : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    server_ = test::start_server({.models = {test::golden_model("diffusion/sd-pndm", "draw")}});
  }
  static void TearDownTestSuite() { server_.reset(); }

  static test::Answer ask(const Json& body, const std::string& path = "/v1/images/generations") {
    test::Client client(server_->port());
    return client.post(path, dump_json(body));
  }
  static Json small(const Json& more = Json::object()) {
    Json body{{"model", "draw"}, {"prompt", "a cat"}, {"size", "24x16"}, {"num_inference_steps", 2}, {"seed", 4}};
    body.update(more);
    return body;
  }

  using Form = std::vector<std::pair<std::string, std::string>>;
  static test::Answer ask_with(const Form& fields, const std::string& path) {
    std::string body;
    for (const auto& [name, value] : fields)
      body += "--border\r\nContent-Disposition: form-data; name=\"" + name + "\"\r\n\r\n" + value + "\r\n";
    test::Client client(server_->port());
    client.send_request("POST", path, body + "--border--\r\n",
                        "Content-Type: multipart/form-data; boundary=border\r\n");
    return client.read_answer();
  }
  static std::string first_picture(const test::Answer& answer) {
    EXPECT_EQ(answer.status, 200) << answer.body;
    return from_base64(test::json_of(answer)["data"][0]["b64_json"].get<std::string>(), "b64_json");
  }

  static inline std::unique_ptr<serve::Server> server_;
};

// A gray PNG file of four channels, of which the left half is transparent if `open`.
std::string gray_png(int64_t width, int64_t height, bool open) {
  std::vector<uint8_t> values;
  for (int64_t y = 0; y < height; ++y)
    for (int64_t x = 0; x < width; ++x) {
      values.insert(values.end(), 3, static_cast<uint8_t>(100 + x));
      values.push_back(open && x < width / 2 ? 0 : 255);
    }
  return encode_png({.width = width, .height = height, .channels = 4, .values = values});
}

TEST_F(Images, AreDrawnAsBase64) {
  const test::Answer answer = ask(small({{"n", 2}, {"response_format", "b64_json"}, {"negative_prompt", "a dog"}}));
  ASSERT_EQ(answer.status, 200) << answer.body;
  const Json data = test::json_of(answer)["data"];
  ASSERT_EQ(data.size(), 2u);
  EXPECT_NE(data[0], data[1]);
  const std::string png = from_base64(data[0]["b64_json"].get<std::string>(), "b64_json");
  const Image image = decode_image(std::as_bytes(std::span(png)), "b64_json");
  EXPECT_EQ(image.width, 24);
  EXPECT_EQ(image.height, 16);
  // A seed gives its picture.
  EXPECT_EQ(test::json_of(ask(small({{"n", 2}, {"negative_prompt", "a dog"}})))["data"], data);
}

// Of the metrics' text, the number behind a name.
double metric_of(uint16_t port, const std::string& name) {
  test::Client client(port);
  const std::string text = client.get("/metrics").body;
  const size_t line = text.find('\n' + name + '{');
  EXPECT_NE(line, text.npos) << name;
  return line == text.npos ? 0 : std::stod(text.substr(text.find("} ", line) + 2));
}

// While one is drawn the others wait, and share their steps; each is the picture that its request has alone.
TEST_F(Images, OfSeveralRequestsShareStepsAndKeepTheirBits) {
  const Json wanted[] = {small({{"num_inference_steps", 150}}), small({{"prompt", "a dog"}, {"seed", 1}}),
                         small({{"num_inference_steps", 5}, {"seed", 2}}), small({{"guidance_scale", 1}}),
                         small({{"scheduler", "ddim"}, {"seed", 3}, {"num_inference_steps", 3}})};
  std::vector<std::string> alone, together(std::size(wanted));
  for (const Json& body : wanted) alone.push_back(first_picture(ask(body)));
  const double batches = metric_of(server_->port(), "transom_batches_total"),
               rows = metric_of(server_->port(), "transom_batch_rows_total");
  std::vector<std::jthread> askers;
  for (size_t i = 0; i < std::size(wanted); ++i) {
    askers.emplace_back([&, i] { together[i] = first_picture(ask(wanted[i])); });
    // The first has begun, alone.
    while (i == 0 && metric_of(server_->port(), "transom_batches_total") == batches) std::this_thread::yield();
  }
  askers.clear();
  EXPECT_EQ(together, alone);
  EXPECT_EQ(metric_of(server_->port(), "transom_batch_rows_total"), rows + 5);
  EXPECT_LT(metric_of(server_->port(), "transom_batches_total"), batches + 5);
}

TEST_F(Images, FieldsThatAreNotKnownAreRefused) {
  for (const Json& wrong :
       {Json{{"response_format", "url"}}, Json{{"size", "24"}}, Json{{"size", "9999999999x8"}}, Json{{"n", 0}},
        Json{{"n", 11}}, Json{{"stream", true}}, Json{{"background", "transparent"}}, Json{{"stepz", 3}},
        Json{{"output_compression", 50}}, Json{{"guidance_scale", "much"}}, Json{{"prompt", nullptr}},
        Json{{"lora", "/etc/passwd"}}, Json{{"control_image", "/etc/passwd"}}, Json{{"guess_mode", "yes"}},
        Json{{"true_cfg_scale", -1}}, Json{{"max_sequence_length", 513}}, Json{{"control_guidance_end", 2}},
        Json{{"num_inference_steps", 100000}}, Json{{"scheduler", "fast"}}}) {
    const test::Answer answer = ask(small(wrong));
    EXPECT_EQ(answer.status, 400) << wrong << answer.body;
    EXPECT_NE(answer.body.find(wrong.begin().key() == "size" ? "" : wrong.begin().key()), std::string::npos)
        << wrong << answer.body;
  }
  EXPECT_EQ(ask(small({{"user", "me"}, {"quality", "high"}, {"stream", false}})).status, 200);
}

TEST_F(Images, BecomeWhatATextSays) {
  const Form form = {{"model", "draw"}, {"prompt", "a cat"}, {"image", gray_png(28, 16, false)},
                     {"seed", "4"},     {"strength", "0.5"}, {"num_inference_steps", "4"}};
  const std::string changed = first_picture(ask_with(form, "/v1/images/edits"));
  const Image image = decode_image(std::as_bytes(std::span(changed)), "b64_json");
  EXPECT_EQ(image.width, 28);  // its own size
  EXPECT_EQ(image.height, 16);
  EXPECT_EQ(first_picture(ask_with(form, "/v1/images/edits")), changed);  // a seed gives its picture
}

TEST_F(Images, AreDrawnAnewWhereTheyAreTransparent) {
  const Form form = {{"prompt", "a cat"}, {"seed", "4"}, {"num_inference_steps", "3"}, {"n", "2"}};
  Form by_mask = form, by_picture = form, whole = form;
  by_mask.insert(by_mask.end(), {{"image", gray_png(32, 16, false)}, {"mask", gray_png(32, 16, true)}});
  by_picture.emplace_back("image", gray_png(32, 16, true));
  whole.emplace_back("image", gray_png(32, 16, false));
  const std::string masked = first_picture(ask_with(by_mask, "/v1/images/edits"));
  EXPECT_EQ(first_picture(ask_with(by_picture, "/v1/images/edits")), masked);
  EXPECT_NE(first_picture(ask_with(whole, "/v1/images/edits")), masked);
  by_mask.emplace_back("size", "24x16");
  const std::string small = first_picture(ask_with(by_mask, "/v1/images/edits"));
  EXPECT_EQ(decode_image(std::as_bytes(std::span(small)), "b64_json").width, 24);
}

TEST_F(Images, HaveVariations) {
  const Form form = {{"image", gray_png(16, 16, true)}, {"seed", "4"}, {"num_inference_steps", "3"}, {"n", "2"}};
  const test::Answer answer = ask_with(form, "/v1/images/variations");
  ASSERT_EQ(answer.status, 200) << answer.body;
  EXPECT_EQ(test::json_of(answer)["data"].size(), 2u);
}

TEST_F(Images, FormsThatSayTooMuchOrTooLittleAreRefused) {
  const std::string png = gray_png(16, 16, false);
  const std::vector<std::pair<Form, std::string>> wrong = {
      {{{"prompt", "a"}}, "image"},
      {{{"image", png}}, "prompt"},
      {{{"image", "no picture"}, {"prompt", "a"}}, "image"},
      {{{"image", png}, {"image[]", png}, {"prompt", "a"}}, "several"},
      {{{"image", png}, {"mask", png}, {"prompt", "a"}}, "transparent"},
      {{{"image", png}, {"prompt", "a"}, {"size", "32x16"}}, "size"},
      {{{"image", png}, {"prompt", "a"}, {"strength", "much"}}, "strength"},
      {{{"image", png}, {"prompt", "a"}, {"mask_image", "/etc/passwd"}}, "mask_image"},
      {{{"image", png}, {"prompt", "a"}, {"n", "2"}, {"n", "3"}}, "twice"}};
  for (const auto& [form, named] : wrong) {
    const test::Answer answer = ask_with(form, "/v1/images/edits");
    EXPECT_EQ(answer.status, 400) << named << answer.body;
    EXPECT_NE(answer.body.find(named), std::string::npos) << answer.body;
  }
  EXPECT_EQ(ask_with({{"image", png}, {"prompt", "a"}}, "/v1/images/variations").status, 400);
  EXPECT_EQ(ask_with({{"image", png}, {"mask", png}}, "/v1/images/variations").status, 400);
}

TEST_F(Images, RequestsNameNoFilesOfTheServer) {
  const Json parameters{{"num_inference_steps", 1}, {"height", 16}, {"width", 16}, {"lora", "/etc/passwd"}};
  const test::Answer answer = ask({{"inputs", "a cat"}, {"parameters", parameters}}, "/models/draw");
  EXPECT_EQ(answer.status, 400) << answer.body;
  EXPECT_NE(answer.body.find("lora"), std::string::npos) << answer.body;
}

}  // namespace
}  // namespace transom
