// Many calls at a time.
import { expect, test } from "vitest";
import { CuttingProxy } from "./proxy.js";
import { connect, until } from "./support.js";

test("1,000 concurrent execs use a bounded number of connections", async () => {
  const proxy = await CuttingProxy.start(process.env.SANDCRAB_URL as string);
  const sandbox = connect({ baseUrl: proxy.url, maxConnections: 32 });
  const calls = Array.from({ length: 1_000 }, (_, number) => sandbox.exec("echo", [String(number)]));
  const results = await Promise.all(calls);
  expect(results.map((result) => result.stdout)).toEqual(results.map((_, number) => `${number}\n`));
  expect(proxy.mostOpen).toBeLessThanOrEqual(32);
  await sandbox.close();
  await until(() => proxy.open === 0, "all connections are closed");
  await proxy.stop();
});

test("streams that use all connections can be ended", async () => {
  const sandbox = connect({ maxConnections: 4 });
  const process = await sandbox.startProcess("echo ready; sleep 600");
  const streams = Array.from({ length: 8 }, () => process.waitForExit());
  await until(() => sandbox.client.slots.used === 3, "the connections are in use");
  await process.kill();
  for (const exit of await Promise.all(streams)) expect(exit.status).toBe("killed");
});
