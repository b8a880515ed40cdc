// SPDX-License-Identifier: Apache-2.0
#include "work/generation/embedded_inputs.h"

#include <gtest/gtest.h>

#include "support/message.h"
#include "transom/device.h"
#include "work/generation/engine/paged/paged_pass.h"

namespace transom {
namespace {

AttachedInput input_at(std::vector<FilledPlaces> places, float value = 1) {
  int64_t count = 0;
  for (const FilledPlaces& each : places) count += each.count;
  std::vector<float> rows;
  for (int64_t i = 0; i < 2 * count; ++i) rows.push_back(value + static_cast<float>(i));
  return {.tensors = {{"inputs_embeds", Tensor::from(rows, {count, 2})}}, .places = std::move(places)};
}

std::vector<float> rows_in(const AttachedInput& input) { return input.tensors.at("inputs_embeds").to_vector<float>(); }

TEST(EmbeddedInputs, StandInTheirPlaces) {
  set_device("cpu");
  // The second input stands before the first one, and in two parts.
  const std::vector<AttachedInput> attached{input_at({{.begin = 4, .count = 2}}, 10),
                                            input_at({{.begin = 0, .count = 1}, {.begin = 2, .count = 2}}, 20)};
  const EmbeddedInputs embedded(attached, 2, 0, rows_in);
  const auto first_of = [&](int64_t place) { return embedded.at(place) ? *embedded.at(place) : -1; };
  EXPECT_EQ(first_of(0), 20);
  EXPECT_EQ(first_of(1), -1);
  EXPECT_EQ(first_of(2), 22);
  EXPECT_EQ(first_of(3), 24);
  EXPECT_EQ(first_of(4), 10);
  EXPECT_EQ(first_of(5), 12);
  EXPECT_EQ(first_of(6), -1);
  EXPECT_EQ(end_of_places(attached), 6);
}

TEST(EmbeddedInputs, LeaveOutWhatIsBehindThem) {
  set_device("cpu");
  const std::vector<AttachedInput> attached{input_at({{.begin = 0, .count = 2}}), input_at({{.begin = 4, .count = 2}})};
  int computed = 0;
  const EmbeddedInputs embedded(attached, 2, 2, [&](const AttachedInput& input) {
    ++computed;
    return rows_in(input);
  });
  EXPECT_EQ(computed, 1);
  EXPECT_EQ(embedded.from(), 2);
  EXPECT_NE(embedded.at(4), nullptr);
}

TEST(AttachedPlaces, AreApartInOrderAndInTheText) {
  set_device("cpu");
  const auto error = [](const std::vector<AttachedInput>& attached) {
    return test::message_of([&] { check_places(attached, 8); });
  };
  EXPECT_EQ(error({input_at({{.begin = 0, .count = 4}}), input_at({{.begin = 4, .count = 4}})}), "");
  EXPECT_NE(error({input_at({{.begin = 6, .count = 3}})}).find("of a text of 8 tokens"), std::string::npos);
  EXPECT_NE(error({input_at({{.begin = -1, .count = 3}})}).find("from -1 on"), std::string::npos);
  EXPECT_NE(error({input_at({{.begin = 4, .count = 2}, {.begin = 0, .count = 1}})}).find("not in order"),
            std::string::npos);
  EXPECT_NE(error({input_at({{.begin = 0, .count = 4}}), input_at({{.begin = 3, .count = 2}})})
                .find("two attached inputs fill the place 3"),
            std::string::npos);
  AttachedInput empty = input_at({{.begin = 0, .count = 1}});
  empty.tensors = {};
  EXPECT_NE(error({empty}).find("has no tensors"), std::string::npos);
  AttachedInput far = input_at({{.begin = 0, .count = 1}});
  far.places = {{.begin = INT64_MAX, .count = INT64_MAX}};
  EXPECT_NE(error({far}), "");
}

TEST(AttachedContent, IsThatOfTheTensorsAlone) {
  set_device("cpu");
  const AttachedInput one = input_at({{.begin = 0, .count = 2}});
  EXPECT_EQ(content_of(one).size(), 32u);
  EXPECT_EQ(content_of(one), content_of(input_at({{.begin = 5, .count = 2}})));
  EXPECT_NE(content_of(one), content_of(input_at({{.begin = 0, .count = 2}}, 1.0000001f)));
  AttachedInput other = one;
  other.tensors = {{"pixel_values", one.tensors.at("inputs_embeds")}};
  EXPECT_NE(content_of(one), content_of(other));
  other.tensors = {{"inputs_embeds", Tensor::from(rows_in(one), {4, 1})}};
  EXPECT_NE(content_of(one), content_of(other));
}

TEST(PagedPass, HasPositionsByAxesAndRowsInPlaceOfTokens) {
  const std::vector<int32_t> blocks{3, 1};
  const TextPositions positions{.prompt = {{0, 0, 0}, {0, 0, 1}, {0, 1, 0}}, .delta = -1};
  const std::vector<float> row{0.5f, 0.25f};
  std::vector<PassToken> tokens;
  for (int64_t place = 0; place < 5; ++place)
    tokens.push_back({.id = 10 + place, .place = place, .blocks = &blocks, .positions = &positions});
  tokens[1].row = row.data();
  const PagedPass pass =
      pass_of(std::span(tokens).first(4), std::span(tokens).last(1), 4, 64, {.position_axes = 3, .embedding = 2});
  ASSERT_EQ(pass.ids.size(), 5u);
  // Behind the prompt a token stands one before its place.
  EXPECT_EQ(pass.positions, (std::vector<int64_t>{0, 0, 0, 2, 3, 0, 0, 1, 2, 3, 0, 1, 0, 2, 3}));
  EXPECT_EQ(pass.ids, (std::vector<int64_t>{10, 0, 12, 13, 14}));
  EXPECT_EQ(pass.is_given, (std::vector<int64_t>{0, 1, 0, 0, 0}));
  EXPECT_EQ(pass.embeddings, (std::vector<float>{0, 0, 0.5f, 0.25f, 0, 0, 0, 0, 0, 0}));
  tokens[1].row = nullptr;
  const PagedPass plain = pass_of(tokens, {}, 4, 64, {});
  EXPECT_TRUE(plain.embeddings.empty());
  EXPECT_TRUE(plain.is_given.empty());
}

}  // namespace
}  // namespace transom
