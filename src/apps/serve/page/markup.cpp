// SPDX-License-Identifier: Apache-2.0
// What stands on the page.
#include "apps/serve/page/page_parts.h"

namespace transom::serve {

const char* const kPageMarkup = R"HTML(<header>
  <h1>Transom</h1>
  <label>Model <select id="model" disabled></select></label>
  <span id="about"></span>
  <span id="status" role="status">asking for the models ...</span>
</header>
<form id="key-form" hidden>
  <label>API key <input id="key" type="password" autocomplete="off"></label>
  <button>Use it</button>
</form>
<main id="chat" hidden>
  <section id="messages" aria-live="polite" aria-label="conversation"></section>
  <p id="figures" role="status"></p>
  <form id="ask">
    <textarea id="question" rows="3" placeholder="Write to the model; Enter sends, Shift+Enter begins a line"
      aria-label="message" required></textarea>
    <div class="row">
      <button id="send">Send</button>
      <button id="stop" type="button" disabled>Stop</button>
      <button id="again" type="button" disabled>Again</button>
      <button id="clear" type="button">New conversation</button>
    </div>
  </form>
  <details>
    <summary>Settings</summary>
    <div class="settings">
      <label>Temperature <input id="temperature" type="number" min="0" max="2" step="0.1" placeholder="model's"></label>
      <label>Top p <input id="top_p" type="number" min="0" max="1" step="0.05" placeholder="model's"></label>
      <label>Top k <input id="top_k" type="number" min="0" step="1" placeholder="model's"></label>
      <label>Min p <input id="min_p" type="number" min="0" max="1" step="0.01" placeholder="model's"></label>
      <label>Repetition penalty
        <input id="repetition_penalty" type="number" min="0.1" step="0.05" placeholder="model's"></label>
      <label>Most tokens <input id="max_tokens" type="number" min="1" step="1" value="256"></label>
      <label>Seed <input id="seed" type="number" step="1" placeholder="random"></label>
      <label>Stop at <input id="stop_text" placeholder="none"></label>
      <label class="wide">System message <textarea id="system" rows="2" placeholder="none"></textarea></label>
    </div>
  </details>
</main>
<main id="task" hidden>
  <form id="task-form">
    <div id="fields"></div>
    <div class="row"><button id="run">Run</button></div>
  </form>
  <p id="task-figures" role="status"></p>
  <div id="result" aria-live="polite"></div>
</main>
<noscript>This page needs JavaScript.</noscript>
)HTML";

const char* const kPageStyle = R"CSS(
:root {
  color-scheme: light dark;
  --back: #fafaf8; --fore: #1c1e21; --soft: #5d636b; --line: #d4d6da; --panel: #fff; --mine: #e4edf7; --accent: #2f6299;
  --wrong: #a3282d;
}
@media (prefers-color-scheme: dark) {
  :root {
    --back: #16181b; --fore: #e6e6e3; --soft: #9aa1aa; --line: #383c42; --panel: #1f2226; --mine: #22344a;
    --accent: #8ab8ea; --wrong: #ff8a8a;
  }
}
* { box-sizing: border-box; }
[hidden] { display: none !important; }
body { margin: 0 auto; max-width: 60rem; padding: 1rem; background: var(--back); color: var(--fore);
  font: 1rem/1.5 system-ui, sans-serif; }
header { display: flex; flex-wrap: wrap; gap: .5rem 1rem; align-items: baseline; border-bottom: 1px solid var(--line);
  padding-bottom: .5rem; margin-bottom: 1rem; }
h1 { font-size: 1.25rem; margin: 0; }
#about, #status, #figures, #task-figures, .note { color: var(--soft); font-size: .875rem; }
#figures, #task-figures { min-height: 1.3rem; margin: .5rem 0; font-variant-numeric: tabular-nums; }
.wrong { color: var(--wrong) !important; }
input, select, textarea, button { font: inherit; color: inherit; background: var(--panel);
  border: 1px solid var(--line); border-radius: .375rem; padding: .375rem .625rem; }
textarea, .settings input { width: 100%; }
textarea { resize: vertical; }
button { cursor: pointer; }
button:disabled { opacity: .5; cursor: default; }
#send, #run { background: var(--accent); color: var(--back); border-color: var(--accent); }
:focus-visible { outline: 2px solid var(--accent); outline-offset: 1px; }
#messages { min-height: 30vh; max-height: 60vh; overflow-y: auto; display: flex; flex-direction: column; gap: .75rem; }
.message { padding: .5rem .75rem; border-radius: .5rem; background: var(--panel); border: 1px solid var(--line);
  white-space: pre-wrap; overflow-wrap: anywhere; max-width: 90%; align-self: flex-start; }
.message.user { background: var(--mine); align-self: flex-end; }
.message .note { display: block; margin-top: .25rem; }
.row { display: flex; flex-wrap: wrap; gap: .5rem; margin: .5rem 0; }
details { margin-top: 1rem; border-top: 1px solid var(--line); padding-top: .5rem; }
.settings { display: grid; grid-template-columns: repeat(auto-fill, minmax(11rem, 1fr)); gap: .5rem 1rem;
  margin-top: .5rem; }
.settings label, #fields label { display: block; font-size: .875rem; margin-bottom: .5rem; }
.settings .wide { grid-column: 1 / -1; }
#fields input, #fields textarea { display: block; width: 100%; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; padding: .25rem .5rem; border-bottom: 1px solid var(--line); overflow-wrap: anywhere; }
td.number { text-align: right; font-variant-numeric: tabular-nums; }
meter { width: 100%; min-width: 6rem; }
pre { overflow: auto; background: var(--panel); border: 1px solid var(--line); padding: .5rem; border-radius: .375rem; }
img.preview { max-width: 100%; max-height: 20rem; display: block; margin: .5rem 0; }
mark { background: var(--mine); color: inherit; border-radius: .25rem; padding: 0 .2rem; }
)CSS";

}  // namespace transom::serve
