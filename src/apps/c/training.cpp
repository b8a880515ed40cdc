// SPDX-License-Identifier: Apache-2.0
// Training of transom_c.h.
#include <memory>

#include "apps/c/guard.h"
#include "base/error.h"
#include "base/json/json.h"
#include "transom/fine_tuning.h"

namespace transom {
namespace {

// Tells the program of each update, and asks whether the run goes on.
class StepTeller : public TrainerCallback {
 public:
  StepTeller(transom_step_callback callback, void* user) : callback_(callback), user_(user) {}
  void on_train_begin(const TrainingArguments&, const TrainerState& state) override { max_steps_ = state.max_steps; }
  void tell(const StepReport& report) {
    const transom_step step{report.step, max_steps_, report.loss, report.gradient_norm, report.learning_rate};
    stops_ = stops_ || callback_(user_, &step) != 0;
  }
  bool should_interrupt() override { return stops_; }

 private:
  transom_step_callback callback_;
  void* user_;
  int64_t max_steps_ = 0;
  bool stops_ = false;
};

Json object_of(const Metrics& metrics) {
  Json object = Json::object();
  for (const auto& [name, value] : metrics) object[name] = value;
  return object;
}

}  // namespace
}  // namespace transom

using namespace transom;

extern "C" transom_code transom_train(const char* arguments, transom_step_callback callback, void* user, char** metrics,
                                      transom_failure* error) {
  return guarded(error, [&] {
    if (metrics) *metrics = nullptr;
    FineTuneOptions options;
    if (callback) {
      const auto teller = std::make_shared<StepTeller>(callback, user);
      options.callbacks.push_back(teller);
      options.on_step = [teller](const StepReport& report) { teller->tell(report); };
    }
    const FineTuneResult result = fine_tune(parse_train_json(required(arguments, "arguments"), "arguments"), options);
    if (result.interrupted)
      fail(ErrorKind::kInterrupted, "the callback stopped the run; its checkpoint is {}", *result.interrupted);
    give_text(metrics, dump_json({{"train", object_of(result.train)},
                                  {"evaluation", object_of(result.evaluation)},
                                  {"prediction", object_of(result.prediction)}}));
  });
}
