// SPDX-License-Identifier: Apache-2.0
// The script of the page: a conversation with a model that writes, streamed, with the figures of each answer.
let messages = [];    // what was said so far, as the interface takes it
let running = null;   // AbortController of the answer that is being written

function add_message(role, text) {
  const made = element('div', text, 'message ' + role);
  at('messages').append(made);
  made.scrollIntoView({block: 'end'});
  return made;
}

// What the model thinks stands folded above its answer.
function show_answer(shown, text, thoughts) {
  const parts = rendered(text);
  if (thoughts) {
    const folded = element('details', undefined, 'thoughts');
    folded.open = !text;
    folded.append(element('summary', 'Thoughts'), element('p', thoughts));
    parts.unshift(folded);
  }
  shown.replaceChildren(...parts);
}

function show_message(message) {
  const shown = add_message(message.role, message.role === 'user' ? message.content : '');
  if (message.role !== 'user') show_answer(shown, message.content, message.reasoning_content);
}

function setting(body, name, read) {
  const text = at(name).value.trim();
  if (text !== '') body[name] = read(text);
}

function request_of_chat() {
  const body = {model: model().id, messages: [], stream: true, stream_options: {include_usage: true}};
  const system = at('system').value.trim();
  if (system) body.messages.push({role: 'system', content: system});
  body.messages.push(...messages);
  for (const name of ['temperature', 'top_p', 'min_p', 'repetition_penalty']) setting(body, name, Number);
  for (const name of ['top_k', 'max_tokens', 'seed']) setting(body, name, (text) => Math.trunc(Number(text)));
  if (at('stop_text').value) body.stop = at('stop_text').value;
  return body;
}

// Calls `take` with each event of a stream.
async function read_events(answer, take) {
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  while (true) {
    const {value: piece, done} = await reader.read();
    if (done) return;
    rest += piece;
    const events = rest.split('\n\n');
    rest = events.pop();
    for (const event of events)
      if (event.startsWith('data: ') && event !== 'data: [DONE]') take(JSON.parse(event.slice(6)));
  }
}

function figures_of(times, usage) {
  if (!times.first) return 'waiting ' + ((performance.now() - times.begin) / 1000).toFixed(1) + ' s';
  const end = times.end || performance.now();
  const tokens = usage ? usage.completion_tokens : times.pieces;
  const parts = ['first token ' + (times.first - times.begin).toFixed(0) + ' ms'];
  if (tokens > 1 && end > times.first)
    parts.push(((tokens - 1) / (end - times.first) * 1000).toFixed(1) + ' tokens/s');
  parts.push(tokens + ' tokens in ' + ((end - times.begin) / 1000).toFixed(2) + ' s');
  if (usage) parts.push(usage.prompt_tokens + ' of the prompt');
  return parts.join(', ');
}

function set_running(controller) {
  running = controller;
  at('send').disabled = Boolean(controller);
  at('stop').disabled = !controller;
  at('again').disabled = Boolean(controller) || !messages.some((each) => each.role === 'user');
  at('model').disabled = Boolean(controller) || models.length < 2;
}

async function answer_conversation() {
  const controller = new AbortController();
  const conversation = messages;  // a new one may begin meanwhile
  set_running(controller);
  const shown = add_message('assistant', '');
  let text = '';
  let thoughts = '';
  let drawing = false;  // the next frame shows what has come
  const draw = () => {
    drawing = false;
    const box = at('messages');
    const below = box.scrollHeight - box.scrollTop - box.clientHeight < 40;
    show_answer(shown, text, thoughts);
    if (below) box.scrollTop = box.scrollHeight;
  };
  const times = {begin: performance.now(), first: 0, last: 0, end: 0, pieces: 0};
  let usage = null;
  let finish = '';
  let failure = '';
  const ticking = setInterval(() => say(at('figures'), figures_of(times, usage)), 200);
  try {
    const answer = await fetch('v1/chat/completions', {method: 'POST', signal: controller.signal,
      headers: headers({'Content-Type': 'application/json'}), body: JSON.stringify(request_of_chat())});
    if (!answer.ok) throw new Error(message_of(await answer.text(), answer.status));
    await read_events(answer, (event) => {
      if (event.error) throw new Error(event.error.message || 'the answer broke off');
      if (event.usage) usage = event.usage;
      for (const choice of event.choices || []) {
        if (choice.finish_reason) finish = choice.finish_reason;
        const piece = choice.delta.content || '';
        const thought = choice.delta.reasoning_content || '';
        if (!piece && !thought) continue;
        times.last = performance.now();
        if (!times.first) times.first = times.last;
        times.pieces += 1;
        text += piece;
        thoughts += thought;
        if (!drawing) requestAnimationFrame(draw);
        drawing = true;
      }
    });
  } catch (error) {
    if (error.name === 'AbortError') finish = 'stopped';
    else failure = error.message;
  }
  clearInterval(ticking);
  if (conversation !== messages) return;
  times.end = times.last || performance.now();
  draw();
  if (text || !failure) {
    messages.push({role: 'assistant', content: text});
    if (thoughts) messages[messages.length - 1].reasoning_content = thoughts;
    keep_conversation();
  }
  if (failure || finish !== 'stop')
    shown.append(element('span', failure || (finish === 'length' ? 'ended: most tokens' : finish || 'broke off'),
      failure ? 'note wrong' : 'note'));
  say(at('figures'), failure ? failure : figures_of(times, usage), failure);
  set_running(null);
}

at('ask').addEventListener('submit', (event) => {
  event.preventDefault();
  const question = at('question').value;
  if (running || !question.trim()) return;
  at('question').value = '';
  messages.push({role: 'user', content: question});
  add_message('user', question);
  answer_conversation();
});
at('question').addEventListener('keydown', (event) => {
  if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  at('ask').requestSubmit();
});
at('stop').addEventListener('click', () => { if (running) running.abort(); });
at('again').addEventListener('click', () => {
  if (running) return;
  while (messages.length && messages[messages.length - 1].role === 'assistant') messages.pop();
  while (at('messages').lastElementChild && at('messages').lastElementChild.classList.contains('assistant'))
    at('messages').lastElementChild.remove();
  if (messages.length) answer_conversation();
});
at('clear').addEventListener('click', () => {
  if (running) running.abort();
  messages = [];
  conversation_id = null;
  at('messages').replaceChildren();
  say(at('figures'), '');
  set_running(null);
});

list_conversations();
load_models();
