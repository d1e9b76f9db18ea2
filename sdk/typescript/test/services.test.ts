// The fields of a service, which are those of a process.
import { expect, test } from "vitest";
import { connect } from "./support.js";

test.each([
  ["true", { status: "completed", exitCode: 0 }],
  ["exit 3", { status: "failed", exitCode: 3 }],
])("a service that ended by itself: %s", async (command, expected) => {
  await using service = await connect().startService(command);
  expect(await service.waitForExit()).toMatchObject(expected);
  expect(service).toMatchObject({ ...expected, pid: undefined, endTime: expect.any(Date) });
  expect(await connect().getService(service.id)).toMatchObject({ ...expected, endTime: expect.any(Date) });
});

test("a service that was stopped, and started again", async () => {
  const sandbox = connect();
  await using service = await sandbox.startService("sleep 600");
  expect(service).toMatchObject({ status: "running", pid: expect.any(Number), endTime: undefined });
  await service.stop();
  expect(await service.getStatus()).toBe("killed");
  expect(service).toMatchObject({ pid: undefined, endTime: expect.any(Date) });
  await service.restart();
  expect(service).toMatchObject({
    status: "running",
    pid: expect.any(Number),
    endTime: undefined,
    exitCode: undefined,
  });
});

test("a service that waits for its next start", async () => {
  const sandbox = connect();
  await using service = await sandbox.startService("exit 1", { restart: { policy: "always", backoffMs: 60_000 } });
  for await (const event of service.streamOutput()) if (event.type === "exit") break;
  while ((await service.getService()).state !== "restarting");
  expect(service.status).toBe("starting");
});
