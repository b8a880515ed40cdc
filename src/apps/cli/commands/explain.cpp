// SPDX-License-Identifier: Apache-2.0
// transom explain: what the compiler made of a model, where its time and memory go, and how far that is from the
// limits.
#include <cstdio>
#include <cstdlib>

#include "apps/cli/command.h"
#include "apps/cli/output/profile_table.h"
#include "base/error.h"
#include "base/files/files.h"
#include "base/json/json.h"
#include "runtime/device/descriptions/settings.h"
#include "tools/explain/explanation.h"
#include "tools/explain/layout.h"

namespace transom {
namespace {

struct ExplainArguments {
  BenchOptions bench;
  ModelOptions source;
  DeviceOptions device;
  std::string json, html, pass, layout;
  int64_t runs = 3, rows = 25;
};

const Explanation::Pass& find_pass(const Explanation& explanation, const std::string& name) {
  std::vector<std::string> known;
  for (const Explanation::Pass& pass : explanation.passes) {
    if (pass.name == name) return pass;
    known.push_back(pass.name);
  }
  fail(ErrorKind::kUsage, "--pass: there is no pass {}{} Known are: {}", quoted(name), did_you_mean(name, known),
       fmt::join(known, ", "));
}

// How the model would be spread over processes, of which this is the only one.
int show_layout(const ExplainArguments& options) {
  if (!options.html.empty() || !options.pass.empty())
    fail(ErrorKind::kUsage, "--layout: --html and --pass are of one process; leave them out");
  const LayoutExplanation explanation = explain_layout(options.bench, parse_layout(options.layout));
  const std::string json = dump_json(layout_json(explanation));
  if (!options.json.empty() && options.json != "-") write_file(options.json, json + "\n");
  if (options.json == "-") std::puts(json.c_str());
  else std::fputs(layout_table(explanation, static_cast<size_t>(options.rows)).c_str(), stdout);
  return 0;
}

int explain(ExplainArguments& options) {
  if (options.rows < 1) fail(ErrorKind::kUsage, "--rows: expected at least 1, found {}", options.rows);
  for (const std::string* file : {&options.json, &options.html}) expect_writable(*file);
  if (!options.json.empty() && options.json == options.html)
    fail(ErrorKind::kUsage, "--json, --html: expected two files, found {} twice", options.json);
  options.bench.check();
  setenv("TRANSOM_CODEGEN", "wait", 0);  // what is explained is the steady state
  options.device.apply();
  if (device_defaults().gradient_checkpointing) options.bench.gradient_checkpointing = true;
  options.bench.model = resolve_model(options.bench.model, options.source.hub());
  if (!options.layout.empty()) return show_layout(options);
  const Explanation explanation = explain(options.bench, options.runs);
  const std::string graph = options.pass.empty() ? "" : find_pass(explanation, options.pass).graph;
  if (!options.html.empty()) write_file(options.html, explanation_page(explanation));
  if (!options.json.empty() && options.json != "-")
    write_file(options.json, dump_json(explanation_json(explanation)) + "\n");
  if (!options.pass.empty()) std::fputs(graph.c_str(), stdout);
  else if (options.json == "-") std::puts(dump_json(explanation_json(explanation)).c_str());
  else std::fputs(explanation_table(explanation, static_cast<size_t>(options.rows)).c_str(), stdout);
  return 0;
}

}  // namespace

Command explain_command() {
  static ExplainArguments options;
  BenchOptions& o = options.bench;
  Command command{
      .name = "explain",
      .help = "Show what the compiler made of a model: graphs, kernels, memory, time, and the machine's limits",
      .examples =
          "  transom explain MODEL --batch_size 8 --sequence_length 128 --html explain.html\n"
          "  transom explain MODEL --task train --json explain.json\n"
          "  transom explain MODEL --task train --layout fsdp=4,tp=2   (what each process has, and what they "
          "exchange)\n"
          "  transom explain MODEL --pass fuse_elementwise      (the graph after that pass; trace: before all)"};
  command.options = {
      {kModelPlace, &o.model, kModelHelp, true},
      {"--task", &o.task, "forward, gradients, train, or the name of a pipeline, whose head the model gets"},
      {"--inputs", &o.inputs, "tensors (.safetensors), or lines of text for the task's pipeline; else random tokens"},
      {"--batch_size", &o.batch_size, "rows of random inputs"},
      {"--sequence_length", &o.sequence_length, "tokens of each row"},
      {"--dtype", &o.dtype, kDtypeHelp},
      {"--quantization", &o.quantization, kQuantizationHelp},
      {"--no_weights", &o.no_weights, "random weights, whatever the directory holds"},
      {"--gradient_checkpointing", &o.gradient_checkpointing,
       "train and gradients: compute layers again in the backward pass"},
      {"--max_predictions_per_seq", &o.max_predictions_per_seq,
       "train and gradients of masked language models: labelled positions of a sequence; 0: all have labels"},
      {"--seed", &o.seed, "of random weights and of dropout"},
      {"--pass", &options.pass, "print the graph after this pass and nothing else; trace: before the first"},
      {"--layout", &options.layout,
       "how processes would share the model: sizes of pp, dp, fsdp, cp, ep, tp, the stage of zero, and sp=1, ring=1: "
       "dp=2,tp=2"},
      {"--rows", &options.rows, "rows of the table of kernels, or of parameters"},
      {"--runs", &options.runs, "runs that are measured"},
      {"--json", &options.json, "write all of it here; without a name, print it", false, true},
      {"--html", &options.html, "write a page with pictures here"}};
  options.source.add_to(command);
  options.device.add_to(command);
  command.run = [] { return explain(options); };
  return command;
}

}  // namespace transom
