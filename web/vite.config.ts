// One script and one style, without names that change: crates/report takes them up as they are.
import { defineConfig } from "vite";

export default defineConfig({
  build: {
    outDir: "dist",
    emptyOutDir: true,
    cssCodeSplit: false,
    target: "es2022",
    modulePreload: false,
    lib: { entry: "src/main.ts", formats: ["iife"], name: "plimsoll", fileName: () => "report.js", cssFileName: "report" },
  },
});
