// The terminal client of the package: `SandboxAddon`, which connects an xterm.js terminal to `/ws/pty`.
import { afterEach, beforeAll, expect, test } from "bun:test";
import { SandboxAddon } from "@cloudflare/sandbox/xterm";
import { baseUrl, connect, unique, withSession } from "./support";

type Listener<T> = (value: T) => void;

/** The part of xterm.js that the addon uses. */
class Terminal {
  cols = 80;
  rows = 24;
  text = "";
  private dataListeners = new Set<Listener<string>>();
  private resizeListeners = new Set<Listener<{ cols: number; rows: number }>>();
  private decoder = new TextDecoder();

  write(data: Uint8Array) {
    this.text += this.decoder.decode(data, { stream: true });
  }
  clear() {
    this.text = "";
  }
  focus() {}
  onData(listener: Listener<string>) {
    this.dataListeners.add(listener);
    return { dispose: () => this.dataListeners.delete(listener) };
  }
  onResize(listener: Listener<{ cols: number; rows: number }>) {
    this.resizeListeners.add(listener);
    return { dispose: () => this.resizeListeners.delete(listener) };
  }
  /** Types, as a user does. */
  type(text: string) {
    for (const listener of this.dataListeners) listener(text);
  }
  resize(cols: number, rows: number) {
    Object.assign(this, { cols, rows });
    for (const listener of this.resizeListeners) listener({ cols, rows });
  }
}

interface Attached {
  terminal: Terminal;
  addon: SandboxAddon;
  states: string[];
  errors: string[];
}

const attached: SandboxAddon[] = [];

/** Connects a terminal to the one of a session. */
function attach(sessionId: string, options: { reconnect?: boolean } = {}): Attached {
  const terminal = new Terminal();
  const states: string[] = [];
  const errors: string[] = [];
  const addon = new SandboxAddon({
    getWebSocketUrl: ({ origin, sessionId }) => `${origin}/ws/pty?sessionId=${sessionId}&cols=80&rows=24`,
    onStateChange: (state, error) => {
      states.push(state);
      if (error) errors.push(error.message);
    },
    ...options,
  });
  addon.activate(terminal as never);
  addon.connect({ sandboxId: "sandbox", sessionId });
  attached.push(addon);
  return { terminal, addon, states, errors };
}

/** Waits until a condition holds; `what` is for the message. */
async function until(what: string, holds: () => boolean) {
  const deadline = Date.now() + 25_000;
  while (!holds()) {
    if (Date.now() > deadline) throw new Error(`not within 25 s: ${what}`);
    await Bun.sleep(10);
  }
}

const connected = (one: Attached) => until("connected", () => one.addon.state === "connected");
const shows = (one: Attached, text: string) =>
  until(`${text} in ${JSON.stringify(one.terminal.text.slice(-300))}`, () => one.terminal.text.includes(text));

const client = connect("http");

beforeAll(() => {
  const { protocol, host } = new URL(baseUrl);
  Object.assign(globalThis, { location: { protocol, host } });
});
afterEach(() => attached.splice(0).forEach((addon) => addon.dispose()));

test("a command and its output, in the state of the session", async () => {
  await withSession(client, async (session) => {
    await client.commands.execute("cd /usr; export WORD=here", session);
    const one = attach(session);
    await connected(one);
    one.terminal.type('echo "$WORD:$PWD"\r');
    await shows(one, "here:/usr");
    expect(one.states).toEqual(["connecting", "connected"]);
    expect(one.errors).toEqual([]);
  });
});

test("the size follows the terminal", async () => {
  await withSession(client, async (session) => {
    const one = attach(session);
    await connected(one);
    one.terminal.resize(120, 40);
    one.terminal.type("stty size\r");
    await shows(one, "40 120");
  });
});

test("Ctrl-C ends what runs", async () => {
  await withSession(client, async (session) => {
    const one = attach(session);
    await connected(one);
    one.terminal.type("echo begin-$((1+1)); sleep 300; echo code-$?\r");
    await shows(one, "begin-2");
    one.terminal.type("\x03");
    one.terminal.type("echo free-$((1+1))\r");
    await shows(one, "free-2");
  });
});

test("output is there on reconnect, and several clients see the same", async () => {
  await withSession(client, async (session) => {
    const marker = unique("marker");
    const one = attach(session);
    await connected(one);
    one.terminal.type(`echo ${marker}-$((1+1))\r`);
    await shows(one, `${marker}-2`);
    one.addon.disconnect();
    const two = attach(session);
    const three = attach(session);
    await connected(two);
    await connected(three);
    expect(two.terminal.text).toContain(`${marker}-2`);
    two.terminal.type("echo both-$((1+1))\r");
    await shows(two, "both-2");
    await shows(three, "both-2");
  });
});

test("the end of the shell is told with its code, and the next connection gets a new shell", async () => {
  await withSession(client, async (session) => {
    const one = attach(session);
    await connected(one);
    one.terminal.type("exit 3\r");
    await until("the exit message", () => one.errors.includes("Session exited with code 3"));
    // The addon connects again by itself.
    await until("the second connection", () => one.states.includes("disconnected") && one.addon.state === "connected");
    one.terminal.type("echo again-$((1+1))\r");
    await shows(one, "again-2");
  });
});

test("a session that does not exist is refused", async () => {
  const one = attach(unique("none"), { reconnect: false });
  await until("disconnected", () => one.states.at(-1) === "disconnected");
  expect(one.errors.length).toBeGreaterThan(0);
});
