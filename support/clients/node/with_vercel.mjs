// The scripted conversation through Vercel's `ai` with `@ai-sdk/openai-compatible`.

import assert from "node:assert/strict";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { APICallError, generateText, streamText } from "ai";
import { base, converse, endless, failure, fullHouse, killTheEngine, long, nothingRuns, question } from "./stack.mjs";

const provider = createOpenAICompatible({ name: "cadence", baseURL: base, includeUsage: true });
// `ai` lists no models.
const model = (await (await fetch(`${base}/models`)).json()).data[0].id;

const options = (more = {}) => ({
  model: provider(model),
  messages: question,
  maxOutputTokens: 24,
  temperature: 0,
  ...more,
});
const ask = (more) => generateText(options(more));

/** All parts of a stream, errors among them. */
async function parts(more, onPart = () => {}) {
  const seen = [];
  for await (const part of streamText({ ...options(more), onError: () => {} }).fullStream) {
    seen.push(part);
    onPart(part, seen);
  }
  return seen;
}

const textOf = (seen) => seen.filter((it) => it.type === "text-delta").map((it) => it.text).join("");

await converse({
  "an answer is whole": async () => {
    const answer = await ask({ maxOutputTokens: 8 });
    assert(answer.text);
    assert.equal(answer.finishReason, "length");
    assert.equal(answer.usage.outputTokens, 8);
  },

  "a stream says the same": async () => {
    const whole = await ask();
    const seen = await parts();
    assert.equal(textOf(seen), whole.text);
    assert.deepEqual(seen.filter((it) => it.type === "error"), []);
    const last = seen.at(-1);
    assert.deepEqual([last.type, last.finishReason], ["finish", "length"]);
    assert.equal(last.totalUsage.totalTokens, whole.usage.totalTokens);
  },

  "a conversation goes on": async () => {
    const messages = [];
    for (const content of ["Hello.", "What did I say?"]) {
      messages.push({ role: "user", content });
      const answer = await ask({ system: "Be brief.", messages });
      messages.push(...answer.response.messages);
    }
    assert.deepEqual(messages.map((it) => it.role), ["user", "assistant", "user", "assistant"]);
  },

  "a stop string cuts": async () => {
    const whole = (await ask()).text;
    const stop = whole.slice(7, 12);
    const answer = await ask({ stopSequences: [stop] });
    assert.deepEqual([answer.text, answer.finishReason], [whole.slice(0, whole.indexOf(stop)), "stop"]);
  },

  "completions are served": async () => {
    const completion = { model: provider.completionModel(model), messages: undefined, prompt: "Once upon a time" };
    const whole = await ask(completion);
    assert(whole.text);
    assert.equal(textOf(await parts(completion)), whole.text);
  },

  "errors are typed": async () => {
    for (const [more, status, code, param] of [
      [{ model: provider("gpt-4") }, 404, "model_not_found", "model"],
      [{ messages: endless }, 400, "context_length_exceeded", "messages"],
      [{ temperature: 5 }, 400, undefined, "temperature"],
    ]) {
      const streamed = (await parts(more)).find((it) => it.type === "error").error;
      for (const error of [await failure(() => ask(more)), streamed]) {
        assert(APICallError.isInstance(error), error);
        assert.deepEqual([error.statusCode, error.data.error.param], [status, param], error);
        if (code) assert.equal(error.data.error.code, code);
        assert(error.responseHeaders["x-request-id"] && !error.isRetryable);
      }
    }
  },

  "a refusal is told": async () => {
    const error = await fullHouse(() => failure(() => ask({ maxRetries: 0 })));
    assert.deepEqual([error.statusCode, error.isRetryable], [503, true], error);
  },

  "a refusal is retried": async () => {
    assert((await fullHouse(() => ask({ maxOutputTokens: 4 }))).text);
  },

  "who leaves a stream frees its place": async () => {
    const leaving = new AbortController();
    const seen = await parts({ maxOutputTokens: long, abortSignal: leaving.signal }, (part, { length }) => {
      if (length === 8) leaving.abort();
    });
    assert.equal(seen.at(-1).type, "abort", seen.at(-1));
    await nothingRuns();
  },

  "an engine that dies is an error": async () => {
    const seen = await parts({ maxOutputTokens: long }, (part, { length }) => {
      if (length === 8) killTheEngine();
    });
    const errors = seen.filter((it) => it.type === "error").map((it) => it.error);
    // Our own words: `ai` also objects, in its own, to a stream that merely ends.
    assert(errors.length === 1 && String(errors[0].message ?? errors[0]).includes("connection to the engine"), errors);
    assert(textOf(seen));
    assert(!seen.some((it) => it.finishReason === "stop" || it.finishReason === "length"), seen.at(-1));
  },
});
