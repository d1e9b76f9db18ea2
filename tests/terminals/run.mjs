// Real programs in real terminals: a screen that is repainted is the screen that all bytes give.
//
// The judge is xterm.js: one terminal is given all bytes of the program, a second one only what a new viewer receives. They
// are compared cell by cell after random disconnects, after the size has changed, after the server was killed, and after
// the journal has dropped most of the output.
//
// Usage: node run.mjs PROGRAM [SEED]

import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Server } from './server.mjs';
import { difference, isBlank, newTerminal, write } from './screens.mjs';

const DISCONNECTS = 50;
const CHECK_EVERY = 10;
const QUIET_MS = 150;
const WAIT_MS = 60_000;

// The interpreter itself: a version manager's wrapper may depend on HOME, which is the server's own here.
const python = execFileSync('python3', ['-c', 'import sys; print(sys.executable)'], { encoding: 'utf8' }).trim();

const programs = {
  bash: {
    command: 'bash --norc --noprofile -i',
    inputs: [
      "PS1='\\[\\e[1;32m\\]$ \\[\\e[0m\\]'\r", 'sleep 1000 &\r', 'jobs\r', 'sleep 1000\r', '\x1a', 'bg\r', 'jobs -l | cut -c1-4\r',
      "printf '\\e[38;2;10;200;30mcolour\\e[0m \\e[4:3mcurly\\e[0m 漢字 e\\u0301\\n'\r", 'for i in {1..40}; do echo line $i; done\r', '\x03', 'kill %1 %2; wait\r', 'clear\r',
    ],
  },
  python: { command: `${python} -q`, inputs: ['1 + 1\r', 'for i in range(30): print(i, "x" * i)\r\r', 'import sys; sys.ps1\r', '"é漢字" * 20\r', '\x03', '1/0\r'] },
  vim: {
    command: 'vim -u NONE -N -n -i NONE --cmd "set noswapfile ruler showcmd number hlsearch" text',
    inputs: ['\x1b:syntax on\r', '5G', '/line 7\r', 'ohello \x1b', ':vsplit\r', '\x17l', 'G', ':set list\r', 'gg', 'dd', 'u', ':only\r', '\x06', '\x02'],
  },
  less: { command: 'less text', inputs: [' ', ' ', 'G', 'g', '/line 9\r', 'n', 'j', 'k', '-S\r', '&7\r', '&\r'] },
  top: { command: 'top -d 1000', inputs: ['c', 'M', 'P', '1', 'z', 'x', 'h', '\x1b', 't', 'm'] },
  tmux: {
    command: 'env -u TMUX tmux -L terminals-test -f /dev/null new-session "bash --norc --noprofile"',
    inputs: [
      '\x02:set -g status-right ""\r', 'echo one\r', '\x02%', 'echo two\r', '\x02"', 'ls /\r', '\x02o', 'clear\r', '\x02z', '\x02z', 'seq 1 50\r', '\x02[', '\x1b[A\x1b[A', 'q',
    ],
    last: '\x02:kill-server\r',
  },
};

const [program, seedText = '1'] = process.argv.slice(2);
let seed = Number(seedText);
function random(below) {
  seed = (Math.imul(seed, 1_103_515_245) + 12_345) & 0x7fffffff;
  return (seed >> 8) % below;
}

/** One terminal, with an xterm.js that is given all of its bytes. */
class Watched {
  constructor(server, id, size) {
    Object.assign(this, { server, id, size, all: newTerminal(size), read: 0 });
  }

  static async create(server, command, size) {
    const { id } = await server.call('POST', '/api/terminal/create', { command, ...size });
    return new Watched(server, id, size);
  }

  type(text) {
    return this.server.call('POST', `/api/terminal/${this.id}/input`, { text });
  }

  /** Waits until nothing changes, and gives the new bytes to xterm.js. */
  async settle() {
    await this.server.call('POST', `/api/terminal/${this.id}/wait`, { idleMs: QUIET_MS, timeoutMs: WAIT_MS });
    const bytes = await this.server.output(this.id, this.read);
    this.read += bytes.length;
    await write(this.all, bytes);
    return bytes.length;
  }

