// SPDX-License-Identifier: Apache-2.0
#include "tools/plan/machines/published_figures.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "jobs.h"

namespace transom {
namespace {

using test::plan_on;
using test::round_device;
using test::training_job;

PublishedFigure figure(const char* id, const char* model, double ratio, double batch = 1) {
  Job job = training_job();
  job.model = model, job.batch_per_device = batch;
  PublishedFigure result = figure_of(plan_on(job, round_device()), round_device());
  result.id = id, result.ratio = result.left_out_ratio = ratio;
  return result;
}

TEST(PublishedFigures, TheSameJobTakesMostOfItsOwnError) {
  const PublishedFigures figures({figure("A", "test", 1.3)});
  const FigureCorrection own = figures.correction_of(figure("", "test", 1));
  EXPECT_GT(own.log_ratio, 0.85 * std::log(1.3));
  EXPECT_LT(own.log_ratio, std::log(1.3));
  const FigureCorrection larger = figures.correction_of(figure("", "test", 1, 16));
  const FigureCorrection other = figures.correction_of(figure("", "another", 1));
  EXPECT_LT(larger.log_ratio, own.log_ratio);
  EXPECT_LT(other.log_ratio, larger.log_ratio);
  EXPECT_GT(other.log_ratio, 0);
  EXPECT_LT(own.deviation, larger.deviation);
  EXPECT_LT(larger.deviation, other.deviation);
}

TEST(PublishedFigures, OneAskerDoesNotChangeTheAnswerOfAnother) {
  const PublishedFigures figures({figure("A", "test", 1.3), figure("B", "another", 0.8), figure("C", "test", 1.2, 8)});
  const double first = figures.correction_of(figure("", "test", 1)).log_ratio;
  const double second = figures.correction_of(figure("", "another", 1)).log_ratio;
  EXPECT_GT(first, 0);
  EXPECT_LT(second, 0);
  EXPECT_EQ(figures.correction_of(figure("", "test", 1)).log_ratio, first);
}

// The expectation and the deviation by the closed form for one figure.
TEST(PublishedFigures, AgreesWithTheClosedFormOfTwoAlikeFigures) {
  const PublishedFigures one({figure("A", "test", 1.2)});
  const PublishedFigures two({figure("A", "test", 1.2), figure("B", "test", 1.2)});
  const double single = one.correction_of(figure("", "test", 1)).log_ratio / std::log(1.2);  // v / (v + n)
  const double twice = two.correction_of(figure("", "test", 1)).log_ratio / std::log(1.2);   // 2 v / (2 v + n)
  EXPECT_NEAR(twice, 2 * single / (1 + single), 1e-9);
}

TEST(PublishedFigures, OtherFamiliesTellNothing) {
  PublishedFigure foreign = figure("A", "test", 1.4);
  foreign.family = "elsewhere";
  const PublishedFigures figures({foreign});
  const FigureCorrection correction = figures.correction_of(figure("", "test", 1));
  EXPECT_EQ(correction.log_ratio, 0);
  EXPECT_TRUE(correction.from.empty());
}

TEST(PublishedFigures, AWildFigureIsClipped) {
  const PublishedFigures figures({figure("A", "test", 40)});
  EXPECT_LT(figures.correction_of(figure("", "test", 1)).log_ratio, 0.5);
}

TEST(PublishedFigures, ACorrectedPlanHasTheSpeedOfTheFigure) {
  const PublishedFigures figures({figure("A", "test", 1.25)});
  const Job job = training_job();
  const ModelShape shape = model_shape_of(job.config, job.model, 0);
  const Plan plain = plan(job, shape, round_device());
  const Plan corrected = plan(job, shape, round_device(), &figures);
  const double factor = plain.samples_per_second / corrected.samples_per_second;
  EXPECT_GT(factor, 1.2);
  EXPECT_LT(factor, 1.25);
  EXPECT_NEAR(corrected.step_seconds, factor * plain.step_seconds, 1e-9);
  EXPECT_NEAR(corrected.time.total(), corrected.step_seconds, 1e-9);
  EXPECT_EQ(corrected.memory.total(), plain.memory.total());
  ASSERT_FALSE(corrected.assumptions.empty());
  EXPECT_NE(corrected.assumptions.back().find("nearest: A"), std::string::npos) << corrected.assumptions.back();
}

// Figures that predicted their errors with so much, and were as far off as `error` says.
PublishedFigures with_errors(double promised, double error, int count) {
  std::vector<PublishedFigure> figures;
  for (int i = 0; i < count; ++i) {
    figures.push_back(figure(std::to_string(i).c_str(), "test", 1));
    figures.back().promised = promised, figures.back().left_out_ratio = std::exp(error * (i % 4 + 1) / 4);
    figures.back().counted = false;
  }
  return PublishedFigures(std::move(figures));
}

double promise_of(const PublishedFigures& figures, double deviation, const DeviceModel& device = round_device()) {
  Plan made;
  made.job = training_job();
  made.past_error.deviation = deviation;
  return past_error_of(made, device, figures).within_percent;
}

TEST(PublishedFigures, NoPromiseIsTighterThanTheNoiseOfFigures) {
  EXPECT_EQ(promise_of(with_errors(0.1, 0.001, 40), 0.1), 12);
  EXPECT_GT(promise_of(with_errors(0.1, 0.4, 40), 0.1), 30);
}

TEST(PublishedFigures, PromisesAreWiderWhereThereIsLessEvidence) {
  const PublishedFigures many = with_errors(0.2, 0.4, 80);
  const double usual = promise_of(many, 0.2);
  EXPECT_NEAR(usual, 100 * (std::exp(0.3) - 1), 0.1);
  EXPECT_GT(promise_of(with_errors(0.2, 0.4, 5), 0.2), usual);  // few figures
  EXPECT_GE(promise_of(many, 1.5), 100 * (std::exp(1.5) - 1));  // none was predicted with so much
  DeviceModel stranger = round_device();
  stranger.family = "stranger", stranger.name = "strange";
  EXPECT_GE(promise_of(with_errors(0.2, 0.4, 12), 0.2, stranger), promise_of(with_errors(0.2, 0.4, 12), 0.2));
}

// Each shipped figure is judged by all others.
TEST(PublishedFigures, TwoThirdsOfThePromisesAreKept) {
  const auto shipped = shipped_figures().figures();
  std::map<int, std::pair<int, int>> kept;  // by the promise: up to 15 %, 20, 30, more
  for (size_t i = 0; i < shipped.size(); ++i) {
    std::vector<PublishedFigure> others;
    for (size_t k = 0; k < shipped.size(); ++k)
      if (k != i) others.push_back(shipped[k]), others.back().counted = false;
    Plan made;
    made.job.task = parse_task(shipped[i].task, "task"), made.past_error.deviation = shipped[i].promised;
    DeviceModel device;
    device.name = shipped[i].hardware, device.family = shipped[i].family;
    const double promise = past_error_of(made, device, PublishedFigures(std::move(others))).within_percent;
    auto& [good, all] = kept[promise <= 15 ? 0 : promise <= 20 ? 1 : promise <= 30 ? 2 : 3];
    good += std::abs(shipped[i].left_out_ratio - 1) <= promise / 100, ++all;
  }
  for (const auto& [band, count] : kept) {
    RecordProperty("band " + std::to_string(band), std::to_string(count.first) + " of " + std::to_string(count.second));
    EXPECT_GE(3 * count.first, 2 * count.second) << band << ": " << count.first << " of " << count.second;
  }
  EXPECT_TRUE(kept.contains(0));  // there are promises of 15 %
}

TEST(PublishedFigures, FilesReadBackAndDamageIsRefused) {
  const std::vector<PublishedFigure> written = {figure("A", "test", 1.25), figure("B \"x\"", "another", 0.75, 4)};
  const std::string text = published_figures_json(written);
  const PublishedFigures read = read_published_figures(text, "here");
  ASSERT_EQ(read.figures().size(), 2u);
  EXPECT_EQ(read.figures()[1].id, "B \"x\"");
  EXPECT_EQ(read.figures()[1].ratio, 0.75);
  EXPECT_EQ(read.figures()[1].batch, written[1].batch);
  EXPECT_NEAR(read.correction_of(written[0]).log_ratio, PublishedFigures(written).correction_of(written[0]).log_ratio,
              1e-3);
  for (size_t length = 0; length + 4 < text.size(); length += 7)
    EXPECT_THROW(read_published_figures(text.substr(0, length), "here"), Error) << length;
  for (const char* damaged : {"[]", "{\"rows\": 3}", "{\"rows\": [3]}", "{\"rows\": [{\"id\": \"A\"}]}",
                              "{\"rows\": [{\"ratio\": -1, \"left_out_ratio\": 1}]}"})
    EXPECT_THROW(read_published_figures(damaged, "here"), Error) << damaged;
}

TEST(PublishedFigures, TheShippedOnesCorrectAJobThatTheyTellOf) {
  const auto figures = shipped_figures().figures();
  EXPECT_GT(figures.size(), 100u);
  for (const PublishedFigure& one : figures) EXPECT_GT(one.promised, 0) << one.id;
  Job job;
  job.task = JobTask::kFinetune, job.model = "bert-large-uncased", job.hardware = "gaudi2";
  job.batch_per_device = 256, job.sequence_length = 128;
  const Plan made = plan(job);
  EXPECT_GT(made.past_error.deviation, 0);
  EXPECT_GT(made.past_error.within_percent, 0);
}

}  // namespace
}  // namespace transom
