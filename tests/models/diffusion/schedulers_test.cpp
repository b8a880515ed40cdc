// SPDX-License-Identifier: Apache-2.0
// Whole runs of every scheduler against diffusers', on a stand-in for a model: tests/golden/make/schedulers.py.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/error.h"
#include "base/json/json.h"
#include "base/numbers/mt19937.h"
#include "files/config/config.h"
#include "models/diffusion/schedulers/scheduler.h"
#include "support/golden.h"
#include "support/message.h"

namespace transom {
namespace {

// What the script has: a half of the sample and waves over its places, and variances behind it where they are learned.
std::vector<float> stand_in(std::span<const float> sample, float timestep, size_t rows, bool twice) {
  const size_t width = sample.size() / rows;
  std::vector<float> output;
  for (size_t row = 0; row < rows; ++row) {
    for (size_t i = 0; i < width; ++i)
      output.push_back(0.5f * sample[row * width + i] + 0.1f * std::cos(static_cast<float>(i) + timestep / 100));
    for (size_t i = 0; twice && i < width; ++i) output.push_back(0.05f + 0.01f * std::sin(static_cast<float>(i)));
  }
  return output;
}

std::vector<double> numbers_in(const Json& list) { return list.get<std::vector<double>>(); }

template <typename Found>
void expect_near(const Found& found, const std::vector<double>& expected, double relative, double absolute,
                 const std::string& what) {
  ASSERT_GE(found.size(), expected.size()) << what;
  for (size_t i = 0; i < expected.size(); ++i)
    ASSERT_NEAR(static_cast<double>(found[i]), expected[i], absolute + relative * std::abs(expected[i]))
        << what << " at " << i;
}

void run(const Json& golden) {
  Config config = make_config(golden["config"], "scheduler_config.json");
  set_field(config, "_class_name", golden["class"]);
  const std::unique_ptr<Scheduler> scheduler = make_scheduler(config);
  NoiseScheduleOptions options;
  if (!golden["mu"].is_null()) options.mu = golden["mu"].get<double>();
  int64_t steps = golden["steps"].get<int64_t>();
  if (const Json asked = golden.value("asked", Json::object()); !asked.empty()) {
    options.timesteps = asked.value("timesteps", std::vector<double>());
    options.sigmas = asked.value("sigmas", std::vector<double>());
    options.strength = asked.value("strength", 1.0);
    EXPECT_TRUE(options.timesteps.empty() || scheduler->takes_timesteps());
    EXPECT_TRUE(options.sigmas.empty() || scheduler->takes_sigmas());
    steps = std::ssize(options.timesteps) + std::ssize(options.sigmas);
  }
  scheduler->set_timesteps(steps, options);

  // float32 numbers of a few operations; the last of a Karras schedule are powers of seven.
  const std::vector<double> timesteps = numbers_in(golden["timesteps"]);
  ASSERT_EQ(scheduler->timesteps().size(), timesteps.size());
  expect_near(scheduler->timesteps(), timesteps, 1e-6, 2e-3, "timesteps");
  const std::vector<double> sigmas = numbers_in(golden["sigmas"]);
  if (!sigmas.empty()) {
    ASSERT_EQ(scheduler->sigmas().size(), sigmas.size());
  }
  // Low ones are roots of what a product near 1 lacks to 1: the last bits of float32 count.
  for (size_t i = 0; i < sigmas.size(); ++i)
    ASSERT_NEAR(scheduler->sigmas()[i], sigmas[i], 1e-6 + 1e-5 * sigmas[i] + 1e-7 / std::max(sigmas[i], 1e-3)) << i;
  EXPECT_NEAR(scheduler->initial_deviation(), golden["deviation"].get<double>(),
              1e-5 * golden["deviation"].get<double>());

  const auto shape = golden["shape"].get<std::vector<int64_t>>();
  Mt19937 random(golden["seed"].get<uint64_t>());
  std::vector<float> sample(static_cast<size_t>(shape[0] * shape[1] * shape[2] * shape[3]));
  random.fill_normal(sample);
  for (float& value : sample) value *= scheduler->initial_deviation();
  expect_near(sample, numbers_in(golden["start"]), 2e-6, 2e-6 * scheduler->initial_deviation(), "start");

  const DenoisingStep step{.rows = shape[0],
                           .channels = shape[1],
                           .eta = golden["eta"].get<double>(),
                           .noise = [&](std::span<float> values) { random.fill_normal(values); }};
  const std::string variance = golden["config"].value("variance_type", "");
  double largest = 1;
  for (const float value : sample) largest = std::max(largest, std::abs(static_cast<double>(value)));
  for (size_t i = 0; i < timesteps.size(); ++i) {
    std::vector<float> scaled = sample;
    scheduler->scale_input(scaled, i);
    const std::vector<float> output = stand_in(scaled, static_cast<float>(scheduler->timesteps()[i]),
                                               static_cast<size_t>(shape[0]), variance.starts_with("learned"));
    sample = scheduler->step(i, output, sample, step);
    for (const float value : sample) largest = std::max(largest, std::abs(static_cast<double>(value)));
    // Rounding of products up to 1000 long, and of differences of levels, adds up over the steps.
    expect_near(sample, numbers_in(golden["path"][i]), 1e-4, 2e-5 * largest, fmt::format("call {}", i));
  }
  expect_near(sample, numbers_in(golden["end"]), 1e-4, 2e-5 * largest, "end");
}

TEST(Schedulers, RunAsThoseOfDiffusers) {
  std::set<std::string> classes;
  for (const char* file : {"schedulers.json", "schedulers-more.json"}) {
    const Json golden = read_json(test::golden_folder() / "diffusion" / file);
    for (const Json& each : golden["cases"]) {
      SCOPED_TRACE(each["class"].get<std::string>() + " " + each["config"].dump() +
                   fmt::format(" {}", each["steps"].dump()));
      run(each);
      classes.insert(each["class"].get<std::string>());
    }
  }
  const std::vector<std::string> all = scheduler_names();
  EXPECT_EQ(classes, std::set<std::string>(all.begin(), all.end()));
}

TEST(Schedulers, RunByWhatIsAskedInPlaceOfTheirOwn) {
  const Json golden = read_json(test::golden_folder() / "diffusion" / "schedulers-asked.json");
  ASSERT_EQ(golden["cases"].size(), 9u);
  for (const Json& each : golden["cases"]) {
    SCOPED_TRACE(each["class"].get<std::string>() + " " + each["asked"].dump());
    run(each);
  }
}

Config configuration(const std::string& text) { return Config::parse(text, "scheduler_config.json"); }

TEST(Schedulers, AddTheNoiseOfATimestep) {
  const auto noisy = [](const std::string& name) {
    const auto scheduler = make_scheduler(configuration("{\"_class_name\": \"" + name + "\"}"));
    scheduler->set_timesteps(10);
    const std::vector<float> zero(4, 0.0f), one(4, 1.0f);
    return std::pair(scheduler->add_noise(one, zero, 3)[0], scheduler->add_noise(zero, one, 3)[0]);
  };
  const auto [signal, noise] = noisy("DDIMScheduler");
  EXPECT_NEAR(signal * signal + noise * noise, 1, 1e-5);
  EXPECT_EQ(noisy("EulerDiscreteScheduler").first, 1);
  const auto [left, level] = noisy("FlowMatchEulerDiscreteScheduler");
  EXPECT_NEAR(left + level, 1, 1e-6);
}

// Places on such levels are cut off: the last bits of the betas say whether the first is 998 or 999.
TEST(Schedulers, BetasAreRoundedOnceAsTorchDoesIt) {
  const auto places = [](const std::string& start, int64_t steps) {
    const auto scheduler = make_scheduler(configuration(
        R"({"_class_name": "DPMSolverMultistepScheduler", "use_beta_sigmas": true, "beta_end": 0.02, "beta_start": )" +
        start + "}"));
    scheduler->set_timesteps(steps);
    return std::vector<double>(scheduler->timesteps().begin(), scheduler->timesteps().begin() + 3);
  };
  EXPECT_EQ(places("0.00085", 7), (std::vector<double>{998, 989, 966}));
  EXPECT_EQ(places("0.0001", 5), (std::vector<double>{999, 979, 927}));
}

TEST(Schedulers, OfSettingsOfAnotherClassKeepWhatTheyKnow) {
  // As diffusers' from_config does with the settings of a DDPMScheduler.
  EXPECT_TRUE(make_scheduler(
      configuration(R"({"_class_name": "DPMSolverMultistepScheduler", "variance_type": "fixed_small"})")));
  const std::string message = test::message_of([] {
    make_scheduler(configuration(R"({"_class_name": "DPMSolverMultistepScheduler", "variance_type": "small"})"));
  });
  EXPECT_NE(message.find("variance_type"), std::string::npos) << message;
}

// As diffusers, which asks whether it is so.
TEST(Schedulers, NoneIsNo) {
  const auto after_a_step = [](const std::string& clip) {
    const auto scheduler =
        make_scheduler(configuration(R"({"_class_name": "DDIMScheduler", "clip_sample": )" + clip + "}"));
    scheduler->set_timesteps(2);
    return scheduler->step(0, std::vector<float>{0}, std::vector<float>{3}, {})[0];
  };
  EXPECT_EQ(after_a_step("null"), after_a_step("false"));
  EXPECT_LT(after_a_step("true"), after_a_step("false"));
}

TEST(Schedulers, RefuseTimestepsThatNoRunCanHave) {
  const auto refusal = [](const std::string& fields, const NoiseScheduleOptions& options) {
    return test::message_of([&] {
      make_scheduler(configuration(R"({"_class_name": "EulerDiscreteScheduler")" + fields + "}"))
          ->set_timesteps(2, options);
    });
  };
  for (const std::vector<double>& wrong : {std::vector<double>{1000, 5}, {5, 5}, {5, -1}, {5, 0.5}, {std::nan("")}})
    EXPECT_NE(refusal("", {.timesteps = wrong}).find("timesteps: expected whole numbers"), std::string::npos);
  EXPECT_NE(refusal(R"(, "use_karras_sigmas": true)", {.timesteps = {5, 1}}).find("says itself"), std::string::npos);
  for (const std::vector<double>& wrong : {std::vector<double>{3}, {3, 4}, {3, 2, -1}})
    EXPECT_NE(refusal("", {.sigmas = wrong}).find("sigmas: "), std::string::npos);
}

TEST(Schedulers, TakeTheDefaultsOfTheClassThatIsAskedFor) {
  // beta_end was a default of PNDM when the file was written: another class has its own.
  const Config config = configuration(R"({"_class_name": "PNDMScheduler", "beta_start": 0.00085, "beta_end": 0.02,
      "_use_default_values": ["beta_end"]})");
  const auto heun = make_scheduler(config, "heun"), pndm = make_scheduler(config);
  EXPECT_GT(heun->alphas_cumprod().back(), 2 * pndm->alphas_cumprod().back());
}

TEST(Schedulers, RefuseByName) {
  const auto refusal = [](const std::string& fields, int64_t steps = 4) {
    return test::message_of(
        [&] { make_scheduler(configuration("{\"_class_name\": " + fields + "}"))->set_timesteps(steps); });
  };
  EXPECT_NE(refusal(R"("StrangeScheduler")").find("unknown scheduler"), std::string::npos);
  EXPECT_NE(refusal(R"("DDIMScheduler", "beta_schedule": "steep")").find("beta_schedule"), std::string::npos);
  EXPECT_NE(refusal(R"("DDIMScheduler", "num_train_timesteps": 1e18)").find("num_train_timesteps"), std::string::npos);
  EXPECT_NE(refusal(R"("DDIMScheduler", "trained_betas": [0.1])").find("trained_betas"), std::string::npos);
  EXPECT_NE(refusal(R"("DDIMScheduler")", 1001).find("num_inference_steps"), std::string::npos);
  EXPECT_NE(refusal(R"("DDPMScheduler", "variance_type": "fixed_large_log")").find("variance_type"), std::string::npos);
  EXPECT_NE(refusal(R"("PNDMScheduler")", 3).find("skip_prk_steps"), std::string::npos);
  EXPECT_NE(refusal(R"("UniPCMultistepScheduler", "solver_p": {"a": 1})").find("solver_p"), std::string::npos);
  EXPECT_NE(refusal(R"("EulerDiscreteScheduler", "use_karras_sigmas": true, "use_beta_sigmas": true)").find("use_beta"),
            std::string::npos);
  EXPECT_NE(test::message_of([] { scheduler_class("fast"); }).find("euler_ancestral"), std::string::npos);
  EXPECT_EQ(scheduler_class("dpm_solver"), "DPMSolverMultistepScheduler");
}

// A schedule may lead to timesteps that training did not have.
TEST(Schedulers, RefuseTimestepsBeyondTraining) {
  const auto scheduler = make_scheduler(configuration(R"({"_class_name": "DDIMScheduler", "steps_offset": 999})"));
  scheduler->set_timesteps(4);
  const std::vector<float> sample(4, 1.0f);
  EXPECT_NE(test::message_of([&] { scheduler->step(0, sample, sample, {}); }).find("steps_offset"), std::string::npos);
  EXPECT_THROW(scheduler->step(9, sample, sample, {}), Error);
}

}  // namespace
}  // namespace transom
