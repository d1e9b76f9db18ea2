// The table of behaviour that all SDKs share.
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { SandcrabError } from "../src/index.js";
import { collect, connect, unique } from "./support.js";

interface Step {
  call: string;
  on?: string;
  args?: unknown[];
  options?: Record<string, unknown>;
  save?: string;
  collect?: boolean;
  expect?: unknown;
  error?: string;
}

const table = JSON.parse(readFileSync(new URL("../../../sdk/behaviour.json", import.meta.url), "utf8")) as {
  name: string;
  steps: Step[];
}[];

type Saved = Map<string, unknown>;

/** Replaces `${name.field}` in all texts. */
function filled(value: unknown, saved: Saved): unknown {
  if (typeof value === "string") {
    return value.replace(/\$\{([a-z]+)(?:\.(\w+))?\}/g, (whole, name: string, field?: string) => {
      if (!saved.has(name)) return whole;
      const found = saved.get(name);
      return String(field ? (found as Record<string, unknown>)[field] : found);
    });
  }
  if (Array.isArray(value)) return value.map((item) => filled(item, saved));
  if (value === null || typeof value !== "object") return value;
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, filled(item, saved)]));
}

/** Why a value does not fit; `undefined` if it does. */
function mismatch(actual: unknown, expected: unknown, path = "result"): string | undefined {
  if (Array.isArray(expected)) {
    if (!Array.isArray(actual) || actual.length !== expected.length) return `${path} is ${JSON.stringify(actual)}`;
    for (const [at, item] of expected.entries()) {
      const wrong = mismatch(actual[at], item, `${path}[${at}]`);
      if (wrong) return wrong;
    }
    return undefined;
  }
  if (expected === null || typeof expected !== "object") {
    const is = expected === null ? actual === null || actual === undefined : actual === expected;
    return is ? undefined : `${path} is ${JSON.stringify(actual)}, not ${JSON.stringify(expected)}`;
  }
  for (const [key, item] of Object.entries(expected)) {
    const wrong = matchesPattern(actual, key, item, path);
    if (wrong) return wrong;
  }
  return undefined;
}

function matchesPattern(actual: unknown, key: string, item: unknown, path: string): string | undefined {
  switch (key) {
    case "$matches":
      return new RegExp(item as string).test(String(actual)) ? undefined : `${path} is ${JSON.stringify(actual)}`;
    case "$exists":
      return (actual !== undefined && actual !== null) === item ? undefined : `${path} is ${JSON.stringify(actual)}`;
    case "$length":
      return (actual as unknown[]).length === item
        ? undefined
        : `${path} has the length ${(actual as unknown[]).length}`;
    case "$contains": {
      let from = 0;
      for (const wanted of item as unknown[]) {
        const list = actual as unknown[];
        const found = list.findIndex((event, at) => at >= from && !mismatch(event, wanted));
        if (found < 0)
          return `${path} has no ${JSON.stringify(wanted)} after the first ${from}: ${JSON.stringify(list)}`;
        from = found + 1;
      }
      return undefined;
    }
    default:
      return mismatch((actual as Record<string, unknown> | undefined)?.[key], item, `${path}.${key}`);
  }
}

async function run(step: Step, saved: Saved): Promise<unknown> {
  const target = saved.get(step.on ?? "sandbox") as Record<string, (...args: unknown[]) => unknown>;
  const args = [...((filled(step.args ?? [], saved) as unknown[]) ?? [])];
  if (step.options) args.push(filled(step.options, saved));
  const method = target[step.call];
  if (typeof method !== "function") throw new Error(`no method ${step.call}`);
  const result = method.apply(target, args);
  return step.collect ? collect(result as AsyncIterable<unknown>) : result;
}

test.each(table)("$name", async ({ steps }) => {
  const saved: Saved = new Map<string, unknown>([
    ["sandbox", connect()],
    ["unique", unique()],
  ]);
  for (const [at, step] of steps.entries()) {
    const label = `step ${at + 1}, ${step.call}`;
    if (step.error) {
      const error = await run(step, saved).then(
        () => undefined,
        (error: unknown) => error,
      );
      expect(error, label).toBeInstanceOf(SandcrabError);
      expect((error as SandcrabError).code, label).toBe(step.error);
      continue;
    }
    const result = await run(step, saved);
    if (step.save) saved.set(step.save, result);
    if ("expect" in step) expect(mismatch(result, filled(step.expect, saved)), label).toBeUndefined();
  }
});
