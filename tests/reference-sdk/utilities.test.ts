// The client's small calls, and its own hooks.
import { expect, test } from "bun:test";
import { SandboxClient } from "@cloudflare/sandbox";
import { baseUrl, failure, overBothTransports, unique } from "./support";

overBothTransports("utilities", (client, transport) => {
  test("ping and version", async () => {
    expect(await client().utils.ping()).toBe("pong");
    expect(await client().utils.getVersion()).toMatch(/^\d+\.\d+\.\d+/);
  });

  test("an unknown route is an error of the usual form", async () => {
    // The client requests /api/commands, which the server of the reference does not have either.
    const error = await failure(client().utils.getCommands());
    expect(error.httpStatus).toBe(404);
    expect(error.message).not.toBe("");
    expect(error.message).not.toBe("HTTP error! status: 404");
  });

  test("the client reports its transport", () => {
    expect(client().getTransportMode()).toBe(transport);
  });
});

test("the client's hooks are called for commands and errors", async () => {
  const heard: unknown[] = [];
  const client = new SandboxClient({
    baseUrl,
    retryTimeoutMs: 0,
    defaultHeaders: { "X-Sandbox-Id": "suite" },
    onCommandComplete: (...words) => heard.push(words),
    onError: (message, command) => heard.push([message, command]),
  });
  await client.commands.execute("echo out; echo err >&2; exit 5", undefined as never);
  expect(heard).toEqual([[false, 5, "out\n", "err\n", "echo out; echo err >&2; exit 5"]]);
  heard.length = 0;
  const error = await failure(client.commands.execute("true", unique("nobody")));
  expect(heard.at(-1)).toEqual([error.message, "true"]);
});
