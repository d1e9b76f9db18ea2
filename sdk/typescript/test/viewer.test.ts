// The viewer of a terminal, with sockets whose events the test decides.
import { beforeEach, expect, test } from "vitest";
import { connect, until } from "./support.js";

const sockets: ManualSocket[] = [];

class ManualSocket {
  readyState = 0;
  onopen: (() => void) | null = null;
  onclose: (() => void) | null = null;
  onerror: (() => void) | null = null;
  onmessage: ((event: { data: unknown }) => void) | null = null;

  constructor(readonly url: string) {
    sockets.push(this);
  }

  open(): void {
    this.readyState = 1;
    this.onopen?.();
  }

  ready(cursor: number): void {
    const frame = { type: "ready", cursor, cols: 80, rows: 24, incarnation: "1" };
    this.onmessage?.({ data: JSON.stringify(frame) });
  }

  repaint(cursor: number): void {
    this.onmessage?.({ data: JSON.stringify({ type: "repaint", cursor }) });
  }

  lose(): void {
    this.readyState = 3;
    this.onclose?.();
  }

  output(length: number): void {
    this.onmessage?.({ data: new ArrayBuffer(length) });
  }

  send(): void {}

  close(): void {
    this.readyState = 2;
  }
}

beforeEach(() => {
  sockets.length = 0;
});

async function socket(number: number): Promise<ManualSocket> {
  await until(() => sockets.length > number, "the socket is made");
  return sockets[number] as ManualSocket;
}

test("a viewer that continues after a pause has one socket, and every byte once", async () => {
  const sandbox = connect({ WebSocket: ManualSocket as unknown as typeof WebSocket });
  await using terminal = await sandbox.terminal();
  const connecting = terminal.connect();
  const first = await socket(0);
  first.open();
  const connection = await connecting;
  first.ready(0);
  const length = 9 << 20;
  first.output(length);
  expect(first.readyState).toBe(2);

  // The reader has caught up before the first socket is closed.
  const events = connection[Symbol.asyncIterator]();
  expect((await events.next()).value).toMatchObject({ type: "ready" });
  expect((await events.next()).value).toMatchObject({ type: "output" });
  const next = events.next();
  const second = await socket(1);
  expect(second.url).toContain(`since=${length}&`);
  first.output(5);
  first.readyState = 3;
  first.onclose?.();
  second.open();
  await until(() => !!second.onmessage, "the viewer has the second socket");
  second.ready(length);
  second.output(7);
  expect((await next).value).toMatchObject({ type: "ready" });
  expect((await events.next()).value).toMatchObject({ type: "output", data: new Uint8Array(7) });
  expect(connection.cursor).toBe(length + 7);
  expect(sockets).toHaveLength(2);
  await events.return();
  expect(second.readyState).toBe(2);
});

test("a repaint whose bytes did not arrive is asked for again", async () => {
  const sandbox = connect({ WebSocket: ManualSocket as unknown as typeof WebSocket });
  await using terminal = await sandbox.terminal();
  const connecting = terminal.connect();
  const first = await socket(0);
  first.open();
  const connection = await connecting;
  first.repaint(100);
  first.lose();

  const second = await socket(1);
  expect(second.url).not.toContain("since");
  second.open();
  await until(() => !!second.onmessage, "the viewer has the second socket");
  second.repaint(100);
  second.output(7);
  second.ready(100);
  expect(connection.cursor).toBe(100);
  second.repaint(200);
  second.lose();
  expect((await socket(2)).url).toContain("since=100&");
  const events = connection[Symbol.asyncIterator]();
  const types = [];
  for (let count = 0; count < 4; count++) types.push((await events.next()).value?.type);
  expect(types).toEqual(["disconnected", "repaint", "ready", "disconnected"]);
  await events.return();
});

test("an invalid frame is an error of the viewer", async () => {
  const sandbox = connect({ WebSocket: ManualSocket as unknown as typeof WebSocket });
  await using terminal = await sandbox.terminal();
  const connecting = terminal.connect();
  const first = await socket(0);
  first.open();
  const connection = await connecting;
  first.onmessage?.({ data: "{" });
  await expect(connection.exited).rejects.toMatchObject({ code: "INVALID_RESPONSE" });
  expect(first.readyState).toBe(2);
});

test("closing the sandbox, or an abort, ends a viewer whose socket is not open yet", async () => {
  for (const how of ["close", "abort"] as const) {
    sockets.length = 0;
    const sandbox = connect({ WebSocket: ManualSocket as unknown as typeof WebSocket });
    await using terminal = await connect().terminal();
    const controller = new AbortController();
    const viewed = await sandbox.getTerminal(terminal.id);
    const connecting = viewed?.connect({ signal: controller.signal });
    const code = how === "close" ? "CONNECTION_FAILED" : "ABORTED";
    const refused = expect(connecting).rejects.toMatchObject({ code });
    const first = await socket(0);
    if (how === "close") await sandbox.close();
    else controller.abort();
    await refused;
    expect(first.readyState).toBe(2);
  }
});
