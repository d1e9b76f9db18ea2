// A server of its own for a test, which can be killed, and the few calls that the tests need.

import { spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import WebSocket from 'ws';

const START_MS = 30_000;

export class Server {
  /** Starts the program with these options, and waits until it listens. */
  static async start(program, options) {
    const folder = mkdtempSync(join(process.env.TMPDIR ?? tmpdir(), 'sandcrab-server.'));
    const fixed = ['serve', '--no-auth', '--listen', '127.0.0.1:0', '--stop-executions', '--stop-grace', '2s'];
    const places = ['--state-dir', join(folder, 'state'), '--workspace', folder];
    const env = { ...process.env, HOME: folder, TMUX_TMPDIR: folder };
    const child = spawn(program, [...fixed, ...places, ...options], { stdio: ['ignore', 'pipe', 'inherit'], env });
    const server = new Server();
    Object.assign(server, { child, folder, ended: new Promise((resolve) => child.on('exit', resolve)) });
    server.url = await new Promise((resolve, reject) => {
      let text = '';
      child.stdout.on('data', (data) => {
        text += data;
        const found = /http:\/\/127\.0\.0\.1:\d+/.exec(text);
        if (found) resolve(found[0]);
      });
      child.on('exit', () => reject(new Error(`the server exited: ${text}`)));
      setTimeout(() => reject(new Error(`no address within ${START_MS} ms: ${text}`)), START_MS).unref();
    });
    return server;
  }

  async stop() {
    this.child.kill('SIGTERM');
    await this.ended;
    rmSync(this.folder, { recursive: true, force: true });
  }

  /** Kills the serving process with SIGKILL. Its parent starts another one on the same socket. */
  async kill() {
    const children = readFileSync(`/proc/${this.child.pid}/task/${this.child.pid}/children`, 'utf8').trim().split(' ');
    const pid = children.find((id) => Number(/^Threads:\s*(\d+)/m.exec(readFileSync(`/proc/${id}/status`, 'utf8'))[1]) > 1);
    process.kill(Number(pid), 'SIGKILL');
    await this.call('GET', '/api/ping');
  }

  /** A request with a JSON response. A connection that breaks is tried again, since every request here may be repeated. */
  async call(method, path, body) {
    const raw = body instanceof Uint8Array;
    const headers = raw ? { 'content-type': 'application/octet-stream' } : { 'content-type': 'application/json' };
    const text = raw ? body : body === undefined ? undefined : JSON.stringify(body);
    for (const start = Date.now(); ; ) {
      try {
        const response = await fetch(this.url + path, { method, headers: body === undefined ? {} : headers, body: text });
        const answer = await response.json();
        if (!response.ok) throw Object.assign(new Error(`${method} ${path}: ${JSON.stringify(answer)}`), { response: answer });
        return answer;
      } catch (error) {
        if (error.response || Date.now() - start > START_MS) throw error;
        await sleep(50);
      }
    }
  }

  /** The raw output of a terminal from an offset on. */
  async output(id, from) {
    const headers = from > 0 ? { range: `bytes=${from}-` } : {};
    const response = await fetch(`${this.url}/api/process/${id}/output?stream=stdout`, { headers });
    if (response.status === 416) return Buffer.alloc(0);
    if (!response.ok) throw new Error(`output: ${response.status} ${await response.text()}`);
    return Buffer.from(await response.arrayBuffer());
  }

  /** Attaches a viewer; its socket and the bytes until the server said that the screen is repainted. */
  async attach(id, { cols, rows }) {
    const socket = new WebSocket(`${this.url.replace('http', 'ws')}/ws/terminal?terminalId=${id}&cols=${cols}&rows=${rows}`);
    const pieces = [];
    await new Promise((resolve, reject) => {
      socket.on('message', (data, binary) => {
        if (binary) pieces.push(data);
        else if (JSON.parse(data).type === 'ready') resolve();
      });
      socket.on('error', reject);
      socket.on('close', () => reject(new Error('the server closed a viewer before it was ready')));
    });
    return { socket, repaint: Buffer.concat(pieces) };
  }

  /** Attaches a viewer that is cut off after a random time, ready or not. */
  async attachAndCut(id, { cols, rows }, ms) {
    const socket = new WebSocket(`${this.url.replace('http', 'ws')}/ws/terminal?terminalId=${id}&cols=${cols}&rows=${rows}`);
    socket.on('error', () => {});
    await sleep(ms);
    socket.terminate();
  }
}
