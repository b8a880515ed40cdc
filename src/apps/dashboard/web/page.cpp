// SPDX-License-Identifier: Apache-2.0
#include "apps/dashboard/web/page.h"

namespace transom::dashboard {

namespace {

constexpr std::string_view kPageHtml = R"(<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>transom train</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="dashboard.css">
<script src="dashboard.js" defer></script>
</head>
<body>
<header>
<h1><span id="phase">connecting</span> <span id="model"></span></h1>
<p id="facts"></p>
<progress id="progress" max="1" value="0" aria-label="updates done"></progress>
<p id="rates"></p>
<p>
<button id="pause" type="button">Pause</button>
<button id="save" type="button">Save now</button>
<button id="stop" type="button">Stop</button>
<button id="profile" type="button">Measure kernels</button>
<span id="note" role="status"></span>
</p>
</header>
<section id="options">
<label>smoothing <input id="smoothing" type="range" min="0" max="0.99" step="0.01" value="0"></label>
<label><input id="logarithmic" type="checkbox"> logarithmic</label>
<fieldset id="runs"><legend>runs</legend></fieldset>
</section>
<main id="charts"></main>
<section><h2>Kernels</h2><p id="kernels_note">Not measured yet: "Measure kernels" looks at the next updates.</p>
<table id="kernels"></table></section>
<section><h2>Messages</h2><ol id="messages"></ol></section>
<script id="initial" type="application/json">@STATE@</script>
</body>
</html>
)";

}  // namespace

const std::string_view kPageStyle = R"(
:root { color-scheme: light dark; --line: #8886; }
body { font: 14px/1.45 system-ui, sans-serif; max-width: 1280px; margin: 20px auto; padding: 0 18px; }
h1 { font-size: 20px; margin: 0; } h2 { font-size: 16px; margin: 24px 0 6px; } p { margin: 5px 0; }
progress { width: 100%; height: 12px; }
button { font: inherit; padding: 3px 12px; margin-right: 6px; }
fieldset { border: 0; padding: 0; margin: 6px 0; } fieldset label { margin-right: 14px; white-space: nowrap; }
legend { float: left; margin-right: 12px; }
#options > label { margin-right: 18px; } #note { margin-left: 8px; opacity: 0.8; }
main { display: grid; grid-template-columns: repeat(auto-fill, minmax(360px, 1fr)); gap: 14px; }
figure { margin: 0; border: 1px solid var(--line); padding: 6px 8px; }
figcaption { font-weight: 600; } figcaption span { font-weight: 400; opacity: 0.8; float: right; }
svg { width: 100%; height: auto; display: block; }
svg text { font: 11px system-ui, sans-serif; fill: currentColor; opacity: 0.75; }
svg path { fill: none; stroke-width: 1.6; } .grid { stroke: var(--line); }
.swatch { display: inline-block; width: 11px; height: 11px; margin-right: 4px; }
table { border-collapse: collapse; width: 100%; font-size: 12.5px; }
th, td { text-align: left; padding: 2px 10px 2px 0; border-bottom: 1px solid var(--line); overflow-wrap: anywhere; }
.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
#messages { max-height: 260px; overflow-y: auto; padding-left: 0; list-style: none; font-family: ui-monospace, monospace;
  font-size: 12px; }
.warning { color: #b06000; }
)";

std::string page_html(std::string_view state) {
  constexpr std::string_view kPlace = "@STATE@";
  const size_t at = kPageHtml.find(kPlace);
  std::string html(kPageHtml.substr(0, at));
  // Nothing in the state ends the element that it stands in.
  for (const char c : state) {
    if (c == '<') html += "\\u003c";
    else html += c;
  }
  return html += kPageHtml.substr(at + kPlace.size());
}

}  // namespace transom::dashboard
