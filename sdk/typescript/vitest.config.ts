import { defineConfig } from "vitest/config";

export default defineConfig({
  define: { HAS_NODE: "true" },
  test: {
    include: ["test/**/*.test.ts"],
    globalSetup: "test/setup.ts",
    // A busy machine is slow. Tests wait for events, so a longer time costs nothing.
    testTimeout: 300_000,
    hookTimeout: 300_000,
    // Each file starts commands, and some start servers: more at a time would only wait for each other.
    maxWorkers: 2,
    reporters: ["default"],
  },
});
