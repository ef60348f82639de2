// Loads GGUF files with llama.cpp on the CPU, and prints what it logs.
// node measure.mjs MODULES: MODULES is the directory in which npm install node-llama-cpp was called. Standard input is JSON: a
// list of {file, context, batch, flash, cache}. Each line of the output is the number of the item, and a line of the log.
import path from "node:path";
import {readFileSync} from "node:fs";
import {pathToFileURL} from "node:url";

const index = path.join(process.argv[2], "node_modules/node-llama-cpp/dist/index.js");
const {getLlama, LlamaLogLevel} = await import(pathToFileURL(index));
let item = -1;
const llama = await getLlama({
	gpu: false, build: "never", logLevel: LlamaLogLevel.debug,
	logger: (_, text) => { for (const line of text.split("\n")) console.log(item, line); }
});
for (const job of JSON.parse(readFileSync(0, "utf8"))) {
	item++;
	try {
		const model = await llama.loadModel({modelPath: job.file, useMmap: false, ignoreMemorySafetyChecks: true});
		const context = await model.createContext({
			contextSize: job.context, batchSize: job.batch, flashAttention: job.flash, sequences: 1, threads: 1,
			experimentalKvCacheKeyType: job.cache, experimentalKvCacheValueType: job.cache, ignoreMemorySafetyChecks: true
		});
		await context.dispose();
		await model.dispose();
	} catch (err) {
		console.log(item, "error: " + err);
	}
	// The log comes by another thread.
	await new Promise((done) => setTimeout(done, 100));
}
await llama.dispose();
