// SPDX-License-Identifier: Apache-2.0
// transom quantize: a model with its linear layers in 4 or 8 bits.
#include <algorithm>
#include <cstdio>
#include <set>

#include "apps/cli/command.h"
#include "apps/cli/commands/models/quantize_onnx.h"
#include "apps/cli/options/calibration_inputs.h"
#include "apps/cli/options/calibration_options.h"
#include "apps/cli/options/companion_files.h"
#include "apps/cli/options/output.h"
#include "base/error.h"
#include "base/files/directories.h"
#include "base/json/json.h"
#include "models/compression/quantize.h"
#include "models/onnx/import/run/imported_graph.h"
#include "transom/fine_tuning.h"
#include "transom/tokenizer.h"

namespace transom {
namespace {

struct QuantizeArguments {
  std::string model, output, bits, format;
  QuantizeOptions how;
  bool json = false;
  ModelOptions source;
};

void print_quantize_report(const QuantizeReport& report, bool as_json) {
  if (as_json) {
    Json layers = Json::array();
    for (const auto& [name, error, bits] : report.layers) {
      layers.push_back({{"layer", name}, {"relative_error", error}});
      if (bits > 0) layers.back()["bits"] = bits;
    }
    const Json json{{"layers", layers},
                    {"kept", report.kept},
                    {"bytes_before", report.bytes_before},
                    {"bytes_after", report.bytes_after},
                    {"mean_bits", report.mean_bits ? Json(*report.mean_bits) : Json(nullptr)},
                    {"calibration_rows", report.calibration_rows},
                    {"perplexity_before", report.perplexity_before ? Json(*report.perplexity_before) : Json(nullptr)},
                    {"perplexity_after", report.perplexity_after ? Json(*report.perplexity_after) : Json(nullptr)},
                    {"signal_to_noise", report.signal_to_noise ? Json(*report.signal_to_noise) : Json(nullptr)},
                    {"same_first", report.same_first ? Json(*report.same_first) : Json(nullptr)}};
    std::puts(dump_json(json).c_str());
    return;
  }
  if (report.perplexity_before && report.perplexity_after)
    std::puts(fmt::format("perplexity {:.4f} before, {:.4f} after ({:+.2f} %)", *report.perplexity_before,
                          *report.perplexity_after, 100 * (*report.perplexity_after / *report.perplexity_before - 1))
                  .c_str());
  if (report.signal_to_noise)
    std::puts(fmt::format(
                  "against the model before, on {} rows: signal to noise {:.1f} dB{}", report.judged_rows,
                  *report.signal_to_noise,
                  report.same_first ? fmt::format(", the same first class for {:.1f} %", 100 * *report.same_first) : "")
                  .c_str());
  if (report.layers.empty()) return;
  const auto worst = std::max_element(report.layers.begin(), report.layers.end(),
                                      [](const auto& a, const auto& b) { return a.error < b.error; });
  double sum = 0;
  for (const auto& layer : report.layers) sum += layer.error;
  std::puts(fmt::format("{} layers, relative error {:.4f} in the mean, {:.4f} at most ({})", report.layers.size(),
                        sum / static_cast<double>(report.layers.size()), worst->error, worst->name)
                .c_str());
  std::puts(fmt::format("{:.1f} MB of weights became {:.1f} MB", static_cast<double>(report.bytes_before) / 1e6,
                        static_cast<double>(report.bytes_after) / 1e6)
                .c_str());
  if (report.mean_bits) {
    const auto of_8 =
        std::count_if(report.layers.begin(), report.layers.end(), [](const auto& l) { return l.bits == 8; });
    std::puts(fmt::format("{} of {} layers have 8 bits: {:.3f} bits a weight in the mean, scales included", of_8,
                          report.layers.size(), *report.mean_bits)
                  .c_str());
    for (const auto& layer : report.layers)
      if (layer.bits == 8) std::puts(fmt::format("  {}", layer.name).c_str());
  }
  if (!report.kept.empty())
    std::puts(fmt::format("{} layers stay as they are, since their sizes do not fit, or no product reads them: {} ...",
                          report.kept.size(), report.kept[0])
                  .c_str());
}

// What `transom evaluate` says of a model on labelled rows or pictures; its files go into `output`.
Metrics metrics_on(const std::string& validation, const std::string& model, const fs::path& output) {
  TrainArguments arguments;
  arguments.script.model_name_or_path = model;
  (directory_exists(validation) ? arguments.script.validation_dir : arguments.script.validation_file) = validation;
  arguments.training.output_dir = output.string();
  arguments.training.do_train = false;
  arguments.training.do_eval = true;
  arguments.training.disable_tqdm = true;
  Metrics found;
  for (const auto& [name, value] : fine_tune(arguments).evaluation)
    if (name.find("runtime") == std::string::npos && name.find("per_second") == std::string::npos)
      found.emplace_back(name, value);
  return found;
}

// The metrics before and after, where --method static has rows with labels to judge by.
void print_metrics(const std::string& validation, const std::string& model, const fs::path& output, bool as_json) {
  const Metrics before = metrics_on(validation, model, output / "evaluation" / "before"),
                after = metrics_on(validation, output.string(), output / "evaluation" / "after");
  Json json = Json::object();
  for (size_t i = 0; i < std::min(before.size(), after.size()); ++i) {
    json[before[i].first] = {{"before", before[i].second}, {"after", after[i].second}};
    if (!as_json)
      std::puts(
          fmt::format("{} {:.4f} before, {:.4f} after", before[i].first, before[i].second, after[i].second).c_str());
  }
  if (as_json) std::puts(dump_json(json).c_str());
}

// The format that is asked for: by its name, else by what the output or --type can only mean.
std::string format_for(const QuantizeArguments& options, bool from_onnx) {
  const std::string file = format_of_file_name(options.output), fitting = from_onnx ? "onnx" : "gguf";
  if (!file.empty() && file != fitting)
    fail(ErrorKind::kUsage, "{}: expected a directory{} for {}, found the name of a {} file", quoted(options.output),
         from_onnx ? " or the name of an .onnx file" : " or the name of a .gguf file",
         from_onnx ? "an ONNX model" : "this model", file);
  if (from_onnx) return options.format.empty() ? "a8w8" : options.format;
  if (file == "gguf" && !options.format.empty() && options.format != "gguf")
    fail(ErrorKind::kUsage, "--format {} writes a directory, found {}, the name of a .gguf file", options.format,
         quoted(options.output));
  if (!options.format.empty()) return options.format;
  return file == "gguf" || !options.how.type.empty() ? "gguf" : QuantizeOptions().format;
}

int quantize(const QuantizeArguments& options) {
  const std::string model = resolve_model(options.model, options.source.hub());
  QuantizeOptions how = options.how;
  const fs::path file = onnx::find_onnx_file(model);
  how.format = format_for(options, !file.empty());
  if (!file.empty()) {
    if ((how.method != "rtn" && how.method != "static") || (!options.bits.empty() && options.bits != "8") ||
        options.json)
      fail(
          ErrorKind::kUsage,
          "{}: an ONNX file is written in integers of 8 bits, with --format a8w8, a16w8 or xint8; --method, --bits and "
          "--json do not apply",
          file.string());
    quantize_onnx(file, options.output, how.format, how.calibration_file);
    return 0;
  }
  const std::set<std::string> forms{"", "4", "8", "auto"};
  if (!forms.contains(options.bits))
    fail(ErrorKind::kUsage, "--bits: expected 4, 8 or auto, found {}", quoted(options.bits));
  how.bits = options.bits == "auto" ? kBitsByLayer : options.bits == "8" ? 8 : 4;
  if (how.method == "static") {
    if (how.calibration_file.empty())
      fail(ErrorKind::kUsage, "--calibration_file: static needs pictures, texts or tensors, whose ranges it keeps");
    how.inputs = calibration_inputs(how.calibration_file, model);
  }
  how.on_layer = layer_bar("quantize");
  const QuantizeReport report = quantize_model(model, options.output, how);
  how.on_layer = {};  // ends the bar
  if (how.format != "gguf") {
    // A GGUF file has its tokenizer inside.
    if (directory_exists(model)) copy_companion_files(model, options.output);
    else if (path_exists(fs::path(model) / "tokenizer_config.json"))
      Tokenizer::from_pretrained(model).save_pretrained(options.output);
  }
  print_quantize_report(report, options.json);
  if (how.method == "static" && !how.validation_file.empty())
    print_metrics(how.validation_file, model, options.output, options.json);
  return 0;
}

}  // namespace

Command quantize_command() {
  static QuantizeArguments o;
  Command command{
      .name = "quantize",
      .help = "Write a model with its linear layers in 4 or 8 bits",
      .examples =
          "  transom quantize MODEL OUT --bits 4 --group_size 128 --format compressed-tensors\n"
          "  transom quantize MODEL OUT --bits 4 --format gptq\n"
          "  transom quantize MODEL OUT --bits auto --target_bits 5 --calibration_file text.txt\n"
          "  transom quantize MODEL OUT --method gptq --act_order --format gptq --calibration_file text.txt\n"
          "  transom quantize MODEL OUT --method awq --format awq --calibration_file text.txt\n"
          "  transom quantize MODEL OUT --method static --bits 8 --calibration_file pictures/\n"
          "  transom quantize MODEL model.gguf --type q4_K_M\n"
          "  transom quantize model.onnx OUT --format a8w8 --calibration_file pictures/"};
  command.options = {
      {kModelPlace, &o.model, kModelHelp, true},
      {"output", &o.output,
       "directory for the model, or a file: NAME.gguf (of an ONNX model NAME.onnx), whose ending chooses the format",
       true},
      {"--method", &o.how.method,
       "rtn: rounding, with scales of the least squared error; gptq, awq, smoothquant (8 bits, inputs "
       "too): by what the layers read on a text; static (8 bits): inputs too, and convolutions, with scales found on "
       "pictures, texts or tensors"},
      {"--act_order", &o.how.act_order, "gptq: columns of the largest inputs first"},
      {"--bits", &o.bits, "4, 8, or auto: by layer, as --target_bits allows (default: 4)"},
      {"--target_bits", &o.how.target_bits,
       "with --bits auto: the most bits that a weight has in the mean, its share of the scales included; layers that "
       "lose most by 4 bits get 8"},
      {"--group_size", &o.how.group_size, "inputs that share a scale; -1: a whole row"},
      {"--format", &o.format,
       "compressed-tensors (default), gptq, awq, or gguf: a file for llama.cpp. ONNX models only: a8w8 (default), "
       "a16w8, xint8"},
      {"--type", &o.how.type,
       "GGUF only, and implies it: q4_0, q4_1, q5_0, q5_1, q8_0, q4_K_S, q4_K_M, q5_K_S, q5_K_M, q6_K, f16, bf16 or "
       "f32 (default: q4_K_M; of 8 bits q8_0)"},
      {"--json", &o.json, "print the error of each layer as JSON"}};
  for (Option& option : calibration_options({.calibration_file = &o.how.calibration_file,
                        .validation_file = &o.how.validation_file,
                        .samples = &o.how.calibration_samples,
                        .length = &o.how.calibration_length,
                        .max_memory = &o.how.max_memory},
                                            "gptq, awq, smoothquant and static (pictures, lines of text or "
                                            ".safetensors); with --bits auto, for what layers lose",
                                            "perplexity"))
    command.options.push_back(std::move(option));
  o.source.add_to(command);
  command.run = [] { return quantize(o); };
  return command;
}

}  // namespace transom
