// The class and the status of an error that has only a code, as in an event.
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { errorOf, SandcrabError } from "../src/errors.js";

interface Schema {
  properties?: { code?: { const?: string }; httpStatus?: { const?: number } };
}

const document = JSON.parse(readFileSync(new URL("../../../openapi.json", import.meta.url), "utf8"));
const statuses = Object.values(document.components.schemas as Record<string, Schema>).flatMap(({ properties }) => {
  const [code, status] = [properties?.code?.const, properties?.httpStatus?.const];
  return code && status ? [[code, status] as const] : [];
});

test("every code of the API has its status", () => {
  const codes: string[] = document.components.schemas.ErrorCode.enum;
  expect(statuses.map(([code]) => code).sort()).toEqual([...codes].sort());
  const found = statuses.map(([code]) => [code, errorOf({ code, message: "" }).status]);
  expect(found).toEqual(statuses.map((pair) => [...pair]));
});

test("an error of an event has the class of its code", () => {
  expect(errorOf({ code: "GIT_NETWORK_ERROR", message: "" })).toMatchObject({ name: "ServerError", status: 502 });
  expect(errorOf({ code: "FILE_NOT_FOUND", message: "" })).toMatchObject({ name: "NotFoundError", status: 404 });
  const unknown = errorOf({ code: "SOMETHING_NEW", message: "" });
  expect([unknown.constructor, unknown.status]).toEqual([SandcrabError, 0]);
});
