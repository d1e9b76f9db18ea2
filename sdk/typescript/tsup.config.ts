import { defineConfig } from "tsup";

export default defineConfig({
  entry: ["src/index.ts", "src/xterm.ts", "src/ai.ts"],
  format: ["esm", "cjs"],
  target: "es2022",
  platform: "neutral",
  dts: true,
  clean: true,
  splitting: false,
});
