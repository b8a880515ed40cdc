// SPDX-License-Identifier: Apache-2.0
// Fine-tunes a model on a CSV file and asks it a question: fine_tune MODEL TRAIN.csv DEV.csv OUTPUT
#include <iostream>

#include "transom/transom.h"

int main(int argc, char** argv) try {
  if (argc != 5) {
    std::cerr << "usage: example_fine_tune MODEL TRAIN.csv DEV.csv OUTPUT\n";
    return 2;
  }
  transom::TrainArguments arguments;
  arguments.script.model_name_or_path = argv[1];
  arguments.script.train_file = argv[2];
  arguments.script.validation_file = argv[3];
  arguments.training.output_dir = argv[4];
  arguments.training.num_train_epochs = 5;
  arguments.training.learning_rate = 1e-4;

  const transom::FineTuneResult result = transom::fine_tune(arguments);
  for (const auto& [name, value] : result.evaluation) std::cout << name << " = " << value << '\n';
  const auto classify = transom::pipeline("text-classification", argv[4]);
  std::cout << classify("Where can I return the kettle?") << '\n';
} catch (const transom::Error& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
