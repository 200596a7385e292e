"""The scripted conversation through LiteLLM, which maps errors to its own kinds by their words."""

import os

# Its table of prices would be fetched when it is imported.
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"

import litellm

from stack import BASE, ENDLESS, LONG, QUESTION, converse, full_house, kill_the_engine, nothing_runs, raises

litellm.suppress_debug_info = True
model = litellm.get_valid_models(
    check_provider_endpoint=True, custom_llm_provider="openai", api_key="unused", api_base=BASE
)[0].removeprefix("openai/")


def ask(**options):
    options = {"model": model, "messages": QUESTION, "max_tokens": 24, "temperature": 0} | options
    options["model"] = "openai/" + options["model"]
    return litellm.completion(api_base=BASE, api_key="unused", **options)


def text(**options):
    return ask(**options).choices[0].message.content


def an_answer_is_whole():
    answer = ask(max_tokens=8)
    assert answer.choices[0].message.content and answer.choices[0].finish_reason == "length", answer
    assert answer.usage.completion_tokens == 8, answer.usage


def a_stream_says_the_same():
    chunks = list(ask(stream=True, stream_options={"include_usage": True}))
    assert "".join(it.choices[0].delta.content or "" for it in chunks if it.choices) == text()
    assert [it.choices[0].finish_reason for it in chunks if it.choices and it.choices[0].finish_reason] == ["length"]
    assert chunks[-1].usage.completion_tokens == 24, chunks[-1]


def a_conversation_goes_on():
    messages = []
    for question in ["Hello.", "What did I say?"]:
        messages.append({"role": "user", "content": question})
        messages.append(ask(messages=messages).choices[0].message.model_dump())
    assert messages[1]["content"] and messages[3]["content"]


def a_stop_string_cuts():
    whole = text()
    stop = whole[7:12]
    assert text(stop=[stop]) == whole[: whole.find(stop)]


def completions_are_served():
    options = {"model": f"text-completion-openai/{model}", "prompt": "Once upon a time", "max_tokens": 8}
    answer = litellm.text_completion(api_base=BASE, api_key="unused", temperature=0, **options)
    assert answer.choices[0].text and answer.usage.completion_tokens == 8, answer


def errors_are_typed():
    with raises(litellm.NotFoundError) as caught:
        ask(model="gpt-4")
    assert caught.error.status_code == 404 and "gpt-4" in str(caught.error), caught.error
    with raises(litellm.ContextWindowExceededError):
        ask(messages=ENDLESS)
    with raises(litellm.ContextWindowExceededError):
        ask(messages=ENDLESS, stream=True)
    with raises(litellm.BadRequestError) as caught:
        ask(temperature=5)
    assert "temperature" in str(caught.error), caught.error


def a_refusal_is_told():
    with full_house(), raises((litellm.ServiceUnavailableError, litellm.InternalServerError)) as caught:
        ask(max_retries=0)
    assert caught.error.status_code == 503, caught.error


def a_refusal_is_retried():
    with full_house():
        assert text(max_tokens=4, max_retries=2)


def who_leaves_a_stream_frees_its_place():
    stream = ask(stream=True, max_tokens=LONG)
    for _, _ in zip(range(5), stream):
        pass
    stream.completion_stream.close()
    nothing_runs()


def an_engine_that_dies_is_an_error():
    finished = []
    with raises((litellm.APIError, litellm.ServiceUnavailableError, litellm.InternalServerError)) as caught:
        for number, chunk in enumerate(ask(stream=True, max_tokens=LONG)):
            finished += [it for it in chunk.choices if it.finish_reason]
            if number == 3:
                kill_the_engine()
    # Our own words: LiteLLM also objects, in its own, to a stream that merely ends.
    assert not finished and "connection to the engine" in str(caught.error), caught.error


converse(
    an_answer_is_whole,
    a_stream_says_the_same,
    a_conversation_goes_on,
    a_stop_string_cuts,
    completions_are_served,
    errors_are_typed,
    a_refusal_is_told,
    a_refusal_is_retried,
    who_leaves_a_stream_frees_its_place,
    an_engine_that_dies_is_an_error,
)
