// The scripted conversation through the `openai` package.

import assert from "node:assert/strict";
import OpenAI from "openai";
import { base, converse, endless, failure, fullHouse, killTheEngine, long, nothingRuns, question } from "./stack.mjs";

const client = new OpenAI({ baseURL: base, apiKey: "unused" });
const model = (await client.models.list()).data[0].id;

const ask = (body = {}, options = {}) =>
  client.chat.completions.create({ model, messages: question, max_tokens: 24, temperature: 0, ...body }, options);
const text = async (body) => (await ask(body)).choices[0].message.content;

async function collect(stream) {
  const chunks = [];
  for await (const chunk of stream) chunks.push(chunk);
  return chunks;
}

const finishes = (chunks) => chunks.flatMap((it) => it.choices).filter((it) => it.finish_reason);

await converse({
  "models are listed": async () => {
    assert.deepEqual((await client.models.list()).data.map((it) => it.id), [model]);
    assert.equal((await client.models.retrieve(model)).id, model);
  },

  "an answer is whole": async () => {
    const answer = await ask({ max_tokens: 8 });
    assert(answer.choices[0].message.content);
    assert.equal(answer.choices[0].finish_reason, "length");
    assert.equal(answer.usage.completion_tokens, 8);
    assert.equal(answer.usage.total_tokens, answer.usage.prompt_tokens + 8);
    assert(answer._request_id);
  },

  "a stream says the same": async () => {
    const whole = await ask();
    const chunks = await collect(await ask({ stream: true, stream_options: { include_usage: true } }));
    const last = chunks.pop();
    assert.equal(chunks.map((it) => it.choices[0].delta.content ?? "").join(""), whole.choices[0].message.content);
    assert.deepEqual(finishes(chunks).map((it) => it.finish_reason), ["length"]);
    assert.deepEqual(last.choices, []);
    assert.equal(last.usage.total_tokens, whole.usage.total_tokens);
  },

  "a stream without usage has a choice in every chunk": async () => {
    assert((await collect(await ask({ stream: true }))).every((it) => it.choices.length === 1));
  },

  "the stream helper agrees": async () => {
    // It takes an answer that was cut by its cap for a failure, so this one is cut by a stop string.
    const stop = [(await text()).slice(7, 12)];
    const stream = client.chat.completions.stream({ model, messages: question, max_tokens: 24, temperature: 0, stop });
    const { message, finish_reason } = (await stream.finalChatCompletion()).choices[0];
    assert.deepEqual([message.content, finish_reason], [await text({ stop }), "stop"]);
  },

  "a conversation goes on": async () => {
    const messages = [];
    const prompts = [];
    for (const content of ["Hello.", "What did I say?", "And before that?"]) {
      messages.push({ role: "user", content });
      const answer = await ask({ messages });
      messages.push(answer.choices[0].message);
      prompts.push(answer.usage.prompt_tokens);
    }
    assert(prompts[0] < prompts[1] && prompts[1] < prompts[2], `${prompts}`);
  },

  "a stop string cuts": async () => {
    const whole = await text();
    const stop = whole.slice(7, 12);
    const { message, finish_reason } = (await ask({ stop: [stop] })).choices[0];
    assert.deepEqual([message.content, finish_reason], [whole.slice(0, whole.indexOf(stop)), "stop"]);
  },

  "logprobs spell the text": async () => {
    const { logprobs, message } = (await ask({ logprobs: true, top_logprobs: 3 })).choices[0];
    assert.equal(logprobs.content.map((it) => it.token).join(""), message.content);
    assert(logprobs.content.every((it) => it.logprob <= 0 && it.top_logprobs.length === 3));
  },

  "two choices are two": async () => {
    const answer = await ask({ n: 2, temperature: 1, seed: 1 });
    assert.deepEqual(answer.choices.map((it) => it.index), [0, 1]);
    assert(answer.choices.every((it) => it.message.content && it.finish_reason));
    const chunks = await collect(await ask({ n: 2, stream: true }));
    assert.deepEqual(finishes(chunks).map((it) => it.index).sort(), [0, 1]);
  },

  "completions are served": async () => {
    const body = { model, prompt: "Once upon a time", max_tokens: 8, temperature: 0 };
    const answer = await client.completions.create(body);
    assert.equal(answer.usage.completion_tokens, 8);
    const chunks = await collect(await client.completions.create({ ...body, stream: true }));
    assert.equal(chunks.map((it) => it.choices[0].text).join(""), answer.choices[0].text);
  },

  "errors have all their members": async () => {
    for (const [body, kind, status, code, param] of [
      [{ model: "gpt-4" }, OpenAI.NotFoundError, 404, "model_not_found", "model"],
      [{ messages: endless }, OpenAI.BadRequestError, 400, "context_length_exceeded", "messages"],
      [{ messages: [] }, OpenAI.BadRequestError, 400, undefined, "messages"],
      [{ temperature: 5 }, OpenAI.BadRequestError, 400, undefined, "temperature"],
      [{ max_tokens: "many" }, OpenAI.BadRequestError, 400, undefined, "max_tokens"],
      [{ user: "x".repeat(300_000) }, OpenAI.APIError, 413, "request_too_large", null],
    ]) {
      for (const stream of [false, true]) {
        const error = await failure(() => ask({ stream, ...body }));
        assert(error instanceof kind, error);
        assert.deepEqual([error.status, error.param, error.type], [status, param, "invalid_request_error"], error);
        if (code) assert.equal(error.code, code);
        assert(error.requestID && !error.message.includes("no body"), error);
      }
    }
  },

  "unknown paths are told": async () => {
    const nowhere = await failure(() => client.post("/nowhere"));
    assert.deepEqual([nowhere.status, nowhere.code], [404, "not_found"]);
    const method = await failure(() => client.delete("/chat/completions"));
    assert.deepEqual([method.status, method.code], [405, "method_not_allowed"]);
  },

  "a refusal is told": async () => {
    const error = await fullHouse(() => failure(() => ask({}, { maxRetries: 0 })));
    assert.deepEqual([error.status, error.type], [503, "overloaded_error"]);
    assert(error.code && error.requestID, error);
    const wait = Number(error.headers.get("retry-after"));
    assert(wait >= 1 && wait <= 59, `${wait}`);
  },

  "a refusal is retried": async () => {
    assert(await fullHouse(() => text({ max_tokens: 4 })));
  },

  "who leaves a stream frees its place": async () => {
    let chunks = 0;
    const stream = await ask({ stream: true, max_tokens: long });
    for await (const _ of stream) if (++chunks === 5) break;
    await nothingRuns();
  },

  "who aborts frees its place": async () => {
    const signal = AbortSignal.timeout(500);
    assert(await failure(() => ask({ max_tokens: long }, { signal })) instanceof OpenAI.APIUserAbortError);
    await nothingRuns();
  },

  "an engine that dies is an error": async () => {
    const chunks = [];
    const error = await failure(async () => {
      for await (const chunk of await ask({ stream: true, max_tokens: long })) {
        if (chunks.push(chunk) === 3) killTheEngine();
      }
    });
    assert(error instanceof OpenAI.APIError, error);
    assert.equal(error.code, "engine_lost");
    assert.deepEqual(finishes(chunks), []);
  },
});
