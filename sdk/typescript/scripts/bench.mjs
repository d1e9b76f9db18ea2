// Compares exec("true") of the SDK with bare clients that keep their connection, in one run: `request` of undici, and `fetch`.
// Usage: SANDCRAB_URL=… [SANDCRAB_TOKEN=…] node scripts/bench.mjs [ROUNDS]
// Fails if the SDK takes more than 1.5 times as long as undici.
import { request } from "undici";
import { getSandbox } from "../dist/index.js";

const MAX_RATIO = 1.5;
const BATCH = 50;
const rounds = Number(process.argv[2] ?? 20);
const url = process.env.SANDCRAB_URL ?? "http://127.0.0.1:7070";
const token = process.env.SANDCRAB_TOKEN;

const sandbox = getSandbox({ baseUrl: url, token });
const headers = { "content-type": "application/json", ...(token && { authorization: `Bearer ${token}` }) };
const call = { method: "POST", headers, body: JSON.stringify({ command: "true" }) };
const path = `${url}/api/execute`;

const clients = {
  undici: async () => (await request(path, call)).body.json(),
  fetch: async () => (await fetch(path, call)).json(),
  SDK: () => sandbox.exec("true"),
};

/** Milliseconds of each call of a batch. */
async function timed(call) {
  const times = [];
  for (let count = 0; count < BATCH; count++) {
    const start = performance.now();
    await call();
    times.push(performance.now() - start);
  }
  return times;
}

// The batches alternate, so that all see the same machine.
const times = Object.fromEntries(Object.keys(clients).map((name) => [name, []]));
for (const client of Object.values(clients)) await timed(client);
for (let round = 0; round < rounds; round++) {
  for (const [name, client] of Object.entries(clients)) times[name].push(...(await timed(client)));
}
await sandbox.close();
const median = (name) => times[name].toSorted((a, b) => a - b)[times[name].length >> 1];
const ratio = median("SDK") / median("undici");
const shown = Object.keys(clients).map((name) => `${name} ${median(name).toFixed(3)} ms`);
console.log(`${shown.join(", ")}, ratio to undici ${ratio.toFixed(2)} (medians of ${times.SDK.length})`);
process.exit(ratio > MAX_RATIO ? 1 : 0);
