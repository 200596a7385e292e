// The stack under test, as a client's conversation needs it.
//
// A conversation is run with the gateway's address, the address of the engine's metrics and the
// engine's process id. It prints a line for every check that holds, and ends with 1 at the first that
// does not.

import assert from "node:assert/strict";

const [url, engineMetrics, enginePid] = process.argv.slice(2);
export const base = `${url}/v1`;
export const question = [{ role: "user", content: "Write the numbers from one to a thousand in words." }];
// More than the context of any stack that these conversations are run on.
export const endless = [{ role: "user", content: "word ".repeat(5_000) }];
// How many requests are let in at once.
const places = 2;
// An answer of this many tokens takes seconds.
export const long = 1800;

/** Runs the checks in order. */
export async function converse(checks) {
  for (const [name, check] of Object.entries(checks)) {
    try {
      await check();
    } catch (error) {
      console.error(error);
      console.error(`DOES NOT HOLD: ${name}`);
      process.exit(1);
    }
    console.log(`holds: ${name}`);
  }
  process.exit(0);
}

/** The error that `action` ends with. */
export async function failure(action) {
  try {
    await action();
  } catch (error) {
    return error;
  }
  assert.fail("it ended without an error");
}

/** Others have all the places meanwhile, and leave as soon as someone was refused. */
export async function fullHouse(action) {
  const refusals = () => metric(`${url}/metrics`, "cadence_gateway_refusals_total");
  const before = await refusals();
  const leaving = new AbortController();
  for (let guest = 0; guest < places; guest++) {
    const response = await fetch(`${base}/chat/completions`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ messages: question, max_tokens: long, stream: true }),
      signal: leaving.signal,
    });
    assert.equal(response.status, 200);
  }
  const left = eventually(async () => (await refusals()) > before).finally(() => leaving.abort());
  const [result] = await Promise.all([action(), left]);
  return result;
}

/** The engine comes to rest: who leaves frees its place. */
export const nothingRuns = () => eventually(async () => (await metric(engineMetrics, "cadence_engine_running")) === 0);

export const killTheEngine = () => process.kill(Number(enginePid), "SIGKILL");

async function metric(address, name) {
  const lines = (await (await fetch(address)).text()).split("\n");
  const series = lines.filter((line) => line.startsWith(`${name} `) || line.startsWith(`${name}{`));
  return series.reduce((sum, line) => sum + Number(line.split(" ").at(-1)), 0);
}

/** Waits until the condition holds, for 10 s at most. */
async function eventually(condition) {
  const deadline = Date.now() + 10_000;
  while (!(await condition())) {
    assert(Date.now() < deadline, "not within 10 s");
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}
