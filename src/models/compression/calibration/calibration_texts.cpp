// SPDX-License-Identifier: Apache-2.0
#include "models/compression/calibration/calibration_texts.h"

#include <algorithm>

#include "files/config/config.h"
#include "models/compression/calibration/calibration.h"
#include "models/generative.h"
#include "models/loading/maximum_tokens.h"

namespace transom {
namespace {

// As many rows as fit in the memory: a layer has its inputs and outputs of all of them, and some copies.
int64_t rows_that_fit(const Model& model, const CalibrationTextOptions& options, int64_t length) {
  int64_t widest = 1;
  for (const auto& parameter : model.parameters())
    if (parameter->use != Parameter::Use::kOther && parameter->value.rank() == 2)
      widest = std::max(widest, parameter->value.dim(0) + parameter->value.dim(1));
  const double row = 4.0 * 4.0 * static_cast<double>(widest) * static_cast<double>(length);
  return std::clamp<int64_t>(static_cast<int64_t>(options.max_memory * 1e9 / row), 1, options.samples);
}

}  // namespace

CalibrationTexts read_calibration_texts(const Model& model, const std::string& source,
                                        const CalibrationTextOptions& options) {
  constexpr int64_t kJudged = 16;
  CalibrationTexts texts;
  if (options.calibration_file.empty() && options.validation_file.empty()) return texts;
  expect_model_of_texts(model);
  const Tokenizer tokenizer = Tokenizer::from_pretrained(source);
  const int64_t length = std::min(options.length, maximum_tokens(model.config()).value_or(options.length));
  if (!options.validation_file.empty())
    texts.validation = token_rows(tokenizer, options.validation_file, kJudged, length);
  if (options.calibration_file.empty()) return texts;
  const bool own = !texts.validation.empty();
  std::vector<std::vector<int64_t>> rows = token_rows(
      tokenizer, options.calibration_file, rows_that_fit(model, options, length) + (own ? 0 : kJudged), length);
  const size_t step = std::max<size_t>(rows.size() / kJudged, 2);
  for (size_t i = 0; i < rows.size(); ++i) {
    const bool judged = !own && i % step == step - 1;
    (judged ? texts.validation : texts.calibration).push_back(std::move(rows[i]));
  }
  return texts;
}

std::optional<double> judged_perplexity(const Model& model, const CalibrationTexts& texts) {
  const auto* writer = dynamic_cast<const GenerativeModel*>(&model);
  if (texts.validation.empty() || !writer || !writer->can_generate()) return std::nullopt;
  return perplexity(model, texts.validation);
}

}  // namespace transom
