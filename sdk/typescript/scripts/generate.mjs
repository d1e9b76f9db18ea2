// Writes src/generated.ts: the types of requests, responses and events in openapi.json.
// Usage: node scripts/generate.mjs [--check]    --check fails if the file differs, and does not write it.
import { readFileSync, writeFileSync } from "node:fs";
import openapiTS, { astToString } from "openapi-typescript";

const folder = new URL("../", import.meta.url);
const output = new URL("src/generated.ts", folder);
const document = JSON.parse(readFileSync(new URL("../../openapi.json", folder), "utf8"));

// The SDK builds its requests by hand, so the types of paths would only make the package larger. The errors
// differ in their code only, and are one class here.
document.paths = {};
delete document.components.parameters;
delete document.components.responses;
delete document.components.headers;
for (const name of Object.keys(document.components.schemas)) {
  const { code, httpStatus } = document.components.schemas[name].properties ?? {};
  if (code?.const && httpStatus) delete document.components.schemas[name];
}

const types = astToString(await openapiTS(document, { silent: true, defaultNonNullable: false }));
const text = `// Generated from openapi.json by scripts/generate.mjs. Do not edit.\n\n${types}`;
if (!process.argv.includes("--check")) {
  writeFileSync(output, text);
} else if (readFileSync(output, "utf8") !== text) {
  console.error("src/generated.ts differs from openapi.json: run `npm run generate`");
  process.exit(1);
}
