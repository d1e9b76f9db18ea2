// Options that cannot be used are refused before anything is sent, and secrets are not shown.
import { expect, test } from "vitest";
import { getSandbox, type SandboxOptions, type SandcrabError } from "../src/index.js";
import { answer, fake } from "./fake.js";

const refused = { code: "VALIDATION_FAILED" };

function errorOf(options: SandboxOptions): SandcrabError {
  try {
    getSandbox({ baseUrl: "http://127.0.0.1:1", ...options });
  } catch (error) {
    return error as SandcrabError;
  }
  throw new Error(`not refused: ${JSON.stringify(options)}`);
}

test.each([
  ["maxConnections", Number.NaN],
  ["maxConnections", -1],
  ["maxConnections", 0],
  ["reconnectTimeout", Number.NaN],
  ["reconnectTimeout", -1],
])("%s: %d", (name, value) => {
  expect(errorOf({ [name]: value })).toMatchObject({
    ...refused,
    message: expect.stringContaining(`invalid ${name} ${value}`),
  });
});

test.each(["127.0.0.1:7070", "ftp://h", "http://", "http:///x", "http://h/?a=1", "http://h#a", "http://a b", ""])(
  "the base URL %j",
  (baseUrl) => expect(errorOf({ baseUrl })).toMatchObject({ ...refused, message: expect.stringContaining("base URL") }),
);

test("unlimited connections and attempts are options", async () => {
  const sandbox = await fake((_request, response) => answer(response, 200, { message: "pong" }), {
    maxConnections: Number.POSITIVE_INFINITY,
    reconnectTimeout: Number.POSITIVE_INFINITY,
  });
  expect(await sandbox.ping()).toMatchObject({ message: "pong" });
});

test.each(["sec\nret", "sec ret", "secrét", "secret\0", "sec\r\nX-A: 1ret"])("the token %j", (token) => {
  const { code, message } = errorOf({ token });
  expect([code, message]).toEqual(["VALIDATION_FAILED", "invalid token: it has characters that a token cannot have"]);
});

test.each([
  ["x-key", "sec\nret"],
  ["x-key", "sec€ret"],
  ["x key", "secret"],
  ["", "secret"],
])("the header %j: %j", (name, value) => {
  const { code, message } = errorOf({ headers: { [name]: value } });
  expect(code).toBe("VALIDATION_FAILED");
  expect(message).toContain(JSON.stringify(name));
  expect(message).not.toMatch(/sec|ret/);
});

test("white space around a token is left out, and a header is sent once", async () => {
  const seen: unknown[] = [];
  const sandbox = await fake(
    ({ headers, rawHeaders }, response) => {
      seen.push(headers.authorization, rawHeaders.filter((name) => name.toLowerCase() === "authorization").length);
      answer(response, 200, {});
    },
    { token: " secret-1\r\n", headers: { Authorization: "Bearer other", "X-Key": "ü" } },
  );
  await sandbox.ping();
  expect(seen).toEqual(["Bearer secret-1", 1]);
});

test("numbers that JSON does not have are refused", async () => {
  let requests = 0;
  const sandbox = await fake((_request, response) => {
    requests++;
    answer(response, 500, {});
  });
  const calls = [
    sandbox.exec("true", { timeout: Number.NaN }),
    sandbox.exec("true", { timeout: Number.POSITIVE_INFINITY }),
    sandbox.exec("true", { stream: true, grace: Number.NaN }),
    sandbox.exec("true", { stream: true, maxOutputBytes: Number.NaN }),
    sandbox.exec("true", { stream: true, maxOutputBytes: -1 }),
    sandbox.startProcess("true", { limits: { memoryBytes: Number.NaN } }),
    sandbox.waitForPort(1, { timeout: Number.NaN }),
    sandbox.waitForPort(1, { timeout: -1 }),
    sandbox.readBytes("\ud800"),
  ];
  for (const call of calls.slice(0, -1)) await expect(call).rejects.toMatchObject(refused);
  // What cannot be sent at all is an error at once, and not one of the connection.
  await expect(calls.at(-1)).rejects.toThrow(URIError);
  await expect(sandbox.setEnvVars({ A: 1n as never })).rejects.toThrow(TypeError);
  expect(requests).toBe(0);
});
