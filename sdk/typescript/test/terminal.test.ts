// Terminals over a WebSocket, and in xterm.js.
import xterm from "@xterm/headless";
import { expect, test } from "vitest";
import type { TerminalEvent } from "../src/index.js";
import { SandcrabAddon } from "../src/xterm.js";
import { TestServer } from "./server.js";
import { connect, unique, until } from "./support.js";

test("a viewer sees the screen, types, resizes and gets the exit code", async () => {
  await using terminal = await connect().terminal({ command: "echo hello; read line; stty size; exit 4" });
  await terminal.waitForText("hello");
  const connection = await terminal.connect({ cols: 100, rows: 30 });
  connection.resize(90, 20);
  const types: string[] = [];
  let output = "";
  for await (const event of connection) {
    types.push(event.type);
    if ("data" in event) output += new TextDecoder().decode(event.data);
    if (event.type === "ready") connection.write("\r");
  }
  expect(types.at(-1)).toBe("exit");
  expect(output).toContain("hello");
  expect(output).toContain("20 90");
  expect(await connection.exited).toMatchObject({ exitCode: 4 });
  expect(() => connection.write("x")).toThrow();
});

test("a token with characters that a subprotocol cannot have", async () => {
  const server = await TestServer.start();
  try {
    for (const token of ["ab/cd+ef0123456789==", "a,b:c@d(e)f?0123456789", "ab~cd-0123456789"]) {
      await server.changeToken(token);
      await using terminal = await server.sandbox().terminal();
      (await terminal.connect()).close();
    }
  } finally {
    await server.remove();
  }
});

test("a token is sent as a subprotocol, and a wrong one is refused", async () => {
  const server = await TestServer.start();
  try {
    await using terminal = await server.sandbox().terminal();
    const connection = await terminal.connect();
    connection.close();
    const other = await server.sandbox().getTerminal(terminal.id);
    expect(other?.id).toBe(terminal.id);
    await expect(server.sandbox({ token: "wrong" }).ping()).rejects.toMatchObject({
      code: "UNAUTHORIZED",
      status: 401,
    });
    const socket = await server.sandbox().openSocket();
    socket.send(JSON.stringify({ type: "request", id: "1", method: "GET", path: "/api/ping" }));
    const frame = await new Promise<string>((resolve) => {
      socket.onmessage = ({ data }) => resolve(String(data));
    });
    expect(JSON.parse(frame)).toMatchObject({ type: "response", id: "1", status: 200 });
    socket.close();
    await terminal.destroy();
    await terminal.destroy();
    await expect(terminal.connect()).rejects.toMatchObject({ code: "TERMINAL_NOT_FOUND", status: 404 });
  } finally {
    await server.remove();
  }
});

test("much output arrives complete at a slow reader", async () => {
  await using terminal = await connect().terminal({
    command: "stty -opost; read line; seq 200000; echo the-end; read line",
  });
  const connection = await terminal.connect();
  const parts: Uint8Array[] = [];
  for await (const event of connection) {
    if (event.type === "ready") connection.write("\r");
    if (event.type === "output") parts.push(event.data);
    if (parts.length % 50 === 0) await new Promise((resolve) => setTimeout(resolve, 1));
    if (event.type === "output" && Buffer.concat(parts.slice(-2)).includes("the-end")) break;
  }
  const text = Buffer.concat(parts).toString();
  let expected = "";
  for (let number = 1; number <= 200_000; number++) expected += `${number}\n`;
  expect(text.slice(text.indexOf("1\n2\n"), -"the-end\n".length) === expected).toBe(true);
});

test("waiting for the screen", async () => {
  await using terminal = await connect().terminal({ command: "sh", id: `t-${unique()}` });
  await terminal.send({ text: "echo A$((1))B", keys: ["enter"] });
  expect((await terminal.waitForText(/a\db/i)).text).toBe("A1B");
  await terminal.waitForIdle(50);
  expect((await terminal.screen({ format: "cells" })).cells?.length).toBeGreaterThan(0);
  expect(await new Response(await terminal.getRecording()).text()).toContain('"version"');
});

test("a request of waitForIdle is longer than the idle time", async () => {
  const waits: { timeoutMs: number }[] = [];
  const controller = new AbortController();
  const watching = (url: string | URL | Request, init?: RequestInit) => {
    if (String(url).endsWith("/wait")) {
      waits.push(JSON.parse(String(init?.body)));
      controller.abort();
    }
    return fetch(url, init);
  };
  await using terminal = await connect({ fetch: watching }).terminal({ command: "cat" });
  const waiting = terminal.waitForIdle(90_000, { signal: controller.signal });
  await expect(waiting).rejects.toMatchObject({ code: "ABORTED" });
  expect(waits[0]?.timeoutMs).toBeGreaterThan(90_000);
});

test("xterm.js shows a terminal", async () => {
  await using terminal = await connect().terminal({
    command: "echo hello; read line; echo got-$line; read line; exit 3",
  });
  const view = new xterm.Terminal({ cols: 70, rows: 12, allowProposedApi: true });
  const events: string[] = [];
  const onEvent = (event: TerminalEvent) => events.push(event.type);
  const onError = (error: unknown) => events.push(String(error));
  const addon = new SandcrabAddon(terminal, { onEvent, onError });
  view.loadAddon(addon);
  const shown = () => {
    const { active } = view.buffer;
    return Array.from({ length: active.length }, (_, row) => active.getLine(row)?.translateToString(true)).join("\n");
  };
  await until(() => shown().includes("hello") && events.includes("ready"), "xterm.js shows the output");
  view.input("key\r");
  await until(() => shown().includes("got-key"), "xterm.js shows the answer");
  view.resize(60, 10);
  await until(async () => (await terminal.screen()).cols === 60, "the terminal has the size of xterm.js");
  view.input("\r");
  await until(() => events.includes("exit"), "the exit arrives");
  // A key after the end has no effect. An uncaught error would fail this test.
  view.input("late");
  await new Promise((resolve) => setTimeout(resolve));
  expect(events.at(-1)).toBe("exit");
  addon.dispose();
  view.dispose();
});
