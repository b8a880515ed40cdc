// SPDX-License-Identifier: Apache-2.0
// An explanation as one HTML file that needs no other.
#include <algorithm>

#include "base/error.h"
#include "base/terminal/display.h"
#include "tools/explain/charts.h"

namespace transom {
namespace {

constexpr const char* kStyle = R"(
body { font: 14px/1.45 system-ui, sans-serif; color: #222; background: #fff; max-width: 1180px; margin: 24px auto; padding: 0 20px; }
h1 { font-size: 22px; margin: 0 0 4px; } h2 { font-size: 17px; margin: 30px 0 6px; }
p { margin: 4px 0 10px; color: #444; }
svg { width: 100%; height: auto; background: #fcfcfc; border: 1px solid #e4e4e4; }
svg text { font: 11px system-ui, sans-serif; fill: #444; }
.axis { stroke: #777; } .grid { stroke: #e6e6e6; } .level { stroke: #b5484f; stroke-dasharray: 5 3; }
.roof { stroke: #222; stroke-width: 1.5; }
svg rect:hover, svg circle:hover { stroke: #000; stroke-width: 1; }
table { border-collapse: collapse; width: 100%; font-size: 12.5px; }
th { text-align: left; border-bottom: 1px solid #999; } td { border-bottom: 1px solid #eee; vertical-align: top; }
th, td { padding: 3px 8px 3px 0; } .n { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }
.l { white-space: nowrap; } .m { overflow-wrap: anywhere; }
pre { font: 11.5px/1.4 ui-monospace, monospace; background: #f7f7f7; padding: 8px; overflow-x: auto; }
summary { cursor: pointer; } .key span { display: inline-block; width: 11px; height: 11px; margin: 0 5px 0 16px; }
.bar { background: #e8e8e8; width: 90px; height: 9px; display: inline-block; } .bar i { background: #4f9a5b; height: 9px; display: block; }
)";

// The last part of a model's path, which is what people call it.
std::string name_of(const Explanation& e) {
  std::string_view path = e.model;
  while (path.size() > 1 && path.ends_with('/')) path.remove_suffix(1);
  const size_t slash = path.rfind('/');
  return std::string(slash == path.npos || path.size() == 1 ? path : path.substr(slash + 1));
}

std::string summary_of(const Explanation& e) {
  return fmt::format(
      "<h1>{}</h1>\n<p><small>{}</small><br>{}: {}, batch {}, sequence length {}, {}, on {} ({}) with {} threads, mode "
      "{}.<br>"
      "A run takes <b>{:.3f} ms</b>, its kernels {:.3f} ms; what was measured as this machine's limits ({}) would "
      "allow {:.3f} ms. {} programs were compiled, this one in {:.1f} ms.</p>\n<p>{}</p>\n",
      escaped(name_of(e)), escaped(e.model), escaped(e.model_type), escaped(e.task), e.batch_size, e.sequence_length,
      escaped(e.dtype), escaped(e.device), escaped(e.device_notes), e.threads, escaped(e.mode), e.run_seconds * 1e3,
      e.kernel_seconds * 1e3, text_of(e.limits), e.least_seconds * 1e3, e.programs, e.compile_seconds * 1e3,
      escaped(host_text(e)));
}

std::string key_of_colors() {
  std::string text = "<p class=\"key\">";
  for (const KernelKind& kind : kKernelKinds)
    text += fmt::format("<span style=\"background:{}\"></span>{}", kind.color, kind.name);
  return text + "</p>\n";
}

std::string kernels_table(const Explanation& e) {
  std::vector<const Explanation::Kernel*> sorted;
  for (const Explanation::Kernel& kernel : e.kernels) sorted.push_back(&kernel);
  std::stable_sort(sorted.begin(), sorted.end(), [](const auto* a, const auto* b) { return a->seconds > b->seconds; });
  constexpr size_t kShown = 200;
  std::string text =
      "<table><tr><th>node</th><th>operation</th><th>module</th><th class=n>us</th><th class=n>share</th><th "
      "class=n>MFLOP</th>"
      "<th class=n>MB</th><th class=n>limit us</th><th>of the limit</th></tr>\n";
  for (size_t i = 0; i < std::min(kShown, sorted.size()); ++i) {
    const Explanation::Kernel& k = *sorted[i];
    const double reached = k.seconds > 0 ? 100 * k.least / k.seconds : 0;
    std::string what = escaped(k.operation);
    if (!k.region.empty())
      what = fmt::format("<details><summary>{}</summary><pre>{}</pre></details>", what, escaped(k.region));
    if (!k.source.empty())
      what += fmt::format("<details><summary>source</summary><pre>{}</pre></details>", escaped(k.source));
    text += fmt::format(
        "<tr><td>{}</td><td title=\"{}\">{}<br><small>{}</small></td><td class=m>{}</td><td class=n>{:.1f}</td><td "
        "class=n>{:.1f} %</td>"
        "<td class=n>{:.2f}</td><td class=n>{:.3f}</td><td class=n>{:.1f}</td><td class=l><span class=bar><i "
        "style=\"width:{:.0f}%\"></i></span> "
        "{:.0f} %, {}</td></tr>\n",
        k.node, escaped(k.types), what, escaped(k.kernel), escaped(k.scope), k.seconds * 1e6,
        100 * k.seconds / std::max(e.kernel_seconds, 1e-12), k.operations * 1e-6, k.bytes * 1e-6, k.least * 1e6,
        std::min(reached, 100.0), reached, k.by_memory ? "memory" : "arithmetic");
  }
  text += "</table>\n";
  if (sorted.size() > kShown) text += fmt::format("<p>and {} more, in the JSON</p>\n", sorted.size() - kShown);
  return text;
}

std::string passes_text(const Explanation& e) {
  std::string text = "<table><tr><th>pass</th><th class=n>nodes</th><th class=n>ms</th></tr>\n";
  for (const Explanation::Pass& pass : e.passes)
    text += fmt::format("<tr><td>{}</td><td class=n>{}</td><td class=n>{:.2f}</td></tr>\n", escaped(pass.name),
                        pass.nodes, pass.seconds * 1e3);
  text += "</table>\n";
  for (const Explanation::Pass& pass : e.passes)
    text += fmt::format("<details><summary>{}: {} nodes</summary><pre>{}</pre></details>\n",
                        pass.name == "trace" ? "as traced" : "after " + escaped(pass.name), pass.nodes,
                        escaped(pass.graph));
  return text;
}

}  // namespace

std::string explanation_page(const Explanation& e) {
  const double ratio = e.live_maximum ? static_cast<double>(e.arena_bytes) / static_cast<double>(e.live_maximum) : 1;
  return fmt::format(
             "<!DOCTYPE html>\n<html lang=\"en\">\n<head><meta charset=\"utf-8\"><title>transom explain "
             "{}</title>\n<style>{}</style></head>\n<body>\n",
             escaped(name_of(e)), kStyle) +
         summary_of(e) + machine_pictures(e) + "<h2>Timeline</h2>\n<p>The kernels of one run, by what they are.</p>\n" +
         timeline_picture(e) + key_of_colors() +
         "<h2>Roofline</h2>\n<p>Each circle is a kernel, its area the time. Under a roof: what this machine was "
         "measured to do at most. "
         "What lies in caches may be above the slope of memory.</p>\n" +
         roofline_picture(e) +
         fmt::format(
             "<h2>Memory over time</h2>\n<p>Arena {:.1f} MB, {:.3f} of the peak of {:.1f} MB that is live at once; "
             "besides, "
             "inputs of {:.1f} MB ({} of them donated) and outputs of {:.1f} MB.</p>\n",
             static_cast<double>(e.arena_bytes) / 1e6, ratio, static_cast<double>(e.live_maximum) / 1e6,
             static_cast<double>(e.input_bytes) / 1e6, e.donated_inputs, static_cast<double>(e.output_bytes) / 1e6) +
         memory_picture(e) + "<h2>The arena</h2>\n<p>Where each value lies, and for how long.</p>\n" +
         arena_picture(e) + "<h2>Kernels</h2>\n" + kernels_table(e) + "<h2>Passes</h2>\n" + passes_text(e) +
         "</body>\n</html>\n";
}

}  // namespace transom