  async resize(size) {
    await this.settle();
    await this.server.call('POST', `/api/terminal/${this.id}/resize`, size);
    this.all.resize(size.cols, size.rows);
    this.size = size;
  }

  async check(when) {
    await this.settle();
    const { socket, repaint } = await this.server.attach(this.id, this.size);
    socket.close();
    // Output between the wait and the repaint would be in the repaint only.
    if ((await this.settle()) > 0) return this.check(when);
    const repainted = newTerminal(this.size);
    await write(repainted, repaint);
    if (isBlank(this.all)) throw new Error(`${when}: the screen is empty`);
    const found = difference(this.all, repainted);
    if (found !== undefined) throw new Error(`${when}: the repaint differs from all bytes, ${found}`);
  }
}

async function drive(server, name) {
  const { command, inputs, last } = programs[name];
  writeFileSync(join(server.folder, 'text'), Array.from({ length: 300 }, (_, i) => `line ${i} of int main() { return ${i}; }`).join('\n'));
  const terminal = await Watched.create(server, command, { cols: 80, rows: 24 });
  await terminal.settle();
  for (let cut = 0; cut < DISCONNECTS; cut++) {
    const viewer = server.attachAndCut(terminal.id, terminal.size, random(30));
    await terminal.type(inputs[cut % inputs.length]);
    await viewer;
    if (cut % CHECK_EVERY === CHECK_EVERY - 1) await terminal.check(`after ${cut + 1} disconnects`);
  }
  for (const size of [{ cols: 100, rows: 30 }, { cols: 61, rows: 17 }, { cols: 80, rows: 24 }]) {
    await terminal.resize(size);
    await terminal.check(`at ${size.cols} x ${size.rows}`);
    await terminal.type(inputs[random(inputs.length)]);
    await terminal.check(`at ${size.cols} x ${size.rows}, after input`);
  }
  await server.kill();
  await terminal.check('after SIGKILL of the server');
  await terminal.type(inputs[0]);
  await terminal.check('after SIGKILL of the server, and input');
  if (last !== undefined) await terminal.type(last);
  await server.call('DELETE', `/api/terminal/${terminal.id}`);
}

/** Far more output than the journal keeps, in steps that it does keep, with colours and an unusual state before. */
async function overflow(server) {
  const terminal = await Watched.create(server, "stty raw -echo; while read -rsn1; do seq -f $'\\e[3%.0fm line %.0f\\e[K\\r' 1 20000 | head -c 250000; done", { cols: 80, rows: 24 });
  for (let step = 0; step < 20; step++) {
    await terminal.type('x');
    await terminal.settle();
    if (step % 5 === 4) await terminal.check(`after ${terminal.read} bytes`);
  }
  await server.kill();
  await terminal.check('after SIGKILL of the server');
  await server.call('DELETE', `/api/terminal/${terminal.id}`);
}

/** The comparison itself: one cell with another colour is a difference. */
async function judgeSeesDifferences() {
  const [red, green, same] = await Promise.all(['\x1b[31mx', '\x1b[32mx', '\x1b[31mx'].map(async (text) => {
    const terminal = newTerminal({ cols: 10, rows: 2 });
    await write(terminal, text);
    return terminal;
  }));
  if (difference(red, green) === undefined || difference(red, same) !== undefined) throw new Error('the comparison does not see colours');
}

await judgeSeesDifferences();
const server = await Server.start(program, ['--journal-bytes', '1MiB']);
let [passed, failed] = [0, 0];
try {
  for (const name of [...Object.keys(programs), 'overflow']) {
    const start = Date.now();
    try {
      await (name === 'overflow' ? overflow(server) : drive(server, name));
      console.log(`ok ${name} (${Date.now() - start} ms)`);
      passed++;
    } catch (error) {
      console.log(`FAILED ${name}: ${error.message}`);
      failed++;
    }
  }
} finally {
  await server.stop();
}
console.log(`test result: ${failed ? 'FAILED' : 'ok'}. ${passed} passed; ${failed} failed; 0 ignored`);
process.exitCode = failed ? 1 : 0;
