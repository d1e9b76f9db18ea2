// Runs cases one after another and prints a summary that scripts/steps counts.

import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";

/** How long something that must happen may take. */
export const DEADLINE_MS = 60_000;

export async function run(suite, cases) {
  let failed = 0;
  for (const [name, test] of cases) {
    try {
      await test();
      console.log(`ok       ${suite}: ${name}`);
    } catch (error) {
      failed += 1;
      console.log(`FAILED   ${suite}: ${name}: ${error.stack ?? error}`);
    }
  }
  const verdict = failed ? "FAILED" : "ok";
  console.log(`test result: ${verdict}. ${cases.length - failed} passed; ${failed} failed; 0 ignored`);
  return failed;
}

/** Polls until `look` returns something. */
export async function eventually(what, look) {
  const deadline = Date.now() + DEADLINE_MS;
  for (;;) {
    const found = look();
    if (found) return found;
    assert.ok(Date.now() < deadline, `not in time: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

/** A command that writes its process id to a file and runs until it is ended. */
export function endless(file) {
  return `echo $$ > ${file}.tmp; mv ${file}.tmp ${file}; while :; do sleep 300; done`;
}

export async function pidFrom(file) {
  return eventually("the command runs", () => existsSync(file) && readFileSync(file, "utf8").trim());
}

export async function isGone(pid) {
  await eventually(`process ${pid} is gone`, () => !existsSync(`/proc/${pid}`));
}
