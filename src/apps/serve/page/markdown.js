// SPDX-License-Identifier: Apache-2.0
// What a model writes as Markdown: paragraphs, headings, lists, quotes, tables, code with a button that copies it. It
// becomes elements and text, never markup of its own; nothing is loaded, and links are shown as text.

const FENCE = /^ {0,3}(`{3,}|~{3,})\s*([\w+#.-]*)/;
const RULE_OF_TABLE = /^\s*\|?\s*:?-+:?\s*(\|\s*:?-+:?\s*)+\|?\s*$/;
const ITEM = /^(\s*)([-*+]|\d{1,9}[.)])\s+(.*)$/;

// The blocks of a text: [{kind, text, ...}]. A fence that is open at the end is code all the same, as it is still
// being written.
function blocks_of(text) {
  const lines = text.split('\n');
  const blocks = [];
  const last = (kind) => blocks.length && blocks[blocks.length - 1].kind === kind ? blocks[blocks.length - 1] : null;
  let between = true;  // an empty line stands before
  for (let i = 0; i < lines.length; ++i) {
    const line = lines[i];
    const fence = line.match(FENCE);
    const item = line.match(ITEM);
    const heading = line.match(/^ {0,3}(#{1,6})\s+(.*?)\s*#*$/);
    if (fence) {
      const code = [];
      for (++i; i < lines.length && !lines[i].trim().startsWith(fence[1]); ++i) code.push(lines[i]);
      blocks.push({kind: 'code', language: fence[2], text: code.join('\n')});
    } else if (heading) {
      blocks.push({kind: 'heading', level: heading[1].length, text: heading[2]});
    } else if (/^ {0,3}([-*_])\s*(\1\s*){2,}$/.test(line)) {
      blocks.push({kind: 'rule', text: ''});
    } else if (item) {
      const list = last('list');
      const one = {depth: Math.floor(item[1].length / 2), marker: item[2], text: item[3]};
      if (list) list.items.push(one);
      else blocks.push({kind: 'list', text: '', items: [one]});
    } else if (line.trim() === '') {
      between = true;
      continue;
    } else if (line.startsWith('>')) {
      const quote = !between && last('quote');
      if (quote) quote.text += '\n' + line.replace(/^>\s?/, '');
      else blocks.push({kind: 'quote', text: line.replace(/^>\s?/, '')});
    } else if (line.includes('|') && i + 1 < lines.length && RULE_OF_TABLE.test(lines[i + 1])) {
      const rows = [cells_of(line)];
      for (i += 2; i < lines.length && lines[i].includes('|'); ++i) rows.push(cells_of(lines[i]));
      --i;
      blocks.push({kind: 'table', text: '', rows});
    } else if (!between && last('list')) {
      const items = last('list').items;
      items[items.length - 1].text += '\n' + line.trim();
    } else if (!between && last('paragraph')) {
      last('paragraph').text += '\n' + line;
    } else {
      blocks.push({kind: 'paragraph', text: line});
    }
    between = false;
  }
  return blocks;
}

function cells_of(line) {
  return line.trim().replace(/^\||\|$/g, '').split('|').map((cell) => cell.trim());
}

// The parts of a line: [{kind: text | code | strong | em, text}].
function spans_of(text) {
  const spans = [];
  // Marks that are far apart are none, so that no text takes long.
  const mark = new RegExp(['(`{1,8})([^`]|[^`][^]{0,500}?[^`])\\1(?!`)', '\\*\\*(\\S|\\S[^*]{0,300}\\S)\\*\\*',
    '(^|[^\\w*])\\*([^\\s*]|[^\\s*][^*]{0,300}[^\\s*])\\*(?!\\*)'].join('|'), 'g');
  let done = 0;
  for (const found of text.matchAll(mark)) {
    const begin = found.index + (found[4] || '').length;
    if (begin > done) spans.push({kind: 'text', text: text.slice(done, begin)});
    if (found[2] !== undefined) spans.push({kind: 'code', text: found[2]});
    else if (found[3] !== undefined) spans.push({kind: 'strong', text: found[3]});
    else spans.push({kind: 'em', text: found[5]});
    done = found.index + found[0].length;
  }
  if (done < text.length) spans.push({kind: 'text', text: text.slice(done)});
  return spans;
}

function with_spans(made, text) {
  for (const span of spans_of(text))
    made.append(span.kind === 'text' ? document.createTextNode(span.text) : element(span.kind, span.text));
  return made;
}

function code_block(block) {
  const made = element('div', undefined, 'code');
  const head = element('div', undefined, 'code-head');
  const copy = element('button', 'Copy');
  copy.type = 'button';
  copy.addEventListener('click', async () => {
    try {
      await navigator.clipboard.writeText(block.text);
      copy.textContent = 'Copied';
    } catch (_) {
      copy.textContent = 'Not allowed';
    }
    setTimeout(() => { copy.textContent = 'Copy'; }, 1500);
  });
  head.append(element('span', block.language), copy);
  const pre = element('pre');
  pre.append(element('code', block.text));
  made.append(head, pre);
  return made;
}

function table_block(block) {
  const made = element('table');
  block.rows.forEach((row, number) => {
    const line = element('tr');
    for (const cell of row) line.append(with_spans(element(number ? 'td' : 'th'), cell));
    made.append(line);
  });
  return made;
}

function list_block(block) {
  const made = element('div', undefined, 'list');
  for (const item of block.items) {
    const marker = /\d/.test(item.marker) ? item.marker : '•';
    const line = with_spans(element('div', undefined, 'item'), marker + ' ' + item.text);
    line.dataset.depth = Math.min(item.depth, 4);
    made.append(line);
  }
  return made;
}

// The elements of a text.
function rendered(text) {
  return blocks_of(text).map((block) => {
    if (block.kind === 'code') return code_block(block);
    if (block.kind === 'table') return table_block(block);
    if (block.kind === 'list') return list_block(block);
    if (block.kind === 'rule') return element('hr');
    const names = {heading: 'h' + Math.min(6, block.level + 1), quote: 'blockquote', paragraph: 'p'};
    return with_spans(element(names[block.kind]), block.text);
  });
}
