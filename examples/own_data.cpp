// SPDX-License-Identifier: Apache-2.0
// A Trainer with data, a metric and a callback of your own: own_data MODEL OUTPUT. Teaches a text classifier whether a
// review is good, from texts in memory.
#include <iostream>

#include "transom/transom.h"

using namespace transom;

struct PrintSteps : TrainerCallback {
  void on_log(const TrainingArguments&, const TrainerState& state, const Metrics& metrics) override {
    for (const auto& [name, value] : metrics)
      if (name == "loss")
        std::cout << "step " << state.global_step << " of " << state.max_steps << "  loss " << value << '\n';
  }
};

int main(int argc, char** argv) try {
  if (argc != 3) {
    std::cerr << "usage: example_own_data MODEL OUTPUT\n";
    return 2;
  }
  const std::vector<std::pair<std::string, int64_t>> reviews{
      {"a fine film", 1}, {"dull and long", 0}, {"I loved it", 1}, {"never again", 0}};
  const Tokenizer tokenizer = Tokenizer::from_pretrained(argv[1]);

  TrainingData data;
  data.rows = static_cast<int64_t>(reviews.size());
  data.batch = [&](const std::vector<int64_t>& rows) {
    std::vector<Features> features;
    for (const int64_t row : rows) {
      const auto& [text, label] = reviews[static_cast<size_t>(row)];
      features.push_back({.sequences = {{"input_ids", tokenizer.encode(text).ids}}, .label = label});
    }
    return collate(features, {.pad_token_id = tokenizer.special_token_id("pad").value_or(0)});
  };

  TrainingArguments arguments;
  arguments.output_dir = argv[2];
  arguments.num_train_epochs = 5;
  arguments.learning_rate = 1e-3;
  arguments.logging_steps = 2;
  arguments.per_device_train_batch_size = 2;
  // A head for other classes is replaced by a new one.
  const LoadOptions load{.task = "text-classification", .num_labels = 2, .ignore_mismatched_sizes = true};
  Trainer trainer(Model::from_pretrained(argv[1], load), arguments);
  std::cout << "hidden_size " << trainer.model().config().get_int("hidden_size") << '\n';
  trainer.set_train_data(data);
  trainer.set_eval_data(data);
  trainer.set_compute_metrics([](const Predictions& predictions) {
    double right = 0;
    for (int64_t row = 0; row < predictions.rows; ++row) {
      const float* logits = &predictions.outputs[0].values[static_cast<size_t>(2 * row)];
      right += (logits[1] > logits[0]) == (predictions.labels[static_cast<size_t>(row)] == 1);
    }
    return Metrics{{"accuracy", right / static_cast<double>(predictions.rows)}};
  });
  trainer.add_callback(std::make_shared<PrintSteps>());
  trainer.train();
  for (const auto& [name, value] : trainer.evaluate())
    if (name == "eval_accuracy") std::cout << name << ' ' << value << '\n';
  trainer.save_model();
} catch (const Error& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
