// SPDX-License-Identifier: Apache-2.0
// What the page makes of Markdown, without a browser: node page_markdown.js PATH/markdown.js
'use strict';
const fs = require('fs');
const vm = require('vm');

function node(name, text, style) {
  return {name, text: text || '', style: style || '', children: [], dataset: {}, addEventListener() {},
    append(...more) { this.children.push(...more); }};
}
const escaped = (text) => text.replace(/&/g, '&amp;').replace(/</g, '&lt;');
const html = (made) => typeof made === 'string' ? escaped(made)
  : `<${made.name}>${escaped(made.text)}${made.children.map(html).join('')}</${made.name}>`;
const page = {document: {createTextNode: (text) => text}, element: node, setTimeout, navigator: {}};
vm.createContext(page);
vm.runInContext(fs.readFileSync(process.argv[2], 'utf8'), page);
const shown = (text) => page.rendered(text).map(html).join('');

const cases = [
  ['a\nb', '<p>a\nb</p>'],
  ['a\n\nb', '<p>a</p><p>b</p>'],
  ['# One', '<h2>One</h2>'],
  ['**b** *e* `c*c*`', '<p><strong>b</strong> <em>e</em> <code>c*c*</code></p>'],
  ['2 * 3 * 4 **open', '<p>2 * 3 * 4 **open</p>'],
  ['- a\n- b', '<div><div>• a</div><div>• b</div></div>'],
  ['1. a', '<div><div>1. a</div></div>'],
  ['> q\n> r', '<blockquote>q\nr</blockquote>'],
  ['| a | b |\n|---|---|\n| 1 | 2 |', '<table><tr><th>a</th><th>b</th></tr><tr><td>1</td><td>2</td></tr></table>'],
  ['```js\nx\n\n# y\n```\nz',
    '<div><div><span>js</span><button>Copy</button></div><pre><code>x\n\n# y</code></pre></div><p>z</p>'],
  ['```\nopen', '<div><div><span></span><button>Copy</button></div><pre><code>open</code></pre></div>'],
  ['<b>not</b> [text](javascript:x)', '<p>&lt;b>not&lt;/b> [text](javascript:x)</p>'],
];
let wrong = 0;
for (const [text, expected] of cases)
  if (shown(text) !== expected) {
    ++wrong;
    console.log(`${JSON.stringify(text)}: expected ${expected}, found ${shown(text)}`);
  }
const begin = Date.now();
for (const piece of ['*a ', '**a ', '`', 'a*b', '|', '> ', '- ', '#'])
  for (const text of [piece.repeat(20000), (piece + '\n').repeat(5000)]) shown(text);
if (Date.now() - begin > 10000) console.log(`slow: ${Date.now() - begin} ms`, ++wrong);
process.exit(wrong ? 1 : 0);
