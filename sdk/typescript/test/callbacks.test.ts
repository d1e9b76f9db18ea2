// The functions that a program gives to startProcess and startService.
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import type { Process } from "../src/index.js";
import { TestServer } from "./server.js";
import { until } from "./support.js";

let server: TestServer;
beforeAll(async () => {
  server = await TestServer.start();
});
afterAll(() => server.remove());

const failure = new Error("the callback failed");
const fail = () => {
  throw failure;
};

test.each(["startProcess", "startService"] as const)(
  "%s: an onStart that throws ends what was started",
  async (call) => {
    const sandbox = server.sandbox();
    const started: Process[] = [];
    const errors: Error[] = [];
    const onStart = (process: Process) => {
      started.push(process);
      fail();
    };
    const options = { onStart, onError: (error: Error) => errors.push(error) };
    const starting =
      call === "startProcess" ? sandbox.startProcess("sleep 600", options) : sandbox.startService("sleep 600", options);
    await expect(starting).rejects.toBe(failure);
    expect(errors).toEqual([failure]);
    expect(started).toHaveLength(1);
    if (call === "startProcess") expect(await started[0]?.getStatus()).toBe("killed");
    else expect(await sandbox.listServices()).toEqual([]);
  },
);

test("a listener or an onExit that throws is reported, and is no unhandled rejection", async () => {
  const sandbox = server.sandbox();
  const unhandled: unknown[] = [];
  const onUnhandled = (error: unknown) => unhandled.push(error);
  process.on("unhandledRejection", onUnhandled);
  const report = vi.spyOn(console, "error").mockImplementation(() => undefined);
  try {
    const started = await sandbox.startProcess("true", { onExit: fail });
    started.onExit(fail);
    await until(() => report.mock.calls.length === 2, "both are reported");
    for (const call of report.mock.calls) expect(call[1]).toBe(failure);
    // Unhandled rejections are events of their own.
    await new Promise((resolve) => setTimeout(resolve));
    expect(unhandled).toEqual([]);
  } finally {
    process.off("unhandledRejection", onUnhandled);
    report.mockRestore();
  }
});

test("startService takes the options of startProcess", async () => {
  const sandbox = server.sandbox();
  const output: string[] = [];
  let service: Process | undefined;
  const exitCode = await new Promise((resolve, reject) => {
    const options = {
      ...{ processId: "named", autoCleanup: false, onExit: resolve },
      ...{ onOutput: (_stream: string, data: string) => output.push(data) },
    };
    sandbox.startService("echo ready; exit 3", options).then((started) => {
      service = started;
    }, reject);
  });
  expect([exitCode, output.join(""), service?.id]).toEqual([3, "ready\n", "named"]);
  await using _running = await sandbox.startService("sleep 600", { serviceId: "busy" });
  const errors: Error[] = [];
  const again = sandbox.startService("sleep 600", { serviceId: "busy", onError: (error) => errors.push(error) });
  await expect(again).rejects.toMatchObject({ code: "SERVICE_ALREADY_EXISTS" });
  expect(errors).toMatchObject([{ code: "SERVICE_ALREADY_EXISTS" }]);
});
