// SPDX-License-Identifier: Apache-2.0
// Earlier conversations, in this browser alone.
const HISTORY = 'transom-conversations';
const MOST_KEPT = 30;
let conversation_id = null;  // of the one that is shown; null: it has not begun

function kept_conversations() {
  try {
    const kept = JSON.parse(localStorage.getItem(HISTORY) || '[]');
    return Array.isArray(kept) ? kept.filter((each) => each && Array.isArray(each.messages)) : [];
  } catch (_) {
    return [];
  }
}

// Where the browser keeps nothing, or no more, the conversation goes on without.
function keep_conversations(kept) {
  while (kept.length) {
    try {
      localStorage.setItem(HISTORY, JSON.stringify(kept.slice(0, MOST_KEPT)));
      return;
    } catch (_) {
      kept = kept.slice(0, kept.length - 1);
    }
  }
  try {
    localStorage.removeItem(HISTORY);
  } catch (_) { /* there is nothing to remove */ }
}

function keep_conversation() {
  if (!messages.length) return;
  if (conversation_id === null) conversation_id = Date.now();
  const others = kept_conversations().filter((each) => each.id !== conversation_id);
  keep_conversations([{id: conversation_id, messages}, ...others]);
  list_conversations();
}

function list_conversations() {
  const places = kept_conversations().map((each) => {
    const first = each.messages.find((message) => message.role === 'user');
    const line = element('div', undefined, 'kept');
    const open = element('button', String(first ? first.content : '').slice(0, 80) || 'without words');
    const remove = element('button', 'Remove');
    open.type = remove.type = 'button';
    open.addEventListener('click', () => open_conversation(each));
    remove.addEventListener('click', () => {
      keep_conversations(kept_conversations().filter((other) => other.id !== each.id));
      list_conversations();
    });
    line.append(open, remove);
    return line;
  });
  at('history').replaceChildren(...places);
}

function open_conversation(kept) {
  if (running) return;
  messages = kept.messages.map((each) => ({...each}));
  conversation_id = kept.id;
  at('messages').replaceChildren();
  for (const message of messages) show_message(message);
  say(at('figures'), '');
  set_running(null);
}
