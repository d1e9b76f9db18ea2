import { defineConfig, type Options } from "tsup";

const options: Options = { target: "es2022", platform: "neutral", splitting: false };

export default defineConfig([
  {
    ...options,
    entry: ["src/index.ts", "src/xterm.ts", "src/ai.ts"],
    format: ["esm", "cjs"],
    define: { HAS_NODE: "true" },
    dts: true,
  },
  // Bundlers for browsers take this one, without the code that only Node needs.
  {
    ...options,
    entry: { browser: "src/index.ts" },
    format: ["esm", "cjs"],
    define: { HAS_NODE: "false" },
    treeshake: true,
  },
]);
