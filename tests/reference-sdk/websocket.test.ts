// The WebSocket transport: many requests on one socket, closing and reopening.
import { afterEach, beforeEach, expect, test } from "bun:test";
import { parseSSEStream, type ExecEvent, type SandboxClient } from "@cloudflare/sandbox";
import { connect, unique } from "./support";

let client: SandboxClient;
beforeEach(() => {
  client = connect("websocket");
});
afterEach(() => client.disconnect());

test("the first request opens the socket", async () => {
  expect(client.isWebSocketConnected()).toBe(false);
  expect(await client.utils.ping()).toBe("pong");
  expect(client.isWebSocketConnected()).toBe(true);
});

test("a long command does not delay others on the same socket", async () => {
  await client.connect();
  const pipe = `/tmp/${unique("pipe")}`;
  const long = client.commands.execute(`mkfifo ${pipe}; cat ${pipe}; rm ${pipe}`, undefined as never);
  const short = `until [ -p ${pipe} ]; do sleep 0.01; done; echo through > ${pipe}`;
  expect((await client.commands.execute(short, undefined as never)).exitCode).toBe(0);
  expect((await long).stdout).toBe("through\n");
});

test("closing the socket does not end commands, and the next request opens another", async () => {
  const { processId } = await client.processes.startProcess("sleep 0.5; echo survived", undefined as never);
  client.disconnect();
  expect(client.isWebSocketConnected()).toBe(false);
  const stream = await client.processes.streamProcessLogs(processId);
  const events = await Array.fromAsync(parseSSEStream<ExecEvent>(stream));
  expect(events.map((event) => event.data ?? "").join("")).toContain("survived\n");
});

test("an idle client closes its socket", async () => {
  await client.utils.ping();
  const deadline = Date.now() + 10_000;
  while (client.isWebSocketConnected() && Date.now() < deadline) await Bun.sleep(50);
  expect(client.isWebSocketConnected()).toBe(false);
  expect(await client.utils.ping()).toBe("pong");
});

test("a cancelled stream frees its slot and does not affect others", async () => {
  await client.connect();
  for (let n = 0; n < 20; n += 1) {
    const stream = await client.commands.executeStream("yes | head -c 5000000", undefined as never);
    const reader = stream.getReader();
    await reader.read();
    await reader.cancel();
  }
  const answers = await Promise.all(
    Array.from({ length: 20 }, (_, n) => client.commands.execute(`echo ${n}`, undefined as never)),
  );
  expect(answers.map((answer) => answer.stdout)).toEqual(Array.from({ length: 20 }, (_, n) => `${n}\n`));
});
