// SPDX-License-Identifier: Apache-2.0
// The script of the page: which models there are, and a form for each task other than writing.
'use strict';
const at = (id) => document.getElementById(id);
let key = '';
let models = [];
const model = () => models[at('model').selectedIndex];

function headers(more) {
  return Object.assign(key ? {Authorization: 'Bearer ' + key} : {}, more || {});
}

// The message of an error in any of the server's forms.
function message_of(text, status) {
  try {
    const error = JSON.parse(text).error;
    return typeof error === 'string' ? error : error.message;
  } catch (_) {
    return 'status ' + status;
  }
}

function say(place, text, wrong) {
  place.textContent = text;
  place.classList.toggle('wrong', Boolean(wrong));
}

function element(name, text, style) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  if (style) made.className = style;
  return made;
}

// ---- the models

async function load_models() {
  try {
    const answer = await fetch('v1/models', {headers: headers()});
    if (answer.status === 401) {
      at('key-form').hidden = false;
      say(at('status'), 'this server asks for a key', true);
      at('key').focus();
      return;
    }
    const text = await answer.text();
    if (!answer.ok) {
      say(at('status'), message_of(text, answer.status), true);
      if (answer.status === 503) setTimeout(load_models, 2000);
      return;
    }
    models = JSON.parse(text).data;
  } catch (error) {
    say(at('status'), 'the server does not answer', true);
    setTimeout(load_models, 2000);
    return;
  }
  at('key-form').hidden = true;
  at('model').replaceChildren(...models.map((each) => new Option(each.id, each.id)));
  at('model').disabled = models.length < 2;
  say(at('status'), models.length ? '' : 'no model is served');
  if (models.length) show_model();
}

function show_model() {
  const chosen = model();
  const writes = chosen.task === 'text-generation';
  at('about').textContent = chosen.task + (chosen.max_model_len ? ', ' + chosen.max_model_len + ' tokens' : '');
  at('chat').hidden = !writes;
  at('task').hidden = writes;
  at('result').replaceChildren();
  say(at('task-figures'), '');
  if (!writes) show_fields(chosen.form);
}

at('model').addEventListener('change', () => { show_model(); });
at('key-form').addEventListener('submit', (event) => {
  event.preventDefault();
  key = at('key').value;
  load_models();
});

// ---- forms: name, label and kind of what the task of a model reads, as the server says

const OTHER = [['json', 'Request, as {"inputs": ..., "parameters": {...}}', 'area', false]];

function show_fields(form) {
  at('fields').replaceChildren(...(form || OTHER).map(([name, label, kind, optional]) => {
    const holder = element('label', label);
    const file = kind === 'image' || kind === 'sound';
    const long = kind === 'area' || kind === 'lines';
    const input = element(long ? 'textarea' : 'input');
    input.id = 'field-' + name;
    input.required = !optional;
    if (long) input.rows = 4;
    if (file) {
      input.type = 'file';
      input.accept = kind === 'image' ? 'image/*' : 'audio/*';
      const preview = element(kind === 'image' ? 'img' : 'audio', undefined, 'preview');
      preview.hidden = true;
      preview.controls = true;
      input.addEventListener('change', () => {
        if (preview.src) URL.revokeObjectURL(preview.src);
        preview.hidden = !input.files.length;
        if (input.files.length) preview.src = URL.createObjectURL(input.files[0]);
      });
      holder.append(input, preview);
    } else {
      holder.append(input);
    }
    return holder;
  }));
}

const value = (name) => { const field = at('field-' + name); return field ? field.value.trim() : ''; };
const words = (text) => text.split(',').map((word) => word.trim()).filter(Boolean);

async function base64_of(file) {
  const bytes = new Uint8Array(await file.arrayBuffer());
  let text = '';
  for (let i = 0; i < bytes.length; i += 32768) text += String.fromCharCode(...bytes.subarray(i, i + 32768));
  return btoa(text);
}

// Path, body and media type of what the form asks.
async function request_of_form(chosen) {
  const path = 'models/' + chosen.id.split('/').map(encodeURIComponent).join('/');
  const json = (body) => [path, JSON.stringify(body), 'application/json'];
  const labels = words(value('labels'));
  const parameters = labels.length ? {candidate_labels: labels} : {};
  if (at('field-json')) return json(JSON.parse(value('json')));
  if (at('field-file')) {
    const file = at('field-file').files[0];
    if (labels.length) return json({inputs: await base64_of(file), parameters});
    return [path, file, file.type || 'application/octet-stream'];
  }
  const lines = (name) => value(name).split('\n').map((line) => line.trim()).filter(Boolean);
  const parts = (chosen.form || []).filter(([name]) => name !== 'text' && name !== 'labels');
  if (parts.length) {
    const inputs = await Promise.all(parts.map(async ([name, , kind]) =>
      [name, kind === 'image' ? 'data:image;base64,' + await base64_of(at('field-' + name).files[0])
        : kind === 'lines' ? lines(name) : value(name)]));
    return json({inputs: Object.fromEntries(inputs), parameters});
  }
  if ((chosen.form || []).some(([, , kind]) => kind === 'lines'))
    return ['v1/embeddings', JSON.stringify({model: chosen.id, input: lines('text'), normalize: true,
      encoding_format: 'float'}), 'application/json'];
  return json({inputs: value('text'), parameters});
}

