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
const failLater = async () => fail();

/** Runs a test with the errors that are reported, because no call can reject. None may be an unhandled rejection. */
async function withReports(run: (reports: unknown[]) => Promise<void>): Promise<void> {
  const unhandled: unknown[] = [];
  const onUnhandled = (error: unknown) => unhandled.push(error);
  process.on("unhandledRejection", onUnhandled);
  const reports: unknown[] = [];
  const report = vi.spyOn(console, "error").mockImplementation((_text, error) => void reports.push(error));
  try {
    await run(reports);
    // Unhandled rejections are events of their own.
    await new Promise((resolve) => setTimeout(resolve));
    expect(unhandled).toEqual([]);
  } finally {
    process.off("unhandledRejection", onUnhandled);
    report.mockRestore();
  }
}

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

test("a listener or an onExit that fails is reported, and is no unhandled rejection", () =>
  withReports(async (reports) => {
    const sandbox = server.sandbox();
    for (const onExit of [fail, failLater]) {
      const started = await sandbox.startProcess("true", { onExit });
      started.onExit(onExit);
    }
    await until(() => reports.length === 4, "all are reported");
    expect(new Set(reports)).toEqual(new Set([failure]));
  }));

test.each([
  ["throws", fail],
  ["rejects", failLater],
])("an onOutput that %s is reported, and no exit while the process runs", (_how, onOutput) =>
  withReports(async (reports) => {
    const exits: unknown[] = [];
    const errors: unknown[] = [];
    const onExit = (exitCode: number | null) => void exits.push(exitCode);
    const onError = (error: Error) => void errors.push(error);
    const command = "echo ready; sleep 600";
    await using one = await server.sandbox().startProcess(command, { onOutput, onExit });
    await using two = await server.sandbox().startProcess(command, { onOutput, onExit, onError });
    await until(() => reports.length + errors.length === 2, "both are reported");
    expect([reports, errors, exits]).toEqual([[failure], [failure], []]);
    expect([await one.getStatus(), await two.getStatus()]).toEqual(["running", "running"]);
  }),
);

test("closing a sandbox ends its callbacks", () =>
  withReports(async (reports) => {
    const sandbox = server.sandbox();
    const called: unknown[] = [];
    const note = (value: unknown) => void called.push(value);
    let output = 0;
    const onOutput = () => void output++;
    const command = "echo ready; sleep 600";
    const ids: string[] = [];
    for (const more of [{}, { onError: note }]) {
      const started = await sandbox.startProcess(command, { onOutput, onExit: note, ...more });
      started.onExit(note);
      ids.push(started.id);
    }
    await until(() => output === 2, "both are followed");
    await sandbox.close();
    await until(() => sandbox.client.slots.used === 0, "the connections are free");
    await new Promise((resolve) => setTimeout(resolve));
    expect([called, reports]).toEqual([[], []]);
    for (const id of ids) await server.sandbox().killProcess(id);
  }));

test("the exit code of a service whose execution is lost is unknown", async () => {
  const sandbox = server.sandbox();
  let onExit: (exitCode: number | null) => void = () => undefined;
  const exited = new Promise<number | null>((resolve) => {
    onExit = resolve;
  });
  // The end of its supervisor ends the process.
  const command = "until [ -e lose-it ]; do sleep 0.05; done; kill -9 $PPID; sleep 600";
  await using service = await sandbox.startService(command, { onExit });
  const waiting = service.waitForExit();
  await sandbox.writeFile("lose-it", "");
  expect((await waiting).end?.reason).toBe("lost");
  expect(await exited).toBeNull();
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
