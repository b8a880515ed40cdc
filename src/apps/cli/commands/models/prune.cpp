// SPDX-License-Identifier: Apache-2.0
// transom prune: a model with the least important weights of its linear layers set to zero.
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "apps/cli/command.h"
#include "apps/cli/options/calibration_options.h"
#include "apps/cli/options/companion_files.h"
#include "apps/cli/options/output.h"
#include "base/error.h"
#include "base/json/json.h"
#include "models/compression/prune.h"

namespace transom {
namespace {

struct PruneArguments {
  std::string model, output;
  PruneOptions how;
  bool json = false;
  ModelOptions source;
};

Json or_null(std::optional<double> value) { return value ? Json(*value) : Json(nullptr); }

void print_prune_report(const PruneReport& report, bool as_json) {
  if (as_json) {
    Json layers = Json::array();
    for (const auto& [name, sparsity, error] : report.layers)
      layers.push_back({{"layer", name}, {"sparsity", sparsity}, {"relative_error", error}});
    const Json json{{"layers", layers},
                    {"weights", report.weights},
                    {"zeros", report.zeros},
                    {"calibration_rows", report.calibration_rows},
                    {"loss_before", or_null(report.loss_before)},
                    {"loss_after", or_null(report.loss_after)}};
    std::puts(dump_json(json).c_str());
    return;
  }
  if (report.loss_before && report.loss_after)
    std::puts(fmt::format("loss {:.4f} before, {:.4f} after; perplexity {:.4f} before, {:.4f} after",
                          *report.loss_before, *report.loss_after, std::exp(*report.loss_before),
                          std::exp(*report.loss_after))
                  .c_str());
  const auto worst = std::max_element(report.layers.begin(), report.layers.end(),
                                      [](const auto& a, const auto& b) { return a.error < b.error; });
  std::puts(fmt::format("{} layers: {} of {} weights are zero ({:.1f} %), relative error {:.4f} at most ({})",
                        report.layers.size(), report.zeros, report.weights,
                        100 * static_cast<double>(report.zeros) / static_cast<double>(report.weights), worst->error,
                        worst->name)
                .c_str());
}

int prune(const PruneArguments& options) {
  expect_directory_name(options.output, "prune");
  const fs::path model = resolve_model(options.model, options.source.hub());
  PruneOptions how = options.how;
  how.on_layer = layer_bar("prune");
  const PruneReport report = prune_checkpoint(model.string(), options.output, how);
  how.on_layer = {};  // ends the bar
  copy_companion_files(model, options.output);
  print_prune_report(report, options.json);
  return 0;
}

}  // namespace

Command prune_command() {
  static PruneArguments o;
  Command command{.name = "prune",
                  .help = "Write a model with the least important weights set to zero",
                  .examples =
                      "  transom prune MODEL OUT --sparsity 0.5\n"
                      "  transom prune MODEL OUT --pattern 16x16 --sparsity 0.75\n"
                      "  transom prune MODEL OUT --pattern 2:4 --method wanda --calibration_file text.txt"};
  command.options = {{kModelPlace, &o.model, kModelHelp, true},
                     {"output", &o.output, "directory for the model", true},
                     {"--method", &o.how.method,
                      "magnitude: |w|, over a layer; wanda: |w| times the norm of its input on a text, over a row"},
                     {"--sparsity", &o.how.sparsity, "part of the weights of each layer that becomes zero"},
                     {"--pattern", &o.how.pattern,
                      "N:M, as 2:4: of each M weights of a row N are kept, in place of the sparsity; "
                      "RxC, as 16x16: blocks of R outputs by C inputs are kept or cut whole"},
                     {"--json", &o.json, "print sparsity and error of each layer as JSON"}};
  for (Option& option : calibration_options({.calibration_file = &o.how.texts.calibration_file,
                        .validation_file = &o.how.texts.validation_file,
                        .samples = &o.how.texts.samples,
                        .length = &o.how.texts.length,
                        .max_memory = &o.how.texts.max_memory},
                                            "wanda", "loss"))
    command.options.push_back(std::move(option));
  o.source.add_to(command);
  command.run = [] { return prune(o); };
  return command;
}

}  // namespace transom