at('task-form').addEventListener('submit', async (event) => {
  event.preventDefault();
  const chosen = model();
  at('run').disabled = true;
  at('result').replaceChildren();
  say(at('task-figures'), 'computing ...');
  try {
    const [path, body, type] = await request_of_form(chosen);
    const begin = performance.now();
    const answer = await fetch(path, {method: 'POST', headers: headers({'Content-Type': type}), body});
    const text = await answer.text();
    const time = performance.now() - begin;
    if (!answer.ok) throw new Error(message_of(text, answer.status));
    at('result').append(picture_of(JSON.parse(text)));
    say(at('task-figures'), time.toFixed(1) + ' ms');
  } catch (error) {
    say(at('task-figures'), error.message, true);
  } finally {
    at('run').disabled = false;
  }
});

// ---- results

function table_of(names, rows) {
  const table = element('table');
  const head = element('tr');
  head.append(...names.map((name) => element('th', name)));
  table.append(head);
  for (const row of rows) {
    const line = element('tr');
    for (const cell of row) {
      if (cell instanceof Node) { const holder = element('td'); holder.append(cell); line.append(holder); continue; }
      const number = typeof cell === 'number';
      line.append(element('td', number && !Number.isInteger(cell) ? cell.toFixed(4) : String(cell),
        number ? 'number' : undefined));
    }
    table.append(line);
  }
  return table;
}

function bar(score) {
  const meter = element('meter');
  meter.min = 0;
  meter.max = 1;
  meter.value = score;
  return meter;
}

// How alike each two of the vectors of /v1/embeddings are.
function likeness_of(answer) {
  const vectors = answer.data.map((each) => each.embedding);
  const product = (a, b) => a.reduce((sum, each, i) => sum + each * b[i], 0);
  const rows = vectors.map((a, i) => [i + 1, ...vectors.map((b) => product(a, b))]);
  const holder = element('div');
  holder.append(element('p', vectors.length + ' vectors of ' + vectors[0].length + ' numbers; cosine of each two:'),
    table_of(['text', ...vectors.map((_, i) => String(i + 1))], rows));
  return holder;
}

// Pictures and sounds are files in base64, which begin as PNG and WAV files do.
function media_of(value) {
  if (typeof value !== 'string') return null;
  const picture = value.startsWith('iVBORw0KGgo');
  if (!picture && !value.startsWith('UklGR')) return null;
  const shown = element(picture ? 'img' : 'audio', undefined, 'preview');
  shown.src = (picture ? 'data:image/png;base64,' : 'data:audio/wav;base64,') + value;
  shown.controls = true;
  return shown;
}

function extents_of(value) {
  const extents = [];
  for (let list = value; Array.isArray(list); list = list[0]) extents.push(list.length);
  return extents.join(' x ');
}

// A result that has pictures or sounds, with what stands beside them; null: it has none.
function media_result(result) {
  const items = Array.isArray(result) ? result : [result];
  const has_media = (item) => media_of(item) || (item && Object.values(item).some(media_of));
  if (!items.length || !items.every(has_media)) return null;
  const holder = element('div');
  for (const item of items) {
    const fields = typeof item === 'string' ? [['', item]] : Object.entries(item);
    for (const [name, value] of fields) {
      const media = media_of(value);
      const numbers = Array.isArray(value) ? '[' + extents_of(value) + '] numbers' : String(value);
      holder.append(element('p', media ? name : name + ': ' + numbers));
      if (media) holder.append(media);
    }
  }
  return holder;
}

function picture_of(result) {
  const media = media_result(result);
  if (media) return media;
  if (result && result.data && result.data[0] && result.data[0].embedding) return likeness_of(result);
  let list = result;
  while (Array.isArray(list) && list.length === 1 && Array.isArray(list[0])) list = list[0];
  if (list && Array.isArray(list.labels) && Array.isArray(list.scores))
    list = list.labels.map((label, i) => ({label, score: list.scores[i]}));
  if (Array.isArray(list) && list.length && list.every((each) => each && typeof each.score === 'number')) {
    const names = Object.keys(list[0]);
    return table_of([...names, ''], list.map((each) => [...names.map((name) => each[name]), bar(each.score)]));
  }
  if (result && typeof result.text === 'string') return element('p', result.text);
  if (result && typeof result.answer === 'string') {
    const holder = element('p');
    holder.append(element('mark', result.answer), ' score ' + result.score.toFixed(4));
    return holder;
  }
  const text = JSON.stringify(result, null, 1);
  return element('pre', text.length > 20000 ? text.slice(0, 20000) + ' ...' : text);
}
