// SPDX-License-Identifier: Apache-2.0
#include "plan/published_figures.h"

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

TEST(PublishedFigures, NoPromiseIsTighterThanTheNoiseOfFigures) {
  std::vector<PublishedFigure> exact;
  for (const char* id : {"A", "B", "C", "D", "E", "F"}) {
    exact.push_back(figure(id, "test", 1.001));
    exact.back().promised = 0.1;
  }
  const Job job = training_job();
  const PublishedFigures figures(exact);
  const Plan made = plan(job, model_shape_of(job.config, job.model, 0), round_device(), &figures);
  EXPECT_EQ(made.past_error.rows, 6);
  EXPECT_LT(made.past_error.median_percent, 1);
  EXPECT_EQ(made.past_error.within_percent, 12);
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
