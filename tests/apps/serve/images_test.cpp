// SPDX-License-Identifier: Apache-2.0
// Pictures over HTTP, by golden's random pipeline of diffusers.
#include <gtest/gtest.h>

#include "apps/serve/golden_server.h"
#include "base/text/base64.h"
#include "inputs/images/image.h"

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

  static inline std::unique_ptr<serve::Server> server_;
};

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

TEST_F(Images, RequestsNameNoFilesOfTheServer) {
  const Json parameters{{"num_inference_steps", 1}, {"height", 16}, {"width", 16}, {"lora", "/etc/passwd"}};
  const test::Answer answer = ask({{"inputs", "a cat"}, {"parameters", parameters}}, "/models/draw");
  EXPECT_EQ(answer.status, 400) << answer.body;
  EXPECT_NE(answer.body.find("lora"), std::string::npos) << answer.body;
}

}  // namespace
}  // namespace transom
