// SPDX-License-Identifier: Apache-2.0
#include "work/train/loop/schedules.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/json/json.h"
#include "support/message.h"
#include "work/train/golden.h"
#include "work/train/loop/samplers.h"

namespace transom {
namespace {

struct Case {
  const char* type;
  const char* settings;
  int64_t warmup;
  std::vector<double> rates;
};

// transformers.get_scheduler for 12 steps and a learning rate of 1e-3.
const Case kCases[] = {
    {"cosine_with_restarts",
     R"({"num_cycles": 2})",
     3,
     {0.0, 0.0003333333333333333, 0.0006666666666666666, 0.001, 0.000883022221559489, 0.0005868240888334653,
      0.0002500000000000001, 3.0153689607045842e-05, 0.0009698463103929542, 0.0007500000000000002,
      0.00041317591116653486, 0.00011697777844051105}},
    {"polynomial",
     R"({"lr_end": 1e-05, "power": 2.0})",
     3,
     {0.0, 0.0003333333333333333, 0.0006666666666666666, 0.001, 0.0007922222222222222, 0.000608888888888889,
      0.0004500000000000001, 0.00031555555555555563, 0.00020555555555555553, 0.00012000000000000002,
      5.888888888888888e-05, 2.2222222222222237e-05}},
    {"constant", R"()", 3, {0.001, 0.001, 0.001, 0.001, 0.001, 0.001, 0.001, 0.001, 0.001, 0.001, 0.001, 0.001}},
    {"constant_with_warmup",
     R"()",
     3,
     {0.0, 0.0003333333333333333, 0.0006666666666666666, 0.001, 0.001, 0.001, 0.001, 0.001, 0.001, 0.001, 0.001,
      0.001}},
    {"inverse_sqrt",
     R"()",
     3,
     {0.0, 0.0003333333333333333, 0.0006666666666666666, 0.001, 0.0008660254037844387, 0.0007745966692414834,
      0.0007071067811865475, 0.000654653670707977, 0.0006123724356957945, 0.0005773502691896259, 0.0005477225575051661,
      0.0005222329678670935}},
    {"inverse_sqrt",
     R"({"timescale": 5})",
     0,
     {0.001, 0.000912870929175277, 0.0008451542547285166, 0.0007905694150420947, 0.00074535599249993,
      0.0007071067811865475, 0.0006741998624632421, 0.0006454972243679028, 0.0006201736729460422, 0.0005976143046671967,
      0.0005773502691896259, 0.0005590169943749475}},
    {"cosine_with_min_lr",
     R"({"min_lr": 0.0001})",
     3,
     {0.0, 0.0003333333333333333, 0.0006666666666666666, 0.001, 0.0009728616793536587, 0.00089471999940354,
      0.0007750000000000001, 0.0006281416799501187, 0.00047185832004988137, 0.00032500000000000015,
      0.00020528000059645996, 0.00012713832064634127}},
    {"cosine_with_min_lr",
     R"({"min_lr_rate": 0.1, "num_cycles": 1.0})",
     2,
     {0.0, 0.0005, 0.001, 0.0009140576474687263, 0.0006890576474687264, 0.0004109423525312738, 0.00018594235253127373,
      0.0001, 0.00018594235253127363, 0.0004109423525312737, 0.0006890576474687263, 0.0009140576474687263}},
    {"cosine_warmup_with_min_lr",
     R"({"min_lr_rate": 0.1})",
     3,
     {0.0003333333333333333, 0.0006666666666666666, 0.001, 0.0009728616793536587, 0.00089471999940354,
      0.0007750000000000001, 0.0006281416799501187, 0.00047185832004988137, 0.00032500000000000015,
      0.00020528000059645996, 0.00012713832064634127, 0.0001}},
    {"cosine_warmup_with_min_lr",
     R"({"min_lr": 0.0001, "warmup_lr_rate": 0.2})",
     3,
     {0.0002, 0.0006000000000000001, 0.001, 0.0009728616793536587, 0.00089471999940354, 0.0007750000000000001,
      0.0006281416799501187, 0.00047185832004988137, 0.00032500000000000015, 0.00020528000059645996,
      0.00012713832064634127, 0.0001}},
    {"warmup_stable_decay",
     R"({"num_decay_steps": 4})",
     3,
     {0.0, 0.0003333333333333333, 0.0006666666666666666, 0.001, 0.001, 0.001, 0.001, 0.001, 0.001,
      0.0008535533905932737, 0.0005, 0.00014644660940672628}},
    {"warmup_stable_decay",
     R"({"num_decay_steps": 3, "num_stable_steps": 2, "warmup_type": "cosine", )"
     R"("decay_type": "1-sqrt", "min_lr_ratio": 0.1})",
     3,
     {0.0001, 0.000325, 0.000775, 0.001, 0.001, 0.001, 0.0004803847577293369, 0.00026515307716504656, 0.0001, 0.0001,
      0.0001, 0.0001}},
    {"warmup_stable_decay",
     R"({"num_decay_steps": 4, "warmup_type": "1-sqrt", "decay_type": "linear"})",
     3,
     {0.0, 0.00018350341907227396, 0.00042264973081037417, 0.001, 0.001, 0.001, 0.001, 0.001, 0.001, 0.00075, 0.0005,
      0.00025}},
    {"linear",
     R"()",
     3,
     {0.0, 0.0003333333333333333, 0.0006666666666666666, 0.001, 0.0008888888888888888, 0.0007777777777777778,
      0.0006666666666666666, 0.0005555555555555556, 0.0004444444444444444, 0.0003333333333333333, 0.0002222222222222222,
      0.0001111111111111111}},
    {"cosine",
     R"()",
     0,
     {0.001, 0.0009829629131445341, 0.0009330127018922195, 0.0008535533905932737, 0.00075, 0.0006294095225512603,
      0.0005, 0.0003705904774487396, 0.0002500000000000001, 0.00014644660940672628, 6.698729810778065e-05,
      1.70370868554659e-05}},
};

TEST(Schedules, RatesAreThoseOfTransformers) {
  for (const Case& each : kCases) {
    const auto schedule = make_schedule({each.type, {each.settings}, 1e-3, each.warmup, 12});
    std::vector<double> rates;
    for (size_t i = 0; i < each.rates.size(); ++i, schedule->step()) rates.push_back(schedule->learning_rate());
    EXPECT_EQ(rates, each.rates) << each.type << " " << each.settings;
    const auto of_step = learning_rate_schedule({each.type, {each.settings}, 1e-3, each.warmup, 12});
    for (size_t i = each.rates.size(); i-- > 0;) EXPECT_EQ(of_step(static_cast<int64_t>(i)), each.rates[i]);
  }
}

TEST(Schedules, PlateauIsThatOfTorch) {
  const auto schedule = make_schedule({"reduce_lr_on_plateau",
                                       {R"({"mode": "max", "factor": 0.5, "patience": 1, "threshold": 0.01,
                                           "threshold_mode": "abs", "cooldown": 2, "min_lr": 2e-4})"},
                                       1e-3});
  const double metrics[] = {0.5, 0.505, 0.52, 0.52, 0.52, 0.5, 0.5, 0.5, 0.5, 0.5, 0.6, 0.6, 0.6, 0.6, 0.6, 0.6};
  std::vector<double> rates;
  Json state;
  for (const double metric : metrics) {
    schedule->observe(metric);
    rates.push_back(schedule->learning_rate());
    if (rates.size() == 7) state = parse_json(dump_json(schedule->state()), "state");
  }
  EXPECT_EQ(rates, (std::vector<double>{0.001, 0.001, 0.001, 0.001, 0.0005, 0.0005, 0.0005, 0.0005, 0.00025, 0.00025,
                                        0.00025, 0.00025, 0.0002, 0.0002, 0.0002, 0.0002}));
  schedule->load(state);  // back to the seventh
  for (size_t i = 7; i < rates.size(); ++i) {
    schedule->observe(metrics[i]);
    EXPECT_EQ(schedule->learning_rate(), rates[i]);
  }
}

TEST(Schedules, GoOnFromTheirState) {
  const auto one = make_schedule({"cosine", {}, 1e-3, 2, 10}), other = make_schedule({"cosine", {}, 1e-3, 2, 10});
  for (int i = 0; i < 4; ++i) one->step();
  other->load(one->state());
  EXPECT_EQ(one->learning_rate(), other->learning_rate());
  EXPECT_THROW(other->load(Json::array()), Error);
  EXPECT_THROW(make_schedule({"reduce_lr_on_plateau"})->load(Json::object()), Error);
}

std::string refusal(const std::string& type, const std::string& settings) {
  return test::message_of([&] { make_schedule({type, {settings}, 1e-3, 2, 10}); });
}

TEST(Schedules, RefusalsNameTheSetting) {
  EXPECT_NE(test::message_of([] { learning_rate_schedule({.type = "reduce_lr_on_plateau"}); }).find("plateau"),
            std::string::npos);
  EXPECT_NE(test::message_of([] { learning_rate_schedule({.type = "linaer"}); }).find("linaer"), std::string::npos);
  EXPECT_EQ(refusal("cosine", R"({"num_cycle": 1})"),
            "lr_scheduler_kwargs: cosine has no setting 'num_cycle', did you mean 'num_cycles'?");
  EXPECT_EQ(refusal("cosine", R"({"num_cycles": "two"})"),
            "lr_scheduler_kwargs: num_cycles: expected a number, found \"two\"");
  EXPECT_EQ(refusal("cosine_with_min_lr", ""),
            "lr_scheduler_kwargs: cosine_with_min_lr: expected one of min_lr and min_lr_rate, found none");
  EXPECT_NE(refusal("warmup_stable_decay", "").find("num_decay_steps"), std::string::npos);
  EXPECT_NE(refusal("polynomial", R"({"lr_end": 1})").find("lr_end"), std::string::npos);
  EXPECT_NE(refusal("reduce_lr_on_plateau", R"({"factor": 1})").find("factor"), std::string::npos);
  EXPECT_NE(refusal("greedy", "").find("expected one of"), std::string::npos);
}

TEST(Schedules, RatesAreThoseThatTrainerLogged) {
  const auto cases = golden_trainer_cases("log_history.json");
  ASSERT_FALSE(cases.empty());
  for (const auto& folder : cases) {
    const TrainingArguments arguments =
        parse_train_json(dump_json(read_json(folder / "training_args.json")), folder.string()).training;
    const int64_t rows = read_json(folder / "order.json")["rows"].get<int64_t>();
    const TrainSampler sampler(rows, {.batch_size = arguments.per_device_train_batch_size});
    const int64_t steps = duration_of(sampler.batches_per_epoch(), arguments.gradient_accumulation_steps,
                                      arguments.num_train_epochs, arguments.max_steps)
                              .updates;
    const auto schedule = make_schedule({arguments.lr_scheduler_type, arguments.lr_scheduler_kwargs,
                                         arguments.learning_rate, arguments.warmup_steps_of(steps), steps});
    for (const Json& record : read_json(folder / "log_history.json")) {
      if (record.contains("learning_rate")) {
        EXPECT_EQ(schedule->learning_rate(), record["learning_rate"].get<double>()) << folder << record;
        schedule->step();
      } else if (record.contains("eval_loss")) {
        schedule->observe(record["eval_loss"].get<double>());
      }
    }
  }
}

}  // namespace
}  // namespace transom
