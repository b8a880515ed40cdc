// SPDX-License-Identifier: Apache-2.0
// Text encoders that write (is_decoder): no token sees those behind it, and a cache changes nothing.
#include <gtest/gtest.h>

#include "models/generative.h"
#include "support/message.h"
#include "transom/gradients.h"

namespace transom {
namespace {

std::string causal_config(const std::string& type, const std::string& architecture, const std::string& more) {
  return R"({"model_type": ")" + type + R"(", "architectures": [")" + architecture + R"("], "vocab_size": 13,
    "hidden_size": 8, "embedding_size": 6, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 6,
    "initializer_range": 0.5, "pad_token_id": 1, "max_position_embeddings": 16)" +
         more + "}";
}

NamedTensors token_inputs(std::vector<int64_t> ids) {
  const auto length = static_cast<int64_t>(ids.size());
  return {{"input_ids", Tensor::from(ids, {1, length})}};
}

struct Case {
  const char *type, *architecture;
};
class CausalEncoders : public testing::TestWithParam<Case> {};

TEST_P(CausalEncoders, SeeNoTokenBehindTheirOwn) {
  const auto model =
      Model::from_config(causal_config(GetParam().type, GetParam().architecture, R"(, "is_decoder": true)"));
  const auto one = model->forward(token_inputs({3, 4, 5, 6})).at("logits").to_vector<float>();
  const auto other = model->forward(token_inputs({3, 4, 5, 9})).at("logits").to_vector<float>();
  for (size_t i = 0; i < 3 * 13; ++i) EXPECT_FLOAT_EQ(one[i], other[i]) << i;
  EXPECT_NE(one, other);
  // As an encoder every token sees all.
  const auto encoder = Model::from_config(causal_config(GetParam().type, GetParam().architecture, ""));
  EXPECT_NE(encoder->forward(token_inputs({3, 4, 5, 6})).at("logits").to_vector<float>()[0],
            encoder->forward(token_inputs({3, 4, 5, 9})).at("logits").to_vector<float>()[0]);
}

TEST_P(CausalEncoders, SayTheSameTokenByToken) {
  const auto model =
      Model::from_config(causal_config(GetParam().type, GetParam().architecture, R"(, "is_decoder": true)"));
  const auto* writer = dynamic_cast<const GenerativeModel*>(model.get());
  ASSERT_NE(writer, nullptr);
  const std::vector<int64_t> text = {3, 4, 5, 6};
  NamedTensors whole = token_inputs(text);
  whole.set("position_ids", Tensor::from(std::vector<int64_t>{0, 1, 2, 3}, {1, 4}));
  const auto expected = model->forward(whole).at("logits").to_vector<float>();
  const NoGradient inference;
  KeyValueCache cache(1, {1});
  ForwardContext context{.cache = &cache};
  for (size_t t = 0; t < text.size(); ++t) {
    cache.begin(1);
    const Tensor place = Tensor::from(std::vector<int64_t>{static_cast<int64_t>(t)}, {1, 1});
    const Tensor logits = writer->next_logits({Tensor::from(std::vector<int64_t>{text[t]}, {1, 1}), place}, context);
    std::vector<Tensor> all = cache.tensors();
    all.push_back(logits);
    eval(all);
    cache.end();
    const auto got = logits.to_vector<float>();
    for (size_t i = 0; i < 13; ++i) EXPECT_NEAR(got[i], expected[t * 13 + i], 1e-5) << t << " " << i;
  }
}

// The loss is that of the token behind each place.
TEST_P(CausalEncoders, LearnTheNextToken) {
  const auto model =
      Model::from_config(causal_config(GetParam().type, GetParam().architecture, R"(, "is_decoder": true)"));
  NamedTensors inputs = token_inputs({3, 4, 5, 6});
  const auto loss_of = [&](std::vector<int64_t> labels) {
    inputs.set("labels", Tensor::from(labels, {1, 4}));
    return model->forward(inputs).at("loss").to_vector<float>()[0];
  };
  EXPECT_FLOAT_EQ(loss_of({3, 4, 5, 6}), loss_of({-100, 4, 5, 6}));
  EXPECT_NE(loss_of({3, 4, 5, 6}), loss_of({3, 4, 5, 7}));
}

INSTANTIATE_TEST_SUITE_P(Families, CausalEncoders,
                         testing::Values(Case{"bert", "BertLMHeadModel"}, Case{"roberta", "RobertaForCausalLM"},
                                         Case{"electra", "ElectraForCausalLM"}),
                         [](const auto& info) { return std::string(info.param.type); });

TEST(CausalEncoder, DoesNotWriteAsAnEncoder) {
  const auto model = Model::from_config(causal_config("bert", "BertLMHeadModel", ""));
  const auto* writer = dynamic_cast<const GenerativeModel*>(model.get());
  ASSERT_NE(writer, nullptr);
  KeyValueCache cache(1, {1});
  cache.begin(1);
  ForwardContext context{.cache = &cache};
  const Tensor one = Tensor::from(std::vector<int64_t>{3}, {1, 1}),
               place = Tensor::from(std::vector<int64_t>{0}, {1, 1});
  EXPECT_NE(test::message_of([&] {
              writer->next_logits({one, place}, context);
            }).find("is_decoder"),
            std::string::npos);
}

}  // namespace
}  // namespace transom
